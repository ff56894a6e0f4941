// SPDX-License-Identifier: GPL-3.0-or-later
// What ffn.c and ffn_decode.c share.
#ifndef MOECHAT_FFN_H
#define MOECHAT_FFN_H

#include "forward.h"

// Of a pass's cancel flag, as the store asks for it.
bool ffn_cancelled(void *context);

// Where a router's input and output go.
struct routing {
    const struct layer_weights *weights;
    struct rows normed;
    gpu_buf *logits, *ids, *chosen_weights;
};
// Norm, router, choice.
void ffn_route(const struct pass *pass, const struct routing *to);

// ffn_decode.c: the shared and the routed experts of one token, whose choice is on the host.
int ffn_decode(const struct pass *pass, uint32_t layer, struct moe_err *err);

#endif
