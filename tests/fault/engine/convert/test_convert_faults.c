// SPDX-License-Identifier: GPL-3.0-or-later
// What a conversion reads beside the weights, and its journal, on a disk that refuses: it is said with the file's name,
// there is no package, and the same command makes the one that an undisturbed disk gives.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/statvfs.h>

#include "engine/convert/journal.h"
#include "engine/files/checkpoint.h"
#include "engine/files/gguf_set.h"
#include "tests/convert_rig.h"

#define GLM "tests/golden/ck-glm/checkpoint"

static const char text[] = "{\"a tokenizer's\": \"that nobody reads here\"}\n";

// The calls that fail: those of one kind, to files whose names end so.
static struct {
    const char *call, *name;
} refused;

// Every other write and sync of the file of this name ends for a signal, and writes do half of what they are to.
static struct {
    const char *name;
    unsigned calls;
} interrupted;

// Bytes that are written to the file of this name, and syncs behind them.
static struct {
    const char *name;
    size_t bytes, syncs;
} counted;

int __real_open64(const char *path, int flags, ...);
ssize_t __real_pread64(int fd, void *to, size_t length, off_t offset);
ssize_t __real_write(int fd, const void *from, size_t length);
int __real_fsync(int fd);
int __real_ftruncate64(int fd, off_t length);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t offset);
ssize_t __wrap_write(int fd, const void *from, size_t length);
int __wrap_fsync(int fd);
int __wrap_ftruncate64(int fd, off_t length);
int __real_statvfs64(const char *path, struct statvfs *disk);
int __wrap_statvfs64(const char *path, struct statvfs *disk);
struct dirent *__real_readdir64(DIR *folder);
struct dirent *__wrap_readdir64(DIR *folder);
int __real_lockf64(int fd, int what, off_t length);
int __wrap_lockf64(int fd, int what, off_t length);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *context);

static bool is_refused(const char *call, const char *path)
{
    if (!refused.call || strcmp(refused.call, call) != 0 || !strstr(path, refused.name))
        return false;
    errno = EIO;
    return true;
}

static bool is_refused_to(const char *call, int fd)
{
    if (!refused.call || !is_named(fd, refused.name))
        return false;
    return is_refused(call, refused.name);
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    return is_refused("open", path) ? -1 : __real_open64(path, flags, mode);
}

ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t offset)
{
    return is_refused_to("pread", fd) ? -1 : __real_pread64(fd, to, length, offset);
}

static bool is_interrupted(int fd)
{
    if (!interrupted.name || !is_named(fd, interrupted.name) || interrupted.calls++ % 2)
        return false;
    errno = EINTR;
    return true;
}

ssize_t __wrap_write(int fd, const void *from, size_t length)
{
    if (is_interrupted(fd))
        return -1;
    if (counted.name && is_named(fd, counted.name))
        counted.bytes += length;
    bool half = interrupted.name && length > 1 && is_named(fd, interrupted.name);
    return __real_write(fd, from, half ? length / 2 : length);
}

int __wrap_fsync(int fd)
{
    if (counted.name && is_named(fd, counted.name))
        counted.syncs += counted.bytes > 0;
    return is_interrupted(fd) ? -1 : __real_fsync(fd);
}

int __wrap_ftruncate64(int fd, off_t length)
{
    return is_refused_to("ftruncate", fd) ? -1 : __real_ftruncate64(fd, length);
}

// A refused one has a block left.
int __wrap_statvfs64(const char *path, struct statvfs *disk)
{
    int code = __real_statvfs64(path, disk);
    if (code == 0 && is_refused("statvfs", path))
        disk->f_bavail = 1;
    return code;
}

// `name` has how many are started before.
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *context)
{
    if (refused.call && strcmp(refused.call, "thread") == 0 && *refused.name == 0)
        return EAGAIN;
    if (refused.call && strcmp(refused.call, "thread") == 0)
        refused.name++;
    return __real_pthread_create(thread, with, run, context);
}

struct dirent *__wrap_readdir64(DIR *folder)
{
    return is_refused_to("readdir", dirfd(folder)) ? NULL : __real_readdir64(folder);
}

// A refused one is on a file system without locks, or is held by another.
int __wrap_lockf64(int fd, int what, off_t length)
{
    bool held = is_refused_to("lockf", fd);
    if (!held && !is_refused_to("no lockf", fd))
        return __real_lockf64(fd, what, length);
    errno = held ? EAGAIN : ENOLCK;
    return -1;
}

int __wrap_unlink(const char *path)
{
    return is_refused("unlink", path) ? -1 : __real_unlink(path);
}

// The checkpoint with files of a tokenizer beside its weights.
static void make_source(struct harness *t)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r " GLM " '%s'", source, source);
    CHECK_EQ(t, system(command), 0);
    made_text(source, "tokenizer_config.json", text);
    make_undisturbed(t, source);
    CHECK(t, same_file(source, undisturbed, "tokenizer_config.json"));
}

static void goes_on(struct harness *t)
{
    struct moe_err err;
    refused.call = NULL;
    if (!CHECK_EQ(t, convert(source, NULL, &err), 0))
        printf("    %s\n", err.text);
    CHECK(t, same_folder(undisturbed, target));
}

static void a_file_beside_the_weights_that_cannot_be_read(struct harness *t)
{
    static const char *const calls[][2] = {{"pread", "cannot be read"}, {"open", "cannot be opened"}};
    make_source(t);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct moe_err err;
        clear();
        refused.call = calls[i][0];
        refused.name = "source/tokenizer_config.json";
        fails(t, convert(source, NULL, &err), MOE_IO, &err, calls[i][1]);
        CHECK(t, strstr(err.text, refused.name) && err.sys_errno == EIO && access(target, F_OK) != 0);
        goes_on(t);
    }
    // One that was not fetched is none that is not there.
    struct moe_err err;
    clear();
    made_text(source, "tokenizer_config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    fails(t, convert(source, NULL, &err), MOE_NOT_FOUND, &err, "Git LFS pointer");
    CHECK(t, access(target, F_OK) != 0);
}

// The end of a journal that was cut off has to go before a line is added: joined, the two would be none.
static void a_journal_that_cannot_be_cut(struct harness *t)
{
    static const char *const torn[] = {"moechat-conv", NULL}; // NULL: its lines, and the beginning of one
    make_source(t);
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        struct disturbance d = {.check_at = 12};
        struct moe_convert_options options = disturbed(&d);
        struct moe_err err;
        char path[200];
        clear();
        CHECK_EQ(t, convert(source, &options, &err), MOE_CANCELLED);
        snprintf(path, sizeof path, "%s/convert.journal", partial);
        FILE *journal = fopen(path, torn[i] ? "wb" : "ab");
        CHECK(t, journal && fputs(torn[i] ? torn[i] : "layer-00", journal) >= 0 && fclose(journal) == 0);
        refused.call = "ftruncate";
        refused.name = "convert.journal";
        fails(t, convert(source, NULL, &err), MOE_IO, &err, "convert.journal: cannot be written");
        CHECK(t, err.sys_errno == EIO && access(target, F_OK) != 0);
        goes_on(t);
    }
}

// What was not begun leaves nothing; what was goes on when there is room.
static void a_disk_that_is_full(struct harness *t)
{
    make_source(t);
    for (int begun = 0; begun < 2; begun++) {
        struct disturbance d = {.check_at = 12};
        struct moe_convert_options options = disturbed(&d);
        struct moe_err err;
        clear();
        if (begun)
            CHECK_EQ(t, convert(source, &options, &err), MOE_CANCELLED);
        refused.call = "statvfs";
        refused.name = "";
        fails(t, convert(source, NULL, &err), MOE_IO, &err, ": not enough disk space: 67.");
        CHECK(t, strstr(err.text, " MB must be free, and ") && err.sys_errno == ENOSPC && access(target, F_OK) != 0);
        CHECK_EQ(t, access(partial, F_OK) == 0, begun);
        goes_on(t);
    }
}

// None at all is told, of the first file or, where one has done the work of four, of a later one.
static void threads_that_cannot_be_started(struct harness *t)
{
    struct moe_err err;
    make_source(t);
    clear();
    refused.call = "thread";
    refused.name = "";
    fails(t, convert(source, NULL, &err), MOE_NO_MEMORY, &err, "no thread could be started to write it");
    CHECK(t, err.sys_errno == EAGAIN && access(target, F_OK) != 0);
    goes_on(t);
    const struct moe_convert_options four = {.threads = 4};
    clear();
    refused.call = "thread";
    refused.name = "1";
    fails(t, convert(source, &four, &err), MOE_NO_MEMORY, &err, "no thread could be started to write it");
    goes_on(t);
}

static void keep_notice(void *context, const char *notice)
{
    snprintf(context, 512, "%s", notice);
}

// A line whose sync failed is on no disk perhaps: all are written again before anything is done by them.
static void a_journal_that_is_opened_is_synced_again(struct harness *t)
{
    struct moe_err err;
    struct journal j;
    char key[65];
    memset(key, 'a', 64);
    key[64] = 0;
    clear();
    mkdir(partial, 0700);
    CHECK_EQ(t, journal_open(partial, key, &j, &err), 0);
    journal_close(&j);
    counted.name = "convert.journal";
    counted.bytes = counted.syncs = 0;
    CHECK_EQ(t, journal_open(partial, key, &j, &err), 0);
    counted.name = NULL;
    journal_close(&j);
    CHECK(t, counted.bytes > 64 && counted.syncs == 1);
    clear();
}

// A signal that comes while its lines are written is no error of the disk.
static void a_journal_that_signals_interrupt(struct harness *t)
{
    static const char *const names[] = {"convert.journal", "resident.safetensors", "model.json", "target.partial"};
    make_source(t);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        clear();
        interrupted.name = names[i];
        interrupted.calls = 0;
        goes_on(t);
        interrupted.name = NULL;
        if (!CHECK(t, interrupted.calls > 0))
            printf("    %s\n", names[i]);
    }
}

// The package has its name, its journal is left, as where the process is killed just then: it is said, and the same
// command ends it. Another is refused as ever.
static void a_journal_that_cannot_be_removed(struct harness *t)
{
    char journal[200], said[512] = "";
    const struct moe_convert_options options = {.threads = 1, .notice = keep_notice, .context = said},
                                     other = {.threads = 1, .expert_bits = 8};
    struct moe_err err;
    make_source(t);
    clear();
    snprintf(journal, sizeof journal, "%s/convert.journal", target);
    refused.call = "unlink";
    refused.name = "target/convert.journal";
    CHECK_EQ(t, convert(source, &options, &err), 0);
    CHECK(t, access(journal, F_OK) == 0 && strstr(said, "convert.journal cannot be removed (Input/output error)"));
    refused.call = NULL;
    fails(t, convert(source, &other, &err), MOE_BAD_ARGUMENT, &err, "was left by another conversion");
    CHECK(t, access(journal, F_OK) == 0);
    CHECK_EQ(t, convert(source, &options, &err), 0);
    CHECK(t, access(journal, F_OK) != 0 && strstr(said, "target was whole already"));
    CHECK(t, same_folder(undisturbed, target) && access(partial, F_OK) != 0);
    fails(t, convert(source, &options, &err), MOE_BAD_ARGUMENT, &err, "target: already exists");
}

// What cannot be listed is not taken for empty.
static void folders_that_cannot_be_listed(struct harness *t)
{
    char command[300], folder[300], file[GGUF_SET_PATH];
    struct checkpoint c;
    struct moe_err err;
    make_source(t);
    clear();
    // without an index, all that its folder has is looked for
    snprintf(command, sizeof command, "rm -f '%s'/*.index.json && mkdir '%s' && echo mine >'%s/notes'", source, partial,
             partial);
    CHECK_EQ(t, system(command), 0);
    refused.call = "readdir";
    refused.name = strrchr(partial, '/') + 1;
    fails(t, convert(source, NULL, &err), MOE_IO, &err, ".partial: cannot be listed");
    CHECK_EQ(t, err.sys_errno, EIO);
    refused.name = strrchr(source, '/') + 1;
    fails(t, checkpoint_open_folder(source, &c, &err), MOE_IO, &err, "source: cannot be listed");
    fails(t, gguf_set_file(source, file, &err), MOE_IO, &err, "source: cannot be listed");
    refused.call = NULL;
    fails(t, convert(source, NULL, &err), MOE_BAD_ARGUMENT, &err, "has files that no conversion left");
    snprintf(folder, sizeof folder, "%s/notes", partial);
    CHECK_EQ(t, unlink(folder), 0);
    CHECK_EQ(t, rmdir(partial), 0);
    make_source(t);
    goes_on(t);
}

// Only a lock that another process has is another conversion.
static void a_journal_that_cannot_be_locked(struct harness *t)
{
    struct moe_err err;
    make_source(t);
    clear();
    refused.call = "no lockf";
    refused.name = "convert.journal";
    fails(t, convert(source, NULL, &err), MOE_IO, &err, "convert.journal: cannot be locked");
    CHECK_EQ(t, err.sys_errno, ENOLCK);
    refused.call = "lockf";
    fails(t, convert(source, NULL, &err), MOE_IO, &err, "convert.journal: another process is running this conversion");
    goes_on(t);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_file_beside_the_weights_that_cannot_be_read),
        TEST(a_journal_that_cannot_be_cut),
        TEST(a_disk_that_is_full),
        TEST(threads_that_cannot_be_started),
        TEST(a_journal_that_is_opened_is_synced_again),
        TEST(a_journal_that_signals_interrupt),
        TEST(a_journal_that_cannot_be_removed),
        TEST(folders_that_cannot_be_listed),
        TEST(a_journal_that_cannot_be_locked),
    };
    if (!begin_conversions())
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    end_conversions();
    return code;
}
