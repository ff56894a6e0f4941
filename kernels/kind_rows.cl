// SPDX-License-Identifier: GPL-3.0-or-later
// Kinds whose rows are no blocks, and rows of all kinds, by 16 and by 8 inputs: see kind_units.cl.
#ifdef KIND

// ---- plain halves

#ifdef KIND_IS_F16
#define KIND_SCALES 32
#define KIND_BIAS 0
SIXTEEN_IN
{
    uint16 bits = convert_uint16(vload16(j, (__global const ushort *)p));
    uint16 size = bits & 0x7fff;
    uint16 small = as_uint16(convert_float16(as_int16(size)) * 0x1p-24f);
    return as_float16(select((size << 13) + 0x38000000u, small, size < 1024u) | (bits & 0x8000) << 16);
}
EIGHT_IN
{
    return vload_half8(k, (__global const half *)p);
}
#endif

// ---- MLX's streams of bits, and scales in arrays of their own

#ifdef KIND_IS_AFFINE
#define KIND_SCALES 32
#define KIND_BIAS 1
#define KIND_ARRAYS
#define MASK ((1u << KIND_IS_AFFINE) - 1)
// Where 8 and 16 values begin: bytes, the next ones, and bits of these.
#if KIND_IS_AFFINE == 2
#define OWN(v) v.s0000111122223333
#define NEXT(v) v.s1111222233334444
#define BITS (uint16)(0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6)
#elif KIND_IS_AFFINE == 3
#define OWN(v) v.s0001112233344455
#define NEXT(v) v.s1112223344455566
#define BITS (uint16)(0, 3, 6, 1, 4, 7, 2, 5, 0, 3, 6, 1, 4, 7, 2, 5)
#elif KIND_IS_AFFINE == 4
#define OWN(v) v.s0011223344556677
#define NEXT(v) v.s1122334455667788
#define BITS (uint16)(0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4)
#elif KIND_IS_AFFINE == 5
#define OWN(v) v.s0011233455667889
#define NEXT(v) v.s112234456677899a
#define BITS (uint16)(0, 5, 2, 7, 4, 1, 6, 3, 0, 5, 2, 7, 4, 1, 6, 3)
#elif KIND_IS_AFFINE == 6
#define OWN(v) v.s00123345667899ab
#define NEXT(v) v.s112344567789aabc
#define BITS (uint16)(0, 6, 4, 2, 0, 6, 4, 2, 0, 6, 4, 2, 0, 6, 4, 2)
#endif
// 16 inputs are 2 * KIND_IS_AFFINE bytes: no more are read, for behind the last there may be nothing.
SIXTEEN_IN
{
    p += 2 * KIND_IS_AFFINE * j;
#if KIND_IS_AFFINE == 8
    return floats16(bytes16(p));
#else
#if KIND_IS_AFFINE == 2
    uchar16 v = (uchar16)(vload4(0, p), (uchar4)(0), (uchar8)(0));
#elif KIND_IS_AFFINE == 3
    uchar16 v = (uchar16)(vload4(0, p), vload2(2, p), (uchar2)(0), (uchar8)(0));
#elif KIND_IS_AFFINE == 4
    uchar16 v = (uchar16)(vload8(0, p), (uchar8)(0));
#elif KIND_IS_AFFINE == 5
    uchar16 v = (uchar16)(vload8(0, p), vload2(4, p), (uchar2)(0), (uchar4)(0));
#else
    uchar16 v = (uchar16)(vload8(0, p), vload4(2, p), (uchar4)(0));
#endif
    uint16 pair = convert_uint16(OWN(v)) | convert_uint16(NEXT(v)) << 8;
    return floats16(pair >> BITS & MASK);
#endif
}
// 8 inputs are KIND_IS_AFFINE bytes, at even or odd places.
EIGHT_IN
{
    p += KIND_IS_AFFINE * k;
#if KIND_IS_AFFINE == 8
    return floats8(bytes8(p), MASK);
#else
    ulong all = 0;
    UNROLL
    for (uint i = 0; i < KIND_IS_AFFINE; i++)
        all |= (ulong)p[i] << 8 * i;
    uint8 q = (uint8)(all, all >> KIND_IS_AFFINE, all >> 2 * KIND_IS_AFFINE, all >> 3 * KIND_IS_AFFINE,
                      all >> 4 * KIND_IS_AFFINE, all >> 5 * KIND_IS_AFFINE, all >> 6 * KIND_IS_AFFINE,
                      all >> 7 * KIND_IS_AFFINE);
    return floats8(q, MASK);
#endif
}
static float scale_number(BYTES array, uint i)
{
#if SCALE_TYPE == 2
    return ((__global const float *)array)[i];
#elif SCALE_TYPE == 1
    return half_of(((__global const ushort *)array)[i]);
#else
    return bf16(((__global const ushort *)array)[i]);
#endif
}
#define SCALE_BYTES(in_dim, group_size) ((in_dim) / (group_size) * (SCALE_TYPE == 2 ? 4 : 2))
#endif

#if defined(KIND_IS_mxfp4) || defined(KIND_IS_nvfp4)
#define KIND_BIAS 0
#define KIND_ARRAYS
// Of the lowest 4 bits. A permutation is one instruction; where there is none, compilers take numbers one by one.
#if SHAPE_CPU && defined(__AVX512F__)
static float16 e2m1_16(uint16 n)
{
    const float16 table = (float16)(0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12);
    return __builtin_ia32_permvarsf512(table, as_int16(n));
}
#elif SHAPE_CPU && defined(__AVX2__)
static float16 e2m1_16(uint16 n)
{
    const float8 table = (float8)(0, 1, 2, 3, 4, 6, 8, 12);
    uint16 sizes = (uint16)(as_uint8(__builtin_ia32_permvarsf256(table, as_int8(n.lo))),
                            as_uint8(__builtin_ia32_permvarsf256(table, as_int8(n.hi))));
    return as_float16(sizes | (n & 8) << 28);
}
#else
static float16 e2m1_16(uint16 n)
{
    return as_float16(as_uint16(signed16(packed16(n & 7, TABLE_F))) | (n & 8) << 28);
}
#endif
static float8 e2m1_8(uint8 n)
{
    return as_float8(as_uint8(signed8(packed8(n & 7, TABLE_F))) | (n & 8) << 28);
}
SIXTEEN_IN
{
    uint2 w = vload2(j, (__global const uint *)p);
    return e2m1_16((uint16)((uint8)(w.x), (uint8)(w.y)) >> (LANES_16 * 4 & 31));
}
EIGHT_IN
{
    uint word = *(__global const uint *)(p + 4 * k);
    return e2m1_8((uint8)(word) >> (LANES_8 * 4) & 15);
}
#ifdef KIND_IS_mxfp4
#define KIND_SCALES 32
#else
#define KIND_SCALES 16
#endif
#endif

#if defined(KIND_IS_nvfp4) || defined(KIND_IS_mxfp8)
// With the sign.
static float16 e4m3_16(uint16 bits)
{
#if SHAPE_CPU && defined(__AVX512F__)
    short16 half_bits = convert_short16(as_int16(bits << 24) >> 17) & (short16)(0xbfff);
    return __builtin_ia32_vcvtph2ps512_mask(half_bits, (float16)(0), (ushort)0xffff, 4) * 256.0f;
#else
    uint16 size = bits & 127;
    uint16 small = as_uint16(convert_float16(as_int16(size)) * 0x1p-9f);
    return as_float16(select((size << 20) + 0x3c000000u, small, size < 8u) | (bits & 128) << 24);
#endif
}
#endif

#ifdef KIND_IS_mxfp8
#define KIND_SCALES 32
#define KIND_BIAS 0
#define KIND_ARRAYS
SIXTEEN_IN
{
    return e4m3_16(bytes16(p + 16 * j));
}
EIGHT_IN
{
    uint8 bits = bytes8(p + 8 * k) & 255;
    uint8 size = bits & 127;
    uint8 small = as_uint8(convert_float8(as_int8(size)) * 0x1p-9f);
    return as_float8(select((size << 20) + 0x3c000000u, small, size < 8u) | (bits & 128) << 24);
}
#endif

#if defined(KIND_IS_mxfp4) || defined(KIND_IS_nvfp4) || defined(KIND_IS_mxfp8)
#define SCALE_BYTES(in_dim, group_size) ((in_dim) / KIND_SCALES)
#endif

// ---- rows of blocks

#if defined(KIND_IS_NVFP4) || defined(KIND_IS_nvfp4)
#define KIND_FACTOR
#endif

struct kind_row {
    BYTES p;
    bool whole; // blocks of a multiple of 8 or 16 bytes begin at such multiples
#ifdef KIND_FACTOR
    float factor;
#endif
#ifdef KIND_ARRAYS
    BYTES scales;
    BYTES biases;
    uint group_shift; // of 16 inputs
#endif
};

INLINE struct kind_row kind_row_of(const struct args_matrix *m, BYTES matrix, uint row)
{
    struct kind_row r;
    r.p = matrix + m->weight + (ulong)row * (m->in_dim / BLOCK_INPUTS * BLOCK_BYTES);
    r.whole = ((ulong)(matrix + m->weight) & 15) == 0;
#ifdef KIND_ARRAYS
    ulong at = (ulong)row * SCALE_BYTES(m->in_dim, m->group_size);
    r.scales = matrix + m->scales + at;
    r.biases = matrix + m->biases + at;
    r.group_shift = m->group_size == 32 ? 1 : m->group_size == 64 ? 2 : 3;
#endif
#ifdef KIND_FACTOR
    r.factor = m->factor ? *(__global const float *)(matrix + m->biases) : 1;
    r.factor *= m->factor == FACTOR_OF_LARGEST ? 1 / LARGEST_NVFP4 : 1;
#endif
    return r;
}

// Of the row's j-th 16 inputs, or its k-th 8, without the matrix's factor.
INLINE float2 kind_own_scale(const struct kind_row *r, uint j)
{
#ifdef KIND_IS_AFFINE
    uint group = j >> r->group_shift;
    return (float2)(scale_number(r->scales, group), scale_number(r->biases, group));
#elif defined(KIND_IS_nvfp4)
    uint e = r->scales[j];
    return (float2)((e & 128 ? -0.5f : 0.5f) * e4m3(e & 127), 0);
#elif defined(KIND_IS_mxfp4)
    return (float2)(power_of_two(r->scales[j / 2], 1), 0);
#elif defined(KIND_IS_mxfp8)
    return (float2)(power_of_two(r->scales[j / 2], 0), 0);
#elif defined(KIND_IS_F16)
    return (float2)(1, 0);
#else
    return scale_in(r->p + j / (BLOCK_INPUTS / 16) * BLOCK_BYTES, j % (BLOCK_INPUTS / 16));
#endif
}

INLINE float2 kind_scale(const struct kind_row *r, uint j)
{
#ifdef KIND_FACTOR
    return kind_own_scale(r, j) * r->factor;
#else
    return kind_own_scale(r, j);
#endif
}

// Streams and plain numbers go on from block to block.
#if defined(KIND_ARRAYS) || defined(KIND_IS_F16)
#define BLOCK_OF(r, i, per_block) (r)->p
#define IN_BLOCK(i, per_block) (i)
#else
#define BLOCK_OF(r, i, per_block) ((r)->p + (i) / (per_block) * BLOCK_BYTES)
#define IN_BLOCK(i, per_block) ((i) % (per_block))
#endif

INLINE float16 kind_sixteen(const struct kind_row *r, uint j)
{
    return sixteen_in(BLOCK_OF(r, j, BLOCK_INPUTS / 16), IN_BLOCK(j, BLOCK_INPUTS / 16));
}

INLINE float8 kind_eight(const struct kind_row *r, uint k)
{
    return eight_in(BLOCK_OF(r, k, BLOCK_INPUTS / 8), IN_BLOCK(k, BLOCK_INPUTS / 8));
}

#if SHAPE_CPU && BLOCK_INPUTS == 256
#define BLOCK_SETS (256 / KIND_SCALES)
// All of a block's s and b at once: for whoever goes through it whole.
static void block_scales(BYTES p, float *s, float *b)
{
#if defined(KIND_IS_IQ4_XS)
    uint8 low = (uint8)(u32_at(p + 4)) >> (LANES_8 * 4) & 15;
    uint8 high = (uint8)(u16_at(p + 2)) >> (LANES_8 * 2) & 3;
    vstore8((convert_float8(as_int8(low | high << 4)) - 32.0f) * half_at(p), 0, s);
#else
    for (uint i = 0; i < BLOCK_SETS; i++) {
        float2 scale = scale_in(p, i * (KIND_SCALES / 16));
        s[i] = scale.x;
        b[i] = scale.y;
    }
#endif
}
#endif

// Weights, rounded once: the products are exact, but for float32 scales; and those with a factor are rounded by it.
INLINE float8 kind_weights8(const struct kind_row *r, uint k)
{
    float2 scale = kind_own_scale(r, k / 2);
    float8 w = kind_eight(r, k) * scale.x;
#ifdef KIND_FACTOR
    w *= r->factor;
#endif
    return KIND_BIAS ? w + scale.y : w;
}

INLINE float16 kind_weights(const struct kind_row *r, uint j, float2 scale)
{
    float16 w = kind_sixteen(r, j) * scale.x;
#ifdef KIND_FACTOR
    w *= r->factor;
#endif
    return KIND_BIAS ? w + scale.y : w;
}

INLINE float16 kind_weights16(const struct kind_row *r, uint j)
{
    return kind_weights(r, j, kind_own_scale(r, j));
}

#endif
