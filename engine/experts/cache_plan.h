// SPDX-License-Identifier: GPL-3.0-or-later
// How many slots the budgets make, and which budgets are refused. Numbers only.
#ifndef MOECHAT_ENGINE_EXPERTS_CACHE_PLAN_H
#define MOECHAT_ENGINE_EXPERTS_CACHE_PLAN_H

#include "engine/moe.h"

struct cache_question {
    uint64_t slot_bytes;
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

#endif
