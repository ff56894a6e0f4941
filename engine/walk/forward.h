// SPDX-License-Identifier: GPL-3.0-or-later
// The layer walk: a group of tokens from ids to hidden states to logits.
#ifndef MOECHAT_ENGINE_WALK_FORWARD_H
#define MOECHAT_ENGINE_WALK_FORWARD_H

#include "engine/walk/pass.h"

// Runs the layers over a group, chunk by chunk, from where the stream has it, or from the beginning when it `begins`.
// The session's length is the caller's to advance, after this and the logits have succeeded. Cancelled, the stream says
// how far it came: with rows, states, stream and scratch as they are it goes on there, to the same bits.
int forward_layers(const struct pass *pass, bool begins, struct moe_err *err);
// Final norm and head for rows [first, first + count) of the group, count <= scratch->logit_rows, into `logits`
// [count, vocab_size]. Blocks; reports whatever failed before. MOE_BAD_NUMBERS when a logit is not finite.
struct head_rows {
    uint32_t first;
    uint32_t count;
    float *logits;
};
int forward_head(const struct pass *pass, const struct head_rows *rows, struct moe_err *err);
// The rows of the pass's positions have come back from a record: makes what follows from them.
void forward_derive(const struct pass *pass);
// After both, before the group counts as done: what the host has to see of it if there was no head.
int forward_end(const struct pass *pass, struct moe_err *err);

#endif
