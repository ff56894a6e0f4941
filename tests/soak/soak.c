// SPDX-License-Identifier: GPL-3.0-or-later
// A long conversation full of interruptions: answers are cancelled at any time, turns undone, everything saved, closed
// and opened again with another budget, guesser, number of readers and kind of cache. In the end a replay of what is
// left, without any of that, must say the same, and memory must be what it was.
//
//     soak MODEL [--device D] [--seconds N] [--seed N]
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "moe.h"

enum {
    CONTEXT = 1024, // tokens, or what the model takes
    MAX_PROMPT = 60,
    MAX_ANSWER = 40,
    MAX_TURNS = 512,
    WARM_UP = 30
};

struct turn {
    uint32_t position;
    uint32_t n_prompt, n_answer;
    int32_t prompt[MAX_PROMPT], answer[MAX_ANSWER];
    uint64_t seed;
};

struct soak {
    const char *directory, *device;
    uint64_t random;
    moe_model *model;
    moe_session *session;
    struct turn turns[MAX_TURNS];
    uint32_t n_turns;
    uint32_t context;
    uint64_t said, cancelled, undone, reopened;
    uint64_t smallest, largest; // budgets
    struct moe_err err;
};

static void fail(const struct soak *soak, const char *what)
{
    printf("%s: %s\nFAIL soak\n", what, soak->err.text);
    exit(1);
}

static uint64_t below(struct soak *soak, uint64_t limit)
{
    soak->random = soak->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (soak->random >> 33) % limit;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void open_all(struct soak *soak, uint64_t budget, bool plain)
{
    struct moe_model_options options = {.device = soak->device, .expert_cache_bytes = budget};
    struct moe_session_options session = {.max_context = soak->context, .prefetch = MOE_PREFETCH_OFF};
    if (!plain) {
        options.readers = (unsigned)below(soak, 17);
        options.io = below(soak, 2) ? MOE_IO_BUFFERED : MOE_IO_DIRECT;
        options.force_two_tiers = below(soak, 3) == 0;
        options.host_cache_bytes = options.force_two_tiers && below(soak, 2) ? MOE_CACHE_ALL : MOE_CACHE_NONE;
        session.prefetch = (enum moe_prefetch)below(soak, 5);
        session.prefill_chunk = (uint32_t)below(soak, 40) + 2;
        session.prefill_group = (uint32_t)below(soak, 100) + 1;
    }
    if (moe_model_open(soak->directory, &options, &soak->model, &soak->err) ||
        moe_session_open(soak->model, &session, &soak->session, &soak->err))
        fail(soak, "opening");
}

static void close_all(struct soak *soak)
{
    moe_session_close(soak->session);
    moe_model_close(soak->model);
}

// Cancels after a while.
struct interrupter {
    moe_session *session;
    long after_us;
    atomic_bool over;
};

static void *interrupt(void *argument)
{
    struct interrupter *interrupter = argument;
    for (long waited = 0; waited < interrupter->after_us && !atomic_load(&interrupter->over); waited += 100)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    if (!atomic_load(&interrupter->over))
        moe_session_cancel(interrupter->session);
    return NULL;
}

// Prefills the prompt and samples the answer, at most `limit` tokens. False: cancelled.
static bool answer(struct soak *soak, struct turn *turn, uint32_t limit)
{
    struct moe_sampling sampling = {.temperature = 0.8F, .top_p = 0.95F, .repetition_penalty = 1, .seed = turn->seed};
    uint32_t vocab = moe_model_describe(soak->model)->vocab_size;
    struct moe_feed feed = {.ids = turn->prompt, .count = turn->n_prompt, .position = turn->position};
    int code = moe_session_prefill(soak->session, &feed, &soak->err);
    turn->n_answer = 0;
    moe_sampler *sampler = moe_sampler_new(&sampling, vocab);
    while (sampler && !code && turn->n_answer < limit) {
        const float *logits = moe_session_logits(soak->session, &soak->err);
        int32_t id = logits ? moe_sample(sampler, logits, NULL, 0) : -1;
        if (id < 0)
            fail(soak, "sampling");
        code = moe_session_decode(soak->session, id, &soak->err);
        if (!code)
            turn->answer[turn->n_answer++] = id;
    }
    moe_sampler_free(sampler);
    if (code && code != MOE_CANCELLED)
        fail(soak, "answering");
    return !code;
}

static void say(struct soak *soak)
{
    struct turn *turn = &soak->turns[soak->n_turns];
    uint32_t vocab = moe_model_describe(soak->model)->vocab_size;
    *turn = (struct turn){.position = moe_session_length(soak->session),
                          .n_prompt = (uint32_t)below(soak, MAX_PROMPT) + 1,
                          .seed = below(soak, 1000000)};
    if (turn->position + MAX_PROMPT + MAX_ANSWER > soak->context || soak->n_turns + 1 == MAX_TURNS)
        return;
    for (uint32_t i = 0; i < turn->n_prompt; i++)
        turn->prompt[i] = (int32_t)below(soak, vocab);
    bool interrupted = below(soak, 3) == 0;
    struct interrupter interrupter = {.session = soak->session, .after_us = (long)below(soak, 100000)};
    pthread_t thread;
    interrupted = interrupted && pthread_create(&thread, NULL, interrupt, &interrupter) == 0;
    bool whole = answer(soak, turn, (uint32_t)below(soak, MAX_ANSWER) + 1);
    if (interrupted) {
        atomic_store(&interrupter.over, true);
        pthread_join(thread, NULL);
        moe_session_resume(soak->session);
    }
    soak->said++;
    soak->cancelled += !whole;
    // A prompt that was not read to its end is no turn.
    if (moe_session_length(soak->session) >= turn->position + turn->n_prompt)
        soak->n_turns++;
    else if (moe_session_truncate(soak->session, turn->position, &soak->err))
        fail(soak, "cutting");
}

static void undo(struct soak *soak)
{
    if (soak->n_turns == 0)
        return;
    uint32_t left = soak->n_turns - 1 - (uint32_t)below(soak, soak->n_turns < 4 ? soak->n_turns : 4);
    if (moe_session_truncate(soak->session, soak->turns[left].position, &soak->err))
        fail(soak, "undoing");
    soak->n_turns = left;
    soak->undone++;
}

static void save_and_reopen(struct soak *soak)
{
    char path[] = "/tmp/moechat-soak-XXXXXX";
    struct moe_record record = {0};
    struct moe_record_io io = {.fd = mkstemp(path), .path = path};
    uint32_t length = moe_session_length(soak->session);
    unlink(path);
    struct moe_record_part part = {.count = length,
                                   .logits = length ? moe_session_logits(soak->session, &soak->err) : NULL};
    if (io.fd < 0 || (length && moe_session_write_record(soak->session, &io, &part, &record, &soak->err)))
        fail(soak, "saving");
    close_all(soak);
    open_all(soak, soak->smallest + below(soak, soak->largest - soak->smallest + 1), false);
    if (length && moe_session_read_record(soak->session, &io, &record, &soak->err))
        fail(soak, "restoring");
    close(io.fd);
    soak->reopened++;
}

static void replay(struct soak *soak)
{
    close_all(soak);
    open_all(soak, MOE_CACHE_ALL, true);
    for (uint32_t i = 0; i < soak->n_turns; i++) {
        struct turn again = soak->turns[i];
        answer(soak, &again, soak->turns[i].n_answer);
        if (memcmp(again.answer, soak->turns[i].answer, again.n_answer * sizeof *again.answer) != 0)
            fail(soak, "the replay says something else");
    }
}

int main(int argc, char **argv)
{
    struct soak *soak = calloc(1, sizeof *soak);
    double seconds = 3600;
    soak->random = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--device") == 0)
            soak->device = argv[i + 1];
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        if (strcmp(argv[i], "--seed") == 0)
            soak->random = strtoull(argv[i + 1], NULL, 10);
    }
    if (argc < 2) {
        printf("soak MODEL [--device D] [--seconds N] [--seed N]\n");
        return 2;
    }
    soak->directory = argv[1];
    struct moe_description *about = calloc(1, sizeof *about);
    if (!about || moe_inspect(soak->directory, about, &soak->err))
        fail(soak, "opening");
    soak->context = about->max_position_embeddings < CONTEXT ? about->max_position_embeddings : CONTEXT;
    free(about);
    open_all(soak, MOE_CACHE_ALL, true);
    struct moe_cache_plan plan = moe_model_cache(soak->model);
    soak->smallest = plan.smallest_bytes;
    soak->largest = plan.slots * plan.slot_bytes;
    uint64_t most = 0, warm = 0, rounds = 0;
    for (double end = now_s() + seconds; now_s() < end; rounds++) {
        uint64_t what = below(soak, 20);
        if (what == 0)
            save_and_reopen(soak);
        else if (what < 4 || moe_session_length(soak->session) + MAX_PROMPT + MAX_ANSWER > soak->context)
            undo(soak);
        else
            say(soak);
        uint64_t resident = resident_bytes();
        most = resident > most ? resident : most;
        if (soak->reopened == WARM_UP && !warm)
            warm = most;
    }
    replay(soak);
    close_all(soak);
    printf("%llu turns, %llu cancelled, %llu undone, %llu reopened, %u replayed; at most %.1f MB, %.1f MB of it by the "
           "%dth opening\n",
           (unsigned long long)soak->said, (unsigned long long)soak->cancelled, (unsigned long long)soak->undone,
           (unsigned long long)soak->reopened, soak->n_turns, (double)most / 1e6, (double)warm / 1e6, WARM_UP);
    bool flat = !warm || (double)most < 1.05 * (double)warm + 16e6;
    printf("%s soak\n", flat ? "PASS" : "FAIL");
    free(soak);
    return flat ? 0 : 1;
}
