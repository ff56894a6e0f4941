// SPDX-License-Identifier: GPL-3.0-or-later
// One answer, whatever it took: the bits of all logits and the ids are the same at every budget, predictor, depth of
// the ring, number of readers, way of reading, tier and group size, on the demo model, on small random ones and on a
// GGUF.
#include <stdlib.h>

#define HOST_COMBINE_WRAPS
#include "tests/harness.h"
#include "tests/host_combine.h"
#include "engine/moe.h"

enum { N_PROMPT = 40, N_ANSWER = 24 };
#define HALF UINT64_C(2)

struct run {
    const char *name;
    const char *device;
    uint64_t cache; // 0: the smallest that works; 1: between; HALF: of the smallest; MOE_CACHE_ALL
    struct moe_model_options model;
    struct moe_session_options session;
    bool host_combine; // the experts are added up by the oracle
};

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t count)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

struct hashed {
    uint64_t hash;
    size_t row_bytes;
};

static int hash_row(void *context, uint32_t position, const float *logits)
{
    struct hashed *hashed = context;
    (void)position;
    hashed->hash = hash_bytes(hashed->hash, logits, hashed->row_bytes);
    return 0;
}

static int32_t greedy(const float *logits, uint32_t vocab)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

// Prompt, answer, and after a cut back into the prompt, or as far as the session can stand, another answer.
static int converse(moe_session *session, uint32_t vocab, uint64_t *hash, struct moe_err *err)
{
    int32_t ids[N_PROMPT];
    struct hashed hashed = {14695981039346656037u, vocab * sizeof(float)};
    for (int i = 0; i < N_PROMPT; i++)
        ids[i] = (int32_t)((uint32_t)(i * 7919 + 13) % vocab);
    struct moe_feed feed = {.ids = ids, .count = N_PROMPT, .on_row = hash_row, .context = &hashed};
    int code = moe_session_prefill(session, &feed, err);
    for (int round = 0; round < 2 && !code; round++) {
        for (int i = 0; i < N_ANSWER && !code; i++) {
            const float *logits = moe_session_logits(session, err);
            int32_t id = greedy(logits, vocab);
            hashed.hash = hash_bytes(hash_bytes(hashed.hash, logits, hashed.row_bytes), &id, sizeof id);
            code = moe_session_decode(session, id, err);
        }
        uint32_t floor = moe_session_floor(session, N_PROMPT - 9);
        if (!code && round == 0)
            code = moe_session_truncate(session, floor, err);
        feed = (struct moe_feed){.ids = ids, .count = N_PROMPT - floor, .position = floor};
        if (!code && round == 0)
            code = moe_session_prefill(session, &feed, err);
    }
    *hash = hashed.hash;
    return code;
}

static uint64_t run_hash(struct harness *t, const char *directory, const struct run *run, uint64_t smallest)
{
    struct moe_model_options options = run->model;
    options.device = run->device;
    options.expert_cache_bytes = run->cache == 0      ? smallest
                                 : run->cache == 1    ? 2 * smallest
                                 : run->cache == HALF ? smallest / 2
                                                      : run->cache;
    moe_model *model = NULL;
    moe_session *session = NULL;
    struct moe_err err;
    uint64_t hash = 0;
    combines_on_host = run->host_combine;
    combined_on_host = 0;
    int code = moe_model_open(directory, &options, &model, &err);
    if (!code)
        code = moe_session_open(model, &run->session, &session, &err);
    if (!code)
        code = converse(session, moe_model_describe(model)->vocab_size, &hash, &err);
    if (!CHECK_EQ(t, code, 0))
        printf("%s, %s: %s\n", directory, run->name, err.text);
    CHECK_EQ(t, combined_on_host > 0, run->host_combine);
    moe_session_close(session);
    moe_model_close(model);
    return hash;
}

static uint64_t smallest_of(struct harness *t, const char *directory)
{
    struct moe_model_options options = {.device = "ref", .expert_cache_bytes = MOE_CACHE_ALL};
    moe_model *model = NULL;
    struct moe_err err;
    CHECK_EQ(t, moe_model_open(directory, &options, &model, &err), 0);
    uint64_t smallest = model ? moe_model_cache(model).smallest_bytes : 0;
    moe_model_close(model);
    return smallest;
}

static const struct run runs[] = {
    {.name = "smallest", .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "middle", .cache = 1, .session = {.prefetch = MOE_PREFETCH_OFF}},
    {.name = "previous", .cache = 1, .session = {.prefetch = MOE_PREFETCH_PREVIOUS}},
    {.name = "router", .cache = 1, .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "router-shared", .cache = 1, .session = {.prefetch = MOE_PREFETCH_ROUTER_SHARED}},
    {.name = "auto, smallest", .session = {.prefetch = MOE_PREFETCH_AUTO}},
    {.name = "1 reader, buffered", .cache = 1, .model = {.readers = 1, .io = MOE_IO_BUFFERED}},
    {.name = "16 readers, direct", .cache = 1, .model = {.readers = 16, .io = MOE_IO_DIRECT}},
    {.name = "reads in pieces", .cache = 1, .model = {.read_piece_bytes = 4096}},
    {.name = "pieces, direct, two tiers",
     .model = {.read_piece_bytes = 8192, .io = MOE_IO_DIRECT, .force_two_tiers = true, .readers = 3}},
    {.name = "two tiers, 1 reader, which watches",
     .model = {.force_two_tiers = true, .host_cache_bytes = MOE_CACHE_ALL, .readers = 1, .io = MOE_IO_BUFFERED}},
    {.name = "two tiers, prefetching",
     .cache = 1,
     .model = {.force_two_tiers = true, .host_cache_bytes = MOE_CACHE_ALL},
     .session = {.prefetch = MOE_PREFETCH_ROUTER_SHARED}},
    {.name = "two tiers, writing back",
     .model = {.force_two_tiers = true, .host_cache_bytes = 900000, .write_back = MOE_WRITE_BACK_ON},
     .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "two tiers, copies on their own queue, pieces, writing back",
     .model = {.force_two_tiers = true,
               .force_mapping = true,
               .host_cache_bytes = 900000,
               .write_back = MOE_WRITE_BACK_ON,
               .read_piece_bytes = 8192},
     .session = {.prefetch = MOE_PREFETCH_ROUTER_SHARED}},
    {.name = "slots that are mapped", .cache = 1, .model = {.force_mapping = true}},
    {.name = "slots that are mapped, smallest, prefetching",
     .model = {.force_mapping = true, .io = MOE_IO_DIRECT, .read_piece_bytes = 8192},
     .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "ring of 1, half the slots", .cache = HALF, .model = {.ring = 1}},
    {.name = "ring of 1, half the slots, two tiers, prefetching",
     .cache = HALF,
     .model = {.ring = 1, .force_two_tiers = true},
     .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "ring of 1", .cache = 1, .session = {.ring = 1}},
    // Room enough for slots of several sizes where layers differ.
    {.name = "model of ring 1, direct", .cache = 1, .model = {.ring = 1, .io = MOE_IO_DIRECT}},
    {.name = "model of ring 1, two tiers, direct, prefetching",
     .cache = 1,
     .model = {.ring = 1, .force_two_tiers = true, .io = MOE_IO_DIRECT},
     .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "ring of 2", .cache = 1, .session = {.ring = 2}},
    {.name = "hits not first", .cache = 1, .session = {.without = MOE_WITHOUT_HITS_FIRST}},
    {.name = "shared expert last", .cache = 1, .session = {.without = MOE_WITHOUT_SHARED_FIRST}},
    {.name = "no read-ahead", .cache = 1, .session = {.without = MOE_WITHOUT_READ_AHEAD}},
    {.name = "experts one by one", .cache = 1, .session = {.without = MOE_WITHOUT_BATCHES}},
    {.name = "unfused", .session = {.without = MOE_WITHOUT_FUSED}},
    {.name = "combined on the host", .host_combine = true},
    {.name = "combined on the host, unfused", .session = {.without = MOE_WITHOUT_FUSED}, .host_combine = true},
    {.name = "streamed", .cache = MOE_CACHE_ALL, .session = {.without = MOE_WITHOUT_RESIDENT}},
    {.name = "resident, unfused", .cache = MOE_CACHE_ALL, .session = {.without = MOE_WITHOUT_FUSED}},
    {.name = "resident, combined on the host",
     .cache = MOE_CACHE_ALL,
     .session = {.without = MOE_WITHOUT_FUSED},
     .host_combine = true},
    {.name = "resident, prefetching", .cache = MOE_CACHE_ALL, .session = {.prefetch = MOE_PREFETCH_ROUTER}},
    {.name = "resident, two tiers",
     .cache = MOE_CACHE_ALL,
     .model = {.force_two_tiers = true, .host_cache_bytes = MOE_CACHE_NONE}},
    {.name = "small groups", .session = {.prefill_chunk = 8, .prefill_group = 16}},
    {.name = "groups of 3", .session = {.prefill_chunk = 3, .prefill_group = 3}},
    {.name = "chunks of 3", .session = {.prefill_chunk = 3, .prefill_group = 64}},
    {.name = "large groups", .session = {.prefill_chunk = 8, .prefill_group = 64}},
};

static void check_model(struct harness *t, const char *directory, const char *device)
{
    uint64_t smallest = smallest_of(t, directory);
    struct run all = {.name = "all", .device = device, .cache = MOE_CACHE_ALL};
    uint64_t want = run_hash(t, directory, &all, smallest);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct run run = runs[i];
        run.device = device;
        if (!CHECK_EQ(t, run_hash(t, directory, &run, smallest), want))
            printf("%s on %s: %s differs\n", directory, device, run.name);
    }
}

static void small_models(struct harness *t)
{
    check_model(t, "tests/golden/tiny-a/package", "ref");
    check_model(t, "tests/golden/tiny-a/package", "cpu");
    check_model(t, "tests/golden/tiny-b/package", "cpu");
}

// A GGUF: experts in three spans that direct reads bring straight into slots, of two sizes.
static void a_gguf(struct harness *t)
{
    check_model(t, "tests/golden/gguf-sizes/checkpoint", "ref");
    check_model(t, "tests/golden/gguf-sizes/checkpoint", "cpu");
}

// Layers that keep a state, and layers with rows beside them.
static void layers_with_states(struct harness *t)
{
    check_model(t, "tests/golden/gguf-qwen35moe/checkpoint", "ref");
    check_model(t, "tests/golden/gguf-qwen35moe/checkpoint", "cpu");
    check_model(t, "tests/golden/ck-kimi-linear-mlx/checkpoint", "cpu");
    check_model(t, "tests/golden/ck-kimi-k3-mlx/checkpoint", "cpu");
}

// Layers that choose the positions that they look at, and layers that share the choice.
static void layers_with_indexers(struct harness *t)
{
    check_model(t, "tests/golden/gguf-glm-dsa/checkpoint", "cpu");
    check_model(t, "tests/golden/ck-v32-mlx/checkpoint", "cpu");
    check_model(t, "tests/golden/gguf-glm5-next/checkpoint", "ref");
}

static void the_demo(struct harness *t)
{
    check_model(t, "models/demo", "cpu");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(small_models), TEST(a_gguf), TEST(layers_with_states),
                                                TEST(layers_with_indexers), TEST(the_demo)};
    return HARNESS_RUN(tests, argc, argv);
}
