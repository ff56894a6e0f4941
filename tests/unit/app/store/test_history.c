// SPDX-License-Identifier: GPL-3.0-or-later
// The input history: what is kept, hostile files, programs side by side.
#include "app/store/history.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"

static char folder[] = "/tmp/moechat-history-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    return path;
}

static void write_file(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    files_write(fd, text, length);
    close(fd);
}

static void there_and_back(struct harness *t)
{
    static const char *const texts[] = {"one",
                                        "two\nlines\n",
                                        "\\n is not a newline\\",
                                        "tab\tand \r\n",
                                        " x",
                                        "\xE6\x97\xA5\xE6\x9C\xAC",
                                        "#1700000000",
                                        "a\x1B[31mred\a",
                                        "caf\xE9 \xFF\x7F",
                                        "a\xC2\x9B",
                                        "\xE2\x82",
                                        "\\x41 \\"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct bytes line = {0}, text = {0};
        CHECK(t, history_encode(texts[i], strlen(texts[i]), &line));
        CHECK(t, memchr(line.data, '\n', line.length) == line.data + line.length - 1);
        CHECK(t, history_decode(line.data, line.length - 1, &text));
        CHECK_STR(t, text.data, texts[i]);
        bytes_release(&line);
        bytes_release(&text);
    }
    struct bytes line = {0};
    CHECK(t, history_encode("caf\xE9\x1B\xC3\xA9", 7, &line));
    CHECK_STR(t, line.data, "caf\\xe9\\x1b\xC3\xA9\n"); // nothing in the file acts on a terminal
    bytes_release(&line);
}

static void what_is_not_kept(struct harness *t)
{
    static const char *const bad[] = {"", " \n\t", "\x1B"};
    static const char *const bad_lines[] = {"",    " ",     "a\\",   "a\\x",   "a\tb",   "a\x1B",
                                            "\\n", "\xC3(", "a\\x1", "a\\x1g", "a\\x1B", "a\\x00"};
    struct bytes out = {0};
    bytes_append(&out, "x", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(t, !history_encode(bad[i], strlen(bad[i]), &out));
    for (size_t i = 0; i < sizeof bad_lines / sizeof bad_lines[0]; i++)
        CHECK(t, !history_decode(bad_lines[i], strlen(bad_lines[i]), &out));
    CHECK(t, !history_encode("a\0b", 3, &out));
    CHECK(t, !history_refusal(4) && !history_refusal(0));
    char *long_one = calloc(1, HISTORY_ENTRY_LIMIT + 2);
    memset(long_one, 'x', HISTORY_ENTRY_LIMIT + 1);
    CHECK(t, !history_refusal(HISTORY_ENTRY_LIMIT));
    CHECK_STR(t, history_refusal(HISTORY_ENTRY_LIMIT + 1), "it is longer than 4 MiB");
    free(long_one);
    CHECK_STR(t, out.data, "x");
    bytes_release(&out);
}

static void adds_and_loads(struct harness *t)
{
    const char *path = path_of("history");
    struct history a = {0}, b = {0};
    struct stat status;
    CHECK_EQ(t, history_load(&a, path), 0);
    CHECK_EQ(t, a.count, 0);
    CHECK_EQ(t, history_add(&a, path, "one", 3), 0);
    CHECK_EQ(t, history_add(&a, path, "two\nlines", 9), 0);
    CHECK_EQ(t, history_add(&a, path, "two\nlines", 9), 0);
    CHECK_EQ(t, history_add(&a, path, "three", 5), 0);
    CHECK_EQ(t, history_add(&a, path, "one", 3), 0);
    CHECK_EQ(t, history_add(&a, path, "  ", 2), 0);
    CHECK(t, stat(path, &status) == 0 && (status.st_mode & 0777) == 0600 && status.st_size == 4 + 11 + 6 + 4);
    CHECK_EQ(t, history_load(&b, path), 0);
    CHECK(t, a.count == 3 && b.count == 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_STR(t, b.entries[i], a.entries[i]);
    CHECK_STR(t, a.entries[2], "one");
    history_release(&a);
    CHECK_EQ(t, history_add(&a, NULL, "memory alone", 12), 0);
    CHECK_EQ(t, a.count, 1);
    history_release(&a);
    history_release(&b);
}

static void hostile_files(struct harness *t)
{
    const char *path = path_of("hostile");
    static const char text[] = "good\n\x1B]0;x\x07\n\\q\n\0zero\nalso good\n\xFF\n\nlast";
    struct history history = {0};
    write_file(path, text, sizeof text - 1);
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK_EQ(t, history.count, 3);
    CHECK_STR(t, history.entries[1], "also good");
    CHECK_STR(t, history.entries[2], "last");
    CHECK_EQ(t, history_add(&history, path, "next", 4), 0); // after a line that was cut off
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK(t, history.count == 4 && strcmp(history.entries[3], "next") == 0);
    CHECK(t, history_load(&history, folder) != 0);
    CHECK_EQ(t, history_load(&history, "/dev/null"), 0);
    CHECK_EQ(t, history_add(&history, "/dev/full", "x", 1), 28); // ENOSPC
    history_release(&history);
}

// Pastes don't push out what is short, and the file does not grow by them for ever.
static void few_long_ones_are_kept(struct harness *t)
{
    const char *path = path_of("pastes");
    enum { LONG = HISTORY_LONG + 2 };
    char *line = malloc(LONG);
    struct history history = {0};
    struct stat status;
    memset(line, 'x', LONG);
    line[LONG - 1] = '\n';
    write_file(path, "short\n", 6);
    for (int i = 0; i < 2 * HISTORY_LONG_ONES + 1; i++) {
        line[0] = (char)('a' + i);
        write_file(path, line, LONG);
    }
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK_EQ(t, history.count, 1 + HISTORY_LONG_ONES);
    CHECK_STR(t, history.entries[0], "short");
    CHECK(t, history.count > 1 && history.entries[history.count - 1][0] == 'a' + 2 * HISTORY_LONG_ONES);
    CHECK(t, stat(path, &status) == 0 && status.st_size == 6 + HISTORY_LONG_ONES * LONG);
    line[0] = 'z';
    write_file(path, line, LONG); // twice as many may stand there
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK(t, stat(path, &status) == 0 && status.st_size == 6 + (HISTORY_LONG_ONES + 1) * LONG);
    CHECK(t, history.count == 1 + HISTORY_LONG_ONES && history.entries[HISTORY_LONG_ONES][0] == 'z');
    history_release(&history);
    free(line);
}

static void is_written_anew(struct harness *t)
{
    const char *path = path_of("long");
    char line[64];
    struct history history = {0};
    struct stat status;
    for (int i = 0; i < 2 * HISTORY_ENTRIES + 1; i++)
        write_file(path, line, (size_t)snprintf(line, sizeof line, "entry %d\n", i));
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK_EQ(t, history.count, HISTORY_ENTRIES);
    CHECK_STR(t, history.entries[HISTORY_ENTRIES - 1], "entry 2000");
    CHECK(t, stat(path, &status) == 0 && status.st_size == 11 * HISTORY_ENTRIES && !(status.st_mode & 077));
    CHECK_EQ(t, history_add(&history, path, "one more", 8), 0);
    CHECK_EQ(t, history.count, HISTORY_ENTRIES);
    CHECK_STR(t, history.entries[0], "entry 1002");
    history_release(&history);
}

// Several programs at once: no entry is lost, though the file is written anew meanwhile.
static void side_by_side(struct harness *t)
{
    enum { PROGRAMS = 4, EACH = 200 };
    const char *path = path_of("shared");
    char text[32];
    for (int i = 0; i < 2 * HISTORY_ENTRIES - 200; i++)
        write_file(path, "same\n", 5);
    for (int p = 0; p < PROGRAMS; p++) {
        if (fork() != 0)
            continue;
        struct history own = {0};
        int failed = 0;
        for (int i = 0; i < EACH; i++) {
            failed |= history_add(&own, path, text, (size_t)snprintf(text, sizeof text, "%d of %d", i, p));
            failed |= i % 20 == 0 ? history_load(&own, path) : 0;
        }
        _exit(failed);
    }
    for (int p = 0, status; p < PROGRAMS; p++)
        CHECK(t, wait(&status) > 0 && status == 0);
    struct history all = {0};
    CHECK_EQ(t, history_load(&all, path), 0);
    CHECK_EQ(t, all.count, PROGRAMS * EACH + 1);
    history_release(&all);
}

// An editor or a suspended chat that holds the file stops nobody for long, and the second time not at all.
static void a_lock_that_stays_is_not_waited_for(struct harness *t)
{
    const char *path = path_of("held");
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct history history = {0};
    int ready[2];
    char byte;
    CHECK_EQ(t, history_add(&history, path, "before", 6), 0);
    CHECK_EQ(t, pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(path, O_RDWR);
        if (fcntl(fd, F_SETLK, &lock) == 0 && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    CHECK_EQ(t, read(ready[0], &byte, 1), 1);
    time_t began = time(NULL);
    CHECK_EQ(t, history_add(&history, path, "held", 4), EAGAIN);
    CHECK(t, time(NULL) - began >= 1); // others hold it for moments
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK_EQ(t, history_add(&history, path, "again", 5), EAGAIN);
    CHECK_EQ(t, history_load(&history, path), EAGAIN);
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK(t, to.tv_sec - from.tv_sec < 2);
    CHECK_STR(t, history_reason(EAGAIN), "another process holds a lock on it");
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK_EQ(t, history.count, 1);
    CHECK_EQ(t, history_add(&history, path, "free", 4), 0);
    CHECK(t, !history.held);
    close(ready[0]);
    close(ready[1]);
    history_release(&history);
}

// What did not fit on the disk leaves nothing behind that the next start would take for an entry.
static void a_full_disk_leaves_no_half(struct harness *t)
{
    const char *path = path_of("full");
    struct rlimit before, short_of;
    struct history history = {0};
    CHECK_EQ(t, history_add(&history, path, "before", 6), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    short_of = before;
    short_of.rlim_cur = 12; // 7 are there
    setrlimit(RLIMIT_FSIZE, &short_of);
    CHECK_EQ(t, history_add(&history, path, "does not fit", 12), EFBIG);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK_EQ(t, history.count, 1);
    CHECK_EQ(t, history_add(&history, path, "behind", 6), 0);
    CHECK_EQ(t, history_load(&history, path), 0);
    CHECK_EQ(t, history.count, 2);
    CHECK_STR(t, history.entries[0], "before");
    CHECK_STR(t, history.entries[1], "behind");
    history_release(&history);
}

static void has_a_place(struct harness *t)
{
    char want[128];
    snprintf(want, sizeof want, "%s/state", folder);
    setenv("XDG_STATE_HOME", want, 1);
    strcat(want, "/moechat/history");
    char *path = history_path();
    CHECK_STR(t, path, want);
    free(path);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", folder, 1);
    snprintf(want, sizeof want, "%s/.local/state/moechat/history", folder);
    path = history_path();
    CHECK_STR(t, path, want);
    free(path);
    unsetenv("HOME");
    CHECK(t, history_path() == NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(there_and_back),
        TEST(what_is_not_kept),
        TEST(adds_and_loads),
        TEST(hostile_files),
        TEST(is_written_anew),
        TEST(few_long_ones_are_kept),
        TEST(side_by_side),
        TEST(has_a_place),
        TEST(a_lock_that_stays_is_not_waited_for),
        TEST(a_full_disk_leaves_no_half),
    };
    if (!mkdtemp(folder))
        return 1;
    int code = HARNESS_RUN(tests, argc, argv);
    char remove[64];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) == 0 ? code : 1;
}
