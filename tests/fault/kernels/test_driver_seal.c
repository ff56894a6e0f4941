// SPDX-License-Identifier: GPL-3.0-or-later
// What PoCL keeps is torn, left half built, damaged: a folder as PoCL makes it, whose libraries are copies of the
// OpenCL loader. Each sync is looked for behind the C library's call (the Makefile wraps fsync).
#define _GNU_SOURCE // dladdr
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/driver_seal.h"
#include "tests/harness.h"

enum { LIBRARIES = 3, MOST_SYNCED = 256 };
static const char key[] = "0123456789abcdef0123456789abcdef", other_key[] = "fedcba9876543210fedcba9876543210";
static const char *const names[LIBRARIES] = {"one", "two", "three"};

static char synced[MOST_SYNCED][PATH_MAX];
static size_t n_synced;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    char at[64];
    snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
    ssize_t n = n_synced < MOST_SYNCED ? readlink(at, synced[n_synced], PATH_MAX - 1) : -1;
    if (n > 0)
        synced[n_synced++][n] = 0;
    return __real_fsync(fd);
}

static bool was_synced(const char *path)
{
    for (size_t i = 0; i < n_synced; i++)
        if (strcmp(synced[i], path) == 0)
            return true;
    return false;
}

struct rig {
    struct harness *t;
    char folder[64];
    void *handles[2 * LIBRARIES];
    size_t n_handles;
    char notice[SEAL_NOTICE];
};

static void path_of(const struct rig *rig, const char *program, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/AB/%s/%s%s%s", rig->folder, program, name,
             *name == 'p' || *name == 'l' ? "" : "/1-1-1/", *name == 'p' || *name == 'l' ? "" : "kernel.so");
}

static bool is_there(const struct rig *rig, const char *program, const char *name)
{
    char path[PATH_MAX];
    path_of(rig, program, name, path);
    return access(path, F_OK) == 0;
}

static void make_folders(const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
    for (char *at = path + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(path, 0700);
    }
}

static void write_file(const struct rig *rig, const char *path, const void *bytes, size_t n)
{
    make_folders(path);
    FILE *out = fopen(path, "wb");
    CHECK(rig->t, out && fwrite(bytes, 1, n, out) == n);
    CHECK(rig->t, out && fclose(out) == 0);
}

static char *read_file(const char *path, size_t *n)
{
    FILE *in = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    *n = in && bytes ? fread(bytes, 1, 1 << 20, in) : 0;
    if (in)
        fclose(in);
    return bytes;
}

// As PoCL builds a program: bitcode, libraries, a file that says when.
static void build(struct rig *rig, const char *program)
{
    char path[PATH_MAX];
    size_t n;
    Dl_info loader;
    void *opencl = dlopen("libOpenCL.so.1", RTLD_NOW);
    CHECK(rig->t, opencl && dladdr(dlsym(opencl, "clGetPlatformIDs"), &loader) != 0);
    char *library = read_file(loader.dli_fname, &n);
    dlclose(opencl);
    for (int i = 0; i < LIBRARIES; i++) {
        path_of(rig, program, names[i], path);
        if (access(path, F_OK) != 0)
            write_file(rig, path, library, n);
    }
    free(library);
    path_of(rig, program, "program.bc", path);
    write_file(rig, path, "bitcode", 7);
    path_of(rig, program, "last_accessed", path);
    write_file(rig, path, "", 0);
}

static void load(struct rig *rig, const char *program, int first, int n)
{
    char path[PATH_MAX];
    for (int i = first; i < first + n; i++) {
        path_of(rig, program, names[i], path);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(rig->t, handle != NULL);
        rig->handles[rig->n_handles++] = handle;
    }
}

static void unload(struct rig *rig)
{
    while (rig->n_handles)
        dlclose(rig->handles[--rig->n_handles]);
}

static void begin(struct rig *rig, struct harness *t)
{
    *rig = (struct rig){.t = t, .folder = "/tmp/moechat-seal-XXXXXX"};
    CHECK(t, mkdtemp(rig->folder) != NULL);
}

static void end(struct rig *rig)
{
    char command[128];
    unload(rig);
    snprintf(command, sizeof command, "rm -rf %s", rig->folder);
    CHECK(rig->t, system(command) == 0);
}

static unsigned count(const struct rig *rig, const char *end)
{
    DIR *dir = opendir(rig->folder);
    unsigned n = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        n += strstr(entry->d_name, end) != NULL;
    if (dir)
        closedir(dir);
    return n;
}

static bool open_seal(struct rig *rig, struct driver_seal *seal)
{
    *rig->notice = 0;
    seal_open(seal, rig->folder, key, 1, rig->notice);
    return seal->complete;
}

// A start that comes to its end.
static void start(struct rig *rig, const char *program)
{
    struct driver_seal seal;
    open_seal(rig, &seal);
    build(rig, program);
    load(rig, program, 0, LIBRARIES);
    seal_close(&seal, true);
    unload(rig);
}

// One that does not: in a process of its own, which ends in `lives` with its answer, or is killed.
static pid_t begin_elsewhere(struct rig *rig, const char *its_key, const char *program, int lives[2])
{
    char byte = 0;
    int told[2];
    CHECK(rig->t, pipe(told) == 0 && (!lives || pipe(lives) == 0));
    pid_t child = fork();
    if (child == 0) {
        struct driver_seal seal;
        char notice[SEAL_NOTICE] = "";
        seal_open(&seal, rig->folder, its_key, 1, notice);
        build(rig, program);
        if (write(told[1], &byte, 1) != 1)
            _exit(1);
        if (lives) {
            close(lives[1]);
            _exit(read(lives[0], &byte, 1) > 0);
        }
        _exit(0);
    }
    close(told[1]);
    CHECK(rig->t, read(told[0], &byte, 1) == 1);
    close(told[0]);
    if (lives)
        close(lives[0]);
    else
        waitpid(child, NULL, 0);
    return child;
}

static void a_cache_is_listed_synced_and_found_whole(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    begin(&rig, t);
    n_synced = 0;
    CHECK(t, !open_seal(&rig, &seal));
    char mark[PATH_MAX], path[PATH_MAX];
    snprintf(mark, sizeof mark, "%s/%.128s", rig.folder, seal.mark);
    CHECK(t, *seal.mark && access(mark, F_OK) == 0);
    CHECK(t, was_synced(mark) && was_synced(rig.folder)); // before anything is built
    n_synced = 0;
    build(&rig, "CD");
    load(&rig, "CD", 0, 2);
    seal_close(&seal, true);
    CHECK(t, access(mark, F_OK) != 0);
    CHECK_EQ(t, count(&rig, ".list"), 1);
    for (int i = 0; i < 2; i++) {
        path_of(&rig, "CD", names[i], path);
        CHECK(t, was_synced(path));
        for (char *slash; (slash = strrchr(path, '/')) && slash > path + strlen(rig.folder);) {
            *slash = 0;
            CHECK(t, was_synced(path));
        }
    }
    path_of(&rig, "CD", "program.bc", path);
    CHECK(t, was_synced(path));
    bool list = false;
    for (size_t i = 0; i < n_synced; i++)
        list |= strstr(synced[i], ".new") != NULL;
    CHECK(t, list && strcmp(synced[n_synced - 1], rig.folder) == 0);

    n_synced = 0;
    CHECK(t, open_seal(&rig, &seal)); // and the next start writes nothing
    CHECK_STR(t, rig.notice, "");
    CHECK_EQ(t, count(&rig, ".building"), 0);
    seal_close(&seal, true);
    CHECK_EQ(t, n_synced, 0);
    load(&rig, "CD", 2, 1); // later
    seal_renew(rig.folder, key);
    path_of(&rig, "CD", names[2], path);
    CHECK(t, was_synced(path));
    end(&rig);
}

static void what_is_torn_goes_before_it_is_loaded(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    begin(&rig, t);
    for (int how = 0; how < 5; how++) {
        start(&rig, "CD");
        const char *victim = how == 4 ? "program.bc" : "two";
        path_of(&rig, "CD", victim, path);
        size_t n;
        char *bytes = read_file(path, &n);
        if (how == 0)
            n /= 2;
        else if (how == 1)
            n = 0;
        else if (how == 2)
            memset(bytes + 4096, 0, 4096);
        else
            bytes[n++] = 0;
        write_file(&rig, path, bytes, n);
        free(bytes);
        CHECK(t, !open_seal(&rig, &seal));
        CHECK(t, strstr(rig.notice, "1 of the files that PoCL keeps of kernels") &&
                     strstr(rig.notice, rig.folder) != NULL);
        CHECK(t, !is_there(&rig, "CD", victim));
        CHECK(t, is_there(&rig, "CD", "one") && is_there(&rig, "CD", "three"));
        CHECK_EQ(t, count(&rig, ".building"), 1);
        seal_close(&seal, true);
    }
    start(&rig, "CD");
    CHECK(t, open_seal(&rig, &seal));
    seal_close(&seal, true);
    end(&rig);
}

// In a file's place something that PoCL would wait for, or fall over at each start.
static void what_is_no_file_goes(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX], inside[PATH_MAX + 8];
    begin(&rig, t);
    for (int how = 0; how < 5; how++) {
        start(&rig, "CD");
        path_of(&rig, "CD", "two", path);
        CHECK_EQ(t, unlink(path), 0);
        snprintf(inside, sizeof inside, "%s/file", path);
        if (how == 0)
            CHECK_EQ(t, mkfifo(path, 0600), 0);
        else if (how == 1)
            CHECK_EQ(t, symlink("/nonexistent", path), 0);
        else if (how == 2)
            CHECK_EQ(t, symlink("/dev/null", path), 0);
        else
            CHECK_EQ(t, mkdir(path, 0700), 0);
        if (how == 4)
            write_file(&rig, inside, "", 0);
        CHECK(t, !open_seal(&rig, &seal));
        CHECK(t, strstr(rig.notice, "1 of the files that PoCL keeps of kernels") != NULL);
        struct stat about;
        CHECK(t, lstat(path, &about) != 0 && is_there(&rig, "CD", "one") && is_there(&rig, "CD", "three"));
        remove(path); // a pipe that stays would be waited for by what writes there next
        seal_close(&seal, true);
    }
    end(&rig);
}

// Others have removed a part of it: what is built in its place need not be the same to the byte.
static void what_others_removed_is_listed_anew(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    size_t n;
    begin(&rig, t);
    start(&rig, "CD");
    path_of(&rig, "CD", "two", path);
    char *bytes = read_file(path, &n);
    CHECK_EQ(t, unlink(path), 0);
    CHECK(t, !open_seal(&rig, &seal));
    CHECK_STR(t, rig.notice, "");
    seal_close(&seal, false);
    CHECK(t, !open_seal(&rig, &seal)); // it is still to be built
    bytes[n++] = 0;
    write_file(&rig, path, bytes, n);
    free(bytes);
    build(&rig, "CD");
    load(&rig, "CD", 0, LIBRARIES);
    seal_close(&seal, true);
    unload(&rig);
    CHECK(t, open_seal(&rig, &seal));
    CHECK_STR(t, rig.notice, "");
    CHECK(t, is_there(&rig, "CD", "two"));
    seal_close(&seal, true);
    end(&rig);
}

// As if it had stood there since before the machine was started.
static void age_marks(struct rig *rig)
{
    const struct timespec old[2] = {{.tv_sec = 1100000000}, {.tv_sec = 1100000000}};
    char path[PATH_MAX];
    DIR *dir = opendir(rig->folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, ".building")) {
            snprintf(path, sizeof path, "%s/%.200s", rig->folder, entry->d_name);
            CHECK(rig->t, utimensat(AT_FDCWD, path, old, 0) == 0);
        }
    if (dir)
        closedir(dir);
}

static void what_a_dead_start_had_begun_goes(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    begin(&rig, t);
    start(&rig, "CD");
    build(&rig, "FOREIGN");
    path_of(&rig, "FOREIGN", "last_accessed", path);
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CHECK(t, utimensat(AT_FDCWD, path, old, 0) == 0);
    begin_elsewhere(&rig, other_key, "EF", NULL);
    CHECK_EQ(t, count(&rig, ".building"), 1);
    age_marks(&rig);
    CHECK(t, open_seal(&rig, &seal)); // ours is whole all the same
    CHECK(t, strstr(rig.notice, "an earlier start ended before its kernels ran: 4 files") != NULL);
    CHECK_EQ(t, count(&rig, ".building"), 0);
    seal_close(&seal, true);
    CHECK(t, !is_there(&rig, "EF", "one") && !is_there(&rig, "EF", "program.bc"));
    CHECK(t, is_there(&rig, "CD", "one") && is_there(&rig, "CD", "program.bc"));
    CHECK(t, is_there(&rig, "FOREIGN", "one"));
    // Where nothing says what it had begun, all that no list has.
    begin_elsewhere(&rig, other_key, "EF", NULL);
    path_of(&rig, "EF", "last_accessed", path);
    CHECK(t, unlink(path) == 0);
    age_marks(&rig);
    open_seal(&rig, &seal);
    seal_close(&seal, true);
    CHECK(t, !is_there(&rig, "EF", "one") && !is_there(&rig, "FOREIGN", "one") && is_there(&rig, "CD", "one"));
    end(&rig);
}

// The power has stayed: what it built is whole, but what it found may have been its end.
static void what_a_dead_start_had_built_stays(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    begin(&rig, t);
    begin_elsewhere(&rig, key, "CD", NULL);
    path_of(&rig, "CD", "two", path);
    CHECK(t, utimensat(AT_FDCWD, path, old, 0) == 0);
    open_seal(&rig, &seal);
    CHECK(t, strstr(rig.notice, ": 1 file") != NULL);
    CHECK(t, is_there(&rig, "CD", "one") && !is_there(&rig, "CD", "two") && is_there(&rig, "CD", "program.bc"));
    CHECK_EQ(t, count(&rig, ".building"), 1);
    seal_close(&seal, true);
    end(&rig);
}

// Of a program that has a list what it lacks goes, too; and so does the mark of a start that failed.
static void what_no_list_has_goes_after_a_failure(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    begin(&rig, t);
    open_seal(&rig, &seal);
    build(&rig, "CD");
    load(&rig, "CD", 0, 1);
    seal_close(&seal, true);
    seal_open(&seal, rig.folder, key, 2, rig.notice); // other kernels of the same program
    CHECK(t, !seal.complete);
    seal_close(&seal, false);
    CHECK_EQ(t, count(&rig, ".building"), 1); // "two" and the others are older
    unload(&rig);
    CHECK(t, open_seal(&rig, &seal));
    seal_close(&seal, true);
    CHECK(t, is_there(&rig, "CD", "one") && !is_there(&rig, "CD", "two") && is_there(&rig, "CD", "program.bc"));
    CHECK_EQ(t, count(&rig, ".building"), 0);
    end(&rig);
}

static void nothing_goes_while_another_builds(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    int lives[2];
    begin(&rig, t);
    pid_t child = begin_elsewhere(&rig, other_key, "EF", lives);
    begin_elsewhere(&rig, key, "CD", NULL); // and one that was killed
    open_seal(&rig, &seal);
    CHECK_STR(t, rig.notice, "");
    CHECK(t, is_there(&rig, "EF", "one") && is_there(&rig, "CD", "one"));
    seal_close(&seal, true);
    close(lives[1]);
    waitpid(child, NULL, 0);
    age_marks(&rig);
    open_seal(&rig, &seal);
    CHECK(t, !is_there(&rig, "EF", "one") && !is_there(&rig, "CD", "one"));
    seal_close(&seal, true);
    CHECK_EQ(t, count(&rig, ".building"), 0);
    end(&rig);
}

// Built late, never synced, and then the power went.
static void what_is_older_than_the_boot_needs_a_list(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    begin(&rig, t);
    open_seal(&rig, &seal);
    build(&rig, "CD");
    load(&rig, "CD", 0, 1);
    seal_close(&seal, true);
    unload(&rig);
    path_of(&rig, "CD", "two", path);
    CHECK(t, utimensat(AT_FDCWD, path, old, 0) == 0);
    path_of(&rig, "CD", "one", path);
    CHECK(t, utimensat(AT_FDCWD, path, old, 0) == 0);
    CHECK(t, open_seal(&rig, &seal));
    CHECK(t, is_there(&rig, "CD", "one") && !is_there(&rig, "CD", "two") && is_there(&rig, "CD", "three"));
    seal_close(&seal, true);
    end(&rig);
}

// Every byte of a list, and every length.
static void a_damaged_list_is_none(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    size_t n;
    begin(&rig, t);
    start(&rig, "CD");
    snprintf(path, sizeof path, "%s/moechat-%s.list", rig.folder, key);
    char *bytes = read_file(path, &n);
    CHECK(t, n > 1000);
    for (size_t i = 0; i < 2 * n; i += i < 40 ? 1 : 7) {
        if (i < n)
            bytes[i] ^= 0x10;
        write_file(&rig, path, bytes, i < n ? n : i - n);
        if (i < n)
            bytes[i] ^= 0x10;
        CHECK(t, !open_seal(&rig, &seal));
        CHECK(t, is_there(&rig, "CD", "one"));
        seal_close(&seal, true);
    }
    write_file(&rig, path, bytes, n);
    CHECK(t, open_seal(&rig, &seal));
    seal_close(&seal, true);
    free(bytes);
    end(&rig);
}

// A full disk: what has run is not taken for what a dead start left.
static void a_list_that_cannot_be_written_costs_nothing(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    begin(&rig, t);
    snprintf(path, sizeof path, "%s/moechat-%s.list/in the way", rig.folder, key);
    make_folders(path);
    start(&rig, "CD");
    CHECK_EQ(t, count(&rig, ".building"), 0);
    CHECK_EQ(t, count(&rig, ".new"), 0);
    CHECK(t, !open_seal(&rig, &seal));
    CHECK_STR(t, rig.notice, "");
    CHECK(t, is_there(&rig, "CD", "one"));
    seal_close(&seal, true);
    end(&rig);
}

// A list that a process was killed in the middle of writing goes at the next start, but not while another looks.
static void half_written_lists_are_removed(struct harness *t)
{
    struct rig rig;
    struct driver_seal seal;
    char path[PATH_MAX];
    begin(&rig, t);
    start(&rig, "CD");
    snprintf(path, sizeof path, "%s/moechat-%s.999999.new", rig.folder, other_key);
    write_file(&rig, path, "half", 4);
    int other = open(rig.folder, O_RDONLY | O_DIRECTORY);
    CHECK(t, other >= 0 && flock(other, LOCK_EX) == 0);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK(t, open_seal(&rig, &seal));
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK(t, to.tv_sec - from.tv_sec >= 1); // it was waited for
    CHECK_EQ(t, count(&rig, ".new"), 1);
    close(other);
    seal_close(&seal, true);
    CHECK(t, open_seal(&rig, &seal));
    seal_close(&seal, true);
    CHECK_EQ(t, count(&rig, ".new"), 0);
    end(&rig);
}

static void without_a_folder_there_is_no_seal(struct harness *t)
{
    struct driver_seal seal;
    char notice[SEAL_NOTICE] = "";
    seal_open(&seal, "/nonexistent/kcache", key, 1, notice);
    CHECK(t, !*seal.key && seal.within < 0 && !*notice);
    seal_close(&seal, true);
    seal_renew("/nonexistent/kcache", key);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_cache_is_listed_synced_and_found_whole),
        TEST(what_is_torn_goes_before_it_is_loaded),
        TEST(what_is_no_file_goes),
        TEST(what_a_dead_start_had_begun_goes),
        TEST(what_a_dead_start_had_built_stays),
        TEST(what_no_list_has_goes_after_a_failure),
        TEST(nothing_goes_while_another_builds),
        TEST(what_is_older_than_the_boot_needs_a_list),
        TEST(a_damaged_list_is_none),
        TEST(without_a_folder_there_is_no_seal),
        TEST(a_list_that_cannot_be_written_costs_nothing),
        TEST(what_others_removed_is_listed_anew),
        TEST(half_written_lists_are_removed),
    };
    return HARNESS_RUN(tests, argc, argv);
}
