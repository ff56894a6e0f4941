// SPDX-License-Identifier: GPL-3.0-or-later
// How the weights of one kind come out of their bytes: of the kind that this program is built for, KIND, whose blocks
// have BLOCK_INPUTS inputs in BLOCK_BYTES bytes. For each kind, in order of inputs, w = q * s + b:
//
//   KIND_SCALES, KIND_BIAS     inputs that share s and b, 16 or 32; 0 where b is 0 always
//   (s, b)  scale_in(p, j)     of the block's j-th 16 inputs
//   q       sixteen_in(p, j)   the j-th 16 inputs: for CPUs
//   q       eight_in(p, k)     the k-th 8 inputs: for GPUs, in loads of 2 and 4 bytes, for blocks lie no better
//
// Where it matters, GPUs take blocks apart as kind_pieces.cl says, and CPUs as kind_planes.cl, kind_tables.cl,
// kind_bytes.cl, kind_words.cl and kind_lookups.cl do. kind_grid_units.cl and kind_rows.cl have the other kinds. kinds.h's table has the
// sizes, ref_kinds.c the formulas in plain C.
#ifdef KIND

#define BYTES __global const uchar *
#define SCALE_IN static float2 scale_in(BYTES p, uint j)
#define SIXTEEN_IN static float16 sixteen_in(BYTES p, uint j)
#define EIGHT_IN static float8 eight_in(BYTES p, uint k)

#if SHAPE_CPU // which read words anywhere
typedef ushort __attribute__((aligned(1))) near_ushort;
typedef uint __attribute__((aligned(1))) near_uint;
static uint u16_at(BYTES p)
{
    return *(__global const near_ushort *)p;
}

static uint u32_at(BYTES p)
{
    return *(__global const near_uint *)p;
}
#else
#if defined(KIND_IS_MXFP4)
static uint u16_at(BYTES p)
{
    return p[0] | (uint)p[1] << 8;
}
#else
static uint u16_at(BYTES p)
{
    return *(__global const ushort *)p;
}
#endif

static uint u32_at(BYTES p)
{
#if BLOCK_BYTES % 4 == 0
    return *(__global const uint *)p;
#else
    return u16_at(p) | u16_at(p + 2) << 16;
#endif
}
#endif

// Halves, subnormal ones too, by integers alone: some drivers' conversions make those 0. Finite ones. F16C's doesn't.
#if SHAPE_CPU && defined(__F16C__)
static float2 halves_of(uint bits) // the low one first
{
    typedef short short8_bits __attribute__((ext_vector_type(8)));
    float4 four = __builtin_ia32_vcvtph2ps((short8_bits)as_short8((uint4)(bits, 0, 0, 0)));
    return four.xy;
}
static float half_of(uint bits)
{
    return halves_of(bits).x;
}
#else
static float half_of(uint bits)
{
    uint size = bits & 0x7fff;
    uint small = as_uint(as_float(0x3f000000u | size) - 0.5f); // no branch is worth it, so none is missed
    return as_float((size < 1024 ? small : (size << 13) + 0x38000000u) | (bits & 0x8000) << 16);
}
#if SHAPE_CPU
static float2 halves_of(uint bits)
{
    return (float2)(half_of(bits), half_of(bits >> 16));
}
#endif
#endif

static float half_at(BYTES p)
{
    return half_of(u16_at(p));
}

// What follows is for one shape or the other: the other's compiler drops it.
static float16 floats16(uint16 q) // below 2^23
{
    return convert_float16(as_int16(q));
}

static uint16 bytes16(BYTES p)
{
    return convert_uint16(vload16(0, p));
}

// 8 bytes as numbers, and as the low digits of floats.
static uint8 bytes8(BYTES p)
{
    uint low = u32_at(p);
    uint high = u32_at(p + 4);
    return (uint8)(low, low >> 8, low >> 16, low >> 24, high, high >> 8, high >> 16, high >> 24);
}

static float8 floats8(uint8 q, uint mask)
{
    return as_float8(q & mask | 0x4b000000u) - 8388608.0f;
}

// n is the number of an int8 in 16 packed ones.
static uint16 packed16(uint16 n, const uint4 packed)
{
    uint16 low = select((uint16)(packed.x), (uint16)(packed.y), (n & 4) != 0);
    uint16 high = select((uint16)(packed.z), (uint16)(packed.w), (n & 4) != 0);
    return select(low, high, (n & 8) != 0) >> ((n & 3) * 8);
}

#if SHAPE_CPU
// The same of a table of 16 numbers: one instruction where compilers see it.
static float16 found16(const uint4 packed, uchar16 n)
{
    return convert_float16(convert_int16(as_char16(__builtin_shufflevector(as_uchar16(packed), n & (uchar16)(15)))));
}
#else
#define found16(packed, n) signed16(packed16(convert_uint16(n), packed))
#endif

static uint8 packed8(uint8 n, const uint4 packed)
{
    uint8 low = select((uint8)(packed.x), (uint8)(packed.y), (n & 4) != 0);
    uint8 high = select((uint8)(packed.z), (uint8)(packed.w), (n & 4) != 0);
    return select(low, high, (n & 8) != 0) >> ((n & 3) * 8);
}

static float16 signed16(uint16 bytes) // their lowest 8 bits are an int8
{
    return convert_float16(as_int16(bytes << 24) >> 24);
}

static float8 signed8(uint8 bytes)
{
    return convert_float8(as_int8(bytes << 24) >> 24);
}

#define LANES_8 (uint8)(0, 1, 2, 3, 4, 5, 6, 7)
#define LANES_16 (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

#if SHAPE_CPU && defined(__AVX512F__) // a CPU's whole vectors, and how many are 16 lanes
#define LANES       16
#define HALVES      1
#define WORDS       uint16
#define FLOATS      float16
#define LANES_LOAD  vload16
#define LANES_STORE vstore16
#define AS_FLOATS   as_float16
#define FLOATS_OF(q) convert_float16(as_int16(q))
#elif SHAPE_CPU
#define LANES       8
#define HALVES      2
#define WORDS       uint8
#define FLOATS      float8
#define LANES_LOAD  vload8
#define LANES_STORE vstore8
#define AS_FLOATS   as_float8
#define FLOATS_OF(q) convert_float8(as_int8(q))
#endif

#if SHAPE_CPU && defined(__AVX512F__)
// a's bits where the mask has one, else b's: one instruction.
INLINE uint16 either_bits(const uint mask, uint16 a, uint16 b)
{
    return as_uint16(
        __builtin_ia32_pternlogd512_mask((int16)((int)mask), as_int16(a), as_int16(b), 0xca, (ushort)0xffff));
}
#endif

// ---- blocks of 32: nibbles of 16 bytes, the low ones first

#if defined(KIND_IS_Q4_0) || defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1)
#define KIND_SCALES 32
#if defined(KIND_IS_Q4_1) || defined(KIND_IS_Q5_1)
#define KIND_BIAS 1
#define MIDDLE 0.0f
#define HIGH_AT 4
#else
#define KIND_BIAS 0
#define HIGH_AT 2
#endif
#ifdef KIND_IS_Q4_0
#define MIDDLE 8.0f
#endif
#ifdef KIND_IS_Q5_0
#define MIDDLE 16.0f
#endif
SCALE_IN
{
    return (float2)(half_at(p), KIND_BIAS ? half_at(p + 2) : 0);
}
#if defined(KIND_IS_Q5_0) || defined(KIND_IS_Q5_1)
SIXTEEN_IN
{
    uint high = u32_at(p + HIGH_AT) >> 16 * j;
    uint16 q = bytes16(p + HIGH_AT + 4) >> 4 * j & 15;
    return floats16(q | ((uint16)(high) >> LANES_16 & 1) << 4) - MIDDLE;
}
EIGHT_IN
{
    uint high = u32_at(p + HIGH_AT) >> 8 * k;
    uint8 q = bytes8(p + HIGH_AT + 4 + k % 2 * 8) >> k / 2 * 4 & 15;
    return floats8(q | ((uint8)(high) >> LANES_8 & 1) << 4, 31) - MIDDLE;
}
#else
SIXTEEN_IN
{
    return floats16(bytes16(p + HIGH_AT) >> 4 * j & 15) - MIDDLE;
}
EIGHT_IN
{
    return floats8(bytes8(p + HIGH_AT + k % 2 * 8) >> k / 2 * 4, 15) - MIDDLE;
}
#endif
#endif

#ifdef KIND_IS_Q8_0
#define KIND_SCALES 32
#define KIND_BIAS 0
SCALE_IN
{
    return (float2)(half_at(p), 0);
}
SIXTEEN_IN
{
    return convert_float16(vload16(0, (__global const char *)p + 2 + 16 * j));
}
EIGHT_IN
{
    return floats8(bytes8(p + 2 + 8 * k) ^ 128u, 255) - 128.0f;
}
#endif

// 32-order nibbles that a table of 16 says the numbers of. T: -127 -104 -83 -65 ..; F: 0 1 2 3 4 6 8 12 and the
// negatives.
#define TABLE_T (uint4)(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u)
#define TABLE_F (uint4)(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu)

#ifdef KIND_IS_IQ4_NL
#define KIND_SCALES 32
#define KIND_BIAS 0
SCALE_IN
{
    return (float2)(half_at(p), 0);
}
SIXTEEN_IN
{
    return found16(TABLE_T, vload16(0, p + 2) >> (uchar16)(4 * j));
}
EIGHT_IN
{
    return signed8(packed8(bytes8(p + 2 + k % 2 * 8) >> k / 2 * 4 & 15, TABLE_T));
}
#endif

#if defined(KIND_IS_MXFP4) || defined(KIND_IS_mxfp4) || defined(KIND_IS_mxfp8)
// 2^(e - 127 - less), less 0 or 1; also where that is subnormal.
static float power_of_two(uint e, uint less)
{
    return e > less ? as_float((e - less) << 23) : as_float(0x00400000u >> (less - e));
}
#endif

#ifdef KIND_IS_MXFP4
#define KIND_SCALES 32
#define KIND_BIAS 0
SCALE_IN
{
    return (float2)(power_of_two(p[0], 1), 0);
}
SIXTEEN_IN
{
    return found16(TABLE_F, vload16(0, p + 1) >> (uchar16)(4 * j));
}
EIGHT_IN
{
    return signed8(packed8(bytes8(p + 1 + k % 2 * 8) >> k / 2 * 4 & 15, TABLE_F));
}
#endif

#if defined(KIND_IS_NVFP4) || defined(KIND_IS_nvfp4) || defined(KIND_IS_mxfp8)
// A float of 4 bits of exponent and 3 of mantissa, without its sign.
static float e4m3(uint size)
{
    return size < 8 ? (float)size * 0x1p-9f : as_float((size << 20) + 0x3c000000u);
}
#endif

#ifdef KIND_IS_NVFP4
#define KIND_SCALES 16
#define KIND_BIAS 0
SCALE_IN
{
    uint size = p[j]; // no number is negative, though bit 7 may be set; 0x7f is 0, and 0xff as if it weren't
    return (float2)(size == 0x7f ? 0 : 0.5f * e4m3(size & 0x7f), 0);
}
#if SHAPE_CPU && defined(__F16C__)
// Of two blocks: a float of 4 and 3 bits is a half without the highest and the lowest of its own, 256 times as small.
INLINE float8 scales_of_two(BYTES a, BYTES b)
{
    typedef short short8_bits __attribute__((ext_vector_type(8)));
    ushort8 bits = convert_ushort8(as_uchar8((uint2)(u32_at(a), u32_at(b))));
    bits = select((bits & (ushort)0x7f) << (ushort8)(7), (ushort8)(0), bits == (ushort)0x7f);
    return __builtin_ia32_vcvtph2ps256((short8_bits)as_short8(bits)) * 128.0f;
}
#endif
SIXTEEN_IN
{
    uchar8 q = vload8(0, p + 4 + 8 * j);
    return found16(TABLE_F, (uchar16)(q, q >> (uchar8)(4)));
}
EIGHT_IN
{
    return signed8(packed8(bytes8(p + 4 + k / 2 * 8) >> k % 2 * 4 & 15, TABLE_F));
}
#endif

// ---- blocks of 256

#if defined(KIND_IS_Q2_K) || defined(KIND_IS_TQ2_0)
SIXTEEN_IN
#ifdef KIND_IS_Q2_K
#define KIND_SCALES 16
#define KIND_BIAS 1
#define PAIRS_AT 16
#define MIDDLE 0.0f
#else
#define KIND_SCALES 32
#define KIND_BIAS 0
#define PAIRS_AT 0
#define MIDDLE 1.0f
#endif
{
    return floats16(bytes16(p + PAIRS_AT + j / 8 * 32 + j % 2 * 16) >> j % 8 / 2 * 2 & 3) - MIDDLE;
}
EIGHT_IN
{
    return floats8(bytes8(p + PAIRS_AT + k / 16 * 32 + k % 4 * 8) >> k % 16 / 4 * 2, 3) - MIDDLE;
}
SCALE_IN
{
#ifdef KIND_IS_Q2_K
    uint sc = p[j];
    return (float2)(half_at(p + 80) * (float)(sc & 15), -(half_at(p + 82) * (float)(sc >> 4)));
#else
    return (float2)(half_at(p + 64), 0);
#endif
}
#endif

#ifdef KIND_IS_Q3_K
#define KIND_SCALES 16
#define KIND_BIAS 0
SCALE_IN
{
    BYTES sc = p + 96;
    uint s = (sc[j % 8] >> j / 8 * 4 & 15) | (sc[8 + j % 4] >> j / 4 * 2 & 3) << 4;
    return (float2)(half_at(p + 108) * ((float)s - 32.0f), 0);
}
SIXTEEN_IN
{
    uint16 low = bytes16(p + 32 + j / 8 * 32 + j % 2 * 16) >> j % 8 / 2 * 2 & 3;
    uint16 high = bytes16(p + j % 2 * 16) >> j / 2 & 1;
    return floats16(low | high << 2) - 4.0f;
}
EIGHT_IN
{
    uint8 low = bytes8(p + 32 + k / 16 * 32 + k % 4 * 8) >> k % 16 / 4 * 2 & 3;
    uint8 high = bytes8(p + k % 4 * 8) >> k / 4 & 1;
    return floats8(low | high << 2, 7) - 4.0f;
}
#endif

#if defined(KIND_IS_Q4_K) || defined(KIND_IS_Q5_K)
#define KIND_SCALES 32
#define KIND_BIAS 1
SCALE_IN
{
    BYTES sc = p + 4;
    uint g = j / 2;
    uint s = g < 4 ? sc[g] & 63 : (sc[g + 4] & 15) | sc[g - 4] >> 6 << 4;
    uint m = g < 4 ? sc[g + 4] & 63 : sc[g + 4] >> 4 | sc[g] >> 6 << 4;
    return (float2)(half_at(p) * (float)s, -(half_at(p + 2) * (float)m));
}
#ifdef KIND_IS_Q4_K
SIXTEEN_IN
{
    return floats16(bytes16(p + 16 + j / 4 * 32 + j % 2 * 16) >> j % 4 / 2 * 4 & 15);
}
EIGHT_IN
{
    return floats8(bytes8(p + 16 + k / 8 * 32 + k % 4 * 8) >> k % 8 / 4 * 4, 15);
}
#else
SIXTEEN_IN
{
    uint16 low = bytes16(p + 48 + j / 4 * 32 + j % 2 * 16) >> j % 4 / 2 * 4 & 15;
    uint16 high = bytes16(p + 16 + j % 2 * 16) >> j / 2 & 1;
    return floats16(low | high << 4);
}
EIGHT_IN
{
    uint8 low = bytes8(p + 48 + k / 8 * 32 + k % 4 * 8) >> k % 8 / 4 * 4 & 15;
    uint8 high = bytes8(p + 16 + k % 4 * 8) >> k / 4 & 1;
    return floats8(low | high << 4, 31);
}
#endif
#endif

#ifdef KIND_IS_Q6_K
#define KIND_SCALES 16
#define KIND_BIAS 0
SCALE_IN
{
    return (float2)(half_at(p + 208) * (float)((__global const char *)p)[192 + j], 0);
}
SIXTEEN_IN
{
    uint16 low = bytes16(p + j / 8 * 64 + j % 4 * 16) >> j % 8 / 4 * 4 & 15;
    uint16 high = bytes16(p + 128 + j / 8 * 32 + j % 2 * 16) >> j % 8 / 2 * 2 & 3;
    return floats16(low | high << 4) - 32.0f;
}
EIGHT_IN
{
    uint8 low = bytes8(p + k / 16 * 64 + k % 8 * 8) >> k % 16 / 8 * 4 & 15;
    uint8 high = bytes8(p + 128 + k / 16 * 32 + k % 4 * 8) >> k % 16 / 4 * 2 & 3;
    return floats8(low | high << 4, 63) - 32.0f;
}
#endif

#ifdef KIND_IS_IQ4_XS
#define KIND_SCALES 32
#define KIND_BIAS 0
SCALE_IN
{
    uint g = j / 2;
    uint s = (p[4 + g / 2] >> g % 2 * 4 & 15) | (u16_at(p + 2) >> 2 * g & 3) << 4;
    return (float2)(half_at(p) * ((float)s - 32.0f), 0);
}
SIXTEEN_IN
{
    return found16(TABLE_T, vload16(0, p + 8 + j / 2 * 16) >> (uchar16)(j % 2 * 4));
}
EIGHT_IN
{
    return signed8(packed8(bytes8(p + 8 + k / 4 * 16 + k % 2 * 8) >> k % 4 / 2 * 4 & 15, TABLE_T));
}
#endif

#ifdef KIND_IS_TQ1_0
#define KIND_SCALES 32
#define KIND_BIAS 0
SCALE_IN
{
    return (float2)(half_at(p + 52), 0);
}
// A digit of 5 in base 3: the byte times 3^n, modulo 256, is 3 times as much of 256 as the digit.
SIXTEEN_IN
{
    if (j == 15) {
        uint4 q = convert_uint4(vload4(0, p + 48));
        uint16 four = (uint16)(q, q * 3, q * 9, q * 27);
        return floats16((four & 255) * 3 >> 8) - 1.0f;
    }
    const uint n = j < 10 ? j / 2 : j - 10;
    const uint power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    uint16 q = bytes16(p + (j < 10 ? j % 2 * 16 : 32)) * power;
    return floats16((q & 255) * 3 >> 8) - 1.0f;
}
EIGHT_IN
{
    if (k >= 30) {
        uint word = u32_at(p + 48);
        uint4 q = (uint4)(word, word >> 8, word >> 16, word >> 24) & 255;
        uint power = k == 30 ? 1 : 9;
        return floats8(((uint8)(q, q * 3) * power & 255) * 3 >> 8, 3) - 1.0f;
    }
    uint n = k < 20 ? k / 4 : k / 2 - 10;
    uint power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    uint8 q = (bytes8(p + (k < 20 ? k % 4 * 8 : 32 + k % 2 * 8)) & 255) * power;
    return floats8((q & 255) * 3 >> 8, 3) - 1.0f;
}
#endif

#endif
