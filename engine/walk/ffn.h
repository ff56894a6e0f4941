// SPDX-License-Identifier: GPL-3.0-or-later
// The feed-forward half of a layer, by its ways: dense; routed, of a group; routed, of a decoded token whose choice
// comes to the host; and of one whose choice stays on the device.
#ifndef MOECHAT_ENGINE_WALK_FFN_H
#define MOECHAT_ENGINE_WALK_FFN_H

#include "engine/walk/pass.h"

// ffn.c, for a chunk: adds the layer's dense MLP; or asks its router, and in a prefill adds the shared experts, too.
int ffn_begin(const struct pass *pass, uint32_t layer, struct moe_err *err);
// For a group whose chunks have begun: adds a MoE layer's routed experts, and a decoded token's shared ones.
int ffn_experts(const struct pass *pass, uint32_t layer, struct moe_err *err);

// What the router of a layer says: logits, ids and weights, the last two from `first` on.
struct routing {
    uint32_t layer;
    gpu_buf *logits, *ids, *weights;
    uint32_t first;
};
// As an op wants it, of the pass's rows.
struct args_router ffn_router(const struct pass *pass, uint32_t layer, uint32_t first);
// Of x, the layer's normed stream.
void ffn_route(const struct pass *pass, const struct routing *to, struct rows x);
// down(silu(gate x) * up x) added to the residual stream. Dense layers, and shared experts where there are any.
void ffn_mlp(const struct pass *pass, uint32_t layer, struct rows x);
// The gate of the shared expert, a number a token, where it has one; else without a matrix. A decoded token's comes
// with its router's logits.
struct projection ffn_shared_gate(const struct pass *pass, uint32_t layer);
// Where a layer's choice stands in the router's buffers: of a prefill, its chunk's rows from 0 on; of a decoded token,
// a row for each MoE layer.
uint32_t ffn_choice(const struct pass *pass, uint32_t layer);
// Brings a layer's ids and weights to the host, where a row of the pass has its own, and proves them.
int ffn_read_choice(const struct pass *pass, uint32_t layer, struct moe_err *err);
// The same in two steps: what the device is given in between runs while the host looks at the choice.
struct ffn_choice_read {
    struct gpu_range ids;
    uint64_t fence;
};
void ffn_send_choice(const struct pass *pass, uint32_t layer, struct ffn_choice_read *read);
int ffn_receive_choice(const struct pass *pass, uint32_t layer, const struct ffn_choice_read *read,
                       struct moe_err *err);
// Are these ids of a row of the pass what a router can say?
int ffn_prove_choice(const struct pass *pass, uint32_t layer, uint32_t row, const int32_t *ids, struct moe_err *err);
// Puts a decoded token's experts that are there and lie in one buffer to work, each into its partial sum.
void ffn_run_batch(const struct pass *pass, uint32_t layer, const struct args_places *batch, gpu_buf *matrices);

// ffn_prefill.c
int ffn_prefill(const struct pass *pass, uint32_t layer, struct moe_err *err);

// ffn_streamed.c: one token, whose choice comes to the host.
int ffn_streamed(const struct pass *pass, uint32_t layer, struct moe_err *err);

// ffn_resident.c. Before a decoded token's layers: which of them keep their choice on the device.
void ffn_begin_token(const struct pass *pass);
// Is the router of such a layer asked by ffn_resident, in one op with all the rest?
bool ffn_resident_routes(const struct pass *pass, uint32_t layer);
// One token, of such a layer. False: it is none, and nothing was done.
bool ffn_resident(const struct pass *pass, uint32_t layer);
// What of a decoded token's choices the host has not seen yet: ranges that are to be read, up to two, of weights and,
// where layers kept them, of ids; and once they were, the proof that a router can have said these, and the news for
// store, predictors and telemetry.
unsigned ffn_choices(const struct pass *pass, struct gpu_range ranges[2]);
int ffn_take_choices(const struct pass *pass, struct moe_err *err);

#endif
