// SPDX-License-Identifier: GPL-3.0-or-later
// How the weights of ggml's IQ1, IQ2 and IQ3 come out of their bytes, as kind_units.cl says: indices of entries of a
// grid, of 8 values of 2 bits or 4 of 3, and signs.
#ifdef KIND

#ifdef KIND_IS_IQ2_XXS
__constant ushort __attribute__((aligned(16))) grid[] = GRID_IQ2_XXS;
#endif
#ifdef KIND_IS_IQ2_XS
__constant ushort __attribute__((aligned(16))) grid[] = GRID_IQ2_XS;
#endif
#ifdef KIND_IS_IQ2_S
__constant ushort __attribute__((aligned(16))) grid[] = GRID_IQ2_S;
#endif
#ifdef KIND_IS_IQ3_XXS
__constant ushort __attribute__((aligned(16))) grid[] = GRID_IQ3_XXS;
#endif
#ifdef KIND_IS_IQ3_S
__constant ushort __attribute__((aligned(16))) grid[] = GRID_IQ3_S;
#endif
#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
__constant ushort __attribute__((aligned(16))) grid[] = GRID_IQ1_S;
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

#if SHAPE_CPU // 16 inputs together, and entries of 2 bits in one word
static float16 with_signs16(float16 sizes, uint signs)
{
    return as_float16(as_uint16(sizes) | (uint16)(signs) << 31 - LANES_16 & 0x80000000u);
}

static uint16 twos16(uint first, uint second)
{
    return (uint16)(first | second << 16) >> LANES_16 * 2;
}

static uint16 threes16(const uint4 entries)
{
    uint16 two = (uint16)((uint8)(entries.x | entries.y << 16), (uint8)(entries.z | entries.w << 16));
    return two >> (uint16)(0, 3, 6, 9, 16, 19, 22, 25, 0, 3, 6, 9, 16, 19, 22, 25);
}

// Where a permutation is one instruction, the numbers that the lowest 2 or 3 bits stand for; else by arithmetic.
#ifdef __AVX512F__
#define BY_TWOS(q, a, b, c, otherwise)                                                                                 \
    __builtin_ia32_permvarsf512((float16)(a, b, c, 0, a, b, c, 0, a, b, c, 0, a, b, c, 0), as_int16(q))
#define BY_THREES(q, a, b, c, d, e, f, g, h, otherwise)                                                                \
    __builtin_ia32_permvarsf512((float16)(a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h), as_int16(q))
#else
#define BY_TWOS(q, a, b, c, otherwise) otherwise
#define BY_THREES(q, a, b, c, d, e, f, g, h, otherwise) otherwise
#endif
#endif

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S)
#define KIND_BIAS 0
static float8 iq2(uint index, uint signs) // 8, 25, 43
{
    uint8 code = twos(grid[index]);
    return with_signs(code * 17 + (code >> 1) + 8, signs);
}
#if SHAPE_CPU
static float16 iq2_16(uint first, uint second, uint signs)
{
    uint16 q = twos16(grid[first], grid[second]);
    float16 code = floats16(q & 3);
    return with_signs16(BY_TWOS(q, 8, 25, 43, fma(fma(code, (float16)(0.5f), (float16)(16.5f)), code, (float16)(8))), signs);
}
#endif
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint l = j % 2 * 2, signs = u32_at(p + 6 + j / 2 * 8) >> 7 * l;
    BYTES index = p + 2 + j / 2 * 8 + l;
    return iq2_16(index[0], index[1], even_signs(signs & 127) | even_signs(signs >> 7 & 127) << 8);
}
#endif
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint q = u32_at(p + 2 + 4 * j);
    return iq2_16(q & 511, q >> 16 & 511, even_signs(q >> 9 & 127) | even_signs(q >> 25) << 8);
}
#endif
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint high = (uint)p[66 + j / 2] << 8 >> j % 2 * 4;
    return iq2_16(p[2 + 2 * j] | high & 0x300, p[3 + 2 * j] | high >> 2 & 0x300, u16_at(p + 34 + 2 * j));
}
#endif
#endif
#endif

#ifdef KIND_IS_IQ3_XXS
#define KIND_SCALES 32
#define KIND_BIAS 0
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint signs = u32_at(p + 66 + j / 2 * 4) >> 14 * (j % 2);
    BYTES index = p + 2 + 4 * j;
    uint16 q = threes16((uint4)(grid[index[0]], grid[index[1]], grid[index[2]], grid[index[3]]));
    float16 size = BY_THREES(q, 4, 12, 20, 28, 36, 44, 52, 62, floats16((q & 7) * 8 + ((q & 7) + 1 >> 3) * 2 + 4));
    return with_signs16(size, even_signs(signs & 127) | even_signs(signs >> 7 & 127) << 8);
}
#endif
#endif

#ifdef KIND_IS_IQ3_S
#define KIND_SCALES 32
#define KIND_BIAS 0
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint high = (uint)p[66 + j / 2] << 8 >> j % 2 * 4;
    BYTES index = p + 2 + 4 * j;
    uint16 q = threes16((uint4)(grid[index[0] | high & 256], grid[index[1] | high >> 1 & 256],
                                grid[index[2] | high >> 2 & 256], grid[index[3] | high >> 3 & 256]));
    float16 size = BY_THREES(q, 1, 3, 5, 7, 9, 11, 13, 15, fma(floats16(q & 7), (float16)(2), (float16)(1)));
    return with_signs16(size, u16_at(p + 74 + 2 * j));
}
#endif
#endif

#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
#define KIND_BIAS 0
static float8 iq1(uint index, uint minus) // -1, 0 and 1, an eighth more or less
{
    return floats8(twos(grid[index]), 3) - (minus ? 1.125f : 0.875f);
}
#if SHAPE_CPU
static float16 iq1_16(uint first, uint second, bool first_minus, bool second_minus)
{
    float16 less = (float16)((float8)(first_minus ? 1.125f : 0.875f), (float8)(second_minus ? 1.125f : 0.875f));
    uint16 q = twos16(grid[first], grid[second]);
    return BY_TWOS(q, 0, 1, 2, floats16(q & 3)) - less;
}
#endif
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint high = u16_at(p + 34 + j / 2 * 2), two = high >> j % 2 * 6;
    return iq1_16(p[2 + 2 * j] | (two & 7) << 8, p[3 + 2 * j] | (two & 0x38) << 5, high >> 15, high >> 15);
}
#endif
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
#if SHAPE_CPU
SIXTEEN_IN
{
    uint high = p[32 + j];
    return iq1_16(p[2 * j] | (high & 7) << 8, p[2 * j + 1] | (high & 0x70) << 4, high & 8, high & 128);
}
#endif
#endif
#endif

#if !SHAPE_CPU && (defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S) ||                    \
                   defined(KIND_IS_IQ3_XXS) || defined(KIND_IS_IQ3_S) || defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M))
SIXTEEN_IN
{
    return (float16)(eight_in(p, 2 * j), eight_in(p, 2 * j + 1));
}
#endif

#endif
