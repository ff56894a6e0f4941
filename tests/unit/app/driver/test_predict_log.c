// SPDX-License-Identifier: GPL-3.0-or-later
// The log of predictions as those see it who follow it, and what comes after a kill.
#include "tests/harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/driver/predict_log.h"

static char folder[] = "/tmp/moechat-predict-XXXXXX";

// How many lines a file has; -1: its last isn't whole.
static int lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0, last = '\n';
    for (int c; file && (c = fgetc(file)) != EOF; last = c)
        lines += c == '\n';
    if (file)
        fclose(file);
    return last == '\n' ? lines : -1;
}

static void lines_are_whole_at_any_time(struct harness *t)
{
    char path[200];
    struct moe_err err;
    struct predict_log log;
    struct moe_prediction largest[MOE_PREDICTORS];
    snprintf(path, sizeof path, "%s/log", folder);
    for (int i = 0; i < MOE_PREDICTORS; i++)
        largest[i] = (struct moe_prediction){
            .predicted = UINT32_MAX, .right = 1, .useful = UINT32_MAX, .late = UINT32_MAX, .wasted_bytes = UINT64_MAX};
    if (!CHECK_EQ(t, predict_log_open(&log, path, &err), 0))
        return;
    CHECK(t, fcntl(fileno(log.out), F_GETFD) & FD_CLOEXEC);
    for (uint32_t token = 0; token < 40; token++) {
        predict_log_take(&log, token, largest);
        if (!CHECK_EQ(t, lines_of(path), (int)token + 1))
            break;
    }
    CHECK(t, predict_log_close(&log));
    CHECK_EQ(t, lines_of(path), 41);
}

// Where nothing was decoded its only line is that of the sums.
static void any_log_is_made_anew(struct harness *t)
{
    char path[200];
    struct moe_err err;
    struct predict_log log;
    static const struct moe_prediction none[MOE_PREDICTORS];
    snprintf(path, sizeof path, "%s/again", folder);
    for (int round = 0; round < 6; round++) {
        if (!CHECK_EQ(t, predict_log_open(&log, path, &err), 0))
            return;
        for (int token = 0; token < round / 2; token++)
            predict_log_take(&log, 7, none);
        CHECK(t, predict_log_close(&log));
        CHECK_EQ(t, lines_of(path), round / 2 + 1);
    }
}

static void what_is_no_log_stays(struct harness *t)
{
    char path[200];
    struct moe_err err;
    struct predict_log log;
    static const char *const others[] = {"Dear Ada,\n", "{\"tokens\":[1,2]}\n", "{\"tokens\":0}\n", "{\n"};
    snprintf(path, sizeof path, "%s/letter", folder);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        FILE *letter = fopen(path, "w");
        CHECK(t, letter && fputs(others[i], letter) >= 0 && fclose(letter) == 0);
        CHECK(t, predict_log_open(&log, path, &err) != 0 && strstr(err.text, "no log of predictions"));
        CHECK_EQ(t, lines_of(path), 1);
        CHECK(t, predict_log_close(&log));
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(lines_are_whole_at_any_time), TEST(any_log_is_made_anew),
                                                TEST(what_is_no_log_stays)};
    char command[100];
    if (!mkdtemp(folder))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) ? 2 : code;
}
