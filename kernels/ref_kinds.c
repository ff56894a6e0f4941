// SPDX-License-Identifier: GPL-3.0-or-later
// The oracle of the kinds. Formulas: ggml's blocks as gguf-py's gguf/quants.py reads them; MLX's modes as mx.dequantize
// does. Every product is exact in float32, so that at most one addition rounds.
#include "kernels/ref_kinds.h"

#include <math.h>
#include <string.h>

#include "kernels/kind_grids.h"
#include "kernels/numbers.h"

typedef uint8_t u8;

static uint16_t u16_at(const u8 *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32_at(const u8 *p)
{
    return u16_at(p) | (uint32_t)u16_at(p + 2) << 16;
}

static float half_at(const u8 *p)
{
    return number_from_half(u16_at(p));
}

float ref_scale(uint32_t scale_type, const void *scales, uint64_t index)
{
    const u8 *p = (const u8 *)scales + index * (scale_type == SCALE_F32 ? 4 : 2);
    float value;
    if (scale_type != SCALE_F32)
        return scale_type == SCALE_F16 ? half_at(p) : number_from_bf16(u16_at(p));
    memcpy(&value, p, sizeof value);
    return value;
}

// ---- ggml's blocks

static void q4_0(const u8 *p, float *out)
{
    for (int i = 0; i < 32; i++)
        out[i] = half_at(p) * (float)((p[2 + i % 16] >> i / 16 * 4 & 15) - 8);
}

static void q4_1(const u8 *p, float *out)
{
    for (int i = 0; i < 32; i++)
        out[i] = half_at(p) * (float)(p[4 + i % 16] >> i / 16 * 4 & 15) + half_at(p + 2);
}

static void q5_0(const u8 *p, float *out)
{
    uint32_t high = u32_at(p + 2);
    for (int i = 0; i < 32; i++)
        out[i] = half_at(p) * (float)((int)((p[6 + i % 16] >> i / 16 * 4 & 15) | (high >> i & 1) << 4) - 16);
}

static void q5_1(const u8 *p, float *out)
{
    uint32_t high = u32_at(p + 4);
    for (int i = 0; i < 32; i++)
        out[i] = half_at(p) * (float)((p[8 + i % 16] >> i / 16 * 4 & 15) | (high >> i & 1) << 4) + half_at(p + 2);
}

static void q8_0(const u8 *p, float *out)
{
    for (int i = 0; i < 32; i++)
        out[i] = half_at(p) * (float)(int8_t)p[2 + i];
}

// The two bits of input i of 256, as Q2_K, Q3_K and TQ2_0 have them.
static int pair_of(const u8 *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void q2_k(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++)
        out[i] = half_at(p + 80) * (float)(p[i / 16] & 15) * (float)pair_of(p + 16, i) -
                 half_at(p + 82) * (float)(p[i / 16] >> 4);
}

static void q3_k(const u8 *p, float *out)
{
    const u8 *scales = p + 96;
    for (int i = 0; i < 256; i++) {
        int j = i / 16;
        int scale = (scales[j % 8] >> j / 8 * 4 & 15) | (scales[8 + j % 4] >> j / 4 * 2 & 3) << 4;
        int high = p[i % 32] >> i / 32 & 1;
        out[i] = half_at(p + 108) * (float)(scale - 32) * (float)(pair_of(p + 32, i) - (high ? 0 : 4));
    }
}

// Scale and minimum of the g-th 32 inputs of Q4_K and Q5_K.
static void six_bits(const u8 *sc, int g, float *scale, float *least)
{
    int s = g < 4 ? sc[g] & 63 : (sc[g + 4] & 15) | sc[g - 4] >> 6 << 4;
    int m = g < 4 ? sc[g + 4] & 63 : sc[g + 4] >> 4 | sc[g] >> 6 << 4;
    *scale = (float)s;
    *least = (float)m;
}

static void q4_k(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        float scale, least;
        six_bits(p + 4, i / 32, &scale, &least);
        out[i] =
            half_at(p) * scale * (float)(p[16 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15) - half_at(p + 2) * least;
    }
}

static void q5_k(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        float scale, least;
        six_bits(p + 4, i / 32, &scale, &least);
        int q = (p[48 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15) | (p[16 + i % 32] >> i / 32 & 1) << 4;
        out[i] = half_at(p) * scale * (float)q - half_at(p + 2) * least;
    }
}

static void q6_k(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        int r = i % 128;
        int q = (p[i / 128 * 64 + r % 64] >> r / 64 * 4 & 15) | (p[128 + i / 128 * 32 + r % 32] >> r / 32 * 2 & 3) << 4;
        out[i] = half_at(p + 208) * (float)(int8_t)p[192 + i / 16] * (float)(q - 32);
    }
}

static const float nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void iq4_nl(const u8 *p, float *out)
{
    for (int i = 0; i < 32; i++)
        out[i] = half_at(p) * nonlinear[p[2 + i % 16] >> i / 16 * 4 & 15];
}

static void iq4_xs(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        int g = i / 32;
        int scale = (p[4 + g / 2] >> g % 2 * 4 & 15) | (u16_at(p + 2) >> 2 * g & 3) << 4;
        out[i] = half_at(p) * (float)(scale - 32) * nonlinear[p[8 + 16 * g + i % 16] >> i % 32 / 16 * 4 & 15];
    }
}

static void tq1_0(const u8 *p, float *out)
{
    static const u8 powers[5] = {1, 3, 9, 27, 81};
    for (int i = 0; i < 256; i++) {
        u8 byte = i < 160 ? p[i % 32] : i < 240 ? p[32 + (i - 160) % 16] : p[48 + (i - 240) % 4];
        int n = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
        u8 shifted = (u8)(byte * powers[n]);
        out[i] = half_at(p + 52) * (float)((shifted * 3 >> 8) - 1);
    }
}

static void tq2_0(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++)
        out[i] = half_at(p + 64) * (float)(pair_of(p, i) - 1);
}

// ---- grids

#define AS_IT_IS(entry) entry
static const uint16_t grid_iq2_xxs[] = {GRID_IQ2_XXS(AS_IT_IS)}, grid_iq2_xs[] = {GRID_IQ2_XS(AS_IT_IS)},
                      grid_iq2_s[] = {GRID_IQ2_S(AS_IT_IS)}, grid_iq3_xxs[] = {GRID_IQ3_XXS(AS_IT_IS)},
                      grid_iq3_s[] = {GRID_IQ3_S(AS_IT_IS)}, grid_iq1[] = {GRID_IQ1_S(AS_IT_IS)};

static float iq2_value(uint16_t entry, int i)
{
    static const float values[4] = {8, 25, 43, 0};
    return values[entry >> 2 * i & 3];
}

// The sign of the i-th of 8 inputs: of 7 bits, the eighth making their sum even.
static float even_sign(uint32_t bits, int i)
{
    uint32_t parity = bits ^ bits >> 4;
    parity = (parity ^ parity >> 2) & 3;
    bits |= ((parity ^ parity >> 1) & 1) << 7;
    return bits >> i & 1 ? -1 : 1;
}

static void iq2_xxs(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        uint32_t indices = u32_at(p + 2 + i / 32 * 8), more = u32_at(p + 6 + i / 32 * 8);
        int l = i % 32 / 8;
        float scale = half_at(p) * (0.5f + (float)(more >> 28)) * 0.25f;
        out[i] = scale * iq2_value(grid_iq2_xxs[indices >> 8 * l & 255], i % 8) * even_sign(more >> 7 * l & 127, i % 8);
    }
}

static void iq2_xs(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        int k = i / 8;
        uint32_t q = u16_at(p + 2 + 2 * k);
        float scale = half_at(p) * (0.5f + (float)(p[66 + k / 4] >> k % 4 / 2 * 4 & 15)) * 0.25f;
        out[i] = scale * iq2_value(grid_iq2_xs[q & 511], i % 8) * even_sign(q >> 9, i % 8);
    }
}

static void iq2_s(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        int k = i / 8;
        int index = p[2 + k] | (p[66 + k / 4] >> k % 4 * 2 & 3) << 8;
        float scale = half_at(p) * (0.5f + (float)(p[74 + k / 4] >> k % 4 / 2 * 4 & 15)) * 0.25f;
        out[i] = scale * iq2_value(grid_iq2_s[index], i % 8) * (p[34 + k] >> i % 8 & 1 ? -1.0f : 1.0f);
    }
}

static void iq3_xxs(const u8 *p, float *out)
{
    static const float values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    for (int i = 0; i < 256; i++) {
        uint32_t more = u32_at(p + 66 + i / 32 * 4);
        float scale = half_at(p) * (0.5f + (float)(more >> 28)) * 0.5f;
        float value = values[grid_iq3_xxs[p[2 + i / 4]] >> i % 4 * 3 & 7];
        out[i] = scale * value * even_sign(more >> i % 32 / 8 * 7 & 127, i % 8);
    }
}

static void iq3_s(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        int k = i / 4, g = i / 32;
        int index = p[2 + k] | (p[66 + k / 8] >> k % 8 & 1) << 8;
        float scale = half_at(p) * (float)(1 + 2 * (p[106 + g / 2] >> g % 2 * 4 & 15));
        float value = (float)(1 + 2 * (grid_iq3_s[index] >> i % 4 * 3 & 7));
        out[i] = scale * value * (p[74 + i / 8] >> i % 8 & 1 ? -1.0f : 1.0f);
    }
}

static float iq1_value(int index, int i, bool minus)
{
    return (float)(grid_iq1[index] >> 2 * i & 3) - 1.0f + (minus ? -0.125f : 0.125f);
}

static void iq1_s(const u8 *p, float *out)
{
    for (int i = 0; i < 256; i++) {
        int high = u16_at(p + 34 + i / 32 * 2);
        int index = p[2 + i / 8] | (high >> i % 32 / 8 * 3 & 7) << 8;
        out[i] = half_at(p) * (float)(2 * (high >> 12 & 7) + 1) * iq1_value(index, i % 8, high >> 15);
    }
}

static void iq1_m(const u8 *p, float *out)
{
    uint32_t d = 0;
    for (int i = 0; i < 4; i++)
        d |= (uint32_t)(u16_at(p + 48 + 2 * i) >> 12) << 4 * i;
    for (int i = 0; i < 256; i++) {
        int k = i / 8, g = i / 32;
        int high = p[32 + k / 2] >> k % 2 * 4 & 15;
        int scale = u16_at(p + 48 + g / 2 * 2) >> (g % 2 * 6 + k % 4 / 2 * 3) & 7;
        out[i] = number_from_half((uint16_t)d) * (float)(2 * scale + 1) *
                 iq1_value(p[k] | (high & 7) << 8, i % 8, (high & 8) != 0);
    }
}

// ---- floats of 4 and 8 bits

static const float e2m1_twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};

static float power_of_two(int exponent)
{
    return ldexpf(1.0f, exponent);
}

static float e4m3(u8 byte)
{
    int exponent = byte >> 3 & 15, mantissa = byte & 7;
    float value = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return byte >> 7 ? -value : value;
}

static void mxfp4(const u8 *p, float *out)
{
    for (int i = 0; i < 32; i++)
        out[i] = power_of_two(p[0] - 128) * (float)(int)e2m1_twice[p[1 + i % 16] >> i / 16 * 4 & 15];
}

static void nvfp4(const u8 *p, float *out)
{
    for (int i = 0; i < 64; i++) {
        int j = i / 16;
        float s = p[j] == 0x7f ? 0 : e4m3(p[j] & 0x7f) * 0.5f; // 0xff counts as if it were a number, bit 7 not at all
        out[i] = s * (float)(int)e2m1_twice[p[4 + 8 * j + i % 8] >> i % 16 / 8 * 4 & 15];
    }
}

// ---- rows

typedef void block_reader(const u8 *p, float *out);
static block_reader *const readers[KIND_COUNT] = {
    [KIND_Q4_0] = q4_0,   [KIND_Q4_1] = q4_1,       [KIND_Q5_0] = q5_0,       [KIND_Q5_1] = q5_1,
    [KIND_Q8_0] = q8_0,   [KIND_Q2_K] = q2_k,       [KIND_Q3_K] = q3_k,       [KIND_Q4_K] = q4_k,
    [KIND_Q5_K] = q5_k,   [KIND_Q6_K] = q6_k,       [KIND_IQ4_NL] = iq4_nl,   [KIND_IQ4_XS] = iq4_xs,
    [KIND_IQ1_S] = iq1_s, [KIND_IQ1_M] = iq1_m,     [KIND_IQ2_XXS] = iq2_xxs, [KIND_IQ2_XS] = iq2_xs,
    [KIND_IQ2_S] = iq2_s, [KIND_IQ3_XXS] = iq3_xxs, [KIND_IQ3_S] = iq3_s,     [KIND_MXFP4] = mxfp4,
    [KIND_NVFP4] = nvfp4, [KIND_TQ1_0] = tq1_0,     [KIND_TQ2_0] = tq2_0,
};

static void plain_row(uint32_t kind, const u8 *row, uint32_t n, float *out)
{
    if (kind == KIND_F32)
        memcpy(out, row, n * sizeof *out);
    else
        for (uint32_t i = 0; i < n; i++)
            out[i] = ref_scale(kind == KIND_F16 ? SCALE_F16 : SCALE_BF16, row, i);
}

// Quanta in a stream of bits, from the lowest on.
static uint32_t stream_at(const u8 *row, uint32_t bits, uint64_t i)
{
    uint64_t at = i * bits;
    uint32_t value = row[at / 8];
    if (at % 8 + bits > 8)
        value |= (uint32_t)row[at / 8 + 1] << 8;
    return value >> at % 8 & ((1u << bits) - 1u);
}

static void affine_row(const struct args_matrix *m, const u8 *row, const u8 *scales, const u8 *biases, float *out)
{
    uint32_t bits = kind_bits(m->kind);
    for (uint32_t g = 0; g < m->in_dim / m->group_size; g++) {
        float scale = ref_scale(m->scale_type, scales, g);
        float bias = ref_scale(m->scale_type, biases, g);
        for (uint32_t i = g * m->group_size; i < (g + 1) * m->group_size; i++)
            out[i] = (float)stream_at(row, bits, i) * scale + bias;
    }
}

static void fp_row(const struct args_matrix *m, const u8 *row, const u8 *scales, float *out)
{
    for (uint32_t i = 0; i < m->in_dim; i++)
        if (m->kind == KIND_MLX_MXFP8)
            out[i] = power_of_two(scales[i / 32] - 127) * e4m3(row[i]);
        else if (m->kind == KIND_MLX_MXFP4)
            out[i] = power_of_two(scales[i / 32] - 128) * e2m1_twice[stream_at(row, 4, i)];
        else
            out[i] = e4m3(scales[i / 16]) * 0.5f * e2m1_twice[stream_at(row, 4, i)];
}

void ref_matrix_row(const struct args_matrix *m, const void *matrix, uint32_t row, float *out)
{
    const struct kind_info *info = kind_info(m->kind);
    const u8 *weights = (const u8 *)matrix + m->weight + row * matrix_row_bytes(m);
    const u8 *scales = (const u8 *)matrix + m->scales + row * matrix_scale_bytes(m);
    const u8 *biases = (const u8 *)matrix + m->biases + row * matrix_bias_bytes(m);
    if (info->scales == SCALES_NONE)
        plain_row(m->kind, weights, m->in_dim, out);
    else if (info->scales == SCALES_AFFINE)
        affine_row(m, weights, scales, biases, out);
    else if (info->scales == SCALES_BYTES)
        fp_row(m, weights, scales, out);
    else
        for (uint32_t i = 0; i < m->in_dim; i += info->block_inputs, weights += info->block_bytes)
            readers[m->kind](weights, out + i);
    if (!m->factor)
        return;
    float factor = ref_scale(SCALE_F32, (const u8 *)matrix + m->biases, 0);
    factor = m->factor == FACTOR_OF_LARGEST ? factor * (1 / LARGEST_NVFP4) : factor;
    for (uint32_t i = 0; i < m->in_dim; i++)
        out[i] *= factor;
}
