// SPDX-License-Identifier: GPL-3.0-or-later
// How right a prompt's time left is: reads prompts and compares what was said on the way with what it was.
//
//     bench_pace [MODEL [TOKENS [BUDGET [DEVICE [GROUP]]]]]      BUDGET: of the expert cache in MB, 0: all
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/moe.h"

enum { MAX_SAID = 1 << 20, PROMPTS = 2 };

struct said {
    double at, left; // seconds
};

struct seen {
    uint64_t began_ns;
    size_t n;
    struct said *said;
};

static void see(void *context, const struct moe_progress *progress)
{
    struct seen *seen = context;
    if (seen->n < MAX_SAID)
        seen->said[seen->n++] = (struct said){(double)(clock_ns() - seen->began_ns) / 1e9, progress->seconds_left};
}

// The largest error of the whole between two shares of the time.
static double worst(const struct seen *seen, double whole, double from, double to)
{
    double error = 0;
    for (size_t i = 0; i < seen->n; i++) {
        double at = seen->said[i].at / whole;
        if (at >= from && at <= to)
            error = fmax(error, fabs((seen->said[i].at + seen->said[i].left) / whole - 1));
    }
    return error;
}

static int fail(const struct moe_err *err)
{
    printf("%s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    const char *model_path = argc > 1 ? argv[1] : "models/demo";
    uint32_t tokens = argc > 2 ? (uint32_t)atoi(argv[2]) : 2000;
    struct moe_model_options options = {.device = argc > 4 && *argv[4] ? argv[4] : NULL,
                                        .expert_cache_bytes = MOE_CACHE_ALL};
    if (argc > 3 && atoi(argv[3]))
        options.expert_cache_bytes = (uint64_t)atoi(argv[3]) << 20;
    struct moe_session_options session_options = {.max_context = PROMPTS * tokens,
                                                  .prefill_group = argc > 5 ? (uint32_t)atoi(argv[5]) : 0};
    moe_model *model;
    moe_session *session;
    struct moe_err err;
    struct seen seen = {.said = calloc(MAX_SAID, sizeof *seen.said)};
    int32_t *ids = calloc(tokens, sizeof *ids);
    if (!ids || !seen.said || moe_model_open(model_path, &options, &model, &err))
        return fail(&err);
    if (moe_session_open(model, &session_options, &session, &err))
        return fail(&err);
    uint32_t vocab = moe_model_describe(model)->vocab_size;
    for (uint32_t i = 0; i < tokens; i++)
        ids[i] = (int32_t)((i * 7919U + i / 7 * 104729U) % vocab);
    printf("%s, %u tokens: worst error of the whole time from 10 to 95 %%, from 20 %%, from 50 %%\n", model_path,
           tokens);
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        struct moe_feed feed = {
            .ids = ids, .count = tokens, .position = moe_session_length(session), .progress = see, .context = &seen};
        struct moe_stats before = moe_session_stats(session);
        seen.n = 0;
        seen.began_ns = clock_ns();
        if (moe_session_prefill(session, &feed, &err))
            return fail(&err);
        double whole = (double)(clock_ns() - seen.began_ns) / 1e9;
        struct moe_stats now = moe_session_stats(session);
        printf("  prompt %d: %6.1f s, %6.2f GB read, waited %.1f s: %5.1f %%  %5.1f %%  %5.1f %%\n", prompt + 1, whole,
               (double)(now.bytes_read - before.bytes_read) / 1e9, (double)(now.wait_ns - before.wait_ns) / 1e9,
               100 * worst(&seen, whole, 0.1, 0.95), 100 * worst(&seen, whole, 0.2, 0.95),
               100 * worst(&seen, whole, 0.5, 0.95));
        fflush(stdout);
    }
    moe_session_close(session);
    moe_model_close(model);
    free(ids);
    free(seen.said);
    return 0;
}
