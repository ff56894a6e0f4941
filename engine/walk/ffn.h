// SPDX-License-Identifier: GPL-3.0-or-later
// What ffn.c and ffn_decode.c share.
#ifndef MOECHAT_ENGINE_WALK_FFN_H
#define MOECHAT_ENGINE_WALK_FFN_H

#include "engine/walk/forward.h"

// Of a pass's cancel flag, as the store asks for it.
bool ffn_cancelled(void *context);

// Where a router's input and output go.
struct routing {
    const struct layer_weights *weights;
    struct rows normed;
    gpu_buf *logits, *ids, *chosen_weights;
    uint32_t first; // where in ids and weights the choice goes
};
// Norm, router, choice.
void ffn_route(const struct pass *pass, const struct routing *to);

// Where a layer's choice stands in the router's buffers: of a prefill, its chunk's rows from 0 on; of a decoded token,
// a row for each MoE layer.
uint32_t ffn_choice(const struct pass *pass, uint32_t layer);
// Are these ids of a row of the pass what a router can say?
int ffn_prove_choice(const struct pass *pass, uint32_t layer, uint32_t row, const int32_t *ids, struct moe_err *err);

// ffn_decode.c: the shared and the routed experts of one token, whose choice is on the host unless ffn_stays.
int ffn_decode(const struct pass *pass, uint32_t layer, struct moe_err *err);
// Does the layer's choice stay on the device?
bool ffn_stays(const struct pass *pass, uint32_t layer);

#endif
