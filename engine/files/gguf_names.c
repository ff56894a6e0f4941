// SPDX-License-Identifier: GPL-3.0-or-later
// Names of tensors, GGUF's and the engine's.
#include "engine/files/gguf_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    const char *gguf, *ours;
};

static const struct pair whole[] = {
    {"token_embd.", "model.embed_tokens."},
    {"output_norm.", "model.norm."},
    {"output.", "lm_head."},
};

static const struct pair of_layer[] = {
    // behind "blk.N." and "model.layers.N."
    {"attn_norm.", "input_layernorm."},
    {"ffn_norm.", "post_attention_layernorm."},
    {"attn_q.", "self_attn.q_proj."},
    {"attn_q_a.", "self_attn.q_a_proj."},
    {"attn_q_a_norm.", "self_attn.q_a_layernorm."},
    {"attn_q_b.", "self_attn.q_b_proj."},
    {"attn_kv_a_mqa.", "self_attn.kv_a_proj_with_mqa."},
    {"attn_kv_a_norm.", "self_attn.kv_a_layernorm."},
    {"attn_kv_b.", "self_attn.kv_b_proj."},
    {"attn_k_b.", "self_attn.embed_q."},
    {"attn_v_b.", "self_attn.unembed_out."},
    {"attn_output.", "self_attn.o_proj."},
    {"ffn_gate.", "mlp.gate_proj."},
    {"ffn_up.", "mlp.up_proj."},
    {"ffn_down.", "mlp.down_proj."},
    {"ffn_gate_inp.", "mlp.gate."},
    {"ffn_gate_shexp.", "mlp.shared_experts.gate_proj."},
    {"ffn_up_shexp.", "mlp.shared_experts.up_proj."},
    {"ffn_down_shexp.", "mlp.shared_experts.down_proj."},
    {"ffn_gate_exps.", "mlp.switch_mlp.gate_proj."},
    {"ffn_up_exps.", "mlp.switch_mlp.up_proj."},
    {"ffn_down_exps.", "mlp.switch_mlp.down_proj."},
    {"ffn_gate_up_exps.", "mlp.switch_mlp.gate_up_proj."},
};

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static const struct pair bias = {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"};

// "blk.12.attn_q.weight": true, with 12 and what follows. Block numbers have no leading zeroes and few digits.
static bool block_of(const char *name, uint32_t *block, const char **rest)
{
    static const char blk[] = "blk.";
    const char *at = name + sizeof blk - 1;
    if (!starts(name, blk) || !isdigit((unsigned char)*at) || (at[0] == '0' && at[1] != '.'))
        return false;
    size_t digits = strspn(at, "0123456789");
    if (digits > 6 || at[digits] != '.')
        return false;
    *block = (uint32_t)strtoul(at, NULL, 10);
    *rest = at + digits + 1;
    return true;
}

static bool ends(const char *name, const char *with)
{
    size_t length = strlen(name);
    size_t tail = strlen(with);
    return length >= tail && strcmp(name + length - tail, with) == 0;
}

enum gguf_use gguf_name(const char *name, uint32_t n_layers, char ours[GGUF_NAME_BYTES])
{
    uint32_t block = 0;
    const char *rest = name;
    char prefix[32] = "";
    bool layered = block_of(name, &block, &rest);
    const struct pair *pairs = layered ? of_layer : whole;
    size_t count = layered ? sizeof of_layer / sizeof *of_layer : sizeof whole / sizeof *whole;
    snprintf(ours, GGUF_NAME_BYTES, "%s", name);
    if (layered ? block >= n_layers || starts(rest, "nextn.") : starts(name, "nextn."))
        return GGUF_MTP;
    if (ends(name, ".input_scale") || starts(rest, "rope_freqs.") || starts(rest, "rope_factors_"))
        return GGUF_SPARE;
    if (layered)
        snprintf(prefix, sizeof prefix, "model.layers.%" PRIu32 ".", block);
    if (layered && strcmp(rest, bias.gguf) == 0)
        snprintf(ours, GGUF_NAME_BYTES, "%s%s", prefix, bias.ours);
    for (size_t i = 0; i < count; i++)
        if (starts(rest, pairs[i].gguf) && strcmp(rest + strlen(pairs[i].gguf), "weight") == 0)
            snprintf(ours, GGUF_NAME_BYTES, "%s%sweight", prefix, pairs[i].ours);
    return GGUF_USED;
}

void gguf_name_back(const char *ours, char name[GGUF_NAME_BYTES])
{
    static const char layers[] = "model.layers.";
    uint32_t block = 0;
    const char *rest = ours;
    char prefix[32] = "";
    bool layered = starts(ours, layers);
    if (layered) {
        char *end;
        block = (uint32_t)strtoul(ours + sizeof layers - 1, &end, 10);
        rest = *end ? end + 1 : end;
        snprintf(prefix, sizeof prefix, "blk.%" PRIu32 ".", block);
    }
    snprintf(name, GGUF_NAME_BYTES, "%s", ours);
    if (layered && strcmp(rest, bias.ours) == 0)
        snprintf(name, GGUF_NAME_BYTES, "%s%s", prefix, bias.gguf);
    const struct pair *pairs = layered ? of_layer : whole;
    size_t count = layered ? sizeof of_layer / sizeof *of_layer : sizeof whole / sizeof *whole;
    for (size_t i = 0; i < count; i++)
        if (starts(rest, pairs[i].ours) && strcmp(rest + strlen(pairs[i].ours), "weight") == 0)
            snprintf(name, GGUF_NAME_BYTES, "%s%sweight", prefix, pairs[i].gguf);
}
