// SPDX-License-Identifier: GPL-3.0-or-later
// Random experts, as many at once as there are readers.
#include "engine/experts/disk_probe.h"

#include "engine/base/clock.h"
#include "engine/base/draws.h"

#define PROBE_NS 50000000u

struct dice {
    const struct shape *shape;
    uint64_t state;
};

// An expert of a MoE layer.
static struct flight_order draw(struct dice *dice, void *target, void *owner)
{
    const struct shape *s = dice->shape;
    uint32_t first = s->first_k_dense_replace;
    uint32_t pick = draw_below(&dice->state, (s->n_layers - first) * s->n_routed_experts);
    return (struct flight_order){
        .layer = first + pick / s->n_routed_experts,
        .expert = pick % s->n_routed_experts,
        .target = target,
        .owner = owner,
    };
}

// Of a read that took from one time to another, the part that came before a third, as if it had come evenly: reads that
// share a disk end together, a wave of them after the other, so those that have ended by some time say little of it.
static double part_before(uint64_t time, uint64_t from, uint64_t to)
{
    return to <= time ? 1 : from >= time ? 0 : (double)(time - from) / (double)(to - from);
}

static uint64_t rate(uint64_t bytes, uint64_t ns)
{
    return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

struct disk_probed disk_probe(struct flights *flights, const struct disk_probe *probe)
{
    struct dice dice = {&flights->package->shape, probe->seed * UINT64_C(0x9E3779B97F4A7C15)};
    struct read_failure failure = {.result = READ_FULL};
    struct disk_probed probed = {0};
    uint64_t from[PROBE_TARGETS] = {0}, first = 0, spent = 0;
    double half_bytes = 0;
    uint32_t under_way = 0;
    bool failed = false;
    uint64_t began = clock_ns();
    for (uint32_t i = 0; i < probe->n_targets && !failed; i++) {
        struct flight_order order = draw(&dice, probe->targets[i], &from[i]);
        failed = !flights_begin(flights, &order, &failure);
        under_way += !failed;
    }
    while (under_way) {
        struct flight *flight = flights_reap(flights, READER_FOREVER);
        if (flight->n_left)
            continue;
        uint64_t *since = flight->owner;
        spent = clock_ns() - began;
        first = first ? first : spent;
        half_bytes += (double)flight->delivered * part_before(PROBE_NS / 2, *since, spent);
        probed.bytes += flight->delivered;
        probed.cached += flight->cached;
        failed |= flight->failure.result != READ_FULL;
        flights_done(flights, flight);
        under_way--;
        if (failed || spent > PROBE_NS)
            continue;
        *since = spent;
        struct flight_order order = draw(&dice, probe->targets[since - from], since);
        failed = !flights_begin(flights, &order, &failure);
        under_way += !failed;
    }
    probed.bytes_per_s = failed ? 0 : rate(probed.bytes, spent);
    if (first && first < PROBE_NS && spent > PROBE_NS / 2) { // else the first read took all of the time
        probed.first_half = rate((uint64_t)half_bytes, PROBE_NS / 2);
        probed.rest = rate(probed.bytes - (uint64_t)half_bytes, spent - PROBE_NS / 2);
    }
    return probed;
}

const char *disk_probe_doubt(const struct disk_probed *probed, uint64_t all_bytes)
{
    enum { STEADY = 2, PLENTY = 64 << 20 };
    uint64_t a = probed->first_half, b = probed->rest;
    if (!probed->bytes_per_s)
        return "a read failed";
    if (all_bytes < PLENTY) // however little of it came in time, some cache below us may hold it
        return "the model is too small";
    if (probed->cached > probed->bytes / 20)
        return "it is in the page cache";
    if (probed->bytes > all_bytes / 2)
        return "the model is too small";
    if (a && b)
        return a <= STEADY * b && b <= STEADY * a ? NULL : "its speed varied";
    return probed->bytes >= PLENTY ? NULL : "too little came in time";
}
