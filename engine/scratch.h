// SPDX-License-Identifier: GPL-3.0-or-later
// The activations of one session on the device, sized once from the model's shape and the largest chunk; every layer
// uses the same ones. All float32 but the ids and indices.
#ifndef MOECHAT_SCRATCH_H
#define MOECHAT_SCRATCH_H

#include "expert_store.h"
#include "gpu.h"
#include "shape.h"

// Rows of an activation buffer: element `offset` of row r is at r * stride + offset.
struct rows {
    gpu_buf *buf;
    uint32_t stride;
    uint32_t offset;
};

enum scratch_name {
    SCRATCH_IDS,            // int32 [rows], the tokens
    SCRATCH_HIDDEN,         // [rows, hidden_size], the residual stream
    SCRATCH_NORMED,         // [rows, hidden_size]
    SCRATCH_Q_LORA,         // [rows, q_lora_rank]
    SCRATCH_Q,              // [rows, n_heads * (nope + rope)]
    SCRATCH_KV,             // [rows, kv_lora_rank + rope]
    SCRATCH_Q_LATENT,       // [rows, n_heads, kv_lora_rank]
    SCRATCH_ATTENDED,       // [rows, n_heads, kv_lora_rank]
    SCRATCH_HEADS,          // [rows, n_heads * v_head_dim]
    SCRATCH_MLP,            // [rows, widest of dense, shared and routed experts]
    SCRATCH_ROUTER_LOGITS,  // [rows, n_routed_experts]
    SCRATCH_ROUTER_IDS,     // int32 [rows, top_k]
    SCRATCH_ROUTER_WEIGHTS, // [rows, top_k]
    SCRATCH_EXPERT_INDEX,   // int32 [rows * top_k], rows by expert
    SCRATCH_EXPERT_WEIGHT,  // [rows * top_k], their weights
    SCRATCH_EXPERT_IN,      // [rows, hidden_size], the rows of one expert
    SCRATCH_EXPERT_OUT,     // [max(rows, top_k), hidden_size]
    SCRATCH_LOGITS,         // [logit_rows, vocab_size]
    SCRATCH_COUNT
};

// How many experts a prefill chunk asks for ahead of the one that computes, when there are slots for them.
enum { SCRATCH_AHEAD = 16 };

struct scratch {
    gpu_buf *buf[SCRATCH_COUNT];
    uint32_t rows;
    uint32_t logit_rows;
    // Host side: the router's choice and the lists made from it.
    int32_t *router_ids;         // [rows * top_k]
    float *router_weights;       // [rows * top_k]
    int32_t *expert_index;       // [rows * top_k]
    float *expert_weight;        // [rows * top_k]
    uint32_t *expert_first;      // [n_routed_experts + 2], where each expert's rows begin in the two above
    float *host_rows;            // [max(rows * hidden_size, logit_rows * vocab_size)], for rows read back
    struct expert_place *places; // [max(top_k, SCRATCH_AHEAD)], the experts that are asked for
};

int scratch_open(gpu *g, const struct shape *shape, uint32_t rows, struct scratch *scratch, struct moe_err *err);
void scratch_release(struct scratch *scratch);

static inline struct rows scratch_rows(const struct scratch *scratch, enum scratch_name name, uint32_t stride)
{
    return (struct rows){scratch->buf[name], stride, 0};
}

#endif
