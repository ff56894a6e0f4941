// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores and other instructions of PTX: all the inline assembly that there is, a function each. NVIDIA_MMA is
// 1 where the device has them. tests/emulate puts functions of the same names in their place, and defines PTX_INSTRUCTIONS.
//
// Of a fragment a lane holds (PTX ISA, mma.m16n8k16): g = lane / 4, j = lane % 4; of A rows g and g + 8, of B column g, of
// both inputs 2j, 2j + 1, 2j + 8, 2j + 9; of C rows g and g + 8, columns 2j and 2j + 1. Which input of the fragment is
// which of a row is free as long as A and B agree.
#if NVIDIA_MMA
#ifndef PTX_INSTRUCTIONS
#define PTX_INSTRUCTIONS

INLINE void mma(float4 *c, uint4 a, uint b0, uint b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c->x), "+f"(c->y), "+f"(c->z), "+f"(c->w)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// ---- two float16 in a register, each by itself, rounded to nearest

INLINE uint two_halves(float low, float high)
{
    uint both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

INLINE float2 of_two_halves(uint both)
{
    float2 two;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(two.x), "=f"(two.y)
        : "r"(both));
    return two;
}

INLINE float of_low_half(uint both)
{
    float low;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(low) : "r"(both));
    return low;
}

INLINE float of_high_half(uint both)
{
    float high;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }" : "=f"(high) : "r"(both));
    return high;
}

INLINE uint halves_add(uint a, uint b)
{
    uint sums;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sums) : "r"(a), "r"(b));
    return sums;
}

INLINE uint halves_sub(uint a, uint b)
{
    uint differences;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(differences) : "r"(a), "r"(b));
    return differences;
}

INLINE uint halves_mul(uint a, uint b)
{
    uint products;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(products) : "r"(a), "r"(b));
    return products;
}

INLINE uint halves_fma(uint a, uint b, uint c)
{
    uint sums;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
    return sums;
}

// ---- bits

// (word & mask) | high in one instruction: of two constants the compiler makes two.
INLINE uint masked_under(uint word, uint mask, uint high)
{
    uint both;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(both) : "r"(word), "r"(mask), "r"(high));
    return both;
}

// ---- bytes

// Those of two words that the digits of `which` number, the lowest first.
INLINE uint pick(uint a, uint b, uint which)
{
    uint picked;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(picked) : "r"(a), "r"(b), "r"(which));
    return picked;
}

// Bytes on their way to local memory: each work-item waits for its own, and others see them behind a barrier.
INLINE void copy_16(__local void *to, __global const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"((uint)(ulong)to), "l"(from) : "memory");
}

INLINE void copy_4(__local void *to, __global const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"((uint)(ulong)to), "l"(from) : "memory");
}

INLINE void copies_wait(void)
{
    asm volatile("cp.async.wait_all;" : : : "memory");
}

// Those since the last such call are a group; and a wait for all groups but the last two.
INLINE void copies_group(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

INLINE void copies_wait_but_two(void)
{
    asm volatile("cp.async.wait_group 2;" : : : "memory");
}

// A constant by the way that global memory has: constants' own brings lanes that want different ones theirs one by one.
INLINE ulong constant_8(__constant const ulong *from)
{
    ulong bits;
    asm("{ .reg .b64 at; cvta.const.u64 at, %1; ld.b64 %0, [at]; }" : "=l"(bits) : "l"((ulong)from));
    return bits;
}

// ---- lanes of a warp, all of which call these together

INLINE float of_lane(float value, uint apart)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(apart));
    return other;
}

// The same from a lane by its number.
INLINE float from_lane(float value, uint lane)
{
    float other;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(lane));
    return other;
}

INLINE void warp_barrier(void)
{
    asm volatile("bar.warp.sync 0xffffffff;" : : : "memory");
}

// ---- groups, all of which are resident

// One more has come: what it has written, and what others of its group had before a barrier, is there for those that see
// the count, and for others of their groups behind a barrier.
INLINE void come(volatile __global uint *count)
{
    asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [%0], 1;" : : "l"(count) : "memory");
}

INLINE uint look(const volatile __global uint *count)
{
    uint n;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(count) : "memory");
    return n;
}

#endif

// Two floats as float16, and what they lack as two more.
INLINE uint2 halves(float low, float high)
{
    uint first = two_halves(low, high);
    float2 rounded = of_two_halves(first);
    return (uint2)(first, two_halves(low - rounded.x, high - rounded.y));
}

#endif
