// SPDX-License-Identifier: GPL-3.0-or-later
// Common ground of all kernels. Every kernel takes its op's arguments, a tiling, and its buffers, and does nothing when
// its arguments are all zero (the warm-up). SHAPE_CPU is 1 for CPU devices: a work-group is one work-item that uses wide
// vectors. On GPUs work-items stand side by side. Sums are in a fixed order on both; contraction is off, fma is explicit.
#pragma OPENCL FP_CONTRACT OFF

// Before loops of constant length over arrays that must live in registers: left alone, PoCL 3.1 keeps them in memory, at
// a quarter of the speed.
#define UNROLL _Pragma("unroll")
#if SHAPE_CPU // where a loop that can't be unrolled has PoCL's compiler print how many warnings it has
#define UNROLL_4
#else
#define UNROLL_4 _Pragma("unroll 4")
#endif
// Loops of few steps over much code, which compilers would unroll by themselves.
#define UNROLL_2 _Pragma("unroll 2")
#define NO_UNROLL _Pragma("unroll 1")
#ifndef USES // the program of all ops
#define USES (USE_ROWS | USE_PRODUCTS | USE_EXPERTS | USE_HEADS | USE_KEYS)
#endif
#ifndef BUILD_PARTS // all of them
#define BUILD_PARTS 0x7ffff
#endif
// Functions whose constant parameters loops depend on, that are to be unrolled: inlined before any loop is looked at.
#define INLINE static __attribute__((always_inline))
#define GROUP_SIZE(x, y) __attribute__((reqd_work_group_size(x, y, 1)))

#if SHAPE_CPU
// What is read later, into the second cache, for the first has little room for what is under way; it need not exist. Compilers for devices that keep global memory apart refuse the builtin: NVIDIA's, on
// which tests run this shape, too.
INLINE void fetch(__global const uchar *p, uint bytes)
{
#if defined(__x86_64__) || defined(__aarch64__)
    UNROLL
    for (uint at = 0; at < bytes; at += 64)
        __builtin_prefetch((const void *)(ulong)(p + at), 0, 2);
#endif
}

#define ROWS 4 // of a matrix that are multiplied together

// The bytes of a row's place in the next ROWS rows: the processor foresees how a row goes on, not where the next ones begin.
INLINE void fetch_ahead(__global const void *p, uint row_bytes, uint bytes)
{
    fetch((__global const uchar *)p + ROWS * row_bytes, bytes);
}

#if defined(__x86_64__) || defined(__aarch64__)
// Scales are spread over lanes from memory, which costs nothing; left alone, compilers keep arrays in registers and move
// each number from lane to lane.
#define KEEP_IN_MEMORY(a, b) __asm__ volatile("" : : "r"(a), "r"(b) : "memory")
#else
#define KEEP_IN_MEMORY(a, b)
#endif
#endif

// Where buffers are the host's memory at the host's addresses, launches pass these with their arguments in one struct, for
// PoCL 3.1 allocates each argument of each launch by itself. Kernels with memory of a group's can't be called.
#if CALLS
#define BUFFER_OF(i) (__global void *)c.buffers[i]
#define BUFFERS_2    BUFFER_OF(0), BUFFER_OF(1)
#define BUFFERS_3    BUFFERS_2, BUFFER_OF(2)
#define BUFFERS_4    BUFFERS_3, BUFFER_OF(3)
#define BUFFERS_5    BUFFERS_4, BUFFER_OF(4)
#define BUFFERS_7    BUFFERS_5, BUFFER_OF(5), BUFFER_OF(6)
#define BUFFERS_8    BUFFERS_7, BUFFER_OF(7)
#define BUFFERS_12   BUFFERS_8, BUFFER_OF(8), BUFFER_OF(9), BUFFER_OF(10), BUFFER_OF(11)
#define CALLABLE(name, args, n)                                                                                        \
    struct call_##name {                                                                                               \
        struct args a;                                                                                                 \
        struct tiling t;                                                                                               \
        ulong buffers[n];                                                                                              \
    };                                                                                                                 \
    __kernel GROUP_SIZE(1, 1) void name##_call(const struct call_##name c)                                             \
    {                                                                                                                  \
        name(c.a, c.t, BUFFERS_##n);                                                                                   \
    }
#else
#define CALLABLE(name, args, n)
#endif

static float bf16(ushort bits)
{
    return as_float((uint)bits << 16);
}

// A tree, so that compilers for any vector width agree.
static float sum8(float8 v)
{
    float4 b = v.lo + v.hi;
    return (b.x + b.z) + (b.y + b.w);
}

static float sum16(float16 v)
{
    return sum8(v.lo + v.hi);
}

// e^x for finite x, within 2 units in the last place; 0 below -87, and never infinite. e^0 is 1 exactly.
static float exp_near(float x)
{
    float bounded = clamp(x, -87.0f, 88.0f);
    float n = rint(bounded * 1.44269504f);
    float r = fma(n, -0.693145751953125f, bounded);
    r = fma(n, -1.42860677e-6f, r);
    float p = fma(r, 1.38888889e-3f, 8.33333377e-3f);
    p = fma(r, p, 4.16666679e-2f);
    p = fma(r, p, 0.166666672f);
    p = fma(r, p, 0.5f);
    p = fma(r, p, 1.0f);
    p = fma(r, p, 1.0f);
    return x < -87.0f ? 0.0f : p * as_float((convert_int_rte(n) + 127) << 23);
}

static float16 exp16(float16 x)
{
    float16 bounded = clamp(x, -87.0f, 88.0f);
    float16 n = rint(bounded * 1.44269504f);
    float16 r = fma(n, (float16)(-0.693145751953125f), bounded);
    r = fma(n, (float16)(-1.42860677e-6f), r);
    float16 p = fma(r, (float16)(1.38888889e-3f), (float16)(8.33333377e-3f));
    p = fma(r, p, (float16)(4.16666679e-2f));
    p = fma(r, p, (float16)(0.166666672f));
    p = fma(r, p, (float16)(0.5f));
    p = fma(r, p, (float16)(1.0f));
    p = fma(r, p, (float16)(1.0f));
    return select(p * as_float16((convert_int16_rte(n) + 127) << 23), (float16)(0.0f), x < -87.0f);
}

// cos and sin of an angle of at most a million, each within 8e-8: quarter turns are taken off exactly enough by three
// constants that add up to pi / 2.
static float2 cos_sin(float angle)
{
    float n = rint(angle * 0.636619772f);
    float r = fma(n, -1.57079637f, angle);
    r = fma(n, 4.37113883e-8f, r);
    r = fma(n, 1.71512451e-15f, r);
    float s = r * r;
    float sine = fma(fma(fma(2.71831149e-6f, s, -1.98393348e-4f), s, 8.33329380e-3f), s, -0.166666657f);
    sine = fma(sine * s, r, r);
    float cosine = fma(fma(fma(2.44677067e-5f, s, -1.38877297e-3f), s, 4.16666567e-2f), s, -0.5f);
    cosine = fma(cosine, s, 1.0f);
    int quarter = convert_int_rte(n);
    float c = quarter & 1 ? sine : cosine;
    float d = quarter & 1 ? cosine : sine;
    return (float2)((quarter + 1) & 2 ? -c : c, quarter & 2 ? -d : d);
}

static float2 turn_pair(float2 pair, float2 turn)
{
    return (float2)(pair.x * turn.x - pair.y * turn.y, pair.y * turn.x + pair.x * turn.y);
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + exp_near(-x));
}

static float silu(float x)
{
    return x / (1.0f + exp_near(-x));
}

// The limit of gate and up, 0: none, and the beta of SiTU, 0: it is the limit of silu's.
#define LIMITS(a) ((float2)((a).limit, (a).situ_beta))
#define NO_LIMITS ((float2)(0.0f))

// What is no number stays none.
static float swiglu(float gate, float up, float2 limits)
{
    float limit = limits.x;
    bool has = limit > 0.0f;
    if (limits.y > 0.0f)
        return limits.y * tanh(gate / limits.y) * sigmoid(gate) * (limit * tanh(up / limit));
    gate = has && gate > limit ? limit : gate;
    up = has && up > limit ? limit : has && up < -limit ? -limit : up;
    return silu(gate) * up;
}

static void cache_put(__global void *cache, uint kv_type, ulong index, float value)
{
    if (kv_type == KV_F32)
        ((__global float *)cache)[index] = value;
    else
        vstore_half_rte(value, index, (__global half *)cache);
}

// How many cache rows a listed row sees, and how far its list is from the next row's.
static uint listed_of(const struct args_attention *a, uint row)
{
    return a->pool > 1 ? a->n_listed + (a->position + row + 1) % a->pool : a->n_listed;
}

static uint list_stride(const struct args_attention *a)
{
    return a->pool > 1 ? a->n_listed + a->pool - 1 : a->n_listed;
}

// One element of a cache of either type.
static float cache_at(__global const void *cache, uint kv_type, ulong index)
{
    return kv_type == KV_F32 ? ((__global const float *)cache)[index] : vload_half(index, (__global const half *)cache);
}
