// SPDX-License-Identifier: GPL-3.0-or-later
// qwen3_next and qwen3_5_moe: three layers of gated delta nets, then one of gated attention; softmax routers and one
// shared expert with a gate. transformers: Qwen3NextConfig, Qwen3_5MoeTextConfig.
#include "engine/files/shape_reader.h"

#include <json-c/json.h>
#include <stddef.h>
#include <string.h>

// The defaults are those of Qwen3NextConfig and Qwen3_5MoeTextConfig.
static const struct {
    const char *key;
    size_t offset;
    uint32_t min, max, next, moe;
} dimensions[] = {
    {"vocab_size", offsetof(struct shape, vocab_size), 1, MOST_VOCABULARY, 151936, 248320},
    {"hidden_size", offsetof(struct shape, hidden_size), 32, MOST_WIDTH, 2048, 2048},
    {"num_hidden_layers", offsetof(struct shape, n_layers), 1, MOST_LAYERS, 48, 40},
    {"num_attention_heads", offsetof(struct shape, n_heads), 1, 4096, 16, 16},
    {"num_key_value_heads", offsetof(struct shape, n_kv_heads), 1, 4096, 2, 2},
    {"head_dim", offsetof(struct shape, head_dim), 8, 256, 256, 256},
    {"linear_num_key_heads", offsetof(struct shape, linear.n_key_heads), 1, 512, 16, 16},
    {"linear_num_value_heads", offsetof(struct shape, linear.n_value_heads), 1, 4096, 32, 32},
    {"linear_key_head_dim", offsetof(struct shape, linear.key_head_dim), 1, 128, 128, 128},
    {"linear_value_head_dim", offsetof(struct shape, linear.value_head_dim), 1, 4096, 128, 128},
    {"linear_conv_kernel_dim", offsetof(struct shape, linear.conv_kernel), 4, 4, 4, 4},
    {"moe_intermediate_size", offsetof(struct shape, moe_intermediate_size), 32, MOST_WIDTH, 512, 512},
    {"shared_expert_intermediate_size", offsetof(struct shape, shared_intermediate_size), 32, MOST_WIDTH, 512, 512},
    {"num_experts", offsetof(struct shape, n_routed_experts), 2, MOST_ROUTED, 512, 256},
    {"num_experts_per_tok", offsetof(struct shape, top_k), 1, MOST_ROUTED, 10, 8},
    {"max_position_embeddings", offsetof(struct shape, max_position_embeddings), 1, MOST_TOKENS, 32768, 32768},
};

static void read_dimensions(struct fields *f, enum family family, struct shape *s)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        const struct integer_range range = {dimensions[i].min, dimensions[i].max};
        uint32_t fallback = family == QWEN3_NEXT ? dimensions[i].next : dimensions[i].moe;
        uint32_t value = (uint32_t)fields_integer_or(f, dimensions[i].key, range, fallback);
        memcpy((char *)s + dimensions[i].offset, &value, sizeof value);
    }
    s->n_shared_experts = 1;
}

static void check_dimensions(struct fields *f, const struct shape *s)
{
    const struct linear_dims *d = &s->linear;
    if (f->failed)
        return;
    shape_check_width(f, "hidden_size", s->hidden_size);
    shape_check_width(f, "moe_intermediate_size", s->moe_intermediate_size);
    shape_check_width(f, "shared_expert_intermediate_size", s->shared_intermediate_size);
    shape_check_width(f, "head_dim", (uint64_t)s->n_heads * s->head_dim);
    shape_check_width(f, "linear_value_head_dim", (uint64_t)d->n_value_heads * d->value_head_dim);
    if (s->head_dim % 8)
        fields_fail(f, MOE_UNSUPPORTED, "head_dim", "is %u; moechat computes multiples of 8", s->head_dim);
    if (s->n_heads % s->n_kv_heads)
        fields_fail(f, MOE_FORMAT, "num_key_value_heads", "is %u; it must divide num_attention_heads (%u)",
                    s->n_kv_heads, s->n_heads);
    if (d->n_value_heads % d->n_key_heads)
        fields_fail(f, MOE_FORMAT, "linear_num_key_heads", "is %u; it must divide linear_num_value_heads (%u)",
                    d->n_key_heads, d->n_value_heads);
    if (s->top_k > s->n_routed_experts)
        fields_fail(f, MOE_FORMAT, "num_experts_per_tok", "is %u of %u experts", s->top_k, s->n_routed_experts);
}

static bool last_of(uint32_t layer, uint32_t every)
{
    return (layer + 1) % every == 0;
}

static void read_kinds(struct fields *f, struct shape *s)
{
    struct kinds_by_name names = {LAYER_GDN, LAYER_GQA, last_of, 0};
    names.every = (uint32_t)fields_integer_or(f, "full_attention_interval", (struct integer_range){1, MOST_LAYERS}, 4);
    if (!f->failed)
        shape_read_kinds(f, &names, s);
}

// What would be computed otherwise than we do is refused.
static void read_settings(struct fields *f, enum family family, struct shape *s)
{
    s->scoring = ROUTER_SOFTMAX;
    s->topk_method = TOPK_GREEDY;
    s->n_group = s->topk_group = 1;
    s->routed_scaling_factor = 1;
    s->has_shared_gate = s->norms_from_one = true;
    s->linear.tiled = fields_flag_or(f, "linear_value_heads_tiled", false); // only ours have it, made of a GGUF's keys
    s->rms_norm_eps = (float)fields_number_or(f, "rms_norm_eps", (struct number_range){1e-12, 1}, 1e-6);
    // qwen3_5_moe's class always divides by the sum
    s->norm_topk_prob = family == QWEN3_5_MOE || fields_flag_or(f, "norm_topk_prob", true);
    s->tie_word_embeddings = fields_flag_or(f, "tie_word_embeddings", false);
    shape_must_be_text(f, "hidden_act", "silu");
    shape_must_be_integer(f, "decoder_sparse_step", 1);
    shape_must_be_false(f, "attention_bias", "moechat has no biases in attention");
    if (fields_has(f, "mlp_only_layers"))
        fields_array(f, "mlp_only_layers", (struct integer_range){0, 0});
    if (fields_has(f, "attn_output_gate") && !fields_flag(f, "attn_output_gate"))
        fields_fail(f, MOE_UNSUPPORTED, "attn_output_gate", "is false; moechat computes attention with its gate only");
    if (fields_has(f, "norm_topk_prob") && family == QWEN3_5_MOE && !fields_flag(f, "norm_topk_prob"))
        fields_fail(f, MOE_UNSUPPORTED, "norm_topk_prob",
                    "is false; transformers' qwen3_5_moe always divides the chosen weights by their sum");
}

void shape_read_qwen(struct fields *f, enum family family, struct shape *s)
{
    read_dimensions(f, family, s);
    check_dimensions(f, s);
    if (f->failed)
        return;
    read_kinds(f, s);
    read_settings(f, family, s);
    shape_read_token_ids(f, (struct token_ids){-1, -1}, s);
    shape_read_rope(f, s->head_dim, 0.25, s);
}
