// SPDX-License-Identifier: GPL-3.0-or-later
// Prompts over a disk that takes its time: what is said of the time left, and how soon a cancel is heard. The demo
// model; reads sleep, so that they dominate whatever else the machine does.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"
#include "engine/moe.h"

enum { CHUNK = 32, MOST_SAID = 1 << 16 };

static const char *const devices[] = {"ref", "cpu"};

struct disk {
    double ns_a_byte;
};

struct said {
    double at, left; // seconds
};

struct prompt {
    struct disk disk;
    moe_model *model;
    moe_session *session;
    int32_t ids[1024];
    double began;
    size_t n_said;
    struct said said[MOST_SAID];
    // A cancel, so long after the beginning.
    double cancel_after, cancelled;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_s(double seconds)
{
    struct timespec rest = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&rest, &rest))
        ;
}

static ptrdiff_t slow_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    const struct disk *disk = context;
    ptrdiff_t got = pread(fd, target, length, (off_t)offset);
    if (got > 0)
        sleep_s((double)got * disk->ns_a_byte / 1e9);
    return got;
}

static void see(void *context, const struct moe_progress *progress)
{
    struct prompt *prompt = context;
    if (prompt->n_said < MOST_SAID)
        prompt->said[prompt->n_said++] = (struct said){now_s() - prompt->began, progress->seconds_left};
}

struct setup {
    const char *device;
    uint64_t experts; // that have a slot, at least; UINT64_MAX: all
    double read_s;    // of an expert
    unsigned readers;
    uint32_t group; // tokens
};

static struct prompt *open_prompt(struct harness *t, const struct setup *setup)
{
    struct prompt *prompt = calloc(1, sizeof *prompt);
    struct moe_description *about = calloc(1, sizeof *about);
    struct moe_err err = {0};
    bool fine = prompt && about && !moe_inspect("models/demo", about, &err);
    if (fine) {
        prompt->disk.ns_a_byte = setup->read_s / (double)about->expert_bytes * 1e9;
        struct moe_model_options options = {
            .device = setup->device,
            .expert_cache_bytes = setup->experts == UINT64_MAX ? MOE_CACHE_ALL : setup->experts * about->expert_bytes,
            .readers = setup->readers,
            .io = MOE_IO_BUFFERED,
            .read = slow_read,
            .read_context = &prompt->disk,
        };
        struct moe_session_options session = {
            .max_context = 1024, .prefill_chunk = CHUNK, .prefill_group = setup->group};
        fine = !moe_model_open("models/demo", &options, &prompt->model, &err) &&
               !moe_session_open(prompt->model, &session, &prompt->session, &err);
    }
    free(about);
    if (!CHECK(t, fine)) {
        printf("    %s\n", err.text);
        free(prompt);
        return NULL;
    }
    for (int i = 0; i < 1024; i++)
        prompt->ids[i] = (i * 7919 + i / 7 * 31) % (int)moe_model_describe(prompt->model)->vocab_size;
    return prompt;
}

static void close_prompt(struct prompt *prompt)
{
    moe_session_close(prompt->session);
    moe_model_close(prompt->model);
    free(prompt);
}

static int read_prompt(struct prompt *prompt, uint32_t tokens)
{
    struct moe_err err;
    struct moe_feed feed = {.ids = prompt->ids,
                            .count = tokens,
                            .position = moe_session_length(prompt->session),
                            .progress = see,
                            .context = prompt};
    prompt->n_said = 0;
    prompt->began = now_s();
    return moe_session_prefill(prompt->session, &feed, &err);
}

// Largest error of the whole time, from a tenth to 95 % of it.
static double worst_error(const struct prompt *prompt, double whole)
{
    double worst = 0;
    for (size_t i = 0; i < prompt->n_said; i++) {
        const struct said *said = &prompt->said[i];
        if (said->at >= 0.1 * whole && said->at <= 0.95 * whole)
            worst = fmax(worst, fabs((said->at + said->left) / whole - 1));
    }
    return worst;
}

// Two prompts: cold, then with what the first left in the cache. The largest error of both.
static double try_setup(struct harness *t, const struct setup *setup)
{
    struct prompt *prompt = open_prompt(t, setup);
    double worst = prompt ? 0 : 1;
    for (int run = 0; run < 2 && prompt; run++) {
        CHECK_EQ(t, read_prompt(prompt, 128), 0);
        worst = fmax(worst, worst_error(prompt, now_s() - prompt->began));
        CHECK(t, prompt->n_said > 50);
    }
    if (prompt)
        close_prompt(prompt);
    return worst;
}

// One group and several; one reader and four. A machine with other things to do stands still now and then, which nobody
// foresees; what is wrong in itself is wrong each time.
static void the_time_left_is_right(struct harness *t)
{
    static const struct setup setups[] = {
        {"cpu", 40, 0.010, 1, 128}, {"cpu", 40, 0.006, 1, 64}, {"cpu", 96, 0.010, 1, 128}, {"cpu", 40, 0.040, 4, 128}};
    enum { TRIES = 5 };
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        double worst = 1;
        for (int try = 0; try < TRIES && worst > 0.2; try++)
            worst = try_setup(t, &setups[i]);
        if (!CHECK(t, worst <= 0.2))
            printf("    setup %zu: off by %.1f %% at best\n", i, 100 * worst);
    }
}

static void *cancel(void *argument)
{
    struct prompt *prompt = argument;
    sleep_s(prompt->cancel_after);
    prompt->cancelled = now_s();
    moe_session_cancel(prompt->session);
    return NULL;
}

// Of a prompt that is cancelled after so many seconds: how many later it was heard.
static double try_cancel(struct harness *t, const struct setup *setup, double after)
{
    struct prompt *prompt = open_prompt(t, setup);
    pthread_t thread;
    if (!prompt)
        return HUGE_VAL;
    prompt->cancel_after = after;
    if (!CHECK_EQ(t, pthread_create(&thread, NULL, cancel, prompt), 0)) {
        close_prompt(prompt);
        return HUGE_VAL;
    }
    CHECK_EQ(t, read_prompt(prompt, 128), MOE_CANCELLED);
    double heard = now_s();
    pthread_join(thread, NULL);
    double took = heard - prompt->cancelled;
    CHECK_EQ(t, moe_session_length(prompt->session), 0); // nothing of a group that is not done
    close_prompt(prompt);
    return took;
}

// Wherever it comes: a cancel is heard before two reads could be over, and the groups that were done stay.
static void a_cancel_is_heard_within_a_read(struct harness *t)
{
    enum { GROUP = 64, TRIES = 5 };
    const double read_s = 0.15;
    static const double moments[] = {0.05, 0.5, 1.3};
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++)
        for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
            struct setup setup = {devices[d], 40, read_s, 4, GROUP};
            double took = HUGE_VAL;
            for (int try = 0; try < TRIES && took >= 2 * read_s; try++)
                took = fmin(took, try_cancel(t, &setup, moments[i]));
            if (!CHECK(t, took < 2 * read_s))
                printf("    %s: %.3f s after it came at best, a read takes %.3f\n", devices[d], took, read_s);
        }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(the_time_left_is_right), TEST(a_cancel_is_heard_within_a_read)};
    return HARNESS_RUN(tests, argc, argv);
}
