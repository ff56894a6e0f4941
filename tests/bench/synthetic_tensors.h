// SPDX-License-Identifier: GPL-3.0-or-later
// What a model's resident file holds, by its shape: synthetic.c's list of tensors, which that fills.
#ifndef MOECHAT_TESTS_BENCH_SYNTHETIC_TENSORS_H
#define MOECHAT_TESTS_BENCH_SYNTHETIC_TENSORS_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/files/shape.h"

enum fill { RANDOM, EMBEDDING, HEAD, ROUTER, ONES, ZEROS };

struct tensor {
    char name[96]; // without .weight where it is a matrix
    enum fill fill;
    uint32_t rows, cols, bits; // cols 0: a vector
    uint32_t taps;             // not 0: so many numbers a row, no matrix either
    double gain;
};

struct tensor_list {
    const struct shape *shape;
    uint32_t bits; // of a matrix that has none of its own
    struct tensor *tensors;
    size_t n;
};

__attribute__((format(printf, 3, 4))) static struct tensor *add(struct tensor_list *m, struct tensor tensor,
                                                                const char *format, ...)
{
    va_list args;
    if (m->n % 256 == 0) {
        m->tensors = realloc(m->tensors, (m->n + 256) * sizeof *m->tensors);
        if (!m->tensors)
            abort();
    }
    va_start(args, format);
    vsnprintf(tensor.name, sizeof tensor.name, format, args);
    va_end(args);
    m->tensors[m->n] = tensor;
    return &m->tensors[m->n++];
}

static void add_mlp(struct tensor_list *m, uint32_t layer, const char *part, uint32_t inner)
{
    const struct shape *s = m->shape;
    uint32_t bits = m->bits;
    double out = 1 / sqrt(2 * s->n_layers);
    add(m, (struct tensor){.rows = inner, .cols = s->hidden_size, .bits = bits, .gain = 1},
        "model.layers.%u.mlp.%sgate_proj", layer, part);
    add(m, (struct tensor){.rows = inner, .cols = s->hidden_size, .bits = bits, .gain = 1},
        "model.layers.%u.mlp.%sup_proj", layer, part);
    add(m, (struct tensor){.rows = s->hidden_size, .cols = inner, .bits = bits, .gain = out},
        "model.layers.%u.mlp.%sdown_proj", layer, part);
}

static void add_mla(struct tensor_list *m, uint32_t i)
{
    const struct shape *s = m->shape;
    uint32_t bits = m->bits, q_out = s->n_heads * (s->qk_nope_head_dim + s->qk_rope_head_dim);
    double out = 1 / sqrt(2 * s->n_layers);
    if (s->q_lora_rank) {
        add(m, (struct tensor){.rows = s->q_lora_rank, .cols = s->hidden_size, .bits = bits, .gain = 1},
            "model.layers.%u.self_attn.q_a_proj", i);
        add(m, (struct tensor){.fill = ONES, .rows = s->q_lora_rank}, "model.layers.%u.self_attn.q_a_layernorm.weight",
            i);
        add(m, (struct tensor){.rows = q_out, .cols = s->q_lora_rank, .bits = bits, .gain = 1},
            "model.layers.%u.self_attn.q_b_proj", i);
    } else {
        add(m, (struct tensor){.rows = q_out, .cols = s->hidden_size, .bits = bits, .gain = 1},
            "model.layers.%u.self_attn.q_proj", i);
    }
    add(m,
        (struct tensor){.rows = s->kv_lora_rank + s->qk_rope_head_dim, .cols = s->hidden_size, .bits = bits, .gain = 1},
        "model.layers.%u.self_attn.kv_a_proj_with_mqa", i);
    add(m, (struct tensor){.fill = ONES, .rows = s->kv_lora_rank}, "model.layers.%u.self_attn.kv_a_layernorm.weight",
        i);
    add(m,
        (struct tensor){.rows = s->n_heads * (s->qk_nope_head_dim + s->v_head_dim),
                        .cols = s->kv_lora_rank,
                        .bits = bits,
                        .gain = 1},
        "model.layers.%u.self_attn.kv_b_proj", i);
    if (s->gated_latents)
        add(m, (struct tensor){.rows = s->n_heads * s->v_head_dim, .cols = s->hidden_size, .bits = bits, .gain = 1},
            "model.layers.%u.self_attn.g_proj", i);
    add(m, (struct tensor){.rows = s->hidden_size, .cols = s->n_heads * s->v_head_dim, .bits = bits, .gain = out},
        "model.layers.%u.self_attn.o_proj", i);
}

static void add_matrix(struct tensor_list *m, uint32_t layer, const char *name, struct tensor tensor)
{
    tensor.bits = tensor.bits ? tensor.bits : m->bits;
    tensor.gain = tensor.gain > 0 ? tensor.gain : 1;
    add(m, tensor, "model.layers.%u.%s", layer, name);
}

static void add_gqa(struct tensor_list *m, uint32_t i)
{
    const struct shape *s = m->shape;
    uint32_t q = s->n_heads * s->head_dim, kv = s->n_kv_heads * s->head_dim, hidden = s->hidden_size;
    add_matrix(m, i, "self_attn.q_proj", (struct tensor){.rows = 2 * q, .cols = hidden});
    add_matrix(m, i, "self_attn.k_proj", (struct tensor){.rows = kv, .cols = hidden});
    add_matrix(m, i, "self_attn.v_proj", (struct tensor){.rows = kv, .cols = hidden});
    add_matrix(m, i, "self_attn.q_norm.weight", (struct tensor){.fill = ONES, .rows = s->head_dim});
    add_matrix(m, i, "self_attn.k_norm.weight", (struct tensor){.fill = ONES, .rows = s->head_dim});
    add_matrix(m, i, "self_attn.o_proj", (struct tensor){.rows = hidden, .cols = q, .gain = 1 / sqrt(2 * s->n_layers)});
}

// Zeros as A_log and dt_bias: a state halves with each token, about.
static void add_gdn(struct tensor_list *m, uint32_t i)
{
    const struct shape *s = m->shape;
    const struct linear_dims *d = &s->linear;
    uint32_t values = d->n_value_heads * d->value_head_dim, hidden = s->hidden_size;
    uint32_t channels = 2 * d->n_key_heads * d->key_head_dim + values;
    add_matrix(m, i, "linear_attn.in_proj_qkv", (struct tensor){.rows = channels, .cols = hidden});
    add_matrix(m, i, "linear_attn.in_proj_z", (struct tensor){.rows = values, .cols = hidden});
    add_matrix(m, i, "linear_attn.in_proj_b", (struct tensor){.rows = d->n_value_heads, .cols = hidden, .bits = 8});
    add_matrix(m, i, "linear_attn.in_proj_a", (struct tensor){.rows = d->n_value_heads, .cols = hidden, .bits = 8});
    add_matrix(m, i, "linear_attn.conv1d.weight", (struct tensor){.fill = ONES, .rows = channels, .taps = 4});
    add_matrix(m, i, "linear_attn.A_log", (struct tensor){.fill = ZEROS, .rows = d->n_value_heads});
    add_matrix(m, i, "linear_attn.dt_bias", (struct tensor){.fill = ZEROS, .rows = d->n_value_heads});
    add_matrix(m, i, "linear_attn.norm.weight", (struct tensor){.fill = ONES, .rows = d->value_head_dim});
    add_matrix(m, i, "linear_attn.out_proj",
               (struct tensor){.rows = hidden, .cols = values, .gain = 1 / sqrt(2 * s->n_layers)});
}

static void add_kda(struct tensor_list *m, uint32_t i)
{
    static const char *const projections[3] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    static const char *const convolutions[3] = {"self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight",
                                                "self_attn.v_conv1d.weight"};
    const struct shape *s = m->shape;
    const struct linear_dims *d = &s->linear;
    uint32_t head = d->key_head_dim, wide = d->n_key_heads * head, hidden = s->hidden_size;
    for (int k = 0; k < 3; k++) {
        add_matrix(m, i, projections[k], (struct tensor){.rows = wide, .cols = hidden});
        add_matrix(m, i, convolutions[k], (struct tensor){.fill = ONES, .rows = wide, .taps = 4});
    }
    add_matrix(m, i, "self_attn.b_proj", (struct tensor){.rows = d->n_value_heads, .cols = hidden, .bits = 8});
    add_matrix(m, i, "self_attn.f_a_proj", (struct tensor){.rows = head, .cols = hidden, .bits = 8});
    add_matrix(m, i, "self_attn.f_b_proj", (struct tensor){.rows = wide, .cols = head, .bits = 8});
    if (d->full_gate) {
        add_matrix(m, i, "self_attn.g_proj", (struct tensor){.rows = wide, .cols = hidden});
    } else {
        add_matrix(m, i, "self_attn.g_a_proj", (struct tensor){.rows = head, .cols = hidden});
        add_matrix(m, i, "self_attn.g_b_proj", (struct tensor){.rows = wide, .cols = head});
    }
    add_matrix(m, i, "self_attn.A_log", (struct tensor){.fill = ZEROS, .rows = d->n_value_heads});
    add_matrix(m, i, "self_attn.dt_bias", (struct tensor){.fill = ZEROS, .rows = wide});
    add_matrix(m, i, "self_attn.o_norm.weight", (struct tensor){.fill = ONES, .rows = head});
    add_matrix(m, i, "self_attn.o_proj",
               (struct tensor){.rows = hidden, .cols = wide, .gain = 1 / sqrt(2 * s->n_layers)});
}

// A layer's indexer, its heads' weights in 8 bits.
static void add_dsa(struct tensor_list *m, uint32_t i)
{
    const struct shape *s = m->shape;
    const struct indexer_dims *d = &s->indexer;
    add_mla(m, i);
    add_matrix(m, i, "self_attn.indexer.wq_b",
               (struct tensor){.rows = d->n_heads * d->head_dim, .cols = s->q_lora_rank});
    add_matrix(m, i, "self_attn.indexer.wk", (struct tensor){.rows = d->head_dim, .cols = s->hidden_size});
    add_matrix(m, i, "self_attn.indexer.k_norm.weight", (struct tensor){.fill = ONES, .rows = d->head_dim});
    add_matrix(m, i, "self_attn.indexer.k_norm.bias", (struct tensor){.fill = ZEROS, .rows = d->head_dim});
    add_matrix(m, i, "self_attn.indexer.weights_proj",
               (struct tensor){.rows = d->n_heads, .cols = s->hidden_size, .bits = 8});
    if (d->pool <= 1)
        return;
    add_matrix(m, i, "self_attn.indexer.index_kpool_compress_gate",
               (struct tensor){.rows = d->head_dim, .cols = s->hidden_size, .bits = 8});
    add_matrix(m, i, "self_attn.indexer.index_kpool_compress_ape",
               (struct tensor){.fill = ZEROS, .rows = d->pool, .taps = d->head_dim});
}

// What mixes the streams of a layer's two sites.
static void add_streams(struct tensor_list *m, uint32_t i)
{
    static const char *const sites[] = {"attn", "ffn"};
    uint32_t n = m->shape->hyper.n_streams, logits = (2 + n) * n;
    for (int k = 0; n && k < 2; k++) {
        add(m, (struct tensor){.rows = logits, .cols = n * m->shape->hidden_size, .bits = 8, .gain = 1},
            "model.layers.%u.hc_%s_fn", i, sites[k]);
        add(m, (struct tensor){.fill = ZEROS, .rows = logits}, "model.layers.%u.hc_%s_base", i, sites[k]);
        add(m, (struct tensor){.fill = ONES, .rows = 3}, "model.layers.%u.hc_%s_scale", i, sites[k]);
    }
}

// Shares of a bank that are all alike.
static void add_bank(struct tensor_list *m, uint32_t i)
{
    static const char *const norms[2] = {"self_attention_res_norm.weight", "mlp_res_norm.weight"};
    static const char *const projections[2] = {"self_attention_res_proj.weight", "mlp_res_proj.weight"};
    for (int k = 0; k < 2; k++) {
        add_matrix(m, i, norms[k], (struct tensor){.fill = ONES, .rows = m->shape->hidden_size});
        add_matrix(m, i, projections[k], (struct tensor){.fill = ZEROS, .rows = m->shape->hidden_size});
    }
}

static void add_latent(struct tensor_list *m, uint32_t i)
{
    const struct shape *s = m->shape;
    add_matrix(m, i, "mlp.routed_expert_down_proj", (struct tensor){.rows = s->latent_size, .cols = s->hidden_size});
    add_matrix(m, i, "mlp.routed_expert_norm.weight", (struct tensor){.fill = ONES, .rows = s->latent_size});
    add_matrix(m, i, "mlp.routed_expert_up_proj",
               (struct tensor){.rows = s->hidden_size, .cols = s->latent_size, .gain = 1 / sqrt(2 * s->n_layers)});
}

static void add_mixer(struct tensor_list *m, uint32_t i)
{
    static void (*const add_kind[LAYER_KINDS])(struct tensor_list *, uint32_t) = {
        [LAYER_MLA] = add_mla, [LAYER_GQA] = add_gqa, [LAYER_GDN] = add_gdn,
        [LAYER_KDA] = add_kda, [LAYER_DSA] = add_dsa, [LAYER_DSA_SHARED] = add_mla};
    const struct tensor norm = {.fill = ONES, .rows = m->shape->hidden_size};
    add_matrix(m, i, "input_layernorm.weight", norm);
    add_kind[shape_layer_kind(m->shape, i)](m, i);
    add_matrix(m, i, "post_attention_layernorm.weight", norm);
    if (m->shape->bank_every)
        add_bank(m, i);
    add_streams(m, i);
}

static void list_resident(struct tensor_list *m)
{
    const struct shape *s = m->shape;
    uint32_t bits = m->bits;
    struct tensor table = {.rows = s->vocab_size, .cols = s->hidden_size, .bits = bits};
    table.fill = EMBEDDING;
    table.gain = sqrt(s->hidden_size); // elements of size 1
    add(m, table, "model.embed_tokens");
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_mixer(m, i);
        if (!shape_is_moe(s, i)) {
            add_mlp(m, i, "", s->intermediate_size);
            continue;
        }
        if (s->n_shared_experts)
            add_mlp(m, i, "shared_experts.", s->shared_intermediate_size);
        if (s->latent_size)
            add_latent(m, i);
        if (s->has_shared_gate)
            add_matrix(m, i, "mlp.shared_expert_gate", (struct tensor){.rows = 1, .cols = s->hidden_size, .bits = 8});
        add(m, (struct tensor){.fill = ROUTER, .rows = s->n_routed_experts, .cols = s->hidden_size, .bits = 8},
            "model.layers.%u.mlp.gate", i);
        if (s->has_correction_bias)
            add(m, (struct tensor){.fill = ZEROS, .rows = s->n_routed_experts},
                "model.layers.%u.mlp.gate.e_score_correction_bias", i);
    }
    add(m, (struct tensor){.fill = ONES, .rows = s->hidden_size}, "model.norm.weight");
    if (s->bank_every) {
        add(m, (struct tensor){.fill = ONES, .rows = s->hidden_size}, "model.output_attn_res_norm.weight");
        add(m, (struct tensor){.fill = ZEROS, .rows = s->hidden_size}, "model.output_attn_res_proj.weight");
    }
    table.fill = HEAD;
    table.gain = 1;
    if (!s->tie_word_embeddings)
        add(m, table, "lm_head");
}

#endif
