// SPDX-License-Identifier: GPL-3.0-or-later
// Two tiers of expert slots, prefetches, spans and direct reads: where each expert was found, what was copied, what a
// prefetch may and may not do, and that a place always holds its expert's bytes.
#include "tests/expert_rig.h"

// ---- Two tiers
// -------------------------------------------------------------------------------------------------------

static void the_host_keeps_what_the_device_lost(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    struct moe_cache_plan plan = expert_store_plan(store);
    CHECK_EQ(t, plan.slots, 4);
    CHECK_EQ(t, plan.host_slots, RIG_ALL);
    CHECK(t, !plan.host_only_passes);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        for (int32_t id = 0; id < RIG_EXPERTS; id++)
            CHECK_EQ(t, rig_origin(store, layer, id), MOE_FROM_DISK);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
        for (int32_t id = 0; id < RIG_EXPERTS; id++) {

            CHECK_EQ(t, rig_origin(store, layer, id), MOE_FROM_HOST);
            CHECK_EQ(t, rig_origin(store, layer, id), MOE_FROM_DEVICE);
        }
        struct expert_layer_counts counts = rig_counts(store, layer);
        CHECK_EQ(t, counts.missed, RIG_EXPERTS);
        CHECK_EQ(t, counts.hits_host, RIG_EXPERTS);
        CHECK_EQ(t, counts.hits_device, RIG_EXPERTS);
        CHECK_EQ(t, counts.bytes_disk, RIG_EXPERTS * RIG_BLOB);
        CHECK_EQ(t, counts.bytes_device, 2 * RIG_EXPERTS * RIG_BLOB);
    }
    CHECK_EQ(t, rig.g.bytes_written, 2 * RIG_ALL * RIG_BLOB);
    expert_store_close(store);
    CHECK_EQ(t, rig.g.host_blocks, 0);
    rig_close(&rig);
}

// What the map of tiers says is where the next request finds the expert.
static void the_map_says_where_each_expert_is(struct harness *t)
{
    static const enum moe_origin found[MOE_TIERS] = {MOE_FROM_DISK, MOE_FROM_HOST, MOE_FROM_DEVICE};
    for (int shared = 0; shared < 2; shared++) {
        struct rig rig;
        CHECK(t, rig_open(&rig, shared));
        rig.host_bytes = 9 * RIG_BLOB;
        expert_store *store = rig_store(t, &rig, 4, NULL);
        uint8_t tiers[RIG_ALL];
        uint32_t state = 5, times[MOE_TIERS] = {0};
        for (int i = 0; i < 500; i++) {
            state = state * 1664525u + 1013904223u;
            uint32_t layer = (state >> 8) % (RIG_LAYERS - 1), expert = (state >> 16) % RIG_EXPERTS;
            uint32_t there[MOE_TIERS] = {0};
            expert_store_tiers(store, tiers);
            for (uint32_t k = 0; k < RIG_ALL; k++)
                there[tiers[k]]++;
            CHECK(t, there[MOE_TIER_DEVICE] <= 4 && there[MOE_TIER_HOST] <= (shared ? 0 : 9));
            enum moe_tier tier = (enum moe_tier)tiers[layer * RIG_EXPERTS + expert];
            CHECK_EQ(t, rig_origin(store, layer + 1, (int32_t)expert), found[tier]);
            times[tier]++;
        }
        CHECK(t, times[MOE_TIER_DISK] && times[MOE_TIER_DEVICE] && !times[MOE_TIER_HOST] == (bool)shared);
        expert_store_close(store);
        rig_close(&rig);
    }
}

// Bytes that are on their way have not arrived.
static void the_map_waits_for_the_bytes(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    uint8_t tiers[RIG_ALL];
    struct expert_place place;
    rig_gate(&how);
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 4, &how);
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){3}, 1, &place), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    expert_store_tiers(store, tiers);
    CHECK_EQ(t, tiers[RIG_EXPERTS + 3], MOE_TIER_DISK);
    rig_permit(&how, 1);
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, NULL), MOE_OK);
    expert_store_tiers(store, tiers);
    CHECK_EQ(t, tiers[RIG_EXPERTS + 3], MOE_TIER_DEVICE);
    expert_release(store, &place, 1);
    expert_store_close(store);
    rig_close(&rig);
}

static void shared_memory_is_one_tier_without_copies(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    CHECK_EQ(t, expert_store_plan(store).host_slots, 0);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2}, 3));
    CHECK(t, rig_prefetch(store, 2, 1));
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    CHECK_EQ(t, rig.g.bytes_written, 0);
    CHECK_EQ(t, rig.g.host_blocks, 0);
    CHECK_EQ(t, rig_counts(store, 1).bytes_device + rig_counts(store, 2).bytes_device, 0);
    expert_store_close(store);
    rig_close(&rig);
}

// The host's slots are fewer than the reads that a request wants at once: they take turns.
static void many_reads_pass_through_few_host_slots(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    expert_store *store = rig_store(t, &rig, RIG_ALL, NULL);
    CHECK_EQ(t, expert_store_plan(store).host_slots, 2 * RIG_TOP_K);
    CHECK(t, expert_store_plan(store).host_only_passes);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        CHECK(t, rig_use(store, layer, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, RIG_EXPERTS));
    CHECK_EQ(t, expert_store_counts(store).misses, RIG_ALL);
    CHECK_EQ(t, expert_store_counts(store).bytes_read, RIG_ALL * RIG_BLOB);
    expert_store_close(store);
    rig_close(&rig);
}

static void a_read_that_fails_is_told_through_the_host(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {.fail_count = 1};
    CHECK(t, rig_open(&rig, false));
    atomic_store(&how.fail_errno, EIO);
    atomic_store(&how.fail_at, 2 * RIG_BLOB + 5);
    rig.host_bytes = 8 * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 4, &how);
    struct expert_place places[2];
    struct moe_err err;
    bool done[2] = {false, false};
    struct expert_wait_list list = {.places = places, .done = done, .n = 2};
    CHECK_EQ(t, rig_acquire(store, 3, (int32_t[]){2, 4}, 2, places), MOE_OK);
    int first = expert_wait_any(store, &list, &err);
    if (first == 1) {
        CHECK(t, rig_holds(&places[1]));
        done[1] = true;
        first = expert_wait_any(store, &list, &err);
    }
    CHECK_EQ(t, first, -1);
    CHECK_EQ(t, err.code, MOE_IO);
    CHECK_EQ(t, err.expert, 2);
    CHECK_EQ(t, err.layer, 3);
    CHECK_EQ(t, err.sys_errno, EIO);
    CHECK_EQ(t, err.offset, 2 * RIG_BLOB);
    expert_release(store, places, 2);
    CHECK(t, rig_use(store, 3, (int32_t[]){2, 4}, 2));
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Waiting for any
// -------------------------------------------------------------------------------------------------

static void what_was_there_comes_first(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    rig_permit(&how, 2);
    expert_store *store = rig_store(t, &rig, 4, &how);
    CHECK(t, rig_use(store, 1, (int32_t[]){3, 5}, 2));
    struct expert_place places[4];
    bool done[4] = {false};
    struct expert_wait_list list = {.places = places, .done = done, .n = 4};
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 3, 1, 5}, 4, places), MOE_OK);
    CHECK(t, !expert_ready(store, &places[0]) && expert_ready(store, &places[1]));
    for (int i = 0; i < 2; i++) {
        int hit = expert_wait_any(store, &list, NULL);
        CHECK(t, hit == 1 || hit == 3);
        done[hit] = true;
    }
    list.cancelled = rig_yes;
    CHECK_EQ(t, expert_wait_any(store, &list, NULL), -1);
    list.cancelled = NULL;
    for (int i = 0; i < 2; i++) {
        rig_permit(&how, 1);
        int miss = expert_wait_any(store, &list, NULL);
        CHECK(t, miss == 0 || miss == 2);
        CHECK(t, rig_holds(&places[miss]));
        done[miss] = true;
    }
    struct moe_err err;
    CHECK_EQ(t, expert_wait_any(store, &list, &err), -1);
    CHECK_EQ(t, err.code, MOE_BAD_ARGUMENT);
    expert_release(store, places, 4);
    expert_store_close(store);
    rig_close(&rig);
}

static bool becomes_ready(expert_store *store, const struct expert_place *place)
{
    for (int i = 0; i < 2000 && !expert_ready(store, place); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return expert_ready(store, place);
}

static void the_others_come_in_the_order_of_their_arrival(struct harness *t)
{
    for (int way = 0; way < 2; way++) {
        struct rig rig;
        struct rig_read how = {0};
        CHECK(t, rig_open(&rig, true));
        rig_gate(&how);
        expert_store *store = rig_store(t, &rig, 4, &how);
        struct expert_place places[2];
        bool done[2] = {false, false};
        struct expert_wait_list list = {.places = places, .done = done, .n = 2};
        // The first of them is read alone, and is the first or the second of the list.
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &places[way]), MOE_OK);
        rig_permit(&how, 1);
        CHECK(t, becomes_ready(store, &places[way]));
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){1}, 1, &places[!way]), MOE_OK);
        rig_permit(&how, 1);
        CHECK(t, becomes_ready(store, &places[!way]));
        CHECK_EQ(t, expert_wait_any(store, &list, NULL), way);
        done[way] = true;
        CHECK_EQ(t, expert_wait_any(store, &list, NULL), !way);
        expert_release(store, places, 2);
        expert_store_close(store);
        rig_close(&rig);
    }
}

static bool stop_now(void *context)
{
    return *(bool *)context;
}

// All slots are held by reads that hang: a request for others can be given up.
static void waiting_for_room_can_be_cancelled(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1}, 2, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    expert_release(store, places, 2);
    bool stop = true;
    struct expert_request request = {
        .layer = 2, .ids = (int32_t[]){0, 1, 2}, .n = 3, .cancelled = stop_now, .context = &stop};
    CHECK_EQ(t, expert_acquire(store, &request, places, NULL), MOE_CANCELLED);
    stop = false;
    rig_permit(&how, 100);
    CHECK_EQ(t, expert_acquire(store, &request, places, NULL), MOE_OK);
    expert_release(store, places, 3);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Prefetch
// ---------------------------------------------------------------------------------------------------------

static void a_prefetch_in_time_is_counted_so(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 16, NULL);
    CHECK(t, rig_prefetch(store, 2, 5));
    CHECK(t, !rig_prefetch(store, 2, 5)); // it is on its way
    rig_let_arrive(store, RIG_BLOB);
    CHECK_EQ(t, rig_origin(store, 2, 5), MOE_FROM_PREFETCH);
    CHECK_EQ(t, rig_origin(store, 2, 5), MOE_FROM_DEVICE);
    struct expert_counts counts = expert_store_counts(store);
    CHECK_EQ(t, counts.prefetched, 1);
    CHECK_EQ(t, counts.used, 1);
    CHECK_EQ(t, counts.wasted, 0);
    CHECK_EQ(t, counts.misses, 0);
    CHECK_EQ(t, rig_counts(store, 2).prefetched_in_time, 1);
    CHECK_EQ(t, expert_prefetch(store, &(struct expert_prediction){2, (int32_t[]){-1, 99}, 2}), 0);
    CHECK_EQ(t, expert_prefetch(store, &(struct expert_prediction){0, (int32_t[]){1}, 1}), 0);
    CHECK_EQ(t, expert_prefetch(store, &(struct expert_prediction){99, (int32_t[]){1}, 1}), 0);
    expert_store_close(store);
    rig_close(&rig);
}

static void prefetches_give_way_to_prefetches_not_to_what_decoding_uses(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    expert_store *store = rig_store(t, &rig, 8, NULL); // so two prefetched experts may be held
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2, 3}, 4));
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2, 3}, 4));
    // Full of what the last two tokens used.
    CHECK(t, !rig_prefetch(store, 3, 0));
    for (int i = 0; i < 9; i++) // three tokens later layer 2's are old
        CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2, 3}, 4));
    for (int32_t id = 0; id < 6; id++) {
        uint64_t read = expert_store_counts(store).bytes_read;
        CHECK(t, rig_prefetch(store, 3, id));
        rig_let_arrive(store, read + RIG_BLOB);
    }
    CHECK_EQ(t, expert_store_counts(store).wasted, 4);
    CHECK_EQ(t, rig_counts(store, 3).wasted, 4);
    CHECK_EQ(t, expert_store_counts(store).evictions, 6);
    for (int32_t id = 0; id < 4; id++)
        CHECK_EQ(t, rig_origin(store, 1, id), MOE_FROM_DEVICE);
    CHECK_EQ(t, rig_origin(store, 3, 4), MOE_FROM_PREFETCH);
    CHECK_EQ(t, rig_origin(store, 3, 5), MOE_FROM_PREFETCH);
    expert_store_close(store);
    rig_close(&rig);
}

static void demands_come_before_prefetches(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 16, &how); // two readers: one prefetch at once
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1}, 2, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    CHECK(t, rig_prefetch(store, 2, 6)); // waits: both readers are busy
    CHECK(t, !rig_prefetch(store, 2, 1));
    // A third demand overtakes it.
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){2}, 1, &places[2]), MOE_OK);
    rig_permit(&how, 1);
    CHECK(t, rig_entered(&how, 1));
    CHECK_EQ(t, atomic_load(&how.last), 2 * RIG_BLOB);
    rig_permit(&how, 1);
    CHECK(t, rig_entered(&how, 1)); // the prefetch, now that nobody else waits
    CHECK_EQ(t, atomic_load(&how.last), 6 * RIG_BLOB);
    // Asked for while it is being read, it came late.
    struct expert_place late;
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){6}, 1, &late), MOE_OK);
    CHECK_EQ(t, late.origin, MOE_FROM_LATE);
    rig_permit(&how, 100);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &late, NULL, NULL, NULL), MOE_OK);
    CHECK(t, rig_holds(&late));
    expert_release(store, places, 3);
    expert_release(store, &late, 1);
    CHECK_EQ(t, rig_counts(store, 2).late, 1);
    expert_store_close(store);
    rig_close(&rig);
}

// A prefetch that is asked for while it waits for the disk is a demand from then on, also on its way through the host.
static void a_prefetch_that_is_needed_waits_no_longer(struct harness *t)
{
    for (int shared = 0; shared < 2; shared++) {
        struct rig rig;
        struct rig_read how = {0};
        CHECK(t, rig_open(&rig, shared));
        rig.host_bytes = MOE_CACHE_ALL;
        rig_gate(&how);
        expert_store *store = rig_store(t, &rig, 16, &how);
        struct expert_place places[4];
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1}, 2, places), MOE_OK);
        CHECK(t, rig_entered(&how, 2));
        CHECK(t, rig_prefetch(store, 2, 6));
        CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){6}, 1, &places[2]), MOE_OK);
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){3}, 1, &places[3]), MOE_OK);
        rig_permit(&how, 1);
        CHECK(t, rig_entered(&how, 1));
        CHECK_EQ(t, atomic_load(&how.last), 6 * RIG_BLOB);
        rig_permit(&how, 100);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
            CHECK(t, rig_holds(&places[i]));
        }
        expert_release(store, places, 4);
        expert_store_close(store);
        rig_close(&rig);
    }
}

static void prefetches_not_begun_can_be_dropped(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 16, &how);
    struct expert_place places[2];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1}, 2, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    CHECK(t, rig_prefetch(store, 2, 0));
    expert_drop_prefetches(store);
    CHECK_EQ(t, expert_store_counts(store).prefetched, 0);
    CHECK(t, rig_prefetch(store, 2, 0));
    // Its layer's turn came, and it was not among those asked for.
    struct expert_place other;
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){5}, 1, &other), MOE_OK);
    CHECK_EQ(t, expert_store_counts(store).prefetched, 0);
    rig_permit(&how, 100);
    CHECK_EQ(t, expert_wait(store, &other, NULL, NULL, NULL), MOE_OK);
    expert_release(store, &other, 1);
    expert_release(store, places, 2);
    CHECK_EQ(t, rig_origin(store, 2, 0), MOE_FROM_DISK);
    expert_store_close(store);
    rig_close(&rig);
}

static void a_busy_disk_takes_no_prefetches(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, true));
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 16, &how);
    CHECK(t, expert_disk_idle(store) == 1);
    struct expert_place place;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &place), MOE_OK);
    for (int i = 0; i < 5; i++) { // demand keeps it busy for a tenth of a second
        nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
        expert_disk_idle(store);
    }
    CHECK(t, expert_disk_idle(store) < 0.3);
    CHECK(t, !rig_prefetch(store, 2, 0));
    rig_permit(&how, 100);
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, NULL), MOE_OK);
    for (int i = 0; i < 5; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
        expert_disk_idle(store);
    }
    CHECK(t, rig_prefetch(store, 2, 0));
    expert_release(store, &place, 1);
    expert_store_close(store);
    rig_close(&rig);
}

// Half of the readers read ahead, and one where there is no other.
static void half_of_the_readers_read_ahead(struct harness *t)
{
    static const unsigned readers[] = {1, 2, 3, 5}, ahead[] = {1, 1, 1, 2};
    for (int i = 0; i < 4; i++) {
        struct rig rig;
        struct rig_read how = {0};
        CHECK(t, rig_open(&rig, true));
        rig.readers = readers[i];
        rig_gate(&how);
        expert_store *store = rig_store(t, &rig, 16, &how);
        unsigned begun = 0;
        for (int32_t id = 0; id < RIG_EXPERTS; id++)
            begun += rig_prefetch(store, 1, id);
        CHECK_EQ(t, begun, ahead[i]);
        rig_permit(&how, 100);
        expert_store_close(store);
        rig_close(&rig);
    }
}

// With a host tier predictions from memory always go, and at once.
static void prefetches_from_the_host_are_copies(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 16, NULL);
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        for (int32_t id = 0; id < RIG_EXPERTS; id++)
            CHECK(t, rig_use_one(store, layer, id));
    for (int i = 0; i < 9; i++) // three tokens, so that some are old
        CHECK(t, rig_use_one(store, 3, 7));
    uint64_t read = expert_store_counts(store).bytes_read;
    CHECK(t, rig_prefetch(store, 1, 0));
    CHECK_EQ(t, rig_counts(store, 1).bytes_device, (RIG_EXPERTS + 1) * RIG_BLOB);
    CHECK_EQ(t, rig_origin(store, 1, 0), MOE_FROM_PREFETCH);
    CHECK_EQ(t, expert_store_counts(store).bytes_read, read);
    CHECK_EQ(t, expert_store_counts(store).used, 1);
    // A copy that the device refuses: the error stays with the device, and the slot is not taken for an expert.
    rig.g.refuse_writes = true;
    CHECK(t, !rig_prefetch(store, 1, 1));
    CHECK(t, rig.g.failed);
    rig.g.refuse_writes = rig.g.failed = false;
    CHECK_EQ(t, rig_origin(store, 1, 1), MOE_FROM_HOST);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- The same bytes whatever the way
// ---------------------------------------------------------------------------------

// Random requests, prefill sweeps among them, with random prefetches in between; some are not waited for.
static int random_requests(expert_store *store, uint64_t seed, struct rig *rig)
{
    enum { REQUESTS = 200 };
    int wrong = 0;
    for (int i = 0; i < REQUESTS; i++) {
        rig->g.lazy = draw_below(&seed, 2);
        rig->g.lazy_copies = draw_below(&seed, 2);
        uint32_t layer = 1 + draw_below(&seed, RIG_LAYERS - 1);
        int32_t ids[RIG_EXPERTS];
        uint32_t n = 0;
        for (int32_t id = 0; id < RIG_EXPERTS && n < expert_slots(store, layer); id++)
            if (draw_below(&seed, 3) == 0)
                ids[n++] = id;
        struct expert_place places[RIG_EXPERTS];
        struct expert_request request = {.layer = layer, .ids = ids, .n = n, .use = draw_below(&seed, 2)};
        wrong += expert_acquire(store, &request, places, NULL) != MOE_OK;
        int32_t predictions[2] = {(int32_t)draw_below(&seed, RIG_EXPERTS), (int32_t)draw_below(&seed, RIG_EXPERTS)};
        expert_prefetch(store, &(struct expert_prediction){1 + layer % (RIG_LAYERS - 1), predictions, 2});
        if (!draw_below(&seed, 8))
            expert_drop_prefetches(store);
        bool done[RIG_EXPERTS] = {false};
        struct expert_wait_list list = {.places = places, .done = done, .n = n};
        for (uint32_t left = draw_below(&seed, 8) ? n : draw_below(&seed, n + 1); left; left--) {
            int any = expert_wait_any(store, &list, NULL);
            wrong += any < 0 || !rig_holds(&places[any]);
            if (any >= 0)
                done[any] = true;
        }
        for (uint32_t k = 0; k < n; k++)
            wrong += done[k] && !rig_holds(&places[k]);
        expert_release(store, places, n);
    }
    return wrong;
}

static void right_bytes_every_way(struct harness *t)
{
    bool (*const layouts[])(struct rig *) = {NULL, rig_scatter, rig_spread};
    for (int layout = 0; layout < 3; layout++) {
        struct rig rig;
        CHECK(t, rig_open(&rig, false));
        CHECK(t, !layout || layouts[layout](&rig));
        const uint64_t hosts[] = {MOE_CACHE_NONE, 9 * rig_slot_bytes(&rig), MOE_CACHE_ALL};
        for (uint32_t slots = RIG_TOP_K; slots <= RIG_ALL; slots += 3) {
            rig.read_piece_bytes = slots % 2 ? 4096 : 0;
            for (int way = 0; way < 10; way++) {
                rig.g.info.shares_host_memory = way < 2;
                rig.g.info.maps_host_memory = way >= 8;
                rig.write_back = way / 2 % 2 ? MOE_WRITE_BACK_ON : MOE_WRITE_BACK_AUTO;
                rig.host_bytes = hosts[(way - 2 + 6) % 3];
                rig.io = way % 2 ? MOE_IO_DIRECT : MOE_IO_BUFFERED;
                struct rig_read how = {.most = way % 2 ? 4096 : 3000};
                expert_store *store = rig_store(t, &rig, slots, &how);
                CHECK_EQ(t, random_requests(store, slots * 8u + (unsigned)way, &rig), 0);
                CHECK(t, way % 2 == expert_store_plan(store).direct || expert_store_plan(store).direct_refused);
                expert_store_close(store);
            }
        }
        rig_close(&rig);
    }
}

// Of an expert in three spans the second fails: the error names the file that it is in, and the bytes there.
static void a_span_that_fails_names_its_own_place(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    CHECK(t, rig_scatter(&rig));
    for (int direct = 0; direct < 2; direct++) {
        rig.io = direct ? MOE_IO_DIRECT : MOE_IO_BUFFERED;
        expert_store *store = rig_store(t, &rig, 4, NULL);
        const struct expert_span *last = &rig.layers[1].spans[2];
        const char *path = rig.files[last->file].path;
        uint64_t end = last->offset + 6 * last->bytes + 100; // inside expert 6
        struct stat before;
        CHECK_EQ(t, stat(path, &before), 0);
        CHECK_EQ(t, truncate(path, (off_t)end), 0);
        struct expert_place places[2];
        struct moe_err err;
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){5, 6}, 2, places), MOE_OK);
        CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, &err), MOE_OK);
        CHECK(t, rig_holds(&places[0]));
        CHECK_EQ(t, expert_wait(store, &places[1], NULL, NULL, &err), MOE_IO);
        CHECK_STR(t, err.file, path);
        CHECK_EQ(t, err.offset, end);
        CHECK_EQ(t, err.expert, 6);
        CHECK_EQ(t, err.sys_errno, 0);
        expert_release(store, places, 2);
        CHECK(t, rig_scatter(&rig)); // whole again
        CHECK(t, rig_use(store, 1, (int32_t[]){5, 6}, 2));
        expert_store_close(store);
    }
    rig_close(&rig);
}

// Where every expert has a slot those that are missing are read one after the other, through the host where that is the
// way; a read that fails is tried again some time, and holds nothing up.
static void what_is_missing_is_read(struct harness *t)
{
    for (int shared = 0; shared < 2; shared++) {
        struct rig rig;
        struct rig_read how = {0};
        CHECK(t, rig_open(&rig, shared));
        rig.readers = 4;
        how.fail_errno = EIO;
        how.fail_at = 3 * RIG_BLOB + 5; // of each layer
        how.fail_count = 7;
        expert_store *store = rig_store(t, &rig, RIG_ALL, &how);
        CHECK(t, rig_use(store, 2, (int32_t[]){1, 5, 0}, 3));
        uint32_t there = 0, begun = 0;
        for (int i = 0; i < 20000 && there < RIG_ALL; i++) {
            begun += expert_fill(store);
            there = 0;
            for (uint32_t key = 0; key < RIG_ALL; key++)
                there += expert_has_slot(store, 1 + key / RIG_EXPERTS, key % RIG_EXPERTS);
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
        CHECK_EQ(t, there, RIG_ALL);
        CHECK_EQ(t, how.fail_count, 0);
        CHECK(t, begun >= RIG_ALL - 3 + 7);
        for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
            CHECK(t, rig_use(store, layer, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, RIG_EXPERTS));
        struct expert_counts counts = expert_store_counts(store);
        CHECK_EQ(t, counts.misses, 3);
        CHECK(t, counts.wasted == 0 && counts.evictions == 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(t, expert_fill(store), 0);
        expert_store_close(store);
        store = rig_store(t, &rig, RIG_ALL - 1, &how);
        CHECK_EQ(t, expert_fill(store), 0);
        expert_store_close(store);
        rig_close(&rig);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(the_host_keeps_what_the_device_lost),
        TEST(the_map_says_where_each_expert_is),
        TEST(the_map_waits_for_the_bytes),
        TEST(shared_memory_is_one_tier_without_copies),
        TEST(many_reads_pass_through_few_host_slots),
        TEST(a_read_that_fails_is_told_through_the_host),
        TEST(what_was_there_comes_first),
        TEST(the_others_come_in_the_order_of_their_arrival),
        TEST(waiting_for_room_can_be_cancelled),
        TEST(a_prefetch_in_time_is_counted_so),
        TEST(prefetches_give_way_to_prefetches_not_to_what_decoding_uses),
        TEST(demands_come_before_prefetches),
        TEST(a_prefetch_that_is_needed_waits_no_longer),
        TEST(prefetches_not_begun_can_be_dropped),
        TEST(a_busy_disk_takes_no_prefetches),
        TEST(half_of_the_readers_read_ahead),
        TEST(prefetches_from_the_host_are_copies),
        TEST(right_bytes_every_way),
        TEST(a_span_that_fails_names_its_own_place),
        TEST(what_is_missing_is_read),
    };
    return HARNESS_RUN(tests, argc, argv);
}
