// SPDX-License-Identifier: GPL-3.0-or-later
// Grouped-query attention with a gate: heads of queries and keys are normed each by itself and turned in part; what
// comes out is multiplied by sigmoid of a gate that q_proj gives beside each head's query. A row of the cache is the
// keys of all heads, then their values. transformers: Qwen3NextAttention, Qwen3_5MoeAttention.
#include "engine/walk/loader.h"
#include "engine/walk/mixer.h"
#include "engine/walk/pass.h"

// The buffers of a chunk.
enum {
    GQA_Q,   // [rows, n_heads, query | gate]
    GQA_KV,  // [rows, n_kv_heads keys, n_kv_heads values]
    GQA_OUT, // [rows, n_heads * head_dim]
};

static void want(struct loader *l, struct layer_weights *layer)
{
    const struct shape *s = l->shape;
    struct gqa_weights *w = &layer->gqa;
    uint32_t hidden = s->hidden_size, kv = s->n_kv_heads * s->head_dim;
    loader_matrix(l, &w->q, "self_attn.q_proj", 2 * s->n_heads * s->head_dim, hidden);
    loader_matrix(l, &w->k, "self_attn.k_proj", kv, hidden);
    loader_matrix(l, &w->v, "self_attn.v_proj", kv, hidden);
    loader_norm(l, &w->q_norm, "self_attn.q_norm.weight", s->head_dim);
    loader_norm(l, &w->k_norm, "self_attn.k_norm.weight", s->head_dim);
    loader_matrix(l, &w->o, "self_attn.o_proj", hidden, s->n_heads * s->head_dim);
}

static void memory(const struct shape *s, struct mixer_needs *needs)
{
    uint64_t heads = s->n_heads;
    needs->rows[0] = 2 * s->n_kv_heads * s->head_dim;
    needs->chunk[GQA_Q] = 2 * heads * s->head_dim;
    needs->chunk[GQA_KV] = needs->rows[0];
    needs->chunk[GQA_OUT] = heads * s->head_dim;
}

static struct mixer_work work(const struct shape *s)
{
    double hidden = s->hidden_size, q = (double)s->n_heads * s->head_dim, kv = (double)s->n_kv_heads * s->head_dim;
    return (struct mixer_work){.token = hidden * (3 * q + 2 * kv), .pair = 2 * q};
}

// Norms and turns queries in place, and appends a row of keys and values for each token.
static void append(const struct pass *pass, const struct gqa_weights *w, struct rows q, struct rows kv, uint32_t layer)
{
    const struct shape *s = pass->shape;
    struct args_gqa_append args = {
        .q_norm = w->q_norm.offset,
        .k_norm = w->k_norm.offset,
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .rope_dim = s->rotary_dim,
        .q_stride = q.stride,
        .q_head_stride = 2 * s->head_dim,
        .q_offset = q.offset,
        .kv_stride = kv.stride,
        .k_offset = kv.offset,
        .v_offset = kv.offset + s->n_kv_heads * s->head_dim,
        .position = pass->position,
        .kv_type = pass->memory->type,
        .interleaved = s->rope_interleave,
        .eps = s->rms_norm_eps,
        .scale = s->rope_scale,
    };
    struct gpu_gqa_append_bufs bufs = {w->q_norm.buf, w->k_norm.buf, pass->weights->inv_freq,
                                       q.buf,         kv.buf,        pass_rows(pass, layer, 0)};
    gpu_op_gqa_append(pass->gpu, &args, &bufs);
}

static void attend(const struct pass *pass, struct rows q, struct rows out, uint32_t layer)
{
    const struct shape *s = pass->shape;
    struct args_gqa args = {
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .q_stride = q.stride,
        .q_head_stride = 2 * s->head_dim,
        .q_offset = q.offset,
        .position = pass->position,
        .kv_type = pass->memory->type,
        .softmax_scale = s->softmax_scale,
    };
    struct gpu_gqa_bufs bufs = {q.buf, pass_rows(pass, layer, 0), out.buf};
    if (pass->decode)
        gpu_op_gqa_decode(pass->gpu, &args, &bufs);
    else
        gpu_op_gqa_prefill(pass->gpu, &args, &bufs);
}

static void run(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    const struct gqa_weights *w = &pass->weights->layers[layer].gqa;
    uint32_t heads = s->n_heads * s->head_dim, kv_heads = s->n_kv_heads * s->head_dim;
    struct rows q = scratch_mixer(pass->scratch, GQA_Q, 2 * heads);
    struct rows k = scratch_mixer(pass->scratch, GQA_KV, 2 * kv_heads), v = k;
    struct rows out = scratch_mixer(pass->scratch, GQA_OUT, heads);
    v.offset += kv_heads;
    struct projection from_x[] = {
        {.matrix = &w->q, .to = q},
        {.matrix = &w->k, .to = k},
        {.matrix = &w->v, .to = v},
    };
    stream_project(pass, layer, SITE_MIXER, from_x, 3);
    append(pass, w, q, k, layer);
    attend(pass, q, out, layer);
    struct args_gate_product gate = {
        .n_rows = pass->rows,
        .n_heads = s->n_heads,
        .dim = s->head_dim,
        .stride = out.stride,
        .offset = out.offset,
        .gate_stride = q.stride,
        .gate_head_stride = 2 * s->head_dim,
        .gate_offset = q.offset + s->head_dim,
    };
    gpu_op_gate_product(pass->gpu, &gate, q.buf, out.buf);
    stream_add(pass, &w->o, out);
}

const struct mixer mixer_gqa = {.name = "gqa", .want = want, .memory = memory, .work = work, .run = run};
