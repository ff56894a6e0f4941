// SPDX-License-Identifier: GPL-3.0-or-later
// Hyper-connections in plain C.
#include <math.h>

#include "kernels/device.h"
#include "kernels/ref.h"

enum { N = HYPER_STREAMS };

// Element i of all streams of row r.
static void spread_one(const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b, uint64_t r, uint32_t i,
                       float to[N])
{
    const float *part = (const float *)b->parts->host + (a->first + r) * HYPER_PARTS;
    const float *from = (const float *)b->from->host + (a->first + r) * N * a->dim + i;
    float x[N] = {0}, out = ((const float *)b->out->host)[(a->first + r) * a->dim + i];
    for (uint32_t k = 0; !a->begins && k < N; k++)
        x[k] = from[(uint64_t)k * a->dim];
    for (uint32_t j = 0; j < N; j++) {
        float sum = a->begins ? out : part[j] * out;
        for (uint32_t k = 0; !a->begins && k < N; k++)
            sum = fmaf(part[N * (k + 1) + j], x[k], sum);
        to[j] = sum;
    }
}

int ref_hyper_spread(const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b)
{
    for (uint64_t r = 0; r < a->n_rows; r++)
        for (uint32_t i = 0; i < a->dim; i++) {
            float *to = (float *)b->to->host + (a->to + r) * N * a->dim + i, sums[N];
            spread_one(a, b, r, i, sums);
            for (uint32_t j = 0; j < N; j++)
                to[(uint64_t)j * a->dim] = sums[j];
            if (!a->keep)
                ((float *)b->out->host)[(a->first + r) * a->dim + i] = 0;
        }
    return GPU_OK;
}

int ref_hyper_mean(const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b)
{
    for (uint64_t r = 0; r < a->n_rows; r++)
        for (uint32_t i = 0; i < a->dim; i++) {
            float sums[N];
            spread_one(a, b, r, i, sums);
            ((float *)b->to->host)[(a->to + r) * a->dim + i] = (sums[0] + sums[1] + sums[2] + sums[3]) / 4;
        }
    return GPU_OK;
}

static void divide_rows(float comb[N][N], float eps)
{
    for (uint32_t i = 0; i < N; i++) {
        float sum = eps;
        for (uint32_t j = 0; j < N; j++)
            sum += comb[i][j];
        for (uint32_t j = 0; j < N; j++)
            comb[i][j] /= sum;
    }
}

static void divide_columns(float comb[N][N], float eps)
{
    for (uint32_t j = 0; j < N; j++) {
        float sum = eps;
        for (uint32_t i = 0; i < N; i++)
            sum += comb[i][j];
        for (uint32_t i = 0; i < N; i++)
            comb[i][j] /= sum;
    }
}

static void balance(const struct args_hyper_mix *a, const float *logits, float comb[N][N])
{
    for (uint32_t i = 0; i < N; i++) {
        float largest = -INFINITY, sum = 0;
        for (uint32_t j = 0; j < N; j++)
            largest = fmaxf(largest, logits[N * i + j]);
        for (uint32_t j = 0; j < N; j++)
            sum += comb[i][j] = expf(logits[N * i + j] - largest);
        for (uint32_t j = 0; j < N; j++)
            comb[i][j] = comb[i][j] / sum + a->eps;
    }
    divide_columns(comb, a->eps);
    for (uint32_t step = 0; step < a->steps; step++) {
        divide_rows(comb, a->eps);
        divide_columns(comb, a->eps);
    }
}

int ref_hyper_mix(const struct args_hyper_mix *a, const struct gpu_hyper_mix_bufs *b)
{
    const float *base = ref_floats_at(b->base, a->base);
    const float *scale = ref_floats_at(b->scale, a->scale);
    uint64_t wide = (uint64_t)N * a->dim;
    for (uint64_t r = a->first; r < (uint64_t)a->first + a->n_rows; r++) {
        const float *x = (const float *)b->streams->host + r * wide,
                    *own = (const float *)b->logits->host + r * HYPER_LOGITS;
        float *part = (float *)b->parts->host + r * HYPER_PARTS, *y = (float *)b->y->host + r * a->dim;
        float logits[HYPER_LOGITS], norm = 1 / sqrtf(ref_dot(x, x, (uint32_t)wide) / (float)wide + a->norm_eps);
        for (uint32_t i = 0; i < HYPER_LOGITS; i++)
            logits[i] = own[i] * norm * scale[i < N ? 0 : i < 2 * N ? 1 : 2] + base[i];
        for (uint32_t i = 0; i < N; i++)
            part[i] = 2 * ref_sigmoid(logits[N + i]);
        float comb[N][N];
        balance(a, logits + 2 * (size_t)N, comb);
        for (uint32_t i = 0; i < N * N; i++)
            part[N + i] = comb[i / N][i % N];
        for (uint32_t c = 0; c < a->dim; c++) {
            float sum = 0;
            for (uint32_t i = 0; i < N; i++)
                sum = fmaf(ref_sigmoid(logits[i]) + a->eps, x[(uint64_t)i * a->dim + c], sum);
            y[c] = sum;
        }
    }
    return GPU_OK;
}
