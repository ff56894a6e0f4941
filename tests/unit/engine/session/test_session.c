// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions over a small random model, on plain C and on every kind of OpenCL device there is: placement, chunks, cuts
// and neighbours never change a bit; refusals, failed reads and cancels leave a session where it was.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"
#include "engine/moe.h"
#include "engine/base/amounts.h"

#define MODEL_A "tests/golden/tiny-a/package" // q_lora, YaRN, groups, a dense layer, tied embeddings
#define MODEL_B "tests/golden/tiny-b/package" // no q_lora, plain rope

enum { N_TOKENS = 45, N_DECODED = 6 };

static const char *const devices[] = {"ref", "cpu"};
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

struct setup {
    const char *directory;
    const char *device;
    uint64_t cache;
    unsigned readers;
    struct moe_session_options session;
    moe_read_fn *read;
    void *read_context;
    bool two_tiers; // and direct reads
};

struct opened {
    moe_model *model;
    moe_session *session;
};

static struct setup usual(const char *device)
{
    return (struct setup){
        .directory = MODEL_A, .device = device, .cache = MOE_CACHE_ALL, .session = {.prefetch = MOE_PREFETCH_OFF}};
}

static int open_setup(struct harness *t, const struct setup *setup, struct opened *opened)
{
    struct moe_model_options options = {.device = setup->device,
                                        .expert_cache_bytes = setup->cache,
                                        .readers = setup->readers,
                                        .force_two_tiers = setup->two_tiers,
                                        .io = setup->two_tiers ? MOE_IO_DIRECT : MOE_IO_AUTO,
                                        .read = setup->read,
                                        .read_context = setup->read_context};
    struct moe_err err;
    memset(opened, 0, sizeof *opened);
    if (moe_model_open(setup->directory, &options, &opened->model, &err) ||
        moe_session_open(opened->model, &setup->session, &opened->session, &err)) {
        printf("%s on %s: %s\n", setup->directory, setup->device, err.text);
        return CHECK(t, 0);
    }
    return 1;
}

static void close_opened(struct opened *opened)
{
    moe_session_close(opened->session);
    moe_model_close(opened->model);
}

static uint64_t smallest_budget(struct harness *t, const struct setup *setup)
{
    struct opened o;
    uint64_t bytes = open_setup(t, setup, &o) ? moe_model_cache(o.model).smallest_bytes : 0;
    close_opened(&o);
    return bytes;
}

static void make_ids(const struct opened *opened, int32_t *ids, size_t count)
{
    uint32_t vocab = moe_model_describe(opened->model)->vocab_size;
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((state >> 8) % vocab);
    }
}

// A hash of float bits, to compare runs without keeping them.
static uint64_t hash_floats(uint64_t hash, const float *values, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)values;
    for (size_t i = 0; i < count * sizeof *values; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

struct hashed_rows {
    uint64_t hash;
    uint32_t vocab;
};

static int hash_row(void *context, uint32_t position, const float *logits)
{
    struct hashed_rows *rows = context;
    (void)position;
    rows->hash = hash_floats(rows->hash, logits, rows->vocab);
    return 0;
}

// Prefills N_TOKENS with every row's logits and decodes N_DECODED greedily: a hash of all logits.
static uint64_t run_hash(struct harness *t, struct opened *o)
{
    int32_t ids[N_TOKENS];
    struct moe_err err;
    uint32_t vocab = moe_model_describe(o->model)->vocab_size;
    struct hashed_rows rows = {14695981039346656037u, vocab};
    make_ids(o, ids, N_TOKENS);
    struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .on_row = hash_row, .context = &rows};
    if (!CHECK_EQ(t, moe_session_prefill(o->session, &feed, &err), 0)) {
        printf("%s\n", err.text);
        return 0;
    }
    for (int i = 0; i < N_DECODED; i++) {
        if (!CHECK_EQ(t, moe_session_decode(o->session, ids[i], &err), 0))
            return 0;
        rows.hash = hash_floats(rows.hash, moe_session_logits(o->session, &err), vocab);
    }
    return rows.hash;
}

static uint64_t hash_of(struct harness *t, const struct setup *setup)
{
    struct opened o;
    uint64_t hash = open_setup(t, setup, &o) ? run_hash(t, &o) : 0;
    close_opened(&o);
    return hash;
}

static void placement_never_changes_a_bit(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = usual(devices[d]);
        struct opened o;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_cache_plan plan = moe_model_cache(o.model);
        uint64_t want = run_hash(t, &o);
        struct moe_stats all = moe_session_stats(o.session);
        CHECK(t, all.evictions == 0 && all.misses <= plan.slots && all.hits > 0);
        close_opened(&o);
        const uint64_t budgets[] = {plan.smallest_bytes, plan.smallest_bytes + plan.slot_bytes + 17,
                                    plan.slots * plan.slot_bytes / 2};
        for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
            setup.cache = budgets[b];
            setup.readers = (unsigned)b * 3 + 1;
            if (!open_setup(t, &setup, &o))
                continue;
            CHECK_EQ(t, run_hash(t, &o), want);
            struct moe_stats stats = moe_session_stats(o.session);
            CHECK(t, stats.misses > all.misses && stats.evictions > 0);
            CHECK_EQ(t, stats.bytes_read, stats.misses * plan.slot_bytes);
            close_opened(&o);
        }
    }
}

static void chunks_never_change_a_bit(struct harness *t)
{
    const struct {
        uint32_t chunk, group;
    } sizes[] = {{2, 0}, {7, 14}, {16, 0}, {16, 16}, {44, 0}, {7, 45}, {3, 30}, {64, 1}};
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = usual(devices[d]);
        uint64_t want = hash_of(t, &setup);
        uint64_t smallest = smallest_budget(t, &setup);
        for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++) {
            setup.session.prefill_chunk = sizes[c].chunk;
            setup.session.prefill_group = sizes[c].group;
            setup.cache = c % 2 ? MOE_CACHE_ALL : smallest;
            CHECK_EQ(t, hash_of(t, &setup), want);
        }
    }
}

struct progress_seen {
    uint64_t done, total, bytes_read;
    int calls, calls_after; // the cancel
    bool backwards, cancelled;
    uint32_t cancel_at; // once the session has so many tokens; 0: never
    moe_session *session;
};

static void see_progress(void *context, const struct moe_progress *progress)
{
    struct progress_seen *seen = context;
    seen->calls++;
    seen->calls_after += seen->cancelled;
    seen->backwards |= progress->done < seen->done || progress->done > progress->total;
    seen->done = progress->done;
    seen->total = progress->total;
    seen->bytes_read = progress->bytes_read;
    if (seen->cancel_at && moe_session_length(seen->session) >= seen->cancel_at) { // what is done is by the clock
        moe_session_cancel(seen->session);
        seen->cancelled = true;
    }
}

// With the smallest cache each group reads each expert once at most, whatever the chunks are; groups are of like size.
static void a_group_reads_each_expert_once(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = usual(devices[d]);
        setup.session.prefill_chunk = 4;
        setup.cache = smallest_budget(t, &setup);
        uint64_t reads[2];
        for (uint32_t run = 0; run < 2; run++) {
            struct opened o;
            setup.session.prefill_group = run ? 24 : 4;
            if (!open_setup(t, &setup, &o))
                return;
            const struct moe_description *about = moe_model_describe(o.model);
            struct progress_seen seen = {0};
            struct moe_err err;
            int32_t ids[N_TOKENS];
            make_ids(&o, ids, N_TOKENS);
            struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .progress = see_progress, .context = &seen};
            CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
            reads[run] = moe_session_stats(o.session).misses;
            CHECK(t, seen.bytes_read > 0);
            CHECK_EQ(t, seen.bytes_read, moe_session_stats(o.session).bytes_read);
            CHECK(t, seen.calls > 10 && !seen.backwards && seen.done == N_TOKENS && seen.total == N_TOKENS);
            if (run) {
                CHECK(t, reads[1] <= 2 * about->n_moe_layers * about->n_routed_experts);
                CHECK_EQ(t, moe_session_telemetry(o.session)->rows, N_TOKENS - 24);
            }
            close_opened(&o);
        }
        CHECK(t, reads[1] < reads[0]);
    }
}

// A cancel keeps the groups that are done, and what follows is as if they had been a feed of their own.
static void a_cancel_keeps_whole_groups(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = usual(devices[d]);
        setup.session.prefill_chunk = 5;
        setup.session.prefill_group = 15;
        struct opened o;
        if (!open_setup(t, &setup, &o))
            return;
        uint64_t want = run_hash(t, &o);
        struct progress_seen seen = {.cancel_at = 15, .session = o.session};
        struct moe_err err;
        int32_t ids[N_TOKENS];
        make_ids(&o, ids, N_TOKENS);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .progress = see_progress, .context = &seen};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CANCELLED);
        CHECK_EQ(t, moe_session_length(o.session), 15);
        CHECK(t, seen.calls_after <= 1); // not even the layer's other experts, though all are there
        moe_session_resume(o.session);
        feed = (struct moe_feed){.ids = ids + 15, .count = N_TOKENS - 15, .position = 15};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
        uint64_t rest = hash_floats(0, moe_session_logits(o.session, &err), moe_model_describe(o.model)->vocab_size);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        CHECK_EQ(t, run_hash(t, &o), want);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        feed = (struct moe_feed){.ids = ids, .count = N_TOKENS};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
        CHECK_EQ(t, hash_floats(0, moe_session_logits(o.session, &err), moe_model_describe(o.model)->vocab_size), rest);
        close_opened(&o);
    }
}

static void cut_and_regrown_is_the_same(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = usual(devices[d]);
        struct opened o;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_err err;
        uint64_t want = run_hash(t, &o);
        CHECK_EQ(t, moe_session_truncate(o.session, 20, &err), 0);
        CHECK(t, moe_session_logits(o.session, &err) == NULL && err.code == MOE_NOT_READY);
        int32_t ids[N_TOKENS];
        make_ids(&o, ids, N_TOKENS);
        struct moe_feed feed = {.ids = ids + 20, .count = N_TOKENS - 20, .position = 20};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        CHECK_EQ(t, run_hash(t, &o), want);
        close_opened(&o);
    }
}

// Every refusal has its code and changes nothing: afterwards the session decodes as an untouched one does.
static void refusals_leave_the_session(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup setup = usual(devices[d]);
        setup.session.max_context = N_TOKENS + N_DECODED;
        struct opened o;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_err err;
        int32_t ids[N_TOKENS];
        make_ids(&o, ids, N_TOKENS);
        int32_t vocab = (int32_t)moe_model_describe(o.model)->vocab_size;
        CHECK(t, moe_session_logits(o.session, &err) == NULL && err.code == MOE_NOT_READY);
        struct moe_feed feed = {.ids = ids, .count = 30};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
        uint64_t logits = hash_floats(0, moe_session_logits(o.session, &err), (size_t)vocab);
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_POSITION);
        feed = (struct moe_feed){.ids = ids, .count = N_TOKENS, .position = 30};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_CONTEXT_FULL);
        feed.count = 0;
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_BAD_ARGUMENT);
        CHECK_EQ(t, moe_session_decode(o.session, -1, &err), MOE_BAD_TOKEN);
        CHECK_EQ(t, moe_session_decode(o.session, vocab, &err), MOE_BAD_TOKEN);
        CHECK_EQ(t, moe_session_truncate(o.session, 31, &err), MOE_POSITION);
        CHECK_EQ(t, moe_session_length(o.session), 30);
        CHECK_EQ(t, hash_floats(0, moe_session_logits(o.session, &err), (size_t)vocab), logits);
        CHECK_EQ(t, moe_session_truncate(o.session, 0, &err), 0);
        uint64_t after = run_hash(t, &o);
        CHECK_EQ(t, moe_session_decode(o.session, 1, &err), MOE_CONTEXT_FULL);
        close_opened(&o);
        setup.session.max_context = 0;
        CHECK_EQ(t, hash_of(t, &setup), after);
    }
}

static void options_are_refused(struct harness *t)
{
    struct opened o;
    struct setup setup = usual("ref");
    struct moe_err err;
    if (!open_setup(t, &setup, &o))
        return;
    moe_session *session;
    struct moe_session_options beyond = {.max_context = UINT32_MAX};
    CHECK_EQ(t, moe_session_open(o.model, &beyond, &session, &err), MOE_BAD_ARGUMENT);
    struct moe_session_options type = {.kv_type = (enum moe_kv_type)7};
    CHECK_EQ(t, moe_session_open(o.model, &type, &session, &err), MOE_BAD_ARGUMENT);
    struct moe_session_options ring = {.ring = 3};
    CHECK_EQ(t, moe_session_open(o.model, &ring, &session, &err), MOE_BAD_ARGUMENT);
    uint64_t smallest = moe_model_cache(o.model).smallest_bytes;
    CHECK_EQ(t, smallest, 2 * moe_model_describe(o.model)->top_k * moe_model_cache(o.model).slot_bytes);
    close_opened(&o);
    struct moe_model_options options = {.device = "ref", .expert_cache_bytes = smallest / 2, .ring = 1};
    moe_model *model;
    // Half the slots do for a ring of 1, and then no session may have a deeper one.
    if (CHECK_EQ(t, moe_model_open(MODEL_A, &options, &model, &err), 0)) {
        CHECK_EQ(t, moe_model_cache(model).smallest_bytes, smallest / 2);
        ring.ring = 2;
        CHECK_EQ(t, moe_session_open(model, &ring, &session, &err), MOE_BAD_ARGUMENT);
        ring.ring = 0;
        if (CHECK_EQ(t, moe_session_open(model, &ring, &session, &err), 0))
            moe_session_close(session);
        moe_model_close(model);
    }
    options = (struct moe_model_options){.device = "ref", .ring = 3};
    CHECK_EQ(t, moe_model_open(MODEL_A, &options, &model, &err), MOE_BAD_ARGUMENT);
    options = (struct moe_model_options){.device = "ref", .expert_cache_bytes = smallest - 1};
    CHECK_EQ(t, moe_model_open(MODEL_A, &options, &model, &err), MOE_BUDGET);
    char figure[60];
    char least[AMOUNT_SIZE];
    snprintf(figure, sizeof figure, "give --expert-cache %s or more", amount_to_type(least, smallest, true));
    CHECK(t, strstr(err.text, figure) != NULL);
    CHECK_EQ(t, moe_model_open("tests/golden/nowhere", &options, &model, &err), MOE_NOT_FOUND);
    options.device = "no such device";
    CHECK_EQ(t, moe_model_open(MODEL_A, &options, &model, &err), MOE_DEVICE);
}

// Two models and two sessions of one of them, fed in turns; one model is closed while the others go on.
static void neighbours_never_meet(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct setup a = usual(devices[d]);
        struct setup b = usual(devices[d]);
        b.directory = MODEL_B;
        uint64_t want_a = hash_of(t, &a);
        uint64_t want_b = hash_of(t, &b);
        a.cache = 0;
        struct opened first, second;
        if (!open_setup(t, &a, &first) || !open_setup(t, &b, &second))
            return;
        struct moe_err err;
        struct opened beside = {first.model, NULL};
        CHECK_EQ(t, moe_session_open(first.model, &a.session, &beside.session, &err), 0);
        CHECK_EQ(t, run_hash(t, &first), want_a);
        CHECK_EQ(t, run_hash(t, &second), want_b);
        CHECK_EQ(t, run_hash(t, &beside), want_a);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(t, moe_session_decode(first.session, 3, &err), 0);
            CHECK_EQ(t, moe_session_decode(second.session, 3, &err), 0);
        }
        moe_session_close(beside.session);
        close_opened(&first);
        CHECK_EQ(t, moe_session_truncate(second.session, 0, &err), 0);
        CHECK_EQ(t, run_hash(t, &second), want_b);
        close_opened(&second);
    }
}

// Four sessions, two of each model, decode a token in turn with the smallest caches: each gets the bits it gets alone.
static void sessions_take_turns(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct opened o[4] = {{NULL, NULL}};
        uint64_t want[4], got[4] = {0};
        struct setup setup[2] = {usual(devices[d]), usual(devices[d])};
        struct moe_err err;
        setup[1].directory = MODEL_B;
        for (int m = 0; m < 2; m++) {
            setup[m].cache = smallest_budget(t, &setup[m]);
            setup[m].session.prefetch = MOE_PREFETCH_ROUTER;
        }
        for (int alone = 1; alone >= 0; alone--) {
            if (!open_setup(t, &setup[0], &o[0]) || !open_setup(t, &setup[1], &o[1]))
                return;
            for (int i = 2; i < 4; i++) {
                o[i].model = o[i - 2].model;
                CHECK_EQ(t, moe_session_open(o[i].model, &setup[i - 2].session, &o[i].session, &err), 0);
            }
            uint64_t *hashes = alone ? want : got;
            for (int i = 0; i < 4; i++)
                hashes[i] = 0;
            for (int n = 0; n < 4 * 12; n++) {
                int i = alone ? n / 12 : n % 4, token = alone ? n % 12 : n / 4;
                uint32_t vocab = moe_model_describe(o[i].model)->vocab_size;
                if (!CHECK_EQ(t, moe_session_decode(o[i].session, (token * 5 + i) % 50, &err), 0))
                    break;
                hashes[i] = hash_floats(hashes[i], moe_session_logits(o[i].session, &err), vocab);
            }
            for (int i = 3; i >= 0; i--)
                moe_session_close(o[i].session);
            moe_model_close(o[0].model);
            moe_model_close(o[1].model);
        }
        for (int i = 0; i < 4; i++)
            CHECK_EQ(t, got[i], want[i]);
    }
}

// Reads that fail, corrupt or cancel at the n-th call.
struct trouble {
    atomic_int calls;
    int at;
    enum { FAIL, CANCEL, GARBAGE } kind;
    bool two_tiers; // and direct reads
    _Atomic(moe_session *) session;
};

static ptrdiff_t troubled_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct trouble *trouble = context;
    int call = atomic_fetch_add(&trouble->calls, 1);
    if (call == trouble->at && trouble->kind == FAIL) {
        errno = EIO;
        return -1;
    }
    if (call == trouble->at && trouble->kind == CANCEL)
        moe_session_cancel(atomic_load(&trouble->session));
    if (call >= trouble->at && trouble->kind == GARBAGE) {
        memset(target, 0xff, length);
        return (ptrdiff_t)length;
    }
    return pread(fd, target, length, (off_t)offset);
}

// One feed is troubled in the middle; the next try succeeds and equals an untroubled run.
static void troubled_feed(struct harness *t, const char *device, struct trouble *trouble, int want_code)
{
    struct setup setup = usual(device);
    setup.two_tiers = trouble->two_tiers;
    uint64_t want = hash_of(t, &setup);
    setup.cache = 0;
    setup.read = troubled_read;
    setup.read_context = trouble;
    struct opened o;
    if (!open_setup(t, &setup, &o))
        return;
    atomic_store(&trouble->session, o.session);
    struct moe_err err;
    int32_t ids[N_TOKENS];
    make_ids(&o, ids, N_TOKENS);
    struct moe_feed feed = {.ids = ids, .count = N_TOKENS};
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), want_code);
    if (want_code == MOE_IO) {
        CHECK(t, err.layer >= 1 && err.expert >= 0 && err.sys_errno == EIO && strstr(err.file, ".experts"));
    }
    CHECK_EQ(t, moe_session_length(o.session), 0);
    moe_session_resume(o.session);
    CHECK_EQ(t, run_hash(t, &o), want);
    close_opened(&o);
}

static void a_failed_read_is_an_error_and_no_more(struct harness *t)
{
    for (int d = 0; d < 2 * N_DEVICES; d++) {
        struct trouble trouble = {.at = 5, .kind = FAIL, .two_tiers = d >= N_DEVICES};
        troubled_feed(t, devices[d % N_DEVICES], &trouble, MOE_IO);
    }
}

static void a_cancel_stops_and_no_more(struct harness *t)
{
    for (int d = 0; d < 2 * N_DEVICES; d++) {
        struct trouble trouble = {.at = 4, .kind = CANCEL, .two_tiers = d >= N_DEVICES};
        troubled_feed(t, devices[d % N_DEVICES], &trouble, MOE_CANCELLED);
    }
}

static int stop_at_row(void *context, uint32_t position, const float *logits)
{
    const uint32_t *last = context;
    (void)logits;
    return position == *last ? MOE_IO : 0;
}

// What fails in a later chunk takes the chunks before it along: length and logits are those before the feed.
static void a_late_failure_leaves_no_chunk(struct harness *t)
{
    for (int d = 0; d < N_DEVICES; d++) {
        struct trouble trouble = {.at = INT_MAX, .kind = FAIL};
        struct setup setup = usual(devices[d]);
        setup.session.prefill_chunk = setup.session.prefill_group = 7;
        setup.read = troubled_read;
        setup.read_context = &trouble;
        setup.cache = smallest_budget(t, &setup);
        struct opened o;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_err err;
        int32_t ids[N_TOKENS];
        make_ids(&o, ids, N_TOKENS);
        uint32_t vocab = moe_model_describe(o.model)->vocab_size;
        CHECK_EQ(t, moe_session_decode(o.session, 5, &err), 0);
        uint64_t logits = hash_floats(0, moe_session_logits(o.session, &err), vocab);
        struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .position = 1};
        trouble.at = atomic_load(&trouble.calls) + 40; // a chunk reads at most 16 times
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_IO);
        CHECK_EQ(t, moe_session_length(o.session), 1);
        CHECK_EQ(t, hash_floats(0, moe_session_logits(o.session, &err), vocab), logits);
        uint32_t last = 20;
        feed.on_row = stop_at_row;
        feed.context = &last;
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_IO);
        CHECK_EQ(t, err.code, MOE_IO);
        CHECK_EQ(t, moe_session_length(o.session), 1);
        CHECK_EQ(t, hash_floats(0, moe_session_logits(o.session, &err), vocab), logits);
        close_opened(&o);
    }
}

static void garbage_is_not_answered_with(struct harness *t)
{
    for (uint32_t run = 0; run < 2 * N_DEVICES; run++) {
        struct trouble trouble = {.at = 3, .kind = GARBAGE};
        struct setup setup = usual(devices[run / 2]);
        setup.session.prefill_chunk = run % 2; // 1: one by one, each expert asked for at once
        setup.read = troubled_read;
        setup.read_context = &trouble;
        struct opened o;
        if (!open_setup(t, &setup, &o))
            continue;
        struct moe_err err;
        int32_t ids[N_TOKENS];
        make_ids(&o, ids, N_TOKENS);
        struct moe_feed feed = {.ids = ids, .count = N_TOKENS};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), MOE_BAD_NUMBERS);
        CHECK_EQ(t, moe_session_length(o.session), 0);
        close_opened(&o);
    }
}

// What session, whose prompt is under way, has counted.
struct under_way {
    moe_session *session;
    uint64_t least, most, ns;
    bool strange;
};

static void see_counters(void *context, const struct moe_progress *progress)
{
    struct under_way *seen = context;
    struct moe_stats stats = moe_session_stats(seen->session);
    // Of the group under way as many count as it is worth, rounded, where the progress has the whole ones.
    seen->strange |= stats.prefilled_tokens < seen->most || stats.prefilled_tokens < progress->done ||
                     stats.prefilled_tokens > progress->done + 1 || stats.prefill_ns <= seen->ns;
    seen->least = seen->least ? seen->least : stats.prefilled_tokens;
    seen->most = stats.prefilled_tokens;
    seen->ns = stats.prefill_ns;
}

static void prompts_count_while_they_are_read(struct harness *t)
{
    enum { GROUP = 8 };
    struct setup setup = usual("ref");
    setup.session.prefill_chunk = 4;
    setup.session.prefill_group = GROUP;
    struct opened o;
    if (!open_setup(t, &setup, &o))
        return;
    struct moe_err err;
    int32_t ids[N_TOKENS];
    make_ids(&o, ids, N_TOKENS);
    struct under_way seen = {.session = o.session};
    struct moe_feed feed = {.ids = ids, .count = N_TOKENS, .progress = see_counters, .context = &seen};
    CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
    CHECK(t, !seen.strange && seen.least > 0 && seen.least < GROUP && seen.most == N_TOKENS);
    struct moe_stats stats = moe_session_stats(o.session);
    CHECK(t, stats.prefilled_tokens == N_TOKENS && stats.prefill_ns >= seen.ns);
    close_opened(&o);
}

static void counters_add_up(struct harness *t)
{
    struct setup setup = usual("cpu");
    struct opened o;
    if (!open_setup(t, &setup, &o))
        return;
    const struct moe_description *description = moe_model_describe(o.model);
    run_hash(t, &o);
    struct moe_stats stats = moe_session_stats(o.session);
    CHECK_EQ(t, stats.prefilled_tokens, N_TOKENS);
    CHECK_EQ(t, stats.decoded_tokens, N_DECODED);
    struct moe_err err;
    CHECK_EQ(t, moe_session_decode(o.session, 1, &err), 0);
    struct moe_stats more = moe_session_stats(o.session);
    uint64_t wanted = (uint64_t)description->n_moe_layers * description->top_k;
    CHECK_EQ(t, more.hits + more.misses - stats.hits - stats.misses, wanted);
    CHECK(t, more.decode_ns > stats.decode_ns && more.launches > stats.launches && more.waits > stats.waits);
    CHECK(t, more.prefetched == 0 && more.used == 0 && more.wasted == 0);
    CHECK_STR(t, more.prefetch_policy, "off");
    close_opened(&o);
}

// Where the host has every expert and the device few, prefetches save copies: they are tried, though nothing is read.
static void prefetching_is_tried_from_the_host(struct harness *t)
{
    struct setup setup = usual("ref");
    struct moe_model_options options = {.device = "ref",
                                        .expert_cache_bytes = smallest_budget(t, &setup),
                                        .force_two_tiers = true,
                                        .host_cache_bytes = MOE_CACHE_ALL};
    struct opened o = {0};
    struct moe_err err;
    struct moe_stats stats = {0};
    CHECK_EQ(t, moe_model_open(setup.directory, &options, &o.model, &err), 0);
    for (int warm = 0; warm < 2; warm++) {
        setup.session.prefetch = warm ? MOE_PREFETCH_AUTO : MOE_PREFETCH_OFF;
        moe_session_close(o.session);
        CHECK_EQ(t, moe_session_open(o.model, &setup.session, &o.session, &err), 0);
        for (int32_t i = 0; i < 40; i++)
            CHECK_EQ(t, moe_session_decode(o.session, i, &err), 0);
        stats = moe_session_stats(o.session);
    }
    CHECK_EQ(t, stats.misses, 0);
    CHECK(t, strstr(stats.prefetch_reason, "faster: ") != NULL);
    close_opened(&o);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(placement_never_changes_a_bit),
        TEST(chunks_never_change_a_bit),
        TEST(a_group_reads_each_expert_once),
        TEST(a_cancel_keeps_whole_groups),
        TEST(cut_and_regrown_is_the_same),
        TEST(refusals_leave_the_session),
        TEST(options_are_refused),
        TEST(neighbours_never_meet),
        TEST(sessions_take_turns),
        TEST(a_cancel_stops_and_no_more),
        TEST(a_failed_read_is_an_error_and_no_more),
        TEST(a_late_failure_leaves_no_chunk),
        TEST(garbage_is_not_answered_with),
        TEST(counters_add_up),
        TEST(prompts_count_while_they_are_read),
        TEST(prefetching_is_tried_from_the_host),
    };
    return HARNESS_RUN(tests, argc, argv);
}
