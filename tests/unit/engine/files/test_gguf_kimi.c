// SPDX-License-Identifier: GPL-3.0-or-later
// What the keys of Kimi's own architectures mean.
#include "tests/gguf_keys_rig.h"

// A small kimi-linear or kimi-k3 as llama.cpp's converter writes it: of groups it says how many are used alone.
static void base_kimi(struct made_gguf *g, const char *architecture, const char *without)
{
    static const struct key counts[] = {{"context_length", 4096},
                                        {"embedding_length", 64},
                                        {"feed_forward_length", 128},
                                        {"attention.head_count", 4},
                                        {"attention.kv_lora_rank", 32},
                                        {"attention.key_length_mla", 40},
                                        {"attention.value_length_mla", 24},
                                        {"rope.dimension_count", 16},
                                        {"leading_dense_block_count", 1},
                                        {"expert_count", 256},
                                        {"expert_used_count", 8},
                                        {"expert_group_used_count", 1},
                                        {"expert_shared_count", 2},
                                        {"expert_feed_forward_length", 32},
                                        {"expert_gating_func", 2},
                                        {"block_count", 4},
                                        {"ssm.conv_kernel", 4},
                                        {"kda.head_dim", 32},
                                        {"vocab_size", 128}};
    static const struct key k3[] = {
        {"attention.q_lora_rank", 96}, {"expert_latent_length", 32}, {"attn_res.block_size", 3}};
    char key[128];
    made_string(g, "general.architecture", architecture);
    put_keys(g, architecture, counts, sizeof counts / sizeof *counts, without);
    if (strcmp(architecture, "kimi-k3") == 0) {
        put_keys(g, architecture, k3, sizeof k3 / sizeof *k3, without);
        if (!strstr(without, " situ "))
            made_f32(g, "kimi-k3.activation.situ_beta", 4);
        made_f32(g, "kimi-k3.activation.situ_linear_beta", 25);
        if (!strstr(without, " bound "))
            made_f32(g, "kimi-k3.kda.gate_lower_bound", -5);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    made_f32(g, key, 1e-5F);
    made_tensor(g, "blk.0.attn_norm.weight", 0, 1, (uint64_t[]){64});
    made_tensor(g, "blk.0.attn_q.weight", 0, 1, (uint64_t[]){64});
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "blk.%d.ssm_a", i);
        made_tensor(g, key, 0, 1, (uint64_t[]){4});
    }
}

// DeepSeek's older files with 256 experts leave their 8 groups out; Kimi's have one group, and leave that out.
static void kimi_has_one_group_of_experts(struct harness *t)
{
    static const char *const architectures[] = {"kimi-linear", "kimi-k3"};
    for (int i = 0; i < 2; i++) {
        char key[64];
        struct made_gguf g = {0};
        struct shape s;
        base_kimi(&g, architectures[i], "");
        if (reads(t, &g, &s))
            CHECK(t, s.n_group == 1 && s.topk_group == 1 && s.scoring == ROUTER_SIGMOID && s.norm_topk_prob);
        base_kimi(&g, architectures[i], " expert_group_used_count ");
        if (reads(t, &g, &s))
            CHECK(t, s.n_group == 1 && s.topk_group == 1);
        base_kimi(&g, architectures[i], " expert_group_used_count ");
        snprintf(key, sizeof key, "%s.expert_group_used_count", architectures[i]);
        made_u32(&g, key, 2);
        refused(t, &g, "expert_group_count: and .expert_group_used_count come together");
    }
}

static void kimi_k3_is_kimi_linear_and_more(struct harness *t)
{
    struct made_gguf g = {0};
    struct shape s;
    base_kimi(&g, "kimi-k3", "");
    if (reads(t, &g, &s)) {
        CHECK(t, strcmp(s.model_type, "kimi_k3_text") == 0 && s.n_layers == 4 && s.first_k_dense_replace == 1);
        CHECK(t, shape_layer_kind(&s, 2) == LAYER_KDA && shape_layer_kind(&s, 3) == LAYER_MLA);
        CHECK(t, s.bank_every == 3 && s.latent_size == 32 && s.gated_latents && s.linear.full_gate);
        CHECK(t, s.situ_beta == 4 && s.swiglu_limit == 25 && s.linear.bound == -5 && s.q_lora_rank == 96);
        CHECK(t, s.qk_nope_head_dim == 24 && s.v_head_dim == 24 && s.linear.n_key_heads == 4);
    }
    base_kimi(&g, "kimi-k3", " bound ");
    if (reads(t, &g, &s))
        CHECK(t, s.linear.bound == 0);
    base_kimi(&g, "kimi-k3", " situ ");
    refused(t, &g, "F: kimi-k3.activation.situ_beta: is missing");
    base_kimi(&g, "kimi-k3", " expert_latent_length ");
    refused(t, &g, "F: kimi-k3.expert_latent_length: is missing");
    base_kimi(&g, "kimi-k3", " attn_res.block_size ");
    made_u32(&g, "kimi-k3.attn_res.block_size", 0);
    refused(t, &g, "F: kimi-k3.attn_res.block_size");
    base_kimi(&g, "kimi-linear", "");
    if (reads(t, &g, &s))
        CHECK(t, strcmp(s.model_type, "kimi_linear") == 0 && s.q_lora_rank == 0 && !s.bank_every && !s.latent_size);
}

// A split file's first part may have no tensors, and still the kinds of layers are known.
static void a_first_part_tells_the_layers(struct harness *t)
{
    for (int listed = 0; listed < 2; listed++) {
        struct made_gguf g = {0};
        struct json_object *config;
        struct shape s;
        struct moe_err err = {.text = ""};
        base_kimi(&g, "kimi-k3", "");
        if (listed)
            made_array(&g, "kimi-k3.attention.head_count_kv", GGUF_U32, 4);
        for (uint32_t i = 0; i < 4 && listed; i++)
            made_put_number(&g.values, i % 2, 4);
        int code = read_part(&g, true, &config, &s, &err);
        CHECK_EQ(t, code, listed ? MOE_OK : MOE_UNSUPPORTED);
        if (!code)
            CHECK(t, shape_layer_kind(&s, 1) == LAYER_MLA && shape_layer_kind(&s, 2) == LAYER_KDA);
        else
            CHECK(t, strstr(err.text, "kimi-k3.block_count: counts layers of kinds that only the other parts tell") !=
                         NULL);
        json_object_put(config);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(kimi_has_one_group_of_experts),
                                                TEST(kimi_k3_is_kimi_linear_and_more),
                                                TEST(a_first_part_tells_the_layers)};
    return HARNESS_RUN(tests, argc, argv);
}
