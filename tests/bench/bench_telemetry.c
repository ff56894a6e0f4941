// SPDX-License-Identifier: GPL-3.0-or-later
// What a token's record costs: the stopwatch of the demo's layers, the copies and sums that the worker makes of it; and
// what a look at where all experts are costs, for the heat map.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/experts/expert_parts.h"
#include "app/figures/figures.h"
#include "engine/moe.h"
#include "app/driver/steps.h"
#include "engine/walk/telemetry.h"

enum { ROUNDS = 20000 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Of a model whose experts all have a slot, in ns.
static double look(uint32_t n_layers, uint32_t n_experts)
{
    enum { LOOKS = 200 };
    uint32_t n = n_layers * n_experts;
    struct slot *slots = calloc(n, sizeof *slots);
    uint8_t *tiers = malloc(n);
    if (!slots || !tiers)
        abort();
    for (uint32_t i = 0; i < n; i++)
        slots[i] = (struct slot){.state = SLOT_READY, .key = i * 7919 % n};
    struct size_class size = {.device = {.slots = slots, .n_slots = n}};
    const struct expert_store store = {.n_layers = n_layers, .n_experts = n_experts, .classes = &size, .n_classes = 1};
    uint64_t began = now_ns();
    for (int i = 0; i < LOOKS; i++)
        expert_store_tiers(&store, tiers);
    double took = (double)(now_ns() - began) / LOOKS;
    free(slots);
    free(tiers);
    return took;
}

int main(void)
{
    struct moe_layer_record layers[6] = {{0}};
    struct moe_choice choices[24] = {{0}};
    static float logits[4096];
    uint32_t heat[6 * 32] = {0};
    struct moe_telemetry record = {.decode = true,
                                   .rows = 1,
                                   .n_moe_layers = 6,
                                   .top_k = 4,
                                   .n_routed_experts = 32,
                                   .layers = layers,
                                   .choices = choices};
    struct figures figures = {0};
    struct moe_candidate candidates[STEPS_CANDIDATES];
    struct telemetry stopwatch = {
        .layers = {layers, layers}, .records = {record, record}, .choices = {choices, choices}, .heat = heat};
    struct expert_layer_counts counts[6] = {{0}};
    const struct expert_store store = {.n_layers = 6, .layers = counts}; // nobody waits for it
    for (int i = 0; i < 4096; i++)
        logits[i] = (float)(i * 7919 % 4096) / 200;
    uint64_t began = now_ns();
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t layer = 0; layer < 6; layer++) {
            for (int i = 0; i < 9; i++) // attention, router, the waits for them, host, experts
                telemetry_switch(&stopwatch, (enum moe_interval)(i % MOE_INTERVALS));
            for (uint32_t k = 0; k < 4; k++) {
                struct expert_place place = {.layer = layer, .expert = k};
                telemetry_use(&stopwatch, &store, &(struct telemetry_use){&place, k, 1});
            }
        }
    uint64_t watched = now_ns();
    for (int round = 0; round < ROUNDS; round++) {
        struct moe_telemetry *clone = figures_clone(&record);
        figures_take(&figures, clone, false, heat);
        free(clone);
    }
    uint64_t copied = now_ns();
    for (int round = 0; round < ROUNDS; round++)
        moe_candidates(logits, 4096, candidates, STEPS_CANDIDATES);
    uint64_t ended = now_ns();
    struct hit_curve curve = {0};
    hit_curve_open(&curve, 6 * 32);
    for (uint32_t use = 0; use < ROUNDS * 24; use++)
        hit_curve_use(&curve, use * 2654435761u % 192);
    uint64_t curved = now_ns();
    hit_curve_release(&curve);
    double watch = (double)(watched - began) / ROUNDS, copy = (double)(copied - watched) / ROUNDS;
    double choose = (double)(ended - copied) / ROUNDS;
    double count = (double)(curved - ended) / ROUNDS;
    printf(
        "a token's record: %.0f ns for the stopwatch, %.0f ns to copy and add up, %.0f ns for its candidates, %.0f ns "
        "for the hit curve; together %.2f %% of the demo's token of 1.75 ms\n",
        watch, copy, choose, count, (watch + copy + choose + count) / 17500);
    double demo = look(6, 32), large = look(58, 256);
    printf("a look at where the experts are: %.0f ns, %.0f ns with DeepSeek-V3's 58 x 256; once in %d ms it takes %.4f "
           "and %.4f %% of the time\n",
           demo, large, STEPS_LOOK_NS / 1000000, demo / STEPS_LOOK_NS * 100, large / STEPS_LOOK_NS * 100);
    figures_release(&figures);
    return 0;
}
