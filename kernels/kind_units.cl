// SPDX-License-Identifier: GPL-3.0-or-later
// How the weights of one kind come out of their bytes: of the kind that this program is built for, KIND, whose blocks have
// BLOCK_INPUTS inputs in BLOCK_BYTES bytes. For each kind, in order of inputs, w = q * s + b:
//
//   KIND_SCALES, KIND_BIAS     inputs that share s and b, 16 or 32; 0 where b is 0 always
//   (s, b)  scale_in(p, j)     of the block's j-th 16 inputs
//   q       sixteen_in(p, j)   the j-th 16 inputs: for CPUs
//   q       eight_in(p, k)     the k-th 8 inputs: for GPUs, in loads of 2 and 4 bytes, for blocks lie no better
//
// kinds.h's table has the sizes, ref_kinds.c the formulas in plain C.
#ifdef KIND

#define BYTES __global const uchar *
#define SCALE_IN static float2 scale_in(BYTES p, uint j)
#define SIXTEEN_IN static float16 sixteen_in(BYTES p, uint j)
#define EIGHT_IN static float8 eight_in(BYTES p, uint k)

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

// Halves, subnormal ones too, by integers alone: some drivers' conversions make those 0. Finite ones.
static float half_of(uint bits)
{
    uint size = bits & 0x7fff;
    float value = size < 1024 ? (float)size * 0x1p-24f : as_float((size << 13) + 0x38000000u);
    return as_float(as_uint(value) | (bits & 0x8000) << 16);
}

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

// 32-order nibbles that a table of 16 says the numbers of. T: -127 -104 -83 -65 ..; F: 0 1 2 3 4 6 8 12 and the negatives.
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
    return signed16(packed16(bytes16(p + 2) >> 4 * j & 15, TABLE_T));
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
    return signed16(packed16(bytes16(p + 1) >> 4 * j & 15, TABLE_F));
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
SIXTEEN_IN
{
    uint8 q = convert_uint8(vload8(0, p + 4 + 8 * j));
    return signed16(packed16((uint16)(q & 15, q >> 4), TABLE_F));
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
    return signed16(packed16(bytes16(p + 8 + j / 2 * 16) >> j % 2 * 4 & 15, TABLE_T));
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

// ---- grids: entries of 8 values of 2 bits, or 4 of 3

#ifdef KIND_IS_IQ2_XXS
__constant ushort grid[] = GRID_IQ2_XXS;
#endif
#ifdef KIND_IS_IQ2_XS
__constant ushort grid[] = GRID_IQ2_XS;
#endif
#ifdef KIND_IS_IQ2_S
__constant ushort grid[] = GRID_IQ2_S;
#endif
#ifdef KIND_IS_IQ3_XXS
__constant ushort grid[] = GRID_IQ3_XXS;
#endif
#ifdef KIND_IS_IQ3_S
__constant ushort grid[] = GRID_IQ3_S;
#endif
#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
__constant ushort grid[] = GRID_IQ1_S;
#endif

// 7 signs, and the eighth that makes their number even.
static uint even_signs(uint bits)
{
    return bits | (popcount(bits) & 1) << 7;
}

// 8 values of 2 bits, and of 3.
static uint8 twos(uint entry)
{
    return (uint8)(entry) >> (LANES_8 * 2) & 3;
}

static uint8 threes(uint first, uint second)
{
    return (uint8)((uint4)(first), (uint4)(second)) >> (uint8)(0, 3, 6, 9, 0, 3, 6, 9) & 7;
}

static float8 with_signs(uint8 q, uint signs)
{
    return as_float8(as_uint8(convert_float8(as_int8(q))) | ((uint8)(signs) >> LANES_8) << 31);
}

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
#define KIND_BIAS 0
static float8 iq2(uint index, uint signs) // 8, 25, 43
{
    uint8 code = twos(grid[index]);
    return with_signs(code * 17 + (code >> 1) + 8, signs);
}
#ifdef KIND_IS_IQ2_XXS
#define KIND_SCALES 32
SCALE_IN
{
    return (float2)(half_at(p) * (0.5f + (float)(u32_at(p + 6 + j / 2 * 8) >> 28)) * 0.25f, 0);
}
EIGHT_IN
{
    uint l = k % 4;
    return iq2(u32_at(p + 2 + k / 4 * 8) >> 8 * l & 255, even_signs(u32_at(p + 6 + k / 4 * 8) >> 7 * l & 127));
}
#endif
#ifdef KIND_IS_IQ2_XS
#define KIND_SCALES 16
SCALE_IN
{
    return (float2)(half_at(p) * (0.5f + (float)(p[66 + j / 2] >> j % 2 * 4 & 15)) * 0.25f, 0);
}
EIGHT_IN
{
    uint q = u16_at(p + 2 + 2 * k);
    return iq2(q & 511, even_signs(q >> 9));
}
#endif
#ifdef KIND_IS_IQ2_S
#define KIND_SCALES 16
SCALE_IN
{
    return (float2)(half_at(p) * (0.5f + (float)(p[74 + j / 2] >> j % 2 * 4 & 15)) * 0.25f, 0);
}
EIGHT_IN
{
    return iq2(p[2 + k] | (p[66 + k / 4] >> k % 4 * 2 & 3) << 8, p[34 + k]);
}
#endif
#define BY_EIGHTS
#endif

#ifdef KIND_IS_IQ3_XXS
#define KIND_SCALES 32
#define KIND_BIAS 0
#define BY_EIGHTS
SCALE_IN
{
    return (float2)(half_at(p) * (0.5f + (float)(u32_at(p + 66 + j / 2 * 4) >> 28)) * 0.5f, 0);
}
EIGHT_IN // 4, 12 .. 52, 62
{
    uint8 code = threes(grid[p[2 + 2 * k]], grid[p[3 + 2 * k]]);
    uint signs = even_signs(u32_at(p + 66 + k / 4 * 4) >> 7 * (k % 4) & 127);
    return with_signs(code * 8 + (code + 1 >> 3) * 2 + 4, signs);
}
#endif

#ifdef KIND_IS_IQ3_S
#define KIND_SCALES 32
#define KIND_BIAS 0
#define BY_EIGHTS
SCALE_IN
{
    uint g = j / 2;
    return (float2)(half_at(p) * (float)(1 + 2 * (p[106 + g / 2] >> g % 2 * 4 & 15)), 0);
}
EIGHT_IN // 1, 3 .. 15
{
    uint high = p[66 + k / 4] >> k % 4 * 2;
    uint8 code = threes(grid[p[2 + 2 * k] | (high & 1) << 8], grid[p[3 + 2 * k] | (high & 2) << 7]);
    return with_signs(code * 2 + 1, p[74 + k]);
}
#endif

#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
#define KIND_BIAS 0
#define BY_EIGHTS
static float8 iq1(uint index, uint minus) // -1, 0 and 1, an eighth more or less
{
    return floats8(twos(grid[index]), 3) - (minus ? 1.125f : 0.875f);
}
#ifdef KIND_IS_IQ1_S
#define KIND_SCALES 32
SCALE_IN
{
    return (float2)(half_at(p) * (float)(2 * (u16_at(p + 34 + j / 2 * 2) >> 12 & 7) + 1), 0);
}
EIGHT_IN
{
    uint high = u16_at(p + 34 + k / 4 * 2);
    return iq1(p[2 + k] | (high >> k % 4 * 3 & 7) << 8, high >> 15);
}
#else
#define KIND_SCALES 16
SCALE_IN
{
    uint low = u32_at(p + 48);
    uint high = u32_at(p + 52);
    uint d = (low >> 12 & 15) | (low >> 28) << 4 | (high >> 12 & 15) << 8 | (high >> 28) << 12;
    uint s = u16_at(p + 48 + j / 4 * 2) >> (j / 2 % 2 * 6 + j % 2 * 3) & 7;
    return (float2)(half_of(d) * (float)(2 * s + 1), 0);
}
EIGHT_IN
{
    uint high = p[32 + k / 2] >> k % 2 * 4;
    return iq1(p[k] | (high & 7) << 8, high & 8);
}
#endif
#endif

#ifdef BY_EIGHTS
SIXTEEN_IN
{
    return (float16)(eight_in(p, 2 * j), eight_in(p, 2 * j + 1));
}
#endif

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
static float16 e2m1_16(uint16 n)
{
    return as_float16(as_uint16(signed16(packed16(n & 7, TABLE_F))) | (n & 8) << 28);
}
static float8 e2m1_8(uint8 n)
{
    return as_float8(as_uint8(signed8(packed8(n & 7, TABLE_F))) | (n & 8) << 28);
}
SIXTEEN_IN
{
    uchar8 v = vload8(j, p);
    return e2m1_16(convert_uint16(v.s0011223344556677) >> (uint16)(0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4) & 15);
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

#ifdef KIND_IS_mxfp8
#define KIND_SCALES 32
#define KIND_BIAS 0
#define KIND_ARRAYS
SIXTEEN_IN
{
    uint16 bits = bytes16(p + 16 * j);
    uint16 size = bits & 127;
    uint16 small = as_uint16(convert_float16(as_int16(size)) * 0x1p-9f);
    return as_float16(select((size << 20) + 0x3c000000u, small, size < 8u) | (bits & 128) << 24);
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
// All of a block's s and b at once, which takes a part of the steps that one by one take: for whoever goes through it whole.
static void block_scales(BYTES p, float *s, float *b)
{
#if defined(KIND_IS_Q4_K) || defined(KIND_IS_Q5_K)
    uint3 sc = (uint3)(u32_at(p + 4), u32_at(p + 8), u32_at(p + 12));
    uchar8 six = (uchar8)(as_uchar4(sc.x & 0x3f3f3f3fu), as_uchar4(sc.z & 0x0f0f0f0fu | sc.x >> 2 & 0x30303030u));
    uchar8 least = (uchar8)(as_uchar4(sc.y & 0x3f3f3f3fu), as_uchar4(sc.z >> 4 & 0x0f0f0f0fu | sc.y >> 2 & 0x30303030u));
    vstore8(convert_float8(convert_int8(six)) * half_at(p), 0, s);
    vstore8(convert_float8(convert_int8(least)) * -half_at(p + 2), 0, b);
#elif defined(KIND_IS_Q6_K)
    vstore16(convert_float16(convert_int16(vload16(0, (__global const char *)p + 192))) * half_at(p + 208), 0, s);
#elif defined(KIND_IS_Q2_K)
    uint16 sc = bytes16(p);
    vstore16(floats16(sc & 15) * half_at(p + 80), 0, s);
    vstore16(floats16(sc >> 4) * -half_at(p + 82), 0, b);
#elif defined(KIND_IS_Q3_K)
    uint3 sc = (uint3)(u32_at(p + 96), u32_at(p + 100), u32_at(p + 104));
    uint4 low = (uint4)(sc.x, sc.y, sc.x >> 4, sc.y >> 4) & 0x0f0f0f0fu;
    uint4 high = (uint4)(sc.z, sc.z >> 2, sc.z >> 4, sc.z >> 6) & 0x03030303u;
    uint16 six = convert_uint16(as_uchar16(low | high << 4));
    vstore16((floats16(six) - 32.0f) * half_at(p + 108), 0, s);
#elif defined(KIND_IS_IQ4_XS)
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

INLINE float16 kind_weights16(const struct kind_row *r, uint j)
{
    float2 scale = kind_own_scale(r, j);
    float16 w = kind_sixteen(r, j) * scale.x;
#ifdef KIND_FACTOR
    w *= r->factor;
#endif
    return KIND_BIAS ? w + scale.y : w;
}

#endif
