// SPDX-License-Identifier: GPL-3.0-or-later
// The unit tests' frame. A test program lists its tests in a table and calls harness_run:
//
//     static void adds(struct harness *t) { CHECK(t, 1 + 1 == 2); CHECK_EQ(t, 1 + 1, 2); }
//     int main(int argc, char **argv) { static const struct harness_test tests[] = {TEST(adds)};
//                                       return HARNESS_RUN(tests, argc, argv); }
//
// Arguments choose tests by part of their name. Each failing check prints its place and text; a test fails when any of
// its checks does, and when it leaves more files open than it found. The program prints "PASS name" or "FAIL name" a
// test, which tests/run.sh counts.
#ifndef MOECHAT_HARNESS_H
#define MOECHAT_HARNESS_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct harness {
    int checks;
    int failures;
};

struct harness_test {
    const char *name;
    void (*run)(struct harness *t);
};

#define TEST(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }

#define CHECK(t, condition) harness_check(t, (condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(t, got, want)                                                                                         \
    harness_equal(t, (long long)(got), (long long)(want), __FILE__, __LINE__, #got " == " #want)
#define CHECK_STR(t, got, want) harness_string(t, (got), (want), __FILE__, __LINE__, #got)

#define HARNESS_RUN(tests, argc, argv) harness_run(tests, sizeof(tests) / sizeof((tests)[0]), argc, argv)

static inline int harness_check(struct harness *t, int ok, const char *file, int line, const char *text)
{
    t->checks++;
    if (!ok) {
        t->failures++;
        printf("%s:%d: not so: %s\n", file, line, text);
    }
    return ok;
}

static inline int harness_equal(struct harness *t, long long got, long long want, const char *file, int line,
                                const char *text)
{
    int ok = harness_check(t, got == want, file, line, text);
    if (!ok)
        printf("    got %lld, want %lld\n", got, want);
    return ok;
}

static inline int harness_string(struct harness *t, const char *got, const char *want, const char *file, int line,
                                 const char *text)
{
    int ok = harness_check(t, got && strcmp(got, want) == 0, file, line, text);
    if (!ok)
        printf("    got  \"%s\"\n    want \"%s\"\n", got ? got : "(null)", want);
    return ok;
}

// Of the lowest, where those that are opened go.
static inline int harness_open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static inline int harness_run(const struct harness_test *tests, size_t count, int argc, char **argv)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++)
            wanted |= strstr(tests[i].name, argv[a]) != NULL;
        if (!wanted)
            continue;
        struct harness t = {0, 0};
        int files = harness_open_files();
        tests[i].run(&t);
        int left = harness_open_files() - files;
        int ok = t.failures == 0 && t.checks > 0 && left <= 0;
        if (left > 0)
            printf("%s left %d files open\n", tests[i].name, left);
        if (t.checks == 0)
            printf("%s checked nothing\n", tests[i].name);
        printf("%s %s\n", ok ? "PASS" : "FAIL", tests[i].name);
        fflush(stdout);
        failed += !ok;
    }
    return failed ? 1 : 0;
}

#endif
