// SPDX-License-Identifier: GPL-3.0-or-later
// Sums and copies of the engine's step records, and names for their parts.
#include "app/figures/figures.h"

#include <stdlib.h>
#include <string.h>

const char *figures_interval_name(enum moe_interval interval)
{
    static const char *const names[MOE_INTERVALS] = {
        [MOE_ON_DISK] = "disk",         [MOE_ON_COPY] = "copy",       [MOE_ON_ATTENTION] = "attention",
        [MOE_ON_ROUTER] = "router",     [MOE_ON_EXPERTS] = "experts", [MOE_ON_HEAD] = "head",
        [MOE_ON_SAMPLING] = "sampling", [MOE_ON_SAVING] = "saving",   [MOE_ON_HOST] = "host",
    };
    return names[interval];
}

const char *figures_origin_name(enum moe_origin origin)
{
    static const char *const names[MOE_ORIGINS] = {
        [MOE_FROM_DEVICE] = "device", [MOE_FROM_HOST] = "host", [MOE_FROM_PREFETCH] = "prefetch",
        [MOE_FROM_LATE] = "late",     [MOE_FROM_DISK] = "disk",
    };
    return names[origin];
}

const char *figures_interval_word(enum moe_interval interval)
{
    return interval == MOE_ON_DISK ? "reads" : figures_interval_name(interval);
}

bool figures_is_estimate(bool shared_out, enum moe_interval interval)
{
    static const bool shared[MOE_INTERVALS] = {[MOE_ON_ATTENTION] = true,
                                               [MOE_ON_ROUTER] = true,
                                               [MOE_ON_EXPERTS] = true,
                                               [MOE_ON_HEAD] = true,
                                               [MOE_ON_COPY] = true};
    return shared_out && shared[interval];
}

const char *figures_origin_word(enum moe_origin origin)
{
    return origin == MOE_FROM_DISK ? "read" : origin == MOE_FROM_PREFETCH ? "ahead" : figures_origin_name(origin);
}

const char *figures_policy_name(const struct moe_cache_plan *plan)
{
    return plan->per_layer ? "fixed shares by layer" : "recency and frequency";
}

static size_t layers_bytes(const struct moe_telemetry *record)
{
    return record->n_moe_layers * sizeof *record->layers;
}

static size_t choices_bytes(const struct moe_telemetry *record)
{
    return (size_t)record->n_moe_layers * record->top_k * sizeof *record->choices;
}

static size_t heat_count(const struct moe_telemetry *record)
{
    return (size_t)record->n_moe_layers * record->n_routed_experts;
}

size_t figures_bytes(const struct moe_telemetry *record)
{
    return sizeof *record + layers_bytes(record) + choices_bytes(record);
}

// Room for a record and its arrays; layers begin behind the record, choices behind those.
static struct moe_telemetry *make(const struct moe_telemetry *like)
{
    return malloc(figures_bytes(like));
}

// Into a block that `make` made for the same dimensions.
static void assign(struct moe_telemetry *to, const struct moe_telemetry *from)
{
    struct moe_layer_record *layers = (struct moe_layer_record *)(to + 1);
    struct moe_choice *choices = (struct moe_choice *)(layers + from->n_moe_layers);
    *to = *from;
    to->layers = memcpy(layers, from->layers, layers_bytes(from));
    to->choices = from->choices ? memcpy(choices, from->choices, choices_bytes(from)) : NULL;
}

struct moe_telemetry *figures_clone(const struct moe_telemetry *record)
{
    struct moe_telemetry *clone = make(record);
    if (clone)
        assign(clone, record);
    return clone;
}

void figures_release(struct figures *figures)
{
    free(figures->last);
    free(figures->under_way);
    for (int i = 0; i < FIGURES_SUMS; i++)
        free(figures->sums[i]);
    free(figures->heat);
    free(figures->heat_next);
    free(figures->tiers);
    *figures = (struct figures){0};
}

static void clear(struct moe_telemetry *sum, const struct moe_telemetry *like)
{
    assign(sum, like);
    struct moe_layer_record *layers = (struct moe_layer_record *)(sum + 1);
    sum->step = 0;
    sum->position = sum->rows = 0;
    sum->decode = sum->stopped = sum->shared_out = false;
    sum->choices = NULL;
    sum->total_ns = sum->launches = sum->waits = 0;
    memset(sum->ns, 0, sizeof sum->ns);
    for (uint32_t i = 0; i < like->n_moe_layers; i++)
        layers[i] = (struct moe_layer_record){.layer = like->layers[i].layer};
}

// Of all arrays or of none. What was not there before is zeros.
static bool allocate(struct figures *figures, const struct moe_telemetry *like)
{
    if (figures->last)
        return true;
    struct figures made = {.last = make(like),
                           .under_way = make(like),
                           .heat = calloc(heat_count(like), sizeof *made.heat),
                           .heat_next = calloc(heat_count(like), sizeof *made.heat_next),
                           .tiers = calloc(heat_count(like), sizeof *made.tiers)};
    bool fine = made.last && made.under_way && made.heat && made.heat_next && made.tiers;
    for (int i = 0; i < FIGURES_SUMS; i++)
        fine = (made.sums[i] = make(like)) && fine;
    for (int i = 0; i < FIGURES_SUMS && fine; i++)
        clear(made.sums[i], like);
    if (fine)
        clear(made.last, like);
    memcpy(made.tallies, figures->tallies, sizeof made.tallies);
    made.turn = figures->turn;
    made.context = figures->context;
    made.last_is_now = figures->last_is_now;
    if (fine)
        *figures = made;
    else
        figures_release(&made);
    return fine;
}

// Adds all counts, or with `sign` -1 takes them away.
static void add(struct moe_telemetry *sum, const struct moe_telemetry *step, uint64_t n_steps, int sign)
{
    struct moe_layer_record *layers = (struct moe_layer_record *)(sum + 1);
    uint64_t by = (uint64_t)(int64_t)sign; // counts wrap around as they should
    sum->step += by * n_steps;
    sum->rows += (uint32_t)by * step->rows;
    sum->total_ns += by * step->total_ns;
    sum->launches += by * step->launches;
    sum->waits += by * step->waits;
    sum->shared_out |= step->shared_out;
    for (int i = 0; i < MOE_INTERVALS; i++)
        sum->ns[i] += by * step->ns[i];
    for (uint32_t i = 0; i < step->n_moe_layers; i++) {
        const struct moe_layer_record *layer = &step->layers[i];
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            layers[i].n_from[origin] += (uint32_t)by * layer->n_from[origin];
        layers[i].wasted += (uint32_t)by * layer->wasted;
        layers[i].bytes_disk += by * layer->bytes_disk;
        layers[i].bytes_cached += by * layer->bytes_cached;
        layers[i].bytes_device += by * layer->bytes_device;
        layers[i].wait_ns += by * layer->wait_ns;
    }
}

bool figures_add(struct moe_telemetry **sum, const struct moe_telemetry *step)
{
    if (!*sum) {
        *sum = make(step);
        if (!*sum)
            return false;
        clear(*sum, step);
    }
    add(*sum, step, 1, 1);
    return true;
}

void figures_take_away(struct moe_telemetry *sum, const struct moe_telemetry *part)
{
    add(sum, part, part->step, -1);
}

// Whether what is done now is part of this sum.
static bool is_of(enum figures_of of, bool between)
{
    return between == (of == FIGURES_NEXT);
}

static void take_into_sums(struct figures *figures, const struct moe_telemetry *record, uint64_t n_steps, bool between)
{
    for (int i = 0; i < FIGURES_SUMS; i++) {
        if (!is_of((enum figures_of)i, between))
            continue;
        add(figures->sums[i], record, n_steps, 1);
        tally_add_record(&figures->tallies[i], record);
    }
}

void figures_settle(struct figures *figures, const struct moe_telemetry *rest, bool between)
{
    if (figures->last)
        take_into_sums(figures, rest, 0, between);
}

bool figures_take(struct figures *figures, const struct moe_telemetry *step, bool between, const uint32_t *heat)
{
    if (!allocate(figures, step))
        return false;
    figures->is_under_way = figures->is_under_way && figures->under_way->step > step->step;
    assign(figures->last, step);
    figures->last_is_now = !between;
    take_into_sums(figures, step, 1, between);
    figures_take_heat(figures, heat, between);
    return true;
}

bool figures_look(struct figures *figures, const struct moe_telemetry *so_far, bool between)
{
    if (!allocate(figures, so_far))
        return false;
    assign(figures->under_way, so_far);
    figures->is_under_way = true;
    figures->is_between = between;
    return true;
}

void figures_give_up(struct figures *figures)
{
    figures->is_under_way = false;
}

void figures_count(struct figures *figures, const struct tally *more, bool between)
{
    for (int i = 0; i < FIGURES_SUMS; i++)
        if (is_of((enum figures_of)i, between))
            tally_add(&figures->tallies[i], more);
}

void figures_take_heat(struct figures *figures, const uint32_t *heat, bool between)
{
    if (figures->last)
        memcpy(between ? figures->heat_next : figures->heat, heat, heat_count(figures->last) * sizeof *heat);
}

static void clear_heat(struct figures *figures, uint32_t *heat)
{
    if (figures->last)
        memset(heat, 0, heat_count(figures->last) * sizeof *heat);
}

static void clear_sum(struct figures *figures, enum figures_of of)
{
    tally_clear(&figures->tallies[of]);
    if (figures->last)
        clear(figures->sums[of], figures->last);
}

// What was done between turns counts now.
static void take_next(struct figures *figures, enum figures_of of)
{
    tally_add(&figures->tallies[of], &figures->tallies[FIGURES_NEXT]);
    if (figures->last)
        add(figures->sums[of], figures->sums[FIGURES_NEXT], figures->sums[FIGURES_NEXT]->step, 1);
}

static void clear_turn(struct figures *figures)
{
    clear_sum(figures, FIGURES_TURN);
    figures->last_is_now = figures->last_is_under_way = false;
    clear_heat(figures, figures->heat);
}

void figures_begin_turn(struct figures *figures)
{
    clear_turn(figures);
    take_next(figures, FIGURES_TURN);
    take_next(figures, FIGURES_CONVERSATION);
    take_next(figures, FIGURES_PROGRAM);
    clear_sum(figures, FIGURES_NEXT);
    figures_take_heat(figures, figures->heat_next, false);
    clear_heat(figures, figures->heat_next);
}

void figures_begin_conversation(struct figures *figures)
{
    take_next(figures, FIGURES_PROGRAM);
    clear_sum(figures, FIGURES_NEXT);
    clear_sum(figures, FIGURES_CONVERSATION);
    clear_turn(figures);
    clear_heat(figures, figures->heat_next);
    figures->context = 0;
}

uint64_t figures_on_device(const struct figures *figures)
{
    uint64_t n = 0;
    for (size_t i = 0; figures->last && i < heat_count(figures->last); i++)
        n += figures->tiers[i] == MOE_TIER_DEVICE;
    return n;
}

static void take_under_way(struct figures *to, const struct figures *from)
{
    take_into_sums(to, from->under_way, 1, from->is_between);
    if (from->is_between)
        return;
    assign(to->last, from->under_way);
    to->last_is_now = to->last_is_under_way = true;
}

bool figures_copy(struct figures *to, const struct figures *from)
{
    memcpy(to->tallies, from->tallies, sizeof to->tallies);
    to->turn = from->turn;
    to->context = from->context;
    to->last_is_now = from->last_is_now;
    to->last_is_under_way = false;
    if (!from->last || !allocate(to, from->last))
        return false;
    assign(to->last, from->last);
    for (int i = 0; i < FIGURES_SUMS; i++)
        assign(to->sums[i], from->sums[i]);
    memcpy(to->heat, from->heat, heat_count(from->last) * sizeof *to->heat);
    memcpy(to->heat_next, from->heat_next, heat_count(from->last) * sizeof *to->heat_next);
    memcpy(to->tiers, from->tiers, heat_count(from->last) * sizeof *to->tiers);
    if (from->is_under_way)
        take_under_way(to, from);
    return true;
}
