// SPDX-License-Identifier: GPL-3.0-or-later
// Every op in plain C.
#include "kernels/ref.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/numbers.h"
#include "kernels/ref_kinds.h"

uint16_t ref_float_to_half(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    uint32_t sign = (wide >> 16) & 0x8000u;
    uint32_t magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x47800000u) // 65536 and beyond
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) // subnormal halves: multiples of 2^-24; the conversion rounds to nearest even
        return (uint16_t)(sign | (uint32_t)lrintf(ldexpf(fabsf(value), 24)));
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

static float float_at(const void *base, uint64_t byte_offset, uint64_t index)
{
    float value;
    memcpy(&value, (const char *)base + byte_offset + sizeof value * index, sizeof value);
    return value;
}

const float *ref_floats_at(const gpu_buf *buf, uint64_t offset)
{
    return (const float *)((const char *)buf->host + offset);
}

float ref_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

enum { LANES = 16 };

// A dot product in LANES interleaved partial sums, so that compilers may use vectors without changing the order.
float ref_dot(const float *a, const float *b, uint32_t n)
{
    float lane[LANES] = {0};
    uint32_t whole = n - n % LANES;
    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t j = 0; j < LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    float sum = 0;
    for (uint32_t j = 0; j < LANES; j++)
        sum += lane[j];
    for (uint32_t i = whole; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

int ref_embed(const struct args_embed *a, const void *table, const int32_t *ids, float *out)
{
    for (uint32_t r = 0; r < a->n_rows; r++)
        ref_matrix_row(&a->table, table, (uint32_t)ids[r], out + (uint64_t)r * a->table.in_dim);
    return GPU_OK;
}

static float norm_weight(const void *weight, const struct args_rmsnorm *a, uint64_t index)
{
    float w = float_at(weight, a->weight, index);
    return a->plus_one ? 1.0f + w : w;
}

int ref_rmsnorm(const struct args_rmsnorm *a, const void *weight, const float *x, float *y)
{
    for (uint32_t r = 0; r < a->n_rows; r++) {
        const float *in = x + (uint64_t)r * a->in_stride + a->in_offset;
        float *out = y + (uint64_t)r * a->out_stride + a->out_offset;
        float scale = 1.0f / sqrtf(ref_dot(in, in, a->dim) / (float)a->dim + a->eps);
        for (uint32_t i = 0; i < a->dim; i++)
            out[i] = norm_weight(weight, a, i) * (in[i] * scale);
    }
    return GPU_OK;
}

int ref_matmul(const struct args_matmul *a, const void *matrix, const float *x, float *y)
{
    const struct args_matrix *m = &a->matrix;
    float *row = malloc(sizeof *row * m->in_dim);
    if (!row)
        return GPU_OUT_OF_MEMORY;
    for (uint32_t o = 0; o < m->out_dim; o++) {
        ref_matrix_row(m, matrix, o, row);
        for (uint32_t r = 0; r < a->n_rows; r++) {
            float value = ref_dot(row, x + (uint64_t)r * a->in_stride + a->in_offset, m->in_dim);
            float *out = y + (uint64_t)r * a->out_stride + a->out_offset + o;
            *out = a->add ? *out + value : value;
        }
    }
    free(row);
    return GPU_OK;
}

static float swiglu(float gate, float up, float limit, float situ_beta)
{
    if (situ_beta > 0)
        return situ_beta * tanhf(gate / situ_beta) / (1.0f + expf(-gate)) * (limit * tanhf(up / limit));
    if (limit > 0 && gate > limit)
        gate = limit;
    if (limit > 0 && (up > limit || up < -limit))
        up = up > limit ? limit : -limit;
    return gate / (1.0f + expf(-gate)) * up;
}

int ref_swiglu(const struct args_swiglu *a, const void *matrices, const float *x, float *y)
{
    uint32_t in_dim = a->gate.in_dim;
    float *rows = malloc(sizeof *rows * 2 * in_dim);
    if (!rows)
        return GPU_OUT_OF_MEMORY;
    for (uint32_t o = 0; o < a->gate.out_dim; o++) {
        ref_matrix_row(&a->gate, matrices, o, rows);
        ref_matrix_row(&a->up, matrices, o, rows + in_dim);
        for (uint32_t r = 0; r < a->n_rows; r++) {
            const float *in = x + (uint64_t)r * a->in_stride + a->in_offset;
            float gate = ref_dot(rows, in, in_dim);
            float up = ref_dot(rows + in_dim, in, in_dim);
            y[(uint64_t)r * a->out_stride + a->out_offset + o] = swiglu(gate, up, a->limit, a->situ_beta);
        }
    }
    free(rows);
    return GPU_OK;
}

// Where expert k of a launch lies; *rank is its row.
static uint64_t expert_at(const struct args_places *at, const int32_t *ids, uint32_t k, uint64_t *rank)
{
    *rank = at->by_id ? k : at->rank[k];
    if (!at->by_id)
        return at->place[k];
    uint32_t id = (uint32_t)ids[at->first_id + k];
    return at->base + (id < at->n_experts ? id : at->n_experts - 1) * at->stride;
}

int ref_swiglu_experts(const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    int code = GPU_OK;
    for (uint32_t k = 0; k < a->at.n && !code; k++) {
        uint64_t rank, place = expert_at(&a->at, b->ids ? b->ids->host : NULL, k, &rank);
        struct args_swiglu one = {.gate = gpu_matrix_behind(&a->gate, place),
                                  .up = gpu_matrix_behind(&a->up, place),
                                  .n_rows = 1,
                                  .in_offset = a->in_offset,
                                  .limit = a->limit,
                                  .situ_beta = a->situ_beta};
        code = ref_swiglu(&one, b->matrices->host, b->x->host, (float *)b->y->host + rank * a->out_stride);
    }
    return code;
}

int ref_matvec_experts(const struct args_matvec_experts *a, const struct gpu_experts_bufs *b)
{
    int code = GPU_OK;
    for (uint32_t k = 0; k < a->at.n && !code; k++) {
        uint64_t rank, place = expert_at(&a->at, b->ids ? b->ids->host : NULL, k, &rank);
        struct args_matmul one = {.matrix = gpu_matrix_behind(&a->matrix, place), .n_rows = 1};
        code = ref_matmul(&one, b->matrices->host, (float *)b->x->host + rank * a->in_stride,
                          (float *)b->y->host + rank * a->out_stride);
    }
    return code;
}

int ref_rope(const struct args_rope *a, const float *inv_freq, float *x)
{
    uint32_t half = a->rope_dim / 2;
    for (uint32_t r = 0; r < a->n_rows; r++)
        for (uint32_t j = 0; j < half; j++) {
            float angle = (float)(a->position + r) * inv_freq[j];
            float c = cosf(angle) * a->scale;
            float s = sinf(angle) * a->scale;
            uint32_t first = a->interleaved ? 2 * j : j;
            uint32_t second = a->interleaved ? 2 * j + 1 : j + half;
            for (uint32_t h = 0; h < a->n_heads; h++) {
                float *head = x + (uint64_t)r * a->row_stride + (uint64_t)h * a->head_stride + a->offset;
                float p = head[first];
                float q = head[second];
                head[first] = p * c - q * s;
                head[second] = q * c + p * s;
            }
        }
    return GPU_OK;
}

void ref_to_cache(uint32_t kv_type, const float *x, uint64_t n, void *cache, uint64_t at)
{
    if (kv_type == KV_F32)
        memcpy((float *)cache + at, x, sizeof *x * n);
    else
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)cache)[at + i] = ref_float_to_half(x[i]);
}

int ref_kv_append(const struct args_kv_append *a, const struct gpu_kv_append_bufs *b)
{
    struct args_rmsnorm norm = {.weight = a->norm,
                                .n_rows = a->n_rows,
                                .dim = a->kv_lora_rank,
                                .in_stride = a->in_stride,
                                .out_stride = a->in_stride,
                                .eps = a->eps};
    struct args_rope rope = {.n_rows = a->n_rows,
                             .n_heads = 1,
                             .row_stride = a->in_stride,
                             .offset = a->kv_lora_rank,
                             .rope_dim = a->rope_dim,
                             .position = a->position,
                             .interleaved = a->interleaved,
                             .scale = a->scale};
    uint64_t width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    float *x = b->x->host;
    ref_rmsnorm(&norm, b->norm->host, x, x);
    if (!a->no_rope)
        ref_rope(&rope, b->inv_freq->host, x);
    if (!a->no_rope && a->n_heads > 0) {
        rope.n_heads = a->n_heads;
        rope.row_stride = a->q_row_stride;
        rope.head_stride = a->q_head_stride;
        rope.offset = a->q_offset;
        ref_rope(&rope, b->inv_freq->host, b->q->host);
    }
    for (uint32_t r = 0; r < a->n_rows; r++)
        ref_to_cache(a->kv_type, x + (uint64_t)r * a->in_stride, width, b->cache->host, (a->position + r) * width);
    return GPU_OK;
}

int ref_q_prime(const struct args_kv_b *a, const void *kv_b, const float *q, float *out)
{
    uint32_t rank = a->kv_b.in_dim;
    float *row = malloc(sizeof *row * rank);
    if (!row)
        return GPU_OUT_OF_MEMORY;
    memset(out, 0, sizeof *out * a->n_rows * a->n_heads * rank);
    for (uint32_t h = 0; h < a->n_heads; h++)
        for (uint32_t d = 0; d < a->qk_nope_head_dim; d++) {
            ref_matrix_row(&a->kv_b, kv_b, h * (a->qk_nope_head_dim + a->v_head_dim) + d, row);
            for (uint32_t r = 0; r < a->n_rows; r++) {
                float value = q[(uint64_t)r * a->q_row_stride + (uint64_t)h * a->q_head_stride + d];
                float *latent = out + ((uint64_t)r * a->n_heads + h) * rank;
                for (uint32_t c = 0; c < rank; c++)
                    latent[c] += value * row[c];
            }
        }
    free(row);
    return GPU_OK;
}

int ref_heads(const struct args_heads *a, const void *matrix, const float *x, float *out)
{
    float *row = malloc(sizeof *row * a->matrix.in_dim);
    if (!row)
        return GPU_OUT_OF_MEMORY;
    for (uint32_t h = 0; h < a->n_heads; h++)
        for (uint32_t o = 0; o < a->n_out; o++) {
            ref_matrix_row(&a->matrix, matrix, h * a->head_rows + a->first_row + o, row);
            for (uint32_t r = 0; r < a->n_rows; r++) {
                const float *in = x + (uint64_t)r * a->row_stride + (uint64_t)h * a->head_stride;
                out[((uint64_t)r * a->n_heads + h) * a->n_out + o] = ref_dot(row, in, a->matrix.in_dim);
            }
        }
    free(row);
    return GPU_OK;
}

// The p-th row of the cache that row r sees, as float32: itself, or converted into `scratch`.
static const float *cache_row(const struct args_attention *a, const struct gpu_attention_bufs *b, uint64_t r,
                              uint64_t p, float *scratch)
{
    const void *cache = b->cache->host;
    uint64_t apart = a->n_listed + (uint64_t)(a->pool > 1 ? a->pool - 1 : 0);
    uint64_t position = a->n_listed ? ((const uint32_t *)b->list->host)[a->first_listed + r * apart + p] : p;
    uint32_t width = a->kv_lora_rank + a->rope_dim;
    if (a->kv_type == KV_F32)
        return (const float *)cache + position * width;
    for (uint32_t i = 0; i < width; i++)
        scratch[i] = number_from_half(((const uint16_t *)cache)[position * width + i]);
    return scratch;
}

static void attend(const struct args_attention *a, const struct gpu_attention_bufs *b, uint64_t head, float *scratch)
{
    uint64_t r = head / a->n_heads;
    uint64_t h = head % a->n_heads;
    uint64_t open = a->pool > 1 ? (a->position + r + 1) % a->pool : 0;
    uint64_t length = a->n_listed ? a->n_listed + open : a->position + r + 1;
    uint64_t row_at = a->first_row + r, latent_at = (row_at * a->n_heads + h) * a->kv_lora_rank;
    const float *q_latent = (const float *)b->q_latent->host + latent_at;
    const float *q_rope =
        (const float *)b->q->host + row_at * a->q_row_stride + h * a->q_head_stride + a->q_rope_offset;
    float *out = (float *)b->out->host + latent_at;
    float *row_scratch = scratch;
    float *scores = scratch + a->kv_lora_rank + a->rope_dim;
    float largest = -INFINITY;
    for (uint64_t p = 0; p < length; p++) {
        const float *row = cache_row(a, b, r, p, row_scratch);
        float score = ref_dot(q_latent, row, a->kv_lora_rank) + ref_dot(q_rope, row + a->kv_lora_rank, a->rope_dim);
        scores[p] = score * a->softmax_scale;
        largest = fmaxf(largest, scores[p]);
    }
    float sum = 0;
    for (uint64_t p = 0; p < length; p++)
        sum += scores[p] = expf(scores[p] - largest);
    memset(out, 0, sizeof *out * a->kv_lora_rank);
    for (uint64_t p = 0; p < length; p++) {
        const float *row = cache_row(a, b, r, p, row_scratch);
        float weight = scores[p] / sum;
        for (uint32_t c = 0; c < a->kv_lora_rank; c++)
            out[c] += weight * row[c];
    }
}

int ref_attention(const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    uint64_t longest = a->n_listed ? (uint64_t)a->n_listed + a->pool : (uint64_t)a->position + a->n_rows;
    float *scratch = malloc(sizeof *scratch * (longest + a->kv_lora_rank + a->rope_dim));
    if (!scratch)
        return GPU_OUT_OF_MEMORY;
    for (uint64_t head = 0; head < (uint64_t)a->n_rows * a->n_heads; head++)
        attend(a, b, head, scratch);
    free(scratch);
    return GPU_OK;
}

// A cache row as float32.
static void latent_row(const struct args_attention_plain *a, const void *cache, uint64_t position, float *row)
{
    uint32_t width = a->kv_lora_rank + a->rope_dim;
    for (uint32_t i = 0; i < width; i++)
        row[i] = a->kv_type == KV_F32 ? ((const float *)cache)[position * width + i]
                                      : number_from_half(((const uint16_t *)cache)[position * width + i]);
}

// What makes a head's keys, and behind them its values: [nope + v][kv_lora_rank].
static void head_weights(const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b, uint32_t h,
                         float *weights)
{
    bool apart = a->values.kind != KIND_NONE;
    uint32_t nope = a->qk_nope_head_dim, rank = a->kv_lora_rank, head = nope + a->v_head_dim;
    float *turned = weights + (uint64_t)head * rank;
    for (uint32_t c = 0; apart && c < rank; c++) {
        ref_matrix_row(&a->keys, b->keys->host, h * rank + c, turned);
        for (uint32_t i = 0; i < nope; i++)
            weights[(uint64_t)i * rank + c] = turned[i];
    }
    for (uint32_t i = apart ? nope : 0; i < head; i++)
        if (apart)
            ref_matrix_row(&a->values, b->values->host, h * a->v_head_dim + i - nope, weights + (uint64_t)i * rank);
        else
            ref_matrix_row(&a->keys, b->keys->host, h * head + i, weights + (uint64_t)i * rank);
}

// What a head's rows attend to: of each position keys, what all heads have of them, and values.
static void head_rows(const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b,
                      const float *weights, float *latent, float *rows)
{
    uint32_t head = a->qk_nope_head_dim + a->v_head_dim, rank = a->kv_lora_rank, stride = head + a->rope_dim;
    for (uint64_t p = 0; p < (uint64_t)a->position + a->n_rows; p++) {
        float *row = rows + p * stride;
        latent_row(a, b->cache->host, p, latent);
        for (uint32_t i = 0; i < head; i++)
            row[i < a->qk_nope_head_dim ? i : i + a->rope_dim] = ref_dot(weights + (uint64_t)i * rank, latent, rank);
        memcpy(row + a->qk_nope_head_dim, latent + rank, sizeof *row * a->rope_dim);
    }
}

static void attend_plain(const struct args_attention_plain *a, const float *q, const float *rows, uint64_t length,
                         float *scores, float *out)
{
    uint32_t keys = a->qk_nope_head_dim + a->rope_dim, stride = keys + a->v_head_dim;
    float largest = -INFINITY, sum = 0;
    for (uint64_t p = 0; p < length; p++) {
        scores[p] = ref_dot(q, rows + p * stride, keys) * a->softmax_scale;
        largest = fmaxf(largest, scores[p]);
    }
    for (uint64_t p = 0; p < length; p++)
        sum += scores[p] = expf(scores[p] - largest);
    memset(out, 0, sizeof *out * a->v_head_dim);
    for (uint64_t p = 0; p < length; p++)
        for (uint32_t d = 0; d < a->v_head_dim; d++)
            out[d] += scores[p] / sum * rows[p * stride + keys + d];
}

int ref_attention_plain(const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b)
{
    uint64_t positions = (uint64_t)a->position + a->n_rows, rank = a->kv_lora_rank;
    uint64_t head = (uint64_t)a->qk_nope_head_dim + a->v_head_dim;
    float *rows = malloc(sizeof *rows * positions * (head + a->rope_dim + 1));
    float *latent = malloc(sizeof *latent * (rank + a->rope_dim + head * rank + a->qk_nope_head_dim));
    for (uint32_t h = 0; rows && latent && h < a->n_heads; h++) {
        float *weights = latent + rank + a->rope_dim;
        head_weights(a, b, h, weights);
        head_rows(a, b, weights, latent, rows);
        for (uint64_t r = 0; r < a->n_rows; r++)
            attend_plain(a, (const float *)b->q->host + r * a->q_row_stride + (uint64_t)h * a->q_head_stride, rows,
                         a->position + r + 1, rows + positions * (head + a->rope_dim),
                         (float *)b->out->host + (r * a->n_heads + h) * a->v_head_dim);
    }
    int code = rows && latent ? GPU_OK : GPU_OUT_OF_MEMORY;
    free(rows);
    free(latent);
    return code;
}

// Index of the largest value, the first of equals.
static uint32_t largest_of(const float *values, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

// The sum of the two best, or the best alone.
static float group_score(const struct args_router *a, const float *values, uint32_t n)
{
    float first = -INFINITY;
    float second = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] > first) {
            second = first;
            first = values[i];
        } else if (values[i] > second) {
            second = values[i];
        }
    return a->topk_method == TOPK_NOAUX ? first + second : first;
}

// Sets the choices of all experts outside the topk_group best groups to minus infinity.
static void keep_best_groups(const struct args_router *a, float *choice, float *group)
{
    uint32_t size = a->n_experts / a->n_group;
    for (uint32_t g = 0; g < a->n_group; g++)
        group[g] = group_score(a, choice + (uint64_t)g * size, size);
    for (uint32_t kept = 0; kept < a->topk_group; kept++)
        group[largest_of(group, a->n_group)] = -INFINITY;
    // A kept group is marked by minus infinity; so is one whose own score is that low, which no finite logit gives.
    for (uint32_t g = 0; g < a->n_group; g++)
        if (group[g] != -INFINITY)
            for (uint32_t i = 0; i < size; i++)
                choice[(uint64_t)g * size + i] = -INFINITY;
}

static void score_experts(const struct args_router *a, const float *logits, const void *biases, float *score)
{
    uint32_t n = a->n_experts;
    float *choice = score + n;
    float largest = logits[largest_of(logits, n)];
    float sum = 0;
    for (uint32_t e = 0; e < n; e++) {
        float bias = a->has_bias ? float_at(biases, a->bias, e) : 0;
        score[e] = a->scoring == ROUTER_SOFTMAX ? expf(logits[e] - largest) : ref_sigmoid(logits[e]);
        choice[e] = a->scoring == ROUTER_SOFTMAX ? logits[e] : score[e] + bias;
        sum += score[e];
    }
    for (uint32_t e = 0; a->scoring == ROUTER_SOFTMAX && e < n; e++)
        score[e] /= sum;
}

int ref_router(const struct args_router *a, const struct gpu_router_bufs *b)
{
    uint32_t n = a->n_experts;
    float *scratch = malloc(sizeof *scratch * (2 * (uint64_t)n + a->n_group));
    if (!scratch)
        return GPU_OUT_OF_MEMORY;
    float *score = scratch;
    float *choice = scratch + n;
    for (uint32_t r = 0; r < a->n_rows; r++) {
        score_experts(a, (const float *)b->logits->host + (uint64_t)r * n, a->has_bias ? b->bias->host : NULL, score);
        keep_best_groups(a, choice, scratch + 2 * (uint64_t)n);
        int32_t *ids = (int32_t *)b->ids->host + a->first + (uint64_t)r * a->top_k;
        float *weights = (float *)b->weights->host + a->first + (uint64_t)r * a->top_k;
        float sum = 1e-20f;
        for (uint32_t k = 0; k < a->top_k; k++) {
            uint32_t best = largest_of(choice, n);
            choice[best] = -INFINITY;
            ids[k] = (int32_t)best;
            weights[k] = score[best];
            sum += score[best];
        }
        for (uint32_t k = 0; k < a->top_k; k++)
            weights[k] = (a->norm_topk_prob ? weights[k] / sum : weights[k]) * a->routed_scaling_factor;
    }
    free(scratch);
    return GPU_OK;
}

int ref_gather(const struct args_gather *a, const float *x, const int32_t *index, float *out)
{
    for (uint32_t r = 0; r < a->n_rows; r++)
        memcpy(out + (uint64_t)r * a->dim, x + (uint64_t)index[a->first + r] * a->dim, sizeof *x * a->dim);
    return GPU_OK;
}

int ref_scatter_add(const struct args_gather *a, const struct gpu_scatter_bufs *b)
{
    const int32_t *index = b->index->host;
    const float *weight = b->weight->host;
    for (uint32_t r = 0; r < a->n_rows; r++) {
        const float *y = (const float *)b->y->host + ((uint64_t)a->row + r) * a->dim;
        float *out = (float *)b->out->host + (uint64_t)index[a->first + r] * a->dim;
        for (uint32_t i = 0; i < a->dim; i++)
            out[i] += weight[a->first + r] * y[i];
    }
    return GPU_OK;
}

int ref_combine(const struct args_combine *a, const float *partial, const float *weight, float *out)
{
    for (uint32_t i = 0; i < a->dim; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < a->n_partials; k++)
            sum = fmaf(weight[a->first_weight + k], partial[(uint64_t)k * a->dim + i],
                       sum); // as the kernels do: the same bits
        out[i] += sum;
    }
    return GPU_OK;
}

int ref_combine_norm(const struct args_combine_norm *a, const struct gpu_combine_bufs *b)
{
    struct args_combine combine = {.n_partials = a->n_partials, .dim = a->dim, .first_weight = a->first_weight};
    struct args_rmsnorm norm = {.weight = a->norm, .n_rows = 1, .dim = a->dim, .eps = a->eps, .plus_one = a->plus_one};
    int code = ref_combine(&combine, b->partial->host, b->weight->host, b->out->host);
    return code ? code : ref_rmsnorm(&norm, b->norm->host, b->out->host, b->y->host);
}

static double bank_score(const struct args_bank_mix *a, const struct gpu_bank_bufs *b, const float *u)
{
    const float *norm = ref_floats_at(b->norm, a->norm), *proj = ref_floats_at(b->proj, a->proj);
    double squares = 0, products = 0;
    for (uint32_t i = 0; i < a->dim; i++) {
        squares += (double)u[i] * u[i];
        products += (double)u[i] * norm[i] * proj[i];
    }
    return products / sqrt(squares / a->dim + (double)a->eps);
}

int ref_bank_mix(const struct args_bank_mix *a, const struct gpu_bank_bufs *b)
{
    for (uint32_t r = 0; r < a->n_rows; r++) {
        uint64_t row = (uint64_t)a->first + r;
        float *x = (float *)b->x->host + row * a->dim, *bank = (float *)b->bank->host + row * a->most * a->dim;
        float *y = (float *)b->y->host + ((uint64_t)a->to + r) * a->dim;
        double share[MOST_BANK + 1], largest = -INFINITY, total = 0;
        for (uint32_t j = 0; j <= a->n; j++) {
            share[j] = bank_score(a, b, j < a->n ? bank + (uint64_t)j * a->dim : x);
            largest = fmax(largest, share[j]);
        }
        for (uint32_t j = 0; j <= a->n; j++)
            total += share[j] = exp(share[j] - largest);
        for (uint32_t i = 0; i < a->dim; i++) {
            double sum = share[a->n] / total * x[i];
            for (uint32_t j = 0; j < a->n; j++)
                sum += share[j] / total * bank[(uint64_t)j * a->dim + i];
            y[i] = (float)sum;
        }
        for (uint32_t i = 0; a->appends && i < a->dim; i++) {
            bank[(uint64_t)a->n * a->dim + i] = x[i];
            x[i] = 0;
        }
    }
    return GPU_OK;
}
