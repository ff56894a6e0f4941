// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: what a lane takes of a row at once, a piece of a block: its bytes are loaded as words, long before they are
// used, and taken apart in pairs, which is what tensor cores want. PIECES is 1 where a kind has them (kinds.h's
// by_pieces):
//
//   PIECE_INPUTS       32 or 64: sets of 16 inputs that stand together, in a row anywhere in the block
//   PIECE_TOGETHER     sets that share their scale and 32 inputs of x: 1 or 2
//   PIECE_NEIGHBOURS   of each four inputs the pairs are 0 and 1, 2 and 3; else 0 and 2, 1 and 3
//   PIECE_WHOLE        blocks that lie well are loaded more words at a time
//   TABLE_WORDS        of local memory, which table_fill writes
//   piece_load         the n-th piece of a row
//   piece_at           which 16 inputs of the row a set is
//   piece_scale        (s, b) of a set: the weights are q * PIECE_UNIT(set) * s + b
//   PIECE_TURNS        the sets are 64 inputs in their order: piece_turn has piece_set's sets 0 and 1 be 2 and 3
//   piece_set          q of a set in 8 pairs, two for each four inputs, exact in float16
//   PIECE_UNIT         what these are to be multiplied by: 1, but where quanta are left where they stand
#if defined(KIND) && PIECES && !SHAPE_CPU

#define TABLE __local const uint *

// ---- blocks of 32: nibbles of 16 bytes, the low ones first, or bytes

#if defined(KIND_IS_Q4_0) || defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1) ||               \
    defined(KIND_IS_Q8_0) || defined(KIND_IS_IQ4_NL) || defined(KIND_IS_MXFP4)
#define PIECE_INPUTS 32
#define PIECE_TOGETHER 2
#define QUANTA_WORDS (BLOCK_BYTES / 4 - (KIND_BIAS ? 1 : 0)) // and Q5's bits in front
#define HEADER_BYTES (BLOCK_BYTES % 4)                       // where there is no minimum
struct piece {
    uint head;
    uint w[QUANTA_WORDS];
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n * BLOCK_BYTES;
#if KIND_BIAS
    to->head = *(__global const uint *)p;
    UNROLL
    for (uint i = 0; i < QUANTA_WORDS; i++)
        to->w[i] = ((__global const uint *)p)[1 + i];
#else
    to->head = words_behind(p, HEADER_BYTES, QUANTA_WORDS, to->w);
#endif
}
INLINE uint piece_at(uint n, const uint set)
{
    return 2 * n + set;
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
#ifdef KIND_IS_MXFP4
    return (float2)(power_of_two(p->head, 1), 0);
#else
    return (float2)(piece_half(p->head), KIND_BIAS ? piece_half(p->head >> 16) : 0);
#endif
}
#endif

#if defined(KIND_IS_Q4_0) || defined(KIND_IS_Q4_1)
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++)
        pairs[i] = pair_of(p->w[i / 2] >> i % 2 * 8 & 0x000f000fu << 4 * set, 4 * set, KIND_BIAS ? 0 : 8);
}
#endif

#if defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1)
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    uint high = p->w[0] >> 16 * set; // bit i is input i's
    UNROLL
    for (uint f = 0; f < 4; f++) {
        // bits 0 and 1 of each half become those of the four's inputs 0 and 1, 2 and 3
        uint bits = (high >> 4 * f & 3) | (high >> 4 * f & 12) << 14;
        UNROLL
        for (uint i = 0; i < 2; i++)
            pairs[2 * f + i] = pair_of((p->w[1 + f] >> i * 8 & 0x000f000fu << 4 * set) ^
                                           (bits >> i & 0x00010001u) << 4 + 4 * set,
                                       4 * set, KIND_BIAS ? 0 : 16);
    }
}
#endif

#ifdef KIND_IS_Q8_0
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint f = 0; f < 4; f++) {
        uint word = p->w[4 * set + f] ^ 0x80808080u;
        pairs[2 * f] = pair_of(word & 0x00ff00ffu, 0, 128);
        pairs[2 * f + 1] = pair_of_odd(word, 128);
    }
}
#endif

// ---- nibbles that are numbers of a table of 16

#ifdef KIND_IS_IQ4_XS
#define PIECE_WHOLE
#define PIECE_INPUTS 32
#define PIECE_TOGETHER 2
struct piece {
    uint head[2];
    uint w[4];
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 8 * BLOCK_BYTES;
    words_from(p, 2, row->whole, to->head);
    words_from(p + 8 + n % 8 * 16, 2, row->whole, to->w);
    words_from(p + 16 + n % 8 * 16, 2, row->whole, to->w + 2);
}
INLINE uint piece_at(uint n, const uint set)
{
    return 2 * n + set;
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    uint s = (p->head[1] >> n % 8 * 4 & 15) | (p->head[0] >> 16 + n % 8 * 2 & 3) << 4;
    return (float2)(piece_half(p->head[0]) * (byte_of(s, 0) - 32.0f), 0);
}
#endif

#if defined(KIND_IS_IQ4_NL) || defined(KIND_IS_IQ4_XS)
#define TABLE_128 (TABLE_T ^ 0x80808080u) // 128 more
#define PIECE_NEIGHBOURS 1
// The numbers of a word's lower or upper four nibbles, in bytes.
INLINE uint looked_up(uint word, const uint upper)
{
    const uint4 of = TABLE_128;
#if NVIDIA_MMA
    // three bits of each choose from either half of the table, the fourth from these
    uint three = (word & 0x77777777u) >> 16 * upper;
    uint fourth = ((word >> 1 & 0x44444444u) | 0x32103210u) >> 16 * upper;
    return pick(pick(of.x, of.y, three), pick(of.z, of.w, three), fourth);
#else
    word >>= 16 * upper;
    uint4 n = (uint4)(word, word >> 4, word >> 8, word >> 12);
    uint4 low = select((uint4)(of.x), (uint4)(of.y), (n & 4) != 0);
    uint4 high = select((uint4)(of.z), (uint4)(of.w), (n & 4) != 0);
    uint4 bytes = (select(low, high, (n & 8) != 0) >> (n & 3) * 8 & 255) << (uint4)(0, 8, 16, 24);
    return bytes.x | bytes.y | bytes.z | bytes.w;
#endif
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++) {
        uint bytes = looked_up(p->w[i / 2], i % 2);
        pairs[i] = set ? pair_of_odd(bytes, 128) : pair_of(bytes & 0x00ff00ffu, 0, 128);
    }
}
#endif

#if defined(KIND_IS_MXFP4)
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++)
        pairs[i] = pair_of_e2m1(p->w[i / 2], i % 2 * 8 + set * 4);
}
#endif

#ifdef KIND_IS_NVFP4
#define PIECE_INPUTS 64
#define PIECE_TOGETHER 1
struct piece {
    float factor;
    uint scales;
    uint w[8];
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    __global const uint *p = (__global const uint *)(row->p + n * BLOCK_BYTES);
    to->factor = row->factor;
    to->scales = p[0];
    UNROLL
    for (uint i = 0; i < 8; i++)
        to->w[i] = p[1 + i];
}
INLINE uint piece_at(uint n, const uint set)
{
    return 4 * n + set;
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    uint size = p->scales >> set * 8 & 255;
    return (float2)((size == 0x7f ? 0 : 0.5f * e4m3(size & 0x7f)) * p->factor, 0);
}
#define PIECE_TURNS
INLINE void piece_turn(struct piece *p, uint by)
{
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint lower = p->w[i], upper = p->w[4 + i];
        p->w[i] = by ? upper : lower;
    }
}
// The low nibbles of 8 bytes, then the high ones.
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++)
        pairs[i] = pair_of_e2m1(p->w[2 * set + i / 2 % 2], i % 2 * 8 + i / 4 * 4);
}
#endif

// ---- blocks of 256: a piece's set number s is in the s-th bits of its bytes

#if defined(KIND_IS_Q4_K) || defined(KIND_IS_Q5_K)
#define PIECE_WHOLE
#define PIECE_INPUTS 64
#define PIECE_TOGETHER 2
struct piece {
    uint head[4];
    uint w[8];
#ifdef KIND_IS_Q5_K
    uint high[8];
#endif
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 4 * BLOCK_BYTES;
    words_from(p, 4, row->whole, to->head);
#ifdef KIND_IS_Q5_K
    words_from(p + 16, 8, row->whole, to->high);
    words_from(p + 48 + n % 4 * 32, 8, row->whole, to->w);
#else
    words_from(p + 16 + n % 4 * 32, 8, row->whole, to->w);
#endif
}
INLINE uint piece_at(uint n, const uint set)
{
    return 4 * n + set;
}
// What were the upper two sets become the lower two.
#define PIECE_TURNS
INLINE void piece_turn(struct piece *p, uint by)
{
    UNROLL
    for (uint i = 0; i < 8; i++) {
        p->w[i] >>= 4 * by;
#ifdef KIND_IS_Q5_K
        p->high[i] >>= by;
#endif
    }
}
// Two scales of 6 bits and two minima: those of the first four groups stand in bytes of their own, the others' upper
// bits stand above.
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    uint shift = n % 2 * 16;
    uint a = p->head[1] >> shift, b = p->head[2] >> shift, c = p->head[3] >> shift;
    bool late = n % 4 >= 2;
    uint s = late ? (c & 0x0f0fu) | (a >> 2 & 0x3030u) : a & 0x3f3fu;
    uint m = late ? (c >> 4 & 0x0f0fu) | (b >> 2 & 0x3030u) : b & 0x3f3fu;
    return (float2)(piece_half(p->head[0]) * byte_of(s, set / 2), -(piece_half(p->head[0] >> 16) * byte_of(m, set / 2)));
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    const uint place = set / 2 * 4;
    UNROLL
    for (uint i = 0; i < 8; i++) {
        uint both = p->w[set % 2 * 4 + i / 2] >> i % 2 * 8 & 0x000f000fu << place;
#ifdef KIND_IS_Q5_K
        uint high = p->high[set % 2 * 4 + i / 2] >> n % 4 * 2;
        both ^= (high >> i % 2 * 8 + set / 2 & 0x00010001u) << 4 + place;
#endif
        pairs[i] = pair_of_bits(both, place);
    }
}
#define PIECE_UNIT(set) UNIT_OF((set) % 4 / 2 * 4)
#endif

#if defined(KIND_IS_Q6_K) || defined(KIND_IS_Q2_K) || defined(KIND_IS_Q3_K) || defined(KIND_IS_TQ2_0)
#define PIECE_INPUTS 64
#define PIECE_TOGETHER 1
#define PIECE_STRIPES // the sets are every second 16 inputs
INLINE uint piece_at(uint n, const uint set)
{
    return n / 2 * 8 + 2 * set + n % 2;
}
#endif

#ifdef KIND_IS_Q6_K
struct piece {
    uint low[8], high[4], scales[2], d;
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 4 * BLOCK_BYTES;
    uint half_of_it = n % 4 / 2, e = n % 2;
    words_at(p + half_of_it * 64 + e * 16, 4, to->low);
    words_at(p + half_of_it * 64 + e * 16 + 32, 4, to->low + 4);
    words_at(p + 128 + half_of_it * 32 + e * 16, 4, to->high);
    words_at(p + 192 + half_of_it * 8, 2, to->scales);
    to->d = u16_at(p + 208);
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    pair_t two = pair_of((p->scales[set / 2] >> n % 2 * 8 & 0x00ff00ffu) ^ 0x00800080u, 0, 128);
    return (float2)(piece_half(p->d) * (set % 2 ? pair_second(two) : pair_first(two)), 0);
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    const uint place = set / 2 * 4;
    UNROLL
    for (uint i = 0; i < 8; i++) {
        uint both = p->low[set % 2 * 4 + i / 2] >> i % 2 * 8 & 0x000f000fu << place;
        uint high = i % 2 ? p->high[i / 2] >> 4 + set % 2 * 2 : p->high[i / 2] << 4 - set % 2 * 2;
        pairs[i] = pair_of(both ^ (high & 0x00300030u << place), place, 32);
    }
}
#endif

#ifdef KIND_IS_Q2_K
struct piece {
    uint w[4], scales[2], d;
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 4 * BLOCK_BYTES;
    words_from(p + 16 + n % 4 * 16, 4, false, to->w);
    words_from(p + n % 4 / 2 * 8, 2, false, to->scales);
    to->d = u32_at(p + 80);
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    uint both = p->scales[set / 2] >> n % 2 * 8;
    pair_t s = pair_of(both & 0x000f000fu, 0, 0), least = pair_of(both & 0x00f000f0u, 4, 0);
    return (float2)(piece_half(p->d) * (set % 2 ? pair_second(s) : pair_first(s)),
                    -(piece_half(p->d >> 16) * (set % 2 ? pair_second(least) : pair_first(least))));
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++)
        pairs[i] = pair_of_bits(p->w[i / 2] >> i % 2 * 8 & 0x00030003u << 2 * set, 2 * set);
}
#define PIECE_UNIT(set) UNIT_OF((set) % 4 * 2)
#endif

#ifdef KIND_IS_TQ2_0
struct piece {
    uint w[4], d;
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 4 * BLOCK_BYTES;
    words_at(p + n % 4 * 16, 4, to->w);
    to->d = u16_at(p + 64);
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    return (float2)(piece_half(p->d), 0);
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++)
        pairs[i] = pair_of(p->w[i / 2] >> i % 2 * 8 & 0x00030003u << 2 * set, 2 * set, 1);
}
#endif

#ifdef KIND_IS_Q3_K
struct piece {
    uint w[4], high[4], scales[3], d;
};
INLINE void piece_load(const struct kind_row *row, uint n, struct piece *to)
{
    BYTES p = row->p + n / 4 * BLOCK_BYTES;
    words_at(p + n % 2 * 16, 4, to->high);
    words_at(p + 32 + n % 4 * 16, 4, to->w);
    words_at(p + 96, 3, to->scales);
    to->d = u16_at(p + 108);
}
INLINE float2 piece_scale(const struct piece *p, uint n, const uint set)
{
    uint shift = n % 2 * 8 + n % 4 / 2 * 4; // bytes of 4 bits, and of 2 and 2
    uint low = p->scales[set / 2] >> shift & 0x000f000fu;
    uint high = (p->scales[2] >> shift) << 4 - set / 2 * 2 & 0x00300030u;
    pair_t two = pair_of(low ^ high, 0, 32);
    return (float2)(piece_half(p->d) * (set % 2 ? pair_second(two) : pair_first(two)), 0);
}
INLINE void piece_set(const struct piece *p, uint n, const uint set, TABLE table, pair_t *pairs)
{
    UNROLL
    for (uint i = 0; i < 8; i++) {
        uint both = p->w[i / 2] >> i % 2 * 8 & 0x00030003u << 2 * set;
        uint high = p->high[i / 2] >> n % 4 / 2 * 4;
        high = i % 2 ? high >> 6 - set : high << 2 + set;
        pairs[i] = pair_of(both ^ (high & 0x00040004u << 2 * set), 2 * set, 4);
    }
}
#endif

#endif
