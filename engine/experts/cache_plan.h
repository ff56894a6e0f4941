// SPDX-License-Identifier: GPL-3.0-or-later
// How many slots the budgets make, of which sizes, and which budgets are refused. Numbers only.
//
// Where layers' experts differ in size, slots of one size would waste the difference: a slot then has one of a few
// sizes, and each size gets its experts' part of all slots.
#ifndef MOECHAT_ENGINE_EXPERTS_CACHE_PLAN_H
#define MOECHAT_ENGINE_EXPERTS_CACHE_PLAN_H

#include "engine/moe.h"

enum { CACHE_SIZES = 3 }; // of slots, at most

struct cache_size {
    uint64_t slot_bytes;
    uint64_t n_experts; // that have slots of this size
    uint64_t device_slots, host_slots;
};

// Sizes for layers of `n_experts` experts of bytes[i] each (0: none), the smallest first; of_layer[i] is the one of
// layer i. One size where less than a twentieth of the slots is wasted, else two, else three. Returns how many.
uint32_t cache_sizes(const uint64_t *bytes, uint32_t n_layers, uint32_t n_experts, struct cache_size sizes[CACHE_SIZES],
                     uint32_t *of_layer);

struct cache_question {
    uint64_t slot_bytes;   // of several sizes: what an expert takes of them on average, see cache_mean
    uint64_t n_experts;    // of all layers
    uint64_t per_dispatch; // slots that a token needs in one layer
    uint64_t dispatches;   // in flight at once, whose slots are in use
    uint64_t device_bytes; // budgets, as moe_model_options
    uint64_t host_bytes;
    uint64_t device_left; // memory that is free; where the tiers are one, the host's
    uint64_t host_left;
    bool two_tiers;
};

struct cache_answer {
    uint64_t device_slots;
    uint64_t host_slots;   // 0 where the tiers are one
    bool host_only_passes; // no more than experts need on their way
};

// Slots that the dispatches in flight need: the fewest that work.
uint64_t cache_least(const struct cache_question *question);
// MOE_BUDGET: too small, with the smallest that works; MOE_NO_MEMORY: more than there is, with the most that fits.
int cache_plan(const struct cache_question *question, struct cache_answer *answer, struct moe_err *err);

uint64_t cache_mean(const struct cache_size *sizes, uint32_t n); // bytes, rounded up
// The answer's slots by sizes; the bytes are no more. False: some size would get fewer than the dispatches in flight
// need, or than pass through the host: take one size for all then.
bool cache_share(const struct cache_question *question, struct cache_answer *answer, struct cache_size *sizes,
                 uint32_t n);

#endif
