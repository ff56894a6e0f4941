// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: a row of x times rows of MLX's streams of bits, by planes, as kind_planes.cl has it. 512 inputs are STREAM_BITS
// vectors of 16 words. A word has inputs of which it may have a part only: its segments, counted from the top, and plane k
// is the k-th of each word, masked where it stands. A part is a number of its own, as much larger as it stands higher in
// its input; all of these powers of 2 are x's, which is packed plane by plane, and 0 where a word has no such segment.
// What is left of a row behind the last 512 goes by 16 inputs, and x as it is. Nibbles that say floats are shifted to the
// lowest bits instead, where a table of 16 has them.
#if SHAPE_CPU && (defined(KIND_IS_mxfp4) || defined(KIND_IS_nvfp4)) && (defined(__AVX512F__) || defined(__AVX2__))
#define STREAM_BITS 4
#define STREAM_TABLE 1
#elif SHAPE_CPU && defined(KIND_IS_AFFINE)
#define STREAM_BITS KIND_IS_AFFINE
#define STREAM_TABLE 0
#endif

#ifdef STREAM_BITS
#define KIND_STREAMS
#define SPAN 512
#define STREAM_PLANES                                                                                                  \
    (STREAM_BITS == 2 ? 16 : STREAM_BITS == 3 ? 12 : STREAM_BITS == 6 ? 6 : STREAM_BITS == 8 ? 4 : 8)
#define SPAN_PACKED (STREAM_BITS * STREAM_PLANES * 16)

// Segment k of word `word`: which of the 32 inputs that the word is of, the word's first bit of it, how many, and the
// input's first bit of these.
struct segment {
    uint input, bit, bits, above;
};

INLINE struct segment segment_of(uint word, uint k)
{
    uint r = word % STREAM_BITS * 32;
    uint top = (r + 31) / STREAM_BITS;
    struct segment s = {top - k, 0, 0, 0};
    if (top - r / STREAM_BITS < k) // it has fewer
        return s;
    uint first = s.input * STREAM_BITS, end = first + STREAM_BITS;
    s.bit = first < r ? 0 : first - r;
    s.bits = (end - r < 32 ? end - r : 32) - s.bit;
    s.above = first < r ? r - first : 0;
    return s;
}

// The highest would be a sign: it is masked one place lower.
INLINE uint segment_mask(uint word, uint k)
{
    struct segment s = segment_of(word, k);
    return (1u << s.bits) - 1 << s.bit >> (k == 0);
}

static uint stream_totals(uint in_dim) // where the sums begin
{
    return in_dim / SPAN * SPAN_PACKED + in_dim % SPAN;
}

static void pack_streams(__global const float *x, __global float *packed, uint in_dim)
{
    uint n = in_dim / SPAN;
    for (uint e = 0; e < SPAN_PACKED; e++) {
        uint word = e / (16 * STREAM_PLANES) * 16 + e % 16, k = e / 16 % STREAM_PLANES;
        struct segment s = segment_of(word, k);
        float factor = !s.bits ? 0 : STREAM_TABLE ? 1 : as_float(127 + s.above - s.bit + (k == 0) << 23);
        uint input = s.bits ? word / STREAM_BITS * 32 + s.input : 0;
        for (uint i = 0; i < n; i++)
            packed[i * SPAN_PACKED + e] = factor == 0 ? 0 : x[i * SPAN + input] * factor;
    }
    for (uint input = n * SPAN; input < in_dim; input += 16)
        vstore16(vload16(0, x + input), 0, packed + n * (SPAN_PACKED - SPAN) + input);
}

#ifdef KIND_IS_AFFINE
#define STREAM_SETS 1
// The scales or biases of each 32 inputs of the row's i-th 512.
INLINE float16 stream_scales(BYTES array, uint i, uint group_shift)
{
#if SCALE_TYPE == 2
    __global const uint *from = (__global const uint *)array;
    uint16 bits = group_shift == 1   ? vload16(i, from)
                  : group_shift == 2 ? vload8(i, from).s0011223344556677
                                     : vload4(i, from).s0000111122223333;
    return as_float16(bits);
#else
    __global const ushort *from = (__global const ushort *)array;
    ushort16 shorts = group_shift == 1   ? vload16(i, from)
                      : group_shift == 2 ? vload8(i, from).s0011223344556677
                                         : vload4(i, from).s0000111122223333;
    uint16 bits = convert_uint16(shorts);
#if SCALE_TYPE == 1
    uint16 size = bits & 0x7fff;
    uint16 small = as_uint16(as_float16(size | 0x3f000000u) - 0.5f);
    return as_float16(select((size << 13) + 0x38000000u, small, size < 1024u) | (bits & 0x8000) << 16);
#else
    return as_float16(bits << 16);
#endif
#endif
}
#elif defined(KIND_IS_mxfp4)
#define STREAM_SETS 1
// The exponents of several scales as floats, for twice the table's numbers: 2^(e - 128), also where that is subnormal.
#define SCALES_OF(e, words, as_floats) as_floats(select(e - 1 << 23, (words)(0x00200000u) << e, e < 2u))
INLINE float16 stream_scales(BYTES array, uint i, uint group_shift)
{
    uint16 e = bytes16(array + 16 * i);
    return SCALES_OF(e, uint16, as_float16);
}
#else
#define STREAM_SETS 2
INLINE float16 stream_scales(BYTES array, uint i, uint group_shift)
{
    return e4m3_16(bytes16(array + 16 * i)) * 0.5f;
}
#endif

#define OF_WORDS(f, v, k)                                                                                              \
    (uint16)(f(16 * v, k), f(16 * v + 1, k), f(16 * v + 2, k), f(16 * v + 3, k), f(16 * v + 4, k), f(16 * v + 5, k),   \
             f(16 * v + 6, k), f(16 * v + 7, k), f(16 * v + 8, k), f(16 * v + 9, k), f(16 * v + 10, k),                \
             f(16 * v + 11, k), f(16 * v + 12, k), f(16 * v + 13, k), f(16 * v + 14, k), f(16 * v + 15, k))
#define GROUP_AT(v, j) ((16 * (v) + (j)) * STREAM_SETS / STREAM_BITS)
#define OF_GROUPS(s, v)                                                                                                \
    __builtin_shufflevector(s[0], s[STREAM_SETS - 1], GROUP_AT(v, 0), GROUP_AT(v, 1), GROUP_AT(v, 2), GROUP_AT(v, 3), GROUP_AT(v, 4),      \
                            GROUP_AT(v, 5), GROUP_AT(v, 6), GROUP_AT(v, 7), GROUP_AT(v, 8), GROUP_AT(v, 9),            \
                            GROUP_AT(v, 10), GROUP_AT(v, 11), GROUP_AT(v, 12), GROUP_AT(v, 13), GROUP_AT(v, 14),       \
                            GROUP_AT(v, 15))

// Plane k of the v-th vector.
INLINE float16 stream_digits(uint16 w, const uint v, const uint k)
{
#if STREAM_TABLE
    return e2m1_16(w >> 28 - 4 * k);
#else
    return floats16((k == 0 ? w >> 1 : w) & OF_WORDS(segment_mask, v, k));
#endif
}

// ---- many rows of x: 256 inputs in their order

#if STREAM_TABLE
INLINE void stream_tile(const struct kind_row *r, uint first, float16 *tile)
{
    float s[16];
#ifdef KIND_IS_mxfp4
    uint8 e = convert_uint8(vload8(first / 256, r->scales));
    vstore8(SCALES_OF(e, uint8, as_float8), 0, s);
#else
    vstore16(stream_scales(r->scales, first / 256, 0) * r->factor, 0, s);
#endif
    KEEP_IN_MEMORY(s, s);
    UNROLL_2
    for (uint j = 0; j < 16; j++)
        tile[j] = kind_sixteen(r, first / 16 + j) * s[j * 16 / KIND_SCALES];
}
#else

// Of 64 inputs' bytes, the 16 that have the i-th 16 inputs, and where in these lane j's begins. 64 is a zero: a byte that
// is none makes newer compilers' whole word none.
#define STREAM_BYTES_AT(i) (2 * KIND_IS_AFFINE * (i) < 8 * KIND_IS_AFFINE - 16 ? 2 * KIND_IS_AFFINE * (i) : 8 * KIND_IS_AFFINE - 16)
#define STREAM_BIT(i, j) ((2 * KIND_IS_AFFINE * (i) - STREAM_BYTES_AT(i)) * 8 + KIND_IS_AFFINE * (j))
#define STREAM_BYTE(i, j) ((j) / 4 * 16 + STREAM_BIT(i, j) / 8)
#define STREAM_NEXT(i, j) (STREAM_BIT(i, j) / 8 < 15 ? STREAM_BYTE(i, j) + 1 : 64)
#define STREAM_LANE(i, j) STREAM_BYTE(i, j), STREAM_NEXT(i, j), 64, 64
#define STREAM_FOUR(i, j) STREAM_LANE(i, j), STREAM_LANE(i, j + 1), STREAM_LANE(i, j + 2), STREAM_LANE(i, j + 3)
typedef uchar __attribute__((ext_vector_type(64))) uchar64;
typedef uint4 __attribute__((aligned(1))) near4;

#define STREAM_SIXTEEN(i)                                                                                              \
    {                                                                                                                  \
        uint4 v = *(__global const near4 *)(p + STREAM_BYTES_AT(i));                                                   \
        uint16 all = (uint16)(v, v, v, v);                                                                             \
        uchar64 bytes = __builtin_astype(all, uchar64);                                                                \
        bytes = __builtin_shufflevector(bytes, (uchar64)(0), STREAM_FOUR(i, 0), STREAM_FOUR(i, 4), STREAM_FOUR(i, 8),  \
                                        STREAM_FOUR(i, 12));                                                           \
        uint16 q = __builtin_astype(bytes, uint16) >> (LANES_16 * KIND_IS_AFFINE & 7) & MASK;                          \
        tile[i] = fma(floats16(q), (float16)(s[i / 2]), (float16)(b[i / 2]));                                          \
    }

// The scales or biases of each 32 inputs of the row's i-th 256.
INLINE float8 tile_scales(BYTES array, uint i, uint group_shift)
{
    uint per = 8 >> group_shift - 1;
    float s[8];
    for (uint k = 0; k < 8; k++)
        s[k] = scale_number(array, i * per + (k >> group_shift - 1));
    return vload8(0, s);
}

INLINE void stream_tile(const struct kind_row *r, uint first, float16 *tile)
{
    float scales[8], biases[8];
    float *s = scales, *b = biases;
    vstore8(tile_scales(r->scales, first / 256, r->group_shift), 0, s);
    vstore8(tile_scales(r->biases, first / 256, r->group_shift), 0, b);
    KEEP_IN_MEMORY(s, b);
    BYTES p = r->p + first / 32 * BLOCK_BYTES;
    NO_UNROLL
    for (uint i = 0; i < 4; i++, p += 8 * KIND_IS_AFFINE, s += 2, b += 2, tile += 4) {
        STREAM_SIXTEEN(0)
        STREAM_SIXTEEN(1)
        STREAM_SIXTEEN(2)
        STREAM_SIXTEEN(3)
    }
}

#endif
#endif
