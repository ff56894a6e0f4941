// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores for one row: blocks of 256 inputs that are copied to local memory as they lie, 16 bytes at a time, and
// taken from there, for loads of rows are slow where a warp wants a few bytes of each. SPANS is 1 where a kind has them. A row's
// four lanes share each group of inputs, and each has the scales of a group of its own, which adds up to a set:
//
//   SPAN_QUADS    uint4 that a block touches at most
//   SPAN_SETS     of a block
//   SPAN_TURNS    parts of a set, whose inputs the lanes have in turn: FOURS of 4 each
//   SPAN_FOURS    1: a part is a group of 16 inputs, of a plane of bits; 2: 32 inputs, a group or two
//   span_four     the block's first four of a part
//   span_load     the lane's words of a set, where they serve all of its parts
//   span_pairs    its inputs of a part, q as pairs of float16 as PIECE_NEIGHBOURS says
//   span_scales   (s, b) of group j of each set: the weights are q * s + b
#if defined(KIND) && PIECES && NVIDIA_MMA && !SHAPE_CPU

#if defined(KIND_IS_Q2_K) || defined(KIND_IS_Q3_K) || defined(KIND_IS_Q6_K) || defined(KIND_IS_IQ4_XS)
#define SPANS 1
#define SPAN_FOURS 1
#define SPAN_SETS 4
#define SPAN_TURNS 4
#endif

#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M) || defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) ||         \
    defined(KIND_IS_IQ2_S) || defined(KIND_IS_IQ3_XXS) || defined(KIND_IS_IQ3_S)
#define SPANS 1
#define SPAN_FOURS 2
#define SPAN_SETS (KIND_SCALES == 32 ? 2 : 4)
#define SPAN_TURNS (KIND_SCALES == 32 ? 4 : 2)
#endif

#ifdef SPANS
#define SPAN_ODD (BLOCK_BYTES % 4 != 0) // blocks begin at even places
#ifdef KIND_IS_IQ4_XS
#define SPAN_BEFORE 8 // as op_holds_matrix knows
#else
#define SPAN_BEFORE (SPAN_ODD ? 14 : BLOCK_BYTES % 16 ? 12 : 0) // bytes of its first 16 that are others', at most
#endif
#define SPAN_QUADS ((BLOCK_BYTES + SPAN_BEFORE + 15) / 16)

// Where a block begins: its first word, or the one that its first bytes are the upper half of.
struct span {
    __local const uint *words;
    uint shift;
};

INLINE struct span span_at(__local const uint4 *quads, uint byte)
{
    struct span s = {(__local const uint *)quads + byte / 4, SPAN_ODD ? byte % 4 * 8 : 0};
    return s;
}

INLINE uint span_byte(const struct span *s, uint byte)
{
    return ((__local const uchar *)s->words + (SPAN_ODD ? s->shift >> 3 : 0))[byte];
}

INLINE uint span_word(const struct span *s, uint i)
{
    return SPAN_ODD ? word_across(s->words[i], s->words[i + 1], s->shift) : s->words[i];
}

// Two bytes at an even place.
INLINE uint span_half(const struct span *s, uint byte)
{
    return *(__local const ushort *)((__local const uchar *)s->words + (SPAN_ODD ? s->shift >> 3 : 0) + byte);
}

INLINE uint span_four(const uint set, uint turn)
{
#ifdef PIECE_STRIPES
    return set / 2 * 32 + turn * 8 + set % 2 * 4;
#else
    return (set * SPAN_TURNS + turn) * SPAN_FOURS * 4;
#endif
}

// Two bytes that stand beside each other as numbers in two halves.
INLINE uint bytes_apart(uint both)
{
    return pick(both, 0, 0x4140);
}
#endif

#ifdef KIND_IS_Q2_K
#define SPAN_WORDS 1
INLINE void span_load(const struct span *s, uint j, const uint set, uint *w)
{
    w[0] = span_word(s, 4 + 4 * set + j);
}
INLINE void span_pairs(const struct span *s, const uint *w, uint j, const uint set, const uint group, TABLE table,
                       pair_t *pairs)
{
    pairs[0] = pair_of_bits(w[0] & 0x00030003u << 2 * group, 2 * group);
    pairs[1] = pair_of_bits(w[0] >> 8 & 0x00030003u << 2 * group, 2 * group);
}
INLINE void span_scales(const struct span *s, uint j, float2 *scales)
{
    float unit = as_float(127 + 24 - 2 * j << 23);
    float d = piece_half(span_half(s, 80)) * unit, least = -piece_half(span_half(s, 82));
    UNROLL
    for (uint h = 0; h < 2; h++) {
        uint both = bytes_apart(span_half(s, 8 * h + 2 * j));
        pair_t some = pair_of(both & 0x000f000fu, 0, 0), min = pair_of(both & 0x00f000f0u, 4, 0);
        scales[2 * h] = (float2)(d * pair_first(some), least * pair_first(min));
        scales[2 * h + 1] = (float2)(d * pair_second(some), least * pair_second(min));
    }
}
#endif

#ifdef KIND_IS_Q3_K
#define SPAN_WORDS 2
INLINE void span_load(const struct span *s, uint j, const uint set, uint *w)
{
    w[0] = span_word(s, 8 + 4 * set + j);
    w[1] = span_word(s, set % 2 * 4 + j);
}
// Bits where they stand, the upper one as 4, less 4: a 2^11-th of them all.
INLINE void span_pairs(const struct span *s, const uint *w, uint j, const uint set, const uint group, TABLE table,
                       pair_t *pairs)
{
    const uint at = set / 2 * 4 + group;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint low = w[0] >> 8 * i & 0x00030003u << 2 * group, high = w[1] >> 8 * i & 0x00010001u << at;
        pairs[i] = halves_fma(high, (30 - at) * 0x04000400u, 0x98009800u);
        pairs[i] = halves_fma(low, (28 - 2 * group) * 0x04000400u, pairs[i]);
    }
}
INLINE void span_scales(const struct span *s, uint j, float2 *scales)
{
    float d = piece_half(span_half(s, 108)) * UNIT_OF(13);
    uint low = bytes_apart(span_half(s, 96 + 2 * j)), high = bytes_apart(span_half(s, 104 + 2 * (j % 2)));
    UNROLL
    for (uint h = 0; h < 2; h++) {
        pair_t two = pair_of((low >> 4 * h & 0x000f000fu) | (high >> 4 * h + j / 2 * 2 & 0x00030003u) << 4, 0, 32);
        scales[2 * h] = (float2)(d * pair_first(two), 0);
        scales[2 * h + 1] = (float2)(d * pair_second(two), 0);
    }
}
#endif

#ifdef KIND_IS_Q6_K
#define SPAN_WORDS 3
INLINE void span_load(const struct span *s, uint j, const uint set, uint *w)
{
    w[0] = span_word(s, set / 2 * 16 + set % 2 * 4 + j);
    w[1] = span_word(s, set / 2 * 16 + 8 + set % 2 * 4 + j);
    w[2] = span_word(s, 32 + set / 2 * 8 + set % 2 * 4 + j);
}
// Bits where they stand, the upper two as 16, less 32: a 2^13-th of them all.
INLINE void span_pairs(const struct span *s, const uint *w, uint j, const uint set, const uint group, TABLE table,
                       pair_t *pairs)
{
    const uint place = group / 2 * 4;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint low = w[group % 2] >> 8 * i & 0x000f000fu << place, high = w[2] >> 8 * i & 0x00030003u << 2 * group;
        pairs[i] = halves_fma(high, (30 - 2 * group) * 0x04000400u, 0x9c009c00u);
        pairs[i] = halves_fma(low, (26 - place) * 0x04000400u, pairs[i]);
    }
}
INLINE void span_scales(const struct span *s, uint j, float2 *scales)
{
    float d = piece_half(span_half(s, 208)) * UNIT_OF(11);
    UNROLL
    for (uint h = 0; h < 2; h++) {
        pair_t two = pair_of(bytes_apart(span_half(s, 192 + 8 * h + 2 * j)) ^ 0x00800080u, 0, 128);
        scales[2 * h] = (float2)(d * pair_first(two), 0);
        scales[2 * h + 1] = (float2)(d * pair_second(two), 0);
    }
}
#endif

#ifdef KIND_IS_IQ4_XS
#define SPAN_WORDS 2
INLINE void span_load(const struct span *s, uint j, const uint set, uint *w)
{
    w[0] = span_word(s, 2 + 8 * set + j);
    w[1] = span_word(s, 6 + 8 * set + j);
}
INLINE void span_pairs(const struct span *s, const uint *w, uint j, const uint set, const uint group, TABLE table,
                       pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 2; i++) {
        uint bytes = looked_up(w[group / 2], i);
        pairs[i] = group % 2 ? pair_of_odd(bytes, 128) : pair_of(bytes & 0x00ff00ffu, 0, 128);
    }
}
INLINE void span_scales(const struct span *s, uint j, float2 *scales)
{
    uint high = s->words[0], low = s->words[1];
    UNROLL
    for (uint set = 0; set < 4; set++) {
        uint n = 2 * set + j / 2; // which 32
        uint size = (low >> 4 * n & 15) | (high >> 16 + 2 * n & 3) << 4;
        scales[set] = (float2)(piece_half(high) * (byte_of(size, 0) - 32.0f), 0);
    }
}
#endif

// ---- grids: a lane has 8 inputs of 32

#if defined(SPANS) && SPAN_FOURS == 2
#define SPAN_WORDS 1
INLINE void span_load(const struct span *s, uint j, const uint set, uint *w)
{
}
// A word at an even place.
INLINE uint span_apart(const struct span *s, uint byte)
{
    return span_half(s, byte) | span_half(s, byte + 2) << 16;
}
INLINE void span_pairs(const struct span *s, const uint *w, uint j, const uint set, const uint turn, TABLE table,
                       pair_t *pairs)
{
    const uint n = set * SPAN_TURNS + turn; // which 32
#if defined(KIND_IS_IQ1_S)
    uint high = span_half(s, 34 + 2 * n);
    pairs_of_ones(table, span_byte(s, 2 + 4 * n + j) | (high >> 3 * j & 7) << 8, high >> 15, pairs);
#elif defined(KIND_IS_IQ1_M)
    uint high = span_half(s, 32 + 2 * n) >> 4 * j;
    pairs_of_ones(table, span_byte(s, 4 * n + j) | (high & 7) << 8, high & 8, pairs);
#else
#if defined(KIND_IS_IQ2_XXS)
    uint entry = span_byte(s, 2 + 8 * n + j), signs = even_signs(span_apart(s, 6 + 8 * n) >> 7 * j & 127);
#elif defined(KIND_IS_IQ2_XS)
    uint both = span_half(s, 2 + 8 * n + 2 * j), entry = both & 511, signs = even_signs(both >> 9);
#elif defined(KIND_IS_IQ2_S)
    uint entry = span_byte(s, 2 + 4 * n + j) | (span_byte(s, 66 + n) >> 2 * j & 3) << 8;
    uint signs = span_byte(s, 34 + 4 * n + j);
#elif defined(KIND_IS_IQ3_XXS)
    uint two = span_half(s, 2 + 8 * n + 2 * j), signs = even_signs(span_apart(s, 66 + 4 * n) >> 7 * j & 127);
    uint first = table[two & 255], second = table[two >> 8];
#else
    uint two = span_half(s, 2 + 8 * n + 2 * j), high = span_byte(s, 66 + n) >> 2 * j;
    uint signs = span_byte(s, 74 + 4 * n + j);
    uint first = table[(two & 255) | (high & 1) << 8], second = table[two >> 8 | (high & 2) << 7];
#endif
#if !defined(KIND_IS_IQ3_XXS) && !defined(KIND_IS_IQ3_S)
    uint2 bytes = ((__local const uint2 *)table)[entry];
    uint first = bytes.x, second = bytes.y;
#endif
    pairs_of_bytes(first, signs, 0, pairs);
    pairs_of_bytes(second, signs, 1, pairs + 2);
#endif
}
INLINE void span_scales(const struct span *s, uint j, float2 *scales)
{
#if defined(KIND_IS_IQ1_M)
    uint low = s->words[12], late = s->words[13];
    float d = piece_half((low >> 12 & 15) | (low >> 28) << 4 | (late >> 12 & 15) << 8 | (late >> 28) << 12);
#else
    float d = piece_half(span_half(s, 0));
#endif
    UNROLL
    for (uint set = 0; set < SPAN_SETS; set++) {
        uint n = KIND_SCALES == 32 ? 4 * set + j : 2 * set + j / 2; // which 32, and half j % 2 of it
#if defined(KIND_IS_IQ2_XXS)
        float size = (0.5f + byte_of(span_half(s, 8 + 8 * n) >> 12, 0)) * 0.25f;
#elif defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
        float size = (0.5f + byte_of(span_byte(s, BLOCK_BYTES - 8 + n) >> 4 * (j % 2) & 15, 0)) * 0.25f;
#elif defined(KIND_IS_IQ3_XXS)
        float size = (0.5f + byte_of(span_half(s, 68 + 4 * n) >> 12, 0)) * 0.5f;
#elif defined(KIND_IS_IQ3_S)
        float size = byte_of(span_byte(s, 106 + n / 2) >> n % 2 * 4 & 15, 0) * 2.0f + 1.0f;
#elif defined(KIND_IS_IQ1_S)
        float size = (byte_of(span_half(s, 34 + 2 * n) >> 12 & 7, 0) * 2.0f + 1.0f);
#else
        float size = (byte_of(span_half(s, 48 + 2 * set) >> j / 2 * 6 + j % 2 * 3 & 7, 0) * 2.0f + 1.0f);
#endif
        scales[set] = (float2)(d * PIECE_UNIT(0) * size, 0);
    }
}
#endif

#endif
