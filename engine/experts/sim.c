// SPDX-License-Identifier: GPL-3.0-or-later
// Traces replayed: each request against a cache of so many slots.
#include "engine/experts/sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

#define MOST_TRACE_BYTES (UINT64_C(1) << 30)

// ---- The trace
// -------------------------------------------------------------------------------------------------------

// When each use's key is used next, from the end to the beginning.
static bool look_ahead(struct sim_trace *trace)
{
    size_t n_all = (size_t)trace->header.n_layers * trace->header.n_routed_experts;
    uint64_t *soonest = malloc(n_all * sizeof *soonest);
    trace->next = malloc((trace->n_keys + 1) * sizeof *trace->next);
    if (!soonest || !trace->next) {
        free(soonest);
        return false;
    }
    for (size_t i = 0; i < n_all; i++)
        soonest[i] = UINT64_MAX;
    for (uint64_t r = trace->n_requests; r--;) {
        const struct sim_request *request = &trace->requests[r];
        for (uint64_t k = request->first; k < request->first + request->n; k++) {
            trace->next[k] = soonest[trace->keys[k]];
            soonest[trace->keys[k]] = r;
        }
    }
    free(soonest);
    return true;
}

int sim_load(const void *bytes, size_t length, const char *path, struct sim_trace *trace, struct moe_err *err)
{
    struct trace_reader reader = {.bytes = bytes, .length = length};
    struct trace_request request;
    memset(trace, 0, sizeof *trace);
    int code = trace_read_header(&reader, path, err);
    if (code)
        return code;
    trace->header = reader.header;
    // No request is shorter than its header and one id, no id than two bytes.
    trace->requests = malloc((length / (TRACE_REQUEST_BYTES + 2) + 1) * sizeof *trace->requests);
    trace->keys = malloc((length / 2 + 1) * sizeof *trace->keys);
    if (!trace->requests || !trace->keys) {
        sim_release(trace);
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the trace");
    }
    int more;
    while ((more = trace_next(&reader, path, &request, err)) > 0) {
        trace->requests[trace->n_requests++] =
            (struct sim_request){trace->n_keys, request.n, request.use == CACHE_PREFILL};
        for (uint32_t i = 0; i < request.n; i++)
            trace->keys[trace->n_keys++] = request.layer * trace->header.n_routed_experts + request.ids[i];
        trace->tokens += request.use == CACHE_DECODE && request.layer == trace->header.first_moe_layer;
    }
    trace->cut = reader.cut;
    if (more == 0 && !look_ahead(trace))
        more = -moe_fail(err, MOE_NO_MEMORY, "no memory for the trace");
    if (more < 0)
        sim_release(trace);
    return -more;
}

void sim_release(struct sim_trace *trace)
{
    free(trace->requests);
    free(trace->keys);
    free(trace->next);
    memset(trace, 0, sizeof *trace);
}

// ---- A cache
// ---------------------------------------------------------------------------------------------------------

struct sim {
    cache_policy *policy;
    uint32_t *slot_of; // [keys of the model], CACHE_NO_SLOT: not there
    uint32_t *key_of;  // [n_slots], CACHE_NO_SLOT: empty
    uint32_t n_slots, n_used;
};

static bool load_key(struct sim *sim, uint32_t key)
{
    uint32_t slot = sim->n_used < sim->n_slots ? sim->n_used++ : cache_policy_victim(sim->policy);
    if (slot == CACHE_NO_SLOT)
        return false; // a sweep wider than the cache: the rest of it passes
    if (sim->key_of[slot] != CACHE_NO_SLOT)
        sim->slot_of[sim->key_of[slot]] = CACHE_NO_SLOT;
    cache_policy_drop(sim->policy, slot);
    cache_policy_hold(sim->policy, slot, key);
    sim->key_of[slot] = key;
    sim->slot_of[key] = slot;
    return true;
}

// As expert_acquire: all of a request is in use until it ends, hits before misses.
static uint64_t answer(struct sim *sim, const struct sim_trace *trace, uint64_t index)
{
    const struct sim_request *request = &trace->requests[index];
    const uint32_t *keys = trace->keys + request->first;
    enum cache_use use = request->prefill ? CACHE_PREFILL : CACHE_DECODE;
    uint64_t hits = 0;
    cache_policy_tick(sim->policy, use);
    for (uint32_t i = 0; i < request->n; i++) {
        cache_policy_use(sim->policy, keys[i], use);
        cache_policy_foresee(sim->policy, keys[i], trace->next[request->first + i]);
        uint32_t slot = sim->slot_of[keys[i]];
        hits += slot != CACHE_NO_SLOT;
        if (slot != CACHE_NO_SLOT)
            cache_policy_withhold(sim->policy, slot);
    }
    for (uint32_t i = 0; i < request->n; i++)
        if (sim->slot_of[keys[i]] == CACHE_NO_SLOT && !load_key(sim, keys[i]))
            break;
    for (uint32_t i = 0; i < request->n; i++)
        if (sim->slot_of[keys[i]] != CACHE_NO_SLOT)
            cache_policy_offer(sim->policy, sim->slot_of[keys[i]]);
    return hits;
}

int sim_replay(const struct sim_trace *trace, const struct sim_run *run, struct sim_hits *hits, struct moe_err *err)
{
    const struct trace_header *h = &trace->header;
    size_t n_all = (size_t)h->n_layers * h->n_routed_experts;
    struct cache_shape shape = {
        .n_slots = run->n_slots,
        .n_layers = h->n_layers,
        .n_experts = h->n_routed_experts,
        .n_moe_layers = h->n_layers - h->first_moe_layer,
        .top_k = h->top_k,
        .shared_slots = h->top_k,
        .half_life = run->half_life,
    };
    struct sim sim = {.n_slots = run->n_slots};
    sim.policy = cache_policy_new(run->kind, &shape);
    sim.slot_of = malloc(n_all * sizeof *sim.slot_of);
    sim.key_of = malloc(run->n_slots * sizeof *sim.key_of);
    int code = MOE_OK;
    *hits = (struct sim_hits){0};
    if (sim.policy && sim.slot_of && sim.key_of) {
        memset(sim.slot_of, 0xFF, n_all * sizeof *sim.slot_of); // CACHE_NO_SLOT
        memset(sim.key_of, 0xFF, run->n_slots * sizeof *sim.key_of);
        for (uint64_t r = 0; r < trace->n_requests; r++)
            *(trace->requests[r].prefill ? &hits->prefill : &hits->decode) += answer(&sim, trace, r);
    } else {
        code = moe_fail(err, MOE_NO_MEMORY, "no memory for a cache of %u slots", (unsigned)run->n_slots);
    }
    free(sim.key_of);
    free(sim.slot_of);
    cache_policy_free(sim.policy);
    return code;
}

// ---- For everybody
// ---------------------------------------------------------------------------------------------------

static void count_uses(const struct sim_trace *trace, struct moe_trace_replayed *out)
{
    memcpy(out->model, trace->header.model, sizeof trace->header.model);
    out->n_moe_layers = trace->header.n_layers - trace->header.first_moe_layer;
    out->n_routed_experts = trace->header.n_routed_experts;
    out->top_k = trace->header.top_k;
    out->slot_bytes = trace->header.slot_bytes;
    out->tokens = trace->tokens;
    out->cut = trace->cut;
    for (uint64_t r = 0; r < trace->n_requests; r++)
        *(trace->requests[r].prefill ? &out->prefill_uses : &out->decode_uses) += trace->requests[r].n;
}

static int replay_all(const struct sim_trace *trace, struct moe_trace_replayed *out, struct moe_err *err)
{
    static const unsigned percents[] = {0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
    uint64_t experts = (uint64_t)out->n_moe_layers * out->n_routed_experts;
    int code = MOE_OK;
    for (size_t i = 0; i < sizeof percents / sizeof percents[0] && !code; i++) {
        struct moe_trace_row *row = &out->rows[out->n_rows];
        row->slots = experts * percents[i] / 100;
        if (row->slots < out->top_k)
            row->slots = out->top_k;
        if (out->n_rows && row->slots == row[-1].slots)
            continue;
        for (int kind = 0; kind < CACHE_POLICIES && !code; kind++) {
            struct sim_run run = {.kind = (enum cache_policy_kind)kind, .n_slots = (uint32_t)row->slots};
            struct sim_hits hits;
            code = sim_replay(trace, &run, &hits, err);
            row->decode_hits[kind] = hits.decode;
            row->prefill_hits[kind] = hits.prefill;
        }
        out->n_rows++;
    }
    return code;
}

int moe_trace_replay(const char *path, struct moe_trace_replayed *out, struct moe_err *err)
{
    _Static_assert((int)CACHE_POLICIES == (int)MOE_TRACE_POLICIES, "the same, in the same order");
    int fd;
    uint64_t bytes;
    memset(out, 0, sizeof *out);
    int code = file_open(path, &fd, &bytes, err);
    if (code)
        return code;
    void *memory = bytes <= MOST_TRACE_BYTES ? malloc(bytes + 1) : NULL;
    struct sim_trace trace = {0};
    if (memory) {
        struct file_range range = {fd, path, 0, (size_t)bytes};
        code = file_read(&range, memory, err);
    } else {
        code =
            moe_fail(err, MOE_NO_MEMORY, "%.300s: a trace of %llu bytes is too long", path, (unsigned long long)bytes);
    }
    close(fd);
    if (!code)
        code = sim_load(memory, (size_t)bytes, path, &trace, err);
    free(memory);
    if (!code) {
        count_uses(&trace, out);
        code = replay_all(&trace, out, err);
    }
    sim_release(&trace);
    return code;
}
