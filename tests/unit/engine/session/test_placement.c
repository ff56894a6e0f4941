// SPDX-License-Identifier: GPL-3.0-or-later
// Where an expert happens to be never changes a bit: logits and greedy text are the same for every budget, number of
// readers, way of reading, with a host cache and without, and from a folder as from the package made of it.
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define HOST_COMBINE_WRAPS
#include "tests/harness.h"
#include "tests/host_combine.h"
#include "engine/moe.h"

enum { PROMPT = 33, ANSWER = 12, LEAST = 0 }; // a budget of LEAST: the smallest that works, with a ring of 1

struct way {
    uint64_t budget; // LEAST, an MOE_CACHE_, or a share
    uint64_t host;
    unsigned readers;
    enum moe_io io;
    bool two_tiers;
    uint32_t chunk;
    bool host_combine; // the experts are added up by the oracle
};

// What came of it: a hash of all logits, the text, and where experts came from.
struct outcome {
    uint64_t hash;
    int32_t text[ANSWER];
    struct moe_cache_plan plan;
    struct moe_stats stats;
};

static uint64_t fnv1a(uint64_t hash, const void *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int32_t likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static int run_session(moe_model *model, const struct way *way, struct outcome *outcome, struct moe_err *err)
{
    uint32_t vocab = moe_model_describe(model)->vocab_size;
    struct moe_session_options options = {.max_context = 64, .prefill_chunk = way->chunk};
    moe_session *session;
    int code = moe_session_open(model, &options, &session, err);
    if (code)
        return code;
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)((uint32_t)(i * i * 7 + 3) % vocab);
    struct moe_feed feed = {.ids = ids, .count = PROMPT};
    code = moe_session_prefill(session, &feed, err);
    for (int i = 0; i < ANSWER && !code; i++) {
        const float *logits = moe_session_logits(session, err);
        outcome->hash = fnv1a(outcome->hash, logits, vocab * sizeof *logits);
        outcome->text[i] = likeliest(logits, vocab);
        code = moe_session_decode(session, outcome->text[i], err);
    }
    outcome->stats = moe_session_stats(session);
    moe_session_close(session);
    return code;
}

static bool go(struct harness *t, const char *directory, const char *device, const struct way *way,
               struct outcome *outcome)
{
    struct moe_model_options options = {
        .device = device,
        .kernel_cache_dir = "build/cache/kernels",
        .expert_cache_bytes = way->budget,
        .host_cache_bytes = way->host,
        .io = way->io,
        .readers = way->readers,
        .force_two_tiers = way->two_tiers,
        .ring = way->budget == LEAST,
    };
    struct moe_description about;
    struct moe_err err = {0};
    moe_model *model;
    memset(outcome, 0, sizeof *outcome);
    combines_on_host = way->host_combine;
    combined_on_host = 0;
    int code = moe_inspect(directory, &about, &err);
    if (way->budget == LEAST) {
        options.expert_cache_bytes = 1; // refused with what would do
        CHECK_EQ(t, moe_model_open(directory, &options, &model, &err), MOE_BUDGET);
        static const char gives[] = "give --expert-cache ";
        const char *least = strstr(err.text, gives); // "... 345KB or more"
        char *unit = NULL;
        double shown = least ? strtod(least + sizeof gives - 1, &unit) : 1;
        options.expert_cache_bytes = (uint64_t)(shown * (!unit ? 1 : *unit == 'K' ? 1e3 : 1e6) + 0.5);
    }
    if (!code)
        code = moe_model_open(directory, &options, &model, &err);
    if (!code) {
        outcome->plan = moe_model_cache(model);
        code = run_session(model, way, outcome, &err);
        moe_model_close(model);
    }
    CHECK_EQ(t, combined_on_host > 0, way->host_combine);
    if (!CHECK_EQ(t, code, MOE_OK))
        printf("    %s on %s: %s\n", directory, device, err.text);
    return !code;
}

static bool same(struct harness *t, const struct outcome *a, const struct outcome *b)
{
    return CHECK(t, a->hash == b->hash) && CHECK(t, memcmp(a->text, b->text, sizeof a->text) == 0);
}

static const struct way everything = {.budget = MOE_CACHE_ALL};

static const struct way ways[] = {
    {.budget = LEAST},
    {.budget = LEAST, .readers = 1},
    {.budget = LEAST, .readers = 16, .io = MOE_IO_DIRECT},
    {.budget = LEAST, .two_tiers = true, .host = MOE_CACHE_NONE},
    {.budget = LEAST, .two_tiers = true, .host = MOE_CACHE_ALL, .io = MOE_IO_DIRECT},
    {.budget = 900000, .readers = 3, .io = MOE_IO_BUFFERED},
    {.budget = 900000, .readers = 5, .io = MOE_IO_DIRECT},
    {.budget = 900000, .two_tiers = true, .host = 900000, .readers = 2},
    {.budget = 900000, .two_tiers = true, .host = MOE_CACHE_AUTO},
    {.budget = MOE_CACHE_ALL, .two_tiers = true, .host = MOE_CACHE_NONE, .readers = 4},
    {.budget = MOE_CACHE_ALL, .io = MOE_IO_DIRECT},
    {.budget = LEAST, .host_combine = true},
    {.budget = MOE_CACHE_ALL, .two_tiers = true, .host = MOE_CACHE_NONE, .host_combine = true},
};

static void check_ways(struct harness *t, const char *directory, const char *device)
{
    struct outcome wanted;
    if (!go(t, directory, device, &everything, &wanted))
        return;
    CHECK(t, wanted.plan.all && wanted.plan.host_slots == 0 && wanted.stats.evictions == 0);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct outcome outcome;
        if (!go(t, directory, device, &ways[i], &outcome) || !same(t, &outcome, &wanted))
            printf("    way %zu of %s on %s\n", i, directory, device);
        if (ways[i].budget == LEAST)
            CHECK(t, outcome.stats.evictions > 0 && outcome.plan.slots <= outcome.plan.token_experts);
        CHECK_EQ(t, outcome.plan.host_slots > 0, ways[i].two_tiers);
        CHECK(t, outcome.plan.direct == (ways[i].io == MOE_IO_DIRECT) || outcome.plan.direct_refused ||
                     ways[i].io == MOE_IO_AUTO);
    }
}

static void the_demo_on_the_cpu(struct harness *t)
{
    check_ways(t, "models/demo", "cpu");
}

static void a_tiny_package_in_plain_c(struct harness *t)
{
    check_ways(t, "tests/golden/tiny-a/package", "ref");
}

// Its experts lie in spans of odd places in the folder's shards.
static void a_folder_in_plain_c(struct harness *t)
{
    check_ways(t, "tests/golden/ck-v2-lite-mlx/checkpoint", "ref");
}

static void remove_folder(const char *directory)
{
    DIR *open = opendir(directory);
    for (struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open)) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (open)
        closedir(open);
    rmdir(directory);
}

static void a_folder_and_the_package_made_of_it(struct harness *t)
{
    static const char *const folders[] = {"tests/golden/ck-v2-lite-mlx/checkpoint",
                                          "tests/golden/ck-glm-mlx/checkpoint", "tests/golden/ck-v32-mlx/checkpoint",
                                          "tests/golden/ck-kimi-k3-mlx/checkpoint",
                                          "tests/golden/gguf-glm5-next/checkpoint"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char package[] = "/tmp/moechat-placement-XXXXXX";
        struct moe_err err;
        CHECK(t, mkdtemp(package) && rmdir(package) == 0);
        if (!CHECK_EQ(t, moe_convert(folders[i], package, &(struct moe_convert_options){.threads = 1}, &err), MOE_OK))
            printf("    %s\n", err.text);
        struct outcome from_folder, from_package;
        const struct way way = {.budget = LEAST, .io = MOE_IO_DIRECT, .readers = 7};
        if (go(t, folders[i], "ref", &way, &from_folder) && go(t, package, "ref", &everything, &from_package))
            same(t, &from_folder, &from_package);
        remove_folder(package);
    }
}

// What bench stream says of the expert caches by themselves: bytes move as long as there are experts to move.
static void fetches_end_when_nothing_is_left(struct harness *t)
{
    const char *directory = "tests/golden/tiny-a/package";
    for (int two_tiers = 0; two_tiers < 2; two_tiers++) {
        struct moe_model_options options = {.device = "ref",
                                            .expert_cache_bytes = MOE_CACHE_ALL,
                                            .host_cache_bytes = MOE_CACHE_ALL,
                                            .force_two_tiers = two_tiers};
        moe_model *model = NULL;
        struct moe_err err;
        double disk = 0, again = -1, host = -1, copies = -1;
        if (!CHECK_EQ(t, moe_model_open(directory, &options, &model, &err), MOE_OK))
            return;
        uint64_t smallest = moe_model_cache(model).smallest_bytes;
        CHECK_EQ(t, moe_model_measure_fetches(model, &(struct moe_fetches){false, 1000, 1}, &disk, &err), MOE_OK);
        CHECK_EQ(t, moe_model_measure_fetches(model, &(struct moe_fetches){false, 1000, 2}, &again, &err), MOE_OK);
        CHECK_EQ(t, moe_model_measure_fetches(model, &(struct moe_fetches){true, 1000, 3}, &host, &err), MOE_OK);
        CHECK_EQ(t, moe_model_measure_copies(model, 0.01, &copies, &err), MOE_OK);
        CHECK(t, disk > 0 && again == 0 && host == 0 && copies == 0);
        moe_model_close(model);
        options.expert_cache_bytes = 2 * smallest;
        if (!CHECK_EQ(t, moe_model_open(directory, &options, &model, &err), MOE_OK))
            return;
        CHECK_EQ(t, moe_model_measure_fetches(model, &(struct moe_fetches){true, 0.02, 4}, &host, &err), MOE_OK);
        CHECK_EQ(t, host > 0, two_tiers);
        // Now all are in the host's cache, if there is one.
        CHECK_EQ(t, moe_model_measure_fetches(model, &(struct moe_fetches){false, 0.02, 5}, &again, &err), MOE_OK);
        CHECK_EQ(t, again == 0, two_tiers);
        moe_model_close(model);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(the_demo_on_the_cpu),
        TEST(a_tiny_package_in_plain_c),
        TEST(a_folder_in_plain_c),
        TEST(a_folder_and_the_package_made_of_it),
        TEST(fetches_end_when_nothing_is_left),
    };
    return HARNESS_RUN(tests, argc, argv);
}
