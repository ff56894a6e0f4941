// SPDX-License-Identifier: GPL-3.0-or-later
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#include "format.h"

static size_t step_bytes(const struct moe_telemetry *step)
{
    return step ? figures_bytes(step) : 0;
}

void steps_open(struct steps *steps, const struct backend *backend)
{
    *steps = (struct steps){.backend = backend, .first_token = 1};
    pthread_mutex_init(&steps->mutex, NULL);
}

// Drops the first n.
static void drop_tokens(struct steps *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        steps->tokens_bytes -= step_bytes(steps->tokens[i].step);
        free(steps->tokens[i].step);
    }
    steps->first_token += (uint32_t)n;
    steps->n_tokens -= n;
    if (steps->n_tokens)
        memmove(steps->tokens, steps->tokens + n, steps->n_tokens * sizeof *steps->tokens);
}

static void forget_tokens(struct steps *steps)
{
    drop_tokens(steps, steps->n_tokens);
    steps->first_token = 1;
}

void steps_release(struct steps *steps)
{
    forget_tokens(steps);
    free(steps->tokens);
    free(steps->held);
    figures_release(&steps->figures);
    pthread_mutex_destroy(&steps->mutex);
}

void steps_begin_turn(struct steps *steps)
{
    free(steps_end(steps));
    steps->ended_ns = format_clock_ns();
    steps->backend->ops->clear_heat(steps->backend->self);
    pthread_mutex_lock(&steps->mutex);
    figures_begin_turn(&steps->figures);
    forget_tokens(steps);
    pthread_mutex_unlock(&steps->mutex);
}

// 0 where a clock that stands still, as tests have it, would make it less.
static uint64_t from_to(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

// Where the experts are, and how often they were used so far. Under the mutex.
static void look(struct steps *steps, uint64_t now)
{
    const struct backend *backend = steps->backend;
    if (!steps->figures.tiers)
        return;
    figures_take_heat(&steps->figures, backend->ops->heat(backend->self));
    backend->ops->tiers(backend->self, steps->figures.tiers);
    steps->looked_ns = now;
}

static bool is_due(const struct steps *steps, uint64_t now)
{
    return from_to(steps->looked_ns, now) >= STEPS_LOOK_NS;
}

static struct moe_telemetry *end_at(struct steps *steps, uint64_t now)
{
    struct moe_telemetry *step = steps->held;
    steps->held = NULL;
    if (!step)
        return NULL;
    steps->ended_ns = now;
    uint64_t since = from_to(steps->computed_ns, now);
    step->ns[MOE_ON_SAMPLING] += steps->sampling_ns;
    step->ns[MOE_ON_HOST] += from_to(steps->sampling_ns, since);
    step->total_ns += since;
    pthread_mutex_lock(&steps->mutex);
    // Without memory it is missing from what the face shows.
    figures_take(&steps->figures, step, steps->backend->ops->heat(steps->backend->self));
    if (is_due(steps, now))
        look(steps, now);
    pthread_mutex_unlock(&steps->mutex);
    return step;
}

void steps_end_turn(struct steps *steps)
{
    uint64_t now = format_clock_ns();
    free(end_at(steps, now));
    pthread_mutex_lock(&steps->mutex);
    look(steps, now);
    pthread_mutex_unlock(&steps->mutex);
}

// A long step is under way.
static void look_meanwhile(struct steps *steps)
{
    uint64_t now = format_clock_ns();
    if (!is_due(steps, now))
        return;
    pthread_mutex_lock(&steps->mutex);
    look(steps, now);
    pthread_mutex_unlock(&steps->mutex);
}

struct moe_telemetry *steps_end(struct steps *steps)
{
    return end_at(steps, format_clock_ns());
}

void steps_note(struct steps *steps)
{
    const struct moe_telemetry *step = steps->backend->ops->telemetry(steps->backend->self);
    if (!step || step->step == steps->seen) {
        look_meanwhile(steps);
        return;
    }
    uint64_t now = format_clock_ns(), began = from_to(step->total_ns, now);
    free(end_at(steps, began));
    steps->held = figures_clone(step);
    if (steps->held) { // what led to it is part of it
        uint64_t before = from_to(steps->ended_ns, began);
        steps->held->ns[MOE_ON_HOST] += before;
        steps->held->total_ns += before;
    }
    steps->seen = step->step;
    steps->computed_ns = now;
    steps->sampling_ns = 0;
}

int32_t steps_sample(struct steps *steps, const int32_t *recent, size_t n_recent)
{
    uint64_t begin = format_clock_ns();
    const struct backend *backend = steps->backend;
    struct step_token *next = &steps->next;
    next->n_candidates = (uint32_t)backend->ops->candidates(backend->self, next->candidates, STEPS_CANDIDATES);
    next->id = backend->ops->sample(backend->self, recent, n_recent);
    steps->sampling_ns += format_clock_ns() - begin;
    return next->id;
}

static bool make_room(struct steps *steps, size_t bytes)
{
    if (!steps->tokens)
        steps->tokens = calloc(STEPS_KEPT, sizeof *steps->tokens);
    bool full = steps->tokens_bytes + bytes > STEPS_KEPT_BYTES || steps->n_tokens == STEPS_KEPT;
    if (full) // in lots, so that moving the others costs little
        drop_tokens(steps, steps->n_tokens < 8 ? steps->n_tokens : steps->n_tokens / 8);
    return steps->tokens != NULL;
}

void steps_keep(struct steps *steps, struct moe_telemetry *step)
{
    size_t bytes = step_bytes(step);
    pthread_mutex_lock(&steps->mutex);
    if (make_room(steps, bytes)) {
        steps->next.step = step;
        steps->tokens[steps->n_tokens++] = steps->next;
        steps->tokens_bytes += bytes;
    } else {
        free(step);
        steps->first_token++;
    }
    pthread_mutex_unlock(&steps->mutex);
}

bool steps_token(struct steps *steps, uint32_t n, struct step_token *token, uint32_t *count)
{
    pthread_mutex_lock(&steps->mutex);
    *count = steps->first_token + (uint32_t)steps->n_tokens - 1;
    bool there = n >= steps->first_token && n <= *count;
    if (there) {
        *token = steps->tokens[n - steps->first_token];
        if (token->step)
            token->step = figures_clone(token->step);
    }
    pthread_mutex_unlock(&steps->mutex);
    return there;
}

bool steps_figures(struct steps *steps, struct figures *figures)
{
    pthread_mutex_lock(&steps->mutex);
    bool copied = figures_copy(figures, &steps->figures);
    pthread_mutex_unlock(&steps->mutex);
    return copied;
}
