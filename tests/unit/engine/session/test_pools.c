// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions of a model whose layers choose pools of positions or keep states, with several residual streams, on plain C
// and OpenCL: splits, groups, cuts inside a pool and restores never change a bit.
#include <stdlib.h>
#include <unistd.h>

#include "tests/setup_rig.h"

static const char *const devices[] = {"ref", "cpu"};
// First with rows in float32, then in halves, which are the program's default.
enum { IN_FLOATS = 2, N_SETUPS = 2 * IN_FLOATS, POOL = 4, CHOSEN = 16 }; // of gguf-glm5-next

static struct setup usual(int i)
{
    return (struct setup){
        .directory = "tests/golden/gguf-glm5-next/checkpoint",
        .device = devices[i % 2],
        .cache = MOE_CACHE_ALL,
        .session = {.prefetch = MOE_PREFETCH_OFF, .kv_type = i < IN_FLOATS ? MOE_KV_F32 : MOE_KV_F16}};
}

static void splits_never_change_a_bit(struct harness *t)
{
    static const struct splits splits = {{{2, 0}, {3, 9}, {7, 21}, {64, 0}, {65, 0}, {16, 80}}, {1, 4, 68, 69, 80}};
    for (int i = 0; i < IN_FLOATS; i++) {
        struct setup setup = usual(i);
        check_splits(t, &setup, &splits);
    }
}

static void feeds_of_any_length(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        check_feeds(t, &setup);
    }
}

// In a pool, before its first and after its last position; below and above what is chosen. What other tokens had made
// of the pool is not seen again.
static void cuts_inside_a_pool(struct harness *t)
{
    static const uint32_t cuts[] = {1, POOL, POOL + 3, CHOSEN + 1, 38, 39, 40, N_TOKENS - 1};
    uint64_t wants[N_SETUPS];
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        struct opened o;
        struct moe_err err;
        uint64_t want = wants[i] = run(t, &setup);
        CHECK(t, i < IN_FLOATS || want != wants[i - IN_FLOATS]);
        if (!open_setup(t, &setup, &o))
            continue;
        int32_t others[N_TOKENS];
        for (uint32_t k = 0; k < N_TOKENS; k++)
            others[k] = (o.ids[k] + 1) % (int32_t)o.vocab;
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            struct moe_feed feed = {.ids = others, .count = N_TOKENS - cuts[c], .position = cuts[c]};
            CHECK_EQ(t, prefill(&o, cuts[c], &err), 0);
            CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
            CHECK_EQ(t, moe_session_truncate(o.session, cuts[c], &err), 0);
            CHECK_EQ(t, finish(t, &o), want);
            CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        }
        close_opened(&o);
    }
}

// Rows in records that end inside pools, and the states behind the last, in another session: no token is read again.
static void records_bring_pools_back(struct harness *t)
{
    static const uint32_t ends[] = {5, 10, 39, 62};
    enum { N = sizeof ends / sizeof *ends };
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        struct opened o;
        struct moe_err err = {.text = ""};
        struct moe_record records[N + 1];
        FILE *file = tmpfile();
        uint64_t want = run(t, &setup), offset = 0;
        if (!file || !open_setup(t, &setup, &o))
            continue;
        struct moe_record_io io = {.fd = fileno(file), .path = "saved"};
        for (int k = 0; k < N; k++) {
            struct moe_record_part part = {.offset = offset, .first = k ? ends[k - 1] : 0};
            CHECK_EQ(t, prefill(&o, ends[k], &err), 0);
            part.count = ends[k] - part.first;
            CHECK_EQ(t, moe_session_write_record(o.session, &io, &part, &records[k], &err), 0);
            offset += records[k].bytes;
        }
        struct moe_record_part states = {.offset = offset, .first = ends[N - 1], .states = true};
        CHECK_EQ(t, moe_session_write_record(o.session, &io, &states, &records[N], &err), 0);
        close_opened(&o);
        if (!open_setup(t, &setup, &o))
            continue;
        for (int k = 0; k <= N; k++)
            if (!CHECK_EQ(t, moe_session_read_record(o.session, &io, &records[k], &err), 0))
                printf("%s\n", err.text);
        CHECK_EQ(t, moe_session_truncate(o.session, ends[N - 1], &err), 0);
        CHECK_EQ(t, moe_session_length(o.session), ends[N - 1]);
        CHECK_EQ(t, finish(t, &o), want);
        CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, N_TOKENS - ends[N - 1]);
        close_opened(&o);
        fclose(file);
    }
}

// What a router sees ahead of a token is computed beside the streams, and leaves them as they were.
static void looking_ahead_changes_nothing(struct harness *t)
{
    for (int i = 0; i < IN_FLOATS; i++) {
        struct setup setup = usual(i);
        uint64_t want = run(t, &setup);
        setup.cache = smallest(t, &setup);
        setup.session.prefetch = MOE_PREFETCH_ROUTER_SHARED;
        CHECK_EQ(t, run(t, &setup), want);
        setup.session.prefetch = MOE_PREFETCH_ROUTER;
        setup.session.without = MOE_WITHOUT_FUSED;
        CHECK_EQ(t, run(t, &setup), want);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(splits_never_change_a_bit), TEST(feeds_of_any_length),           TEST(cuts_inside_a_pool),
        TEST(records_bring_pools_back),  TEST(looking_ahead_changes_nothing),
    };
    struct setup first = usual(0);
    open_driver(&first);
    return HARNESS_RUN(tests, argc, argv);
}
