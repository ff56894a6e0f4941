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
//   piece_scale        (s, b) of a set: the weights are q * s + b
//   PIECE_TURNS        the sets are 64 inputs in their order: piece_turn has piece_set's sets 0 and 1 be 2 and 3
//   piece_set          q of a set in 8 pairs, two for each four inputs, exact in float16
#if defined(KIND) && PIECES && !SHAPE_CPU

#define PIECE_SETS (PIECE_INPUTS / 16)
#define TABLE __local const uint *

// ---- pairs: two float16 where there are tensor cores, else two floats

#if NVIDIA_MMA
typedef uint pair_t;

INLINE uint whole_half(const uint n) // below 2048, as float16
{
    const uint digits = 31 - clz(n | 1);
    return n == 0 ? 0 : digits + 15 << 10 | (n << 10 - digits & 0x3ff);
}

// The numbers that stand `place` bits up in both halves, 10 bits in all, less `middle`: under an exponent they are
// float16 and 1024 more.
INLINE pair_t pair_of(uint both, const uint place, const uint middle)
{
    uint result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(both ^ 0x64006400u), "r"((15 - place) * 0x04000400u),
          "r"(whole_half((1024 >> place) + middle) * 0x00010001u | 0x80008000u));
    return result;
}

// Bytes 1 and 3 of a word, less `middle`. GPUs of this maker have half as many units for shifts and masks as for sums,
// and this is one of such steps.
INLINE pair_t pair_of_odd(uint word, const uint middle)
{
    return pair_of(pick(word, 0x64646464u, 0x4341) ^ 0x64006400u, 0, middle);
}

// Bits 15 and 31 of `signs` are the signs.
INLINE pair_t pair_signed(pair_t pair, uint signs)
{
    return pair ^ signs & 0x80008000u;
}

INLINE float pair_first(pair_t pair)
{
    float result;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(result) : "r"(pair));
    return result;
}

INLINE float pair_second(pair_t pair)
{
    float result;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }" : "=f"(result) : "r"(pair));
    return result;
}

// Two numbers of a sign, two bits of exponent and one of mantissa, twice: 0 1 2 3 4 6 8 12 and the negatives. They
// stand `place` bits up in both halves; those bits, where float16 has its own, are a 2^-15th of them.
INLINE pair_t pair_of_e2m1(uint word, const uint place)
{
    uint signs = word << 12 - place;
    uint sizes = place > 9 ? word >> place - 9 : word << 9 - place;
    uint result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"((signs & 0x80008000u) ^ (sizes & 0x0e000e00u)), "r"(0x78007800u));
    return result;
}

// An eighth more or less.
INLINE pair_t pair_plus_eighth(pair_t pair, bool minus)
{
    uint result;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(pair), "r"(minus ? 0xb000b000u : 0x30003000u));
    return result;
}

// Halves, subnormal ones too.
INLINE float piece_half(uint bits)
{
    float result;
    asm("{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h; }" : "=f"(result) : "r"(bits));
    return result;
}
#else
typedef float2 pair_t;

INLINE pair_t pair_of(uint both, const uint place, const uint middle)
{
    uint2 bits = (uint2)(both & 0x3ff, both >> 16 & 0x3ff) | 0x4b000000u;
    return (as_float2(bits) - (8388608.0f + (float)(middle << place))) * (1.0f / (float)(1 << place));
}

INLINE pair_t pair_of_odd(uint word, const uint middle)
{
    return pair_of(word >> 8 & 0x00ff00ffu, 0, middle);
}

INLINE float pair_first(pair_t pair)
{
    return pair.x;
}

INLINE float pair_second(pair_t pair)
{
    return pair.y;
}

INLINE float e2m1(uint n)
{
    uint three = n & 7;
    uint size = three < 5 ? three : (three & 3) == 1 ? 6 : three * 4 - 16;
    return as_float(as_uint((float)size) | (n & 8) << 28);
}

INLINE pair_t pair_of_e2m1(uint word, const uint place)
{
    return (pair_t)(e2m1(word >> place & 15), e2m1(word >> place + 16 & 15));
}

INLINE pair_t pair_signed(pair_t pair, uint signs)
{
    return as_float2(as_uint2(pair) ^ ((uint2)(signs << 16, signs) & 0x80000000u));
}

INLINE pair_t pair_plus_eighth(pair_t pair, bool minus)
{
    return pair + (minus ? -0.125f : 0.125f);
}

INLINE float piece_half(uint bits)
{
    return half_of(bits & 0xffff);
}
#endif

// A byte as a number.
INLINE float byte_of(uint word, uint at)
{
    return as_float((word >> at * 8 & 255) | 0x4b000000u) - 8388608.0f;
}

// ---- bytes as words

INLINE uint word_across(uint low, uint high, uint shift)
{
    return (uint)(((ulong)high << 32 | low) >> shift);
}

// n words, 4 at most, from any place that is a multiple of 2: those around are loaded, and shifted. None is touched
// that has none of these bytes. No loop: compilers left some as they were, and the words in memory.
INLINE void words_at(BYTES p, const uint n, uint *to)
{
    uint shift = ((uint)(ulong)p & 2) * 8;
    __global const uint *from = (__global const uint *)(p - (shift >> 3));
    uint last = from[shift ? n : n - 1];
    uint first = from[0], second = n > 1 ? from[1] : last, third = n > 2 ? from[2] : last, fourth = n > 3 ? from[3] : last;
    to[0] = word_across(first, second, shift);
    if (n > 1)
        to[1] = word_across(second, third, shift);
    if (n > 2)
        to[2] = word_across(third, fourth, shift);
    if (n > 3)
        to[3] = word_across(fourth, last, shift);
}

// The n words behind a header of 1 or 2 bytes, which is returned.
INLINE uint words_behind(BYTES p, const uint header, const uint n, uint *to)
{
    uint shift = ((uint)(ulong)p & 3) * 8;
    __global const uint *from = (__global const uint *)(p - (shift >> 3));
    uint low = from[0];
    uint head = low >> shift & (1u << header * 8) - 1;
    UNROLL
    for (uint i = 0; i < n; i++) {
        uint high = from[i + 1];
        to[i] = word_across(low, high, shift + header * 8);
        low = high;
    }
    return head;
}

// n words, 2 or a multiple of 4, from a multiple of 4, or where `whole` of as many bytes.
INLINE void words_from(BYTES p, const uint n, bool whole, uint *to)
{
    __global const uint *from = (__global const uint *)p;
    if (n == 2) {
        uint2 two = whole ? *(__global const uint2 *)p : vload2(0, from);
        to[0] = two.x;
        to[1] = two.y;
        return;
    }
    UNROLL
    for (uint i = 0; i < n; i += 4) {
        uint4 four = whole ? ((__global const uint4 *)p)[i / 4] : vload4(i / 4, from);
        to[i] = four.x;
        to[i + 1] = four.y;
        to[i + 2] = four.z;
        to[i + 3] = four.w;
    }
}

// ---- blocks of 32: nibbles of 16 bytes, the low ones first, or bytes

#if defined(KIND_IS_Q4_0) || defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1) ||               \
    defined(KIND_IS_Q8_0) || defined(KIND_IS_IQ4_NL) || defined(KIND_IS_MXFP4)
#define PIECE_INPUTS 32
#define PIECE_TOGETHER 2
#define QUANTA_WORDS (BLOCK_BYTES / 4 - (KIND_BIAS ? 1 : 0)) // and Q5's bits in front
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
#elif defined(KIND_IS_MXFP4)
    to->head = words_behind(p, 1, QUANTA_WORDS, to->w);
#else
    to->head = words_behind(p, 2, QUANTA_WORDS, to->w);
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
        pairs[i] = pair_of(both, place, 0);
    }
}
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
        pairs[i] = pair_of(p->w[i / 2] >> i % 2 * 8 & 0x00030003u << 2 * set, 2 * set, 0);
}
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

// ---- grids, in local memory: entries of 8 bytes, of 4, or of 8 numbers of 2 bits

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
#define TABLE_WORDS (sizeof grid)
INLINE void table_fill(__local uint *table)
{
    for (uint i = get_local_id(0); i < TABLE_WORDS / 8; i += get_local_size(0)) {
        ulong entries = ((__constant const ulong *)grid)[i];
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
        ulong entries = ((__constant const ulong *)grid)[i];
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
        ulong entries = ((__constant const ulong *)grid)[i];
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
        pairs[i] = pair_plus_eighth(pair_of(entry & 0x00030003u << 2 * i, 2 * i, 1), minus);
}
#endif

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S) || defined(KIND_IS_IQ3_XXS) ||      \
    defined(KIND_IS_IQ3_S)
// Four inputs of bytes, the f-th four of the 8 that have these signs.
INLINE void pairs_of_bytes(uint bytes, uint signs, const uint f, pair_t *pairs)
{
    uint spread = signs * 0x4001; // signs of inputs 0 and 2 stand 16 apart, as their numbers do
    pairs[0] = pair_signed(pair_of(bytes & 0x00ff00ffu, 0, 0), spread << 15 - 4 * f);
    pairs[1] = pair_signed(pair_of_odd(bytes, 0), spread << 14 - 4 * f);
}
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

#ifndef PIECE_NEIGHBOURS
#define PIECE_NEIGHBOURS 0
#endif
#ifndef TABLE_WORDS
#define TABLE_WORDS 1
INLINE void table_fill(__local uint *table)
{
}
#endif

// Two pairs of a four: its inputs in order.
#if !NVIDIA_MMA
INLINE float4 four_of(const pair_t *two)
{
    return PIECE_NEIGHBOURS ? (float4)(two[0].x, two[0].y, two[1].x, two[1].y)
                            : (float4)(two[0].x, two[1].x, two[0].y, two[1].y);
}
#endif

#endif
