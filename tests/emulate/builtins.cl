// SPDX-License-Identifier: GPL-3.0-or-later
// Stands before the kernels' text when it is compiled for this machine: the functions of OpenCL C that the kernels call, and
// those of kernels/ptx.cl. What needs other lanes is asked of group.c. A function that is missing here ends the build with
// its name.
#define SAME __attribute__((overloadable, always_inline)) static inline

// ---- where a work-item is

size_t emulate_local_id(void);
size_t emulate_group_id(uint axis);
size_t emulate_groups(uint axis);
size_t emulate_group_items(void);
void emulate_barrier(void) __attribute__((convergent));

SAME size_t get_local_id(uint axis)
{
    return axis == 0 ? emulate_local_id() : 0;
}
SAME size_t get_group_id(uint axis)
{
    return emulate_group_id(axis);
}
SAME size_t get_num_groups(uint axis)
{
    return emulate_groups(axis);
}
SAME size_t get_local_size(uint axis)
{
    return axis == 0 ? emulate_group_items() : 1;
}
SAME size_t get_global_id(uint axis)
{
    return get_group_id(axis) * get_local_size(axis) + get_local_id(axis);
}
SAME size_t get_global_size(uint axis)
{
    return get_num_groups(axis) * get_local_size(axis);
}
#define barrier(fence) emulate_barrier()

// One work-item runs at a time, and none is interrupted.
SAME uint atomic_inc(volatile __local uint *p)
{
    return (*p)++;
}

// ---- numbers

float fmaf(float, float, float) __attribute__((const));
float fabsf(float) __attribute__((const));
float fmaxf(float, float) __attribute__((const));
float fminf(float, float) __attribute__((const));
float rintf(float) __attribute__((const));
float sqrtf(float) __attribute__((const));
float tanhf(float) __attribute__((const));
float log1pf(float) __attribute__((const));

#define OF_VECTORS_1(name)                                                                                             \
    SAME float2 name(float2 v) { return (float2)(name(v.x), name(v.y)); }                                              \
    SAME float4 name(float4 v) { return (float4)(name(v.lo), name(v.hi)); }                                            \
    SAME float8 name(float8 v) { return (float8)(name(v.lo), name(v.hi)); }
#define OF_VECTORS_2(name)                                                                                             \
    SAME float2 name(float2 a, float2 b) { return (float2)(name(a.x, b.x), name(a.y, b.y)); }                          \
    SAME float4 name(float4 a, float4 b) { return (float4)(name(a.lo, b.lo), name(a.hi, b.hi)); }                      \
    SAME float8 name(float8 a, float8 b) { return (float8)(name(a.lo, b.lo), name(a.hi, b.hi)); }                      \
    SAME float4 name(float4 a, float b) { return name(a, (float4)(b)); }
#define OF_VECTORS_3(name)                                                                                             \
    SAME float2 name(float2 a, float2 b, float2 c) { return (float2)(name(a.x, b.x, c.x), name(a.y, b.y, c.y)); }      \
    SAME float4 name(float4 a, float4 b, float4 c) { return (float4)(name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi)); } \
    SAME float8 name(float8 a, float8 b, float8 c) { return (float8)(name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi)); } \
    SAME float16 name(float16 a, float16 b, float16 c)                                                                 \
    {                                                                                                                  \
        return (float16)(name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi));                                              \
    }

SAME float fabs(float x) { return fabsf(x); }
SAME float rint(float x) { return rintf(x); }
SAME float sqrt(float x) { return sqrtf(x); }
SAME float tanh(float x) { return tanhf(x); }
SAME float log1p(float x) { return log1pf(x); }
SAME float fmax(float a, float b) { return fmaxf(a, b); }
SAME float fmin(float a, float b) { return fminf(a, b); }
SAME float fma(float a, float b, float c) { return fmaf(a, b, c); }
OF_VECTORS_1(fabs)
OF_VECTORS_1(rint)
OF_VECTORS_2(fmax)
OF_VECTORS_2(fmin)
OF_VECTORS_3(fma)
SAME int isnan(float x) { return x != x; }
SAME uint min(uint a, uint b) { return a < b ? a : b; }
SAME uint max(uint a, uint b) { return a > b ? a : b; }
SAME int min(int a, int b) { return a < b ? a : b; }
SAME int max(int a, int b) { return a > b ? a : b; }
SAME ulong min(ulong a, ulong b) { return a < b ? a : b; }
SAME ulong max(ulong a, ulong b) { return a > b ? a : b; }
SAME uint clamp(uint x, uint low, uint high) { return min(max(x, low), high); }
SAME int clamp(int x, int low, int high) { return min(max(x, low), high); }
SAME float clamp(float x, float low, float high) { return fmin(fmax(x, low), high); }
SAME float16 clamp(float16 x, float low, float high)
{
    return (float16)(fmin(fmax(x.lo, (float8)(low)), (float8)(high)), fmin(fmax(x.hi, (float8)(low)), (float8)(high)));
}
SAME float16 rint(float16 x) { return (float16)(rint(x.lo), rint(x.hi)); }
SAME uint clz(uint x) { return x ? __builtin_clz(x) : 32; }
#define SELECT(type, n)                                                                                                \
    SAME type##n select(type##n no, type##n yes, int##n which) { return which < 0 ? yes : no; }
SELECT(float, 4)
SELECT(float, 8)
SELECT(float, 16)
SELECT(uint, 4)
SELECT(uint, 8)
SELECT(uint, 16)
SAME uint popcount(uint x) { return __builtin_popcount(x); }

SAME int convert_int_rte(float x) { return (int)rintf(x); }
SAME int16 convert_int16_rte(float16 x) { return __builtin_convertvector(rint(x), int16); }
#define CONVERT(to, from)                                                                                              \
    SAME to convert_##to(from v) { return __builtin_convertvector(v, to); }
CONVERT(float2, uint2)
CONVERT(float4, uint4)
CONVERT(float8, uint8)
CONVERT(float2, int2)
CONVERT(float4, int4)
CONVERT(float8, int8)
CONVERT(float4, char4)
CONVERT(float8, char8)
CONVERT(float4, uchar4)
CONVERT(float8, uchar8)
CONVERT(uint4, ushort4)
CONVERT(uint4, uchar4)
CONVERT(uint8, uchar8)
CONVERT(uint16, ushort16)
CONVERT(uint16, uchar16)
CONVERT(float16, int16)
CONVERT(float16, uint16)
CONVERT(float16, char16)
CONVERT(float16, uchar16)
CONVERT(int8, char8)
CONVERT(int4, char4)
CONVERT(int16, char16)

// ---- vectors that lie as their elements do

#define LOADS_AND_STORES(space, type, n)                                                                               \
    SAME type##n vload##n(size_t i, const space type *p)                                                               \
    {                                                                                                                  \
        type##n v;                                                                                                     \
        for (int k = 0; k < n; k++)                                                                                    \
            ((type *)&v)[k] = p[i * n + k];                                                                            \
        return v;                                                                                                      \
    }                                                                                                                  \
    SAME void vstore##n(type##n v, size_t i, space type *p)                                                            \
    {                                                                                                                  \
        for (int k = 0; k < n; k++)                                                                                    \
            p[i * n + k] = ((type *)&v)[k];                                                                            \
    }
#define OF_WIDTHS(space, type)                                                                                         \
    LOADS_AND_STORES(space, type, 2)                                                                                   \
    LOADS_AND_STORES(space, type, 4)                                                                                   \
    LOADS_AND_STORES(space, type, 8)                                                                                   \
    LOADS_AND_STORES(space, type, 16)
#define OF_TYPES(space)                                                                                                \
    OF_WIDTHS(space, float)                                                                                            \
    OF_WIDTHS(space, uint)                                                                                             \
    OF_WIDTHS(space, ushort)                                                                                           \
    OF_WIDTHS(space, uchar)                                                                                            \
    OF_WIDTHS(space, char)
OF_TYPES(__global)
OF_TYPES(__local)
OF_TYPES(__private)

// ---- float16

float emulate_of_half(ushort bits) __attribute__((const));
ushort emulate_half(float value) __attribute__((const));

SAME float vload_half(size_t i, const __global half *p)
{
    return emulate_of_half(((const __global ushort *)p)[i]);
}
SAME float4 vload_half4(size_t i, const __global half *p)
{
    const __global half *four = p + i * 4;
    return (float4)(vload_half(0, four), vload_half(1, four), vload_half(2, four), vload_half(3, four));
}
SAME float8 vload_half8(size_t i, const __global half *p)
{
    return (float8)(vload_half4(i * 2, p), vload_half4(i * 2 + 1, p));
}
SAME void vstore_half_rte(float value, size_t i, __global half *p)
{
    ((__global ushort *)p)[i] = emulate_half(value);
}

// ---- kernels/ptx.cl

#define MEETING_TRIES 2000 // each lets other groups run
#define PTX_INSTRUCTIONS
void emulate_mma(float4 *c, uint4 a, uint b0, uint b1) __attribute__((convergent));
float emulate_of_lane(float value, uint apart) __attribute__((convergent));
float emulate_from_lane(float value, uint lane) __attribute__((convergent));
void emulate_come(volatile __global uint *count) __attribute__((convergent));
uint emulate_look(const volatile __global uint *count) __attribute__((convergent));
void emulate_warp_barrier(void) __attribute__((convergent));
void emulate_copy(__local void *to, const __global void *from, uint bytes);
void emulate_copies_wait(void);
void emulate_copies_group(void);
void emulate_copies_wait_but_two(void);
uint emulate_halves_fma(uint a, uint b, uint c) __attribute__((const));

#define mma          emulate_mma
#define of_lane      emulate_of_lane
#define from_lane    emulate_from_lane
#define come         emulate_come
#define look         emulate_look
#define warp_barrier emulate_warp_barrier
#define copies_wait  emulate_copies_wait
#define copies_group        emulate_copies_group
#define copies_wait_but_two emulate_copies_wait_but_two
#define halves_fma   emulate_halves_fma

SAME void copy_16(__local void *to, const __global void *from)
{
    emulate_copy(to, from, 16);
}
SAME void copy_4(__local void *to, const __global void *from)
{
    emulate_copy(to, from, 4);
}
SAME uint masked_under(uint word, uint mask, uint high)
{
    return (word & mask) | high;
}
SAME ulong constant_8(__constant const ulong *from)
{
    return *from;
}
SAME uint two_halves(float low, float high)
{
    return emulate_half(low) | (uint)emulate_half(high) << 16;
}
SAME float of_low_half(uint both)
{
    return emulate_of_half(both & 0xffff);
}
SAME float of_high_half(uint both)
{
    return emulate_of_half(both >> 16);
}
SAME float2 of_two_halves(uint both)
{
    return (float2)(of_low_half(both), of_high_half(both));
}
SAME uint halves_add(uint a, uint b)
{
    return halves_fma(a, 0x3c003c00u, b);
}
SAME uint halves_sub(uint a, uint b)
{
    return halves_fma(b, 0xbc00bc00u, a);
}
// Adding a zero of the other sign would make -0 of a product +0.
SAME uint halves_mul(uint a, uint b)
{
    return halves_fma(a, b, (a ^ b) & 0x80008000u);
}
// Digit by digit: a byte of (b a), or with 8 its sign all over.
SAME uint pick(uint a, uint b, uint which)
{
    ulong both = (ulong)b << 32 | a;
    uint picked = 0;
    for (uint i = 0; i < 4; i++) {
        uint digit = which >> i * 4 & 15;
        uint byte = both >> (digit & 7) * 8 & 255;
        picked |= (digit & 8 ? byte & 128 ? 255u : 0u : byte) << i * 8;
    }
    return picked;
}
