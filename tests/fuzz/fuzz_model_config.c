// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as config.json: refused with one line that names file and field, or a shape whose every number is within
// what the engine computes with.
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fields.h"
#include "engine/files/shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static void check_router(const struct shape *s)
{
    uint32_t group = s->n_routed_experts / s->n_group;
    must(s->n_group >= 1 && s->topk_group >= 1 && s->topk_group <= s->n_group);
    must(s->n_routed_experts % s->n_group == 0 && group >= (s->topk_method == TOPK_NOAUX ? 2U : 1U));
    must(s->top_k >= 1 && s->top_k <= (uint64_t)s->topk_group * group);
    must(s->scoring == ROUTER_SIGMOID || !s->has_correction_bias);
    must(s->topk_method != TOPK_GREEDY || s->n_group == 1);
    must(isfinite(s->routed_scaling_factor) && s->routed_scaling_factor > 0);
}

static void check_shape(const struct shape *s)
{
    must(s->n_layers > s->first_k_dense_replace && s->n_shared_experts <= 256 && s->n_eos <= 8);
    must(s->hidden_size % 32 == 0 && s->kv_lora_rank % 32 == 0 && s->qk_rope_head_dim % 2 == 0);
    must(isfinite(s->softmax_scale) && s->softmax_scale > 0 && isfinite(s->rope_scale) && s->rope_scale > 0);
    must(s->rms_norm_eps > 0 && (s->latent_norm_eps > 0 || !s->kv_lora_rank));
    for (uint32_t i = 0; i < s->n_eos; i++)
        must(s->eos_token_ids[i] >= 0 && (uint32_t)s->eos_token_ids[i] < s->vocab_size);
    uint32_t frequencies = shape_frequencies(s);
    must(frequencies > 0 || (s->rotary_dim == 0 && s->qk_rope_head_dim == 0));
    float *inv_freq = malloc((frequencies + 1) * sizeof *inv_freq);
    must(inv_freq != NULL);
    shape_inv_freq(s, inv_freq);
    for (uint32_t i = 0; i < frequencies; i++)
        must(isfinite(inv_freq[i]));
    free(inv_freq);
    struct parameter_counts counts = shape_parameters(s);
    must(counts.total >= counts.active && counts.active > 0);
    must(s->hyper.n_streams == 0 || (s->hyper.n_streams == HYPER_STREAMS && s->hyper.iterations && s->hyper.eps > 0));
    must(isfinite(s->swiglu_limit) && s->swiglu_limit >= 0 && isfinite(s->linear.bound) && s->linear.bound <= 0);
}

// Every layer is of a kind whose dimensions are there.
static void check_layers(const struct shape *s)
{
    const struct linear_dims *d = &s->linear;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        enum layer_kind kind = shape_layer_kind(s, i);
        must(kind < LAYER_KINDS && (kind != LAYER_MLA || s->kv_lora_rank));
        if (kind == LAYER_GQA)
            must(s->n_kv_heads && s->n_heads % s->n_kv_heads == 0 && s->head_dim % 8 == 0 && s->head_dim <= 256 &&
                 s->rotary_dim >= 2 && s->rotary_dim <= s->head_dim);
        if (kind == LAYER_DSA || kind == LAYER_DSA_SHARED)
            must(s->kv_lora_rank && s->q_lora_rank && s->indexer.n_heads && s->indexer.top_k &&
                 s->indexer.head_dim % 8 == 0 && s->indexer.head_dim >= s->qk_rope_head_dim &&
                 s->indexer.head_dim <= MOST_INDEX_DIM && (i > 0 || kind == LAYER_DSA) && s->indexer.pool &&
                 s->indexer.top_k % s->indexer.pool == 0 && s->indexer.head_dim % s->indexer.pool == 0);
        if (kind == LAYER_GDN || kind == LAYER_KDA)
            must(d->n_key_heads && d->n_value_heads && d->n_value_heads % d->n_key_heads == 0 && d->key_head_dim &&
                 d->key_head_dim <= 128 && d->value_head_dim && d->conv_kernel == 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct moe_err err = {.text = ""};
    struct json_object *root = NULL;
    struct shape shape;
    int code = fields_parse((const char *)data, size, "config.json", &root, &err);
    if (!code)
        code = shape_read(root, "config.json", &shape, &err);
    json_object_put(root);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "config.json: ", 13) == 0 && !strchr(err.text, '\n'));
        return 0;
    }
    check_shape(&shape);
    check_router(&shape);
    check_layers(&shape);
    return 0;
}
