// SPDX-License-Identifier: GPL-3.0-or-later
// An indexer's keys, scores and choice, in plain C.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/numbers.h"
#include "kernels/ref.h"

// LayerNorm of one row.
static void norm_row(const struct args_index_append *a, const struct gpu_index_append_bufs *b, const float *x, float *y)
{
    const float *norm = ref_floats_at(b->norm, a->norm), *bias = ref_floats_at(b->bias, a->bias);
    float sum = 0, squares = 0;
    for (uint32_t i = 0; i < a->dim; i++)
        sum += x[i];
    float mean = sum / (float)a->dim;
    for (uint32_t i = 0; i < a->dim; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(squares / (float)a->dim + a->eps);
    for (uint32_t i = 0; i < a->dim; i++)
        y[i] = (x[i] - mean) * scale * norm[i] + bias[i];
}

int ref_index_append(const struct args_index_append *a, const struct gpu_index_append_bufs *b)
{
    struct args_rope rope = {.n_rows = 1,
                             .n_heads = 1,
                             .row_stride = a->dim,
                             .rope_dim = a->rope_dim,
                             .interleaved = a->interleaved,
                             .scale = a->scale};
    for (uint32_t r = 0; r < a->n_rows; r++) {
        float row[MOST_INDEX_DIM];
        const float *x = (const float *)b->x->host + (uint64_t)r * a->in_stride + a->in_offset;
        norm_row(a, b, x, row);
        rope.position = a->position + r;
        if (a->rope_dim)
            ref_rope(&rope, b->inv_freq->host, row);
        uint64_t at = (uint64_t)rope.position * (a->dim + (uint64_t)a->n_behind);
        ref_to_cache(a->kv_type, row, a->dim, b->cache->host, at);
        ref_to_cache(a->kv_type, x + a->dim, a->n_behind, b->cache->host, at + a->dim);
    }
    return GPU_OK;
}

static float cached(uint32_t kv_type, const void *cache, uint64_t at)
{
    return kv_type == KV_F32 ? ((const float *)cache)[at] : number_from_half(((const uint16_t *)cache)[at]);
}

// One channel of a complete pool: rows of a key and a gate, `begin` being the first.
static float pooled(const struct args_index_pool *a, const float *ape, const void *cache, uint64_t begin, uint32_t c)
{
    float gates[MOST_INDEX_DIM], largest = -INFINITY, total = 0, sum = 0;
    for (uint32_t j = 0; j < a->pool; j++) {
        gates[j] = cached(a->kv_type, cache, (2 * (begin + j) + 1) * a->dim + c) + ape[(uint64_t)j * a->dim + c];
        largest = fmaxf(largest, gates[j]);
    }
    for (uint32_t j = 0; j < a->pool; j++) {
        float weight = expf(gates[j] - largest);
        sum = fmaf(weight, cached(a->kv_type, cache, 2 * (begin + j) * a->dim + c), sum);
        total += weight;
    }
    return sum / total;
}

int ref_index_pool(const struct args_index_pool *a, const gpu_buf *ape, const gpu_buf *cache, gpu_buf *pools)
{
    uint64_t end = (uint64_t)a->position + a->n_rows;
    for (uint64_t p = a->position / a->pool; p * a->pool < end; p++) {
        float key[MOST_INDEX_DIM] = {0};
        bool whole = (p + 1) * a->pool <= end;
        uint32_t n = whole ? a->dim : (uint32_t)(end - p * a->pool) * (a->dim / a->pool);
        for (uint32_t c = 0; whole && c < a->dim; c++)
            key[c] = pooled(a, ref_floats_at(ape, a->ape), cache->host, p * a->pool, c);
        ref_to_cache(a->kv_type, key, n, pools->host, p * a->dim);
    }
    return GPU_OK;
}

// Keys that a row at a position chooses from.
static uint64_t seen(uint64_t position, uint32_t pool)
{
    return (position + 1) / (pool > 1 ? pool : 1);
}

int ref_index_scores(const struct args_index_scores *a, const struct gpu_index_scores_bufs *b)
{
    for (uint32_t r = 0; r < a->n_rows; r++) {
        const float *q = (const float *)b->q->host + (uint64_t)r * a->q_stride + a->q_offset;
        const float *weight = (const float *)b->weight->host + (uint64_t)r * a->weight_stride + a->weight_offset;
        float *scores = (float *)b->scores->host + (uint64_t)r * a->out_stride;
        for (uint64_t s = 0; s < seen((uint64_t)a->position + r, a->pool); s++) {
            float key[MOST_INDEX_DIM];
            for (uint32_t c = 0; c < a->dim; c++)
                key[c] = cached(a->kv_type, b->cache->host, s * a->dim + c);
            scores[s] = 0;
            for (uint32_t h = 0; h < a->n_heads; h++) {
                float dot = 0;
                for (uint32_t c = 0; c < a->dim; c++)
                    dot = fmaf(q[(uint64_t)h * a->dim + c], key[c], dot);
                scores[s] = fmaf(weight[h] * a->scale, dot < 0 ? 0 : dot, scores[s]);
            }
        }
    }
    return GPU_OK;
}

struct scored {
    float score;
    uint32_t position;
};

// The better one first.
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int by_position(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int ref_index_choice(const struct args_index_choice *a, const float *scores, uint32_t *list)
{
    struct scored *all = malloc(sizeof *all * ((uint64_t)a->position + a->n_rows));
    if (!all)
        return GPU_OUT_OF_MEMORY;
    for (uint32_t r = 0; r < a->n_rows; r++) {
        uint32_t pool = a->pool > 1 ? a->pool : 1, position = a->position + r;
        uint32_t *to = list + a->first + (uint64_t)r * (a->top_k * pool + pool - 1);
        uint32_t n = (uint32_t)seen(position, pool);
        for (uint32_t s = 0; s < n; s++)
            all[s] = (struct scored){scores[(uint64_t)r * a->in_stride + s], s};
        qsort(all, n, sizeof *all, by_score);
        for (uint32_t k = 0; k < a->top_k; k++)
            for (uint32_t j = 0; j < pool; j++)
                to[k * pool + j] = all[k].position * pool + j;
        qsort(to, (size_t)a->top_k * pool, sizeof *to, by_position);
        for (uint32_t j = 0; n * pool + j <= position; j++) // the open pool's
            to[a->top_k * pool + j] = n * pool + j;
    }
    free(all);
    return GPU_OK;
}
