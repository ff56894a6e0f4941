// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores and other instructions of PTX, by inline assembly. NVIDIA_MMA is 1 where the device has them.
//
// Of a fragment a lane holds (PTX ISA, mma.m16n8k16): g = lane / 4, j = lane % 4; of A rows g and g + 8, of B column g, of
// both inputs 2j, 2j + 1, 2j + 8, 2j + 9; of C rows g and g + 8, columns 2j and 2j + 1. Which input of the fragment is
// which of a row is free as long as A and B agree.
#if NVIDIA_MMA

INLINE void mma(float4 *c, uint4 a, uint b0, uint b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c->x), "+f"(c->y), "+f"(c->z), "+f"(c->w)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Two floats as float16, and what they lack as two more.
INLINE uint2 halves(float low, float high)
{
    uint2 both;
    float2 rounded;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both.x) : "f"(high), "f"(low));
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(rounded.x), "=f"(rounded.y)
        : "r"(both.x));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both.y) : "f"(high - rounded.y), "f"(low - rounded.x));
    return both;
}

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

INLINE float of_lane(float value, uint apart)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(apart));
    return other;
}

#endif
