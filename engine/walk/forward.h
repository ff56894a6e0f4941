// SPDX-License-Identifier: GPL-3.0-or-later
// The layer walk: one chunk of tokens from ids to hidden states to logits.
#ifndef MOECHAT_ENGINE_WALK_FORWARD_H
#define MOECHAT_ENGINE_WALK_FORWARD_H

#include <stdatomic.h>

#include "engine/experts/store.h"
#include "engine/walk/kv.h"
#include "engine/walk/pace.h"
#include "engine/experts/prefetch.h"
#include "engine/walk/ring.h"
#include "engine/walk/scratch.h"
#include "engine/experts/sweep.h"
#include "engine/walk/telemetry.h"
#include "engine/walk/weights.h"

// Tokens on their way through the model: a group, or one of its chunks. Nothing in it is owned. The ids are in scratch
// already.
struct pass {
    gpu *gpu;
    const struct package *package;
    const struct shape *shape;
    const struct weights *weights;
    expert_store *store;
    struct kv *kv;
    struct scratch *scratch;
    struct telemetry *telemetry;
    struct sweep *sweep;       // of a prefill's experts
    struct ring *ring;         // of its dispatches
    struct prefetch *prefetch; // of a decoded token's
    uint32_t position;         // of the first token
    uint32_t first;            // its row in the group
    uint32_t rows;
    unsigned without; // MOE_WITHOUT_
    bool decode;      // one token, through the decode kernels
    const atomic_bool *cancel;
    moe_hidden_fn *on_hidden;  // may be NULL
    moe_progress_fn *progress; // may be NULL
    struct pace *pace;         // of the whole prefill; NULL: nobody wants to know
    uint64_t total;            // its tokens
    uint64_t bytes_before;     // that the store had read when it began
    void *context;
};

// The residual stream and the normed one of the pass's tokens.
static inline struct rows pass_stream(const struct pass *pass)
{
    uint32_t hidden = pass->shape->hidden_size;
    return (struct rows){pass->scratch->buf[SCRATCH_HIDDEN], hidden, pass->first * hidden};
}

static inline struct rows pass_normed(const struct pass *pass)
{
    uint32_t hidden = pass->shape->hidden_size;
    return (struct rows){pass->scratch->buf[SCRATCH_NORMED], hidden, pass->first * hidden};
}

// y = W x, or y += W x with add, for `rows` rows; by matvec in a decode pass, by matmul otherwise.
struct projection {
    const struct matrix *matrix;
    struct rows from;
    struct rows to;
    bool add;
};
void pass_project(const struct pass *pass, const struct projection *projection);
// RMSNorm of `dim` elements of each row.
struct normalisation {
    const struct vector *weight;
    struct rows from;
    struct rows to;
    uint32_t dim;
    float eps; // the shape's rms_norm_eps, or latent_norm_eps for q_a_layernorm and kv_a_layernorm
};
void pass_norm(const struct pass *pass, const struct normalisation *norm);
// Is the layer's input normed already, by the sum of the experts of the layer before? For n_layers: the head's. So it
// is in a decode pass behind each MoE layer.
bool pass_comes_normed(const struct pass *pass, uint32_t layer);
// down(silu(gate x) * up x) added to the residual stream; x is the normed one. Dense layers and shared experts.
void pass_mlp(const struct pass *pass, const struct layer_weights *layer);

// attn.c: adds the layer's attention to the residual stream and appends to the cache.
void attn_layer(const struct pass *pass, uint32_t layer);
// ffn.c, for a chunk: adds the layer's dense MLP; or brings the router's choice to the host and adds the shared expert.
int ffn_begin(const struct pass *pass, uint32_t layer, struct moe_err *err);
// ffn.c, for a group whose chunks have begun: adds a MoE layer's routed experts.
int ffn_experts(const struct pass *pass, uint32_t layer, struct moe_err *err);
// ffn_decode.c, of a decode pass. Before its layers: which of them keep their choice on the device.
void ffn_begin_token(const struct pass *pass);
// What of these choices the host has not seen yet: ranges that are to be read, none or two; and once they were, the
// proof that a router can have said them, and the news for store, guessers and telemetry.
unsigned ffn_choices(const struct pass *pass, struct gpu_range ranges[2]);
int ffn_take_choices(const struct pass *pass, struct moe_err *err);
// The time, and what the store has read and was waited for, for the pace.
struct pace_clock pass_clock(const struct pass *pass);
// Progress, when it is asked for: a chunk has begun in a layer, the layer's experts begin, one of them is done.
void pass_did_chunk(const struct pass *pass, uint32_t layer);
void pass_begins_experts(const struct pass *pass, uint32_t layer);
void pass_did_expert(const struct pass *pass, uint32_t rows);
// What the progress of a prompt says after so many of its tokens.
struct moe_progress prompt_progress(const struct pass *pass, uint64_t tokens);

// Runs the layers over a group, chunk by chunk. The session's length is the caller's to advance, after this and the
// logits have succeeded.
int forward_layers(const struct pass *pass, struct moe_err *err);
// Final norm and head for rows [first, first + count) of the group, count <= scratch->logit_rows, into `logits`
// [count, vocab_size]. Blocks; reports whatever failed before. MOE_BAD_NUMBERS when a logit is not finite.
struct head_rows {
    uint32_t first;
    uint32_t count;
    float *logits;
};
int forward_head(const struct pass *pass, const struct head_rows *rows, struct moe_err *err);
// After both, before the group counts as done: what the host has to see of it if there was no head.
int forward_end(const struct pass *pass, struct moe_err *err);

#endif
