// SPDX-License-Identifier: GPL-3.0-or-later
// What a GGUF's keys mean, and what it means when they are missing; and which files are refused with which sentence.
#include <json-c/json.h>
#include <math.h>

#include "engine/files/gguf_names.h"
#include "tests/cases.h"
#include "tests/gguf_keys_rig.h"

// V3's keys as llama.cpp's converter writes them, in small: those that `without` does not name between spaces.
static void base(struct made_gguf *g, const char *without)
{
    static const struct key counts[] = {{"context_length", 4096},
                                        {"embedding_length", 64},
                                        {"feed_forward_length", 128},
                                        {"attention.head_count", 4},
                                        {"attention.q_lora_rank", 96},
                                        {"attention.kv_lora_rank", 32},
                                        {"attention.key_length", 48},
                                        {"attention.value_length", 32},
                                        {"attention.key_length_mla", 40},
                                        {"attention.value_length_mla", 24},
                                        {"rope.dimension_count", 16},
                                        {"leading_dense_block_count", 1},
                                        {"expert_count", 8},
                                        {"expert_used_count", 2},
                                        {"expert_shared_count", 1},
                                        {"expert_feed_forward_length", 32},
                                        {"block_count", 3},
                                        {"expert_gating_func", 2},
                                        {"expert_group_count", 4},
                                        {"expert_group_used_count", 2},
                                        {"vocab_size", 128}};
    put_keys(g, "deepseek2", counts, sizeof counts / sizeof *counts, without);
    if (!strstr(without, " architecture "))
        made_string(g, "general.architecture", "deepseek2");
    if (!strstr(without, " rms "))
        made_f32(g, "deepseek2.attention.layer_norm_rms_epsilon", 1e-6F);
    if (!strstr(without, " blk.0 "))
        made_tensor(g, "blk.0.attn_norm.weight", 0, 1, (uint64_t[]){64});
}

// With as many digits as tell it from its neighbours, and no more.
static void numbers_are_the_files(struct harness *t)
{
    static const float numbers[] = {2.5F, 0.1F, 0x1.a162140000000p-4F, 16.777217F, 2.0000002F};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct made_gguf g = {0};
        struct shape s;
        base(&g, "");
        made_f32(&g, "deepseek2.expert_weights_scale", numbers[i]);
        if (reads(t, &g, &s))
            CHECK(t, s.routed_scaling_factor == numbers[i]);
    }
}

static void keys_become_the_shape(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base(&g, "");
    made_f32(&g, "deepseek2.expert_weights_scale", 2.5F);
    made_bool(&g, "deepseek2.expert_weights_norm", true);
    made_f32(&g, "deepseek2.rope.freq_base", 50000);
    made_string(&g, "deepseek2.rope.scaling.type", "yarn");
    made_f32(&g, "deepseek2.rope.scaling.factor", 40);
    made_u32(&g, "deepseek2.rope.scaling.original_context_length", 512);
    made_f32(&g, "deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F);
    made_f32(&g, "deepseek2.rope.scaling.yarn_beta_fast", 16);
    made_f32(&g, "deepseek2.rope.scaling.yarn_beta_slow", 2);
    made_u32(&g, "tokenizer.ggml.bos_token_id", 5);
    made_u32(&g, "tokenizer.ggml.eos_token_id", 6);
    made_u32(&g, "tokenizer.ggml.eot_token_id", 6);
    made_u32(&g, "tokenizer.ggml.eom_token_id", 7);
    made_tensor(&g, "output.weight", 0, 2, (uint64_t[]){64, 128});
    if (!reads(t, &g, &s))
        return;
    CHECK_STR(t, s.model_type, "deepseek_v3");
    CHECK(t, s.max_position_embeddings == 4096 && s.hidden_size == 64 && s.intermediate_size == 128 && s.n_heads == 4);
    CHECK(t, s.q_lora_rank == 96 && s.kv_lora_rank == 32 && s.qk_nope_head_dim == 24 && s.qk_rope_head_dim == 16);
    CHECK(t, s.v_head_dim == 24 && s.first_k_dense_replace == 1 && s.n_routed_experts == 8 && s.top_k == 2);
    CHECK(t, s.n_shared_experts == 1 && s.moe_intermediate_size == 32 && s.n_layers == 3 && s.vocab_size == 128);
    CHECK(t, s.scoring == ROUTER_SIGMOID && s.topk_method == TOPK_NOAUX && s.n_group == 4 && s.topk_group == 2);
    CHECK(t, s.routed_scaling_factor == 2.5F && s.norm_topk_prob && s.has_correction_bias && s.rope_interleave);
    CHECK(t, s.rms_norm_eps == 1e-6F && s.rope_theta == 50000 && s.rope_type == ROPE_YARN && !s.tie_word_embeddings);
    CHECK(t, s.factor == 40 && s.original_max_position_embeddings == 512 && s.beta_fast == 16 && s.beta_slow == 2);
    CHECK(t, s.mscale == 0.707 && s.mscale_all_dim == 0.707); // not what float32 makes of it
    CHECK(t, s.bos_token_id == 5 && s.n_eos == 2 && s.eos_token_ids[0] == 6 && s.eos_token_ids[1] == 7);
}

static void missing_keys_mean_what_the_table_says(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base(&g, " vocab_size leading_dense_block_count attention.key_length_mla attention.value_length_mla "
             " expert_gating_func expert_group_count expert_group_used_count ");
    made_array(&g, "tokenizer.ggml.tokens", GGUF_STRING, 3);
    for (int i = 0; i < 3; i++)
        made_put_string(&g.values, "t");
    if (reads(t, &g, &s)) {
        CHECK_STR(t, s.model_type, "deepseek_v2");
        CHECK(t, s.vocab_size == 3 && s.first_k_dense_replace == 0 && s.scoring == ROUTER_SOFTMAX && s.n_group == 1);
        CHECK(t, s.qk_nope_head_dim == 32 && s.v_head_dim == 32); // of key_length and value_length
        CHECK(t, s.routed_scaling_factor == 1.0F && !s.norm_topk_prob && s.rope_theta == 10000);
        CHECK(t, s.rope_type == ROPE_DEFAULT && s.tie_word_embeddings && s.bos_token_id == -1 && s.n_eos == 0);
    }
    base(&g, " attention.q_lora_rank ");
    made_tensor(&g, "blk.0.attn_q.weight", 0, 2, (uint64_t[]){64, 160});
    if (reads(t, &g, &s))
        CHECK_EQ(t, s.q_lora_rank, 0);
    base(&g, ""); // a file may say 0 or anything, where there is no attn_q_a
    made_tensor(&g, "blk.0.attn_q.weight", 0, 2, (uint64_t[]){64, 160});
    if (reads(t, &g, &s))
        CHECK_EQ(t, s.q_lora_rank, 0);
}

// Groups that older files lack, and K2's betas and Flash's scoring, go by numbers that only those models have.
static void missing_keys_go_by_the_model(struct harness *t)
{
    static const struct {
        uint32_t n_experts, gating, n_group, topk_group; // gating 0: not there
    } groups[] = {{256, 2, 8, 4}, {160, 1, 8, 3}, {160, 0, 8, 3}, {256, 1, 1, 1}, {160, 2, 1, 1}, {384, 2, 1, 1}};
    struct made_gguf g = {0};
    struct shape s;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        base(&g, " expert_count expert_gating_func expert_group_count expert_group_used_count ");
        made_u32(&g, "deepseek2.expert_count", groups[i].n_experts);
        if (groups[i].gating)
            made_u32(&g, "deepseek2.expert_gating_func", groups[i].gating);
        if (reads(t, &g, &s))
            CHECK(t, s.n_group == groups[i].n_group && s.topk_group == groups[i].topk_group);
    }
    static const struct {
        uint32_t vocabulary;
        double fast;
    } betas[] = {{163840, 1}, {129280, 32}};
    for (size_t i = 0; i < 2; i++) {
        base(&g, " vocab_size ");
        made_u32(&g, "deepseek2.vocab_size", betas[i].vocabulary);
        made_string(&g, "deepseek2.rope.scaling.type", "yarn");
        made_f32(&g, "deepseek2.rope.scaling.factor", 32);
        made_u32(&g, "deepseek2.rope.scaling.original_context_length", 512);
        made_f32(&g, "deepseek2.rope.scaling.yarn_log_multiplier", 0.1F);
        if (reads(t, &g, &s))
            CHECK(t, s.beta_fast == betas[i].fast && s.beta_slow == 1 && s.mscale_all_dim == 1);
    }
    for (uint32_t layers = 46; layers < 50; layers++) {
        base(&g, " vocab_size block_count expert_gating_func expert_group_count expert_group_used_count ");
        made_u32(&g, "deepseek2.vocab_size", 154880);
        made_u32(&g, "deepseek2.block_count", layers);
        if (reads(t, &g, &s))
            CHECK_STR(t, s.model_type, layers == 47 || layers == 48 ? "glm4_moe_lite" : "deepseek_v2");
    }
}

static void layers_for_prediction_are_not_counted(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base(&g, "");
    made_u32(&g, "deepseek2.nextn_predict_layers", 1);
    if (reads(t, &g, &s))
        CHECK_EQ(t, s.n_layers, 2);
    base(&g, "");
    made_u32(&g, "deepseek2.nextn_predict_layers", 1);
    made_tensor(&g, "blk.2.attn_norm.weight", 0, 1, (uint64_t[]){64});
    made_tensor(&g, "blk.2.nextn.eh_proj.weight", 0, 1, (uint64_t[]){64});
    if (reads(t, &g, &s))
        CHECK_EQ(t, s.n_layers, 2);
    base(&g, "");
    made_u32(&g, "deepseek2.nextn_predict_layers", 1);
    made_tensor(&g, "blk.2.attn_norm.weight", 0, 1, (uint64_t[]){64});
    refused(t, &g, "nextn_predict_layers: is 1, but block 2 is no such layer");
    base(&g, "");
    made_tensor(&g, "blk.2.nextn.eh_proj.weight", 0, 1, (uint64_t[]){64});
    refused(t, &g, "nextn_predict_layers: is 0, but block 2 has nextn tensors");
    base(&g, "");
    made_u32(&g, "deepseek2.nextn_predict_layers", 3);
    refused(t, &g, "nextn_predict_layers: is 3 of 3 layers");
    base(&g, " blk.0 ");
    refused(t, &g, "a file for multi-token prediction alone");
}

static void required_keys_are_missed_by_name(struct harness *t)
{
    static const char *const keys[] = {"context_length",
                                       "embedding_length",
                                       "feed_forward_length",
                                       "attention.head_count",
                                       "attention.q_lora_rank",
                                       "attention.kv_lora_rank",
                                       "rope.dimension_count",
                                       "expert_count",
                                       "expert_used_count",
                                       "expert_shared_count",
                                       "block_count",
                                       "expert_feed_forward_length",
                                       "vocab_size"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct made_gguf g = {0};
        char without[80], says[120];
        snprintf(without, sizeof without, " %s ", keys[i]);
        snprintf(says, sizeof says, "F: deepseek2.%s: is missing; get a newer file", keys[i]);
        base(&g, without);
        refused(t, &g, says);
    }
    struct made_gguf g = {0};
    base(&g, " rms ");
    refused(t, &g, "layer_norm_rms_epsilon: is missing");
    base(&g, " expert_group_used_count ");
    refused(t, &g, "expert_group_count: and .expert_group_used_count come together");
    base(&g, "");
    made_string(&g, "deepseek2.rope.scaling.type", "yarn");
    refused(t, &g, "yarn_log_multiplier: is missing");
}

static void what_is_not_ours_is_said(struct harness *t)
{
    struct made_gguf g = {0};
    refused(t, &g, "general.architecture: is missing");
    made_string(&g, "general.architecture", "qwen3moe");
    refused(t, &g, "is \"qwen3moe\"; moechat speaks deepseek2: DeepSeek-V2, V3, R1");
    made_string(&g, "general.architecture", "clip");
    refused(t, &g, "the vision half of a model; name the file of its other half");
    made_string(&g, "general.architecture", "deepseek2");
    made_string(&g, "general.type", "mmproj");
    refused(t, &g, "the vision half of a model");
    made_string(&g, "general.architecture", "deepseek2");
    made_string(&g, "general.type", "adapter");
    refused(t, &g, "general.type: is \"adapter\"; name the file of a whole model");
    base(&g, "");
    made_u32(&g, "general.quantization_version", 1);
    refused(t, &g, "general.quantization_version: is not 2");
    base(&g, "");
    made_f32(&g, "deepseek2.attention.temperature_scale", 0.1F);
    refused(t, &g, "deepseek2.attention.temperature_scale: is 0.1: a model that moechat does not compute");
    base(&g, " expert_gating_func ");
    made_u32(&g, "deepseek2.expert_gating_func", 4);
    refused(t, &g, "expert_gating_func: is 4; moechat computes 1 (softmax) and 2 (sigmoid)");
    base(&g, "");
    made_string(&g, "deepseek2.rope.scaling.type", "linear");
    refused(t, &g, "rope.scaling.type: is \"linear\"");
}

static void texts_are_printable(struct harness *t)
{
    static const char *const bad[] = {"", "a\x1f", "\x7f", "no\nline",
                                      "0123456789012345678901234567890123456789012345678901234567890123"};
    struct made_gguf g = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_string(&g, "general.architecture", bad[i]);
        refused(t, &g, "general.architecture: is no text of 1 to 63 printable bytes");
    }
    made_string(&g, "general.architecture", "a ~\xc3\xa9");
    refused(t, &g, "is \"a ~\xc3\xa9\"; moechat speaks");
}

static void wrong_values_are_named_as_the_file_does(struct harness *t)
{
    struct made_gguf g = {0};
    base(&g, " embedding_length ");
    made_u32(&g, "deepseek2.embedding_length", 0);
    refused(t, &g, "F: deepseek2.embedding_length: is 0");
    base(&g, " embedding_length ");
    made_string(&g, "deepseek2.embedding_length", "64");
    refused(t, &g, "F: deepseek2.embedding_length: is no whole number");
    base(&g, " expert_feed_forward_length ");
    made_array(&g, "deepseek2.expert_feed_forward_length", GGUF_U32, 2);
    made_put_number(&g.values, 32, 4);
    made_put_number(&g.values, 64, 4);
    refused(t, &g, "expert_feed_forward_length: differs from layer to layer");
    base(&g, " expert_feed_forward_length ");
    made_array(&g, "deepseek2.expert_feed_forward_length", GGUF_U32, 2);
    made_put_number(&g.values, 32, 4);
    made_put_number(&g.values, 32, 4);
    struct shape s;
    if (reads(t, &g, &s))
        CHECK_EQ(t, s.moe_intermediate_size, 32);
    base(&g, " attention.key_length_mla ");
    made_u32(&g, "deepseek2.attention.key_length_mla", 16);
    refused(t, &g, "attention.key_length_mla: is 16, not more than rope.dimension_count (16)");
    base(&g, "");
    made_u32(&g, "tokenizer.ggml.eos_token_id", 128);
    refused(t, &g, "eos_token_id: is 128");
    base(&g, "");
    made_u32(&g, "deepseek2.expert_weights_norm", 1);
    refused(t, &g, "expert_weights_norm: is neither true nor false");
    base(&g, " rms ");
    made_f32(&g, "deepseek2.attention.layer_norm_rms_epsilon", (float)NAN);
    refused(t, &g, "layer_norm_rms_epsilon: is nan");
    base(&g, " rms ");
    made_f32(&g, "deepseek2.attention.layer_norm_rms_epsilon", 0);
    refused(t, &g, "F: deepseek2.attention.layer_norm_rms_epsilon: is 0");
    base(&g, "");
    made_f32(&g, "deepseek2.rope.freq_base", 0);
    refused(t, &g, "F: deepseek2.rope.freq_base: is 0");
    base(&g, " leading_dense_block_count ");
    made_u32(&g, "deepseek2.leading_dense_block_count", 3);
    refused(t, &g, "F: deepseek2.leading_dense_block_count: is 3 of 3 layers");
    base(&g, " expert_group_count ");
    made_u32(&g, "deepseek2.expert_group_count", 3);
    refused(t, &g, "F: deepseek2.expert_group_count: is 3; it must divide");
    base(&g, "");
    made_u32(&g, "tokenizer.ggml.eot_token_id", 128); // the list of ends has no name of its own in the file
    refused(t, &g, "F: tokenizer.ggml.eot_token_id: is 128; it must be 0 to 127");
    base(&g, "");
    made_u32(&g, "tokenizer.ggml.bos_token_id", 128);
    refused(t, &g, "F: tokenizer.ggml.bos_token_id: is 128; it must be 0 to 127");
}

// A small qwen35moe or qwen3next of three layers, the second with attention; `without` as in base.
static void base_qwen(struct made_gguf *g, const char *architecture, const char *without)
{
    static const struct key counts[] = {{"context_length", 4096},
                                        {"embedding_length", 64},
                                        {"attention.head_count", 4},
                                        {"attention.head_count_kv", 2},
                                        {"attention.key_length", 32},
                                        {"rope.dimension_count", 8},
                                        {"expert_count", 8},
                                        {"expert_used_count", 2},
                                        {"expert_feed_forward_length", 32},
                                        {"expert_shared_feed_forward_length", 96},
                                        {"block_count", 4},
                                        {"nextn_predict_layers", 1},
                                        {"ssm.conv_kernel", 4},
                                        {"ssm.state_size", 16},
                                        {"ssm.group_count", 2},
                                        {"ssm.time_step_rank", 6},
                                        {"ssm.inner_size", 192},
                                        {"vocab_size", 128}};
    char key[128];
    made_string(g, "general.architecture", architecture);
    put_keys(g, architecture, counts, sizeof counts / sizeof *counts, without);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    made_f32(g, key, 1e-6F);
    made_tensor(g, "blk.0.attn_norm.weight", 0, 1, (uint64_t[]){64});
    made_tensor(g, "blk.0.ssm_a", 0, 1, (uint64_t[]){6});
    made_tensor(g, "blk.2.ssm_a", 0, 1, (uint64_t[]){6});
}

static void layers_with_states_are_told_by_their_tensors(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base_qwen(&g, "qwen35moe", "");
    made_f32(&g, "qwen35moe.rope.freq_base", 1e7F);
    if (!reads(t, &g, &s))
        return;
    CHECK(t, s.n_layers == 3 && shape_layer_kind(&s, 0) == LAYER_GDN && shape_layer_kind(&s, 1) == LAYER_GQA);
    CHECK(t, shape_layer_kind(&s, 2) == LAYER_GDN && s.linear.tiled && s.norms_from_one && s.has_shared_gate);
    CHECK(t, s.linear.n_key_heads == 2 && s.linear.n_value_heads == 6 && s.linear.key_head_dim == 16);
    CHECK(t, s.linear.value_head_dim == 32 && s.rotary_dim == 8 && s.head_dim == 32 && s.n_kv_heads == 2);
    CHECK(t, s.rope_theta == 1e7 && s.shared_intermediate_size == 96 && s.norm_topk_prob);
    CHECK(t,
          s.scoring == ROUTER_SOFTMAX && s.routed_scaling_factor == 1 && strcmp(s.model_type, "qwen3_5_moe_text") == 0);
    base_qwen(&g, "qwen3next", "");
    if (reads(t, &g, &s))
        CHECK(t, !s.linear.tiled && strcmp(s.model_type, "qwen3_next") == 0);
}

static void what_they_would_have_otherwise_is_refused(struct harness *t)
{
    struct made_gguf g = {0};
    base_qwen(&g, "qwen35moe", " ssm.group_count ");
    refused(t, &g, "F: qwen35moe.ssm.group_count: is missing");
    base_qwen(&g, "qwen35moe", " ssm.group_count ");
    made_u32(&g, "qwen35moe.ssm.group_count", 4);
    refused(t, &g, "F: qwen35moe.ssm.group_count: is 4; it must divide");
    base_qwen(&g, "qwen35moe", " ssm.inner_size ");
    made_u32(&g, "qwen35moe.ssm.inner_size", 100);
    refused(t, &g, "F: qwen35moe.ssm.inner_size: is 100, no multiple of ssm.time_step_rank (6)");
    base_qwen(&g, "qwen3next", "");
    made_u32(&g, "qwen3next.expert_gating_func", 2);
    refused(t, &g, "F: qwen3next.expert_gating_func: is 2; moechat computes only 1 for qwen3next");
    base_qwen(&g, "qwen3next", "");
    made_bool(&g, "qwen3next.expert_weights_norm", false);
    refused(t, &g, "expert_weights_norm: is false");
    base_qwen(&g, "qwen35moe", "");
    made_u32(&g, "qwen35moe.attention.value_length", 16);
    refused(t, &g, "attention.value_length: is not attention.key_length (32)");
    base_qwen(&g, "qwen35moe", " rope.dimension_count ");
    made_u32(&g, "qwen35moe.rope.dimension_count", 64);
    refused(t, &g, "F: qwen35moe.rope.dimension_count"); // more than the head has
}

static void names_of_layers_with_states(struct harness *t)
{
    static const struct shape qwen = {
        .n_layers = 4, .norms_from_one = true, .layer_kinds = {LAYER_GDN, LAYER_GQA, LAYER_GDN, LAYER_GDN}};
    static const struct shape kimi = {.n_layers = 4, .layer_kinds = {LAYER_KDA, LAYER_MLA, LAYER_KDA, LAYER_KDA}};
    static const struct shape k3 = {.n_layers = 4, .gated_latents = true, .layer_kinds = {LAYER_KDA, LAYER_MLA}};
    static const struct {
        const struct shape *shape;
        const char *gguf, *ours;
    } cases[] = {
        {&k3, "output_res_score.weight", "model.output_attn_res_score.weight"},
        {&k3, "blk.0.attn_res_score.weight", "model.layers.0.self_attention_res_score.weight"},
        {&k3, "blk.0.ffn_res_score.weight", "model.layers.0.mlp_res_score.weight"},
        {&k3, "blk.0.ssm_g.weight", "model.layers.0.self_attn.g_proj.weight"},
        {&k3, "blk.1.attn_gate.weight", "model.layers.1.self_attn.g_proj.weight"},
        {&k3, "blk.1.ffn_routed_down.weight", "model.layers.1.mlp.routed_expert_down_proj.weight"},
        {&k3, "blk.1.ffn_routed_norm.weight", "model.layers.1.mlp.routed_expert_norm.weight"},
        {&qwen, "blk.0.attn_qkv.weight", "model.layers.0.linear_attn.in_proj_qkv.weight"},
        {&qwen, "blk.0.attn_gate.weight", "model.layers.0.linear_attn.in_proj_z.weight"},
        {&qwen, "blk.2.ssm_a", "model.layers.2.linear_attn.A"},
        {&qwen, "blk.2.ssm_dt.bias", "model.layers.2.linear_attn.dt_bias"},
        {&qwen, "blk.2.ssm_beta.weight", "model.layers.2.linear_attn.in_proj_b.weight"},
        {&qwen, "blk.2.ssm_norm.weight", "model.layers.2.linear_attn.norm.weight"},
        {&qwen, "blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm.weight"},
        {&qwen, "blk.1.post_attention_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
        {&qwen, "blk.1.ffn_gate_inp_shexp.weight", "model.layers.1.mlp.shared_expert_gate.weight"},
        {&kimi, "blk.0.ssm_a", "model.layers.0.self_attn.A"},
        {&kimi, "blk.0.ssm_dt.bias", "model.layers.0.self_attn.dt_bias"},
        {&kimi, "blk.0.ssm_beta.weight", "model.layers.0.self_attn.b_proj.weight"},
        {&kimi, "blk.0.ssm_norm.weight", "model.layers.0.self_attn.o_norm.weight"},
        {&kimi, "blk.0.ssm_conv1d_k.weight", "model.layers.0.self_attn.k_conv1d.weight"},
        {&kimi, "blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char ours[GGUF_NAME_BYTES], back[GGUF_NAME_BYTES];
        CHECK_EQ(t, gguf_name(cases[i].gguf, cases[i].shape, ours), GGUF_USED);
        CHECK_STR(t, ours, cases[i].ours);
        gguf_name_back(ours, cases[i].shape, back);
        CHECK_STR(t, back, cases[i].gguf);
    }
}

// A small deepseek32 or glm-dsa of four layers and one for more tokens at once.
static void base_dsa(struct made_gguf *g, const char *architecture, const char *without)
{
    static const struct key counts[] = {{"context_length", 1 << 20},
                                        {"embedding_length", 64},
                                        {"feed_forward_length", 128},
                                        {"attention.head_count", 4},
                                        {"attention.q_lora_rank", 96},
                                        {"attention.kv_lora_rank", 32},
                                        {"attention.key_length_mla", 40},
                                        {"attention.value_length_mla", 24},
                                        {"rope.dimension_count", 16},
                                        {"leading_dense_block_count", 1},
                                        {"expert_count", 256},
                                        {"expert_used_count", 2},
                                        {"expert_shared_count", 1},
                                        {"expert_feed_forward_length", 32},
                                        {"block_count", 5},
                                        {"nextn_predict_layers", 1},
                                        {"attention.indexer.head_count", 16},
                                        {"attention.indexer.key_length", 24},
                                        {"attention.indexer.top_k", 7},
                                        {"vocab_size", 128}};
    char key[128];
    made_string(g, "general.architecture", architecture);
    put_keys(g, architecture, counts, sizeof counts / sizeof *counts, without);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    made_f32(g, key, 1e-5F);
    made_tensor(g, "blk.0.attn_norm.weight", 0, 1, (uint64_t[]){64});
}

static void layers_that_choose_positions(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base_dsa(&g, "deepseek32", "");
    if (reads(t, &g, &s)) {
        CHECK(t, s.n_layers == 4 && s.indexer.n_heads == 16 && s.indexer.head_dim == 24 && s.indexer.top_k == 7);
        CHECK(t, s.scoring == ROUTER_SIGMOID && s.n_group == 8 && s.topk_group == 4 && !s.indexer.interleaved);
        CHECK(t, shape_layer_kind(&s, 3) == LAYER_DSA && strcmp(s.model_type, "deepseek_v32") == 0);
    }
    base_dsa(&g, "glm-dsa", ""); // GLM-5.2's, by its context
    if (reads(t, &g, &s)) {
        CHECK(t, s.n_group == 1 && s.indexer.interleaved && strcmp(s.model_type, "glm_moe_dsa") == 0);
        CHECK(t, shape_layer_kind(&s, 2) == LAYER_DSA && shape_layer_kind(&s, 3) == LAYER_DSA_SHARED);
    }
    base_dsa(&g, "glm-dsa", " context_length ");
    made_u32(&g, "glm-dsa.context_length", 202752);
    if (reads(t, &g, &s))
        CHECK(t, shape_layer_kind(&s, 3) == LAYER_DSA);
    const uint8_t types[2][5] = {{1, 0, 0, 1, 1}, {1, 1, 0, 1, 1}};
    for (uint32_t kind = 0; kind < 2; kind++) { // flags, and bytes
        base_dsa(&g, "glm-dsa", "");
        made_array(&g, "glm-dsa.attention.indexer.types", kind ? GGUF_BOOL : GGUF_U8, 5);
        made_put(&g.values, types[kind], 5);
        if (reads(t, &g, &s))
            CHECK(t, shape_layer_kind(&s, 0) == LAYER_DSA && shape_layer_kind(&s, 2) == LAYER_DSA_SHARED &&
                         shape_layer_kind(&s, 1) == (kind ? LAYER_DSA : LAYER_DSA_SHARED) &&
                         shape_layer_kind(&s, 3) == LAYER_DSA);
    }
}

static void what_chooses_otherwise_is_refused(struct harness *t)
{
    static const char *const keys[] = {"head_count", "key_length", "top_k"};
    const uint8_t shared_first[4] = {0, 1, 1, 1};
    struct made_gguf g = {0};
    for (size_t i = 0; i < 3; i++) {
        char without[80], says[120];
        snprintf(without, sizeof without, " attention.indexer.%s ", keys[i]);
        snprintf(says, sizeof says, "F: glm-dsa.attention.indexer.%s: is missing", keys[i]);
        base_dsa(&g, "glm-dsa", without);
        refused(t, &g, says);
    }
    base_dsa(&g, "glm-dsa", " attention.indexer.key_length ");
    made_u32(&g, "glm-dsa.attention.indexer.key_length", 136);
    refused(t, &g, "F: glm-dsa.attention.indexer.key_length: is 136");
    base_dsa(&g, "deepseek32", "");
    made_u32(&g, "deepseek32.expert_gating_func", 1);
    refused(t, &g, "F: deepseek32.expert_gating_func: is 1; moechat computes only 2");
    base_dsa(&g, "glm-dsa", "");
    made_array(&g, "glm-dsa.attention.indexer.types", GGUF_BOOL, 3);
    made_put(&g.values, shared_first, 3);
    refused(t, &g, "F: glm-dsa.attention.indexer.types: is no list of a flag for each of 4 layers");
    base_dsa(&g, "glm-dsa", "");
    made_array(&g, "glm-dsa.attention.indexer.types", GGUF_BOOL, 4);
    made_put(&g.values, shared_first, 4);
    refused(t, &g, "F: glm-dsa.attention.indexer.types: makes layer 0 share an indexer");
    base_dsa(&g, "glm-dsa", "");
    made_string(&g, "glm-dsa.attention.indexer.types", "full");
    refused(t, &g, "F: glm-dsa.attention.indexer.types: is no list");
}

// A small glm5-next of four layers and one for more tokens at once; `without` as in base.
static void base_next(struct made_gguf *g, const char *without)
{
    static const struct key counts[] = {{"context_length", 4096},
                                        {"embedding_length", 64},
                                        {"feed_forward_length", 128},
                                        {"attention.head_count", 4},
                                        {"attention.q_lora_rank", 96},
                                        {"attention.kv_lora_rank", 32},
                                        {"attention.key_length", 32},
                                        {"attention.value_length", 32},
                                        {"attention.key_length_mla", 40},
                                        {"attention.value_length_mla", 24},
                                        {"rope.dimension_count", 0},
                                        {"leading_dense_block_count", 2},
                                        {"expert_count", 256},
                                        {"expert_used_count", 2},
                                        {"expert_shared_count", 1},
                                        {"expert_feed_forward_length", 32},
                                        {"block_count", 5},
                                        {"nextn_predict_layers", 1},
                                        {"attention.indexer.head_count", 16},
                                        {"attention.indexer.key_length", 24},
                                        {"attention.indexer.top_k", 64},
                                        {"attention.indexer.kpool", 4},
                                        {"ssm.conv_kernel", 4},
                                        {"kda.head_dim", 32},
                                        {"hyper_connection.count", 4},
                                        {"hyper_connection.sinkhorn_iterations", 7},
                                        {"vocab_size", 128}};
    static const uint32_t kv_heads[5] = {0, 0, 1, 0, 1};
    made_string(g, "general.architecture", "glm5-next");
    put_keys(g, "glm5-next", counts, sizeof counts / sizeof *counts, without);
    made_f32(g, "glm5-next.attention.layer_norm_rms_epsilon", 1e-5F);
    made_f32(g, "glm5-next.hyper_connection.epsilon", 1e-6F);
    if (!strstr(without, " kv "))
        made_array(g, "glm5-next.attention.head_count_kv", GGUF_U32, 5);
    for (int i = 0; i < 5 && !strstr(without, " kv "); i++)
        made_put_number(&g->values, kv_heads[i], 4);
    if (!strstr(without, " limit "))
        made_f32(g, "glm5-next.swiglu_clamp_exp", 7.5F);
    made_tensor(g, "blk.0.attn_norm.weight", 0, 1, (uint64_t[]){64});
    made_tensor(g, "blk.0.attn_q.weight", 0, 1, (uint64_t[]){64}); // of delta attention
}

static void put_limits(struct made_gguf *g, const char *key, float last)
{
    made_array(g, key, GGUF_F32, 5);
    for (int i = 0; i < 5; i++) {
        float limit = i < 4 ? 10 : last;
        made_put(&g->values, &limit, sizeof limit);
    }
}

static void pools_streams_and_limits(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base_next(&g, "");
    made_f32(&g, "glm5-next.kda.gate_lower_bound", -5);
    made_f32(&g, "glm5-next.attention.layer_norm_epsilon", 1e-6F);
    if (reads(t, &g, &s)) {
        CHECK(t, strcmp(s.model_type, "glm5_next_text") == 0 && s.n_layers == 4 && s.first_k_dense_replace == 2);
        CHECK(t, shape_layer_kind(&s, 1) == LAYER_KDA && shape_layer_kind(&s, 2) == LAYER_DSA);
        CHECK(t, s.indexer.pool == 4 && s.indexer.top_k == 64 && s.indexer.n_heads == 16 && s.indexer.head_dim == 24);
        CHECK(t, s.hyper.n_streams == 4 && s.hyper.iterations == 7 && s.hyper.eps == 1e-6F && s.swiglu_limit == 7.5F);
        CHECK(t, s.linear.bound == -5 && s.linear.n_key_heads == 4 && s.linear.key_head_dim == 32);
        CHECK(t, s.q_lora_rank == 96 && s.qk_nope_head_dim == 40 && s.qk_rope_head_dim == 0 && s.n_group == 1);
        CHECK(t, s.scoring == ROUTER_SIGMOID && s.latent_norm_eps == 1e-5F && !s.norm_topk_prob);
    }
    base_next(&g, " limit ");
    put_limits(&g, "glm5-next.swiglu_clamp_exp", 10);
    put_limits(&g, "glm5-next.swiglu_clamp_shexp", 10);
    if (reads(t, &g, &s)) // without a bound: softplus
        CHECK(t, s.swiglu_limit == 10 && s.linear.bound == 0);
}

static void what_is_otherwise_in_glm5_next_is_refused(struct harness *t)
{
    static const char *const needed[] = {"attention.indexer.kpool", "kda.head_dim", "ssm.conv_kernel",
                                         "hyper_connection.count"};
    struct made_gguf g = {0};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char without[80], says[120];
        snprintf(without, sizeof without, " %s ", needed[i]);
        snprintf(says, sizeof says, "F: glm5-next.%s: is missing", needed[i]);
        base_next(&g, without);
        refused(t, &g, says);
    }
    base_next(&g, " attention.q_lora_rank ");
    refused(t, &g, "F: glm5-next.attention.q_lora_rank: is null");
    base_next(&g, " kv ");
    refused(t, &g, "F: glm5-next.attention.head_count_kv: is no list of a number for each of 4 layers");
    base_next(&g, " limit ");
    refused(t, &g, "F: glm5-next.swiglu_clamp_exp: is missing");
    base_next(&g, " limit ");
    put_limits(&g, "glm5-next.swiglu_clamp_exp", 9);
    refused(t, &g, "F: glm5-next.swiglu_clamp_exp: differs from layer to layer");
    base_next(&g, "");
    made_f32(&g, "glm5-next.swiglu_clamp_shexp", 9);
    refused(t, &g, "F: glm5-next.swiglu_clamp_shexp: is 9, not swiglu_clamp_exp (7.5)");
    base_next(&g, "");
    made_f32(&g, "glm5-next.attention.layer_norm_epsilon", 1e-5F);
    refused(t, &g, "F: glm5-next.attention.layer_norm_epsilon: is 1e-05");
    base_next(&g, "");
    made_u32(&g, "glm5-next.expert_gating_func", 1);
    refused(t, &g, "F: glm5-next.expert_gating_func: is 1; moechat computes only 2");
    base_next(&g, " hyper_connection.count ");
    made_u32(&g, "glm5-next.hyper_connection.count", 2);
    refused(t, &g, "F: glm5-next.hyper_connection.count: is 2");
    base_next(&g, " attention.indexer.kpool ");
    made_u32(&g, "glm5-next.attention.indexer.kpool", 5);
    refused(t, &g, "F: glm5-next.attention.indexer.kpool: is 5");
}

// Of a layer 0, behind what both names begin with; and back.
struct names {
    const struct shape *shape;
    const char *gguf, *ours;
};

static void check_names(struct harness *t, const struct names *begin, const char *const names[][2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char gguf[80], want[120], ours[GGUF_NAME_BYTES], back[GGUF_NAME_BYTES];
        snprintf(gguf, sizeof gguf, "%s%s", begin->gguf, names[i][0]);
        snprintf(want, sizeof want, "%s%s", begin->ours, names[i][1]);
        CHECK_EQ(t, gguf_name(gguf, begin->shape, ours), GGUF_USED);
        CHECK_STR(t, ours, want);
        gguf_name_back(ours, begin->shape, back);
        CHECK_STR(t, back, gguf);
    }
}

static void names_of_pools_and_streams(struct harness *t)
{
    static const struct shape shape = {.n_layers = 1, .layer_kinds = {LAYER_DSA}};
    static const char *const names[][2] = {
        {"indexer_compressor_gate.weight", "self_attn.indexer.index_kpool_compress_gate.weight"},
        {"indexer_compressor_ape.weight", "self_attn.indexer.index_kpool_compress_ape"},
        {"hc_attn_fn.weight", "hc_attn_fn.weight"},
        {"hc_ffn_fn.weight", "hc_ffn_fn.weight"},
        {"hc_attn_base.weight", "hc_attn_base"},
        {"hc_ffn_scale.weight", "hc_ffn_scale"}};
    check_names(t, &(struct names){&shape, "blk.0.", "model.layers.0."}, names, sizeof names / sizeof *names);
}

static void names_of_indexers(struct harness *t)
{
    static const struct shape shape = {.n_layers = 2, .layer_kinds = {LAYER_DSA, LAYER_DSA_SHARED}};
    static const char *const names[][2] = {{"attn_q_b.weight", "wq_b.weight"},
                                           {"attn_k.weight", "wk.weight"},
                                           {"proj.weight", "weights_proj.weight"},
                                           {"k_norm.weight", "k_norm.weight"},
                                           {"k_norm.bias", "k_norm.bias"}};
    size_t n = sizeof names / sizeof *names;
    check_names(t, &(struct names){&shape, "blk.0.indexer.", "model.layers.0.self_attn.indexer."}, names, n);
    for (size_t i = 0; i < n; i++) {
        char gguf[80], ours[GGUF_NAME_BYTES];
        snprintf(gguf, sizeof gguf, "blk.1.indexer.%s", names[i][0]);
        CHECK_EQ(t, gguf_name(gguf, &shape, ours), GGUF_SPARE);
    }
}

static void names_are_ours(struct harness *t)
{
    static const struct {
        const char *gguf;
        enum gguf_use use;
        const char *ours;
    } cases[] = {
        {"token_embd.weight", GGUF_USED, "model.embed_tokens.weight"},
        {"output_norm.weight", GGUF_USED, "model.norm.weight"},
        {"output.weight", GGUF_USED, "lm_head.weight"},
        {"blk.0.attn_q_a.weight", GGUF_USED, "model.layers.0.self_attn.q_a_proj.weight"},
        {"blk.12.attn_k_b.weight", GGUF_USED, "model.layers.12.self_attn.embed_q.weight"},
        {"blk.12.exp_probs_b.bias", GGUF_USED, "model.layers.12.mlp.gate.e_score_correction_bias"},
        {"blk.59.ffn_gate_up_exps.weight", GGUF_USED, "model.layers.59.mlp.switch_mlp.gate_up_proj.weight"},
        {"blk.60.attn_q.weight", GGUF_MTP, "blk.60.attn_q.weight"},
        {"blk.3.nextn.eh_proj.weight", GGUF_MTP, "blk.3.nextn.eh_proj.weight"},
        {"rope_freqs.weight", GGUF_SPARE, "rope_freqs.weight"},
        {"blk.3.ffn_up_exps.input_scale", GGUF_SPARE, "blk.3.ffn_up_exps.input_scale"},
        // What we don't know keeps its name, and is refused for having no place.
        {"blk.3.ffn_up_exps.scale", GGUF_USED, "model.layers.3.mlp.switch_mlp.up_proj.scale"},
        {"blk.3.attn_sinks.weight", GGUF_USED, "blk.3.attn_sinks.weight"},
        {"blk.03.attn_q.weight", GGUF_USED, "blk.03.attn_q.weight"},
        {"blk.3.attn_q.weight.weight", GGUF_USED, "blk.3.attn_q.weight.weight"},
        {"blk.attn_q.weight", GGUF_USED, "blk.attn_q.weight"},
        {"output.bias", GGUF_USED, "output.bias"},
    };
    char ours[GGUF_NAME_BYTES];
    static const struct shape shape = {.n_layers = 60};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ(t, gguf_name(cases[i].gguf, &shape, ours), cases[i].use);
        CHECK_STR(t, ours, cases[i].ours);
        char back[GGUF_NAME_BYTES];
        gguf_name_back(ours, &shape, back);
        CHECK_STR(t, back, cases[i].gguf);
    }
}

// What files mean that leave routing out, by vocabulary, experts, layers and those that are dense.
static void what_is_missing_follows_a_rule(struct harness *t)
{
    static const uint32_t vocabularies[] = {128, 154880, 154881, 163839, 163840};
    static const uint32_t experts[] = {8, 159, 160, 255, 256, 383, 384}, layers[] = {3, 46, 47, 48, 49};
    struct cases c = cases_begin("what_is_missing_follows_a_rule");
    for (size_t i = 0; i < 5U * 7 * 5 * 3 * 3; i++) {
        struct made_gguf g = {0};
        struct json_object *config;
        struct shape shape;
        struct moe_err err = {.text = ""};
        uint32_t gating = (uint32_t)(i / 175 % 3), dense = (uint32_t)(i / 525);
        base(&g, " vocab_size expert_count expert_gating_func block_count leading_dense_block_count expert_group_count "
                 "expert_group_used_count ");
        made_u32(&g, "deepseek2.vocab_size", vocabularies[i % 5]);
        made_u32(&g, "deepseek2.expert_count", experts[i / 5 % 7]);
        made_u32(&g, "deepseek2.block_count", layers[i / 35 % 5]);
        made_u32(&g, "deepseek2.leading_dense_block_count", dense);
        if (gating)
            made_u32(&g, "deepseek2.expert_gating_func", gating);
        int code = read_set(&g, &config, &shape, &err);
        cases_say(&c, "%d %s %s\n", code, err.text,
                  code ? "" : json_object_to_json_string_ext(config, JSON_C_TO_STRING_PLAIN));
        json_object_put(config);
    }
    CHECK_CASES(t, &c, 0x8c197902c4a77731);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(numbers_are_the_files),
        TEST(pools_streams_and_limits),
        TEST(what_is_otherwise_in_glm5_next_is_refused),
        TEST(names_of_pools_and_streams),
        TEST(keys_become_the_shape),
        TEST(missing_keys_mean_what_the_table_says),
        TEST(missing_keys_go_by_the_model),
        TEST(layers_for_prediction_are_not_counted),
        TEST(required_keys_are_missed_by_name),
        TEST(what_is_not_ours_is_said),
        TEST(texts_are_printable),
        TEST(wrong_values_are_named_as_the_file_does),
        TEST(layers_that_choose_positions),
        TEST(what_chooses_otherwise_is_refused),
        TEST(names_of_indexers),
        TEST(names_are_ours),
        TEST(layers_with_states_are_told_by_their_tensors),
        TEST(what_they_would_have_otherwise_is_refused),
        TEST(names_of_layers_with_states),
        TEST(what_is_missing_follows_a_rule),
    };
    return HARNESS_RUN(tests, argc, argv);
}
