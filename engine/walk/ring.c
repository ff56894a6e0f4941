// SPDX-License-Identifier: GPL-3.0-or-later
// At most RING_DEPTH dispatches in flight, by their fences.
#include "engine/walk/ring.h"

#include "engine/base/err.h"

int ring_begin(struct ring *ring, gpu *g, struct moe_err *err)
{
    if (ring->n == RING_DEPTH)
        return moe_fail(err, MOE_BAD_ARGUMENT, "%d dispatches are in flight, and no more may be", RING_DEPTH);
    ring->fences[(ring->first + ring->n++) % RING_DEPTH] = gpu_fence_to_come(g);
    return MOE_OK;
}

bool ring_complete(struct ring *ring, gpu *g)
{
    if (ring->n == 0)
        return false;
    gpu_fence_wait(g, ring->fences[ring->first]);
    ring->first = (ring->first + 1) % RING_DEPTH;
    ring->n--;
    return true;
}

void ring_trim(struct ring *ring, gpu *g)
{
    while (ring->n >= ring->depth)
        ring_complete(ring, g);
}

void ring_discard(struct ring *ring, gpu *g)
{
    while (ring_complete(ring, g))
        ;
}
