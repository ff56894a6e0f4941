// SPDX-License-Identifier: GPL-3.0-or-later
// Random experts, as many at once as there are readers.
#include "engine/experts/disk_probe.h"

#include "engine/base/clock.h"

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
    dice->state = dice->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint32_t pick = (uint32_t)(dice->state >> 33) % ((s->n_layers - first) * s->n_routed_experts);
    return (struct flight_order){
        .layer = first + pick / s->n_routed_experts,
        .expert = pick % s->n_routed_experts,
        .target = target,
        .owner = target,
    };
}

uint64_t disk_probe(struct flights *flights, const struct disk_probe *probe)
{
    struct dice dice = {&flights->package->shape, probe->seed * UINT64_C(0x9E3779B97F4A7C15)};
    struct read_failure failure = {.result = READ_FULL};
    uint64_t bytes = 0;
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
        bytes += flight->delivered;
        failed |= flight->failure.result != READ_FULL;
        flights_done(flights, flight);
        under_way--;
        if (failed || clock_ns() - began > PROBE_NS)
            continue;
        struct flight_order order = draw(&dice, target);
        failed = !flights_begin(flights, &order, &failure);
        under_way += !failed;
    }
    uint64_t spent = clock_ns() - began;
    return failed || !spent ? 0 : (uint64_t)((double)bytes * 1e9 / (double)spent);
}
