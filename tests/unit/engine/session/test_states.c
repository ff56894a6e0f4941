// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions of models whose layers have states (gated delta nets beside grouped attention, KDA beside MLA), on plain C
// and OpenCL: splits, caches, cuts, cancels, failures and restores never change a bit, and a turn costs its own tokens.
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/session/session.h"
#include "tests/setup_rig.h"

static const char *const models[] = {"tests/golden/ck-qwen35moe-mlx/checkpoint",
                                     "tests/golden/ck-kimi-linear-mlx/checkpoint",
                                     "tests/golden/ck-qwen3next-mlx/checkpoint"};
static const char *const devices[] = {"ref", "cpu"};
enum { N_SETUPS = 4, ALL_SETUPS = 6 }; // those of the first two models are enough where all go one way

static struct setup usual(int i)
{
    return (struct setup){.directory = models[i / 2],
                          .device = devices[i % 2],
                          .cache = MOE_CACHE_ALL,
                          .session = {.prefetch = MOE_PREFETCH_OFF}};
}

// Reads fail from the nth on.
struct failing {
    atomic_int calls;
    atomic_int at;
};

static ptrdiff_t failing_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct failing *failing = context;
    int at = atomic_load(&failing->at);
    if (at >= 0 && atomic_fetch_add(&failing->calls, 1) >= at) {
        errno = EIO;
        return -1;
    }
    return pread(fd, target, length, (off_t)offset);
}

static void cancel_late(void *context, const struct moe_progress *progress)
{
    moe_session **session = context;
    if (*session && progress->done > N_TOKENS / 2)
        moe_session_cancel(*session);
}

static void splits_never_change_a_bit(struct harness *t)
{
    static const struct splits splits = {{{2, 0}, {3, 0}, {3, 9}, {7, 21}, {64, 0}, {65, 0}, {16, 80}, {80, 0}},
                                         {2, 3, 66, 67, 79}};
    for (int i = 0; i < ALL_SETUPS; i++) {
        struct setup setup = usual(i);
        struct opened o;
        struct moe_err err;
        check_splits(t, &setup, &splits);
        check_feeds(t, &setup);
        // One token at a time goes through the decode kernels, with the same states between.
        setup.session.prefill_chunk = 1;
        uint64_t want = run(t, &setup);
        if (!open_setup(t, &setup, &o))
            continue;
        CHECK_EQ(t, decode(&o, N_TOKENS, &err), 0);
        CHECK_EQ(t, finish(t, &o), want);
        close_opened(&o);
    }
}

// A residual with a bank, experts in a latent space.
static void kimi_k3_too(struct harness *t)
{
    static const struct splits splits = {{{2, 0}, {3, 9}, {64, 0}, {65, 0}, {16, 80}}, {2, 3, 66, 67, 79}};
    for (int i = 0; i < 2; i++) {
        struct setup setup = usual(i);
        setup.directory = "tests/golden/ck-kimi-k3-mlx/checkpoint";
        uint64_t want = check_splits(t, &setup, &splits);
        check_feeds(t, &setup);
        struct failing failing = {.at = -1};
        struct opened o;
        struct moe_err err;
        setup.cache = smallest(t, &setup);
        setup.session.prefill_chunk = 6;
        setup.session.prefill_group = 12;
        setup.session.prefetch = MOE_PREFETCH_ROUTER;
        setup.read = failing_read;
        setup.context = &failing;
        if (!open_setup(t, &setup, &o))
            continue;
        CHECK_EQ(t, prefill(&o, 17, &err), 0);
        CHECK_EQ(t, decode(&o, 20, &err), 0);
        CHECK_EQ(t, moe_session_truncate(o.session, 17, &err), 0);
        for (int at = 0; at < 60; at += 23) {
            atomic_store(&failing.calls, 0);
            atomic_store(&failing.at, at);
            CHECK_EQ(t, prefill(&o, N_TOKENS, &err), MOE_IO);
            atomic_store(&failing.at, -1);
            CHECK_EQ(t, moe_session_length(o.session), 17);
        }
        struct moe_feed feed = {
            .ids = o.ids + 17, .count = N_TOKENS - 17, .position = 17, .progress = cancel_late, .context = &o.session};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CANCELLED);
        moe_session_resume(o.session); // what is held goes on, its mixtures and sums half-way
        CHECK_EQ(t, finish(t, &o), want);
        close_opened(&o);
    }
}

// Every place where one can stand gives what a session that never went on would give; all others are refused.
static void cuts_stand_at_borders(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        struct opened o;
        struct moe_err err;
        uint64_t want = run(t, &setup);
        setup.session.prefill_chunk = 8;
        setup.session.prefill_group = 8;
        setup.session.snapshot_every = 20;
        if (!open_setup(t, &setup, &o))
            continue;
        CHECK_EQ(t, prefill(&o, 10, &err), 0);
        CHECK_EQ(t, prefill(&o, N_TOKENS, &err), 0);
        CHECK_EQ(t, decode(&o, N_TOKENS + 2, &err), 0);
        const uint32_t floors[][2] = {{N_TOKENS + 2, N_TOKENS + 2},
                                      {N_TOKENS + 1, N_TOKENS},
                                      {N_TOKENS, N_TOKENS},
                                      {N_TOKENS - 1, 58},
                                      {58, 58},
                                      {57, 34},
                                      {33, 10},
                                      {9, 0},
                                      {0, 0}};
        for (size_t c = 0; c < sizeof floors / sizeof floors[0]; c++)
            CHECK_EQ(t, moe_session_floor(o.session, floors[c][0]), floors[c][1]);
        CHECK_EQ(t, moe_session_truncate(o.session, 57, &err), MOE_POSITION);
        CHECK_EQ(t, moe_session_length(o.session), N_TOKENS + 2);
        const uint32_t cuts[] = {N_TOKENS, 58, 10, 0};
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            CHECK_EQ(t, moe_session_truncate(o.session, cuts[c], &err), 0);
            if (cuts[c] < N_TOKENS)
                CHECK_EQ(t, finish(t, &o), want);
        }
        close_opened(&o);
    }
}

// In any group of a prompt, or a decoded token: the session is where it was, and goes on as if nothing had been.
static void failures_leave_the_states(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct failing failing = {.at = -1};
        struct setup setup = usual(i);
        uint64_t want = run(t, &setup);
        setup.cache = smallest(t, &setup);
        setup.session.prefill_chunk = 6;
        setup.session.prefill_group = 12;
        setup.read = failing_read;
        setup.context = &failing;
        struct opened o;
        struct moe_err err;
        if (!open_setup(t, &setup, &o))
            continue;
        CHECK_EQ(t, prefill(&o, 17, &err), 0);
        unsigned failed = 0;
        for (int at = 0; moe_session_length(o.session) == 17 && at < 100000; at += at / 3 + 11) {
            atomic_store(&failing.calls, 0);
            atomic_store(&failing.at, at);
            int code = prefill(&o, N_TOKENS, &err);
            atomic_store(&failing.at, -1);
            failed += code == MOE_IO;
            CHECK(t, code == 0 || code == MOE_IO);
            CHECK_EQ(t, moe_session_length(o.session), code ? 17 : N_TOKENS);
            CHECK_EQ(t, moe_session_floor(o.session, 20), 17);
        }
        CHECK(t, failed > 3);
        atomic_store(&failing.calls, 0);
        atomic_store(&failing.at, 0);
        int code = decode(&o, N_TOKENS + 1, &err);
        atomic_store(&failing.at, -1);
        CHECK(t, code == 0 || moe_session_length(o.session) == N_TOKENS);
        if (code == 0)
            CHECK_EQ(t, moe_session_truncate(o.session, N_TOKENS, &err), 0);
        CHECK_EQ(t, moe_session_truncate(o.session, 17, &err), 0);
        CHECK_EQ(t, finish(t, &o), want);
        close_opened(&o);
    }
}

static void lose_the_device_behind_the_prompt(void *context, const struct moe_progress *progress)
{
    moe_session *session = context;
    gpu_buf *buf = session->scratch.buf[SCRATCH_IDS];
    (void)progress;
    if (session->length == N_TOKENS) // its logits are there, what its states are has not been copied
        gpu_write(session->model->gpu, buf, gpu_buf_bytes(buf), "", 1);
}

static void a_failure_behind_the_logits_leaves_those_before(struct harness *t)
{
    enum { BEFORE = 9 };
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        uint64_t want = run(t, &setup);
        struct opened o;
        struct moe_err err;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_feed feed = {.ids = o.ids + BEFORE,
                                .count = N_TOKENS - BEFORE,
                                .position = BEFORE,
                                .progress = lose_the_device_behind_the_prompt,
                                .context = o.session};
        CHECK_EQ(t, prefill(&o, BEFORE, &err), 0);
        uint64_t before = hash_of(7, &o);
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_BAD_ARGUMENT);
        CHECK_EQ(t, moe_session_length(o.session), BEFORE);
        CHECK_EQ(t, hash_of(7, &o), before);
        CHECK_EQ(t, finish(t, &o), want);
        close_opened(&o);
    }
}

// What was kept on the way of a feed that failed is of other tokens than those that follow.
static void a_failed_feed_leaves_no_snapshots(struct harness *t)
{
    struct failing failing = {.at = -1};
    struct setup setup = usual(0);
    uint64_t want = run(t, &setup);
    setup.cache = smallest(t, &setup);
    setup.session.prefill_chunk = setup.session.prefill_group = 8;
    setup.session.snapshot_every = 8;
    setup.read = failing_read;
    setup.context = &failing;
    struct opened o;
    struct moe_err err;
    if (!open_setup(t, &setup, &o))
        return;
    int32_t others[N_TOKENS];
    for (uint32_t i = 0; i < N_TOKENS; i++)
        others[i] = (o.ids[i] + 1) % (int32_t)o.vocab;
    struct moe_feed feed = {.ids = others, .count = N_TOKENS};
    atomic_store(&failing.at, 400);
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_IO);
    CHECK(t, atomic_load(&failing.calls) > 400);
    atomic_store(&failing.at, -1);
    CHECK_EQ(t, moe_session_length(o.session), 0);
    CHECK_EQ(t, prefill(&o, N_TOKENS, &err), 0);
    for (uint32_t floor = moe_session_floor(o.session, N_TOKENS - 1); floor;) {
        CHECK_EQ(t, moe_session_truncate(o.session, floor, &err), 0);
        CHECK_EQ(t, finish(t, &o), want);
        CHECK_EQ(t, moe_session_truncate(o.session, floor, &err), 0);
        floor = moe_session_floor(o.session, floor - 1);
    }
    close_opened(&o);
}

// With chunks of 8 tokens in groups of 24; *want: what the logits are with one chunk.
static bool open_in_groups(struct harness *t, int i, struct opened *o, uint64_t *want)
{
    struct setup setup = usual(i);
    *want = run(t, &setup);
    setup.session.prefill_chunk = 8;
    setup.session.prefill_group = 24;
    return open_setup(t, &setup, o);
}

// Wherever it lies among chunks and groups.
static void a_border_within_a_prompt(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct opened o;
        struct moe_err err;
        uint64_t want;
        if (!open_in_groups(t, i, &o, &want))
            continue;
        const uint32_t borders[] = {1, 7, 8, 9, 24, 25, 47, 78, 79};
        for (size_t b = 0; b < sizeof borders / sizeof borders[0]; b++) {
            struct moe_feed feed = {.ids = o.ids, .count = N_TOKENS, .borders = {borders[b]}};
            CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
            CHECK_EQ(t, moe_session_floor(o.session, N_TOKENS - 1), borders[b]);
            CHECK_EQ(t, finish(t, &o), want);
            CHECK_EQ(t, moe_session_truncate(o.session, borders[b], &err), 0);
            CHECK_EQ(t, finish(t, &o), want);
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        }
        close_opened(&o);
    }
}

static void cancel_at_once(void *context, const struct moe_progress *progress)
{
    moe_session **session = context;
    if (progress->done < progress->total)
        moe_session_cancel(*session);
}

// Two of them, in one chunk or in two, in one group or in two; in any order, and one that is said twice.
static void two_borders_within_a_prompt(struct harness *t)
{
    static const uint32_t pairs[][MOE_BORDERS] = {{3, 5},   {8, 9}, {7, 25}, {23, 24}, {24, 48},
                                                  {25, 79}, {5, 3}, {25, 7}, {48, 24}, {12, 12}};
    for (int i = 0; i < N_SETUPS; i++) {
        struct opened o;
        struct moe_err err;
        uint64_t want;
        if (!open_in_groups(t, i, &o, &want))
            continue;
        for (size_t b = 0; b < sizeof pairs / sizeof pairs[0]; b++) {
            struct moe_feed feed = {.ids = o.ids, .count = N_TOKENS, .borders = {pairs[b][0], pairs[b][1]}};
            CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
            bool ascends = pairs[b][0] < pairs[b][1];
            for (int border = MOE_BORDERS; border-- > 0;) {
                uint32_t position = pairs[b][ascends ? border : !border], last = pairs[b][ascends];
                CHECK_EQ(t, moe_session_floor(o.session, border ? N_TOKENS - 1 : last - (position < last)), position);
                CHECK_EQ(t, moe_session_truncate(o.session, position, &err), 0);
                CHECK_EQ(t, finish(t, &o), want);
            }
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        }
        close_opened(&o);
    }
}

// With room for two copies the last border is kept, and the beginning of the feed, where a failure goes back to.
static void few_copies_are_for_the_last_border(struct harness *t)
{
    struct setup setup = usual(0);
    setup.session.snapshots = 2;
    struct opened o;
    struct moe_err err;
    if (!open_setup(t, &setup, &o))
        return;
    CHECK_EQ(t, prefill(&o, 10, &err), 0);
    CHECK_EQ(t, prefill(&o, 20, &err), 0);
    struct moe_feed feed = {.ids = o.ids + 20,
                            .count = 40,
                            .position = 20,
                            .borders = {30, 50},
                            .progress = cancel_at_once,
                            .context = &o.session};
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CANCELLED);
    CHECK(t, moe_session_held(o.session) > 0);
    CHECK_EQ(t, moe_session_floor(o.session, 60), 20);
    moe_session_resume(o.session);
    feed.progress = NULL;
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
    CHECK_EQ(t, moe_session_floor(o.session, 59), 50);
    CHECK_EQ(t, moe_session_truncate(o.session, 50, &err), 0);
    uint64_t want = run(t, &setup);
    CHECK_EQ(t, finish(t, &o), want);
    close_opened(&o);
}

static void a_cancel_keeps_whole_groups(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        uint64_t want = run(t, &setup);
        setup.session.prefill_chunk = 5;
        setup.session.prefill_group = 15;
        struct opened o;
        struct moe_err err;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_feed feed = {.ids = o.ids, .count = N_TOKENS, .progress = cancel_late, .context = &o.session};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CANCELLED);
        uint32_t length = moe_session_length(o.session);
        CHECK(t, length > 0 && length < N_TOKENS && length % 5 == 0);
        CHECK_EQ(t, moe_session_floor(o.session, N_TOKENS), length);
        moe_session_resume(o.session);
        CHECK_EQ(t, finish(t, &o), want);
        close_opened(&o);
    }
}

// By the settings that nobody changes: at 4096 tokens, where one then stands, and reads only what follows.
static void keep_a_long_prompt(struct harness *t, struct setup *setup)
{
    enum { LONG = 4096 + 404, KEPT = 4096 };
    struct opened o;
    struct moe_err err;
    static int32_t ids[LONG];
    if (!open_setup(t, setup, &o))
        return;
    moe_session_close(o.session);
    o.model->package.shape.max_position_embeddings = LONG; // as if it were made for more
    setup->session.max_context = LONG;
    if (!CHECK_EQ(t, moe_session_open(o.model, &setup->session, &o.session, &err), 0)) {
        moe_model_close(o.model);
        return;
    }
    for (uint32_t i = 0; i < LONG; i++)
        ids[i] = (int32_t)((i * 7919 + 13 * (i / 3)) % o.vocab);
    CHECK_EQ(t, moe_session_prefill(o.session, &(struct moe_feed){.ids = ids, .count = LONG}, &err), 0);
    uint64_t want = hash_of(7, &o);
    CHECK_EQ(t, moe_session_floor(o.session, LONG), LONG);
    CHECK_EQ(t, moe_session_floor(o.session, LONG - 1), KEPT);
    CHECK_EQ(t, moe_session_floor(o.session, KEPT - 1), 0);
    CHECK_EQ(t, moe_session_truncate(o.session, KEPT, &err), 0);
    struct moe_feed rest = {.ids = ids + KEPT, .count = LONG - KEPT, .position = KEPT};
    CHECK_EQ(t, moe_session_prefill(o.session, &rest, &err), 0);
    CHECK_EQ(t, hash_of(7, &o), want);
    CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, LONG + LONG - KEPT);
    close_opened(&o);
}

static void a_long_prompt_is_kept_on_its_way(struct harness *t)
{
    for (int i = 1; i < ALL_SETUPS; i += 2) { // plain C takes long
        struct setup setup = usual(i);
        keep_a_long_prompt(t, &setup);
    }
}

// Ten turns, two undone, quit; the next day, with another cache: no old token is read, and the bits are the same. With
// rows of both formats; states have one.
static void a_turn_costs_its_own_tokens(struct harness *t)
{
    for (int i = 0; i < 2 * ALL_SETUPS; i++) {
        struct setup setup = usual(i / 2);
        setup.session.kv_type = i % 2 ? MOE_KV_F16 : MOE_KV_F32;
        struct opened o;
        struct moe_err err = {.text = ""};
        struct moe_record rows, states;
        FILE *file = tmpfile();
        if (!file || !open_setup(t, &setup, &o))
            continue;
        uint32_t borders[11] = {0}, prompts = 0;
        for (uint32_t turn = 1; turn <= 10; turn++) { // prompts of 5, answers of 3
            prompts += 5;
            CHECK_EQ(t, prefill(&o, borders[turn - 1] + 5, &err), 0);
            CHECK_EQ(t, decode(&o, borders[turn - 1] + 8, &err), 0);
            borders[turn] = borders[turn - 1] + 8;
            CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, prompts);
        }
        uint64_t ten = hash_of(7, &o);
        CHECK_EQ(t, moe_session_truncate(o.session, borders[8], &err), 0);
        for (uint32_t turn = 9; turn <= 10; turn++) {
            CHECK_EQ(t, prefill(&o, borders[turn - 1] + 5, &err), 0);
            CHECK_EQ(t, decode(&o, borders[turn], &err), 0);
        }
        CHECK_EQ(t, hash_of(7, &o), ten);
        CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, prompts + 10);
        CHECK_EQ(t, moe_session_truncate(o.session, borders[8], &err), 0);
        struct moe_record_io io = {.fd = fileno(file), .path = "saved"};
        struct moe_record_part part = {.count = borders[8]};
        CHECK_EQ(t, moe_session_write_record(o.session, &io, &part, &rows, &err), 0);
        part = (struct moe_record_part){.offset = rows.bytes, .first = borders[8], .states = true};
        CHECK_EQ(t, moe_session_write_record(o.session, &io, &part, &states, &err), 0);
        close_opened(&o);
        setup.cache = smallest(t, &setup);
        setup.session.prefill_chunk = 3;
        if (!open_setup(t, &setup, &o))
            continue;
        CHECK_EQ(t, moe_session_read_record(o.session, &io, &rows, &err), 0);
        CHECK_EQ(t, moe_session_decode(o.session, 1, &err), MOE_POSITION); // without its states
        CHECK_EQ(t, moe_session_read_record(o.session, &io, &states, &err), 0);
        CHECK_EQ(t, moe_session_floor(o.session, borders[8]), borders[8]);
        CHECK_EQ(t, moe_session_truncate(o.session, borders[8], &err), 0);
        for (uint32_t turn = 9; turn <= 10; turn++) {
            CHECK_EQ(t, prefill(&o, borders[turn - 1] + 5, &err), 0);
            CHECK_EQ(t, decode(&o, borders[turn], &err), 0);
        }
        CHECK_EQ(t, hash_of(7, &o), ten);
        CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, 10);
        close_opened(&o);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(splits_never_change_a_bit),
        TEST(kimi_k3_too),
        TEST(cuts_stand_at_borders),
        TEST(failures_leave_the_states),
        TEST(a_failure_behind_the_logits_leaves_those_before),
        TEST(a_failed_feed_leaves_no_snapshots),
        TEST(a_border_within_a_prompt),
        TEST(two_borders_within_a_prompt),
        TEST(few_copies_are_for_the_last_border),
        TEST(a_cancel_keeps_whole_groups),
        TEST(a_long_prompt_is_kept_on_its_way),
        TEST(a_turn_costs_its_own_tokens),
    };
    struct setup first = usual(0);
    open_driver(&first);
    return HARNESS_RUN(tests, argc, argv);
}
