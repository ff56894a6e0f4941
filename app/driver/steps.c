// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps the steps of a turn under a lock: the engine's thread adds, the face's reads.
#include "app/driver/steps.h"

#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"

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
    hit_curve_release(&steps->curve);
    pthread_mutex_destroy(&steps->mutex);
}

// 0 where a clock that stands still, as tests have it, would make it less.
static uint64_t from_to(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

// How long the answer has taken since its last token; from now on that is now. Under the mutex.
static uint64_t since_token(struct steps *steps)
{
    uint64_t now = format_clock_ns(), since = from_to(steps->token_ns, now);
    uint64_t passes = from_to(steps->token_passes_ns, steps->counted.decode_ns);
    since = since < passes ? passes : since; // with a clock that stands still
    since = from_to(steps->token_held_up_ns, steps->token_came ? since : 0);
    steps->token_ns = now;
    steps->token_passes_ns = steps->counted.decode_ns;
    steps->token_held_up_ns = 0;
    return since;
}

// Adds what the backend has counted since it was last looked at.
static void count(struct steps *steps)
{
    const struct backend *backend = steps->backend;
    struct moe_stats now = backend->ops->stats(backend->self), *seen = &steps->counted;
    bool answering = steps->phase == STEPS_ANSWERING;
    struct tally all = tally_between(seen, &now);
    struct tally more = {
        // the rest is in the steps' records, and answers' tokens are counted when they come
        .read_tokens = all.read_tokens,
        .read_ns = all.read_ns,
        .ahead = all.ahead,
        .policy = all.policy,
    };
    memcpy(more.reason, all.reason, sizeof more.reason);
    uint32_t context = backend->ops->length(backend->self);
    *seen = now;
    pthread_mutex_lock(&steps->mutex);
    figures_count(&steps->figures, &more, steps->phase == STEPS_BETWEEN);
    if (steps->phase != STEPS_BETWEEN)
        steps->figures.context = context + answering; // the token that was sampled is not fed yet
    pthread_mutex_unlock(&steps->mutex);
}

// What was read for what is over and is in no step's record counts to it, too.
static void settle(struct steps *steps)
{
    const struct moe_telemetry *rest = steps->backend->ops->settle(steps->backend->self);
    if (!rest)
        return;
    pthread_mutex_lock(&steps->mutex);
    figures_settle(&steps->figures, rest, steps->phase == STEPS_BETWEEN);
    pthread_mutex_unlock(&steps->mutex);
}

void steps_turn_to(struct steps *steps, enum steps_phase phase)
{
    if (phase != STEPS_ANSWERING) // a turn ends, or what came after one does
        settle(steps);
    count(steps);
    pthread_mutex_lock(&steps->mutex);
    since_token(steps); // what led to no token is no part of an answer's speed
    steps->token_came = false;
    pthread_mutex_unlock(&steps->mutex);
    if (phase == STEPS_BETWEEN)
        steps->backend->ops->clear_heat(steps->backend->self);
    steps->phase = phase;
}

void steps_begin_turn(struct steps *steps, uint64_t began_ns)
{
    free(steps_end(steps));
    steps_turn_to(steps, STEPS_READING);
    steps->ended_ns = began_ns;
    steps->saving_ns = 0;
    pthread_mutex_lock(&steps->mutex);
    figures_begin_turn(&steps->figures);
    steps->figures.turn++;
    forget_tokens(steps);
    pthread_mutex_unlock(&steps->mutex);
}

struct tally steps_refuse_turn(struct steps *steps)
{
    pthread_mutex_lock(&steps->mutex);
    steps->figures.turn++;
    struct tally tally = steps->figures.tallies[FIGURES_PROGRAM];
    pthread_mutex_unlock(&steps->mutex);
    tally_clear(&tally);
    return tally;
}

void steps_forget(struct steps *steps)
{
    pthread_mutex_lock(&steps->mutex);
    figures_begin_conversation(&steps->figures);
    forget_tokens(steps);
    hit_curve_release(&steps->curve);
    pthread_mutex_unlock(&steps->mutex);
}

void steps_begin_conversation(struct steps *steps)
{
    free(steps_end(steps));
    steps_turn_to(steps, STEPS_BETWEEN);
    steps_forget(steps);
}

// Where the experts are, and how often they were used so far. Under the mutex.
static void look(struct steps *steps, uint64_t now)
{
    const struct backend *backend = steps->backend;
    if (!steps->figures.tiers)
        return;
    figures_take_heat(&steps->figures, backend->ops->heat(backend->self), steps->phase == STEPS_BETWEEN);
    backend->ops->tiers(backend->self, steps->figures.tiers);
    steps->looked_ns = now;
}

static bool is_due(const struct steps *steps, uint64_t now)
{
    return from_to(steps->looked_ns, now) >= STEPS_LOOK_NS;
}

// Under the mutex.
static void note_uses(struct steps *steps, const struct moe_telemetry *step)
{
    struct hit_curve *curve = &steps->curve;
    struct tally single = {.policy = NULL};
    if (!step->choices || (!curve->n_keys && !hit_curve_open(curve, step->n_moe_layers * step->n_routed_experts)))
        return;
    tally_add_single(&single, step);
    figures_count(&steps->figures, &single, false);
    for (uint32_t i = 0; i < step->n_moe_layers * step->top_k; i++)
        hit_curve_use(curve, i / step->top_k * step->n_routed_experts + step->choices[i].expert);
}

// Adds time between steps, `ns` and no more, to the saving that was a part of it and to the host.
static void add_between(struct steps *steps, struct moe_telemetry *step, uint64_t ns)
{
    uint64_t saving = steps->saving_ns < ns ? steps->saving_ns : ns;
    step->ns[MOE_ON_SAVING] += saving;
    step->ns[MOE_ON_HOST] += ns - saving;
    steps->saving_ns = 0;
}

void steps_begin_saving(struct steps *steps)
{
    steps->saving_began = format_clock_ns();
}

void steps_end_saving(struct steps *steps)
{
    steps->saving_ns += from_to(steps->saving_began, format_clock_ns());
}

static struct moe_telemetry *end_at(struct steps *steps, uint64_t now)
{
    struct moe_telemetry *step = steps->held;
    steps->held = NULL;
    count(steps);
    if (!step)
        return NULL;
    steps->ended_ns = now;
    uint64_t since = from_to(steps->computed_ns, now);
    step->ns[MOE_ON_SAMPLING] += steps->sampling_ns;
    add_between(steps, step, from_to(steps->sampling_ns, since));
    step->total_ns += since;
    pthread_mutex_lock(&steps->mutex);
    // Without memory it is missing from what the face shows.
    bool between = steps->held_phase == STEPS_BETWEEN;
    figures_take(&steps->figures, step, between, steps->backend->ops->heat(steps->backend->self));
    if (steps->held_phase == STEPS_ANSWERING) // a prompt's tokens may go through one by one, too
        note_uses(steps, step);
    if (is_due(steps, now))
        look(steps, now);
    pthread_mutex_unlock(&steps->mutex);
    return step;
}

void steps_end_turn(struct steps *steps, uint32_t context)
{
    uint64_t now = format_clock_ns();
    free(end_at(steps, now));
    pthread_mutex_lock(&steps->mutex);
    look(steps, now);
    steps->figures.context = context;
    pthread_mutex_unlock(&steps->mutex);
}

struct tally steps_tally(struct steps *steps)
{
    pthread_mutex_lock(&steps->mutex);
    struct tally tally = steps->figures.tallies[FIGURES_TURN];
    pthread_mutex_unlock(&steps->mutex);
    return tally;
}

// A long step may be under way: then the one before it has ended, and what it is so far is told.
static void look_meanwhile(struct steps *steps)
{
    const struct backend *backend = steps->backend;
    uint64_t now = format_clock_ns();
    if (!is_due(steps, now))
        return;
    const struct moe_telemetry *so_far = backend->ops->so_far(backend->self);
    if (so_far)
        free(end_at(steps, from_to(so_far->total_ns, so_far->ended_ns < now ? so_far->ended_ns : now)));
    uint32_t held = so_far ? backend->ops->held(backend->self) : 0;
    pthread_mutex_lock(&steps->mutex);
    if (so_far) // without memory it is not told before it has ended
        figures_look(&steps->figures, so_far, steps->phase == STEPS_BETWEEN);
    if (so_far && steps->phase != STEPS_BETWEEN) // what is held while none is under way may be of another turn
        steps->figures.context = backend->ops->length(backend->self) + held;
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
    uint64_t now = format_clock_ns(); // by which the next one may be under way
    uint64_t ended = step->ended_ns && step->ended_ns < now ? step->ended_ns : now;
    uint64_t began = from_to(step->total_ns, ended);
    free(end_at(steps, began));
    steps->held = figures_clone(step);
    steps->held_phase = steps->phase;
    if (steps->held) { // what led to it is part of it
        uint64_t before = from_to(steps->ended_ns, began);
        add_between(steps, steps->held, before);
        steps->held->total_ns += before;
    } else {
        pthread_mutex_lock(&steps->mutex);
        figures_give_up(&steps->figures);
        pthread_mutex_unlock(&steps->mutex);
    }
    steps->seen = step->step;
    steps->computed_ns = ended;
    steps->sampling_ns = 0;
}

int32_t steps_sample(struct steps *steps, const int32_t *recent, size_t n_recent)
{
    uint64_t begin = format_clock_ns();
    const struct backend *backend = steps->backend;
    struct step_token *next = &steps->next;
    next->n_candidates = (uint32_t)backend->ops->candidates(backend->self, next->candidates, STEPS_CANDIDATES);
    next->id = backend->ops->sample(backend->self, recent, n_recent);
    next->probability =
        next->n_candidates && next->id >= 0 ? backend->ops->probability(backend->self, next->candidates, next->id) : -1;
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

void steps_were_held_up(struct steps *steps, uint64_t ns)
{
    steps->token_held_up_ns += ns;
}

void steps_keep(struct steps *steps, struct moe_telemetry *step)
{
    size_t bytes = step_bytes(step);
    pthread_mutex_lock(&steps->mutex);
    struct tally token = {.answered_tokens = 1, .answer_steps = steps->token_came, .answer_ns = since_token(steps)};
    steps->token_came = true;
    figures_count(&steps->figures, &token, false);
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

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static const struct moe_telemetry *decoded(const struct steps *steps, size_t i)
{
    const struct moe_telemetry *step = steps->tokens[i].step;
    return step && step->decode ? step : NULL;
}

// Interval MOE_INTERVALS is the whole time. Room: [n_tokens].
static uint64_t median(const struct steps *steps, int interval, uint64_t *room)
{
    size_t n = 0;
    for (size_t i = 0; i < steps->n_tokens; i++) {
        const struct moe_telemetry *step = decoded(steps, i);
        if (step)
            room[n++] = interval < MOE_INTERVALS ? step->ns[interval] : step->total_ns;
    }
    qsort(room, n, sizeof *room, compare);
    return n % 2 ? room[n / 2] : (room[n / 2 - 1] + room[n / 2]) / 2;
}

static void find_slowest(const struct steps *steps, uint32_t slowest[STEPS_SLOWEST])
{
    uint64_t below = UINT64_MAX;
    for (int n = 0; n < STEPS_SLOWEST; n++) {
        uint64_t most = 0;
        for (size_t i = 0; i < steps->n_tokens; i++) {
            const struct moe_telemetry *step = decoded(steps, i);
            if (!step || step->total_ns <= most || step->total_ns >= below)
                continue;
            most = step->total_ns;
            slowest[n] = steps->first_token + (uint32_t)i;
        }
        below = most;
    }
}

void steps_usual(struct steps *steps, struct usual *usual, uint32_t slowest[STEPS_SLOWEST])
{
    *usual = (struct usual){0};
    memset(slowest, 0, STEPS_SLOWEST * sizeof *slowest);
    pthread_mutex_lock(&steps->mutex);
    for (size_t i = 0; i < steps->n_tokens; i++)
        if (decoded(steps, i)) {
            usual->tokens++;
            usual->shared_out |= decoded(steps, i)->shared_out;
        }
    uint64_t *room = usual->tokens ? malloc(usual->tokens * sizeof *room) : NULL;
    if (room) {
        for (int i = 0; i < MOE_INTERVALS; i++)
            usual->ns[i] = median(steps, i, room);
        usual->total_ns = median(steps, MOE_INTERVALS, room);
        find_slowest(steps, slowest);
    } else {
        usual->tokens = 0;
    }
    pthread_mutex_unlock(&steps->mutex);
    free(room);
}

double steps_hits_with(struct steps *steps, uint64_t room)
{
    pthread_mutex_lock(&steps->mutex);
    double share = hit_curve_share(&steps->curve, room);
    pthread_mutex_unlock(&steps->mutex);
    return share;
}

bool steps_figures(struct steps *steps, struct figures *figures)
{
    pthread_mutex_lock(&steps->mutex);
    bool copied = figures_copy(figures, &steps->figures);
    pthread_mutex_unlock(&steps->mutex);
    return copied;
}
