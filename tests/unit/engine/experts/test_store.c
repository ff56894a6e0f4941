// SPDX-License-Identifier: GPL-3.0-or-later
// The expert store on a device with and without memory of its own: what it counts, whom it evicts, what it pins, and
// that a place always holds its expert's bytes.
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
    rig_let_arrive(store, RIG_BLOB);
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
    rig_let_arrive(store, 5 * RIG_BLOB);
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

// ---- Many requests
// ---------------------------------------------------------------------------------------------------

static uint32_t draw_ids(uint64_t *seed, uint32_t most, int32_t ids[RIG_EXPERTS])
{
    uint32_t n = 1 + draw_below(seed, most);
    for (int32_t i = 0; i < RIG_EXPERTS; i++)
        ids[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t other = i + draw_below(seed, RIG_EXPERTS - i);
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
    uint32_t waited = draw_below(seed, 8) ? n : draw_below(seed, n);
    for (uint32_t i = 0; i < waited; i++)
        good = !expert_wait(store, &places[i], NULL, NULL, NULL) && rig_holds(&places[i]) && good;
    if (layer + 1 < RIG_LAYERS && room > n && !draw_below(seed, 4))
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
        rig.g.lazy = draw_below(&seed, 2);
        wrong += !random_request(store, &seed, 1 + draw_below(&seed, RIG_LAYERS - 1), slots);
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
        TEST(right_bytes_at_every_budget_on_shared_memory),
        TEST(right_bytes_at_every_budget_through_staging),
        TEST(one_store_closes_while_another_reads),
        TEST(closing_waits_for_reads_under_way),
    };
    return HARNESS_RUN(tests, argc, argv);
}
