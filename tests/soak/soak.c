// SPDX-License-Identifier: GPL-3.0-or-later
// Two long conversations over one model, full of interruptions: answers begin together, take turns by the token, are
// cancelled at any time; turns are undone, everything is saved, closed and opened again with another budget, predictor,
// number of readers, ring and kind of cache. Now and then, and in the end, a replay of what is left, without any of
// that, must say the same to the bit; memory, files and threads must be what they were. Several models take one part of
// the time each, one after the other.
//
//     soak MODEL... [--device D] [--seconds N] [--seed N]
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/moe.h"

enum {
    TALKS = 2,
    CONTEXT = 1024, // tokens, or what the model takes
    MAX_PROMPT = 60,
    MAX_ANSWER = 40,
    MAX_TURNS = 512,
    WARM_UP = 20, // openings that count for nothing
    MAX_OPENINGS = 1 << 20,
    REPORT_EVERY = 60, // seconds
};
// Once malloc has given back what is free, 0.1 MB is the noise: a few kilobytes lost with an opening, or bytes with a
// token, are more within an hour.
static const double memory_noise = 1e6;

struct turn {
    uint32_t position;
    uint32_t n_prompt, n_answer;
    int32_t prompt[MAX_PROMPT], answer[MAX_ANSWER];
    uint64_t seed;
};

struct talk {
    moe_session *session;
    moe_sampler *sampler; // of the answer under way
    uint32_t left;        // tokens that it may still have
    struct turn turns[MAX_TURNS];
    uint32_t n_turns;
    float *logits; // after the last turn, when the session was closed
    bool has_logits;
};

// What is held when nothing is open.
struct held {
    float resident;
    int files, threads;
};

struct soak {
    const char *directory, *device;
    uint64_t random;
    moe_model *model;
    struct talk talks[TALKS];
    uint32_t context, vocab;
    bool states; // of the model's layers: cuts go to where they were kept, and what is missing is fed again
    uint64_t refed;
    uint64_t said, tokens, cancelled, undone, reopened, replayed;
    uint64_t least, smallest, largest; // budgets: of a ring of 1, of 2, and of all experts
    struct held *held;                 // [reopened]
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

// ---- what the process holds ----

static int entries(const char *directory)
{
    int n = 0;
    DIR *all = opendir(directory);
    while (all && readdir(all))
        n++;
    if (all)
        closedir(all);
    return n;
}

static float resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (float)resident * (float)sysconf(_SC_PAGESIZE);
}

static struct held holds(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    return (struct held){resident_bytes(), entries("/proc/self/fd"), entries("/proc/self/task")};
}

static int by_resident(const void *a, const void *b)
{
    float x = ((const struct held *)a)->resident, y = ((const struct held *)b)->resident;
    return (x > y) - (x < y);
}

static double median(const struct held *held, uint64_t count)
{
    struct held *sorted = malloc(count * sizeof *sorted);
    if (!sorted)
        abort();
    memcpy(sorted, held, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_resident);
    double middle = sorted[count / 2].resident;
    free(sorted);
    return middle;
}

// Compares what was held between two openings early and late: nothing may grow with what was done meanwhile.
static bool is_flat(const struct soak *soak)
{
    if (soak->reopened < 2 * WARM_UP) {
        printf("too short a run to judge memory\n");
        return true;
    }
    const struct held *held = soak->held + WARM_UP;
    uint64_t count = soak->reopened - WARM_UP, part = (count + 3) / 4;
    double first = median(held, part), last = median(held + count - part, part);
    int files = 0, threads = 0;
    for (uint64_t i = 1; i < count; i++) {
        files = abs(held[i].files - held[0].files) > files ? abs(held[i].files - held[0].files) : files;
        threads = abs(held[i].threads - held[0].threads) > threads ? abs(held[i].threads - held[0].threads) : threads;
    }
    printf("with nothing open: %.1f MB at first, %.1f MB in the end (medians of %llu openings each); files %+d, "
           "threads %+d at most\n",
           first / 1e6, last / 1e6, (unsigned long long)part, files, threads);
    return last < first + memory_noise && !files && !threads;
}

// ---- models and sessions ----

// Of the device's cache. Small budgets are where things happen, so most are; below the smallest a ring of 1 is needed.
static uint64_t any_budget(struct soak *soak)
{
    double share = (double)below(soak, 1001) / 1000;
    if (below(soak, 8) == 0)
        return soak->least;
    return soak->smallest + (uint64_t)(share * share * share * (double)(soak->largest - soak->smallest));
}

// Of the host's: none, all, or as much as the device's and more.
static uint64_t any_host_budget(struct soak *soak, uint64_t budget)
{
    uint64_t kind = below(soak, 4);
    return kind == 0 ? MOE_CACHE_NONE : kind == 1 ? MOE_CACHE_ALL : budget + below(soak, soak->largest);
}

static void open_all(struct soak *soak, uint64_t budget, bool plain)
{
    struct moe_model_options options = {.device = soak->device, .expert_cache_bytes = budget};
    if (!plain) {
        options.readers = (unsigned)below(soak, 17);
        options.io = below(soak, 2) ? MOE_IO_BUFFERED : MOE_IO_DIRECT;
        options.read_piece_bytes = below(soak, 3) * 4096;
        options.write_back = (enum moe_write_back)below(soak, 3);
        options.force_two_tiers = below(soak, 2) == 0;
        options.force_mapping = below(soak, 3) == 0;
        options.host_cache_bytes = any_host_budget(soak, budget);
        options.ring = budget < soak->smallest ? 1 : (uint32_t)below(soak, 3);
    }
    if (moe_model_open(soak->directory, &options, &soak->model, &soak->err))
        fail(soak, "opening");
    for (int i = 0; i < TALKS; i++) {
        struct moe_session_options session = {.max_context = soak->context, .prefetch = MOE_PREFETCH_OFF};
        if (!plain) {
            session.prefetch = (enum moe_prefetch)below(soak, 5);
            session.prefill_chunk = (uint32_t)below(soak, 40) + 2;
            session.prefill_group = (uint32_t)below(soak, 100) + 1;
            session.ring = (uint32_t)below(soak, options.ring == 1 ? 2 : 3);
        }
        if (moe_session_open(soak->model, &session, &soak->talks[i].session, &soak->err))
            fail(soak, "opening a session");
    }
}

static void close_all(struct soak *soak)
{
    for (int i = 0; i < TALKS; i++) {
        struct talk *talk = &soak->talks[i];
        const float *logits = moe_session_logits(talk->session, &soak->err);
        talk->has_logits = logits != NULL;
        if (logits)
            memcpy(talk->logits, logits, soak->vocab * sizeof *logits);
        moe_session_close(talk->session);
    }
    moe_model_close(soak->model);
}

// ---- answers ----

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

static struct turn *turn_of(struct talk *talk)
{
    return &talk->turns[talk->n_turns];
}

// A part of the turns that are left, as it was fed at first: prompts by the kernels for prompts, answers by the others.
static void feed_again(struct soak *soak, struct talk *talk, const struct turn *turn, uint32_t end)
{
    uint32_t at = moe_session_length(talk->session), prompt_end = turn->position + turn->n_prompt;
    if (at < prompt_end && at < end) {
        uint32_t stop = end < prompt_end ? end : prompt_end;
        struct moe_feed feed = {.ids = turn->prompt + (at - turn->position), .count = stop - at, .position = at};
        if (moe_session_prefill(talk->session, &feed, &soak->err))
            fail(soak, "reading again");
        soak->refed += stop - at;
        at = stop;
    }
    for (; at < end && at < prompt_end + turn->n_answer; at++, soak->refed++)
        if (moe_session_decode(talk->session, turn->answer[at - prompt_end], &soak->err))
            fail(soak, "feeding again");
}

// Cuts a conversation back, by way of where its states were kept.
static void cut(struct soak *soak, struct talk *talk, uint32_t position)
{
    uint32_t floor = moe_session_floor(talk->session, position);
    moe_session_resume(talk->session);
    if (moe_session_truncate(talk->session, floor, &soak->err) || (!soak->states && floor != position))
        fail(soak, "cutting");
    for (uint32_t i = 0; i < talk->n_turns && moe_session_length(talk->session) < position; i++)
        if (talk->turns[i].position + talk->turns[i].n_prompt + talk->turns[i].n_answer > floor)
            feed_again(soak, talk, &talk->turns[i], position);
    if (moe_session_length(talk->session) != position)
        fail(soak, "cutting, and feeding again");
}

// The end of an answer, for whatever reason. A prompt that was not read to its end is no turn.
static void end_answer(struct soak *soak, struct talk *talk, int code)
{
    struct turn *turn = turn_of(talk);
    moe_sampler_free(talk->sampler);
    talk->sampler = NULL;
    if (code && code != MOE_CANCELLED)
        fail(soak, "answering");
    soak->cancelled += code == MOE_CANCELLED;
    soak->tokens += turn->n_answer;
    if (moe_session_length(talk->session) >= turn->position + turn->n_prompt)
        talk->n_turns++;
    else
        cut(soak, talk, turn->position);
}

// Reads the prompt of the next turn.
static void begin_answer(struct soak *soak, struct talk *talk, uint32_t limit)
{
    struct turn *turn = turn_of(talk);
    struct moe_sampling sampling = {.temperature = 0.8F, .top_p = 0.95F, .repetition_penalty = 1, .seed = turn->seed};
    struct moe_feed feed = {.ids = turn->prompt, .count = turn->n_prompt, .position = turn->position};
    turn->n_answer = 0;
    talk->left = limit;
    talk->sampler = moe_sampler_new(&sampling, soak->vocab);
    if (!talk->sampler)
        fail(soak, "sampling");
    int code = moe_session_prefill(talk->session, &feed, &soak->err);
    if (code || !limit)
        end_answer(soak, talk, code);
}

static void go_on(struct soak *soak, struct talk *talk)
{
    struct turn *turn = turn_of(talk);
    const float *logits = moe_session_logits(talk->session, &soak->err);
    int32_t id = logits ? moe_sample(talk->sampler, logits, NULL, 0) : -1;
    if (id < 0)
        fail(soak, "sampling");
    int code = moe_session_decode(talk->session, id, &soak->err);
    if (!code)
        turn->answer[turn->n_answer++] = id;
    if (code || turn->n_answer == talk->left)
        end_answer(soak, talk, code);
}

static bool is_full(const struct soak *soak, const struct talk *talk)
{
    return moe_session_length(talk->session) + MAX_PROMPT + MAX_ANSWER > soak->context ||
           talk->n_turns + 1 == MAX_TURNS;
}

static void invent_turn(struct soak *soak, struct talk *talk)
{
    struct turn *turn = turn_of(talk);
    *turn = (struct turn){.position = moe_session_length(talk->session),
                          .n_prompt = (uint32_t)below(soak, MAX_PROMPT) + 1,
                          .seed = below(soak, 1000000)};
    for (uint32_t i = 0; i < turn->n_prompt; i++)
        turn->prompt[i] = (int32_t)below(soak, soak->vocab);
    soak->said++;
}

// One conversation goes on, or both at once; one of them may be cancelled.
static void say(struct soak *soak)
{
    uint64_t who = below(soak, TALKS + 1);
    struct interrupter interrupter = {.session = soak->talks[below(soak, TALKS)].session,
                                      .after_us = (long)below(soak, 100000)};
    pthread_t thread;
    bool interrupted = below(soak, 3) == 0 && pthread_create(&thread, NULL, interrupt, &interrupter) == 0;
    for (uint64_t i = 0; i < TALKS; i++)
        if ((who == i || who == TALKS) && !is_full(soak, &soak->talks[i])) {
            invent_turn(soak, &soak->talks[i]);
            begin_answer(soak, &soak->talks[i], (uint32_t)below(soak, MAX_ANSWER) + 1);
        }
    for (bool going = true; going;) {
        going = false;
        for (uint64_t i = 0; i < TALKS; i++) {
            if (soak->talks[i].sampler && below(soak, 2))
                go_on(soak, &soak->talks[i]);
            going |= soak->talks[i].sampler != NULL;
        }
    }
    if (interrupted) {
        atomic_store(&interrupter.over, true);
        pthread_join(thread, NULL);
        moe_session_resume(interrupter.session);
    }
}

static void undo(struct soak *soak, struct talk *talk)
{
    if (talk->n_turns == 0)
        return;
    uint32_t left = talk->n_turns - 1 - (uint32_t)below(soak, talk->n_turns < 4 ? talk->n_turns : 4);
    cut(soak, talk, talk->turns[left].position);
    talk->n_turns = left;
    soak->undone++;
}

// ---- saving, and the replay ----

// Says all that is left again, with every expert in memory and nothing that interrupts.
static void replay(struct soak *soak)
{
    open_all(soak, MOE_CACHE_ALL, true);
    for (int t = 0; t < TALKS; t++) {
        struct talk *talk = &soak->talks[t];
        uint32_t n_turns = talk->n_turns;
        for (talk->n_turns = 0; talk->n_turns < n_turns;) {
            struct turn was = *turn_of(talk);
            begin_answer(soak, talk, was.n_answer);
            while (talk->sampler)
                go_on(soak, talk);
            if (memcmp(was.answer, talk->turns[talk->n_turns - 1].answer, was.n_answer * sizeof *was.answer) != 0)
                fail(soak, "the replay says something else");
            soak->replayed++;
        }
        const float *logits = moe_session_logits(talk->session, &soak->err);
        if (talk->has_logits && (!logits || memcmp(logits, talk->logits, soak->vocab * sizeof *logits) != 0))
            fail(soak, "the replay's last logits are others");
    }
    close_all(soak);
}

static void save(struct soak *soak, struct talk *talk, struct moe_record_io *io, struct moe_record *record)
{
    char path[] = "/tmp/moechat-soak-XXXXXX";
    *io = (struct moe_record_io){.fd = mkstemp(path), .path = "the record"};
    unlink(path);
    uint32_t length = moe_session_length(talk->session);
    struct moe_record_part part = {.count = length,
                                   .states = soak->states,
                                   .logits = length ? moe_session_logits(talk->session, &soak->err) : NULL};
    if (io->fd < 0 || (length && moe_session_write_record(talk->session, io, &part, record, &soak->err)))
        fail(soak, "saving");
}

static void save_and_reopen(struct soak *soak)
{
    struct moe_record record[TALKS] = {{0}};
    struct moe_record_io io[TALKS];
    for (int i = 0; i < TALKS; i++)
        save(soak, &soak->talks[i], &io[i], &record[i]);
    close_all(soak);
    if (below(soak, 8) == 0)
        replay(soak);
    soak->held[soak->reopened++] = holds();
    open_all(soak, any_budget(soak), false);
    for (int i = 0; i < TALKS; i++) {
        moe_session *session = soak->talks[i].session;
        if (record[i].count && (moe_session_read_record(session, &io[i], &record[i], &soak->err) ||
                                moe_session_truncate(session, moe_session_floor(session, record[i].count), &soak->err)))
            fail(soak, "restoring");
        if (moe_session_length(session) != record[i].count)
            fail(soak, "restoring: the states of the end");
        close(io[i].fd);
    }
}

// ---- the run ----

static void start(struct soak *soak)
{
    struct moe_description *about = calloc(1, sizeof *about);
    soak->held = calloc(MAX_OPENINGS, sizeof *soak->held);
    if (!about || !soak->held || moe_inspect(soak->directory, about, &soak->err))
        fail(soak, "opening");
    soak->context = about->max_position_embeddings < CONTEXT ? about->max_position_embeddings : CONTEXT;
    soak->vocab = about->vocab_size;
    soak->least = about->top_k;
    free(about);
    for (int i = 0; i < TALKS; i++) {
        soak->talks[i].logits = malloc(soak->vocab * sizeof *soak->talks[i].logits);
        if (!soak->talks[i].logits)
            fail(soak, "no memory");
    }
    open_all(soak, MOE_CACHE_ALL, true);
    struct moe_cache_plan plan = moe_model_cache(soak->model);
    soak->least *= plan.slot_bytes;
    soak->smallest = plan.smallest_bytes;
    soak->largest = plan.slots * plan.slot_bytes;
    soak->states = plan.state_bytes > 0;
}

static void report(const struct soak *soak, double seconds, double most)
{
    printf("%6.0f s: %llu turns of %llu tokens, %llu cancelled, %llu undone, %llu fed again, %llu reopened, %llu "
           "replayed; %.1f MB\n",
           seconds, (unsigned long long)soak->said, (unsigned long long)soak->tokens,
           (unsigned long long)soak->cancelled, (unsigned long long)soak->undone, (unsigned long long)soak->refed,
           (unsigned long long)soak->reopened, (unsigned long long)soak->replayed, most / 1e6);
    fflush(stdout);
}

static void do_something(struct soak *soak)
{
    uint64_t what = below(soak, 20);
    struct talk *talk = &soak->talks[below(soak, TALKS)];
    if (what == 0 && soak->reopened < MAX_OPENINGS)
        save_and_reopen(soak);
    else if (what < 4 || is_full(soak, talk))
        undo(soak, talk);
    else
        say(soak);
}

// Whether the model stood it.
static bool soak_model(const char *directory, const char *device, double seconds, uint64_t seed)
{
    struct soak *soak = calloc(1, sizeof *soak);
    if (!soak)
        abort();
    soak->random = seed;
    soak->device = device;
    soak->directory = directory;
    printf("%s\n", directory);
    start(soak);
    double began = now_s(), said = began, most[2] = {0}; // of the first half of the time, and of the rest
    for (double now = began; now - began < seconds; now = now_s()) {
        do_something(soak);
        int half = now - began > seconds / 2;
        double resident = resident_bytes();
        most[half] = resident > most[half] ? resident : most[half];
        if (now - said >= REPORT_EVERY) {
            report(soak, now - began, resident);
            said = now;
        }
    }
    close_all(soak);
    replay(soak);
    report(soak, now_s() - began, most[1] > most[0] ? most[1] : most[0]);
    bool flat = is_flat(soak) && (soak->reopened < 2 * WARM_UP || most[1] < 1.05 * most[0] + 16e6);
    for (int i = 0; i < TALKS; i++)
        free(soak->talks[i].logits);
    free(soak->held);
    free(soak);
    return flat;
}

int main(int argc, char **argv)
{
    const char *device = NULL;
    double seconds = 3600;
    uint64_t seed = 1;
    int n_models = 1;
    while (n_models < argc && strncmp(argv[n_models], "--", 2) != 0)
        n_models++;
    for (int i = n_models; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--device") == 0)
            device = argv[i + 1];
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    if (--n_models == 0) {
        printf("soak MODEL... [--device D] [--seconds N] [--seed N]\n");
        return 2;
    }
    bool fine = true;
    for (int i = 0; i < n_models; i++)
        fine = soak_model(argv[1 + i], device, seconds / n_models, seed) && fine;
    printf("%s soak\n", fine ? "PASS" : "FAIL");
    return fine ? 0 : 1;
}
