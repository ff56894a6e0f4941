// SPDX-License-Identifier: GPL-3.0-or-later
// How fast the expert store is by itself: experts are fetched as tokens fetch them, a layer's at a time and the next
// layer's before those are waited for, and nothing is computed with them.
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/draws.h"
#include "engine/base/err.h"
#include "engine/model/model.h"

enum { MOST_AT_ONCE = 2 }; // requests

struct fetches {
    moe_model *model;
    enum moe_origin from;
    uint64_t random;
    uint32_t layer;  // of the request before
    uint32_t wanted; // experts of a request
    int32_t *ids;    // [n_routed_experts]
    struct fetch {
        struct expert_place *places; // [wanted]
        uint32_t n;
    } under_way[MOST_AT_ONCE];
    uint32_t at_once, first, count; // a ring
};

// Random experts of the next layer that has any at the place; 0: there are none left.
static uint32_t choose(struct fetches *f)
{
    const struct shape *s = &f->model->package.shape;
    for (uint32_t tried = s->first_k_dense_replace; tried < s->n_layers; tried++) {
        uint32_t n = 0;
        f->layer = f->layer + 1 < s->n_layers ? f->layer + 1 : s->first_k_dense_replace;
        for (uint32_t i = 0; i < s->n_routed_experts; i++)
            if (expert_where(f->model->store, f->layer, i) == f->from)
                f->ids[n++] = (int32_t)i;
        uint32_t chosen = n < f->wanted ? n : f->wanted;
        for (uint32_t i = 0; i < chosen; i++) {
            uint32_t other = i + draw_below(&f->random, n - i);
            int32_t id = f->ids[other];
            f->ids[other] = f->ids[i];
            f->ids[i] = id;
        }
        if (chosen)
            return chosen;
    }
    return 0;
}

static int begin(struct fetches *f, bool *none, struct moe_err *err)
{
    struct fetch *fetch = &f->under_way[(f->first + f->count) % MOST_AT_ONCE];
    fetch->n = choose(f);
    *none = !fetch->n;
    struct expert_request request = {.layer = f->layer, .ids = f->ids, .n = fetch->n, .use = CACHE_PREFILL};
    int code = *none ? MOE_OK : expert_acquire(f->model->store, &request, fetch->places, err);
    f->count += !*none && !code;
    return code;
}

static int end(struct fetches *f, struct moe_err *err)
{
    struct fetch *fetch = &f->under_way[f->first];
    int code = MOE_OK;
    for (uint32_t i = 0; i < fetch->n && !code; i++)
        code = expert_wait(f->model->store, &fetch->places[i], NULL, NULL, err);
    expert_release(f->model->store, fetch->places, fetch->n);
    f->first = (f->first + 1) % MOST_AT_ONCE;
    f->count--;
    return code;
}

static uint64_t moved(const struct fetches *f)
{
    struct expert_counts counts = expert_store_counts(f->model->store);
    return f->from == MOE_FROM_DISK ? counts.bytes_read : counts.bytes_copied;
}

// Until the time is over, `most` bytes were moved, or no expert is left there.
static int run(struct fetches *f, double seconds, uint64_t most, struct moe_err *err)
{
    uint64_t until = clock_ns() + (uint64_t)(seconds * 1e9), from = moved(f);
    bool none = false;
    int code = MOE_OK;
    while (!code && !none && clock_ns() < until && moved(f) - from < most) {
        code = begin(f, &none, err);
        if (!code && !none && f->count == f->at_once)
            code = end(f, err);
    }
    while (f->count) {
        struct moe_err later;
        int failed = end(f, code ? &later : err);
        code = code ? code : failed;
    }
    return code;
}

static int measure(struct fetches *f, const struct moe_fetches *how, double *bytes_per_s, struct moe_err *err)
{
    enum { FILLING_SECONDS = 600 };
    struct moe_cache_plan plan = expert_store_plan(f->model->store);
    f->from = MOE_FROM_DISK;
    int code = how->from_host ? run(f, FILLING_SECONDS, plan.host_slots * plan.slot_bytes, err) : MOE_OK;
    f->from = how->from_host ? MOE_FROM_HOST : MOE_FROM_DISK;
    uint64_t bytes = moved(f), began = clock_ns();
    if (!code)
        code = run(f, how->seconds, UINT64_MAX, err);
    *bytes_per_s = (double)(moved(f) - bytes) * 1e9 / (double)(clock_ns() - began);
    return code;
}

int moe_model_measure_fetches(moe_model *model, const struct moe_fetches *how, double *bytes_per_s, struct moe_err *err)
{
    const struct shape *s = &model->package.shape;
    uint32_t slots = expert_least_slots(model->store);
    struct fetches f = {.model = model, .random = how->seed, .layer = s->n_layers, .wanted = s->top_k};
    f.at_once = slots / s->top_k < MOST_AT_ONCE ? 1 : MOST_AT_ONCE;
    *bytes_per_s = 0;
    model->store_used_by = NULL;
    f.ids = calloc(s->n_routed_experts, sizeof *f.ids);
    bool fine = f.ids;
    for (int i = 0; i < MOST_AT_ONCE; i++)
        fine &= (f.under_way[i].places = calloc(f.wanted, sizeof *f.under_way[i].places)) != NULL;
    int code = fine ? measure(&f, how, bytes_per_s, err) : moe_fail(err, MOE_NO_MEMORY, "no memory for measuring");
    for (int i = 0; i < MOST_AT_ONCE; i++)
        free(f.under_way[i].places);
    free(f.ids);
    return code;
}
