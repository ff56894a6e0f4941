// SPDX-License-Identifier: GPL-3.0-or-later
// The resident tensors: found by name, checked against the shape, uploaded once into slabs of device memory; const
// after.
#ifndef MOECHAT_ENGINE_WALK_WEIGHTS_H
#define MOECHAT_ENGINE_WALK_WEIGHTS_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"
#include "kernels/gpu.h"

struct matrix {
    gpu_buf *buf;
    struct args_matrix at;
};

struct vector { // float32
    gpu_buf *buf;
    uint64_t offset;
};

struct mla_weights {
    struct vector q_a_layernorm, kv_a_layernorm;
    struct matrix q;        // without q_lora
    struct matrix q_a, q_b; // with q_lora
    struct matrix kv_a, o;
    struct matrix gate;                 // [n_heads * v_head_dim, hidden_size], where the output has one
    struct matrix kv_b;                 // whole, or, from MLX, by halves:
    struct matrix embed_q, unembed_out; // [n_heads * kv_lora_rank, nope] and [n_heads * v_head_dim, kv_lora_rank]
};

struct indexer_weights {
    struct matrix q_b, k, weights; // weights: [n_heads, hidden_size]
    struct vector norm, bias;      // of the keys
    struct matrix gate; // of pools: [head_dim, hidden_size], and what is added to it, by a position's place in its pool
    struct vector ape;  // [pool][head_dim]
};

// Of a layer's mixer or ffn, with several residual streams; as args_hyper_mix has them.
struct hyper_weights {
    struct matrix fn;
    struct vector base, scale;
};

// Of a layer's mixer or ffn, or of the head, where the stream has a bank; as args_bank_mix has them.
struct bank_weights {
    struct vector norm, proj;
};

struct gqa_weights {
    struct matrix q, k, v, o; // q: each head's query, then its gate
    struct vector q_norm, k_norm;
};

struct delta_weights {
    struct matrix qkv[3];   // one, or, of a LAYER_KDA, queries, keys and values each
    struct matrix inner[2]; // of a LAYER_KDA: the first factors of decay and z
    struct matrix beta, decay, z, out;
    struct vector conv;          // [queries | keys | values][conv_kernel]
    struct vector rate, dt_bias; // rate: A_log, or with rate_given -exp(A_log), as GGUF has it
    struct vector norm;
    bool rate_given;
};

struct layer_weights {
    struct vector input_layernorm, post_attention_layernorm;
    struct mla_weights mla;         // of a LAYER_MLA or DSA, otherwise zeros
    struct indexer_weights indexer; // of a LAYER_DSA
    struct gqa_weights gqa;         // of a LAYER_GQA
    struct delta_weights delta;     // of a LAYER_GDN or LAYER_KDA
    struct hyper_weights hyper[2];  // by site: mixer, ffn
    struct matrix gate, up, down;   // of a dense layer, or the shared experts, if any; gate and up in one buffer
    struct matrix router;           // MoE layers
    // Between the stream and the latent space of routed experts, where they have one; latent_norm: of their sum.
    struct matrix latent_in, latent_out;
    struct vector latent_norm;
    struct bank_weights bank[2]; // by site: mixer, ffn
    struct matrix shared_gate;   // [1, hidden_size], where the shared experts have one
    struct vector router_bias;   // where the model has one
};

struct weights {
    gpu_buf **slabs;
    size_t n_slabs;
    struct matrix embed, head; // one matrix when the embeddings are tied
    struct vector norm;
    struct bank_weights bank; // of the head
    gpu_buf *inv_freq;        // float32 [shape_frequencies]; NULL: there are none
    struct layer_weights *layers;
    uint64_t bytes;
};

// Loads what is not a routed expert. MOE_NO_TENSOR names what is missing, MOE_FORMAT a tensor of the wrong shape or
// dtype or one that the model does not know. Matrices are affine or plain (bf16, float32; f16 becomes float32);
// vectors, of any float dtype, become float32. Progress in bytes.
struct weights_source {
    const struct package *package;
    moe_progress_fn *progress;
    void *progress_context;
};
// The tensors of a folder that opens directly, or of a package's file, by the same rules, without a device or their
// data.
int weights_check(const struct shape *shape, const struct checkpoint *from, struct moe_err *err);
// package_open, and weights_check of a folder that opens directly. The caller releases the package, unless it fails.
int weights_open_package(const char *directory, struct package *package, struct moe_err *err);
// Without a device (NULL) nothing is read: matrices have no buffers.
int weights_load(gpu *g, const struct weights_source *source, struct weights *weights, struct moe_err *err);
void weights_release(struct weights *weights);

#endif
