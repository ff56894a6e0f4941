// SPDX-License-Identifier: GPL-3.0-or-later
// Every call by which the session store touches the disk, one after the other: refused, cut short, or the last thing
// that the process does. Whatever it was, the old state opens or the new one, with sound rows; and after a refusal the
// same process saves at its next attempt.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/store_acts.h"

// How many names a folder gives yet before it cannot be read; -1: all.
static int names_left = -1;

struct dirent *__real_readdir64(DIR *folder);
struct dirent *__wrap_readdir64(DIR *folder);

struct dirent *__wrap_readdir64(DIR *folder)
{
    if (names_left != 0) {
        names_left -= names_left > 0;
        return __real_readdir64(folder);
    }
    errno = EIO;
    return NULL;
}

enum how {
    HOW_ENOSPC,
    HOW_EIO,
    HOW_SHORT_ENOSPC,
    HOW_SHORT,
    HOW_KILL_BEFORE,
    HOW_KILL_HALF,
    HOW_KILL_AFTER,
    HOW_COUNT
};

struct fault {
    int calls, at; // so far; the one that goes wrong, -1: none
    enum how how;
    bool sticky; // what was refused stays refused, as on a full disk
    bool met;
};

// Returns what a call has to do: 0 as usual, 1 fail with errno, 2 half.
static int meet(struct fault *fault)
{
    int call = fault->calls++;
    if (fault->sticky && fault->met) {
        errno = ENOSPC;
        return 1;
    }
    if (call != fault->at)
        return 0;
    fault->met = true;
    if (fault->how == HOW_KILL_BEFORE)
        _exit(9);
    if (fault->how == HOW_ENOSPC || fault->how == HOW_EIO) {
        errno = fault->how == HOW_EIO ? EIO : ENOSPC;
        return 1;
    }
    fault->sticky = fault->how == HOW_SHORT_ENOSPC;
    return 2;
}

static int after(struct fault *fault, int what, int result)
{
    if (what == 2 && (fault->how == HOW_KILL_AFTER || fault->how == HOW_KILL_HALF))
        _exit(9);
    return result;
}

static ptrdiff_t fault_write(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    struct fault *fault = context;
    int what = meet(fault);
    if (what == 1)
        return -1;
    bool half = what == 2 && fault->how != HOW_KILL_AFTER && length > 1;
    ptrdiff_t wrote = pwrite(fd, source, half ? length / 2 : length, (off_t)offset);
    after(fault, what, 0);
    return wrote;
}

static ptrdiff_t fault_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct fault *fault = context;
    int what = meet(fault);
    bool half = what == 2 && length > 1;
    ptrdiff_t got = what == 1 ? -1 : pread(fd, target, half ? 1 : length, (off_t)offset);
    after(fault, what, 0);
    return got;
}

#define FAULTY(declaration, call)                                                                                      \
    static int declaration                                                                                             \
    {                                                                                                                  \
        struct fault *fault = context;                                                                                 \
        int what = meet(fault);                                                                                        \
        return what == 1 ? -1 : after(fault, what, call);                                                              \
    }
FAULTY(fault_open(void *context, const char *path, int flags), open(path, flags | O_CLOEXEC, 0600))
FAULTY(fault_sync(void *context, int fd), fsync(fd))
FAULTY(fault_truncate(void *context, int fd, uint64_t length), ftruncate(fd, (off_t)length))
FAULTY(fault_rename(void *context, const char *from, const char *to), rename(from, to))
FAULTY(fault_unlink(void *context, const char *path), unlink(path))
FAULTY(fault_mkdir(void *context, const char *path), store_io_posix.mkdir(NULL, path))
FAULTY(fault_rmdir(void *context, const char *path), rmdir(path))

static int fault_close(void *context, int fd)
{
    (void)context;
    return close(fd);
}

static struct store_io faulty_io(struct fault *fault)
{
    return (struct store_io){.open = fault_open,
                             .close = fault_close,
                             .read = fault_read,
                             .write = fault_write,
                             .sync = fault_sync,
                             .truncate = fault_truncate,
                             .rename = fault_rename,
                             .unlink = fault_unlink,
                             .mkdir = fault_mkdir,
                             .rmdir = fault_rmdir,
                             .context = fault};
}

// Opens with faults and acts; returns 0 done, 1 refused, 2 refused and not even at the second attempt.
static int perform(const struct store *store, const struct act *act, struct fault *fault)
{
    struct saved *saved = NULL;
    struct saved_content content;
    struct store_error error;
    struct rig_engine *engine = rig_engine_new(true);
    int result = 1;
    if (saved_open(store, "talk", &saved, &content, &error) == STORE_OK) {
        bool sound = rig_restore(saved, engine);
        saved_content_release(&content);
        result = !sound ? 2 : act->run(saved, engine, &error) ? 0 : 1;
        if (result == 1) {
            fault->sticky = false;
            fault->at = -1;
            result = act->run(saved, engine, &error) ? 1 : 2;
            if (result == 2)
                printf("    second attempt: %s\n", error.text);
        }
    }
    saved_close(saved);
    free(engine);
    return result;
}

// One point of one act. Returns false when the act had no such point.
static bool try_point(struct harness *t, const struct act *act, int at, enum how how)
{
    char root[64];
    struct fault fault = {.at = at, .how = how};
    struct store store = rig_store(root), faulty = store;
    struct store_io io = faulty_io(&fault);
    faulty.io = &io;
    prepare(&store);
    bool met = true;
    int state, failures = t->failures;
    if (how >= HOW_KILL_BEFORE) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            perform(&faulty, act, &fault);
            _exit(fault.met ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        met = WIFEXITED(status) && WEXITSTATUS(status) == 9;
        state = any_state(&store, act);
        CHECK(t, state >= 1);
    } else {
        int result = perform(&faulty, act, &fault);
        met = fault.met;
        state = any_state(&store, act);
        CHECK(t, result < 2 && state >= 1);
        // A refusal while opening leaves the old state; else the second attempt has made the new one.
        CHECK(t, result == 0 ? state == 2 || strcmp(act->new_texts, old_texts) == 0 : true);
        if (how == HOW_SHORT)
            CHECK_EQ(t, result, 0);
    }
    if (t->failures > failures)
        printf("    %s, call %d, how %d, state %d\n", act->name, at, (int)how, state);
    rig_clean(root);
    return met;
}

static void check_act(struct harness *t, const struct act *act)
{
    int points = 0;
    for (int how = 0; how < HOW_COUNT; how++)
        for (int at = 0; try_point(t, act, at, (enum how)how) && t->failures < 5; at++)
            points++;
    printf("%s: %d points\n", act->name, points);
    CHECK(t, points >= HOW_COUNT * 10);
}

static void save(struct harness *t)
{
    check_act(t, &acts[0]);
}
static void undo(struct harness *t)
{
    check_act(t, &acts[1]);
}
static void retry(struct harness *t)
{
    check_act(t, &acts[2]);
}
static void undo_and_save(struct harness *t)
{
    check_act(t, &acts[3]);
}
static void compact(struct harness *t)
{
    check_act(t, &acts[4]);
}
static void renaming(struct harness *t)
{
    check_act(t, &acts[5]);
}
static void other_rows(struct harness *t)
{
    check_act(t, &acts[6]);
}

// A first save: afterwards there is nothing, a session that can be read, or all of it; a removal: all or nothing.
static void first_save_and_removal(struct harness *t)
{
    for (int removal = 0; removal < 2; removal++) {
        for (int how = HOW_KILL_BEFORE; how < HOW_COUNT; how++) {
            bool met = true;
            for (int at = 0; met && t->failures == 0; at++) {
                char root[64];
                struct fault fault = {.at = at, .how = (enum how)how};
                struct store store = rig_store(root), faulty = store;
                struct store_io io = faulty_io(&fault);
                struct store_error error;
                struct act act = {.new_texts = removal ? old_texts : "one|first"};
                faulty.io = &io;
                if (removal)
                    prepare(&store);
                fflush(stdout);
                pid_t child = fork();
                if (child == 0) {
                    struct saved *saved;
                    struct rig_engine *engine = rig_engine_new(true);
                    if (removal)
                        _exit(store_remove(&faulty, "talk", &error) ? 1 : 0);
                    if (saved_new(&faulty, "talk", &saved, &error))
                        _exit(1);
                    rig_append(saved, TOK_USER, "one", engine);
                    rig_append(saved, TOK_ASSISTANT, "first", engine);
                    _exit(commit(saved, engine, &error) ? 0 : 1);
                }
                int status = 0;
                waitpid(child, &status, 0);
                met = WIFEXITED(status) && WEXITSTATUS(status) == 9;
                struct saved *saved = NULL;
                struct saved_content content;
                char texts[256];
                enum store_code code = saved_open(&store, "talk", &saved, &content, &error);
                CHECK(t, code == STORE_OK || code == STORE_NOT_FOUND);
                rig_texts(&content, texts, sizeof texts);
                bool whole = strcmp(texts, act.new_texts) == 0, begun = strcmp(texts, "one") == 0;
                CHECK(t, code || (!*content.damage && strcmp(saved_name(saved), "talk") == 0));
                CHECK(t, code || whole || (!removal && (begun || !*texts)));
                CHECK(t, met || (removal ? code == STORE_NOT_FOUND : whole));
                if (t->failures)
                    printf("    removal %d, call %d, how %d: \"%s\"\n", removal, at, how, texts);
                saved_content_release(&content);
                saved_close(saved);
                rig_clean(root);
            }
        }
    }
}

// Sessions that are not seen are not said to be none: another would be begun in the place of the last.
static void a_folder_that_cannot_be_read(struct harness *t)
{
    char root[64];
    struct store store = rig_store(root);
    struct store_list list;
    struct store_error error;
    prepare(&store);
    for (names_left = 0; names_left >= 0 && names_left < 3;) {
        int left = names_left;
        CHECK_EQ(t, store_list(&store, &list, &error), STORE_IO);
        CHECK(t, !list.entries && list.n_entries == 0 && strstr(error.text, "Input/output error"));
        names_left = left + 1;
    }
    names_left = -1;
    CHECK_EQ(t, store_list(&store, &list, &error), STORE_OK);
    CHECK_EQ(t, list.n_entries, 1);
    store_list_release(&list);
    rig_clean(root);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(save),
        TEST(undo),
        TEST(retry),
        TEST(undo_and_save),
        TEST(compact),
        TEST(renaming),
        TEST(other_rows),
        TEST(first_save_and_removal),
        TEST(a_folder_that_cannot_be_read),
    };
    return HARNESS_RUN(tests, argc, argv);
}
