// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a routing trace: refused, or replayed against a small cache by every policy, none of which hits more
// often than was asked.
#include <stdlib.h>

#include "engine/experts/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_trace trace;
    struct moe_err err;
    if (sim_load(data, size, "fuzz", &trace, &err) != MOE_OK)
        return 0;
    uint32_t n_keys = trace.header.n_layers * trace.header.n_routed_experts;
    for (int kind = 0; kind < CACHE_POLICIES && n_keys < 1 << 20; kind++) {
        struct sim_run run = {.kind = (enum cache_policy_kind)kind, .n_slots = trace.header.top_k};
        struct sim_hits hits;
        if (sim_replay(&trace, &run, &hits, &err) == MOE_OK && hits.decode + hits.prefill > trace.n_keys)
            abort();
    }
    sim_release(&trace);
    return 0;
}
