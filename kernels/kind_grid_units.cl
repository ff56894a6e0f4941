// SPDX-License-Identifier: GPL-3.0-or-later
// How the weights of ggml's IQ1, IQ2 and IQ3 come out of their bytes, as kind_units.cl says: indices of entries of a
// grid, of 8 values of 2 bits or 4 of 3, and signs.
#ifdef KIND

#define AS_IT_IS(entry) entry
#ifdef KIND_IS_IQ2_XXS
__constant ushort __attribute__((aligned(16))) grid[] = {GRID_IQ2_XXS(AS_IT_IS)};
#endif
#ifdef KIND_IS_IQ2_XS
__constant ushort __attribute__((aligned(16))) grid[] = {GRID_IQ2_XS(AS_IT_IS)};
#endif
#ifdef KIND_IS_IQ2_S
__constant ushort __attribute__((aligned(16))) grid[] = {GRID_IQ2_S(AS_IT_IS)};
#endif
#ifdef KIND_IS_IQ3_XXS
__constant ushort __attribute__((aligned(16))) grid[] = {GRID_IQ3_XXS(AS_IT_IS)};
#endif
#ifdef KIND_IS_IQ3_S
__constant ushort __attribute__((aligned(16))) grid[] = {GRID_IQ3_S(AS_IT_IS)};
#endif
#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
__constant ushort __attribute__((aligned(16))) grid[] = {GRID_IQ1_S(AS_IT_IS)};
#endif

// 7 signs, and the eighth that makes their number even. What is above it means nothing.
static uint even_signs(uint bits)
{
    return bits + (popcount(bits) << 7);
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
#endif

#if defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
#define KIND_BIAS 0
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

#if defined(KIND_IS_IQ2_XXS) || defined(KIND_IS_IQ2_XS) || defined(KIND_IS_IQ2_S) || defined(KIND_IS_IQ3_XXS) ||      \
    defined(KIND_IS_IQ3_S) || defined(KIND_IS_IQ1_S) || defined(KIND_IS_IQ1_M)
#define KIND_GRIDS
SIXTEEN_IN
{
    return (float16)(eight_in(p, 2 * j), eight_in(p, 2 * j + 1));
}
#endif

#endif
