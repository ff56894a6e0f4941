// SPDX-License-Identifier: GPL-3.0-or-later
#include "steps.h"

#include <stdlib.h>

#include "format.h"

void steps_open(struct steps *steps, const struct backend *backend)
{
    *steps = (struct steps){.backend = backend};
    pthread_mutex_init(&steps->mutex, NULL);
}

void steps_release(struct steps *steps)
{
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
    pthread_mutex_unlock(&steps->mutex);
}

// 0 where a clock that stands still, as tests have it, would make it less.
static uint64_t from_to(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
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
    pthread_mutex_unlock(&steps->mutex);
    return step;
}

struct moe_telemetry *steps_end(struct steps *steps)
{
    return end_at(steps, format_clock_ns());
}

void steps_note(struct steps *steps)
{
    const struct moe_telemetry *step = steps->backend->ops->telemetry(steps->backend->self);
    if (!step || step->step == steps->seen)
        return;
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
    int32_t id = steps->backend->ops->sample(steps->backend->self, recent, n_recent);
    steps->sampling_ns += format_clock_ns() - begin;
    return id;
}

bool steps_figures(struct steps *steps, struct figures *figures)
{
    pthread_mutex_lock(&steps->mutex);
    bool copied = figures_copy(figures, &steps->figures);
    pthread_mutex_unlock(&steps->mutex);
    return copied;
}
