// SPDX-License-Identifier: GPL-3.0-or-later
// The record of a step: its intervals cover the time, its experts are those of the counters; sums and copies of
// records.
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "app/figures/figures.h"
#include "tests/harness.h"
#include "engine/moe.h"

#define MODEL "tests/golden/tiny-a/package"

enum { N_TOKENS = 21, N_DECODED = 5 };

struct opened {
    moe_model *model;
    moe_session *session;
};

static int open_tiny(struct harness *t, const char *device, uint64_t cache, struct opened *o)
{
    struct moe_model_options options = {.device = device, .expert_cache_bytes = cache};
    struct moe_session_options session = {.prefill_chunk = 16};
    struct moe_err err;
    *o = (struct opened){0};
    if (moe_model_open(MODEL, &options, &o->model, &err) || moe_session_open(o->model, &session, &o->session, &err)) {
        printf("%s\n", err.text);
        return CHECK(t, 0);
    }
    return 1;
}

static void close_tiny(struct opened *o)
{
    moe_session_close(o->session);
    moe_model_close(o->model);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int feed(struct opened *o, struct moe_err *err)
{
    int32_t ids[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        ids[i] = i * 7 + 1;
    return moe_session_prefill(o->session, &(struct moe_feed){.ids = ids, .count = N_TOKENS}, err);
}

static uint64_t sum_ns(const struct moe_telemetry *step)
{
    uint64_t sum = 0;
    for (int i = 0; i < MOE_INTERVALS; i++)
        sum += step->ns[i];
    return sum;
}

// Time seen from outside, where a step is the call itself.
static void intervals_cover_the_time(struct harness *t)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct opened o;
        struct moe_err err;
        if (!open_tiny(t, devices[d], 0, &o))
            continue;
        CHECK(t, moe_session_telemetry(o.session) == NULL);
        CHECK_EQ(t, feed(&o, &err), 0);
        int covered = 0; // of 50: another program may run between the clocks' readings
        for (int i = 0; i < 50; i++) {
            uint64_t begin = now_ns();
            CHECK_EQ(t, moe_session_decode(o.session, i, &err), 0);
            uint64_t outside = now_ns() - begin;
            const struct moe_telemetry *step = moe_session_telemetry(o.session);
            CHECK_EQ(t, sum_ns(step), step->total_ns);
            CHECK(t, step->total_ns <= outside);
            covered += (double)step->total_ns > 0.98 * (double)outside;
            CHECK(t, step->ns[MOE_ON_ATTENTION] > 0 && step->ns[MOE_ON_EXPERTS] > 0 && step->ns[MOE_ON_HEAD] > 0 &&
                         step->ns[MOE_ON_ROUTER] > 0 && step->ns[MOE_ON_SAMPLING] == 0);
        }
        if (!CHECK(t, covered >= 25))
            printf("%s: %d of 50\n", devices[d], covered);
        close_tiny(&o);
    }
}

static void experts_are_those_of_the_counters(struct harness *t)
{
    struct opened o;
    struct moe_err err;
    if (!open_tiny(t, "cpu", 0, &o))
        return;
    uint64_t smallest = moe_model_cache(o.model).smallest_bytes;
    close_tiny(&o);
    if (!open_tiny(t, "cpu", smallest, &o))
        return;
    const struct moe_description *about = moe_model_describe(o.model);
    CHECK_EQ(t, feed(&o, &err), 0);
    const struct moe_telemetry *step = moe_session_telemetry(o.session);
    CHECK(t, !step->decode && step->choices == NULL && step->step >= 1);
    CHECK_EQ(t, step->position + step->rows, N_TOKENS);
    uint64_t all_bytes = 0;
    for (int i = 0; i < N_DECODED; i++) {
        struct moe_stats before = moe_session_stats(o.session);
        CHECK_EQ(t, moe_session_decode(o.session, i, &err), 0);
        struct moe_stats after = moe_session_stats(o.session);
        uint64_t hits = 0, misses = 0, bytes = 0;
        step = moe_session_telemetry(o.session);
        CHECK(t, step->decode && step->rows == 1 && step->position == N_TOKENS + (uint32_t)i);
        CHECK_EQ(t, step->n_moe_layers, about->n_moe_layers);
        CHECK_EQ(t, step->launches, after.launches - before.launches);
        for (uint32_t l = 0; l < step->n_moe_layers; l++) {
            const struct moe_layer_record *layer = &step->layers[l];
            uint32_t from[MOE_ORIGINS] = {0};
            CHECK_EQ(t, layer->layer, step->first_moe_layer + l);
            for (uint32_t k = 0; k < step->top_k; k++) {
                const struct moe_choice *choice = &step->choices[l * step->top_k + k];
                from[choice->origin]++;
                CHECK(t, choice->expert < about->n_routed_experts && choice->weight > 0);
            }
            for (int origin = 0; origin < MOE_ORIGINS; origin++)
                CHECK_EQ(t, from[origin], layer->n_from[origin]);
            hits += layer->n_from[MOE_FROM_DEVICE];
            misses += layer->n_from[MOE_FROM_DISK];
            bytes += layer->bytes_disk;
        }
        CHECK_EQ(t, hits, after.hits - before.hits);
        CHECK_EQ(t, misses, after.misses - before.misses);
        CHECK_EQ(t, bytes, after.bytes_read - before.bytes_read);
        all_bytes += bytes;
    }
    CHECK(t, all_bytes > 0);
    close_tiny(&o);
}

static uint64_t bytes_of(const struct moe_telemetry *step)
{
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < step->n_moe_layers; l++)
        bytes += step->layers[l].bytes_disk;
    return bytes;
}

// Two conversations over one model take turns, and the experts are measured in between: each record holds what its own
// step read.
static void bytes_are_those_of_the_session(struct harness *t)
{
    struct opened o;
    struct moe_err err;
    double rate;
    if (!open_tiny(t, "ref", 0, &o))
        return;
    uint64_t smallest = moe_model_cache(o.model).smallest_bytes;
    close_tiny(&o);
    if (!open_tiny(t, "ref", smallest, &o))
        return;
    moe_session *sessions[2] = {NULL, NULL};
    struct moe_session_options options = {.prefetch = MOE_PREFETCH_OFF};
    for (int i = 0; i < 2; i++)
        CHECK_EQ(t, moe_session_open(o.model, &options, &sessions[i], &err), 0);
    uint64_t all = 0;
    for (int i = 0; i < 4 * N_DECODED; i++) {
        moe_session *session = sessions[i / 3 % 2];
        uint64_t before = moe_session_stats(session).bytes_read;
        CHECK_EQ(t, moe_session_decode(session, i * 5, &err), 0);
        uint64_t read = moe_session_stats(session).bytes_read - before;
        CHECK_EQ(t, bytes_of(moe_session_telemetry(session)), read);
        all += read;
        if (i % 4 == 3)
            CHECK_EQ(t, moe_model_measure_fetches(o.model, &(struct moe_fetches){false, 0.002, 1}, &rate, &err), 0);
    }
    CHECK(t, all > 0);
    for (int i = 0; i < 2; i++)
        moe_session_close(sessions[i]);
    close_tiny(&o);
}

static void heat_counts_every_use(struct harness *t)
{
    struct opened o;
    struct moe_err err;
    if (!open_tiny(t, "ref", MOE_CACHE_ALL, &o))
        return;
    const struct moe_description *about = moe_model_describe(o.model);
    size_t n = (size_t)about->n_moe_layers * about->n_routed_experts;
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        CHECK_EQ(t, feed(&o, &err), 0);
        CHECK_EQ(t, moe_session_decode(o.session, 1, &err), 0);
        uint64_t uses = 0;
        for (size_t i = 0; i < n; i++)
            uses += moe_session_heat(o.session)[i];
        CHECK_EQ(t, uses, (uint64_t)(N_TOKENS + 1) * about->top_k * about->n_moe_layers);
        moe_session_clear_heat(o.session);
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(t, moe_session_heat(o.session)[i], 0);
    }
    close_tiny(&o);
}

// Of a token that was decoded before, so that its experts are there, and no others: a layer that has all goes another
// way.
static uint64_t launches_with(struct harness *t, moe_model *model, unsigned without)
{
    struct moe_session_options options = {.without = without, .prefetch = MOE_PREFETCH_OFF};
    moe_session *session = NULL;
    struct moe_err err;
    CHECK_EQ(t, moe_session_open(model, &options, &session, &err), 0);
    for (int i = 0; i < 2 && session; i++) {
        CHECK_EQ(t, moe_session_truncate(session, 0, &err), 0);
        CHECK_EQ(t, moe_session_decode(session, 5, &err), 0);
    }
    uint64_t launches = session ? moe_session_telemetry(session)->launches : 0;
    moe_session_close(session);
    return launches;
}

static void experts_are_one_launch_and_norms_none(struct harness *t)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct opened o;
        if (!open_tiny(t, devices[d], MOE_CACHE_ALL, &o))
            continue;
        const struct moe_description *about = moe_model_describe(o.model);
        uint64_t together = launches_with(t, o.model, 0);
        uint64_t one_by_one = launches_with(t, o.model, MOE_WITHOUT_BATCHES);
        uint64_t norms_too = launches_with(t, o.model, MOE_WITHOUT_FUSED);
        CHECK(t, about->top_k > 1);
        // The head's norm comes with a sum. But on ref, which does op by op, those of x, of q_lora (tiny-a has it) and
        // of the router come with products, of which the first is two.
        uint64_t norms = 1 + (d ? 3 * (uint64_t)about->n_layers + about->n_moe_layers : 0);
        CHECK_EQ(t, norms_too - together, norms);
        CHECK_EQ(t, one_by_one - together, 2 * (about->top_k - 1) * (uint64_t)about->n_moe_layers);
        close_tiny(&o);
    }
}

// What a cancelled step asked for and read is in the record that it leaves: else sums would lack it.
static void stop_once_something_was_read(void *session, const struct moe_progress *progress)
{
    if (progress->bytes_read)
        moe_session_cancel(session);
}

static void a_stopped_step_leaves_what_it_did(struct harness *t)
{
    struct opened o;
    struct moe_err err;
    int32_t ids[N_TOKENS];
    if (!open_tiny(t, "ref", 0, &o))
        return;
    moe_session_close(o.session); // for one that reads what is asked for and nothing besides
    struct moe_session_options options = {.prefill_chunk = 16, .prefetch = MOE_PREFETCH_OFF};
    if (!CHECK_EQ(t, moe_session_open(o.model, &options, &o.session, &err), 0))
        return;
    for (int i = 0; i < N_TOKENS; i++)
        ids[i] = i * 7 + 1;
    struct moe_feed feed = {
        .ids = ids, .count = N_TOKENS, .progress = stop_once_something_was_read, .context = o.session};
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CANCELLED);
    const struct moe_telemetry *step = moe_session_telemetry(o.session);
    if (!CHECK(t, step && step->stopped && step->choices == NULL && step->total_ns > 0))
        return;
    CHECK_EQ(t, step->rows, (uint32_t)moe_session_held(o.session));
    uint64_t number = step->step, bytes = bytes_of(step);
    CHECK(t, bytes > 0 && bytes <= moe_session_stats(o.session).bytes_read);
    moe_session_resume(o.session);
    CHECK_EQ(t, moe_session_decode(o.session, 3, &err), 0);
    step = moe_session_telemetry(o.session);
    CHECK(t, !step->stopped && step->rows == 1 && step->choices && step->step == number + 1);
    // What was under way when it stopped is the next one's, or comes even later, since nobody waits for it.
    bytes += bytes_of(step);
    const struct moe_telemetry *rest = moe_session_settle(o.session);
    if (CHECK(t, rest != NULL))
        CHECK_EQ(t, bytes + bytes_of(rest), moe_session_stats(o.session).bytes_read);
    close_tiny(&o);
}

// What a feed's progress sees of its step.
struct looks {
    moe_session *session;
    int n, n_inside; // looks, and those at which some tokens, but not all, counted
    uint64_t uses, bytes, ns, tokens;
    bool wrong;
};

static uint64_t uses_of(const struct moe_telemetry *step)
{
    uint64_t uses = 0;
    for (uint32_t i = 0; i < step->n_moe_layers; i++)
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            uses += step->layers[i].n_from[origin];
    return uses;
}

static void look_at_step(void *context, const struct moe_progress *progress)
{
    struct looks *looks = context;
    const struct moe_telemetry *so_far = moe_session_so_far(looks->session);
    struct moe_stats stats = moe_session_stats(looks->session);
    looks->wrong |= !so_far && progress->done < N_TOKENS;
    if (!so_far)
        return;
    uint64_t uses = uses_of(so_far), bytes = bytes_of(so_far);
    uint32_t worth = (uint32_t)moe_session_held(looks->session);
    looks->wrong |= so_far->step != 1 || so_far->decode || so_far->choices || sum_ns(so_far) != so_far->total_ns;
    looks->wrong |= so_far->rows != worth || stats.prefilled_tokens != worth || worth != progress->done;
    looks->wrong |= stats.prefill_ns < so_far->total_ns || bytes > stats.bytes_read;
    looks->wrong |= uses < looks->uses || bytes < looks->bytes || so_far->total_ns < looks->ns;
    looks->wrong |= so_far->rows < looks->tokens;
    looks->uses = uses;
    looks->bytes = bytes;
    looks->ns = so_far->total_ns;
    looks->tokens = so_far->rows;
    looks->n++;
    looks->n_inside += so_far->rows > 0 && so_far->rows < N_TOKENS && uses > 0 && bytes > 0;
}

// The figures of a group are those of its step so far, and looking at them leaves its record as it is.
static void a_step_under_way_can_be_looked_at(struct harness *t)
{
    uint64_t uses[2], bytes[2];
    for (int looking = 0; looking < 2; looking++) {
        struct opened o;
        struct moe_err err;
        int32_t ids[N_TOKENS];
        if (!open_tiny(t, "ref", 0, &o))
            return;
        moe_session_close(o.session); // for one that reads them in one group, and nothing that comes by chance
        struct moe_session_options options = {.prefill_chunk = 8, .prefill_group = 24, .prefetch = MOE_PREFETCH_OFF};
        if (!CHECK_EQ(t, moe_session_open(o.model, &options, &o.session, &err), 0))
            return;
        for (int i = 0; i < N_TOKENS; i++)
            ids[i] = i * 7 + 1;
        struct looks looks = {.session = o.session};
        struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .context = &looks};
        feed.progress = looking ? look_at_step : NULL;
        CHECK(t, moe_session_so_far(o.session) == NULL);
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
        CHECK(t, moe_session_so_far(o.session) == NULL);
        const struct moe_telemetry *step = moe_session_telemetry(o.session);
        uses[looking] = uses_of(step);
        bytes[looking] = bytes_of(step);
        CHECK(t, step->rows == N_TOKENS && sum_ns(step) == step->total_ns);
        CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, N_TOKENS);
        CHECK(t, !looks.wrong && looks.uses <= uses[looking] && looks.bytes <= bytes[looking]);
        CHECK(t, !looking || (looks.n > 10 && looks.n_inside > 5));
        close_tiny(&o);
    }
    CHECK_EQ(t, uses[0], uses[1]);
    CHECK_EQ(t, bytes[0], bytes[1]);
}

// Takes each record once, as those who add them up do, and stops at the call that it was told.
struct takes {
    moe_session *session;
    int calls, stop_at;
    uint64_t step, rows, ns;
    bool back; // the prompts' time was less than before
};

static void take_record(struct takes *takes)
{
    const struct moe_telemetry *step = moe_session_telemetry(takes->session);
    if (!step || step->step == takes->step)
        return;
    takes->step = step->step;
    takes->rows += step->rows;
}

static void take_and_stop(void *context, const struct moe_progress *progress)
{
    struct takes *takes = context;
    (void)progress;
    uint64_t ns = moe_session_stats(takes->session).prefill_ns;
    takes->back |= ns < takes->ns;
    takes->ns = ns;
    take_record(takes);
    if (++takes->calls == takes->stop_at)
        moe_session_cancel(takes->session);
}

// A group that has ended just as the prompt is stopped is told before the next one, which is stopped before it says
// anything, leaves its own record in that place. What is read on may be a group of which all tokens count already.
static void no_groups_record_is_passed_over(struct harness *t)
{
    int code = MOE_CANCELLED;
    for (int stop_at = 1; code == MOE_CANCELLED; stop_at++) {
        struct opened o;
        struct moe_err err;
        int32_t ids[N_TOKENS];
        if (!open_tiny(t, "ref", 0, &o))
            return;
        moe_session_close(o.session);
        struct moe_session_options options = {.prefill_chunk = 4, .prefill_group = 8, .prefetch = MOE_PREFETCH_OFF};
        if (!CHECK_EQ(t, moe_session_open(o.model, &options, &o.session, &err), 0))
            return;
        for (int i = 0; i < N_TOKENS; i++)
            ids[i] = i * 7 + 1;
        struct takes takes = {.session = o.session, .stop_at = stop_at};
        struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .progress = take_and_stop, .context = &takes};
        code = moe_session_prefill(o.session, &feed, &err);
        take_record(&takes);
        CHECK_EQ(t, takes.rows, moe_session_stats(o.session).prefilled_tokens);
        moe_session_resume(o.session);
        feed.position = moe_session_length(o.session);
        feed.ids = ids + feed.position;
        feed.count = N_TOKENS - feed.position;
        CHECK_EQ(t, feed.count ? moe_session_prefill(o.session, &feed, &err) : 0, 0);
        take_record(&takes);
        CHECK(t, takes.rows == N_TOKENS && !takes.back);
        close_tiny(&o);
    }
    CHECK_EQ(t, code, MOE_OK);
}

// Once there is a session, reads stop it, and wait until the gate is open: whichever the walk waits for, it goes on.
struct gate {
    _Atomic(moe_session *) session;
    atomic_bool open;
    atomic_uint_least64_t n_read; // bytes, with a session
};

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static ptrdiff_t read_behind_gate(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct gate *gate = context;
    moe_session *session = atomic_load(&gate->session);
    if (session && !atomic_load(&gate->open))
        moe_session_cancel(session);
    while (session && !atomic_load(&gate->open))
        wait_a_little();
    ptrdiff_t got = pread(fd, target, length, (off_t)offset);
    if (got > 0 && session)
        atomic_fetch_add(&gate->n_read, (uint64_t)got);
    return got;
}

// What is under way when the last step ends is in nobody's record until it is settled; after that the records are all
// that was read.
static void settling_counts_what_came_after_the_step(struct harness *t)
{
    struct gate gate = {0};
    struct moe_model_options options = {.device = "ref", .read = read_behind_gate, .read_context = &gate, .readers = 4};
    struct moe_session_options by = {.prefill_chunk = 16};
    struct opened o = {0};
    struct moe_err err;
    int32_t ids[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        ids[i] = i * 7 + 1;
    if (!CHECK_EQ(t, moe_model_open(MODEL, &options, &o.model, &err), 0) ||
        !CHECK_EQ(t, moe_session_open(o.model, &by, &o.session, &err), 0))
        return;
    CHECK(t, moe_session_settle(o.session) == NULL); // no step yet
    atomic_store(&gate.session, o.session);          // what is read from now on are experts
    struct moe_feed feed = {.ids = ids, .count = N_TOKENS};
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CANCELLED);
    const struct moe_telemetry *step = moe_session_telemetry(o.session), *rest;
    uint64_t number = step->step, in_step = bytes_of(step), after = 0, n_read = 0;
    CHECK(t, in_step == 0 && moe_session_stats(o.session).bytes_read == 0);
    atomic_store(&gate.open, true);
    for (int ms = 0; ms < 10000 && (!after || in_step + after < n_read); ms++) {
        n_read = atomic_load(&gate.n_read);
        rest = moe_session_settle(o.session);
        if (!CHECK(t, rest && rest->rows == 0 && rest->choices == NULL && rest->total_ns == 0 && sum_ns(rest) == 0))
            break;
        after += bytes_of(rest);
        wait_a_little();
    }
    CHECK(t, after > 0 && in_step + after >= n_read); // more may have come since one looked
    CHECK_EQ(t, in_step + after, moe_session_stats(o.session).bytes_read);
    step = moe_session_telemetry(o.session); // is still the last one
    CHECK(t, step->step == number && bytes_of(step) == in_step);
    moe_session_resume(o.session);
    CHECK_EQ(t, moe_session_decode(o.session, 3, &err), 0);
    step = moe_session_telemetry(o.session);
    CHECK_EQ(t, step->step, number + 1);
    after += bytes_of(step);
    if (CHECK(t, (rest = moe_session_settle(o.session)) != NULL))
        after += bytes_of(rest);
    CHECK_EQ(t, in_step + after, moe_session_stats(o.session).bytes_read);
    CHECK(t, in_step + after <= atomic_load(&gate.n_read));
    close_tiny(&o);
}

static void sums_and_copies(struct harness *t)
{
    struct moe_layer_record layers[2] = {{.layer = 1, .n_from = {1, 0, 0, 0, 2}, .bytes_disk = 10, .wait_ns = 3},
                                         {.layer = 2, .n_from = {3}, .wasted = 1}};
    struct moe_choice choices[6] = {{.expert = 4, .weight = 0.5F}, {.expert = 1}};
    struct moe_telemetry step = {.step = 9,
                                 .rows = 1,
                                 .decode = true,
                                 .total_ns = 100,
                                 .ns = {[MOE_ON_HOST] = 60, [MOE_ON_DISK] = 40},
                                 .n_moe_layers = 2,
                                 .first_moe_layer = 1,
                                 .top_k = 3,
                                 .n_routed_experts = 5,
                                 .layers = layers,
                                 .choices = choices};
    uint32_t heat[10] = {[9] = 7};
    struct figures figures = {0}, copy = {0};
    CHECK(t, !figures_copy(&copy, &figures));
    figures_begin_turn(&figures);
    CHECK(t, figures_take(&figures, &step, false, heat) && figures_take(&figures, &step, false, heat));
    step.shared_out = true; // a sum is an estimate where one of its steps is
    CHECK(t, figures_take(&figures, &step, false, heat) && figures.sums[FIGURES_TURN]->shared_out);
    step.shared_out = false;
    figures_begin_turn(&figures);
    CHECK(t, !figures.sums[FIGURES_TURN]->shared_out && figures.sums[FIGURES_CONVERSATION]->shared_out);
    figures_begin_conversation(&figures);
    CHECK(t, !figures.sums[FIGURES_CONVERSATION]->shared_out && figures.sums[FIGURES_PROGRAM]->shared_out);
    figures_release(&figures);
    CHECK(t, figures_take(&figures, &step, false, heat) && figures_take(&figures, &step, false, heat));
    figures_begin_turn(&figures);
    const struct moe_telemetry *turn = figures.sums[FIGURES_TURN];
    CHECK(t, turn->step == 0 && turn->total_ns == 0 && figures.heat[9] == 0);
    CHECK(t, turn->layers[1].layer == 2 && turn->layers[0].n_from[MOE_FROM_DISK] == 0);
    CHECK(t, figures.tallies[FIGURES_TURN].hits == 0 && figures.tallies[FIGURES_CONVERSATION].hits == 8);
    step.choices = NULL;
    CHECK(t, figures_take(&figures, &step, false, heat));
    CHECK(t, figures_copy(&copy, &figures));
    CHECK(t, copy.last->choices == NULL && copy.last->step == 9 && copy.heat[9] == 7);
    turn = copy.sums[FIGURES_TURN];
    const struct moe_telemetry *all = copy.sums[FIGURES_PROGRAM];
    CHECK(t, turn->step == 1 && all->step == 3 && all->rows == 3 && turn->choices == NULL);
    CHECK(t, all->total_ns == 300 && all->ns[MOE_ON_DISK] == 120);
    CHECK(t, all->layers[0].n_from[MOE_FROM_DISK] == 6 && all->layers[0].bytes_disk == 30);
    CHECK(t, all->layers[1].wasted == 3 && all->layers[1].layer == 2);
    const struct tally *tally = &copy.tallies[FIGURES_PROGRAM];
    CHECK(t, tally->hits == 12 && tally->misses == 6 && tally->bytes_read == 30 && tally->wait_ns == 9);
    CHECK(t, tally->wasted == 3 && tally->rows == 3 && tally->single_asked == 0);
    struct tally single = {.policy = NULL}; // what of a step is an answer's is counted apart
    tally_add_single(&single, &step);
    CHECK(t, single.single_asked == 6 && single.single_hits == 4 && single.hits == 0 && single.rows == 0);
    figures_release(&copy);
    // Between turns: the next one's, and its uses are not of the last one's heat.
    heat[9] = 8;
    CHECK(t, figures_take(&figures, &step, true, heat) && figures.heat[9] == 7);
    CHECK(t, figures.sums[FIGURES_TURN]->step == 1 && figures.tallies[FIGURES_TURN].hits == 4);
    CHECK(t, figures.tallies[FIGURES_CONVERSATION].hits == 12 && figures.tallies[FIGURES_PROGRAM].hits == 12);
    figures_begin_turn(&figures);
    CHECK(t, figures.tallies[FIGURES_CONVERSATION].hits == 16 && figures.sums[FIGURES_CONVERSATION]->step == 4);
    CHECK(t, figures.sums[FIGURES_TURN]->step == 1 && figures.tallies[FIGURES_TURN].misses == 2);
    CHECK(t, figures_take(&figures, &step, true, heat));
    figures_begin_conversation(&figures);
    CHECK(t, figures.sums[FIGURES_CONVERSATION]->step == 0 && figures.tallies[FIGURES_CONVERSATION].hits == 0);
    CHECK(t, figures.sums[FIGURES_TURN]->step == 0 && figures.tallies[FIGURES_TURN].hits == 0 && !figures.heat[9]);
    CHECK(t, figures.sums[FIGURES_PROGRAM]->step == 5 && figures.tallies[FIGURES_PROGRAM].hits == 20);
    figures_release(&figures);
    // A sum by itself begins with its first step, and counts it once.
    struct moe_telemetry *sum = NULL;
    CHECK(t, figures_add(&sum, &step) && sum && sum->step == 1 && sum->total_ns == 100 && !sum->choices);
    CHECK(t, figures_add(&sum, &step) && sum->step == 2 && sum->layers[0].bytes_disk == 20);
    free(sum);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(intervals_cover_the_time),
        TEST(experts_are_those_of_the_counters),
        TEST(bytes_are_those_of_the_session),
        TEST(heat_counts_every_use),
        TEST(a_stopped_step_leaves_what_it_did),
        TEST(a_step_under_way_can_be_looked_at),
        TEST(no_groups_record_is_passed_over),
        TEST(settling_counts_what_came_after_the_step),
        TEST(experts_are_one_launch_and_norms_none),
        TEST(sums_and_copies),
    };
    return HARNESS_RUN(tests, argc, argv);
}
