// SPDX-License-Identifier: GPL-3.0-or-later
// Quantises rows by MLX's formula.
#include "engine/files/quantise.h"

#include <math.h>

#include "kernels/numbers.h"

enum { LANES = 8, MOST_GROUP = 128 };

struct group {
    float scale, bias;
};

// Smallest and largest of a group, in LANES side by side so that compilers use vectors. False: not all are finite.
static bool range_of(const float *x, uint32_t n, float *least, float *most)
{
    float low[LANES];
    float high[LANES];
    float zero[LANES]; // stays 0 unless something is infinite or no number
    for (uint32_t j = 0; j < LANES; j++) {
        low[j] = high[j] = x[j];
        zero[j] = 0;
    }
    for (uint32_t i = 0; i < n; i += LANES)
        for (uint32_t j = 0; j < LANES; j++) {
            float value = x[i + j];
            low[j] = value < low[j] ? value : low[j];
            high[j] = value > high[j] ? value : high[j];
            zero[j] += value * 0.0f;
        }
    float sum = 0;
    *least = low[0];
    *most = high[0];
    for (uint32_t j = 0; j < LANES; j++) {
        *least = low[j] < *least ? low[j] : *least;
        *most = high[j] > *most ? high[j] : *most;
        sum += zero[j];
    }
    return sum == 0;
}

static struct group group_of(float least, float most, float bins)
{
    bool low = fabsf(least) > fabsf(most);
    float edge = low ? least : most;
    float scale = (most - least) / bins;
    scale = scale > 1e-7f ? scale : 1e-7f;
    scale = low ? scale : -scale;
    float q0 = rintf(edge / scale);
    return q0 != 0 ? (struct group){edge / q0, edge} : (struct group){scale, 0};
}

static void quantise_group(const float *x, uint32_t n, struct group group, uint32_t bits, uint32_t *words)
{
    float bins = bits == 4 ? 15.0f : 255.0f;
    float q[MOST_GROUP];
    for (uint32_t i = 0; i < n; i++) {
        float value = rintf((x[i] - group.bias) / group.scale);
        value = value > 0 ? value : 0;
        q[i] = value < bins ? value : bins;
    }
    uint32_t per_word = 32 / bits;
    for (uint32_t i = 0; i < n; i += per_word) {
        uint32_t word = 0;
        for (uint32_t j = 0; j < per_word; j++)
            word |= (uint32_t)(int32_t)q[i + j] << j * bits;
        words[i / per_word] = word;
    }
}

bool quantise_row(const float *x, uint32_t n, struct quantisation how, const struct quantised_row *out)
{
    float bins = how.bits == 4 ? 15.0f : 255.0f;
    for (uint32_t i = 0; i < n; i += how.group_size) {
        float least, most;
        if (!range_of(x + i, how.group_size, &least, &most))
            return false;
        struct group group = group_of(least, most, bins);
        if (!isfinite(number_from_bf16(number_to_bf16(group.scale))) ||
            !isfinite(number_from_bf16(number_to_bf16(group.bias))))
            return false;
        if (out->scales)
            out->scales[i / how.group_size] = number_to_bf16(group.scale);
        if (out->biases)
            out->biases[i / how.group_size] = number_to_bf16(group.bias);
        if (out->words)
            quantise_group(x + i, how.group_size, group, how.bits, out->words + i * how.bits / 32);
    }
    return true;
}

void dequantise_row(const struct quantised_row *row, uint32_t n, struct quantisation how, float *out)
{
    uint32_t per_word = 32 / how.bits;
    uint32_t mask = (1u << how.bits) - 1u;
    for (uint32_t i = 0; i < n; i++) {
        float scale = number_from_bf16(row->scales[i / how.group_size]);
        float bias = number_from_bf16(row->biases[i / how.group_size]);
        out[i] = (float)(row->words[i / per_word] >> i % per_word * how.bits & mask) * scale + bias;
    }
}
