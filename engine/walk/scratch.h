// SPDX-License-Identifier: GPL-3.0-or-later
// The activations of one session on the device, sized once from the model's shape, the largest chunk (the rows of one
// kernel) and the largest group (the tokens that go through the layers together); every layer uses the same ones. All
// float32 but the ids and indices.
#ifndef MOECHAT_ENGINE_WALK_SCRATCH_H
#define MOECHAT_ENGINE_WALK_SCRATCH_H

#include "kernels/gpu.h"
#include "engine/files/shape.h"
#include "engine/walk/mixer.h"

// Rows of an activation buffer: element `offset` of row r is at r * stride + offset.
struct rows {
    gpu_buf *buf;
    uint32_t stride;
    uint32_t offset;
};

enum scratch_name {
    SCRATCH_IDS,   // int32 [group], the tokens
    SCRATCH_MIXER, // MIXER_BUFFERS, [rows] of what the layer's mixer needs
    SCRATCH_MIXER_LAST = SCRATCH_MIXER + MIXER_BUFFERS - 1,
    SCRATCH_LISTS,       // uint32 [group] of what the mixers need
    SCRATCH_POSITIONS,   // [positions] of what they need, so many as scratch_reserve was asked for
    SCRATCH_MLP,         // [rows, wider of dense and shared experts], or [expert_rows, moe_intermediate_size], or of a
                         // decoded token [top_k, moe_intermediate_size] and behind it the shared expert's
    SCRATCH_SHARED_GATE, // [rows]
    SCRATCH_ROUTER_LOGITS,  // [rows, n_routed_experts]
    SCRATCH_ROUTER_IDS,     // int32 [rows, top_k], or of a decoded token [n_moe_layers, top_k]
    SCRATCH_ROUTER_WEIGHTS, // the same
    SCRATCH_EXPERT_INDEX,   // int32 [group * top_k], rows by expert
    SCRATCH_EXPERT_WEIGHT,  // [group * top_k], their weights
    SCRATCH_EXPERT_CHAIN,   // uint32 [group * top_k, 2], where each token's rows are
    SCRATCH_EXPERT_IN,      // [expert_rows, what experts read], rows of experts
    SCRATCH_EXPERT_OUT,     // [max(expert_rows, top_k + 1), hidden_size or what experts write]
    SCRATCH_LATENT,         // [group, latent_size], what experts read, and later their normed sum
    SCRATCH_LATENT_SUM,     // the same
    SCRATCH_LOGITS,         // [logit_rows, vocab_size]
    SCRATCH_COUNT
};

struct scratch {
    gpu_buf *buf[SCRATCH_COUNT];
    uint32_t rows;
    uint32_t expert_rows; // of several experts, that compute in one launch
    uint32_t group;
    uint32_t logit_rows;
    // Host side: the router's choice and the lists made from it.
    int32_t *router_ids;     // [group * top_k], or [n_moe_layers * top_k]
    float *router_weights;   // the same
    int32_t *expert_index;   // [group * top_k]
    float *expert_weight;    // [group * top_k]
    uint32_t *expert_chain;  // [group * top_k * 2]
    uint32_t *chain_last;    // [group], while chains are made
    uint32_t *expert_first;  // [n_routed_experts + 2], where each expert's rows begin in the two above
    uint64_t position_bytes; // of SCRATCH_POSITIONS, for each of them; 0: no layer needs any
    gpu *gpu;                // whose the next is
    float *last_rows[2]; // [vocab_size], page-locked: a token's logits, which are waited for, beside those before them;
                         // behind both the router's choice, likewise
    float *host_rows;    // for what is read back: [group * hidden_size] or [logit_rows * vocab_size]
};

// Device bytes that each row of a chunk takes, with so many of experts for each.
uint64_t scratch_row_bytes(const struct shape *shape, uint32_t expert_rows);
// Device bytes that each token of a group takes beyond those of its chunk.
uint64_t scratch_group_bytes(const struct shape *shape);
// Device bytes that each token of the conversation takes, beside its rows, where layers choose among all.
uint64_t scratch_position_bytes(const struct shape *shape);
struct scratch_options {
    const struct shape *shape;
    uint32_t rows, group; // rows <= group
    uint32_t expert_rows; // at least rows
};
// What it took before it failed is for scratch_release.
int scratch_open(gpu *g, const struct scratch_options *options, struct scratch *scratch, struct moe_err *err);
// Before a pass that reaches so far: room for as many positions. What was there is lost, but on failure.
int scratch_reserve(struct scratch *scratch, uint32_t positions, struct moe_err *err);
void scratch_release(struct scratch *scratch);

static inline struct rows scratch_rows(const struct scratch *scratch, enum scratch_name name, uint32_t stride)
{
    return (struct rows){scratch->buf[name], stride, 0};
}

// One of the mixer's buffers.
static inline struct rows scratch_mixer(const struct scratch *scratch, unsigned which, uint32_t stride)
{
    return (struct rows){scratch->buf[SCRATCH_MIXER + which], stride, 0};
}

#endif
