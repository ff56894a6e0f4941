// SPDX-License-Identifier: GPL-3.0-or-later
// How the routed experts come to a session's passes: the model's store, and the session's sweep, prefetch and ring
// before it. What measurements switch off of this is decided here, when the session is opened.
#ifndef MOECHAT_ENGINE_WALK_ROUTED_H
#define MOECHAT_ENGINE_WALK_ROUTED_H

#include "engine/experts/prefetch.h"
#include "engine/experts/expert_store.h"
#include "engine/experts/sweep.h"
#include "engine/walk/ring.h"

struct routed {
    expert_store *store;
    struct sweep sweep;       // of a prefill's experts
    struct prefetch prefetch; // of a decoded token's
    struct ring ring;         // of its dispatches
    // A decoded token's experts that come from the store.
    struct expert_place *places; // [top_k], in rank order
    bool *done;                  // [top_k], those that were put to work
    bool followed;               // ops of this token were given that run behind copies
    uint32_t most_at_once;       // put to work in one launch
    bool all_first;              // no hit computes before the last miss is there
    bool shared_last;            // the shared expert computes after them, not while they are read
    // Those of layers that stay: their choice stays on the device until the token's end.
    bool may_stay;
    bool *stays; // [n_moe_layers], for this token
    bool untold; // there are such choices, and the host has not seen them yet
};

struct routed_options {
    gpu *gpu;
    const struct shape *shape;
    expert_store *store;
    const struct moe_session_options *session;
    uint32_t ring; // of the model, where the session asks for none
};
int routed_open(const struct routed_options *options, struct routed *routed, struct moe_err *err);
void routed_release(struct routed *routed);
// A feed is over, or has failed: nothing stays pinned or in flight.
void routed_end(struct routed *routed, gpu *g);

#endif
