// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: ggml's IQ1, IQ2 and IQ3. Their grids are tables of numbers here, an entry being what 8 inputs, or 4, are multiplied
// with: one load instead of taking 2 or 3 bits apart. What says which entry and which signs, bits at many places of a
// block, is taken apart by vectors for a whole block at once and left in memory: then 8 inputs are the load of where
// their entry stands, a shift that brings their signs to the top, and an exclusive or with the entry.
#if defined(KIND_GRIDS) && SHAPE_CPU
#define KIND_TABLES

#define EIGHT_OF(V, e)                                                                                                 \
    V((e) & 3), V((e) >> 2 & 3), V((e) >> 4 & 3), V((e) >> 6 & 3), V((e) >> 8 & 3), V((e) >> 10 & 3), V((e) >> 12 & 3), \
        V((e) >> 14 & 3)
#define FOUR_OF(V, e) V((e) & 7), V((e) >> 3 & 7), V((e) >> 6 & 7), V((e) >> 9 & 7)

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
#define NUMBER(code) ((code) * 17 + ((code) >> 1) + 8)
#define ENTRY(e)     EIGHT_OF(NUMBER, e)
#elif defined(KIND_IS_IQ3_XXS)
#define NUMBER(code) ((code) * 8 + 4 + ((code) == 7) * 2)
#define ENTRY(e)     FOUR_OF(NUMBER, e)
#elif defined(KIND_IS_IQ3_S)
#define NUMBER(code) ((code) * 2 + 1)
#define ENTRY(e)     FOUR_OF(NUMBER, e)
#else
#define NUMBER(code) ((code) - 1)
#define ENTRY(e)     EIGHT_OF(NUMBER, e)
#endif

#if defined(KIND_IS_IQ2_XXS)
#define TABLE_ENTRIES GRID_IQ2_XXS(ENTRY)
#elif defined(KIND_IS_IQ2_XS)
#define TABLE_ENTRIES GRID_IQ2_XS(ENTRY)
#elif defined(KIND_IS_IQ2_S)
#define TABLE_ENTRIES GRID_IQ2_S(ENTRY)
#elif defined(KIND_IS_IQ3_XXS)
#define TABLE_ENTRIES GRID_IQ3_XXS(ENTRY)
#elif defined(KIND_IS_IQ3_S)
#define TABLE_ENTRIES GRID_IQ3_S(ENTRY)
#else
#define TABLE_ENTRIES GRID_IQ1_S(ENTRY)
#endif
__constant float __attribute__((aligned(64))) table[] = {TABLE_ENTRIES};

#if defined(KIND_IS_IQ3_XXS) || defined(KIND_IS_IQ3_S)
#define TABLE_EIGHT 2 // entries of 8 inputs
#else
#define TABLE_EIGHT 1
#endif
#define ENTRY_BYTES (8 / TABLE_EIGHT * (uint)sizeof(float))

// IQ1's eighths more or less: how many inputs share one.
#if defined(KIND_IS_IQ1_S)
#define TABLE_DELTA 32
#elif defined(KIND_IS_IQ1_M)
#define TABLE_DELTA 8
#endif

struct open_block {
    uint at[32 * TABLE_EIGHT]; // the entries' bytes in the table
#ifdef TABLE_DELTA
    float deltas[256 / TABLE_DELTA];
#endif
    uint signs[8]; // of 32 inputs each; IQ1 has none
    float scales[256 / KIND_SCALES];
};

typedef uint8 __attribute__((aligned(2))) near_uint8;

// All by 8 lanes: where a processor has wider vectors, the use of some slows those of 8 down.
INLINE uint8 words8(BYTES p)
{
    return *(__global const near_uint8 *)p;
}

INLINE uint8 numbers8(BYTES p)
{
    return convert_uint8(vload8(0, p));
}

// 4 times 7 signs in a word's lower bits, as bytes, and the eighths that make their numbers even.
INLINE uint8 all_even_signs(uint8 words)
{
    uint8 s = words & 0x7fu | words << 1 & 0x7f00u | words << 2 & 0x7f0000u | words << 3 & 0x7f000000u;
    uint8 odd = s ^ s >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return s | (odd & 0x01010101u) << 7;
}

// The nibbles of 4 bytes, the low ones first.
INLINE float8 nibbles_at(BYTES p)
{
    return convert_float8(as_int8((uint8)(u32_at(p)) >> (LANES_8 * 4) & 15));
}

#ifdef KIND_IS_IQ2_XXS
INLINE void block_open(BYTES p, struct open_block *b)
{
    uint8 first = words8(p + 2), second = words8(p + 34);
    uint8 indices = (uint8)(first.even, second.even), more = (uint8)(first.odd, second.odd);
    vstore8(convert_uint8(as_uchar8(indices.s01)) * ENTRY_BYTES, 0, b->at);
    vstore8(convert_uint8(as_uchar8(indices.s23)) * ENTRY_BYTES, 1, b->at);
    vstore8(convert_uint8(as_uchar8(indices.s45)) * ENTRY_BYTES, 2, b->at);
    vstore8(convert_uint8(as_uchar8(indices.s67)) * ENTRY_BYTES, 3, b->at);
    vstore8(all_even_signs(more), 0, b->signs);
    vstore8((convert_float8(as_int8(more >> 28)) + 0.5f) * (half_at(p) * 0.25f), 0, b->scales);
}
#endif

#ifdef KIND_IS_IQ2_XS
INLINE void block_open(BYTES p, struct open_block *b)
{
    float factor = half_at(p) * 0.25f;
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint8 q = convert_uint8(as_ushort8(vload16(i, p + 2)));
        vstore8((q & 511) * ENTRY_BYTES, i, b->at);
    }
    UNROLL
    for (uint i = 0; i < 2; i++) {
        ushort16 s = as_ushort16(words8(p + 2 + 32 * i)) >> (ushort16)(9);
        ushort16 odd = s ^ s >> (ushort16)(4);
        odd ^= odd >> (ushort16)(2);
        odd ^= odd >> (ushort16)(1);
        vstore4(as_uint4(convert_uchar16(s | (odd & (ushort16)(1)) << (ushort16)(7))), i, b->signs);
        vstore8((nibbles_at(p + 66 + 4 * i) + 0.5f) * factor, i, b->scales);
    }
}
#endif

#ifdef KIND_IS_IQ2_S
INLINE void block_open(BYTES p, struct open_block *b)
{
    float factor = half_at(p) * 0.25f;
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint8 high = (uint8)(u16_at(p + 66 + 2 * i)) << 8 >> LANES_8 * 2 & 0x300;
        vstore8((numbers8(p + 2 + 8 * i) | high) * ENTRY_BYTES, i, b->at);
    }
    vstore8(words8(p + 34), 0, b->signs);
    vstore8((nibbles_at(p + 74) + 0.5f) * factor, 0, b->scales);
    vstore8((nibbles_at(p + 78) + 0.5f) * factor, 1, b->scales);
}
#endif

#ifdef KIND_IS_IQ3_XXS
INLINE void block_open(BYTES p, struct open_block *b)
{
    uint8 more = words8(p + 66);
    UNROLL
    for (uint i = 0; i < 8; i++)
        vstore8(numbers8(p + 2 + 8 * i) * ENTRY_BYTES, i, b->at);
    vstore8(all_even_signs(more), 0, b->signs);
    vstore8((convert_float8(as_int8(more >> 28)) + 0.5f) * (half_at(p) * 0.5f), 0, b->scales);
}
#endif

#ifdef KIND_IS_IQ3_S
INLINE void block_open(BYTES p, struct open_block *b)
{
    UNROLL
    for (uint i = 0; i < 8; i++) {
        uint8 high = (uint8)(p[66 + i]) << 8 - LANES_8 & 0x100;
        vstore8((numbers8(p + 2 + 8 * i) | high) * ENTRY_BYTES, i, b->at);
    }
    vstore8(words8(p + 74), 0, b->signs);
    vstore8((nibbles_at(p + 106) * 2.0f + 1.0f) * half_at(p), 0, b->scales);
}
#endif

#ifdef KIND_IS_IQ1_S
INLINE void block_open(BYTES p, struct open_block *b)
{
    uint8 high = convert_uint8(as_ushort8(vload16(0, p + 34)));
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint two = u32_at(p + 34 + 4 * i);
        uint8 threes = (uint8)((uint4)(two), (uint4)(two >> 16)) >> (uint8)(0, 3, 6, 9, 0, 3, 6, 9) & 7;
        vstore8((numbers8(p + 2 + 8 * i) | threes << 8) * ENTRY_BYTES, i, b->at);
    }
    vstore8(convert_float8(as_int8((high >> 11 & 14) + 1)) * half_at(p), 0, b->scales);
    vstore8(as_float8((high & 0x8000) << 16 | as_uint(0.125f)), 0, b->deltas);
}
#endif

#ifdef KIND_IS_IQ1_M
INLINE void block_open(BYTES p, struct open_block *b)
{
    uint words[2] = {u32_at(p + 48), u32_at(p + 52)};
    uint bits = (words[0] >> 12 & 15) | (words[0] >> 28) << 4 | (words[1] >> 12 & 15) << 8 | (words[1] >> 28) << 12;
    float d = half_of(bits);
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint8 s = (uint8)((uint4)(words[i]), (uint4)(words[i] >> 16)) >> (uint8)(0, 3, 6, 9, 0, 3, 6, 9) & 7;
        vstore8(convert_float8(as_int8(s * 2 + 1)) * d, i, b->scales);
    }
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint8 more = (uint8)(u32_at(p + 32 + 4 * i)) >> LANES_8 * 4;
        vstore8((numbers8(p + 8 * i) | (more & 7) << 8) * ENTRY_BYTES, i, b->at);
        vstore8(as_float8((more & 8) << 28 | as_uint(0.125f)), i, b->deltas);
    }
}
#endif

// The g-th 32 inputs' four eights, IQ1's without their eighths.
INLINE void block_eights(const struct open_block *b, uint g, float8 *w)
{
    __constant const uchar *bytes = (__constant const uchar *)table;
    uint8 signs = b->signs[g];
    UNROLL
    for (uint l = 0; l < 4; l++) {
#if TABLE_EIGHT == 2
        w[l] = (float8)(*(__constant const float4 *)(bytes + b->at[8 * g + 2 * l]),
                        *(__constant const float4 *)(bytes + b->at[8 * g + 2 * l + 1]));
#else
        w[l] = *(__constant const float8 *)(bytes + b->at[4 * g + l]);
#endif
#ifndef TABLE_DELTA
        w[l] = as_float8(as_uint8(w[l]) ^ signs << 31 - 8 * l - LANES_8 & 0x80000000u);
#endif
    }
}

#ifdef TABLE_DELTA
#define BLOCK_TOTALS (256 / TABLE_DELTA)
// The sums of a block's inputs times what all of these have in common.
INLINE float8 block_rest(BYTES p, const struct open_block *b, __global const float *totals)
{
#if TABLE_DELTA == 32
    return vload8(0, b->scales) * vload8(0, b->deltas) * vload8(0, totals);
#else
    float8 sum = 0;
    UNROLL
    for (uint i = 0; i < 4; i++) {
        float8 scales = vload4(i, b->scales).s00112233;
        sum = fma(scales * vload8(i, b->deltas), vload8(i, totals), sum);
    }
    return sum;
#endif
}
#endif

// The block's weights.
INLINE void table_tile(BYTES p, float16 *tile)
{
    struct open_block b;
    block_open(p, &b);
    KEEP_IN_MEMORY(&b, &b);
    UNROLL_2
    for (uint g = 0; g < 8; g++) {
        float8 w[4];
        block_eights(&b, g, w);
        UNROLL
        for (uint l = 0; l < 4; l++) {
#ifdef TABLE_DELTA
            w[l] += b.deltas[(4 * g + l) * 8 / TABLE_DELTA];
#endif
            ((float8 *)tile)[4 * g + l] = w[l] * b.scales[(4 * g + l) * 8 / KIND_SCALES];
        }
    }
}
#endif
