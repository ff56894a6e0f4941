// SPDX-License-Identifier: GPL-3.0-or-later
// What goes wrong under the expert store: reads that are cut up, interrupted, refused or end early, files that vanish,
// a device that refuses bytes. Each is one typed error with its place, nothing else is lost, and when the cause is
// gone the next request reads again.
#include "tests/expert_rig.h"

struct expected {
    int sys_errno; // 0: the file ended
    uint64_t offset;
    const char *reason;
};

// One request for experts 2, 3, 4 of layer 2, of which 3 fails: the others are right, and the whole of it works later.
static void check_recovery(struct harness *t, struct rig *rig, expert_store *store, const struct expected *expected)
{
    const int32_t ids[] = {2, 3, 4};
    struct expert_place places[3];
    struct moe_err err;
    CHECK_EQ(t, rig_acquire(store, 2, ids, 3, places), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, &err), MOE_OK);
    for (int twice = 0; twice < 2; twice++) {
        CHECK_EQ(t, expert_wait(store, &places[1], NULL, NULL, &err), MOE_IO);
        CHECK_EQ(t, err.code, MOE_IO);
        CHECK_EQ(t, err.layer, 2);
        CHECK_EQ(t, err.expert, 3);
        CHECK_EQ(t, err.sys_errno, expected->sys_errno);
        CHECK_EQ(t, err.offset, expected->offset);
        char path[4200];
        char text[5000];
        rig_path(rig, 2, path);
        CHECK_STR(t, err.file, path);
        snprintf(text, sizeof text, "%s: layer 2, expert 3 could not be read at byte %llu: %s", path,
                 (unsigned long long)expected->offset, expected->reason);
        CHECK_STR(t, err.text, text);
    }
    CHECK_EQ(t, expert_wait(store, &places[1], NULL, NULL, NULL), MOE_IO);
    CHECK_EQ(t, expert_wait(store, &places[2], NULL, NULL, &err), MOE_OK);
    CHECK(t, rig_holds(&places[0]) && rig_holds(&places[2]));
    expert_release(store, places, 3);
}

static void check_read_again(struct harness *t, expert_store *store)
{
    uint64_t misses = expert_store_counts(store).misses;
    CHECK(t, rig_use(store, 2, (int32_t[]){2, 3, 4}, 3));
    CHECK_EQ(t, expert_store_counts(store).misses, misses + 1); // only the one that failed
    CHECK(t, rig_is_hit(store, 2, 3));
}

static void check_injected(struct harness *t, bool shared, const struct expected *expected)
{
    struct rig rig;
    struct rig_read how = {.most = 1000, .fail_count = 1};
    CHECK(t, rig_open(&rig, shared));
    atomic_store(&how.fail_at, 3 * RIG_BLOB + 2500); // in the third piece
    atomic_store(&how.fail_errno, expected->sys_errno);
    expert_store *store = rig_store(t, &rig, 4, &how);
    check_recovery(t, &rig, store, expected);
    CHECK_EQ(t, expert_store_counts(store).bytes_read, 2 * RIG_BLOB + 2000);
    CHECK_EQ(t, rig.g.bytes_written, shared ? 0 : 2 * RIG_BLOB);
    check_read_again(t, store);
    expert_store_close(store);
    rig_close(&rig);
}

static void a_read_error_names_its_place(struct harness *t)
{
    const struct expected expected = {EIO, 3 * RIG_BLOB + 2000, "Input/output error"};
    check_injected(t, true, &expected);
    check_injected(t, false, &expected);
}

static void an_early_end_names_its_place(struct harness *t)
{
    const struct expected expected = {0, 3 * RIG_BLOB + 2000, "the file is cut short, copy it again"};
    check_injected(t, true, &expected);
    check_injected(t, false, &expected);
}

static void the_slot_of_a_failed_read_is_taken_first(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {.fail_count = 1, .fail_errno = EIO};
    CHECK(t, rig_open(&rig, true));
    atomic_store(&how.fail_at, 3 * RIG_BLOB);
    expert_store *store = rig_store(t, &rig, 3, &how);
    CHECK(t, rig_use(store, 1, (int32_t[]){0, 1}, 2));
    CHECK(t, !rig_use_one(store, 1, 3));
    CHECK(t, rig_use_one(store, 1, 4));
    CHECK_EQ(t, expert_store_counts(store).evictions, 0);
    expert_store_close(store);
    rig_close(&rig);
}

static void interrupted_and_short_reads_are_no_failure(struct harness *t)
{
    static const size_t pieces[] = {1, 13, 4095, RIG_BLOB - 1};
    struct rig rig;
    CHECK(t, rig_open(&rig, true));
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct rig_read how = {.most = pieces[i], .fail_count = 3};
        atomic_store(&how.fail_at, 3 * RIG_BLOB + 100);
        atomic_store(&how.fail_errno, EINTR);
        expert_store *store = rig_store(t, &rig, 4, &how);
        CHECK(t, rig_use(store, 2, (int32_t[]){2, 3, 4}, 3));
        CHECK_EQ(t, atomic_load(&how.fail_count), 0);
        CHECK_EQ(t, expert_store_counts(store).bytes_read, 3 * RIG_BLOB);
        expert_store_close(store);
    }
    rig_close(&rig);
}

static void check_truncated(struct harness *t, bool shared, enum moe_io io)
{
    const struct expected expected = {0, 3 * RIG_BLOB + 100, "the file is cut short, copy it again"};
    struct rig rig;
    CHECK(t, rig_open(&rig, shared));
    rig.io = io;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    CHECK(t, rig_use(store, 2, (int32_t[]){2, 4}, 2));
    CHECK(t, rig_write_layer(&rig, 2, 3 * RIG_BLOB + 100));
    check_recovery(t, &rig, store, &expected);
    check_recovery(t, &rig, store, &expected);
    CHECK(t, rig_write_layer(&rig, 2, RIG_EXPERTS * RIG_BLOB));
    check_read_again(t, store);
    expert_store_close(store);
    rig_close(&rig);
}

static void a_truncated_file_is_read_again_when_whole(struct harness *t)
{
    for (int way = 0; way < 4; way++)
        check_truncated(t, way % 2, way / 2 ? MOE_IO_DIRECT : MOE_IO_BUFFERED);
}

// A file that is unlinked is read on through its descriptor; once that fails, only the name can help.
static void check_vanished(struct harness *t, bool shared, enum moe_io io)
{
    const struct expected expected = {0, 3 * RIG_BLOB, "the file is cut short, copy it again"};
    const struct expected vanished = {ENOENT, 3 * RIG_BLOB, "No such file or directory"};
    const struct expected piped = {ESPIPE, 3 * RIG_BLOB, "Illegal seek"};
    struct rig rig;
    CHECK(t, rig_open(&rig, shared));
    rig.io = io;
    expert_store *store = rig_store(t, &rig, 4, NULL);
    CHECK(t, rig_use(store, 2, (int32_t[]){2, 4}, 2));
    CHECK(t, rig_write_layer(&rig, 2, 3 * RIG_BLOB));
    char path[4200];
    rig_path(&rig, 2, path);
    unlink(path);
    check_recovery(t, &rig, store, &expected);
    check_recovery(t, &rig, store, &vanished);
    check_recovery(t, &rig, store, &vanished);
    CHECK_EQ(t, mkfifo(path, 0600), 0); // must not be waited for
    check_recovery(t, &rig, store, &piped);
    unlink(path);
    CHECK(t, rig_write_layer(&rig, 2, RIG_EXPERTS * RIG_BLOB)); // another file of that name
    check_read_again(t, store);
    expert_store_close(store);
    rig_close(&rig);
}

static void a_vanished_file_is_found_again_by_name(struct harness *t)
{
    for (int way = 0; way < 4; way++)
        check_vanished(t, way % 2, way / 2 ? MOE_IO_DIRECT : MOE_IO_BUFFERED);
}

static void all_who_wait_hear_of_the_failure(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {.fail_count = 1};
    CHECK(t, rig_open(&rig, true));
    atomic_store(&how.fail_errno, EIO);
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place first;
    struct expert_place second;
    struct expert_place third;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &first), MOE_OK);
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &second), MOE_OK);
    rig_permit(&how, 100);
    CHECK_EQ(t, expert_wait(store, &first, NULL, NULL, NULL), MOE_IO);
    // The failed slot is still held, but its key is free: this one reads into another.
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &third), MOE_OK);
    CHECK(t, third.slot != first.slot);
    CHECK_EQ(t, expert_wait(store, &third, NULL, NULL, NULL), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &second, NULL, NULL, NULL), MOE_IO);
    expert_release(store, &first, 1);
    expert_release(store, &second, 1);
    CHECK(t, rig_holds(&third));
    CHECK(t, rig_is_hit(store, 1, 0));
    expert_release(store, &third, 1);
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3)); // no slot was lost
    expert_store_close(store);
    rig_close(&rig);
}

// A read for a request that was given up, or ahead of any: what it met is nothing to those who ask for its expert
// later.
static void who_joins_a_read_that_fails_has_one_of_their_own(struct harness *t)
{
    for (int way = 0; way < 8; way++) {
        bool shared = way % 2, ahead = way / 2 % 2, fails_twice = way / 4;
        struct rig rig;
        struct rig_read how = {.fail_count = 1 + fails_twice, .fail_errno = EIO};
        CHECK(t, rig_open(&rig, shared));
        rig_gate(&how);
        expert_store *store = rig_store(t, &rig, 2 * RIG_TOP_K, &how);
        struct expert_place place;
        if (ahead)
            expert_prefetch(store, &(struct expert_prediction){1, (int32_t[]){0}, 1});
        else
            CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &place), MOE_OK);
        CHECK(t, rig_entered(&how, 1));
        if (!ahead)
            expert_release(store, &place, 1);
        CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &place), MOE_OK);
        CHECK_EQ(t, place.origin, MOE_FROM_LATE);
        rig_permit(&how, 2);
        CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, NULL), fails_twice ? MOE_IO : MOE_OK);
        CHECK(t, fails_twice || rig_holds(&place));
        expert_release(store, &place, 1);
        rig_permit(&how, 100);
        CHECK(t, rig_use(store, 1, (int32_t[]){0, 1, 2}, 3)); // no slot was lost
        expert_store_close(store);
        rig_close(&rig);
    }
}

static void a_read_that_fails_after_a_cancel_leaves_an_empty_slot(struct harness *t)
{
    struct rig rig;
    struct rig_read how = {.fail_count = 3};
    CHECK(t, rig_open(&rig, false));
    atomic_store(&how.fail_errno, EIO);
    rig_gate(&how);
    expert_store *store = rig_store(t, &rig, 3, &how);
    struct expert_place place;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &place), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    CHECK_EQ(t, expert_wait(store, &place, rig_yes, NULL, NULL), MOE_CANCELLED);
    expert_release(store, &place, 1);
    // Found while LOADING by a request that needs all slots: the read fails, and another, of which this one is told.
    struct expert_place places[3];
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0, 1, 2}, 3, places), MOE_OK);
    CHECK_EQ(t, places[0].slot, place.slot);
    rig_permit(&how, 4);
    CHECK_EQ(t, expert_wait(store, &places[0], NULL, NULL, NULL), MOE_IO);
    CHECK_EQ(t, expert_wait(store, &places[1], NULL, NULL, NULL), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &places[2], NULL, NULL, NULL), MOE_OK);
    expert_release(store, places, 3);
    // And once more with nobody to tell: its slot is EMPTY then, so only 1 and 2 are evicted.
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){0}, 1, &place), MOE_OK);
    CHECK(t, rig_entered(&how, 4)); // 0 again, 1, 2 and now 0 once more
    CHECK_EQ(t, expert_wait(store, &place, rig_yes, NULL, NULL), MOE_CANCELLED);
    expert_release(store, &place, 1);
    rig_permit(&how, 100);
    CHECK(t, rig_use(store, 2, (int32_t[]){0, 1, 2}, 3));
    CHECK_EQ(t, expert_store_counts(store).evictions, 2);
    CHECK(t, !rig_is_hit(store, 1, 0));
    CHECK(t, rig_is_hit(store, 1, 0));
    expert_store_close(store);
    rig_close(&rig);
}

static void a_refused_upload_is_not_taken_for_an_expert(struct harness *t)
{
    struct rig rig;
    CHECK(t, rig_open(&rig, false));
    expert_store *store = rig_store(t, &rig, 3, NULL);
    struct expert_place place;
    struct moe_err err;
    rig.g.refuse_writes = true;
    CHECK_EQ(t, rig_acquire(store, 1, (int32_t[]){5}, 1, &place), MOE_OK);
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, &err), MOE_DEVICE);
    CHECK_STR(t, err.text, "the rig lost a command");
    rig.g.refuse_writes = false;
    CHECK_EQ(t, expert_wait(store, &place, NULL, NULL, &err), MOE_DEVICE);
    CHECK_STR(t, err.text, "layer 1, expert 5: the device did not take its bytes");
    expert_release(store, &place, 1);
    CHECK(t, rig_use_one(store, 1, 5));
    CHECK_EQ(t, expert_store_counts(store).misses, 1); // the host still had them

    // The device tells of a lost command once, so whoever is there when it tells is told, with nothing kept pinned.
    struct rig_read how = {0};
    rig_gate(&how);
    expert_store *gated = rig_store(t, &rig, 3, &how);
    CHECK_EQ(t, rig_acquire(gated, 1, (int32_t[]){5}, 1, &place), MOE_OK);
    CHECK(t, rig_entered(&how, 1));
    expert_release(gated, &place, 1);
    rig.g.failed = true;
    rig_permit(&how, 100);
    int told = 0;
    for (int tries = 0; tries < 1000 && !told; tries++) {
        CHECK_EQ(t, nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL), 0);
        told = rig_acquire(gated, 1, (int32_t[]){6}, 1, &place);
        if (!told)
            expert_release(gated, &place, 1);
    }
    CHECK_EQ(t, told, MOE_DEVICE);
    CHECK(t, rig_use(gated, 2, (int32_t[]){0, 1, 2}, 3));
    expert_store_close(gated);
    expert_store_close(store);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_read_error_names_its_place),
        TEST(an_early_end_names_its_place),
        TEST(the_slot_of_a_failed_read_is_taken_first),
        TEST(interrupted_and_short_reads_are_no_failure),
        TEST(a_truncated_file_is_read_again_when_whole),
        TEST(a_vanished_file_is_found_again_by_name),
        TEST(all_who_wait_hear_of_the_failure),
        TEST(who_joins_a_read_that_fails_has_one_of_their_own),
        TEST(a_read_that_fails_after_a_cancel_leaves_an_empty_slot),
        TEST(a_refused_upload_is_not_taken_for_an_expert),
    };
    return HARNESS_RUN(tests, argc, argv);
}
