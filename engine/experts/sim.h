// SPDX-License-Identifier: GPL-3.0-or-later
// Replays a routing trace against caches of many sizes, by the very policies of cache_policy.h. moe.h's
// moe_trace_replay is its way in.
#ifndef MOECHAT_ENGINE_EXPERTS_SIM_H
#define MOECHAT_ENGINE_EXPERTS_SIM_H

#include "engine/experts/trace.h"

// All requests of a trace, flat.
struct sim_trace {
    struct trace_header header;
    struct sim_request {
        uint64_t first; // of its keys
        uint32_t n;
        bool prefill;
    } * requests;
    uint64_t n_requests;
    uint32_t *keys;
    uint64_t *next; // [n_keys] when the same key is used next, in requests; UINT64_MAX: never
    uint64_t n_keys;
    uint64_t tokens; // decoded
    bool cut;
};

int sim_load(const void *bytes, size_t length, const char *path, struct sim_trace *trace, struct moe_err *err);
void sim_release(struct sim_trace *trace);

struct sim_run {
    enum cache_policy_kind kind;
    uint32_t n_slots; // at least as many as the largest request that decodes
    double half_life; // 0: the store's
};
struct sim_hits {
    uint64_t decode, prefill; // of moe_trace_replayed's uses
};
int sim_replay(const struct sim_trace *trace, const struct sim_run *run, struct sim_hits *hits, struct moe_err *err);

#endif
