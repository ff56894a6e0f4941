// SPDX-License-Identifier: GPL-3.0-or-later
// Fills the record of a step.
#include "engine/walk/telemetry.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"

int telemetry_open(const struct shape *shape, const expert_store *store, struct telemetry *t, struct moe_err *err)
{
    uint32_t n_layers = shape->n_layers - shape->first_k_dense_replace;
    *t = (struct telemetry){0};
    t->most_marks = 3 * shape->n_layers + 2; // attention, router, experts of each
    t->marks = calloc(t->most_marks, sizeof *t->marks);
    t->heat = calloc((size_t)n_layers * shape->n_routed_experts, sizeof *t->heat);
    t->seen = calloc(n_layers, sizeof *t->seen);
    t->so_far = calloc(n_layers, sizeof *t->so_far);
    bool fine = t->heat && t->seen && t->so_far && t->marks;
    for (int i = 0; i < 2; i++) {
        t->layers[i] = calloc(n_layers, sizeof *t->layers[i]);
        t->choices[i] = calloc((size_t)n_layers * shape->top_k, sizeof *t->choices[i]);
        fine = fine && t->layers[i] && t->choices[i];
        t->records[i] = (struct moe_telemetry){
            .n_moe_layers = n_layers,
            .first_moe_layer = shape->first_k_dense_replace,
            .top_k = shape->top_k,
            .n_routed_experts = shape->n_routed_experts,
            .layers = t->layers[i],
        };
    }
    if (fine) {
        telemetry_pass_over(t, store);
        return MOE_OK;
    }
    telemetry_release(t);
    return moe_fail(err, MOE_NO_MEMORY, "no memory for the records of a session");
}

void telemetry_release(struct telemetry *t)
{
    for (int i = 0; i < 2; i++) {
        free(t->layers[i]);
        free(t->choices[i]);
    }
    free(t->marks);
    free(t->heat);
    free(t->seen);
    free(t->so_far);
    *t = (struct telemetry){0};
}

void telemetry_pass_over(struct telemetry *t, const expert_store *store)
{
    for (uint32_t i = 0; i < t->records[0].n_moe_layers; i++)
        expert_store_layer(store, t->records[0].first_moe_layer + i, &t->seen[i]);
}

// The record that is being written.
static struct moe_telemetry *draft(struct telemetry *t)
{
    return &t->records[!t->shown];
}

static struct moe_telemetry *new_draft(struct telemetry *t, const struct moe_telemetry *about)
{
    struct moe_telemetry *step = draft(t);
    step->position = about->position;
    step->rows = about->rows;
    step->decode = about->decode;
    step->shared_out = step->stopped = false;
    step->choices = about->decode ? t->choices[!t->shown] : NULL;
    memset(step->ns, 0, sizeof step->ns);
    for (uint32_t i = 0; i < step->n_moe_layers; i++)
        t->layers[!t->shown][i] = (struct moe_layer_record){.layer = step->first_moe_layer + i};
    return step;
}

void telemetry_begin(struct telemetry *t, gpu *g, const struct moe_telemetry *about)
{
    new_draft(t, about);
    t->device = gpu_counters(g);
    t->n_marks = 0;
    t->rarely = false;
    t->under_way = true;
    t->on = MOE_ON_HOST;
    t->began_ns = t->switched_ns = clock_ns();
}

void telemetry_look_rarely(struct telemetry *t)
{
    t->rarely = true;
}

static bool has_copied(struct telemetry *t)
{
    const struct moe_telemetry *step = draft(t);
    for (uint32_t i = 0; i < step->n_moe_layers; i++)
        if (step->layers[i].bytes_device)
            return true;
    return false;
}

// Of a step that is looked at rarely: keeps its shares if it was, else divides by those of the one that was. Copies
// have none where there were none.
static void share_out(struct telemetry *t, uint64_t ns[MOE_INTERVALS])
{
    static const enum moe_interval shared[] = {MOE_ON_ATTENTION, MOE_ON_ROUTER, MOE_ON_EXPERTS, MOE_ON_HEAD,
                                               MOE_ON_COPY};
    int n = (int)(sizeof shared / sizeof *shared) - !has_copied(t);
    uint64_t sum = 0, left;
    for (int i = 0; i < n; i++)
        sum += ns[shared[i]];
    if (!t->left) {
        t->left = TELEMETRY_EVERY - 1;
        for (int i = 0; i < n; i++)
            t->shares[shared[i]] = sum ? (double)ns[shared[i]] / (double)sum : 0;
        return;
    }
    t->left--;
    left = sum;
    for (int i = 1; i < n; i++) {
        uint64_t part = (uint64_t)(t->shares[shared[i]] * (double)sum);
        ns[shared[i]] = part < left ? part : left;
        left -= ns[shared[i]];
    }
    ns[shared[0]] = left;
}

static void end(struct telemetry *t, gpu *g)
{
    struct moe_telemetry *step = draft(t);
    struct gpu_counts now = gpu_counters(g);
    step->launches = now.launches - t->device.launches;
    step->waits = now.waits - t->device.waits;
    step->ended_ns = t->switched_ns;
    step->step = ++t->steps;
    t->shown = !t->shown;
    t->under_way = false;
}

void telemetry_end(struct telemetry *t, gpu *g)
{
    struct moe_telemetry *step = draft(t);
    telemetry_switch(t, MOE_ON_HOST);
    step->total_ns = t->switched_ns - t->began_ns;
    if (t->rarely && !t->unmarked) {
        step->shared_out = t->left;
        share_out(t, step->ns);
    }
    end(t, g);
}

// Adds what the store has counted of the layer since its last record. Returns its counts as they are now.
static struct expert_layer_counts add_counts(const struct telemetry *t, uint32_t row, const expert_store *store,
                                             struct moe_layer_record *record)
{
    struct expert_layer_counts now, before = t->seen[row];
    expert_store_layer(store, record->layer, &now);
    record->wasted += (uint32_t)(now.wasted - before.wasted);
    record->bytes_disk += now.bytes_disk - before.bytes_disk;
    record->bytes_cached += now.bytes_cached - before.bytes_cached;
    record->bytes_device += now.bytes_device - before.bytes_device;
    return now;
}

// From now on that is this step's.
static void take_counts(struct telemetry *t, uint32_t layer, const expert_store *store)
{
    uint32_t row = layer - draft(t)->first_moe_layer;
    t->seen[row] = add_counts(t, row, store, &t->layers[!t->shown][row]);
}

static void take_all_counts(struct telemetry *t, const expert_store *store)
{
    const struct moe_telemetry *step = draft(t);
    for (uint32_t i = 0; i < step->n_moe_layers; i++)
        take_counts(t, step->first_moe_layer + i, store);
}

const struct moe_telemetry *telemetry_rest(struct telemetry *t, const expert_store *store)
{
    struct moe_telemetry *rest = new_draft(t, &(struct moe_telemetry){.position = t->records[t->shown].position});
    rest->step = t->steps;
    rest->total_ns = rest->ended_ns = rest->launches = rest->waits = 0;
    take_all_counts(t, store);
    return rest;
}

void telemetry_stop(struct telemetry *t, gpu *g, const expert_store *store)
{
    struct moe_telemetry *step = draft(t);
    telemetry_switch(t, MOE_ON_HOST);
    step->total_ns = t->switched_ns - t->began_ns;
    take_all_counts(t, store);
    step->stopped = true;
    step->rows = 0;
    step->choices = NULL;
    end(t, g);
}

const struct moe_telemetry *telemetry_so_far(struct telemetry *t, gpu *g, const expert_store *store, uint32_t layer)
{
    if (!t->under_way)
        return NULL;
    struct moe_telemetry *so_far = &t->looked_at;
    struct gpu_counts device = gpu_counters(g);
    *so_far = *draft(t);
    so_far->layers = memcpy(t->so_far, t->layers[!t->shown], so_far->n_moe_layers * sizeof *t->so_far);
    for (uint32_t i = 0; i < so_far->n_moe_layers; i++)
        add_counts(t, i, store, &t->so_far[i]);
    if (layer != UINT32_MAX)
        t->so_far[layer - so_far->first_moe_layer].wait_ns += t->wait_ns;
    so_far->step = t->steps + 1;
    so_far->choices = NULL; // whose weights are not known yet
    so_far->ended_ns = clock_ns();
    so_far->ns[t->on] += so_far->ended_ns - t->switched_ns;
    so_far->total_ns = so_far->ended_ns - t->began_ns;
    so_far->launches = device.launches - t->device.launches;
    so_far->waits = device.waits - t->device.waits;
    return so_far;
}

void telemetry_set_rows(struct telemetry *t, uint32_t rows)
{
    t->records[t->shown].rows = rows;
}

enum moe_interval telemetry_switch(struct telemetry *t, enum moe_interval interval)
{
    uint64_t now = clock_ns();
    enum moe_interval before = t->on;
    draft(t)->ns[before] += now - t->switched_ns;
    t->switched_ns = now;
    t->on = interval;
    return before;
}

void telemetry_mark(struct telemetry *t, gpu *g, enum moe_interval of)
{
    bool looked_at = !t->unmarked && !(t->rarely && t->left);
    if (looked_at && t->n_marks < t->most_marks) // else it is part of the next one
        t->marks[t->n_marks++] = (struct telemetry_mark){gpu_fence(g), of};
}

void telemetry_settle(struct telemetry *t, gpu *g, enum moe_interval then)
{
    for (unsigned i = 0; i < t->n_marks; i++) {
        telemetry_switch(t, t->marks[i].of);
        gpu_fence_wait(g, t->marks[i].fence);
    }
    t->n_marks = 0;
    telemetry_switch(t, then);
}

void telemetry_layer_begin(struct telemetry *t, const expert_store *store)
{
    struct expert_counts now = expert_store_counts(store);
    t->waited_ns = now.wait_ns;
    t->copy_ns = now.wait_copy_ns;
    t->wait_ns = 0;
}

void telemetry_layer_end(struct telemetry *t, uint32_t layer, const expert_store *store)
{
    take_counts(t, layer, store);
    t->layers[!t->shown][layer - draft(t)->first_moe_layer].wait_ns += t->wait_ns;
}

uint64_t telemetry_waited(struct telemetry *t, const expert_store *store)
{
    struct expert_counts now = expert_store_counts(store);
    uint64_t all = now.wait_ns - t->waited_ns, copy = now.wait_copy_ns - t->copy_ns;
    if (!all)
        return 0;
    uint64_t *ns = draft(t)->ns;
    telemetry_switch(t, t->on);
    ns[t->on] -= all;
    ns[MOE_ON_COPY] += copy;
    ns[MOE_ON_DISK] += all - copy;
    t->waited_ns = now.wait_ns;
    t->copy_ns = now.wait_copy_ns;
    t->wait_ns += all;
    return all;
}

void telemetry_use(struct telemetry *t, const expert_store *store, const struct telemetry_use *use)
{
    struct moe_telemetry *step = draft(t);
    uint64_t wait_us = telemetry_waited(t, store) / 1000;
    uint32_t row = use->place->layer - step->first_moe_layer;
    t->layers[!t->shown][row].n_from[use->place->origin]++;
    t->heat[(size_t)row * step->n_routed_experts + use->place->expert] += use->rows;
    if (!step->decode)
        return;
    t->choices[!t->shown][(size_t)row * step->top_k + use->rank] = (struct moe_choice){
        .expert = (uint16_t)use->place->expert,
        .origin = (uint8_t)use->place->origin,
        .wait_us = wait_us < UINT32_MAX ? (uint32_t)wait_us : UINT32_MAX,
    };
}

void telemetry_weigh(struct telemetry *t, const float *weights)
{
    const struct moe_telemetry *step = draft(t);
    struct moe_choice *choices = t->choices[!t->shown];
    for (size_t i = 0; i < (size_t)step->n_moe_layers * step->top_k; i++)
        choices[i].weight = weights[i];
}
