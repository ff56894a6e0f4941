// SPDX-License-Identifier: GPL-3.0-or-later
#include "prefetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "err.h"

// What `auto` has act: its guess is there with the router's own choice, and right in most cases.
enum { AUTO_GUESSER = MOE_PREFETCH_ROUTER };

// Faster by less than this is chance.
static const double worth_it = 0.98;

const char *prefetch_name(enum moe_prefetch policy)
{
    static const char *const names[] = {
        [MOE_PREFETCH_AUTO] = "auto",
        [MOE_PREFETCH_OFF] = "off",
        [MOE_PREFETCH_PREVIOUS] = "previous",
        [MOE_PREFETCH_ROUTER] = "router",
        [MOE_PREFETCH_ROUTER_SHARED] = "router-shared",
    };
    return names[policy];
}

// Guessers are numbered from the first that guesses.
static unsigned number_of(enum moe_prefetch guesser)
{
    return (unsigned)guesser - MOE_PREFETCH_PREVIOUS;
}

int prefetch_open(const struct prefetch_options *options, struct prefetch *p, struct moe_err *err)
{
    const struct shape *shape = options->shape;
    size_t chosen = (size_t)(shape->n_layers - shape->first_k_dense_replace) * shape->top_k;
    *p = (struct prefetch){
        .shape = shape,
        .asked = options->policy,
        .acting = options->policy == MOE_PREFETCH_AUTO ? (enum moe_prefetch)AUTO_GUESSER : options->policy,
        .on_predictions = options->on_predictions,
        .context = options->context,
        .previous = malloc(chosen * sizeof *p->previous),
        .guesses = calloc((size_t)MOE_GUESSERS * shape->top_k, sizeof *p->guesses),
        .resident = calloc((size_t)MOE_GUESSERS * shape->top_k, sizeof *p->resident),
    };
    if (!p->previous || !p->guesses || !p->resident) {
        prefetch_release(p);
        return moe_fail(err, MOE_NO_MEMORY, "no memory for guesses");
    }
    memset(p->previous, -1, chosen * sizeof *p->previous);
    if (options->policy == MOE_PREFETCH_AUTO && options->all) {
        p->asked = p->acting = MOE_PREFETCH_OFF;
        snprintf(p->reason, sizeof p->reason, "every expert has a slot");
    } else if (options->policy == MOE_PREFETCH_AUTO) {
        snprintf(p->reason, sizeof p->reason, "on trial");
    } else {
        snprintf(p->reason, sizeof p->reason, "as asked");
    }
    return MOE_OK;
}

void prefetch_release(struct prefetch *p)
{
    free(p->previous);
    free(p->guesses);
    free(p->resident);
    *p = (struct prefetch){0};
}

bool prefetch_wants(const struct prefetch *p, enum moe_prefetch guesser)
{
    return p->acting == guesser || p->on_predictions;
}

void prefetch_guess(struct prefetch *p, enum moe_prefetch guesser, expert_store *store,
                    const struct expert_guess *guess)
{
    unsigned which = number_of(guesser);
    uint32_t top_k = p->shape->top_k;
    if (p->on_predictions) {
        p->guessed[which] = true;
        p->guessed_ns[which] = clock_ns();
        memcpy(p->guesses + which * top_k, guess->ids, top_k * sizeof *guess->ids);
        for (uint32_t k = 0; k < top_k; k++)
            p->resident[which * top_k + k] = expert_resident(store, guess->layer, (uint32_t)guess->ids[k]);
    }
    if (p->acting == guesser)
        expert_hint(store, guess);
}

static bool among(const int32_t *ids, uint32_t n, int32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

// As if the guesser had acted: a guess that was right and not there saves a wait, if its read would be over by now.
static void score(struct prefetch *p, unsigned which, const int32_t *ids, const struct moe_cache_plan *plan)
{
    uint32_t top_k = p->shape->top_k, reads = 0;
    struct moe_prediction *to = &p->scores[which];
    uint64_t gap_ns = clock_ns() - p->guessed_ns[which];
    double read_ns = plan->disk_bytes_per_s ? 1e9 * (double)plan->slot_bytes / (double)plan->disk_bytes_per_s : 0;
    p->guessed[which] = false;
    for (uint32_t k = 0; k < top_k; k++) {
        bool right = among(ids, top_k, p->guesses[which * top_k + k]);
        bool there = p->resident[which * top_k + k];
        reads += !there;
        to->guessed++;
        to->right += right;
        to->useful += right && !there;
        to->late += right && !there && reads * read_ns > (double)gap_ns;
        to->wasted_bytes += right || there ? 0 : plan->slot_bytes;
    }
}

void prefetch_chosen(struct prefetch *p, uint32_t layer, const int32_t *ids, expert_store *store)
{
    const struct shape *s = p->shape;
    struct moe_cache_plan plan = expert_store_plan(store);
    for (unsigned which = 0; which < MOE_GUESSERS; which++)
        if (p->guessed[which])
            score(p, which, ids, &plan);
    memcpy(p->previous + (size_t)(layer - s->first_k_dense_replace) * s->top_k, ids, s->top_k * sizeof *ids);
    // Behind the last layer comes the first of the next token, of which the routers' guessers know nothing.
    bool last = layer + 1 == s->n_layers;
    uint32_t next = last ? s->first_k_dense_replace : layer + 1;
    struct expert_guess guess = {next, p->previous + (size_t)(next - s->first_k_dense_replace) * s->top_k, s->top_k};
    if (guess.ids[0] < 0)
        return;
    if (prefetch_wants(p, MOE_PREFETCH_PREVIOUS))
        prefetch_guess(p, MOE_PREFETCH_PREVIOUS, store, &guess);
    if (last && p->acting > MOE_PREFETCH_PREVIOUS)
        expert_hint(store, &guess);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void start(struct prefetch *p, enum prefetch_phase phase)
{
    p->phase = phase;
    p->n = 0;
    p->misses = 0;
}

static void settle(struct prefetch *p, uint64_t without_ns)
{
    bool missed = p->misses > 0;
    bool on = missed && (double)p->with_ns < worth_it * (double)without_ns;
    p->acting = on ? (enum moe_prefetch)AUTO_GUESSER : MOE_PREFETCH_OFF;
    if (missed)
        snprintf(p->reason, sizeof p->reason, "%s: a token took %.2f ms with it and %.2f ms without",
                 on ? "faster" : "not faster", (double)p->with_ns / 1e6, (double)without_ns / 1e6);
    else
        snprintf(p->reason, sizeof p->reason, "no expert was missing for %d tokens", PREFETCH_TRY);
    start(p, PREFETCH_SETTLED);
}

static void judge(struct prefetch *p, uint64_t took_ns, uint64_t misses)
{
    p->misses += misses;
    if (p->phase == PREFETCH_SETTLED) {
        if (++p->n < PREFETCH_KEEP)
            return;
        p->acting = (enum moe_prefetch)AUTO_GUESSER;
        start(p, PREFETCH_WITH);
        return;
    }
    p->took_ns[p->n++] = took_ns;
    if (p->n < PREFETCH_TRY)
        return;
    qsort(p->took_ns, PREFETCH_TRY, sizeof *p->took_ns, compare);
    uint64_t median = p->took_ns[PREFETCH_TRY / 2];
    if (p->phase == PREFETCH_WITHOUT) {
        settle(p, median);
        return;
    }
    p->with_ns = median;
    p->acting = MOE_PREFETCH_OFF;
    start(p, PREFETCH_WITHOUT);
}

void prefetch_end_token(struct prefetch *p, uint32_t position, uint64_t took_ns, uint64_t misses)
{
    if (p->on_predictions)
        p->on_predictions(p->context, position, p->scores);
    memset(p->scores, 0, sizeof p->scores);
    if (p->asked == MOE_PREFETCH_AUTO)
        judge(p, took_ns, misses);
}

void prefetch_forget(struct prefetch *p, expert_store *store)
{
    p->previous[0] = -1;
    memset(p->guessed, 0, sizeof p->guessed);
    expert_drop_hints(store);
}
