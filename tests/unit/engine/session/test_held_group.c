// SPDX-License-Identifier: GPL-3.0-or-later
// A prompt that is cancelled within its only group, at many places on its way through the layers: the same tokens go on
// there, to the same bits, and what was done is not done again; other tokens are as if nothing had been held.
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"
#include "engine/moe.h"
#include "engine/session/held_group.h"

enum { N_TOKENS = 45, N_MODELS = 3, DEMO = 3, N_DEVICES = 2, NEVER = 1 << 20 };

static const char *const models[] = {"tests/golden/tiny-a/package", "tests/golden/ck-qwen35moe-mlx/checkpoint",
                                     "tests/golden/ck-kimi-linear-mlx/checkpoint", "models/demo"};
static const char *const devices[N_DEVICES] = {"ref", "cpu"};

struct opened {
    moe_model *model;
    moe_session *session;
    uint32_t vocab;
    bool states;
    int32_t ids[N_TOKENS + 3];
    int calls, stop_at;   // progress calls of the feed under way
    uint64_t first, done; // what the first of them said, and the last
    bool backwards;
};

static bool open_grouped(struct harness *t, int model, int device, uint64_t cache, uint32_t group, struct opened *o)
{
    struct moe_model_options options = {
        .device = devices[device], .expert_cache_bytes = cache, .io = MOE_IO_BUFFERED, .readers = 2};
    struct moe_session_options session = {.prefetch = MOE_PREFETCH_OFF, .prefill_chunk = 5, .prefill_group = group};
    struct moe_err err;
    *o = (struct opened){.states = model > 0};
    if (moe_model_open(models[model], &options, &o->model, &err) ||
        moe_session_open(o->model, &session, &o->session, &err)) {
        printf("%s on %s: %s\n", models[model], devices[device], err.text);
        return CHECK(t, 0);
    }
    o->vocab = moe_model_describe(o->model)->vocab_size;
    for (uint32_t i = 0; i < N_TOKENS + 3; i++)
        o->ids[i] = (int32_t)((i * 7919 + 13 * (i / 3)) % o->vocab);
    return true;
}

static bool open_at(struct harness *t, int model, int device, uint64_t cache, struct opened *o)
{
    return open_grouped(t, model, device, cache, 1000, o);
}

static void close_opened(struct opened *o)
{
    moe_session_close(o->session);
    moe_model_close(o->model);
}

static void count_calls(void *context, const struct moe_progress *at)
{
    struct opened *o = context;
    if (o->calls++ == 0)
        o->first = at->done;
    o->backwards |= o->calls > 1 && at->done < o->done;
    o->done = at->done;
    if (o->calls == o->stop_at)
        moe_session_cancel(o->session);
}

// Feeds the first `count` of the ids, with a border if it is not 0.
static int feed_to(struct opened *o, const int32_t *ids, size_t count, int stop_at, uint32_t border)
{
    struct moe_err err;
    struct moe_feed prompt = {.ids = ids,
                              .count = count,
                              .position = moe_session_length(o->session),
                              .progress = count_calls,
                              .context = o,
                              .borders = {border}};
    o->calls = 0;
    o->backwards = false;
    o->stop_at = stop_at;
    moe_session_resume(o->session);
    return moe_session_prefill(o->session, &prompt, &err);
}

static int feed(struct opened *o, const int32_t *ids, size_t count, int stop_at)
{
    return feed_to(o, ids, count, stop_at, 0);
}

// The rest of the ids, with a cancel that came before the feed.
static int feed_cancelled(struct opened *o, uint32_t length)
{
    struct moe_err err;
    struct moe_feed prompt = {
        .ids = o->ids + length, .count = N_TOKENS - length, .position = length, .progress = count_calls, .context = o};
    moe_session_cancel(o->session);
    return moe_session_prefill(o->session, &prompt, &err);
}

// Of the logits after the prompt and after a token more.
static uint64_t hash_of(struct harness *t, struct opened *o)
{
    uint64_t hash = 7;
    struct moe_err err;
    moe_session_resume(o->session); // the last step of all may have been the one to stop at
    for (int turn = 0; turn < 2; turn++) {
        const unsigned char *bytes = (const unsigned char *)moe_session_logits(o->session, &err);
        for (size_t i = 0; bytes && i < o->vocab * sizeof(float); i++)
            hash = (hash ^ bytes[i]) * 1099511628211u;
        if (turn == 0)
            CHECK_EQ(t, moe_session_decode(o->session, 5, &err), 0);
    }
    return hash;
}

static uint64_t run_hash(struct harness *t, struct opened *o, const int32_t *ids, size_t count)
{
    struct moe_err err;
    CHECK_EQ(t, moe_session_truncate(o->session, 0, &err), 0);
    CHECK_EQ(t, feed(o, ids, count, NEVER), 0);
    return hash_of(t, o);
}

static void the_same_tokens_go_on(struct harness *t)
{
    for (int i = 0; i < N_MODELS * N_DEVICES; i++) {
        struct opened o;
        struct moe_err err;
        if (!open_at(t, i / N_DEVICES, i % N_DEVICES, MOE_CACHE_ALL, &o))
            return;
        uint64_t want = run_hash(t, &o, o.ids, N_TOKENS);
        int all = o.calls, stopped = 0;
        double before = 0;
        for (int at = 1; at < all; at += 4) {
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
            CHECK_EQ(t, moe_session_held(o.session) > 0, 0);
            uint64_t prefilled = moe_session_stats(o.session).prefilled_tokens;
            if (feed(&o, o.ids, N_TOKENS, at) != MOE_CANCELLED)
                break; // there was nothing left to stop
            stopped++;
            double held = moe_session_held(o.session);
            CHECK(t, moe_session_length(o.session) == 0 && held >= before && held < N_TOKENS);
            before = held;
            // tokens count where their work was done, in steps and in all
            uint32_t counted = moe_session_telemetry(o.session)->rows;
            CHECK_EQ(t, counted, (uint32_t)held); // as progress has told it
            CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens - prefilled, counted);
            CHECK_EQ(t, feed(&o, o.ids, N_TOKENS, NEVER), 0);
            CHECK_EQ(t, moe_session_telemetry(o.session)->rows, N_TOKENS - counted);
            CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens - prefilled, N_TOKENS);
            CHECK(t, o.calls <= all - at + 2); // what was done is not done again
            CHECK(t, moe_session_held(o.session) == 0);
            CHECK_EQ(t, hash_of(t, &o), want);
        }
        CHECK(t, stopped > 5 && before > 0.8 * N_TOKENS);
        // Several times, a step further each; progress goes on where it was.
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        int times = 0, steps = 0;
        double held = 0;
        uint64_t last = 0;
        for (int code = MOE_CANCELLED; code == MOE_CANCELLED && times < 4 * all; times++) {
            code = feed(&o, o.ids, N_TOKENS, 3);
            CHECK(t, code == MOE_OK || moe_session_held(o.session) > held);
            held = moe_session_held(o.session);
            last = o.first;
            steps += o.calls;
        }
        CHECK(t, times > 5 && last > N_TOKENS / 2 && steps <= all + 2 * times);
        CHECK_EQ(t, hash_of(t, &o), want);
        close_opened(&o);
    }
}

// Stopped in groups of their own, and then again and again before anything more is done: what is held stays, and
// progress says it.
static void a_stop_at_once_loses_nothing(struct harness *t)
{
    for (int i = 0; i < N_MODELS * N_DEVICES; i++) {
        struct opened o;
        struct moe_err err;
        if (!open_grouped(t, i / N_DEVICES, i % N_DEVICES, MOE_CACHE_ALL, 15, &o))
            return;
        uint64_t want = run_hash(t, &o, o.ids, N_TOKENS);
        int all = o.calls, inside = 0, behind = 0;
        for (int at = 1; at < all - 1; at += 5) {
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
            if (feed(&o, o.ids, N_TOKENS, at) != MOE_CANCELLED)
                break;
            uint32_t length = moe_session_length(o.session);
            double held = moe_session_held(o.session);
            inside += length == 0;
            behind += length > 0 && held > 0;
            CHECK(t, (double)o.done <= length + held && o.done + 1 >= (uint64_t)(length + held));
            for (int again = 0; again < 3; again++) {
                o.calls = 0; // each chunk and expert that is done would be one
                CHECK_EQ(t, feed_cancelled(&o, length), MOE_CANCELLED);
                CHECK(t, o.calls == 0 && moe_session_length(o.session) == length);
                CHECK(t, moe_session_held(o.session) == held);
            }
            CHECK_EQ(t, feed(&o, o.ids + length, N_TOKENS - length, NEVER), 0);
            CHECK(t, !o.backwards && o.calls <= all - at + 2 && o.first + 1 >= (uint64_t)held);
            CHECK_EQ(t, hash_of(t, &o), want);
        }
        CHECK(t, inside > 2 && behind > 2);
        close_opened(&o);
    }
}

// What was read for it is not read again, but for those that were asked for ahead: counted on the demo's 192 experts,
// nearly all of which the prompt uses, with the smallest cache.
static void experts_are_not_read_again(struct harness *t)
{
    enum { BLOB = 86016 };
    struct opened o;
    if (!open_at(t, DEMO, 1, MOE_CACHE_ALL, &o))
        return;
    uint64_t least = moe_model_cache(o.model).smallest_bytes;
    close_opened(&o);
    uint64_t whole = 0;
    for (int at = 0; at < 200; at += 50) {
        if (!open_at(t, DEMO, 1, least, &o))
            return;
        if (at)
            CHECK_EQ(t, feed(&o, o.ids, N_TOKENS, at), MOE_CANCELLED);
        struct moe_stats stopped = moe_session_stats(o.session);
        CHECK_EQ(t, feed(&o, o.ids, N_TOKENS, NEVER), 0);
        moe_session_settle(o.session);
        struct moe_stats stats = moe_session_stats(o.session);
        uint64_t before = stopped.misses + stopped.prefetched, reads = stats.misses + stats.prefetched;
        uint64_t slots = moe_model_cache(o.model).slots;
        whole = at ? whole : reads;
        CHECK(t, at == 0 || (before > 0 && reads - before < whole));
        if (!CHECK(t, reads >= whole && reads <= whole + slots))
            printf("    stopped at %d: %d and %d read, at once %d, %d slots\n", at, (int)before, (int)(reads - before),
                   (int)whole, (int)slots);
        CHECK_EQ(t, stats.bytes_read, reads * BLOB); // in no count alone
        CHECK_EQ(t, stats.prefetched, stats.used + stats.wasted);
        close_opened(&o);
    }
    CHECK(t, whole > 150);
}

// A prompt that begins alike goes on with what is the same; where layers have states it begins anew.
static void other_tokens_are_not_confused(struct harness *t)
{
    for (int i = 0; i < N_MODELS * N_DEVICES; i++) {
        struct opened o;
        struct moe_err err;
        if (!open_at(t, i / N_DEVICES, i % N_DEVICES, MOE_CACHE_ALL, &o))
            return;
        uint64_t same = run_hash(t, &o, o.ids, N_TOKENS);
        int all = o.calls;
        uint64_t longer = run_hash(t, &o, o.ids, N_TOKENS + 3), shorter = run_hash(t, &o, o.ids, 17);
        int32_t other[N_TOKENS];
        memcpy(other, o.ids, sizeof other);
        other[23] = (other[23] + 1) % (int32_t)o.vocab;
        uint64_t differs = run_hash(t, &o, other, N_TOKENS);
        CHECK(t, differs != same);
        const struct {
            const int32_t *ids;
            size_t count;
            uint64_t want;
        } then[] = {{o.ids, N_TOKENS + 3, longer},
                    {o.ids, 17, shorter},
                    {other, N_TOKENS, differs},
                    {other + 1, N_TOKENS - 1, run_hash(t, &o, other + 1, N_TOKENS - 1)}};
        for (size_t k = 0; k < sizeof then / sizeof then[0]; k++)
            for (int at = all / 4; at < all - 2; at += all / 4) {
                CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
                CHECK_EQ(t, feed(&o, o.ids, N_TOKENS, at), MOE_CANCELLED);
                CHECK_EQ(t, feed(&o, then[k].ids, then[k].count, NEVER), 0);
                CHECK_EQ(t, hash_of(t, &o), then[k].want);
            }
        // Too few are the same to be worth a group of their own.
        other[5] = (other[5] + 1) % (int32_t)o.vocab;
        differs = run_hash(t, &o, other, N_TOKENS);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        CHECK_EQ(t, feed(&o, o.ids, N_TOKENS, all / 2), MOE_CANCELLED);
        CHECK_EQ(t, feed(&o, other, N_TOKENS, NEVER), 0);
        CHECK(t, o.first < N_TOKENS / 4);
        CHECK_EQ(t, hash_of(t, &o), differs);
        // A token in between; then the same prompt from its beginning, though it stands elsewhere.
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        CHECK_EQ(t, feed(&o, o.ids, N_TOKENS, all / 2), MOE_CANCELLED);
        moe_session_resume(o.session);
        CHECK_EQ(t, moe_session_decode(o.session, 9, &err), 0);
        CHECK(t, moe_session_held(o.session) == 0);
        CHECK_EQ(t, run_hash(t, &o, o.ids, N_TOKENS), same);
        close_opened(&o);
    }
}

// States at a border that the group's first layers have passed are there when the rest of it has.
static void a_border_is_kept_on_the_way(struct harness *t)
{
    enum { BORDER = 20 };
    for (int model = 1; model < N_MODELS; model++) {
        struct opened o;
        struct moe_err err;
        if (!open_at(t, model, 0, MOE_CACHE_ALL, &o))
            return;
        uint64_t want = run_hash(t, &o, o.ids, N_TOKENS);
        int all = o.calls;
        for (int at = all / 5; at < all - 1; at += all / 5) {
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
            CHECK_EQ(t, feed_to(&o, o.ids, N_TOKENS, at, BORDER), MOE_CANCELLED);
            CHECK_EQ(t, feed_to(&o, o.ids, N_TOKENS, NEVER, BORDER), 0);
            CHECK_EQ(t, moe_session_floor(o.session, N_TOKENS - 1), BORDER);
            CHECK_EQ(t, moe_session_truncate(o.session, BORDER, &err), 0);
            CHECK_EQ(t, feed(&o, o.ids + BORDER, N_TOKENS - BORDER, NEVER), 0);
            CHECK_EQ(t, hash_of(t, &o), want);
            // Another border is asked for when it goes on: the old one is none.
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
            CHECK_EQ(t, feed_to(&o, o.ids, N_TOKENS, at, BORDER), MOE_CANCELLED);
            CHECK_EQ(t, feed_to(&o, o.ids, N_TOKENS, NEVER, BORDER + 5), 0);
            CHECK(t, moe_session_floor(o.session, N_TOKENS - 1) != BORDER);
        }
        close_opened(&o);
    }
}

// What a feed has in common with the held rows counts when it is all of them, all of the feed, or half of them; and
// where layers have states, only when it is all of them.
static void half_is_enough(struct harness *t)
{
    int32_t ids[] = {4, 8, 1, 5, 9, 2, 6, 5, 3, 5};
    const struct held_group held = {.ids = ids, .position = 7, .rows = 10};
    static const struct {
        size_t count;
        int differs; // from which on, -1: nowhere
        uint32_t same, with_states;
    } cases[] = {{10, -1, 10, 10}, {12, -1, 10, 10}, {10, 9, 9, 0}, {10, 5, 5, 0}, {10, 4, 0, 0},
                 {10, 0, 0, 0},    {3, -1, 3, 0},    {3, 2, 0, 0},  {1, -1, 1, 0}, {6, 5, 5, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t fed[12] = {4, 8, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9};
        struct moe_feed feed = {.ids = fed, .count = cases[i].count, .position = 7};
        if (cases[i].differs >= 0)
            fed[cases[i].differs]++;
        CHECK_EQ(t, held_group_same(&held, &feed, false), cases[i].same);
        CHECK_EQ(t, held_group_same(&held, &feed, true), cases[i].with_states);
        feed.position = 6;
        CHECK_EQ(t, held_group_same(&held, &feed, false), 0);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(the_same_tokens_go_on),
                                                TEST(a_stop_at_once_loses_nothing),
                                                TEST(experts_are_not_read_again),
                                                TEST(other_tokens_are_not_confused),
                                                TEST(half_is_enough),
                                                TEST(a_border_is_kept_on_the_way)};
    return HARNESS_RUN(tests, argc, argv);
}
