// SPDX-License-Identifier: GPL-3.0-or-later
// How experts' bytes get to the device: reads in pieces, copies that begin before the read is over, memory that is
// mapped while it is filled, and what the device gives up coming back to the host.
#include "tests/expert_rig.h"
#include "engine/walk/telemetry.h"

// ---- To the device
// ---------------------------------------------------------------------------------------------------

// Copies run beside the ops: a place is ready when its own has passed, and one that nobody wants any more lands too.
static void a_place_is_ready_when_its_copy_has_passed(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 3, NULL);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2}, 3));
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    rig.g.lazy_copies = true;
    rig.g.copy_waits = 0;
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(t, places[i].origin, MOE_FROM_HOST);
        CHECK(t, !expert_ready(store, &places[i]));
    }
    CHECK_EQ(t, expert_wait(store, &places[1], NULL, NULL, NULL), MOE_OK);
    CHECK(t, rig_holds(&places[0]) && rig_holds(&places[1]) && !expert_ready(store, &places[2]));
    CHECK_EQ(t, rig.g.copy_waits, 2);
    expert_release(store, places, 3); // the third is still on its way
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){2}, 1, places), MOE_OK);
    CHECK_EQ(t, places[0].origin, MOE_FROM_LATE);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, NULL), MOE_OK);
    CHECK(t, rig_holds(&places[0]));
    expert_release(store, places, 1);
    CHECK_EQ(t, rig_counts(store, 1).bytes_device, 6 * RIG_BLOB);
    CHECK(t, rig_counts(store, 1).wait_copy_ns > 0);
    // A copy that fails is told to whoever waits, and the expert is copied again later.
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){1}, 1, places), MOE_OK);
    rig.g.refuse_writes = true;
    struct moe_err err;
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, &err), MOE_DEVICE);
    CHECK_STR(t, err.text, "the rig lost a command");
    rig.g.refuse_writes = false;
    expert_release(store, places, 1);
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    expert_store_close(store);
    rig_close(&rig);
}

// What is asked for ahead waits for the slots of copies that are under way: of a step's time that is the copies', not
// the disk's, though it is the next layer's request.
static void waits_for_copies_are_not_the_disks(struct harness *t)
{
    struct rig rig;
    struct telemetry telemetry;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 3, NULL);
    struct expert_place places[3];
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2}, 3));
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    CHECK_EQ(t, telemetry_open(&rig.package.shape, store, &telemetry, NULL), MOE_OK);
    telemetry_begin(&telemetry, &rig.g, &(struct moe_telemetry){.rows = 1});
    telemetry_layer_begin(&telemetry, store);
    rig.g.lazy_copies = true;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    expert_release(store, places, 3);
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, telemetry_waited(&telemetry, store) > 0);
    telemetry_layer_end(&telemetry, 1, store);
    telemetry_end(&telemetry, &rig.g);
    const uint64_t *ns = telemetry.records[telemetry.shown].ns;
    CHECK(t, ns[MOE_ON_COPY] > 0);
    CHECK_EQ(t, ns[MOE_ON_DISK], 0);
    expert_release(store, places, 3);
    telemetry_release(&telemetry);
    expert_store_close(store);
    rig_close(&rig);
}

// Whose ops follow the copies waits for none: what is on its last way counts as there, behind what is there, and its
// slot is not filled anew before the ops are over, which may be long after the copy.
static void ops_follow_copies(struct harness *t)
{
    struct rig rig;
    struct moe_err err;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    expert_store *store = rig_store(t, &rig, 3, NULL);
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2}, 3));
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1}, 2));
    rig.g.lazy_copies = rig.g.lazy = true;
    rig.g.copy_waits = 0;
    struct expert_place places[3];
    bool done[3] = {false};
    struct expert_wait_list list = {.places = places, .done = done, .n = 3, .follows = true};
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){2, 0, 3}, 2, places), MOE_OK);
    list.n = 2;
    CHECK_EQ(t, expert_wait_any(store, &list, NULL), 1);
    CHECK(t, expert_is_coming(store, &places[0]) && !expert_ready(store, &places[0]));
    done[1] = true;
    CHECK_EQ(t, expert_wait_any(store, &list, NULL), 0);
    expert_follow(store, places, (uint32_t[]){1}, 1);
    CHECK_EQ(t, rig.g.followed, 0); // it is there
    expert_follow(store, places, (uint32_t[]){1, 0}, 2);
    CHECK_EQ(t, rig.g.followed, rig.g.copy);
    CHECK_EQ(t, rig.g.copy_waits, 0);
    uint64_t copied = rig_counts(store, 2).bytes_device; // counted now, and once: it is this token's
    CHECK_EQ(t, copied, 6 * RIG_BLOB);
    expert_release(store, &places[1], 1);
    expert_release(store, &places[0], 1);
    uint64_t ops = rig.g.fence; // behind which those of the copied one are
    // The copy passes, the ops don't: a request that needs all slots waits for them.
    rig.g.lazy_copies = false;
    gpu_copy_wait(&rig.g, rig.g.copy);
    CHECK_EQ(t, expert_confirm(store, &err), MOE_OK);
    CHECK(t, rig_holds(&places[0]) && rig.g.passed < ops);
    CHECK_EQ(t, rig_counts(store, 2).bytes_device, copied);
    CHECK_EQ(t, rig_acquire(store, 3, (int32_t[]){4, 5, 6}, 3, places), MOE_OK);
    CHECK(t, rig.g.passed >= ops);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
    expert_release(store, places, 3);
    // What is lost on the way after ops were given to follow it is told to whoever asks next.
    rig.g.lazy_copies = true;
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){1}, 1, places), MOE_OK);
    list = (struct expert_wait_list){.places = places, .done = &(bool){false}, .n = 1, .follows = true};
    CHECK_EQ(t, expert_wait_any(store, &list, NULL), 0);
    expert_follow(store, places, (uint32_t[]){0}, 1);
    expert_release(store, places, 1);
    rig.g.lost = rig.g.copy;
    gpu_copy_wait(&rig.g, rig.g.copy);
    CHECK_EQ(t, expert_confirm(store, &err), MOE_DEVICE);
    CHECK_STR(t, err.text, "the rig lost a command");
    rig.g.lost = 0;
    rig.g.lazy_copies = rig.g.lazy = false;
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    expert_store_close(store);
    rig_close(&rig);
}

// An integrated GPU: files are read into slots that are mapped meanwhile, each a buffer of its own.
static void mapped_memory_is_one_tier_without_copies(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, false));
    rig.g.info.maps_host_memory = true;
    rig.host_bytes = RIG_ALL * RIG_BLOB;
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 4, &how);
    CHECK_EQ(t, expert_store_plan(store).host_slots, 0);
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, places[0].buf != places[1].buf && places[1].buf != places[2].buf && places[0].buf->bytes == RIG_BLOB);
    CHECK(t, places[0].buf->mapped && places[1].buf->mapped);
    rig.g.lazy_copies = true;
    rig_permit(&how, 3);
    // Read, but no op may use it before it is the device's again.
    CHECK(t, rig_entered(&how, 3));
    for (int i = 0; i < 2000 && expert_store_counts(store).bytes_read < 3 * RIG_BLOB; i++) {
        CHECK(t, !expert_ready(store, &places[0]));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
        CHECK(t, rig_holds(&places[i]));
    }
    expert_release(store, places, 3);
    rig.g.lazy_copies = false;
    // Withdrawn before its read began, and failed: the buffer is given back either way, and can be filled again.
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK(t, rig_entered(&how, 2));
    expert_release(store, places, 3);
    CHECK(t, !places[2].buf->mapped);
    atomic_store(&how.fail_errno, EIO);
    atomic_store(&how.fail_at, 2 * RIG_BLOB + 5);
    atomic_store(&how.fail_count, 1);
    rig_permit(&how, 100);
    struct moe_err err;
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){2}, 1, places), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, &err), MOE_IO);
    CHECK(t, !places[0].buf->mapped);
    expert_release(store, places, 1);
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    // A device that opens nothing: whoever waits is told.
    rig.g.refuse_maps = true;
    CHECK_EQ(t, rig_acquire(store, 3, (int32_t[]){7}, 1, places), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, &err), MOE_DEVICE);
    expert_release(store, places, 1);
    rig.g.refuse_maps = rig.g.failed = false;
    CHECK(t, rig_prefetch(store, 3, 7) || rig_use_one(store, 3, 7));
    CHECK(t, rig_use_one(store, 3, 7));
    CHECK_EQ(t, rig.g.bytes_written, 0);
    CHECK_EQ(t, rig_counts(store, 1).bytes_device + rig_counts(store, 2).bytes_device, 0);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- What the device gives up
// ------------------------------------------------------------------------------------------

// Asks for the first `n` experts of the package, one by one, and counts those that had to be read.
static int read_of(struct harness *t, expert_store *store, int n)
{
    int read = 0;
    for (int i = 0; i < n; i++) {
        enum moe_origin origin = rig_origin(store, 1 + (uint32_t)i / RIG_EXPERTS, i % RIG_EXPERTS);
        CHECK(t, origin == MOE_FROM_DISK || origin == MOE_FROM_HOST || origin == MOE_FROM_DEVICE);
        read += origin == MOE_FROM_DISK;
    }
    return read;
}

// The two tiers together hold as many experts as both have slots, but for those that stay free on the way; without
// writing back, as many as the larger.
static void both_tiers_hold_different_experts(struct harness *t)
{
    enum { DEVICE = 6, HOST = 12, BOTH = DEVICE + HOST - RIG_TOP_K - 1 };
    for (int back = 0; back < 2; back++) {
        struct rig rig;
        CHECK(t, rig_open(&rig, false));
        rig.host_bytes = HOST * RIG_BLOB;
        rig.write_back = back ? MOE_WRITE_BACK_ON : MOE_WRITE_BACK_OFF;
        expert_store *store = rig_store(t, &rig, DEVICE, NULL);
        CHECK_EQ(t, read_of(t, store, BOTH), BOTH);
        int again = 0;
        for (int i = 0; i < 10; i++)
            again += read_of(t, store, BOTH);
        CHECK_EQ(t, again == 0, back);
        CHECK_EQ(t, expert_store_counts(store).written_back > 0, back);
        expert_store_close(store);
        rig_close(&rig);
    }
}

static void what_comes_back_can_be_asked_for_at_once(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = 12 * RIG_BLOB;
    rig.write_back = MOE_WRITE_BACK_ON;
    expert_store *store = rig_store(t, &rig, 6, NULL);
    read_of(t, store, 18); // the host's slots are used up, so it holds what the device hasn't
    struct expert_place first, second;
    int failed = 0;
    for (int id = 0; id < RIG_EXPERTS; id++) {
        uint64_t before = expert_store_counts(store).written_back;
        rig.g.lazy_copies = true;
        failed |= rig_acquire(store, 1, &id, 1, &first);
        if (expert_store_counts(store).written_back > before) {
            // Whatever was given up for it is on its way; so are all others if they are in memory at all.
            for (int32_t other = 0; other < RIG_EXPERTS; other++)
                for (uint32_t layer = 2; layer < RIG_LAYERS; layer++) {
                    enum moe_origin where = expert_where(store, layer, (uint32_t)other);
                    CHECK(t, where != MOE_FROM_LATE);
                    if (where != MOE_FROM_HOST)
                        continue;
                    failed |= rig_acquire(store, layer, &other, 1, &second);
                    CHECK_EQ(t, second.origin, MOE_FROM_HOST);
                    failed |= expert_wait(store, &second, NULL, NULL, NULL);
                    CHECK(t, rig_holds(&second));
                    expert_release(store, &second, 1);
                }
        }
        failed |= expert_wait(store, &first, NULL, NULL, NULL);
        CHECK(t, rig_holds(&first));
        expert_release(store, &first, 1);
    }
    CHECK_EQ(t, failed, 0);
    // The device loses what was to come back: nobody takes the host's slot for an expert.
    rig.g.refuse_writes = true;
    struct moe_err err;
    for (int id = 0; id < 3; id++)
        if (rig_acquire(store, 3, &id, 1, &first) == MOE_OK) {
            expert_wait(store, &first, NULL, NULL, &err);
            expert_release(store, &first, 1);
        }
    rig.g.refuse_writes = rig.g.failed = rig.g.lazy_copies = false;
    for (int i = 0; i < 3; i++)
        read_of(t, store, RIG_ALL); // bytes are looked at
    expert_store_close(store);
    rig_close(&rig);
}

// Copies back are on their way, each in a slot of the host's, as each read is: the third is left out, so that the next
// token's misses find theirs.
static void copies_back_leave_slots_for_misses(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    rig.host_bytes = (2 * RIG_TOP_K + 1) * RIG_BLOB;
    rig.write_back = MOE_WRITE_BACK_ON;
    expert_store *store = rig_store(t, &rig, 6, NULL);
    read_of(t, store, 13); // both tiers are full
    uint64_t before = expert_store_counts(store).written_back;
    rig.g.lazy_copies = true;
    struct expert_place places[RIG_TOP_K];
    CHECK_EQ(t, rig_acquire(store, 3, (int32_t[]){5, 6, 7}, RIG_TOP_K, places), MOE_OK);
    CHECK_EQ(t, expert_store_counts(store).written_back - before, RIG_TOP_K - 1);
    for (int i = 0; i < RIG_TOP_K; i++) {
        CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
        CHECK(t, rig_holds(&places[i]));
    }
    expert_release(store, places, RIG_TOP_K);
    expert_store_close(store);
    rig_close(&rig);
}

// ---- Pieces
// -----------------------------------------------------------------------------------------------------------

// All readers work at one expert before they begin the next.
static void pieces_bring_one_expert_after_the_other(struct harness *t)
{
    for (int pieces = 0; pieces < 2; pieces++) {
        struct rig rig;
        struct rig_read how = {0};
        CHECK(t, rig_open(&rig, true));
        rig.read_piece_bytes = pieces ? RIG_BLOB / 2 : MOE_READ_WHOLE;
        rig_gate(&how);
        expert_store *store = rig_store(t, &rig, 4, &how);
        struct expert_place places[2];
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){5, 2}, 2, places), MOE_OK);
        CHECK(t, rig_entered(&how, 2));
        CHECK(t, !pieces || atomic_load(&how.last) / RIG_BLOB == 5); // else it may be the other expert
        rig_permit(&how, 100);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(t, expert_wait(store, &places[i], NULL, NULL, NULL), MOE_OK);
        CHECK(t, rig_holds(&places[0]) && rig_holds(&places[1]));
        CHECK_EQ(t, atomic_load(&how.calls), pieces ? 4 : 2);
        CHECK_EQ(t, expert_store_counts(store).bytes_read, 2 * RIG_BLOB);
        expert_release(store, places, 2);
        expert_store_close(store);
        rig_close(&rig);
    }
}

// Takes in what arrives until so many copies were begun.
static bool copies_begin(expert_store *store, const struct rig *rig, const struct expert_place *place, uint64_t n)
{
    for (int i = 0; i < 2000 && rig->g.copy < n && !expert_ready(store, place); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return rig->g.copy == n;
}

static void a_beginning_is_copied_while_the_rest_is_read(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {0};
    CHECK(t, rig_open(&rig, false));
    rig.readers = 1;
    rig.read_piece_bytes = RIG_BLOB / 2;
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place place;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){3}, 1, &place), MOE_OK);
    rig_permit(&how, 1);
    CHECK(t, copies_begin(store, &rig, &place, 1));
    CHECK(t, rig.g.copies[1].bytes == RIG_BLOB / 2 && !expert_ready(store, &place));
    rig_permit(&how, 1);
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, NULL), MOE_OK);
    CHECK_EQ(t, rig.g.copy, 2);
    CHECK(t, rig_holds(&place));
    CHECK_EQ(t, rig.g.bytes_written, RIG_BLOB);
    CHECK_EQ(t, rig_counts(store, 1).bytes_device, RIG_BLOB);
    expert_release(store, &place, 1);
    // The rest can't be read: what was copied is no expert, and the host's slot isn't filled anew under a copy.
    rig.g.lazy_copies = true;
    atomic_store(&how.fail_at, 4 * RIG_BLOB + RIG_BLOB / 2);
    atomic_store(&how.fail_errno, EIO);
    atomic_store(&how.fail_count, 1);
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){4}, 1, &place), MOE_OK);
    rig_permit(&how, 1);
    CHECK(t, copies_begin(store, &rig, &place, 3));
    rig_permit(&how, 100);
    struct moe_err err;
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, &err), MOE_IO);
    CHECK_EQ(t, err.offset, 4 * RIG_BLOB + RIG_BLOB / 2);
    CHECK_EQ(t, rig.g.copied, 3);
    CHECK_EQ(t, rig_counts(store, 1).bytes_device, RIG_BLOB);
    expert_release(store, &place, 1);
    CHECK(t, rig_use_one(store, 1, 4));
    // The device refuses the beginning: whoever waits is told, and the read goes on into the host's slot.
    rig.g.lazy_copies = false;
    rig.g.refuse_writes = true;
    CHECK_EQ(t, rig_acquire(store, 2, (int32_t[]){4}, 1, &place), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, &err), MOE_DEVICE);
    rig.g.refuse_writes = rig.g.failed = false;
    expert_release(store, &place, 1);
    CHECK(t, rig_use_one(store, 2, 4));
    expert_store_close(store);
    rig_close(&rig);
}

// The device loses the beginning of an expert whose rest is being read: in whichever slot it was, it is copied anew.
static void a_beginning_that_was_lost_is_copied_again(struct harness *t)
{
    enum { SLOTS = 3 };
    struct rig rig;
    struct rig_read how = {0};
    struct moe_err err;
    CHECK(t, rig_open(&rig, false));
    rig.readers = 1;
    rig.read_piece_bytes = RIG_BLOB / 2;
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, SLOTS, &how);
    for (int32_t id = 0; id < SLOTS; id++) {
        struct expert_place place;
        rig.g.lazy_copies = true;
        CHECK_EQ(t, rig_acquire(store, 1, &id, 1, &place), MOE_OK);
        rig_permit(&how, 1);
        CHECK(t, copies_begin(store, &rig, &place, rig.g.copied + 1));
        rig.g.lost = rig.g.copy;
        rig.g.failed = true;
        CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, &err), MOE_DEVICE);
        expert_release(store, &place, 1);
        rig.g.lost = 0;
        rig.g.lazy_copies = false;
        rig_permit(&how, 1);
        CHECK(t, rig_use_one(store, 1, id));
    }
    expert_store_close(store);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_place_is_ready_when_its_copy_has_passed),
        TEST(ops_follow_copies),
        TEST(waits_for_copies_are_not_the_disks),
        TEST(mapped_memory_is_one_tier_without_copies),
        TEST(both_tiers_hold_different_experts),
        TEST(what_comes_back_can_be_asked_for_at_once),
        TEST(copies_back_leave_slots_for_misses),
        TEST(pieces_bring_one_expert_after_the_other),
        TEST(a_beginning_is_copied_while_the_rest_is_read),
        TEST(a_beginning_that_was_lost_is_copied_again),
    };
    return HARNESS_RUN(tests, argc, argv);
}
