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
    {"output_res_score.", "model.output_attn_res_score."},
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
    {"attn_k.", "self_attn.k_proj."},
    {"attn_v.", "self_attn.v_proj."},
    {"attn_q_norm.", "self_attn.q_norm."},
    {"attn_k_norm.", "self_attn.k_norm."},
    {"attn_qkv.", "linear_attn.in_proj_qkv."},
    {"attn_gate.", "linear_attn.in_proj_z."},
    {"ssm_in.", "linear_attn.in_proj_qkvz."},
    {"ssm_alpha.", "linear_attn.in_proj_a."},
    {"ssm_ba.", "linear_attn.in_proj_ba."},
    {"ssm_conv1d.", "linear_attn.conv1d."},
    {"ssm_out.", "linear_attn.out_proj."},
    {"ssm_conv1d_q.", "self_attn.q_conv1d."},
    {"ssm_conv1d_k.", "self_attn.k_conv1d."},
    {"ssm_conv1d_v.", "self_attn.v_conv1d."},
    {"ssm_f_a.", "self_attn.f_a_proj."},
    {"ssm_f_b.", "self_attn.f_b_proj."},
    {"ssm_g_a.", "self_attn.g_a_proj."},
    {"ssm_g_b.", "self_attn.g_b_proj."},
    {"indexer.attn_q_b.", "self_attn.indexer.wq_b."},
    {"indexer.attn_k.", "self_attn.indexer.wk."},
    {"indexer.proj.", "self_attn.indexer.weights_proj."},
    {"indexer_compressor_gate.", "self_attn.indexer.index_kpool_compress_gate."},
    {"ssm_g.", "self_attn.g_proj."},
    {"attn_res_score.", "self_attention_res_score."},
    {"ffn_res_score.", "mlp_res_score."},
    {"ffn_routed_down.", "mlp.routed_expert_down_proj."},
    {"ffn_routed_norm.", "mlp.routed_expert_norm."},
    {"ffn_routed_up.", "mlp.routed_expert_up_proj."},
    {"hc_attn_fn.", "hc_attn_fn."},
    {"hc_ffn_fn.", "hc_ffn_fn."},
    {"ffn_gate.", "mlp.gate_proj."},
    {"ffn_up.", "mlp.up_proj."},
    {"ffn_down.", "mlp.down_proj."},
    {"ffn_gate_inp.", "mlp.gate."},
    {"ffn_gate_inp_shexp.", "mlp.shared_expert_gate."},
    {"ffn_gate_shexp.", "mlp.shared_experts.gate_proj."},
    {"ffn_up_shexp.", "mlp.shared_experts.up_proj."},
    {"ffn_down_shexp.", "mlp.shared_experts.down_proj."},
    {"ffn_gate_exps.", "mlp.switch_mlp.gate_proj."},
    {"ffn_up_exps.", "mlp.switch_mlp.up_proj."},
    {"ffn_down_exps.", "mlp.switch_mlp.down_proj."},
    {"ffn_gate_up_exps.", "mlp.switch_mlp.gate_up_proj."},
};

// In the place of ffn_norm, in Qwen's architectures.
static const struct pair second_norm = {"post_attention_norm.weight", "post_attention_layernorm.weight"};

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

// Whole names behind the block, and those that are called otherwise in a layer of Kimi delta attention.
static const struct pair single[] = {
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ssm_a", "linear_attn.A"}, // not A_log: -exp(A_log)
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
    {"ssm_norm.weight", "linear_attn.norm.weight"},
    {"indexer.k_norm.weight", "self_attn.indexer.k_norm.weight"},
    {"indexer.k_norm.bias", "self_attn.indexer.k_norm.bias"},
    {"indexer_compressor_ape.weight", "self_attn.indexer.index_kpool_compress_ape"},
    {"hc_attn_base.weight", "hc_attn_base"},
    {"hc_attn_scale.weight", "hc_attn_scale"},
    {"hc_ffn_base.weight", "hc_ffn_base"},
    {"hc_ffn_scale.weight", "hc_ffn_scale"},
};
static const struct pair single_kda[] = {
    {"ssm_a", "self_attn.A"},
    {"ssm_dt.bias", "self_attn.dt_bias"},
    {"ssm_beta.weight", "self_attn.b_proj.weight"},
    {"ssm_norm.weight", "self_attn.o_norm.weight"},
};
enum { N_SINGLE = sizeof single / sizeof *single, N_KDA = sizeof single_kda / sizeof *single_kda };

// Of latent attention's output, which has in GGUF files what gated delta nets call theirs.
static const struct pair mla_gate = {"attn_gate.", "self_attn.g_proj."};

static bool has_mla_gate(const struct shape *shape, uint32_t block)
{
    return shape->gated_latents && block < shape->n_layers && shape_layer_kind(shape, block) == LAYER_MLA;
}

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

// Matrices, and what a whole one is multiplied with.
static bool is_last(const char *word)
{
    return strcmp(word, "weight") == 0 || strcmp(word, "scale") == 0;
}

enum gguf_use gguf_name(const char *name, const struct shape *shape, char ours[GGUF_NAME_BYTES])
{
    uint32_t block = 0;
    const char *rest = name;
    char prefix[32] = "";
    bool layered = block_of(name, &block, &rest);
    const struct pair *pairs = layered ? of_layer : whole;
    size_t count = layered ? sizeof of_layer / sizeof *of_layer : sizeof whole / sizeof *whole;
    snprintf(ours, GGUF_NAME_BYTES, "%s", name);
    if (layered ? block >= shape->n_layers || starts(rest, "nextn.") : starts(name, "nextn."))
        return GGUF_MTP;
    if (ends(name, ".input_scale") || starts(rest, "rope_freqs.") || starts(rest, "rope_factors_"))
        return GGUF_SPARE;
    if (layered && shape_layer_kind(shape, block) == LAYER_DSA_SHARED && starts(rest, "indexer."))
        return GGUF_SPARE; // some files have them in all layers
    if (layered)
        snprintf(prefix, sizeof prefix, "model.layers.%" PRIu32 ".", block);
    if (layered && strcmp(rest, second_norm.gguf) == 0)
        snprintf(ours, GGUF_NAME_BYTES, "%s%s", prefix, second_norm.ours);
    for (size_t i = 0; layered && i < N_SINGLE; i++)
        if (strcmp(rest, single[i].gguf) == 0)
            snprintf(ours, GGUF_NAME_BYTES, "%s%s", prefix, single[i].ours);
    for (size_t i = 0; layered && shape_layer_kind(shape, block) == LAYER_KDA && i < N_KDA; i++)
        if (strcmp(rest, single_kda[i].gguf) == 0)
            snprintf(ours, GGUF_NAME_BYTES, "%s%s", prefix, single_kda[i].ours);
    for (size_t i = 0; i < count; i++)
        if (starts(rest, pairs[i].gguf) && is_last(rest + strlen(pairs[i].gguf)))
            snprintf(ours, GGUF_NAME_BYTES, "%s%s%s", prefix, pairs[i].ours, rest + strlen(pairs[i].gguf));
    if (layered && starts(rest, mla_gate.gguf) && has_mla_gate(shape, block))
        snprintf(ours, GGUF_NAME_BYTES, "%s%s%s", prefix, mla_gate.ours, rest + strlen(mla_gate.gguf));
    return GGUF_USED;
}

void gguf_name_back(const char *ours, const struct shape *shape, char name[GGUF_NAME_BYTES])
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
    for (size_t i = 0; layered && i < N_SINGLE + N_KDA; i++) {
        const struct pair *pair = i < N_SINGLE ? &single[i] : &single_kda[i - N_SINGLE];
        if (strcmp(rest, pair->ours) == 0)
            snprintf(name, GGUF_NAME_BYTES, "%s%s", prefix, pair->gguf);
    }
    const struct pair *pairs = layered ? of_layer : whole;
    size_t count = layered ? sizeof of_layer / sizeof *of_layer : sizeof whole / sizeof *whole;
    for (size_t i = 0; i < count; i++)
        if (starts(rest, pairs[i].ours) && is_last(rest + strlen(pairs[i].ours)))
            snprintf(name, GGUF_NAME_BYTES, "%s%s%s", prefix, pairs[i].gguf, rest + strlen(pairs[i].ours));
    if (layered && starts(rest, mla_gate.ours) && has_mla_gate(shape, block))
        snprintf(name, GGUF_NAME_BYTES, "%s%s%s", prefix, mla_gate.gguf, rest + strlen(mla_gate.ours));
    if (layered && shape->norms_from_one && strcmp(rest, second_norm.ours) == 0)
        snprintf(name, GGUF_NAME_BYTES, "%s%s", prefix, second_norm.gguf);
}
