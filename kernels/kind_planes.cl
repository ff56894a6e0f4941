// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: a row of x times blocks of 256 inputs, by planes. A lane of 16 has a word of quanta, and its k-th plane is the k-th
// quantum of each word, masked where it stands. So x is packed plane by plane, as much smaller as quanta there are too
// large, which is exact, and no quantum is moved from lane to lane. Of a plane's lane j, in each SPAN inputs:
//
//   input of plane 4n + c    LANE_AT(j) + n * PART_AT + c
//   how much smaller         2^plane_shift(n, c)
//
// A block is four parts of 64 inputs, and where vectors have 8 lanes each part has two halves, h, which go apart: 16 lanes
// of four rows and of x would not fit registers. part_bytes(p, n, h): the n-th part of the block at p, a byte for each
// quantum, its planes c being 4n' + c where n' counts the parts of a SPAN. digits(p, n, h, c): the plane of these that the
// product takes.
#if defined(KIND) && SHAPE_CPU &&                                                                                      \
    (defined(KIND_IS_Q2_K) || defined(KIND_IS_Q3_K) || defined(KIND_IS_Q4_K) || defined(KIND_IS_Q5_K) ||               \
     defined(KIND_IS_Q6_K))
#define KIND_PLANES

#if defined(KIND_IS_Q2_K) || defined(KIND_IS_Q3_K)
#define SPAN 256
#define PARTS 4
#define PART_AT 32
#define LANE_AT(j) ((j) / 8 * 128 + (j) % 8 * 4)
#else
#define SPAN 128
#define PARTS 2
#if defined(KIND_IS_Q6_K)
#define PART_AT 64
#define LANE_AT(j) ((j) * 4)
#else
#define PART_AT 32
#define LANE_AT(j) ((j) / 8 * 64 + (j) % 8 * 4)
#endif
#endif

#if defined(__AVX512F__) && defined(KIND_IS_Q3_K)
#define PLANE_TABLES // see below
#endif

// The power of 2 that a quantum of plane 4n + c is too large by.
static uint plane_shift(uint n, uint c)
{
#ifdef PLANE_TABLES
    return 0;
#elif defined(KIND_IS_Q2_K)
    return c == 3 && n == 3 ? 0 : 8 * c + 2 * n;
#elif defined(KIND_IS_Q4_K)
    return c == 3 && n == 1 ? 0 : 8 * c + 4 * n;
#elif defined(KIND_IS_Q5_K)
    return c == 3 ? 0 : 8 * c;
#else
    return c == 3 ? 16 : 8 * c;
#endif
}

static void pack_planes(__global const float *x, __global float *packed, uint in_dim)
{
    for (uint at = 0; at < in_dim; at += SPAN)
        for (uint n = 0; n < PARTS; n++) {
            __global float *to = packed + at + n * 64;
            const uint4 shift = (uint4)(plane_shift(n, 0), plane_shift(n, 1), plane_shift(n, 2), plane_shift(n, 3));
            float4 factor = as_float4(127 - shift << 23);
            for (uint j = 0; j < 16; j++) {
                float4 four = vload4(0, x + at + n * PART_AT + LANE_AT(j)) * factor;
                to[j] = four.x;
                to[16 + j] = four.y;
                to[32 + j] = four.z;
                to[48 + j] = four.w;
            }
        }
}

#if HALVES == 1
#define SUM_OF_HALVES(s, i) sum16(s[0][i])
#else
#define SUM_OF_HALVES(s, i) sum8(s[0][i] + s[1][i])
#endif

// 64 and 32 bytes, which lie at even places: half h of 16 words, and of 8 words twice, the second time without their
// lowest bits.
typedef WORDS __attribute__((aligned(2))) near_words;
typedef uint8 __attribute__((aligned(2))) near8;

INLINE WORDS words_of(BYTES p, const uint h)
{
    return *(__global const near_words *)(p + 32 * h);
}

INLINE WORDS twice_of(BYTES p, const uint h, const uint shift)
{
    uint8 bits = *(__global const near8 *)p;
#if HALVES == 1
    return (uint16)(bits, bits >> shift);
#else
    return h ? bits >> shift : bits;
#endif
}

// ---- all of a block's s and b at once, which takes a part of the steps that one by one take; d is in all of them, and
// what b has besides

#if defined(KIND_IS_Q2_K)
#define UNITS_AT 80
#elif defined(KIND_IS_Q3_K)
#define UNITS_AT 106 // the second half is d
#elif defined(KIND_IS_Q6_K)
#define UNITS_AT 206
#else
#define UNITS_AT 0
#endif

#define D_AT (KIND_BIAS ? 0 : 1)
INLINE float d_in(BYTES p)
{
    float2 both = halves_of(u32_at(p + UNITS_AT));
    return KIND_BIAS ? both.x : both.y;
}

INLINE float m_in(BYTES p)
{
    return halves_of(u32_at(p + UNITS_AT)).y;
}

// Both of ROWS blocks, for memory, from where a number is spread over lanes for nothing.
INLINE void units_of_rows(const BYTES *rows, float (*units)[2])
{
#ifdef __F16C__
    typedef short short8_bits __attribute__((ext_vector_type(8)));
    uint4 bits = (uint4)(u32_at(rows[0] + UNITS_AT), u32_at(rows[1] + UNITS_AT), u32_at(rows[2] + UNITS_AT),
                         u32_at(rows[3] + UNITS_AT));
    vstore8(__builtin_ia32_vcvtph2ps256((short8_bits)as_short8(bits)), 0, units[0]);
#else
    for (uint i = 0; i < ROWS; i++)
        vstore2(halves_of(u32_at(rows[i] + UNITS_AT)), 0, units[i]);
#endif
}

#if KIND_SCALES == 16
#define SCALES float16
#define SCALES_STORE vstore16
#define SCALES_LOAD vload16
#define SCALES_SUM(v) sum16(v)
#else
#define SCALES float8
#define SCALES_STORE vstore8
#define SCALES_LOAD vload8
#define SCALES_SUM(v) sum16((float16)(v, (float8)(0)))
#endif

#if defined(KIND_IS_Q4_K) || defined(KIND_IS_Q5_K)
INLINE SCALES scales_in(BYTES p, float d)
{
    uint2 sc = (uint2)(u32_at(p + 4), u32_at(p + 12));
    uint2 six = (uint2)(sc.x & 0x3f3f3f3fu, sc.y & 0x0f0f0f0fu | sc.x >> 2 & 0x30303030u);
    return convert_float8(convert_int8(as_uchar8(six))) * d;
}
INLINE SCALES biases_in(BYTES p, float m)
{
    uint2 sc = (uint2)(u32_at(p + 8), u32_at(p + 12));
    uint2 six = (uint2)(sc.x & 0x3f3f3f3fu, sc.y >> 4 & 0x0f0f0f0fu | sc.x >> 2 & 0x30303030u);
    return convert_float8(convert_int8(as_uchar8(six))) * -m;
}
#endif

#ifdef KIND_IS_Q2_K
INLINE SCALES scales_in(BYTES p, float d)
{
    return floats16(bytes16(p) & 15) * d;
}
INLINE SCALES biases_in(BYTES p, float m)
{
    return floats16(bytes16(p) >> 4) * -m;
}
#endif

#ifdef KIND_IS_Q3_K
INLINE SCALES scales_in(BYTES p, float d)
{
    uint2 sc = (uint2)(u32_at(p + 96), u32_at(p + 100));
    uint4 low = sc.xyxy >> (uint4)(0, 0, 4, 4) & 0x0f0f0f0fu;
    uint4 high = rotate((uint4)(u32_at(p + 104)), (uint4)(4, 2, 0, 30)) & 0x30303030u;
    return (floats16(convert_uint16(as_uchar16(low | high))) - 32.0f) * d;
}
#endif

#ifdef KIND_IS_Q6_K
INLINE SCALES scales_in(BYTES p, float d)
{
    return convert_float16(convert_int16(vload16(0, (__global const char *)p + 192))) * d;
}
#endif

// ---- parts, and their planes

#ifdef KIND_IS_Q2_K
#define MIDDLE_OF_BYTES 0
INLINE WORDS part_bytes(BYTES p, const uint n, const uint h)
{
    return words_of(p + 16, h) >> 2 * n & 0x03030303u;
}
INLINE FLOATS digits(BYTES p, const uint n, const uint h, const uint c)
{
    WORDS w = words_of(p + 16, h);
    return FLOATS_OF(c == 3 && n == 3 ? w >> 30 : w & 3u << 8 * c + 2 * n);
}
#endif

#ifdef KIND_IS_Q3_K
#define MIDDLE_OF_BYTES 4
INLINE WORDS part_bytes(BYTES p, const uint n, const uint h)
{
    WORDS high = twice_of(p, h, 4);
    return words_of(p + 32, h) >> 2 * n & 0x03030303u | (n < 2 ? high << 2 - n : high >> n - 2) & 0x04040404u;
}
#endif

#ifdef KIND_IS_Q4_K
#define MIDDLE_OF_BYTES 0
INLINE WORDS part_bytes(BYTES p, const uint n, const uint h)
{
    return words_of(p + 16 + n / 2 * 64, h) >> 4 * (n % 2) & 0x0f0f0f0fu;
}
INLINE FLOATS digits(BYTES p, const uint n, const uint h, const uint c)
{
    WORDS w = words_of(p + 16 + n / 2 * 64, h);
    return FLOATS_OF(c == 3 && n % 2 == 1 ? w >> 28 : w & 15u << 8 * c + 4 * (n % 2));
}
#endif

#ifdef KIND_IS_Q5_K
#define MIDDLE_OF_BYTES 0
INLINE WORDS part_bytes(BYTES p, const uint n, const uint h)
{
    WORDS high = twice_of(p + 16, h, 2);
    high = n == 0 ? high << 4 : n == 1 ? high << 3 : n == 2 ? high : high >> 1;
    return words_of(p + 48 + n / 2 * 64, h) >> 4 * (n % 2) & 0x0f0f0f0fu | high & 0x10101010u;
}
#endif

#ifdef KIND_IS_Q6_K
#define MIDDLE_OF_BYTES 32
INLINE WORDS part_bytes(BYTES p, const uint n, const uint h)
{
    WORDS high = twice_of(p + 128 + n / 2 * 32, h, 2);
    return words_of(p + n / 2 * 64, h) >> 4 * (n % 2) & 0x0f0f0f0fu | (n % 2 ? high : high << 4) & 0x30303030u;
}
#endif

#ifdef PLANE_TABLES
// A word that is shifted until its lowest 4 bits have a quantum is the index of a permutation of 16 numbers, for which
// nothing is masked: bits of the index that are another's change nothing.
#define LOOKED_UP(numbers, w, shift) __builtin_ia32_permvarsf512(numbers, as_int16((w) >> (shift)))

// Two sets of words, for parts 0 and 3 and for 1 and 2, have the upper bits where their bytes have no use for other bits:
// a byte's bits of the parts are 33h3 0h00 and hh22 11.., h being the part's own. In 1 it is the fifth of the index.
INLINE FLOATS table_digits(BYTES p, const uint n, const uint c)
{
    WORDS low = words_of(p + 32, 0);
    uint8 bits = *(__global const near8 *)p; // of 8 words, and from their fourth on of 8 more
    WORDS high = (uint16)(bits, bits);
    if (n == 0 || n == 3) {
        high = rotate(high, (uint16)((uint8)(2), (uint8)(30)));
        WORDS w = either_bits(0x24242424, high, low);
        return n == 0 ? LOOKED_UP((float16)(-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3), w, 8 * c)
                      : LOOKED_UP((float16)(-4, 0, -3, 1, -2, 2, -1, 3, -4, 0, -3, 1, -2, 2, -1, 3), w, 8 * c + 5);
    }
    high = rotate(high, (uint16)((uint8)(5), (uint8)(1)));
    WORDS w = either_bits(0xc0c0c0c0, high, low);
    if (n == 2)
        return LOOKED_UP((float16)(-4, -3, -2, -1, -4, -3, -2, -1, 0, 1, 2, 3, 0, 1, 2, 3), w, 8 * c + 4);
    const float16 without = (float16)(-4, -3, -2, -1, -4, -3, -2, -1, -4, -3, -2, -1, -4, -3, -2, -1);
    const float16 with = (float16)(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    return __builtin_ia32_vpermi2varps512(without, as_int16(w >> 8 * c + 2), with);
}
#endif

#if HALVES == 2 && !defined(KIND_IS_Q2_K) && !defined(KIND_IS_Q4_K)
// A half is 32 inputs in their order. Where its bytes are put together anyway, and there are few registers, they go
// through memory and are widened from there, 8 in two steps, without a mask or a constant for each plane. x stays as it is.
#define KIND_BYTES
INLINE void block_open(BYTES p, struct open_block *b)
{
    SCALES_STORE(scales_in(p, d_in(p)), 0, b->scales);
    UNROLL
    for (uint n = 0; n < 4; n++)
        UNROLL
        for (uint h = 0; h < 2; h++) {
            WORDS q = part_bytes(p, n, h);
            b->q[(n / PARTS * SPAN + n % PARTS * PART_AT + LANE_AT(8 * h)) / 32] =
                __builtin_astype(q, char32) - (char)MIDDLE_OF_BYTES;
        }
}

#if KIND_BIAS
#define BLOCK_TOTALS (256 / KIND_SCALES)
INLINE float8 block_rest(BYTES p, const struct open_block *b, __global const float *totals)
{
    return biases_in(p, m_in(p)) * vload8(0, totals);
}
#endif
#else

// Plane c of bytes: where they have a middle, as the low digits of floats, from which it is taken with the rest. Such a
// digit has 23 bits, so the fourth byte moves to the third's place.
#if !defined(KIND_IS_Q2_K) && !defined(KIND_IS_Q4_K)
INLINE FLOATS digits_of(WORDS q, const uint c)
{
#if MIDDLE_OF_BYTES
    const uint place = c == 3 ? 16 : 8 * c;
    WORDS low = (c == 3 ? q >> 8 : q) & 255u << place;
    return AS_FLOATS(low | 0x4b000000u) - (8388608.0f + (float)(MIDDLE_OF_BYTES << place));
#else
    return FLOATS_OF(c == 3 ? q >> 24 : q & 255u << 8 * c);
#endif
}
#endif

// Which s a part's lanes have, and these, of a block's: 16 lanes take theirs by a permutation, 8 have one or two from memory.
#define SET_AT(n, j) ((n) / PARTS * SPAN + (n) % PARTS * PART_AT + LANE_AT(j)) / KIND_SCALES
#if HALVES == 1
#define BLOCK_SCALES SCALES
#define SCALES_TAKE(s, p, d) s = scales_in(p, d)
#define SPREAD(s, n, h)                                                                                                \
    __builtin_shufflevector(s, s, SET_AT(n, 0), SET_AT(n, 1), SET_AT(n, 2), SET_AT(n, 3), SET_AT(n, 4), SET_AT(n, 5),  \
                            SET_AT(n, 6), SET_AT(n, 7), SET_AT(n, 8), SET_AT(n, 9), SET_AT(n, 10), SET_AT(n, 11),      \
                            SET_AT(n, 12), SET_AT(n, 13), SET_AT(n, 14), SET_AT(n, 15))
#else
struct block_scales {
    float s[256 / KIND_SCALES];
};
#define BLOCK_SCALES struct block_scales
#define SCALES_TAKE(scales, p, d) SCALES_STORE(scales_in(p, d), 0, (scales).s)
#if KIND_SCALES == 32
#define SPREAD(scales, n, h) (float8)((scales).s[SET_AT(n, 8 * (h))])
#else
#define SPREAD(scales, n, h) vload2(0, (scales).s + SET_AT(n, 8 * (h))).s00001111
#endif
#endif

// The products of half h of a part of the block at p with its four planes of x.
INLINE FLOATS part_dot(BYTES p, const uint n, const uint h, const FLOATS *x)
{
#ifdef PLANE_TABLES
#define DIGITS(c) table_digits(p, n, c)
#elif defined(KIND_IS_Q2_K) || defined(KIND_IS_Q4_K)
#define DIGITS(c) digits(p, n, h, c)
#else
    WORDS q = part_bytes(p, n, h);
#define DIGITS(c) digits_of(q, c)
#endif
    FLOATS part = DIGITS(0) * x[0];
    part = fma(DIGITS(1), x[1], part);
    part = fma(DIGITS(2), x[2], part);
    return fma(DIGITS(3), x[3], part);
}
#endif

#endif
