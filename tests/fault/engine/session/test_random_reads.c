// SPDX-License-Identifier: GPL-3.0-or-later
// Whole models over a disk that is late, cuts reads up, interrupts, refuses and ends early at random, while answers are
// cancelled, cut, saved and brought back, also by the next process with other budgets: two sessions that take turns
// must get, bit for bit, what they get when nothing goes wrong. Of a model whose layers have states, too.
//
//     test_random_reads [TEST] with MOECHAT_SEEDS=N in the environment for more than the usual few
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"
#include "engine/moe.h"

enum { N_PROMPT = 24, N_TOKENS = 56, N_SESSIONS = 2, STEPS = 120 };

struct life {
    uint64_t random;
    atomic_ullong noise; // of the readers
    atomic_bool faulty;
    unsigned mask; // of the dice: a fault in so many reads and one, fewer where an expert is several
    moe_model *model;
    moe_session *sessions[N_SESSIONS];
    int32_t ids[N_SESSIONS][N_TOKENS];
    uint64_t want[N_SESSIONS][N_TOKENS]; // of the logits after so many tokens and one
    unsigned failed, cancelled, right;
    // What was saved of each session, rows and states; a record whose count is 0: nothing.
    FILE *files[N_SESSIONS];
    struct moe_record saved[N_SESSIONS];
    unsigned refused, restored;
    bool states; // the model's layers have some
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t below(struct life *life, uint32_t limit)
{
    return (uint32_t)(mix(++life->random) % limit);
}

static ptrdiff_t bad_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct life *life = context;
    uint64_t dice = mix(atomic_fetch_add(&life->noise, 1));
    if (!atomic_load(&life->faulty))
        return pread(fd, target, length, (off_t)offset);
    if (dice % 5 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(dice >> 8 & 0xfffff)}, NULL); // up to a millisecond
    if (dice >> 32 & 1 && (dice >> 40) % 50 == 0)
        moe_session_cancel(life->sessions[dice >> 50 & 1]);
    switch (dice >> 16 & life->mask) {
    case 0:
        errno = EIO;
        return -1;
    case 1:
        return 0;
    case 2:
    case 3:
        errno = EINTR;
        return -1;
    default:
        if ((dice >> 24) % 8 == 0 && length > 8192) // whole blocks, for reads past the page cache
            length = length / 2 / 4096 * 4096;
        return pread(fd, target, length, (off_t)offset);
    }
}

static uint64_t hash_logits(const float *logits, uint32_t n)
{
    const unsigned char *bytes = (const unsigned char *)logits;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; logits && i < n * sizeof *logits; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

// The rest of the prompt, or the next token.
static int go_on(struct life *life, unsigned which, struct moe_err *err)
{
    moe_session *session = life->sessions[which];
    uint32_t length = moe_session_length(session);
    if (length >= N_PROMPT)
        return moe_session_decode(session, life->ids[which][length], err);
    struct moe_feed feed = {.ids = life->ids[which] + length, .count = N_PROMPT - length, .position = length};
    return moe_session_prefill(session, &feed, err);
}

static uint64_t hash_now(const struct life *life, unsigned which)
{
    struct moe_err err;
    return hash_logits(moe_session_logits(life->sessions[which], &err), moe_model_describe(life->model)->vocab_size);
}

// A record's intervals are its time, each of a token's has some, and its experts are those that were chosen.
static void check_record(struct harness *t, const moe_session *session)
{
    const struct moe_telemetry *step = moe_session_telemetry(session);
    uint64_t sum = 0;
    for (int i = 0; i < MOE_INTERVALS; i++)
        sum += step->ns[i];
    uint64_t off = sum > step->total_ns ? sum - step->total_ns : step->total_ns - sum;
    CHECK(t, off * 50 <= step->total_ns);
    static const enum moe_interval parts[] = {MOE_ON_ATTENTION, MOE_ON_ROUTER, MOE_ON_EXPERTS, MOE_ON_HEAD,
                                              MOE_ON_HOST};
    for (size_t i = 0; step->decode && i < sizeof parts / sizeof *parts; i++)
        if (!CHECK(t, step->ns[parts[i]] > 0)) // else nobody told that it began
            printf("interval %d\n", parts[i]);
    for (uint32_t i = 0; step->decode && i < step->n_moe_layers; i++) {
        uint32_t n = 0;
        for (int origin = 0; origin < MOE_ORIGINS; origin++)
            n += step->layers[i].n_from[origin];
        CHECK_EQ(t, n, step->top_k);
    }
}

// To any place; where one cannot stand there, to the last one before.
static void cut(struct harness *t, struct life *life, moe_session *session)
{
    struct moe_err err;
    uint32_t before = moe_session_length(session), to = below(life, before + 1), floor = moe_session_floor(session, to);
    CHECK(t, floor <= to && (moe_model_describe(life->model)->state_bytes || floor == to));
    if (floor < to) {
        life->refused++;
        CHECK_EQ(t, moe_session_truncate(session, to, &err), MOE_POSITION);
        CHECK_EQ(t, moe_session_length(session), before);
    }
    CHECK_EQ(t, moe_session_truncate(session, floor, &err), MOE_OK);
    CHECK_EQ(t, moe_session_length(session), floor);
}

// Its rows and states, and with logits those of now: in place of what was saved before.
static void save(struct harness *t, struct life *life, unsigned which)
{
    moe_session *session = life->sessions[which];
    struct moe_err err;
    struct moe_record_io io = {.fd = fileno(life->files[which]), .path = "saved"};
    struct moe_record_part part = {.count = moe_session_length(session),
                                   .logits = moe_session_logits(session, &err),
                                   .states = moe_model_describe(life->model)->state_bytes > 0};
    if (part.count)
        CHECK_EQ(t, moe_session_write_record(session, &io, &part, &life->saved[which], &err), MOE_OK);
}

static void restore(struct harness *t, struct life *life, unsigned which)
{
    moe_session *session = life->sessions[which];
    const struct moe_record *record = &life->saved[which];
    struct moe_err err;
    struct moe_record_io io = {.fd = fileno(life->files[which]), .path = "saved"};
    if (!record->count)
        return;
    CHECK_EQ(t, moe_session_truncate(session, 0, &err), MOE_OK);
    int code = moe_session_read_record(session, &io, record, &err);
    if (code == MOE_CANCELLED) {
        moe_session_resume(session);
        return;
    }
    CHECK_EQ(t, code, MOE_OK);
    CHECK_EQ(t, moe_session_floor(session, record->count), record->count);
    CHECK_EQ(t, moe_session_truncate(session, record->count, &err), MOE_OK);
    if (record->has_logits)
        CHECK_EQ(t, hash_now(life, which), life->want[which][record->count - 1]);
    life->restored++;
}

static void do_step(struct harness *t, struct life *life)
{
    unsigned which = below(life, N_SESSIONS);
    moe_session *session = life->sessions[which];
    struct moe_err err = {0};
    uint32_t before = moe_session_length(session);
    if (before == N_TOKENS || below(life, 12) == 0) {
        cut(t, life, session);
        return;
    }
    uint32_t dice = below(life, 16);
    if (dice == 0)
        save(t, life, which);
    else if (dice == 1)
        restore(t, life, which);
    if (dice < 2)
        return;
    int code = go_on(life, which, &err);
    if (code == MOE_OK) {
        life->right++;
        if (!CHECK_EQ(t, hash_now(life, which), life->want[which][moe_session_length(session) - 1]))
            printf("session %u, %u tokens\n", which, moe_session_length(session));
        check_record(t, session);
    } else if (code == MOE_CANCELLED) {
        life->cancelled++;
        moe_session_resume(session);
    } else {
        life->failed++;
        if (!CHECK_EQ(t, code, MOE_IO))
            printf("%s\n", err.text);
        CHECK(t, err.layer >= 0 && err.expert >= 0 && *err.file);
        CHECK_EQ(t, moe_session_length(session), before);
    }
}

static bool open_all(struct harness *t, struct life *life, const char *directory, const struct moe_model_options *how,
                     const struct moe_session_options *session)
{
    struct moe_err err;
    struct moe_model_options options = *how;
    options.read = bad_read;
    options.read_context = life;
    bool fine = CHECK_EQ(t, moe_model_open(directory, &options, &life->model, &err), MOE_OK);
    for (unsigned i = 0; i < N_SESSIONS && fine; i++)
        fine = CHECK_EQ(t, moe_session_open(life->model, session, &life->sessions[i], &err), MOE_OK);
    if (!fine)
        printf("%s\n", err.text);
    return fine;
}

static void close_all(struct life *life)
{
    for (unsigned i = 0; i < N_SESSIONS; i++)
        moe_session_close(life->sessions[i]);
    moe_model_close(life->model);
}

// What is right, and the smallest budget.
static uint64_t learn(struct harness *t, struct life *life, const char *directory, const char *device)
{
    struct moe_model_options options = {.device = device, .expert_cache_bytes = MOE_CACHE_ALL};
    if (!open_all(t, life, directory, &options, &(struct moe_session_options){0}))
        exit(1);
    uint32_t vocab = moe_model_describe(life->model)->vocab_size;
    struct moe_err err;
    for (unsigned which = 0; which < N_SESSIONS; which++) {
        for (uint32_t i = 0; i < N_TOKENS; i++)
            life->ids[which][i] = (int32_t)(mix(which * 1000 + i) % vocab);
        while (moe_session_length(life->sessions[which]) < N_TOKENS) {
            CHECK_EQ(t, go_on(life, which, &err), MOE_OK);
            life->want[which][moe_session_length(life->sessions[which]) - 1] = hash_now(life, which);
        }
    }
    uint64_t smallest = moe_model_cache(life->model).smallest_bytes;
    life->states = moe_model_describe(life->model)->state_bytes > 0;
    close_all(life);
    return smallest;
}

static void live(struct harness *t, const char *directory, const char *device, unsigned n)
{
    struct life *life = calloc(1, sizeof *life);
    uint64_t smallest = learn(t, life, directory, device);
    unsigned failed = 0, cancelled = 0, right = 0;
    for (unsigned i = 0; i < N_SESSIONS; i++)
        if (!(life->files[i] = tmpfile()))
            exit(1);
    for (unsigned seed = 1; seed <= n; seed++) {
        life->random = (uint64_t)seed << 32;
        atomic_store(&life->noise, (uint64_t)seed << 40);
        bool two = below(life, 2);
        struct moe_model_options options = {
            .device = device,
            .expert_cache_bytes = smallest * (10 + below(life, 30)) / 10,
            .io = below(life, 2) ? MOE_IO_BUFFERED : MOE_IO_DIRECT,
            .readers = 1 + below(life, 8),
            .read_piece_bytes = below(life, 2) ? 12288 : 0, // two of an expert
            .force_two_tiers = two,
            .write_back = (enum moe_write_back)(seed % 3),
            .force_mapping = seed % 2, // of the CPU's memory; plain C knows no mapping
            .host_cache_bytes = two && below(life, 2) ? smallest * (30 + below(life, 60)) / 10 : MOE_CACHE_NONE,
        };
        struct moe_session_options session = {
            .prefetch = (enum moe_prefetch)below(life, 5),
            .prefill_chunk = 2 + below(life, 30),
            .prefill_group = 1 + below(life, 60),
            .ring = below(life, 3),
            .snapshots = 2 + below(life, 4),
            .snapshot_every = 1 + below(life, 20),
        };
        life->failed = life->cancelled = life->right = 0;
        life->mask = options.read_piece_bytes ? 127 : 63;
        if (!open_all(t, life, directory, &options, &session))
            break;
        for (unsigned i = 0; i < N_SESSIONS; i++) // what the last one saved, before it ended somehow
            restore(t, life, i);
        atomic_store(&life->faulty, true);
        for (int step = 0; step < STEPS; step++)
            do_step(t, life);
        right += life->right;
        bool quiet = below(life, 2);
        atomic_store(&life->faulty, !quiet);
        failed += life->failed;
        cancelled += life->cancelled;
        close_all(life); // at times with reads that fail under way
        atomic_store(&life->faulty, false);
    }
    printf("%u failed, %u cancelled, %u restored, %u refused\n", failed, cancelled, life->restored, life->refused);
    CHECK(t, right >= n); // of a life nothing may come right
    CHECK(t, failed && cancelled && life->restored > n && (life->refused > n) == life->states);
    for (unsigned i = 0; i < N_SESSIONS; i++)
        fclose(life->files[i]);
    free(life);
}

static unsigned seeds(unsigned usual)
{
    const char *asked = getenv("MOECHAT_SEEDS");
    return asked ? (unsigned)strtoul(asked, NULL, 10) : usual;
}

static void plain_c(struct harness *t)
{
    live(t, "tests/golden/tiny-a/package", "ref", seeds(6));
}

static void opencl(struct harness *t)
{
    live(t, "tests/golden/tiny-a/package", "cpu", seeds(3));
}

static void states_in_plain_c(struct harness *t)
{
    live(t, "tests/golden/ck-qwen35moe-mlx/checkpoint", "ref", seeds(6));
}

static void states_in_opencl(struct harness *t)
{
    live(t, "tests/golden/ck-kimi-linear-mlx/checkpoint", "cpu", seeds(4));
}

static void indexers_in_plain_c(struct harness *t)
{
    live(t, "tests/golden/ck-v32-mlx/checkpoint", "ref", seeds(3));
}

static void banks_in_plain_c(struct harness *t)
{
    live(t, "tests/golden/ck-kimi-k3-mlx/checkpoint", "ref", seeds(2));
}

static void streams_and_pools_in_plain_c(struct harness *t)
{
    live(t, "tests/golden/gguf-glm5-next/checkpoint", "ref", seeds(2));
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(plain_c),
                                                TEST(opencl),
                                                TEST(states_in_plain_c),
                                                TEST(states_in_opencl),
                                                TEST(indexers_in_plain_c),
                                                TEST(banks_in_plain_c),
                                                TEST(streams_and_pools_in_plain_c)};
    alarm(600); // a wait that never ends is a failure
    return HARNESS_RUN(tests, argc, argv);
}
