// SPDX-License-Identifier: GPL-3.0-or-later
// Budgets into slots, and refusals with what would work.
#include "engine/experts/cache_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/amounts.h"
#include "engine/base/err.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t whole_mib(uint64_t bytes)
{
    return bytes / (1U << 20) + (bytes % (1U << 20) != 0);
}

static bool is_share(uint64_t budget)
{
    return budget > MOE_CACHE_SHARE(0) && budget <= MOE_CACHE_SHARE(1000);
}

// `automatic` is what auto fills when not all experts fit in it.
static uint64_t budget_bytes(uint64_t budget, uint64_t left, uint64_t automatic)
{
    if (budget == MOE_CACHE_AUTO)
        return automatic;
    if (is_share(budget))
        return left / 1000 * (budget - MOE_CACHE_SHARE(0)) + left % 1000 * (budget - MOE_CACHE_SHARE(0)) / 1000;
    return budget; // MOE_CACHE_ALL is the largest of all
}

static int fail_memory(const char *option, uint64_t needs, uint64_t left, struct moe_err *err)
{
    return moe_fail(err, MOE_NO_MEMORY,
                    "%s: %" PRIu64 " MiB are more than the %" PRIu64 " MiB of memory that are free; give it at most "
                    "%" PRIu64 " MiB, a share such as 50%%, or auto",
                    option, whole_mib(needs), left >> 20, left / 10 * 9 >> 20);
}

uint64_t cache_least(const struct cache_question *question)
{
    return smaller(question->dispatches * question->per_dispatch, question->n_experts);
}

struct remedy {
    const char *option;
    uint64_t bytes;
};

static int fail_budget(const char *what, uint64_t budget, const char *holds, struct remedy remedy, struct moe_err *err)
{
    char has[AMOUNT_SIZE], least[AMOUNT_SIZE];
    amount_to_type(has, budget, false);
    amount_to_type(least, remedy.bytes, true);
    if (strcmp(has, least) == 0) // three digits don't tell them apart
        snprintf(has, sizeof has, "%" PRIu64 "B", budget);
    return moe_fail(err, MOE_BUDGET, "%s of %s holds %s: give %s%s or more", what, has, holds, remedy.option, least);
}

static int plan_device(const struct cache_question *q, struct cache_answer *answer, struct moe_err *err)
{
    // A device's own memory also holds what the sessions need; the host's also the rest of the machine.
    uint64_t automatic = q->two_tiers ? q->device_left / 4 * 3 : q->device_left / 2;
    uint64_t budget = budget_bytes(q->device_bytes, q->device_left, automatic);
    uint64_t slots = smaller(budget / q->slot_bytes, q->n_experts);
    uint64_t least = cache_least(q), smallest = least * q->slot_bytes;
    if (slots < least) {
        char holds[160];
        snprintf(holds, sizeof holds, "%" PRIu64 " of the %" PRIu64 " experts that %" PRIu64 " layer%s", slots, least,
                 q->dispatches, q->dispatches == 1 ? " in flight needs" : "s in flight need");
        return fail_budget("an expert cache", budget, holds, (struct remedy){"--expert-cache ", smallest}, err);
    }
    if (slots * q->slot_bytes > q->device_left)
        return fail_memory("--expert-cache", slots * q->slot_bytes, q->device_left, err);
    answer->device_slots = slots;
    return MOE_OK;
}

// One half of these is read while the other is copied.
static uint64_t passing_slots(const struct cache_question *q, uint64_t device_slots)
{
    return device_slots / 2 > q->per_dispatch ? 2 * q->per_dispatch : device_slots;
}

static int plan_host(const struct cache_question *q, struct cache_answer *answer, struct moe_err *err)
{
    uint64_t passing = passing_slots(q, answer->device_slots);
    answer->host_slots = passing;
    answer->host_only_passes = true;
    if (q->host_bytes == MOE_CACHE_NONE)
        return MOE_OK;
    uint64_t budget = budget_bytes(q->host_bytes, q->host_left, q->host_left / 2);
    uint64_t slots = smaller(budget / q->slot_bytes, q->n_experts);
    // What the device has too is no gain.
    if (q->host_bytes == MOE_CACHE_AUTO && slots <= answer->device_slots)
        return MOE_OK;
    if (slots < passing) {
        char holds[160];
        snprintf(holds, sizeof holds, "%" PRIu64 " experts and %" PRIu64 " pass through it at once", slots, passing);
        return fail_budget("a host cache", budget, holds,
                           (struct remedy){"--host-cache none, or ", passing * q->slot_bytes}, err);
    }
    answer->host_slots = slots;
    answer->host_only_passes = slots == passing;
    return MOE_OK;
}

int cache_plan(const struct cache_question *question, struct cache_answer *answer, struct moe_err *err)
{
    *answer = (struct cache_answer){0};
    int code = plan_device(question, answer, err);
    if (!code && question->two_tiers)
        code = plan_host(question, answer, err);
    if (!code && answer->host_slots * question->slot_bytes > question->host_left)
        code = fail_memory("--host-cache", answer->host_slots * question->slot_bytes, question->host_left, err);
    return code;
}

// ---- Sizes

// Bytes that slots of these sizes, ascending, take beyond what the layers' experts do; UINT64_MAX: one does not fit.
static uint64_t waste(const uint64_t *bytes, uint32_t n_layers, const uint64_t *sizes, uint32_t n)
{
    uint64_t wasted = 0;
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        uint32_t i = 0;
        while (i < n && sizes[i] < bytes[layer])
            i++;
        if (i == n)
            return UINT64_MAX;
        wasted += bytes[layer] ? sizes[i] - bytes[layer] : 0;
    }
    return wasted;
}

// The best `n` sizes whose largest is `largest`; each of the others is some layer's.
static uint64_t choose_sizes(const uint64_t *bytes, uint32_t n_layers, uint64_t largest, uint64_t *sizes, uint32_t n)
{
    uint64_t trial[CACHE_SIZES] = {0}, least = UINT64_MAX;
    for (uint32_t a = 0; a < (n > 1 ? n_layers : 1); a++)
        for (uint32_t b = a; b < (n > 2 ? n_layers : a + 1); b++) {
            uint64_t first = bytes[a] < bytes[b] ? bytes[a] : bytes[b],
                     second = bytes[a] < bytes[b] ? bytes[b] : bytes[a];
            trial[0] = n > 1 ? first : largest;
            trial[1] = n > 2 ? second : largest;
            trial[2] = largest;
            uint64_t wasted = waste(bytes, n_layers, trial, n);
            for (uint32_t i = 0; wasted < least && i < n; i++)
                sizes[i] = trial[i];
            least = wasted < least ? wasted : least;
        }
    return least;
}

uint32_t cache_sizes(const uint64_t *bytes, uint32_t n_layers, uint32_t n_experts, struct cache_size sizes[CACHE_SIZES],
                     uint32_t *of_layer)
{
    uint64_t chosen[CACHE_SIZES] = {0}, largest = 0, all = 0;
    uint32_t n = 1;
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        largest = bytes[layer] > largest ? bytes[layer] : largest;
        all += bytes[layer];
    }
    while (choose_sizes(bytes, n_layers, largest, chosen, n) > all / 20 && n < CACHE_SIZES)
        n++;
    for (uint32_t i = 0; i < n; i++)
        sizes[i] = (struct cache_size){.slot_bytes = chosen[i]};
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        of_layer[layer] = 0;
        while (chosen[of_layer[layer]] < bytes[layer])
            of_layer[layer]++;
        sizes[of_layer[layer]].n_experts += bytes[layer] ? n_experts : 0;
    }
    return n;
}

static uint64_t n_experts_of(const struct cache_size *sizes, uint32_t n)
{
    uint64_t experts = 0;
    for (uint32_t i = 0; i < n; i++)
        experts += sizes[i].n_experts;
    return experts;
}

uint64_t cache_mean(const struct cache_size *sizes, uint32_t n)
{
    uint64_t bytes = 0, experts = n_experts_of(sizes, n);
    for (uint32_t i = 0; i < n; i++)
        bytes += sizes[i].n_experts * sizes[i].slot_bytes;
    return (bytes + experts - 1) / experts;
}

bool cache_share(const struct cache_question *q, struct cache_answer *answer, struct cache_size *sizes, uint32_t n)
{
    uint64_t experts = n_experts_of(sizes, n), device = 0, host = 0, host_bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct cache_size *size = &sizes[i];
        size->device_slots = answer->device_slots * size->n_experts / experts;
        uint64_t passing = passing_slots(q, size->device_slots);
        size->host_slots = answer->host_only_passes ? passing : answer->host_slots * size->n_experts / experts;
        if (size->device_slots < smaller(q->dispatches * q->per_dispatch, size->n_experts) ||
            (q->two_tiers && size->host_slots < passing))
            return false;
        device += size->device_slots;
        host += size->host_slots;
        host_bytes += size->host_slots * size->slot_bytes;
    }
    if (host_bytes > q->host_left)
        return false;
    answer->device_slots = device;
    answer->host_slots = q->two_tiers ? host : 0;
    return true;
}
