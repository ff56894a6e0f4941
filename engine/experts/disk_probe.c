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
static struct flight_order draw(struct dice *dice, void *target)
{
    const struct shape *s = dice->shape;
    uint32_t first = s->first_k_dense_replace;
    uint32_t pick = draw_below(&dice->state, (s->n_layers - first) * s->n_routed_experts);
    return (struct flight_order){
        .layer = first + pick / s->n_routed_experts,
        .expert = pick % s->n_routed_experts,
        .target = target,
        .owner = target,
    };
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
    uint64_t half_bytes = 0, half_ns = 0;
    uint32_t under_way = 0;
    bool failed = false;
    uint64_t began = clock_ns();
    for (uint32_t i = 0; i < probe->n_targets && !failed; i++) {
        struct flight_order order = draw(&dice, probe->targets[i]);
        failed = !flights_begin(flights, &order, &failure);
        under_way += !failed;
    }
    while (under_way) {
        struct flight *flight = flights_reap(flights, READER_FOREVER);
        if (flight->n_left)
            continue;
        void *target = flight->owner;
        uint64_t spent = clock_ns() - began;
        probed.bytes += flight->delivered;
        probed.cached += flight->cached;
        failed |= flight->failure.result != READ_FULL;
        flights_done(flights, flight);
        under_way--;
        if (!half_ns && spent >= PROBE_NS / 2) {
            half_ns = spent;
            half_bytes = probed.bytes;
        }
        if (failed || spent > PROBE_NS)
            continue;
        struct flight_order order = draw(&dice, target);
        failed = !flights_begin(flights, &order, &failure);
        under_way += !failed;
    }
    uint64_t spent = clock_ns() - began;
    probed.bytes_per_s = failed ? 0 : rate(probed.bytes, spent);
    if (half_ns && half_ns < PROBE_NS) { // else the first read took all of the time
        probed.first_half = rate(half_bytes, half_ns);
        probed.rest = rate(probed.bytes - half_bytes, spent - half_ns);
    }
    return probed;
}

bool disk_probe_holds(const struct disk_probed *probed, uint64_t all_bytes)
{
    enum { STEADY = 2, PLENTY = 64 << 20 };
    uint64_t a = probed->first_half, b = probed->rest;
    bool steady = a && b ? a <= STEADY * b && b <= STEADY * a : probed->bytes >= PLENTY;
    return probed->bytes_per_s && probed->cached <= probed->bytes / 20 && probed->bytes <= all_bytes / 2 && steady;
}
