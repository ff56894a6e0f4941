// SPDX-License-Identifier: GPL-3.0-or-later
// The expert store on a device with and without memory of its own: what it counts, whom it evicts, what it pins, what
// it refuses, and that a place always holds its expert's bytes.
#include "engine/experts/trace.h"
#include "tests/expert_rig.h"

// ---- Counting and order
// ----------------------------------------------------------------------------------------------

static void check_trace(struct harness *t, bool shared)
{
    struct rig rig;
    if (!CHECK(t, rig_open(&rig, shared)))
        return;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    // Four slots. The cache after each request, what would go first in front, is written behind it: those asked for
    // more often stay longer, and that is remembered of those that went, too.
    CHECK(t, rig_use(store, 1, (int32_t[]){5, 2, 7}, 3)); // 1.5 1.2 1.7            3 misses
    CHECK(t, rig_use(store, 1, (int32_t[]){2, 5}, 2));    // 1.7 1.2 1.5            2 hits
    CHECK(t, rig_use(store, 2, (int32_t[]){5}, 1));       // 1.7 2.5 1.2 1.5        1 miss into the empty slot
    CHECK(t, rig_use(store, 3, (int32_t[]){0, 1}, 2));    // 3.0 3.1 1.2 1.5        2 misses, 1.7 and 2.5 go
    CHECK(t, rig_use(store, 1, (int32_t[]){7, 5, 1}, 3)); // 1.1 1.2 1.7 1.5        1 hit, 2 misses: 3.0, 3.1 go
    CHECK(t, rig_use(store, 1, (int32_t[]){7}, 1));       // 1.1 1.2 1.7 1.5        1 hit
    CHECK(t, rig_use(store, 2, (int32_t[]){5, 3}, 2));    // 2.3 2.5 1.7 1.5        2 misses: 1.1, 1.2 go
    struct expert_counts counts = expert_store_counts(store);
    struct expert_layer_counts layers[RIG_LAYERS];
    for (uint32_t i = 1; i < RIG_LAYERS; i++)
        expert_store_layer(store, i, &layers[i]);
    CHECK_EQ(t, counts.evictions, 6);
    CHECK_EQ(t, layers[1].hits_device, 4);
    CHECK_EQ(t, layers[1].missed, 5);
    CHECK_EQ(t, layers[2].hits_device, 0);
    CHECK_EQ(t, layers[2].missed, 3);
    CHECK_EQ(t, layers[3].missed, 2);
    // As many host slots as the device has keep what the device keeps.
    CHECK_EQ(t, layers[1].hits_host + layers[2].hits_host + layers[3].hits_host, 0);
    CHECK_EQ(t, counts.hits, 4);
    CHECK_EQ(t, counts.misses, 10);
    CHECK_EQ(t, counts.bytes_read, counts.misses * RIG_BLOB);
    CHECK_EQ(t, counts.prefetched + counts.used + counts.wasted, 0);
    CHECK(t, rig_is_hit(store, 1, 5));
    CHECK(t, rig_is_hit(store, 1, 7));
    CHECK(t, rig_is_hit(store, 2, 5));
    CHECK(t, rig_is_hit(store, 2, 3));
    CHECK_EQ(t, expert_store_counts(store).misses, counts.misses);
    CHECK_EQ(t, rig.g.bytes_written, shared ? 0 : 10 * RIG_BLOB);
    CHECK_EQ(t, rig.g.host_blocks, shared ? 0 : 1);
    expert_store_close(store);
    CHECK_EQ(t, rig.g.bytes_allocated, 0);
    CHECK_EQ(t, rig.g.host_blocks, 0);
    rig_close(&rig);
}

// Each request is written as it was asked, all of its experts in their order.
static void requests_are_traced(struct harness *t)
{
    static const struct trace_request asked[] = {{.layer = 1, .n = 3, .ids = {5, 2, 7}},
                                                 {.layer = 3, .n = 1, .ids = {4}}};
    struct rig rig;
    char path[] = "/tmp/moechat-store-trace-XXXXXX";
    int fd = mkstemp(path);
    if (!CHECK(t, fd >= 0 && rig_open(&rig, true)))
        return;
    rig.trace = path;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    for (size_t i = 0; i < 2; i++) {
        int32_t ids[3];
        for (uint32_t k = 0; k < asked[i].n; k++)
            ids[k] = asked[i].ids[k];
        CHECK(t, rig_use(store, asked[i].layer, ids, asked[i].n));
    }
    CHECK_EQ(t, expert_store_end_trace(store, NULL), MOE_OK);
    unsigned char bytes[1024];
    ssize_t length = read(fd, bytes, sizeof bytes);
    struct trace_reader from = {.bytes = bytes, .length = length > 0 ? (size_t)length : 0};
    static struct trace_request got;
    CHECK_EQ(t, trace_read_header(&from, path, NULL), MOE_OK);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(t, trace_next(&from, path, &got, NULL), 1);
        CHECK(t, got.layer == asked[i].layer && got.rows == 1 && got.n == asked[i].n && got.use == CACHE_DECODE);
        CHECK(t, memcmp(got.ids, asked[i].ids, asked[i].n * sizeof *got.ids) == 0);
    }
    CHECK_EQ(t, trace_next(&from, path, &got, NULL), 0);
    expert_store_close(store);
    rig_close(&rig);
    close(fd);
    unlink(path);
}

static void trace_on_shared_memory(struct harness *t)
{
    check_trace(t, true);
}

static void trace_through_staging(struct harness *t)
{
    check_trace(t, false);
}

// Until so many bytes are there; for 2 s at most.
static void let_arrive(expert_store *store, uint64_t bytes)
{
    for (int i = 0; i < 2000 && expert_store_counts(store).bytes_read < bytes; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        expert_store_settle(store);
    }
}

// Reads are misses, or read ahead and then wasted: nothing is in the bytes alone.
static void check_reads(struct harness *t, expert_store *store, uint64_t misses, uint64_t wasted)
{
    struct expert_counts counts = expert_store_counts(store);
    CHECK_EQ(t, counts.misses, misses);
    CHECK_EQ(t, counts.wasted, wasted);
    CHECK_EQ(t, counts.prefetched, counts.wasted + counts.used);
    CHECK_EQ(t, counts.bytes_read, (counts.misses + counts.prefetched) * RIG_BLOB);
}

// What was asked for and is let go of unused, before its read began, while it runs, and after it.
static void dropped_reads_are_counted(struct harness *t, bool shared)
{
    struct rig rig;
    struct rig_read how = {0};
    if (!CHECK(t, rig_open(&rig, shared)))
        return;
    rig_gate(&how);
    rig.readers = 1;
    expert_store *store = rig_store(t, &rig, 8, &how);
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1}, 2, places), MOE_OK);
    CHECK(t, rig_entered(&how, 1)); // the other's has not begun
    expert_drop(store, &places[0]);
    expert_drop(store, &places[1]);
    check_reads(t, store, 0, 0);
    rig_permit(&how, 1);
    let_arrive(store, RIG_BLOB);
    check_reads(t, store, 0, 1);
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, places[0].origin == MOE_FROM_DEVICE || places[0].origin == MOE_FROM_HOST);
    rig_permit(&how, 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
    expert_release(store, places, 2);
    expert_drop(store, &places[2]);
    check_reads(t, store, 1, 2);
    // One whose read runs is let go of, and asked for again before it is there.
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){5}, 1, places), MOE_OK);
    CHECK(t, rig_entered(&how, 3)); // and the two before
    expert_drop(store, &places[0]);
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){5}, 1, places), MOE_OK);
    CHECK_EQ(t, places[0].origin, MOE_FROM_LATE);
    rig_permit(&how, 1);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, NULL), MOE_OK);
    expert_release(store, places, 1);
    check_reads(t, store, 1, 2);
    CHECK_EQ(t, expert_store_counts(store).used, 1);
    // One that was foretold, asked for, and not used after all.
    CHECK_EQ(t, expert_prefetch(store, &(struct expert_prediction){3, (int32_t[]){4}, 1}), 1);
    rig_permit(&how, 1);
    let_arrive(store, 5 * RIG_BLOB);
    CHECK_EQ(t, rig_acquire(store, 3, (int32_t[]){4}, 1, places), MOE_OK);
    CHECK_EQ(t, places[0].origin, MOE_FROM_PREFETCH);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, NULL), MOE_OK);
    expert_drop(store, &places[0]);
    check_reads(t, store, 1, 3);
    CHECK_EQ(t, expert_store_counts(store).used, 1);
    expert_store_close(store);
    rig_close(&rig);
}

static void dropped_reads_are_counted_on_shared_memory(struct harness *t)
{
    dropped_reads_are_counted(t, true);
}

static void dropped_reads_are_counted_through_staging(struct harness *t)
{
    dropped_reads_are_counted(t, false);
}

// The host's slots are fewer than the reads. What has not begun and is let go of makes room for one that waits, whose
// read goes on: nobody let go of that.
static void a_slot_that_is_let_go_of_is_anothers(struct harness *t)
{
    enum { N = 2 * RIG_TOP_K + 1 };
    struct rig rig;
    struct rig_read how = {0};
    struct expert_place places[N];
    if (!CHECK(t, rig_open(&rig, false)))
        return;
    rig_gate(&how);
    rig.readers = 1;
    expert_store *store = rig_store(t, &rig, RIG_ALL, &how);
    CHECK_EQ(t, expert_store_plan(store).host_slots, N - 1);
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2, 3, 4, 5, 6}, N, places), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    expert_drop(store, &places[N - 2]);
    rig_permit(&how, N - 1);
    for (int i = 0; i < N; i++)
        if (i != N - 2)
            CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
    check_reads(t, store, N - 1, 0);
    expert_release(store, places, N - 2);
    expert_release(store, &places[N - 1], 1);
    expert_store_close(store);
    rig_close(&rig);
}

static void wait_time_is_real_waiting(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 4, &how);
    struct expert_place place;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){3}, 1, &place), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    CHECK_EQ(t, expert_store_counts(store).wait_ns, 0);
    CHECK_EQ(t, expert_wait(store, &place, rig_yes, NULL, NULL), MOE_CANCELLED);
    CHECK_EQ(t, expert_store_counts(store).wait_ns, 0);
    rig_permit(&how, 1);
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, NULL), MOE_OK);
    uint64_t waited = expert_store_counts(store).wait_ns;
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, NULL), MOE_OK);
    CHECK_EQ(t, expert_store_counts(store).wait_ns, waited);
    expert_release(store, &place, 1);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Pins and visibility
// ---------------------------------------------------------------------------------------------

static void pins_are_never_evicted(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 5, NULL);
    struct expert_place held[2];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1}, 2, held), MOE_OK);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(t, expert_wait(store, &held[i], NULL, NULL, NULL), MOE_OK);
    for (int32_t round = 0; round < 50; round++)
        CHECK(t, rig_use(store, round % 2 ? 3 : 2, (int32_t[]){round % 8, (round + 3) % 8, (round + 5) % 8}, 3));
    CHECK(t, rig_holds(&held[0]) && rig_holds(&held[1]));

    // Four more slots are one too many, and the refusal leaves everything as it was.
    struct expert_counts before = expert_store_counts(store);
    struct expert_request four = {.layer = 3, .ids = (int32_t[]){0, 1, 2, 3}, .n = 4};
    struct expert_place places[4];
    struct moe_err err;
    CHECK_EQ(t, expert_acquire(store, &four, places, &err), MOE_BUDGET);
    CHECK_STR(t, err.text,
              "layer 3 needs 4 more slots while 2 of the cache's 5 slots are in use: give --expert-cache 49.2KB or "
              "more");
    struct expert_counts after = expert_store_counts(store);
    CHECK(t, memcmp(&before, &after, sizeof before) == 0);
    CHECK(t, rig_use(store, 3, (int32_t[]){4, 5, 6}, 3));

    // A second pin of the same expert, through another request, outlives the first.
    struct expert_place again;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){1}, 1, &again), MOE_OK);
    CHECK_EQ(t, again.slot, held[1].slot);
    expert_release(store, held, 2);
    for (int round = 0; round < 20; round++)
        CHECK(t, rig_use(store, 2, (int32_t[]){round % 8, (round + 1) % 8, (round + 2) % 8, (round + 3) % 8}, 4));
    CHECK(t, rig_holds(&again));
    expert_release(store, &again, 1);
    expert_store_close(store);
    rig_close(&rig);
}

static void hits_are_pinned_before_misses_choose(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 3, NULL);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2}, 3));
    // 0 is the coldest, and the miss that is named before it must take 1.
    CHECK(t, rig_use(store, 1, (int32_t[]){6, 0, 2}, 3));
    CHECK_EQ(t, expert_store_counts(store).hits, 2);
    CHECK_EQ(t, expert_store_counts(store).evictions, 1);
    expert_store_close(store);
    rig_close(&rig);
}

static void check_visibility(struct harness *t, bool shared)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, shared));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place first;
    struct expert_place second;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){4}, 1, &first), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    // Its key is taken, so a second request finds the slot; but nobody gets past expert_wait.
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){4}, 1, &second), MOE_OK);
    CHECK_EQ(t, second.slot, first.slot);
    CHECK_EQ(t, expert_store_counts(store).hits, 1);
    CHECK_EQ(t, expert_wait(store, &second, rig_yes, NULL, NULL), MOE_CANCELLED);
    CHECK(t, !rig_holds(&second));
    rig_permit(&how, 1);
    CHECK_EQ(t, expert_wait(store, &second, NULL, NULL, NULL), MOE_OK);
    CHECK(t, rig_holds(&first));
    CHECK_EQ(t, expert_wait(store, &first, rig_yes, NULL, NULL), MOE_OK);
    CHECK_EQ(t, atomic_load(&how.calls), 1);
    expert_release(store, &first, 1);
    expert_release(store, &second, 1);
    expert_store_close(store);
    rig_close(&rig);
}

static void no_key_before_its_bytes(struct harness *t)
{
    check_visibility(t, true);
    check_visibility(t, false);
}

// ---- Fences
// ----------------------------------------------------------------------------------------------------------

static void a_slot_is_free_when_its_fence_has_passed(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    rig.g.lazy = true;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1}, 2)); // fence 1
    CHECK(t, rig_use_one(store, 1, 2));                // fence 2
    CHECK(t, rig_use_one(store, 1, 3));                // fence 3
    CHECK_EQ(t, rig.g.fence_waits, 0);
    // The device is busy with all four: it waits for the oldest, and for no other.
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1}, 2)); // fence 4
    CHECK_EQ(t, rig.g.fence_waits, 1);
    CHECK_EQ(t, rig.g.passed, 1);
    // A hit needs no free slot, so no wait. 1.2 is now younger than 1.3.
    CHECK(t, rig_is_hit(store, 1, 2)); // fence 5
    CHECK_EQ(t, rig.g.fence_waits, 1);
    // 1.3's fence passes by itself: its slot is taken without a wait.
    rig.g.passed = 3;
    CHECK(t, rig_use_one(store, 3, 3));
    CHECK_EQ(t, rig.g.fence_waits, 1);
    CHECK(t, rig_is_hit(store, 1, 2));
    CHECK_EQ(t, rig.g.passed, 3);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Cancelling
// ------------------------------------------------------------------------------------------------------

struct countdown {
    struct rig_read *how;
    int looks;
    int permit_at; // look at which a read is let go, 0: never
};

static bool counted(void *context)
{
    struct countdown *countdown = context;
    countdown->looks++;
    if (countdown->looks == countdown->permit_at)
        rig_permit(countdown->how, 1);
    return countdown->looks >= 5;
}

static void check_cancel(struct harness *t, bool shared)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, shared));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how); // two readers
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    struct countdown countdown = {&how, 0, 0};
    CHECK_EQ(t, expert_wait(store, &places[0], counted, &countdown, NULL), MOE_CANCELLED);
    CHECK_EQ(t, countdown.looks, 5);
    expert_release(store, places, 3);

    // 0 and 1 are being read, 2 was taken back: one slot is free, and only one may be handed out.
    struct expert_place other[2];
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){6}, 1, other), MOE_OK);
    CHECK(t, other[0].slot != places[0].slot && other[0].slot != places[1].slot);
    // A LOADING slot that nobody pins is found again, and counts as a hit.
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){1}, 1, &other[1]), MOE_OK);
    CHECK_EQ(t, other[1].slot, places[1].slot);
    CHECK_EQ(t, expert_store_counts(store).hits, 1);
    rig_permit(&how, 3);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(t, expert_wait(store, &other[i], NULL, NULL, NULL), MOE_OK);
        CHECK(t, rig_holds(&other[i]));
    }
    expert_release(store, other, 2);
    rig_permit(&how, 100);
    CHECK(t, rig_is_hit(store, 1, 0)); // its read was finished for whom it may serve
    CHECK(t, !rig_is_hit(store, 1, 2));
    CHECK_EQ(t, expert_store_counts(store).bytes_read, 4 * RIG_BLOB);
    expert_store_close(store);
    rig_close(&rig);
}

static void cancelled_reads_land_in_their_slots(struct harness *t)
{
    check_cancel(t, true);
    check_cancel(t, false);
}

static void *permit_later(void *context)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    rig_permit(context, 100);
    return NULL;
}

static void a_request_waits_for_slots_still_being_read(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, false));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    expert_release(store, places, 3);
    pthread_t thread;
    CHECK_EQ(t, pthread_create(&thread, NULL, permit_later, &how), 0);
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    pthread_join(thread, NULL);
    CHECK(t, expert_store_counts(store).wait_ns > 1000000);
    expert_store_close(store);
    rig_close(&rig);
}

static void waiting_ends_when_the_read_does(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place place;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &place), MOE_OK);
    struct countdown countdown = {&how, 0, 2};
    CHECK_EQ(t, expert_wait(store, &place, counted, &countdown, NULL), MOE_OK);
    CHECK(t, countdown.looks < 5 && rig_holds(&place));
    expert_release(store, &place, 1);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Budgets and refusals
// --------------------------------------------------------------------------------------------

struct budget {
    uint64_t bytes;
    int code;
    uint64_t slots;
};

static void budgets(struct harness *t)
{
    static const struct budget cases[] = {
        {3 * RIG_BLOB, MOE_OK, 3},
        {4 * RIG_BLOB - 1, MOE_OK, 3},
        {RIG_ALL * RIG_BLOB - 1, MOE_OK, RIG_ALL - 1},
        {RIG_ALL * RIG_BLOB, MOE_OK, RIG_ALL},
        {UINT64_MAX - 1, MOE_OK, RIG_ALL},
        {MOE_CACHE_ALL, MOE_OK, RIG_ALL},
        {MOE_CACHE_AUTO, MOE_OK, RIG_ALL}, // half of the rig's memory is one expert more
        {3 * RIG_BLOB - 1, MOE_BUDGET, 0},
        {1, MOE_BUDGET, 0},
    };
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expert_store_options options = {.cache_bytes = cases[i].bytes};
        expert_store *store;
        struct moe_err err;
        CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &options, &store, &err), cases[i].code);
        CHECK(t, !store == !!cases[i].code);
        if (!store)
            continue;
        struct moe_cache_plan plan = expert_store_plan(store);
        CHECK_EQ(t, plan.slots, cases[i].slots);
        CHECK_EQ(t, plan.slot_bytes, RIG_BLOB);
        CHECK_EQ(t, plan.cache_bytes, plan.slots * RIG_BLOB);
        CHECK_EQ(t, plan.smallest_bytes, 3 * RIG_BLOB);
        CHECK_EQ(t, plan.all, cases[i].slots == RIG_ALL);
        CHECK_EQ(t, rig.g.bytes_allocated, cases[i].slots * RIG_BLOB);
        expert_store_close(store);
    }
    rig.g.info.global_bytes = 2 * 7 * RIG_BLOB + 100;
    expert_store *store = rig_store(t, &rig, MOE_CACHE_AUTO, NULL);
    CHECK_EQ(t, expert_store_plan(store).slots, 7);
    CHECK(t, !expert_store_plan(store).all);
    expert_store_close(store);
    rig_close(&rig);
}

// Layers of three sizes: each budget that one size of slots could use works, whatever was chosen, and is kept.
static void slots_come_in_sizes(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    CHECK(t, rig_spread(&rig));
    uint64_t all = 0, largest = rig_slot_bytes(&rig);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        all += RIG_EXPERTS * rig.layers[layer].experts.blob_bytes;
    uint32_t with_sizes = 0, budgets_tried = 0;
    for (uint64_t bytes = RIG_TOP_K * largest; bytes < all + largest; bytes += largest - 1000, budgets_tried++) {
        struct expert_store_options options = {.cache_bytes = bytes};
        expert_store *store;
        CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &options, &store, NULL), MOE_OK);
        struct moe_cache_plan plan = expert_store_plan(store);
        CHECK_EQ(t, plan.smallest_bytes, RIG_TOP_K * largest);
        CHECK_EQ(t, plan.all, bytes >= all);
        CHECK(t, plan.cache_bytes <= bytes && rig.g.bytes_allocated == plan.cache_bytes);
        CHECK(t, plan.cache_bytes + 3 * largest > (bytes < all ? bytes : all));
        with_sizes += store->n_classes > 1;
        uint32_t least = UINT32_MAX;
        for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
            least = expert_slots(store, layer) < least ? expert_slots(store, layer) : least;
        CHECK_EQ(t, expert_least_slots(store), least);
        for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
            CHECK(t, expert_slots(store, layer) >= RIG_TOP_K);
            CHECK(t, store->n_classes == 1 ||
                         store->classes[store->layer_class[layer]].slot_bytes == rig.layers[layer].experts.blob_bytes);
            CHECK(t, rig_use(store, layer, (int32_t[]){7, 2, 5}, 3) && rig_use(store, layer, (int32_t[]){1, 2, 0}, 3));
        }
        // Only this layer's slots are asked for more than there are.
        struct expert_place held[RIG_TOP_K], more;
        struct moe_err err;
        CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){0, 1, 2}, 3, held), MOE_OK);
        struct expert_request request = {.layer = 2, .ids = (int32_t[]){3}, .n = 1};
        int code = expert_acquire(store, &request, &more, &err);
        CHECK_EQ(t, code, expert_slots(store, 2) > RIG_TOP_K ? MOE_OK : MOE_BUDGET);
        if (!code)
            expert_release(store, &more, 1);
        expert_release(store, held, 3);
        expert_store_close(store);
        CHECK_EQ(t, rig.g.bytes_allocated, 0);
    }
    CHECK(t, with_sizes > budgets_tried / 2 && with_sizes < budgets_tried);
    rig.g.most = all / 8 * 7; // auto makes do with what the device gives, in sizes too
    expert_store *store = rig_store(t, &rig, MOE_CACHE_AUTO, NULL);
    CHECK(t, store && store->n_classes > 1 && rig.g.bytes_allocated <= rig.g.most);
    expert_store_close(store);
    rig_close(&rig);
}

static bool stays(expert_store *store, uint32_t layer)
{
    struct expert_row row;
    if (!expert_layer_stays(store, layer, &row))
        return false;
    bool good = true;
    for (uint32_t expert = 0; expert < RIG_EXPERTS; expert++)
        good =
            good && rig_holds(&(struct expert_place){
                        .buf = row.buf, .offset = row.offset + expert * row.stride, .layer = layer, .expert = expert});
    return good;
}

// A layer stays once all of its experts are there, whatever the order in which they came, if they lie in one slab.
static void layers_stay_where_each_expert_has_a_slot(struct harness *t)
{
    for (uint64_t slab = 5; slab <= 20; slab += 5)
        for (uint64_t missing = 0; missing < 2; missing++) {
            struct rig rig;
            CHECK(t, rig_open(&rig, true));
            rig.g.info.max_alloc_bytes = slab * RIG_BLOB + 100;
            expert_store *store = rig_store(t, &rig, RIG_ALL - missing, NULL);
            bool may = slab > RIG_EXPERTS && !missing;
            for (uint32_t layer = RIG_LAYERS - 1; layer > 0; layer--) {
                CHECK(t, rig_use(store, layer, (int32_t[]){7, 2, 5, 1}, 4));
                CHECK(t, rig_use(store, layer, (int32_t[]){0, 6, 4}, 3));
                CHECK(t, !stays(store, layer));
                CHECK(t, rig_use(store, layer, (int32_t[]){1, 3}, 2));
                CHECK_EQ(t, stays(store, layer), may);
                CHECK(t, layer == 1 || !stays(store, layer - 1));
            }
            for (uint32_t layer = 1; layer < RIG_LAYERS && may; layer++) {
                struct expert_layer_counts before, after;
                struct expert_place places[2];
                struct expert_request request = {.layer = layer, .ids = (int32_t[]){6, 1}, .n = 2};
                expert_store_layer(store, layer, &before);
                CHECK_EQ(t, expert_note_uses(store, &request, places, NULL), MOE_OK);
                expert_store_layer(store, layer, &after);
                CHECK_EQ(t, after.hits_device - before.hits_device, 2);
                CHECK(t, places[0].expert == 6 && places[1].expert == 1 && places[1].origin == MOE_FROM_DEVICE &&
                             rig_holds(&places[0]) && rig_holds(&places[1]));
                request.ids = (int32_t[]){6, 6};
                CHECK_EQ(t, expert_note_uses(store, &request, places, NULL), MOE_BAD_ARGUMENT);
                CHECK(t, stays(store, layer));
            }
            CHECK_EQ(t, expert_store_counts(store).evictions > 0, missing > 0);
            expert_store_close(store);
            rig_close(&rig);
        }
}

// The device has less than it says: auto takes what it gives, less a slab.
static void auto_makes_do(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    rig.g.most = 17 * RIG_BLOB; // three slabs of five
    expert_store *store = rig_store(t, &rig, MOE_CACHE_AUTO, NULL);
    struct moe_cache_plan plan = expert_store_plan(store);
    CHECK_EQ(t, plan.slots, 10);
    CHECK(t, !plan.all && !plan.per_layer);
    CHECK_EQ(t, rig.g.bytes_allocated, 10 * RIG_BLOB);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        CHECK(t, rig_use(store, layer, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, RIG_EXPERTS));
    expert_store_close(store);
    CHECK_EQ(t, rig.g.bytes_allocated, 0);
    rig_close(&rig);
}

static void check_refusal(struct harness *t, struct rig *rig, uint64_t cache_bytes, int code, const char *text)
{
    struct expert_store_options options = {.cache_bytes = cache_bytes};
    expert_store *store;
    struct moe_err err;
    CHECK_EQ(t, expert_store_open(&rig->g, &rig->package, &options, &store, &err), code);
    CHECK_STR(t, err.text, text);
    CHECK(t, !store && rig->g.bytes_allocated == 0);
}

static void rig_blob_bytes(struct rig *rig, uint64_t bytes)
{
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        rig->layers[layer].experts.blob_bytes = bytes;
}

static void refusals_to_open(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    check_refusal(
        t, &rig, 10000, MOE_BUDGET,
        "an expert cache of 10.0KB holds 1 of the 3 experts that 1 layer in flight needs: give --expert-cache "
        "24.6KB or more");
    rig.g.info.global_bytes = 10 * RIG_BLOB;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NO_MEMORY,
                  "--expert-cache: 1 MiB are more than the 0 MiB of memory that are free; give it at most 0 MiB, a "
                  "share such as 50%, or auto");
    rig.g.info.global_bytes = 50 * RIG_BLOB;
    rig.g.most = 10 * RIG_BLOB;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NO_MEMORY,
                  "no room for 24 expert slots of 8192 bytes, try a smaller --expert-cache: the rig is full");
    rig.g.info.max_alloc_bytes = RIG_BLOB - 1;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NO_MEMORY,
                  "one expert takes 8192 bytes, rig allows allocations of 8191; choose another device");
    rig_blob_bytes(&rig, 5000);
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_FORMAT, "experts of 5000 bytes: not a multiple of 4096");
    rig_blob_bytes(&rig, 0);
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_FORMAT, "experts of 0 bytes: not a multiple of 4096");
    rig.package.shape.top_k = RIG_EXPERTS + 1;
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_UNSUPPORTED, "the model has no routed experts");
    rig_close(&rig);

    CHECK(t, rig_open(&rig, true));
    char path[4200];
    char text[5000];
    rig_path(&rig, 2, path);
    unlink(path);
    snprintf(text, sizeof text, "%s: cannot be opened: No such file or directory", path);
    check_refusal(t, &rig, MOE_CACHE_ALL, MOE_NOT_FOUND, text);
    struct expert_store_options many = {.cache_bytes = MOE_CACHE_ALL, .readers = 65};
    expert_store *store;
    CHECK(t, rig_write_layer(&rig, 2, RIG_EXPERTS * RIG_BLOB));
    CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &many, &store, NULL), MOE_BAD_ARGUMENT);
    for (uint64_t piece = 1; piece < 2 * RIG_BLOB; piece = 4 * piece + 1) {
        struct expert_store_options odd = {.cache_bytes = MOE_CACHE_ALL, .readers = 1, .read_piece_bytes = piece};
        CHECK_EQ(t, expert_store_open(&rig.g, &rig.package, &odd, &store, NULL), MOE_BAD_ARGUMENT);
    }
    rig_close(&rig);
}

static void refusals_to_acquire(struct harness *t)
{
    static const struct {
        uint32_t layer;
        int32_t ids[6];
        uint32_t n;
        const char *text;
    } cases[] = {
        {0, {1}, 1, "layer 0 has no routed experts"},
        {4, {1}, 1, "layer 4 has no routed experts"},
        {1, {0, 8}, 2, "layer 1: expert 8 is not one of 8"},
        {1, {0, -1}, 2, "layer 1: expert -1 is not one of 8"},
        {1, {3, 5, 3}, 3, "layer 1: expert 3 is asked for twice"},
        {1, {0, 1, 2, 3, 4, 5}, 6, "6 experts asked for at once, the cache has 5 slots"},
    };
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 5, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expert_request request = {.layer = cases[i].layer, .ids = cases[i].ids, .n = cases[i].n};
        struct expert_place places[6];
        struct moe_err err;
        CHECK_EQ(t, expert_acquire(store, &request, places, &err), MOE_BAD_ARGUMENT);
        CHECK_STR(t, err.text, cases[i].text);
    }
    struct expert_counts none = {0};
    struct expert_counts counts = expert_store_counts(store);
    CHECK(t, memcmp(&none, &counts, sizeof none) == 0);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2, 3, 4}, 5)); // nothing stayed pinned
    CHECK(t, rig_use(store, 1, NULL, 0));
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Many requests
// ---------------------------------------------------------------------------------------------------

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

static uint32_t draw_ids(uint64_t *seed, uint32_t most, int32_t ids[RIG_EXPERTS])
{
    uint32_t n = 1 + draw(seed, most);
    for (int32_t i = 0; i < RIG_EXPERTS; i++)
        ids[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t other = i + draw(seed, RIG_EXPERTS - i);
        int32_t id = ids[i];
        ids[i] = ids[other];
        ids[other] = id;
    }
    return n;
}

// One request, at times left without waiting for all of it; at times with a second one of the next layer on top.
static bool random_request(expert_store *store, uint64_t *seed, uint32_t layer, uint32_t room)
{
    int32_t ids[RIG_EXPERTS];
    struct expert_place places[RIG_EXPERTS];
    uint32_t n = draw_ids(seed, room < RIG_EXPERTS ? room : RIG_EXPERTS, ids);
    if (rig_acquire(store, layer, ids, n, places))
        return false;
    bool good = true;
    uint32_t waited = draw(seed, 8) ? n : draw(seed, n);
    for (uint32_t i = 0; i < waited; i++)
        good = !expert_wait(store, &places[i], NULL, NULL, NULL) && rig_holds(&places[i]) && good;
    if (layer + 1 < RIG_LAYERS && room > n && !draw(seed, 4))
        good = random_request(store, seed, layer + 1, room - n) && good;
    for (uint32_t i = 0; i < waited; i++)
        good = rig_holds(&places[i]) && good;
    expert_release(store, places, n);
    return good;
}

static void check_budget(struct harness *t, bool shared, uint32_t slots)
{
    enum { REQUESTS = 460 }; // times 22 budgets
    struct rig rig;
    struct rig_read how = {.most = 3000};
    CHECK(t, rig_open(&rig, shared));
    expert_store *store = rig_store(t, &rig, slots, &how);
    uint64_t seed = slots;
    int wrong = 0;
    for (int i = 0; i < REQUESTS; i++) {
        rig.g.lazy = draw(&seed, 2);
        wrong += !random_request(store, &seed, 1 + draw(&seed, RIG_LAYERS - 1), slots);
    }
    CHECK_EQ(t, wrong, 0);
    if (slots == RIG_ALL)
        CHECK_EQ(t, expert_store_counts(store).evictions, 0);
    expert_store_close(store);
    rig_close(&rig);
}

static void right_bytes_at_every_budget_on_shared_memory(struct harness *t)
{
    for (uint32_t slots = RIG_TOP_K; slots <= RIG_ALL; slots++)
        check_budget(t, true, slots);
}

static void right_bytes_at_every_budget_through_staging(struct harness *t)
{
    for (uint32_t slots = RIG_TOP_K; slots <= RIG_ALL; slots++)
        check_budget(t, false, slots);
}

// ---- Two stores
// ------------------------------------------------------------------------------------------------------

static void one_store_closes_while_another_reads(struct harness *t)
{
    struct rig one;
    struct rig two;
    struct rig_read how = {0};
    CHECK(t, rig_open(&one, true));
    CHECK(t, rig_open(&two, false));
    rig_gate(&how);
    expert_store *held = rig_store(t, &one, 4, &how);
    expert_store *closing = rig_store(t, &two, 4, NULL);
    struct expert_place place;
    CHECK_EQ(t, rig_acquire(held, 1, (int32_t[]){2}, 1, &place), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    CHECK(t, rig_use(closing, 1, (int32_t[]){2, 3}, 2));
    expert_store_close(closing);
    rig_close(&two);
    rig_permit(&how, 1);
    CHECK_EQ(t, expert_wait(held, &place, NULL, NULL, NULL), MOE_OK);
    CHECK(t, rig_holds(&place));
    CHECK_EQ(t, expert_store_counts(held).misses, 1);
    expert_release(held, &place, 1);
    expert_store_close(held);
    rig_close(&one);
    expert_store_close(NULL);
}

static void closing_waits_for_reads_under_way(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    pthread_t thread;
    CHECK_EQ(t, pthread_create(&thread, NULL, permit_later, &how), 0);
    expert_store_close(store); // slots are freed after the reads into them: a sanitiser would tell
    CHECK_EQ(t, atomic_load(&how.calls), 2);
    pthread_join(thread, NULL);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(trace_on_shared_memory),
        TEST(trace_through_staging),
        TEST(requests_are_traced),
        TEST(dropped_reads_are_counted_on_shared_memory),
        TEST(dropped_reads_are_counted_through_staging),
        TEST(a_slot_that_is_let_go_of_is_anothers),
        TEST(wait_time_is_real_waiting),
        TEST(pins_are_never_evicted),
        TEST(hits_are_pinned_before_misses_choose),
        TEST(no_key_before_its_bytes),
        TEST(a_slot_is_free_when_its_fence_has_passed),
        TEST(cancelled_reads_land_in_their_slots),
        TEST(a_request_waits_for_slots_still_being_read),
        TEST(waiting_ends_when_the_read_does),
        TEST(budgets),
        TEST(auto_makes_do),
        TEST(slots_come_in_sizes),
        TEST(layers_stay_where_each_expert_has_a_slot),
        TEST(refusals_to_open),
        TEST(refusals_to_acquire),
        TEST(right_bytes_at_every_budget_on_shared_memory),
        TEST(right_bytes_at_every_budget_through_staging),
        TEST(one_store_closes_while_another_reads),
        TEST(closing_waits_for_reads_under_way),
    };
    return HARNESS_RUN(tests, argc, argv);
}
