// SPDX-License-Identifier: GPL-3.0-or-later
// What mixes tokens besides latent attention, in plain C: grouped attention, the short convolution, the gated delta
// rule and their norms and gates.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/numbers.h"
#include "kernels/ref.h"

static float silu(float x)
{
    return x / (1.0f + expf(-x));
}

// Norms and turns the heads of rows as the two ops do; offset is the first head's.
struct heads {
    uint32_t n, row_stride, head_stride, offset;
};

static void norm_and_turn(const struct args_gqa_append *a, const struct heads *heads, const float *weight,
                          const float *inv_freq, float *x)
{
    struct args_rope rope = {.n_rows = a->n_rows,
                             .n_heads = heads->n,
                             .row_stride = heads->row_stride,
                             .head_stride = heads->head_stride,
                             .offset = heads->offset + a->rope_offset,
                             .rope_dim = a->rope_dim,
                             .position = a->position,
                             .interleaved = a->interleaved,
                             .scale = a->scale};
    for (uint32_t h = 0; h < heads->n; h++) {
        struct args_rmsnorm norm = {.n_rows = a->n_rows,
                                    .dim = a->head_dim,
                                    .in_stride = heads->row_stride,
                                    .in_offset = heads->offset + h * heads->head_stride,
                                    .out_stride = heads->row_stride,
                                    .out_offset = heads->offset + h * heads->head_stride,
                                    .eps = a->eps,
                                    .plus_one = a->plus_one};
        ref_rmsnorm(&norm, weight, x, x);
    }
    if (a->rope_dim)
        ref_rope(&rope, inv_freq, x);
}

int ref_gqa_append(const struct args_gqa_append *a, const struct gpu_gqa_append_bufs *b)
{
    uint32_t width = a->n_kv_heads * a->head_dim;
    float *keys = malloc(sizeof *keys * a->n_rows * width);
    if (!keys)
        return GPU_OUT_OF_MEMORY;
    const float *kv = b->kv->host;
    const float *inv_freq = a->rope_dim ? b->inv_freq->host : NULL;
    for (uint32_t r = 0; r < a->n_rows; r++)
        memcpy(keys + (uint64_t)r * width, kv + (uint64_t)r * a->kv_stride + a->k_offset, sizeof *keys * width);
    struct heads q = {a->n_heads, a->q_stride, a->q_head_stride, a->q_offset};
    struct heads k = {a->n_kv_heads, width, a->head_dim, 0};
    norm_and_turn(a, &q, ref_floats_at(b->q_norm, a->q_norm), inv_freq, b->q->host);
    norm_and_turn(a, &k, ref_floats_at(b->k_norm, a->k_norm), inv_freq, keys);
    for (uint32_t r = 0; r < a->n_rows; r++) {
        uint64_t at = ((uint64_t)a->position + r) * 2 * width;
        ref_to_cache(a->kv_type, keys + (uint64_t)r * width, width, b->cache->host, at);
        ref_to_cache(a->kv_type, kv + (uint64_t)r * a->kv_stride + a->v_offset, width, b->cache->host, at + width);
    }
    free(keys);
    return GPU_OK;
}

// A head's key (or, from n_kv_heads heads on, value) at a position, as float32: itself, or converted into `scratch`.
static const float *cached_head(const struct args_gqa *a, const void *cache, uint64_t position, uint32_t head,
                                float *scratch)
{
    uint64_t at = (position * 2 * a->n_kv_heads + head) * a->head_dim;
    if (a->kv_type == KV_F32)
        return (const float *)cache + at;
    for (uint32_t i = 0; i < a->head_dim; i++)
        scratch[i] = number_from_half(((const uint16_t *)cache)[at + i]);
    return scratch;
}

static void attend(const struct args_gqa *a, const struct gpu_gqa_bufs *b, uint32_t r, uint32_t h, float *scratch)
{
    uint64_t length = (uint64_t)a->position + r + 1;
    uint32_t kv_head = h / (a->n_heads / a->n_kv_heads);
    const float *q =
        (const float *)b->q->host + (uint64_t)r * a->q_stride + a->q_offset + (uint64_t)h * a->q_head_stride;
    float *out = (float *)b->out->host + ((uint64_t)r * a->n_heads + h) * a->head_dim;
    float *scores = scratch + a->head_dim;
    float largest = -INFINITY;
    for (uint64_t p = 0; p < length; p++) {
        const float *key = cached_head(a, b->cache->host, p, kv_head, scratch);
        scores[p] = ref_dot(q, key, a->head_dim) * a->softmax_scale;
        largest = fmaxf(largest, scores[p]);
    }
    float sum = 0;
    for (uint64_t p = 0; p < length; p++)
        sum += scores[p] = expf(scores[p] - largest);
    memset(out, 0, sizeof *out * a->head_dim);
    for (uint64_t p = 0; p < length; p++) {
        const float *value = cached_head(a, b->cache->host, p, a->n_kv_heads + kv_head, scratch);
        float weight = scores[p] / sum;
        for (uint32_t i = 0; i < a->head_dim; i++)
            out[i] += weight * value[i];
    }
}

int ref_gqa(const struct args_gqa *a, const struct gpu_gqa_bufs *b)
{
    float *scratch = malloc(sizeof *scratch * ((uint64_t)a->position + a->n_rows + a->head_dim));
    if (!scratch)
        return GPU_OUT_OF_MEMORY;
    for (uint32_t r = 0; r < a->n_rows; r++)
        for (uint32_t h = 0; h < a->n_heads; h++)
            attend(a, b, r, h, scratch);
    free(scratch);
    return GPU_OK;
}

int ref_short_conv(const struct args_short_conv *a, const struct gpu_short_conv_bufs *b)
{
    enum { BEFORE = CONV_TAPS - 1 };
    const float *weight = ref_floats_at(b->weight, a->weight), *x = (const float *)b->x->host + a->in_offset;
    const float *from = (const float *)b->from->host + a->from;
    float *to = (float *)b->to->host + a->to, *y = (float *)b->y->host + a->out_offset;
    for (uint32_t c = 0; c < a->channels; c++) {
        float seen[CONV_TAPS];
        for (uint32_t j = 0; j < BEFORE; j++)
            seen[j + 1] = from[(uint64_t)j * a->channels + c];
        for (uint32_t r = 0; r < a->n_rows; r++) {
            memmove(seen, seen + 1, sizeof *seen * BEFORE);
            seen[BEFORE] = x[(uint64_t)r * a->in_stride + c];
            float sum = 0;
            for (uint32_t j = 0; j < CONV_TAPS; j++)
                sum += weight[(uint64_t)c * CONV_TAPS + j] * seen[j];
            y[(uint64_t)r * a->out_stride + c] = silu(sum);
        }
        for (uint32_t j = 0; j < BEFORE; j++)
            to[(uint64_t)j * a->channels + c] = seen[j + 1];
    }
    return GPU_OK;
}

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

// What a head's state is multiplied with, by key channel.
static void decay_of(const struct args_delta *a, const struct gpu_delta_bufs *b, uint32_t h, const float *input,
                     float *decay)
{
    float rate = ref_floats_at(b->rate, a->rate)[h];
    const float *dt_bias = ref_floats_at(b->dt_bias, a->dt_bias);
    rate = a->rate_given ? -rate : expf(rate);
    for (uint32_t i = 0; i < a->key_dim; i++) {
        uint32_t at = a->decay == DECAY_HEAD ? h : h * a->key_dim + i;
        float f = input[at] + dt_bias[at];
        decay[i] = expf(a->decay == DECAY_CHANNEL_BOUNDED ? a->bound * ref_sigmoid(rate * f) : -rate * softplus(f));
    }
}

static void normed(const struct args_delta *a, const float *x, float factor, float *y)
{
    float scale = factor / sqrtf(ref_dot(x, x, a->key_dim) + a->norm_eps);
    for (uint32_t i = 0; i < a->key_dim; i++)
        y[i] = x[i] * scale;
}

// One token of one head. The scratch: q, k, decay [key_dim] each, d [value_dim].
static void delta_token(const struct args_delta *a, const struct gpu_delta_bufs *b, uint32_t r, uint32_t h,
                        float *scratch)
{
    uint32_t keys = a->key_dim, values = a->value_dim;
    uint32_t key_head = a->tiled_heads ? h % a->n_key_heads : h / (a->n_value_heads / a->n_key_heads);
    const float *x = (const float *)b->x->host + (uint64_t)r * a->in_stride;
    const float *gate = (const float *)b->gate->host + (uint64_t)r * a->gate_stride;
    const float *v = x + a->v_offset + (uint64_t)h * values;
    float *q = scratch, *k = q + keys, *decay = k + keys, *d = decay + keys;
    float *state = (float *)b->to->host + a->to + (uint64_t)h * keys * values;
    float *out = (float *)b->out->host + (uint64_t)r * a->out_stride + a->out_offset + (uint64_t)h * values;
    float beta = ref_sigmoid(gate[a->beta_offset + h]);
    normed(a, x + a->q_offset + (uint64_t)key_head * keys, 1.0f / sqrtf((float)keys), q);
    normed(a, x + a->k_offset + (uint64_t)key_head * keys, 1.0f, k);
    decay_of(a, b, h, gate + a->decay_offset, decay);
    memset(d, 0, sizeof *d * values);
    memset(out, 0, sizeof *out * values);
    for (uint32_t i = 0; i < keys; i++)
        for (uint32_t j = 0; j < values; j++) {
            float *s = &state[(uint64_t)i * values + j];
            *s *= decay[i];
            d[j] += *s * k[i];
        }
    for (uint32_t j = 0; j < values; j++)
        d[j] = beta * (v[j] - d[j]);
    for (uint32_t i = 0; i < keys; i++)
        for (uint32_t j = 0; j < values; j++) {
            float *s = &state[(uint64_t)i * values + j];
            *s += k[i] * d[j];
            out[j] += *s * q[i];
        }
}

int ref_delta(const struct args_delta *a, const struct gpu_delta_bufs *b)
{
    float *scratch = malloc(sizeof *scratch * (3 * (uint64_t)a->key_dim + a->value_dim));
    if (!scratch)
        return GPU_OUT_OF_MEMORY;
    uint64_t all = (uint64_t)a->n_value_heads * a->key_dim * a->value_dim;
    memmove((float *)b->to->host + a->to, (float *)b->from->host + a->from, sizeof(float) * all);
    for (uint32_t h = 0; h < a->n_value_heads; h++)
        for (uint32_t r = 0; r < a->n_rows; r++)
            delta_token(a, b, r, h, scratch);
    free(scratch);
    return GPU_OK;
}

int ref_gated_norm(const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b)
{
    for (uint32_t h = 0; h < a->n_heads; h++) {
        uint32_t at = h * a->dim;
        struct args_rmsnorm norm = {.weight = a->weight,
                                    .n_rows = a->n_rows,
                                    .dim = a->dim,
                                    .in_stride = a->in_stride,
                                    .in_offset = a->in_offset + at,
                                    .out_stride = a->out_stride,
                                    .out_offset = a->out_offset + at,
                                    .eps = a->eps};
        ref_rmsnorm(&norm, b->weight->host, b->x->host, b->y->host);
        for (uint32_t r = 0; r < a->n_rows; r++) {
            const float *gate = (const float *)b->gate->host + (uint64_t)r * a->gate_stride + a->gate_offset + at;
            float *y = (float *)b->y->host + (uint64_t)r * a->out_stride + a->out_offset + at;
            for (uint32_t i = 0; i < a->dim; i++)
                y[i] *= a->act == GATE_SILU ? silu(gate[i]) : ref_sigmoid(gate[i]);
        }
    }
    return GPU_OK;
}

int ref_gate_product(const struct args_gate_product *a, const float *gate, float *y)
{
    for (uint32_t r = 0; r < a->n_rows; r++)
        for (uint32_t h = 0; h < a->n_heads; h++) {
            const float *from =
                gate + (uint64_t)r * a->gate_stride + (uint64_t)h * a->gate_head_stride + a->gate_offset;
            float *to = y + (uint64_t)r * a->stride + a->offset + (uint64_t)h * a->dim;
            for (uint32_t i = 0; i < a->dim; i++)
                to[i] *= ref_sigmoid(from[a->one_each ? 0 : i]);
        }
    return GPU_OK;
}
