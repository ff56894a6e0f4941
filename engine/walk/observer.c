// SPDX-License-Identifier: GPL-3.0-or-later
// The stages of a pass, as the record and the pace see them.
#include "engine/walk/observer.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/walk/pass.h"

int observer_open(const struct observer_options *options, struct observer *o, struct moe_err *err)
{
    const struct shape *s = options->shape;
    size_t n_moe_layers = s->n_layers - s->first_k_dense_replace;
    *o = (struct observer){
        .gpu = options->gpu,
        .shape = s,
        .store = options->store,
        .cancel = options->cancel,
        .tiers = calloc(n_moe_layers + 1, s->n_routed_experts),
        .missing = calloc(s->n_layers, sizeof *o->missing),
        .given = MOE_ON_HOST,
    };
    int code = telemetry_open(s, options->store, &o->telemetry, err);
    o->telemetry.unmarked = options->without & MOE_WITHOUT_MARKS;
    if (!code && (!o->tiers || !o->missing))
        code = moe_fail(err, MOE_NO_MEMORY, "no memory for the time left of prompts");
    if (code)
        observer_release(o);
    return code;
}

void observer_release(struct observer *o)
{
    telemetry_release(&o->telemetry);
    free(o->tiers);
    free(o->missing);
    *o = (struct observer){0};
}

bool observer_cancelled(void *observer)
{
    return atomic_load(((const struct observer *)observer)->cancel);
}

const struct moe_telemetry *observer_so_far(struct observer *o)
{
    return telemetry_so_far(&o->telemetry, o->gpu, o->store, o->in_layer ? o->layer : UINT32_MAX);
}

// The time, and what the store has read and was waited for.
static struct pace_clock look_at_clock(const struct observer *o)
{
    struct expert_counts counts = expert_store_counts(o->store);
    return (struct pace_clock){clock_ns(), counts.wait_ns, counts.bytes_read};
}

static void begin_pace(struct observer *o, const struct observer_feed *about)
{
    struct moe_cache_plan cache = expert_store_plan(o->store);
    expert_store_tiers(o->store, o->tiers);
    struct pace_plan plan = {
        .shape = o->shape,
        .groups = about->groups,
        .position = o->feed.position,
        .tokens = (uint32_t)o->feed.count,
        .all_logits = o->feed.on_row,
        .tiers = o->tiers,
        .missing = o->missing,
        .slots = cache.host_slots > cache.slots ? cache.host_slots : cache.slots,
        .expert_bytes = cache.slot_bytes,
        .disk_bytes_per_s = (double)cache.probed_bytes_per_s,
        .ahead = about->ahead,
    };
    struct pace_clock at = look_at_clock(o);
    pace_begin(&o->pace, &plan, &at);
}

void observer_begin(struct observer *o, const struct observer_feed *about)
{
    o->feed = *about->feed;
    o->paced = o->feed.progress && !about->decode;
    o->bytes_before = expert_store_counts(o->store).bytes_read;
    if (o->paced)
        begin_pace(o, about);
}

static struct moe_progress progress_at(const struct observer *o, uint64_t tokens)
{
    return (struct moe_progress){
        .what = "reading prompt",
        .unit = "tokens",
        .done = tokens,
        .total = o->feed.count,
        .bytes_read = expert_store_counts(o->store).bytes_read - o->bytes_before,
    };
}

static void report_pace(const struct observer *o, uint64_t tokens)
{
    struct moe_progress at = progress_at(o, tokens);
    at.seconds_left = pace_seconds_left(&o->pace);
    at.bytes_left = (uint64_t)pace_bytes_left(&o->pace, o->bytes_before + at.bytes_read);
    o->feed.progress(o->feed.context, &at);
}

void observer_progress(const struct observer *o, uint64_t tokens)
{
    struct moe_progress at = progress_at(o, tokens);
    if (o->paced && tokens < o->feed.count)
        report_pace(o, tokens);
    else if (o->feed.progress)
        o->feed.progress(o->feed.context, &at);
}

// Says how far the prompt is: what a cancel would leave of it, so that both are told by one measure.
static void report_reach(const struct observer *o, const struct stream *stream)
{
    uint64_t before = o->pace.position - o->feed.position;
    report_pace(o, before + stream_tokens(&stream->reach, o->pace.rows, o->shape));
}

// ---- Stages ----

// Whose time a stage is.
static const enum moe_interval intervals[] = {
    [STAGE_ATTENTION] = MOE_ON_ATTENTION, [STAGE_ROUTER] = MOE_ON_ROUTER,
    [STAGE_MLP] = MOE_ON_EXPERTS,         [STAGE_ASK] = MOE_ON_HOST,
    [STAGE_COPY] = MOE_ON_COPY,           [STAGE_EXPERTS] = MOE_ON_EXPERTS,
    [STAGE_HEAD] = MOE_ON_HEAD,           [STAGE_HOST] = MOE_ON_HOST,
};

// What is given from now on is for something else than what was given before.
static void give(struct observer *o, enum moe_interval interval)
{
    if (interval == MOE_ON_HOST)
        return;
    if (o->given != MOE_ON_HOST && o->given != interval)
        telemetry_mark(&o->telemetry, o->gpu, o->given);
    o->given = interval;
}

static void leave_layer(struct observer *o)
{
    if (!o->in_layer)
        return;
    telemetry_waited(&o->telemetry, o->store);
    telemetry_layer_end(&o->telemetry, o->layer, o->store);
    o->in_layer = false;
}

static void pace_stage(const struct pass *pass, enum stage stage, uint32_t layer)
{
    struct observer *o = pass->observer;
    struct pace_clock at = look_at_clock(o);
    if (stage == STAGE_CHUNK) {
        pace_chunk(&o->pace, &(struct pace_chunk){layer, pass->position, pass->rows}, &at);
        report_reach(o, pass->stream);
    } else if (stage == STAGE_EXPERTS) {
        const uint32_t *first = pass->scratch->expert_first;
        uint32_t busy = 0;
        for (uint32_t e = 0; e < o->shape->n_routed_experts; e++)
            busy += first[e + 1] > first[e];
        pace_layer(&o->pace, layer, busy, &at);
    } else if (stage == STAGE_HEAD && o->feed.on_row) {
        pace_logits(&o->pace, pass->rows);
    }
}

void pass_stage(const struct pass *pass, enum stage stage, uint32_t layer)
{
    struct observer *o = pass->observer;
    struct telemetry *t = &o->telemetry;
    if (stage == STAGE_EXPERTS && o->in_layer)
        telemetry_waited(t, o->store);
    else if (stage != STAGE_CHUNK && stage != STAGE_COPY)
        leave_layer(o);
    if (stage == STAGE_WAIT) {
        telemetry_settle(t, o->gpu, o->given);
        o->given = MOE_ON_HOST;
    } else if (stage != STAGE_CHUNK) {
        give(o, intervals[stage]);
        telemetry_switch(t, intervals[stage]);
    }
    if (stage == STAGE_ASK) {
        telemetry_layer_begin(t, o->store);
        o->in_layer = true;
        o->layer = layer;
    }
    if (o->paced)
        pace_stage(pass, stage, layer);
}

void pass_begin(const struct pass *pass, bool begins)
{
    struct observer *o = pass->observer;
    struct moe_telemetry about = {.position = pass->position, .rows = pass->rows, .decode = pass->decode};
    o->given = MOE_ON_HOST;
    telemetry_begin(&o->telemetry, o->gpu, &about);
    if (o->paced)
        pace_begin_group(&o->pace, pass->rows);
    if (o->paced && !begins)
        pace_skip(&o->pace, pass->stream->reach.layer, pass->stream->reach.rows);
}

void pass_end(const struct pass *pass, int code)
{
    struct observer *o = pass->observer;
    leave_layer(o);
    if (code)
        telemetry_stop(&o->telemetry, o->gpu, o->store);
    else
        telemetry_end(&o->telemetry, o->gpu);
}

void pass_runs_ahead(const struct pass *pass)
{
    telemetry_look_rarely(&pass->observer->telemetry);
}

void pass_used(const struct pass *pass, const struct telemetry_use *use)
{
    struct observer *o = pass->observer;
    telemetry_use(&o->telemetry, o->store, use);
    if (!o->paced)
        return;
    struct pace_clock at = look_at_clock(o);
    pace_expert(&o->pace, use->rows, SWEEP_BEHIND, &at);
    report_reach(o, pass->stream);
}

void pass_weighed(const struct pass *pass, const float *weights)
{
    telemetry_weigh(&pass->observer->telemetry, weights);
}

int pass_goes_on(const struct pass *pass, struct moe_err *err)
{
    return atomic_load(pass->observer->cancel) ? moe_fail(err, MOE_CANCELLED, "stopped") : MOE_OK;
}

int pass_show(const struct pass *pass, uint32_t stage, struct moe_err *err)
{
    const struct moe_feed *feed = &pass->observer->feed;
    float *rows = pass->scratch->host_rows;
    if (!feed->on_hidden)
        return MOE_OK;
    pass_stage(pass, STAGE_HOST, stage);
    int code = stream_read(pass, rows, err);
    if (!code)
        feed->on_hidden(feed->context, stage, pass->position, pass->rows, rows);
    return code;
}
