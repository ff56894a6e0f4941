// SPDX-License-Identifier: GPL-3.0-or-later
// The dispatches of experts that the host has given to the device and not waited for, oldest first: while they compute
// and are combined, the next layer is given already. Of one session, and empty between its calls: what moves its state
// needs no draining of its own.
#ifndef MOECHAT_ENGINE_WALK_RING_H
#define MOECHAT_ENGINE_WALK_RING_H

#include "kernels/gpu.h"
#include "engine/moe.h"

enum { RING_DEPTH = 2 };

struct ring {
    uint64_t fences[RING_DEPTH];
    uint32_t depth; // 1: each dispatch is waited for at once; RING_DEPTH: the one before goes on
    uint32_t first, n;
};

// What was enqueued since the last dispatch is one. MOE_BAD_ARGUMENT when the ring is full.
int ring_begin(struct ring *ring, gpu *g, struct moe_err *err);
// Waits for the oldest. False: there is none.
bool ring_complete(struct ring *ring, gpu *g);
// After a dispatch was begun: waits until as many are left as may go on while the host does.
void ring_trim(struct ring *ring, gpu *g);
// Waits for all of them: their results are not wanted, or are there already.
void ring_discard(struct ring *ring, gpu *g);

#endif
