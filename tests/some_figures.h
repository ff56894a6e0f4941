// SPDX-License-Identifier: GPL-3.0-or-later
// Figures of all kinds for tests/cases.h, at the edges of how they are written: test_view_cases, test_figures_cases.
#ifndef MOECHAT_SOME_FIGURES_H
#define MOECHAT_SOME_FIGURES_H

#include "app/figures/tally.h"
#include "engine/moe.h"
#include "tests/cases.h"

static inline double some_real(struct cases *cases)
{
    static const double reals[] = {-1, 0, 0.004, 0.05, 0.1, 0.5, 0.994, 0.996, 1, 1.25, 7.42, 59.6, 61, 999.4, 1234567};
    return reals[cases_draw(cases, sizeof reals / sizeof reals[0])];
}

static inline uint64_t some_whole(struct cases *cases)
{
    static const uint64_t wholes[] = {0,   0,    1,    2,     9,      10,      99,        100,
                                      999, 1000, 1001, 65536, 999999, 1000000, 123456789, 4000000000};
    return wholes[cases_draw(cases, sizeof wholes / sizeof wholes[0])];
}

enum { MOST_LAYERS = 9, MOST_EXPERTS = 40, TOP_K = 3 };

static inline void some_layers(struct cases *cases, struct moe_layer_record layers[MOST_LAYERS])
{
    for (uint32_t i = 0; i < MOST_LAYERS; i++) {
        layers[i] = (struct moe_layer_record){.layer = i + 1};
        for (int from = 0; from < MOE_ORIGINS; from++)
            layers[i].n_from[from] = (uint32_t)some_whole(cases);
        layers[i].wasted = (uint32_t)some_whole(cases);
        layers[i].bytes_disk = some_whole(cases);
        layers[i].bytes_cached = layers[i].bytes_disk / (1 + cases_draw(cases, 3));
        layers[i].bytes_device = cases_draw(cases, 3) ? 0 : some_whole(cases);
        layers[i].wait_ns = 1000 * some_whole(cases);
    }
}

static inline struct moe_telemetry some_record(struct cases *cases, const struct moe_layer_record *layers)
{
    struct moe_telemetry record = {.step = 1 + cases_draw(cases, 3),
                                   .rows = 1 + cases_draw(cases, 3),
                                   .decode = cases_draw(cases, 2),
                                   .shared_out = cases_draw(cases, 4) == 0,
                                   .stopped = cases_draw(cases, 6) == 0,
                                   .n_moe_layers = 1 + cases_draw(cases, MOST_LAYERS),
                                   .first_moe_layer = cases_draw(cases, 3),
                                   .top_k = TOP_K,
                                   .n_routed_experts = MOST_EXPERTS,
                                   .layers = layers};
    for (int i = 0; i < MOE_INTERVALS; i++)
        record.total_ns += record.ns[i] = cases_draw(cases, 2) ? 0 : 1000 * some_whole(cases);
    return record;
}

static inline struct tally some_tally(struct cases *cases)
{
    struct tally tally = {.read_tokens = some_whole(cases),
                          .read_ns = 1000 * some_whole(cases),
                          .answered_tokens = some_whole(cases),
                          .answer_steps = some_whole(cases),
                          .answer_ns = 1000 * some_whole(cases),
                          .hits = some_whole(cases),
                          .misses = some_whole(cases),
                          .ahead = some_whole(cases),
                          .wasted = some_whole(cases),
                          .bytes_read = some_whole(cases),
                          .bytes_copied = some_whole(cases),
                          .wait_ns = 1000 * some_whole(cases),
                          .rows = some_whole(cases),
                          .single_hits = some_whole(cases),
                          .single_asked = some_whole(cases),
                          .single_ahead = some_whole(cases),
                          .policy = cases_draw(cases, 2) ? "router" : NULL};
    tally.bytes_cached = tally.bytes_read / (1 + cases_draw(cases, 3));
    for (int i = 0; i < MOE_ORIGINS; i++)
        tally.from[i] = some_whole(cases);
    if (tally.policy && cases_draw(cases, 2))
        snprintf(tally.reason, sizeof tally.reason, "faster: 4.03 ms a token with it, 9.83 without");
    return tally;
}

#endif
