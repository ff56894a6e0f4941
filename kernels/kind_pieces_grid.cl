// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: pieces of ggml's IQ1, IQ2 and IQ3, as kind_pieces.cl says: grids lie in local memory, entries of 8 bytes, of 4, or
// of 8 numbers of 2 bits.
#if defined(KIND) && PIECES && !SHAPE_CPU

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
#define TABLE_WORDS (sizeof grid)
INLINE void table_fill(__local uint *table)
{
    for (uint i = get_local_id(0); i < TABLE_WORDS / 8; i += get_local_size(0)) {
        ulong entries = constant_8((__constant const ulong *)grid + i);
        UNROLL
        for (uint e = 0; e < 8; e++) { // fours
            uint code = (uint)(entries >> e * 8) & 255;
            code = (code & 3) | (code & 12) << 6 | (code & 48) << 12 | (code & 192) << 18;
            table[i * 8 + e] = code * 17 + (code >> 1 & 0x01010101u) + 0x08080808u;
        }
    }
}
#endif

#if defined(KIND_IS_IQ3_XXS) || defined(KIND_IS_IQ3_S)
#define TABLE_WORDS (sizeof grid / 2)
INLINE void table_fill(__local uint *table)
{
    for (uint i = get_local_id(0); i < TABLE_WORDS / 4; i += get_local_size(0)) {
        ulong entries = constant_8((__constant const ulong *)grid + i);
        UNROLL
        for (uint e = 0; e < 4; e++) {
            uint code = (uint)(entries >> e * 16) & 0xffff;
            code = (code & 7) | (code & 0x38) << 5 | (code & 0x1c0) << 10 | (code & 0xe00) << 15;
#ifdef KIND_IS_IQ3_XXS
            table[i * 4 + e] = code * 8 + ((code + 0x01010101u >> 3 & 0x01010101u) * 2) + 0x04040404u;
#else
            table[i * 4 + e] = code * 2 + 0x01010101u;
#endif
        }
    }
}
#endif

#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
#define TABLE_WORDS (sizeof grid / 2)
// Inputs 0, 1, 4 and 5 in the lower half, 2, 3, 6 and 7 in the upper one.
INLINE void table_fill(__local uint *table)
{
    for (uint i = get_local_id(0); i < TABLE_WORDS / 4; i += get_local_size(0)) {
        ulong entries = constant_8((__constant const ulong *)grid + i);
        UNROLL
        for (uint e = 0; e < 4; e++) {
            uint code = (uint)(entries >> e * 16) & 0xffff;
            table[i * 4 + e] = (code & 15) | (code & 0xf0) << 12 | (code & 0xf00) >> 4 | (code & 0xf000) << 8;
        }
    }
}
// 8 inputs: -1, 0 and 1, an eighth more or less.
INLINE void pairs_of_ones(TABLE table, uint index, bool minus, pair_t *pairs)
{
    uint entry = table[index];
    UNROLL
    for (uint i = 0; i < 4; i++)
        pairs[i] = pair_near_one(entry & 0x00030003u << 2 * i, 2 * i, minus);
}
#define PIECE_UNIT(set) UNIT_OF(15)
#endif

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S) || defined(KIND_IS_IQ3_XXS) ||      \
    defined(KIND_IS_IQ3_S)
// Four inputs of bytes, the f-th four of the 8 that have these signs.
INLINE void pairs_of_bytes(uint bytes, uint signs, const uint f, pair_t *pairs)
{
#if NVIDIA_MMA
    uint spread = (signs >> 4 * f & 15) * 0x10204080u & 0x80808080u; // to the bytes' highest bits
    pairs[0] = pair_of_bits(pick(bytes, spread, 0x6240), 0);
    pairs[1] = pair_of_bits(pick(bytes, spread, 0x7351), 0);
#else
    uint spread = signs * 0x4001; // signs of inputs 0 and 2 stand 16 apart, as their numbers do
    pairs[0] = pair_signed(pair_of(bytes & 0x00ff00ffu, 0, 0), spread << 15 - 4 * f);
    pairs[1] = pair_signed(pair_of_odd(bytes, 0), spread << 14 - 4 * f);
#endif
}
#if NVIDIA_MMA
#define PIECE_UNIT(set) UNIT_OF(0)
#endif
#endif

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S) || defined(KIND_IS_IQ3_XXS) ||      \
    defined(KIND_IS_IQ3_S) || defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
#define PIECE_INPUTS 32
#define PIECE_TOGETHER (KIND_SCALES / 16)
INLINE uint piece_at(uint n, const uint set)
{
    return 2 * n + set;
}
struct piece {
    uint w[2];
    uint signs;
    uint high; // bits of indices, above those of scales
    uint d;
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 8 * BLOCK_BYTES;
    uint g = n % 8;
    to->signs = to->high = to->w[1] = 0;
#ifndef KIND_IS_IQ1_M
    to->d = u16_at(p);
#endif
#if defined(KIND_IS_IQ2_XXS)
    words_at(p + 2 + 8 * g, 2, to->w);
#elif defined(KIND_IS_IQ2_XS)
    words_at(p + 2 + 8 * g, 2, to->w);
    to->high = p[66 + g];
#elif defined(KIND_IS_IQ2_S)
    words_at(p + 2 + 4 * g, 1, to->w);
    words_at(p + 34 + 4 * g, 1, &to->signs);
    to->high = p[74 + g] | (uint)p[66 + g] << 8;
#elif defined(KIND_IS_IQ3_XXS)
    words_at(p + 2 + 8 * g, 2, to->w);
    words_at(p + 66 + 4 * g, 1, &to->signs);
#elif defined(KIND_IS_IQ3_S)
    words_at(p + 2 + 8 * g, 2, to->w);
    words_at(p + 74 + 4 * g, 1, &to->signs);
    to->high = p[106 + g / 2] >> g % 2 * 4 & 15 | (uint)p[66 + g] << 8;
#elif defined(KIND_IS_IQ1_S)
    words_at(p + 2 + 4 * g, 1, to->w);
    to->high = u16_at(p + 34 + 2 * g);
#else
    to->w[0] = u32_at(p + 4 * g);
    to->high = u16_at(p + 32 + 2 * g);
    uint low = u32_at(p + 48), late = u32_at(p + 52);
    to->d = (low >> 12 & 15) | (low >> 28) << 4 | (late >> 12 & 15) << 8 | (late >> 28) << 12;
    to->signs = (g < 4 ? low : late) >> g / 2 % 2 * 16 + g % 2 * 6; // two scales
#endif
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    float d = piece_half(p->d);
#if defined(KIND_IS_IQ2_XXS)
    return (float2)(d * (0.5f + byte_of(p->w[1] >> 28, 0)) * 0.25f, 0);
#elif defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
    return (float2)(d * (0.5f + byte_of(p->high >> 4 * set & 15, 0)) * 0.25f, 0);
#elif defined(KIND_IS_IQ3_XXS)
    return (float2)(d * (0.5f + byte_of(p->signs >> 28, 0)) * 0.5f, 0);
#elif defined(KIND_IS_IQ3_S)
    return (float2)(d * (byte_of(p->high & 15, 0) * 2.0f + 1.0f), 0);
#elif defined(KIND_IS_IQ1_S)
    return (float2)(d * (byte_of(p->high >> 12 & 7, 0) * 2.0f + 1.0f), 0);
#else
    return (float2)(d * (byte_of(p->signs >> 3 * set & 7, 0) * 2.0f + 1.0f), 0);
#endif
}
// The l-th 8 inputs.
INLINE void eight_pairs(const struct piece *p, const uint l, TABLE table, pair_t *pairs)
{
#if defined(KIND_IS_IQ1_S)
    pairs_of_ones(table, (p->w[0] >> 8 * l & 255) | (p->high >> 3 * l & 7) << 8, p->high >> 15 & 1, pairs);
#elif defined(KIND_IS_IQ1_M)
    pairs_of_ones(table, (p->w[0] >> 8 * l & 255) | (p->high >> 4 * l & 7) << 8, p->high >> 4 * l & 8, pairs);
#else
#if defined(KIND_IS_IQ2_XXS)
    uint entry = p->w[0] >> 8 * l & 255, signs = even_signs(p->w[1] >> 7 * l & 127);
#elif defined(KIND_IS_IQ2_XS)
    uint both = p->w[l / 2] >> l % 2 * 16 & 0xffff;
    uint entry = both & 511, signs = even_signs(both >> 9);
#elif defined(KIND_IS_IQ2_S)
    uint entry = (p->w[0] >> 8 * l & 255) | (p->high >> 8 + 2 * l & 3) << 8, signs = p->signs >> 8 * l & 255;
#elif defined(KIND_IS_IQ3_XXS)
    uint low = p->w[l / 2] >> l % 2 * 16, signs = even_signs(p->signs >> 7 * l & 127);
    uint first = table[low & 255], second = table[low >> 8 & 255];
#else
    uint low = p->w[l / 2] >> l % 2 * 16, high = p->high >> 8 + 2 * l, signs = p->signs >> 8 * l & 255;
    uint first = table[(low & 255) | (high & 1) << 8], second = table[(low >> 8 & 255) | (high & 2) << 7];
#endif
#if !defined(KIND_IS_IQ3_XXS) && !defined(KIND_IS_IQ3_S)
    uint2 bytes = ((__local const uint2 *)table)[entry];
    uint first = bytes.x, second = bytes.y;
#endif
    pairs_of_bytes(first, signs, 0, pairs);
    pairs_of_bytes(second, signs, 1, pairs + 2);
#endif
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    eight_pairs(p, 2 * set, table, pairs);
    eight_pairs(p, 2 * set + 1, table, pairs + 4);
}
#endif

#endif
