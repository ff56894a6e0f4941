// SPDX-License-Identifier: GPL-3.0-or-later
// CPU with vectors of 16 floats: a row of x times blocks of nibbles, which stay where they lie in 16 words of 128 inputs. A
// word that is shifted until its k-th nibble is the lowest is the index of a permutation of the 16 numbers that nibbles
// say, for which no mask is needed; so plane k is a shift, a permutation and the product. A fifth bit is put beside the
// nibbles of every other plane, where these need none, for a permutation of 32 numbers. x is packed plane by plane. A block
// of 256 is two vectors, smaller blocks are gathered; what is left of a row behind the last 128 goes by 16 inputs, and x as
// it is.
#if defined(KIND) && SHAPE_CPU && defined(__AVX512F__) && defined(__F16C__) &&                                          \
    (defined(KIND_IS_Q4_0) || defined(KIND_IS_IQ4_NL) || defined(KIND_IS_IQ4_XS) || defined(KIND_IS_MXFP4) ||          \
     defined(KIND_IS_NVFP4) || defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1))
#define KIND_WORDS
#define WORDS_INPUTS 128 // of a vector

#if defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1)
#define WORDS_MIDDLE (KIND_BIAS ? 0 : 16)
#elif defined(KIND_IS_Q4_0)
#define WORDS_TABLE convert_float16(as_int16(LANES_16) - 8)
#elif defined(KIND_IS_Q4_1)
#define WORDS_TABLE convert_float16(LANES_16)
#elif defined(KIND_IS_MXFP4) || defined(KIND_IS_NVFP4)
#define WORDS_TABLE (float16)(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
#else
#define WORDS_TABLE (float16)(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
#endif

typedef uint4 __attribute__((aligned(1))) near_uint4;
typedef uint8 __attribute__((aligned(1))) near_uint8;
typedef uint16 __attribute__((aligned(1))) near_uint16;
typedef short short8_bits __attribute__((ext_vector_type(8)));

// Where the v-th vector of the row that begins at p has its blocks, its words, and their scales: four for each of ROWS rows
// at once, for what makes scales of bits costs a vector as much as four numbers.
#if defined(KIND_IS_IQ4_XS)
INLINE BYTES vector_at(BYTES p, uint v)
{
    return p + v / 2 * BLOCK_BYTES;
}
INLINE uint16 vector_words(BYTES p, uint v)
{
    return *(__global const near_uint16 *)(vector_at(p, v) + 8 + v % 2 * 64);
}
#else
INLINE BYTES vector_at(BYTES p, uint v)
{
    return p + v * (WORDS_INPUTS / BLOCK_INPUTS * BLOCK_BYTES);
}
INLINE uint16 vector_words(BYTES p, uint v)
{
    BYTES at = vector_at(p, v) + BLOCK_BYTES - BLOCK_INPUTS / 2;
#if BLOCK_INPUTS == 64
    return (uint16)(*(__global const near_uint8 *)at, *(__global const near_uint8 *)(at + BLOCK_BYTES));
#else
    return (uint16)(*(__global const near_uint4 *)at, *(__global const near_uint4 *)(at + BLOCK_BYTES),
                    *(__global const near_uint4 *)(at + 2 * BLOCK_BYTES),
                    *(__global const near_uint4 *)(at + 3 * BLOCK_BYTES));
#endif
}
#endif

// Of four blocks, put together as integers, for moving numbers into lanes one by one takes more of the scarce instructions.
INLINE uint4 four_words(BYTES p)
{
    return as_uint4((ulong2)(u32_at(p) | (ulong)u32_at(p + BLOCK_BYTES) << 32,
                             u32_at(p + 2 * BLOCK_BYTES) | (ulong)u32_at(p + 3 * BLOCK_BYTES) << 32));
}

INLINE float16 sixteen_halves(short16 bits)
{
    typedef short short16_bits __attribute__((ext_vector_type(16)));
    return __builtin_ia32_vcvtph2ps512_mask((short16_bits)bits, (float16)(0), (ushort)0xffff, 4);
}

#if defined(KIND_IS_NVFP4)
INLINE float16 vector_scales(BYTES p, uint v)
{
    BYTES block = vector_at(p, v);
    return scales_of_two(block, block + BLOCK_BYTES).s0011223344556677;
}
#define ROWS_SCALES(rows, v)
#define ROW_SCALES(i, p, v) vector_scales(p, v)
#else
#define ROW_SCALES(i, p, v) __builtin_ia32_permvarsf512(scales, as_int16(LANES_16 / 4 + 4 * (i)))
#if defined(KIND_IS_IQ4_XS)
INLINE float16 four_halves(uint4 bits) // each for four lanes
{
    bits.xy = bits.xz | bits.yw << 16;
    float4 d = __builtin_ia32_vcvtph2ps((short8_bits)as_short8(bits));
    return d.s0000111122223333;
}
INLINE float16 rows_scales(BYTES a, BYTES b, BYTES c, BYTES d, const uint half_of_block)
{
    uint4 low = (uint4)(u32_at(a + 4), u32_at(b + 4), u32_at(c + 4), u32_at(d + 4));
    uint4 first = (uint4)(u32_at(a), u32_at(b), u32_at(c), u32_at(d));
    uint16 at = LANES_16 & 3;
    uint16 s = low.s0000111122223333 >> (4 * at + 16 * half_of_block) & 15 |
               (first.s0000111122223333 >> (2 * at + 16 + 8 * half_of_block) & 3) << 4;
    return (floats16(s) - 32.0f) * four_halves(first & 0xffff);
}
#define ROWS_SCALES(rows, v)                                                                                           \
    float16 scales = rows_scales(vector_at(rows[0].p, v), vector_at(rows[1].p, v), vector_at(rows[2].p, v),            \
                                 vector_at(rows[3].p, v), v % 2);
#elif defined(KIND_IS_MXFP4)
INLINE uint four_bytes(BYTES p)
{
    return p[0] | p[BLOCK_BYTES] << 8 | p[2 * BLOCK_BYTES] << 16 | (uint)p[3 * BLOCK_BYTES] << 24;
}
INLINE float16 rows_scales(BYTES a, BYTES b, BYTES c, BYTES d)
{
    int16 e = convert_int16(as_uchar16((uint4)(four_bytes(a), four_bytes(b), four_bytes(c), four_bytes(d))));
    return as_float16(max(e - 1 << 23, e + 1 << 21)); // power_of_two(e, 1)
}
#elif KIND_BIAS
INLINE uint16 rows_units(BYTES a, BYTES b, BYTES c, BYTES d)
{
    return (uint16)(four_words(a), four_words(b), four_words(c), four_words(d));
}
#define ROWS_SCALES(rows, v)                                                                                           \
    uint16 units = rows_units(vector_at(rows[0].p, v), vector_at(rows[1].p, v), vector_at(rows[2].p, v),               \
                              vector_at(rows[3].p, v));                                                                \
    float16 scales = sixteen_halves(convert_short16(as_int16(units)));                                                 \
    float16 biases = sixteen_halves(convert_short16(as_int16(units >> 16)));
#else
INLINE ulong four_halves(BYTES p)
{
    return u16_at(p) | u16_at(p + BLOCK_BYTES) << 16 |
           (ulong)(u16_at(p + 2 * BLOCK_BYTES) | u16_at(p + 3 * BLOCK_BYTES) << 16) << 32;
}
INLINE float16 rows_scales(BYTES a, BYTES b, BYTES c, BYTES d)
{
    ulong4 bits = (ulong4)(four_halves(a), four_halves(b), four_halves(c), four_halves(d));
    return sixteen_halves(as_short16(bits));
}
#endif
#ifndef ROWS_SCALES
#define ROWS_SCALES(rows, v)                                                                                           \
    float16 scales = rows_scales(vector_at(rows[0].p, v), vector_at(rows[1].p, v), vector_at(rows[2].p, v),            \
                                 vector_at(rows[3].p, v));
#endif
#endif

#if defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1)
// Words whose even nibbles, and words whose odd ones, have their fifth bit beside them: the bit above, and the one below.
struct words {
    uint16 even, odd;
};
#define APART(n, at)                                                                                                   \
    (((n) & 1) << at | ((n) >> 1 & 1) << 8 + at | ((n) >> 2 & 1) << 16 + at | ((n) >> 3 & 1) << 24 + at)
INLINE struct words row_words_of(BYTES p, uint v)
{
    BYTES at = vector_at(p, v) + BLOCK_BYTES - 20;
    uint16 w = vector_words(p, v);
    // 4 of the even nibbles, and from bit 16 on 4 of the odd ones
    uint16 bits = four_words(at).s0000111122223333 >> 4 * (LANES_16 & 3);
    int16 above = __builtin_ia32_permvarsi512(as_int16(APART(LANES_16, 4)), as_int16(bits));
    int16 below = __builtin_ia32_permvarsi512(as_int16(APART(LANES_16, 3)), as_int16(bits >> 16));
    struct words words = {either_bits(0x10101010, as_uint16(above), w), either_bits(0x08080808, as_uint16(below), w)};
    return words;
}

INLINE float16 word_numbers(const struct words *w, const uint k)
{
    const int16 lanes = as_int16(LANES_16), middle = WORDS_MIDDLE;
    if (k % 2 == 0)
        return __builtin_ia32_vpermi2varps512(convert_float16(lanes - middle), as_int16(w->even >> 4 * k),
                                              convert_float16(lanes + 16 - middle));
    return __builtin_ia32_vpermi2varps512(convert_float16((lanes >> 1) + (lanes & 1) * 16 - middle),
                                          as_int16(w->odd >> 4 * k - 1),
                                          convert_float16((lanes >> 1) + 8 + (lanes & 1) * 16 - middle));
}
#else
struct words {
    uint16 all;
};
INLINE struct words row_words_of(BYTES p, uint v)
{
    struct words words = {vector_words(p, v)};
    return words;
}

// Of 16 words, the numbers of their k-th nibbles.
INLINE float16 word_numbers(const struct words *w, const uint k)
{
    return __builtin_ia32_permvarsf512(WORDS_TABLE, as_int16(w->all >> 4 * k));
}
#endif

// Plane 2c + h is of a word's bytes c, whose halves h are 16 inputs apart, or 8.
static void pack_vectors(__global const float *x, __global float *packed, uint in_dim)
{
    uint whole = in_dim / WORDS_INPUTS * WORDS_INPUTS;
    for (uint input = 0; input < whole; input += 32) {
        __global float *to = packed + input / WORDS_INPUTS * WORDS_INPUTS + input % WORDS_INPUTS / 8;
        float16 one = vload16(0, x + input), two = vload16(1, x + input);
#ifdef KIND_IS_NVFP4
        float16 low = (float16)(one.lo, two.lo), high = (float16)(one.hi, two.hi);
#else
        float16 low = one, high = two;
#endif
        vstore4(low.s048c, 0, to);
        vstore4(high.s048c, 4, to);
        vstore4(low.s159d, 8, to);
        vstore4(high.s159d, 12, to);
        vstore4(low.s26ae, 16, to);
        vstore4(high.s26ae, 20, to);
        vstore4(low.s37bf, 24, to);
        vstore4(high.s37bf, 28, to);
    }
    for (uint input = whole; input < in_dim; input += 16)
        vstore16(vload16(0, x + input), 0, packed + input);
}

#endif
