// SPDX-License-Identifier: GPL-3.0-or-later
// The dimensions and settings of a model, read from its config.json fields and validated once; const afterwards.
#ifndef MOECHAT_ENGINE_FILES_SHAPE_H
#define MOECHAT_ENGINE_FILES_SHAPE_H

#include "kernels/args.h"
#include "engine/moe.h"

struct json_object;

enum rope_type { ROPE_DEFAULT, ROPE_YARN };

// What mixes a layer's tokens.
enum layer_kind {
    LAYER_MLA,        // multi-head latent attention over all positions before
    LAYER_GQA,        // grouped-query attention over all positions before, heads normed, the output gated
    LAYER_GDN,        // gated delta net: a state of fixed size, which decays as a whole
    LAYER_KDA,        // Kimi delta attention: the same, with a decay for each channel of the keys
    LAYER_DSA,        // latent attention over the positions that an indexer of its own chooses
    LAYER_DSA_SHARED, // the same over those that the last LAYER_DSA before it has chosen
    LAYER_KINDS
};

enum { MOST_LAYERS = 4096 };

// Of the layers that keep a state, LAYER_GDN and LAYER_KDA: [key_head_dim][value_head_dim] for each value head, and
// what the convolution still sees of its n_key_heads * key_head_dim queries, as many keys, and values.
struct linear_dims {
    uint32_t n_key_heads, n_value_heads, key_head_dim, value_head_dim;
    uint32_t conv_kernel; // tokens that it sees
    float bound;          // of the logarithm of a LAYER_KDA's decay, below 0, as DECAY_CHANNEL_BOUNDED has it; 0: none
    bool full_gate;       // the output's gate is one matrix, not two factors
    bool tiled; // value head h goes with key head h % n_key_heads, as in GGUF; else with the h / (values / keys)th
};

// Of the layers that choose their positions. Each LAYER_DSA keeps a row of head_dim for each token.
struct indexer_dims {
    uint32_t n_heads, head_dim; // head_dim at most MOST_INDEX_DIM, a multiple of 8
    uint32_t top_k;             // positions that a token looks at; it sees all while there are no more
    uint32_t pool;    // positions that are chosen together, by a key that is made of theirs; 1: each by itself. Divides
                      // top_k and head_dim
    bool interleaved; // the rope, which turns the first qk_rope_head_dim of a head
};

// Of residual streams that are mixed by hyper-connections.
struct hyper_dims {
    uint32_t n_streams; // HYPER_STREAMS; 0: there is one plain stream
    uint32_t iterations;
    float eps;
};

struct shape {
    char model_type[32];
    uint32_t vocab_size, hidden_size, n_layers, n_heads;
    uint32_t q_lora_rank; // 0: the model has q_proj instead of q_a and q_b
    uint32_t kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim; // of a LAYER_MLA or DSA
    bool gated_latents;                                                    // its output has a gate
    uint32_t n_kv_heads, head_dim;                                         // of a LAYER_GQA
    struct linear_dims linear;
    struct indexer_dims indexer; // zeros without any LAYER_DSA
    struct hyper_dims hyper;
    uint32_t bank_every;              // before each so manieth layer the residual stream joins a bank; 0: it is plain
    uint8_t layer_kinds[MOST_LAYERS]; // enum layer_kind
    uint32_t intermediate_size, moe_intermediate_size;
    uint32_t n_routed_experts, n_shared_experts, top_k; // n_shared_experts 0: the model has none
    uint32_t shared_intermediate_size;                  // of the shared experts, which are one MLP
    uint32_t latent_size; // routed experts read and write a latent space of so many dimensions; 0: the stream's own
    bool has_shared_gate; // its output is multiplied by sigmoid(gate . x)
    enum router_scoring scoring;
    enum topk_method topk_method;
    uint32_t n_group, topk_group; // both 1 with TOPK_GREEDY
    bool has_correction_bias;
    uint32_t first_k_dense_replace; // layers before this one are dense
    uint32_t max_position_embeddings;
    float rms_norm_eps, routed_scaling_factor;
    float situ_beta;       // of MLPs' activation, with swiglu_limit, as args_swiglu has it; 0: silu
    float swiglu_limit;    // beyond which MLPs' gates and ups do not count, as args_swiglu has it; 0: there is none
    float latent_norm_eps; // of q_a_layernorm and kv_a_layernorm: 1e-6 whatever rms_norm_eps is, but in glm5_next
    bool norm_topk_prob, tie_word_embeddings;
    bool norms_from_one; // transformers' class multiplies by 1 + w, and its files hold w; not those of a delta layer
    bool rope_interleave;
    uint32_t rotary_dim; // how much of a head the rope turns; 0: there is none
    enum rope_type rope_type;
    double rope_theta;
    // YaRN, as transformers reads them; both mscales 0 when the file has none.
    double factor, beta_fast, beta_slow, mscale, mscale_all_dim, attention_factor; // attention_factor 0: not given
    bool truncate; // YaRN's correction range rounded to whole dims, true unless the file says otherwise
    uint32_t original_max_position_embeddings;
    int32_t bos_token_id;
    int32_t eos_token_ids[8];
    uint32_t n_eos;
    // Derived, by transformers' formulas (modeling_rope_utils.py, modeling_deepseek_v3.py; 5.17.0).
    float softmax_scale; // head_dim^-0.5; of MLA (nope + rope)^-0.5, times mscale(factor, mscale_all_dim)^2 with YaRN
                         // when mscale_all_dim is set
    float rope_scale;    // what cos and sin are multiplied by
};

static inline enum layer_kind shape_layer_kind(const struct shape *s, uint32_t layer)
{
    return (enum layer_kind)s->layer_kinds[layer];
}

// What a routed expert reads and writes.
static inline uint32_t shape_expert_size(const struct shape *s)
{
    return s->latent_size ? s->latent_size : s->hidden_size;
}

static inline bool shape_is_moe(const struct shape *s, uint32_t layer)
{
    return layer >= s->first_k_dense_replace;
}

// config: config.json's root, or model.json's "config" object; file: its name for messages. Reads what transformers
// 5.17.0 reads for deepseek_v2, deepseek_v3, kimi_k2, kimi_k25 (its text_config), glm4_moe_lite, kimi_linear,
// deepseek_v32, glm_moe_dsa, qwen3_next, qwen3_5_moe and glm5_next (their text_config, or as qwen3_5_moe_text and
// glm5_next_text what that has), with that class's defaults. Other model types, fields of the wrong type, dimensions
// that are zero, absurd or do not divide, and settings we do not honour (biases, other activations, other rope types,
// moe_layer_freq != 1, other routers, states in every layer) are refused by name.
int shape_read(struct json_object *config, const char *file, struct shape *shape, struct moe_err *err);

// As transformers counts: norms and hyper-connections yes, the router's correction bias and MTP layers no. Active:
// without the experts that a token does not choose and without the embedding, of which it reads one row.
struct parameter_counts {
    uint64_t total, active;
};
struct parameter_counts shape_parameters(const struct shape *shape);

// Frequencies that the walk needs: rotary_dim / 2; of a LAYER_MLA without a rope zeros, by which nothing turns; of one
// without a part for a rope none.
static inline uint32_t shape_frequencies(const struct shape *s)
{
    return (s->rotary_dim ? s->rotary_dim : s->qk_rope_head_dim) / 2;
}
// That many inverse frequencies, computed in float32 in transformers' order of operations.
void shape_inv_freq(const struct shape *shape, float *inv_freq);

#endif
