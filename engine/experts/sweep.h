// SPDX-License-Identifier: GPL-3.0-or-later
// The experts of a prefill group, one after the other by ascending id and each asked for once, some ahead of the one
// that computes: those of this layer that have rows, then, when nearly all will be wanted, the first of the next layer,
// so that the disk never waits for the device. What is asked for is pinned; sweep_drop lets go of it all.
#ifndef MOECHAT_ENGINE_EXPERTS_SWEEP_H
#define MOECHAT_ENGINE_EXPERTS_SWEEP_H

#include "engine/experts/expert_store.h"

enum {
    SWEEP_AHEAD = 16, // experts asked for at once, when there are slots for them
    SWEEP_BEHIND = 8, // experts that the device may be behind the host: a cancelled prefill waits for them
    SWEEP_MOST = 64,  // both, where all experts have slots of their own: nothing is kept from others
    SWEEP_SURE = 4,   // choices an expert from which on all are taken for busy: e^-4 of them are not
};

struct sweep {
    struct expert_place ring[SWEEP_MOST]; // asked for and not done: entry n is ring[n % SWEEP_MOST]
    bool stays_within;                    // a layer: measurements want no read ahead
    bool next_too;                        // the next layer is like this one: ask for all of its experts
    uint32_t window, behind;              // entries at most; experts that the device may be behind
    uint32_t asked, done;                 // counts
    struct {
        uint32_t layer, expert;
    } next; // to be asked for
    struct sweep_layer {
        uint32_t layer, n_experts;
        uint32_t begin;            // the first that is asked for, whatever is busy before
        const uint32_t *first;     // [n_experts + 1]: expert e is busy when first[e + 1] > first[e]
        bool last;                 // no layer comes after it
        bool (*cancelled)(void *); // as of an expert_request
        void *context;
    } of;
    uint64_t fences[SWEEP_MOST]; // behind the experts done last
};

// Experts of the next layer that are asked for while this one computes, at most.
static inline uint32_t sweep_ahead(const struct sweep *sweep)
{
    return sweep->stays_within ? 0 : SWEEP_AHEAD;
}
// A layer begins; what was asked for of it stays asked for.
int sweep_begin(struct sweep *sweep, expert_store *store, const struct sweep_layer *of, struct moe_err *err);
// The busy expert whose turn it is, to be waited for; NULL: the layer is over.
const struct expert_place *sweep_next(struct sweep *sweep);
// The one whose turn comes `ahead` after it, if it was asked for and is busy, and so are those before it; NULL else.
const struct expert_place *sweep_peek(struct sweep *sweep, uint32_t ahead);
// Its ops were enqueued. Releases it, has it in the trace and asks for more.
int sweep_done(struct sweep *sweep, expert_store *store, gpu *g, struct moe_err *err);
// Releases everything.
void sweep_drop(struct sweep *sweep, expert_store *store);

#endif
