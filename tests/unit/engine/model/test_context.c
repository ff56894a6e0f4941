// SPDX-License-Identifier: GPL-3.0-or-later
// How much room for conversation is chosen: the rule by numbers of real models and machines, what a model's plan says
// of it, what is set aside when it is asked for, and sessions that need more.
#include <json-c/json.h>

#include "engine/model/context_plan.h"
#include "engine/model/model.h"
#include "engine/moe.h"
#include "engine/walk/scratch.h"
#include "tests/harness.h"

#define GB UINT64_C(1000000000)

enum { V3_ROW = 61 * 576 * 2, V3_LIMIT = 163840, FLASH_ROW = 47 * 576 * 2, FLASH_LIMIT = 202752 };

struct choice {
    struct context_question question;
    uint32_t tokens;
};

#define V3    .row_bytes = V3_ROW, .limit = V3_LIMIT
#define FLASH .row_bytes = FLASH_ROW, .limit = FLASH_LIMIT

static void the_share_is_an_eighth(struct harness *t)
{
    static const struct choice choices[] = {
        // 24 GB less 10.7 of weights, half of the rest for experts
        {{.free_bytes = 13 * GB, .cache_bytes = 13 * GB / 2, V3}, 22528},
        // a device of 80 GB, three quarters for experts: the half of what is left is the eighth
        {{.free_bytes = 69 * GB, .cache_bytes = 69 * GB / 4 * 3, V3}, 121856},
        // of 141: the model's own limit
        {{.free_bytes = 130 * GB, .cache_bytes = 130 * GB / 4 * 3, V3}, V3_LIMIT},
        // a small cache leaves more, which does not matter
        {{.free_bytes = 69 * GB, .cache_bytes = GB, V3}, 121856},
        // a large one leaves less: half of 4 GB
        {{.free_bytes = 69 * GB, .cache_bytes = 65 * GB, V3}, 27648},
        // all experts are there: half of what is left
        {{.free_bytes = 24 * GB, .cache_bytes = 16 * GB, .all_cached = true, FLASH}, 73728},
        {{.free_bytes = 24 * GB, .cache_bytes = 16 * GB, FLASH}, 55296},
        {{.free_bytes = 78 * GB, .cache_bytes = 16 * GB, .all_cached = true, FLASH}, FLASH_LIMIT},
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        CHECK_EQ(t, context_choose(&choices[i].question), choices[i].tokens);
}

static void little_memory_still_talks(struct harness *t)
{
    static const struct choice choices[] = {
        // an eighth holds 5700 tokens, what the cache leaves 8192
        {{.free_bytes = 16 * GB / 5, .cache_bytes = 8 * GB / 5, V3}, 8192},
        // all that it leaves holds 7116
        {{.free_bytes = 2 * GB, .cache_bytes = 3 * GB / 2, V3}, 6144},
        {{.free_bytes = GB, .cache_bytes = GB, V3}, CONTEXT_LEAST},
        {{.free_bytes = 0, .cache_bytes = GB, V3}, CONTEXT_LEAST},
        {{.free_bytes = 0, .cache_bytes = 0, .row_bytes = V3_ROW, .limit = 256}, 256},
        // an array of a layer is no larger than the device gives
        {{.free_bytes = 69 * GB, .cache_bytes = GB, .array_bytes = 1152, .alloc_bytes = 1152 * 20000, V3}, 19456},
        {{.free_bytes = 69 * GB, .array_bytes = 1152, .alloc_bytes = 0, V3}, CONTEXT_LEAST},
        {{.free_bytes = UINT64_MAX, .row_bytes = 1, .limit = UINT32_MAX}, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        CHECK_EQ(t, context_choose(&choices[i].question), choices[i].tokens);
}

// What layers that choose need to compare all positions, 32 queries at once, is of the share: without it there would be
// a step of 1024 tokens more.
static void what_chooses_among_rows_has_its_share(struct harness *t)
{
    enum { TOKENS = 65536 };
    static const struct {
        const char *name;
        uint64_t row, chosen;
    } models[] = {{"deepseek-v3", V3_ROW, 0},
                  {"deepseek-v3.2", 61 * 704 * 2, 32 * 4},
                  {"glm-5.2", (78 * 576 + 21 * 128) * 2, 32 * 4},
                  {"glm-5.3-flash", 11 * (512 + 256 + 32) * 2, 32 / 4 * 4}};
    struct gpu_options options = {.selector = "ref"};
    struct gpu_error failed;
    struct moe_model model = {.gpu = gpu_open(&options, &failed)};
    for (size_t i = 0; CHECK(t, model.gpu != NULL) && i < sizeof models / sizeof *models; i++) {
        char path[100];
        struct moe_err err;
        snprintf(path, sizeof path, "tests/bench/configs/%s.json", models[i].name);
        struct json_object *config = json_object_from_file(path);
        CHECK(t, config && shape_read(config, path, &model.package.shape, &err) == MOE_OK);
        json_object_put(config);
        CHECK_EQ(t, scratch_position_bytes(&model.package.shape), models[i].chosen);
        for (int counted = 0; counted < 2; counted++) {
            uint64_t token = models[i].row + (counted ? models[i].chosen : 0);
            model.plan = (struct moe_cache_plan){.free_bytes = 8 * TOKENS * token, .context_chosen = true};
            CHECK_EQ(t, model_context(&model, MOE_KV_F16), counted || !models[i].chosen ? TOKENS : TOKENS - 1024);
        }
    }
    gpu_close(model.gpu);
}

// The demo's plan, in host memory.
static int plan_of(uint32_t context, enum moe_kv_type type, struct moe_cache_plan *plan, struct moe_err *err)
{
    struct moe_model_options options = {.context = context, .kv_type = type, .expert_cache_bytes = 4 << 20};
    return moe_plan("models/demo", &options, plan, err);
}

static void a_plan_says_it(struct harness *t)
{
    struct moe_cache_plan plan, wide;
    struct moe_err err;
    if (!CHECK_EQ(t, plan_of(0, MOE_KV_F16, &plan, &err), MOE_OK))
        return;
    CHECK(t, plan.context_chosen && plan.context == 4096); // memory abounds: the model's limit
    CHECK_EQ(t, plan.row_bytes, 7 * 160 * 2);
    CHECK_EQ(t, plan_of(1000, MOE_KV_F32, &wide, &err), MOE_OK);
    CHECK(t, !wide.context_chosen && wide.context == 1000 && wide.row_bytes == 2 * plan.row_bytes);
    CHECK_EQ(t, plan_of(4097, MOE_KV_F16, &plan, &err), MOE_BAD_ARGUMENT);
    CHECK(t, strstr(err.text, "4097") && strstr(err.text, "4096"));
}

// Two sessions of a model on a device.
struct pair {
    moe_model *model;
    moe_session *one, *other;
};

static bool open_pair(struct harness *t, uint32_t context, struct pair *pair)
{
    struct moe_model_options model = {.device = "cpu", .context = context, .kv_type = MOE_KV_F16};
    struct moe_session_options session = {.kv_type = MOE_KV_F16, .prefetch = MOE_PREFETCH_OFF};
    struct moe_err err;
    *pair = (struct pair){NULL, NULL, NULL};
    if (moe_model_open("models/demo", &model, &pair->model, &err) == 0 &&
        moe_session_open(pair->model, &session, &pair->one, &err) == 0 &&
        moe_session_open(pair->model, &session, &pair->other, &err) == 0)
        return true;
    printf("%s\n", err.text);
    return CHECK(t, 0);
}

static void close_pair(struct pair *pair)
{
    moe_session_close(pair->one);
    moe_session_close(pair->other);
    moe_model_close(pair->model);
}

static int feed(moe_session *session, uint32_t from, uint32_t to)
{
    static int32_t ids[2048];
    struct moe_err err;
    for (uint32_t i = 0; i < 2048; i++)
        ids[i] = (int32_t)(3 + i * 37 % 120);
    struct moe_feed some = {.ids = ids + from, .count = to - from, .position = from};
    return moe_session_prefill(session, &some, &err);
}

// Rows that were there before the arrays grew are the same after it.
static void growing_never_changes_a_bit(struct harness *t)
{
    struct pair pair;
    struct moe_err err;
    if (open_pair(t, 0, &pair)) {
        uint32_t vocab = moe_model_describe(pair.model)->vocab_size;
        CHECK_EQ(t, moe_session_max_context(pair.one), 4096);
        CHECK_EQ(t, feed(pair.one, 0, 1400), 0); // there is room for all now
        CHECK_EQ(t, moe_session_truncate(pair.one, 0, &err), 0);
        moe_session *const both[] = {pair.one, pair.other};
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(t, feed(both[i], 0, 1024), 0);
            CHECK_EQ(t, moe_session_decode(both[i], 7, &err), 0); // here the other's grow
            CHECK_EQ(t, feed(both[i], 1025, 1100), 0);
        }
        const float *one = moe_session_logits(pair.one, &err), *other = moe_session_logits(pair.other, &err);
        CHECK(t, one && other && memcmp(one, other, vocab * sizeof *one) == 0);
    }
    close_pair(&pair);
}

static void what_was_asked_for_stays(struct harness *t)
{
    struct pair pair;
    if (open_pair(t, 100, &pair)) {
        CHECK_EQ(t, moe_session_max_context(pair.one), 100);
        moe_session_make_room(pair.one, 500);
        CHECK_EQ(t, moe_session_max_context(pair.one), 100);
        CHECK_EQ(t, feed(pair.one, 0, 101), MOE_CONTEXT_FULL);
    }
    close_pair(&pair);
}

// A model that was planned with little memory has sessions of few tokens; what was saved with more goes on.
static void a_longer_conversation_gets_room(struct harness *t)
{
    struct pair pair;
    struct moe_err err;
    struct moe_session_options session = {.kv_type = MOE_KV_F16, .prefetch = MOE_PREFETCH_OFF};
    if (open_pair(t, 0, &pair)) {
        pair.model->plan.free_bytes = pair.model->plan.cache_bytes;
        moe_session_close(pair.other);
        CHECK_EQ(t, moe_session_open(pair.model, &session, &pair.other, &err), 0);
        CHECK_EQ(t, moe_session_max_context(pair.other), CONTEXT_LEAST);
        CHECK_EQ(t, feed(pair.other, 0, 1025), MOE_CONTEXT_FULL);
        moe_session_make_room(pair.other, 1025);
        CHECK_EQ(t, moe_session_max_context(pair.other), 4096); // 1025 and 4096 are over the model's limit
        CHECK_EQ(t, feed(pair.other, 0, 1025), 0);
    }
    close_pair(&pair);
}

// So has one whose layers choose positions: their scores need room, too. What had it from the beginning says which
// logits.
static void an_indexer_gets_it_too(struct harness *t)
{
    enum { TOKENS = 1100, LIMIT = 8192 };
    struct moe_model_options options = {.device = "cpu"};
    struct moe_session_options asked = {.max_context = TOKENS + 1, .prefetch = MOE_PREFETCH_OFF}, chosen = asked;
    struct pair pair = {NULL, NULL, NULL};
    struct moe_err err = {.text = ""};
    chosen.max_context = 0;
    if (CHECK_EQ(t, moe_model_open("tests/golden/ck-v32-mlx/checkpoint", &options, &pair.model, &err), 0)) {
        pair.model->package.shape.max_position_embeddings = LIMIT; // as if it were longer than what memory gives
        pair.model->plan.free_bytes = pair.model->plan.cache_bytes;
        CHECK_EQ(t, moe_session_open(pair.model, &asked, &pair.one, &err), 0);
        CHECK_EQ(t, moe_session_open(pair.model, &chosen, &pair.other, &err), 0);
        CHECK_EQ(t, moe_session_max_context(pair.other), CONTEXT_LEAST);
        moe_session_make_room(pair.other, TOKENS);
        moe_session *const both[] = {pair.one, pair.other};
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(t, feed(both[i], 0, TOKENS), 0);
            CHECK_EQ(t, moe_session_decode(both[i], 7, &err), 0);
        }
        uint32_t vocab = moe_model_describe(pair.model)->vocab_size;
        const float *one = moe_session_logits(pair.one, &err), *other = moe_session_logits(pair.other, &err);
        CHECK(t, one && other && memcmp(one, other, vocab * sizeof *one) == 0);
    }
    close_pair(&pair);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(the_share_is_an_eighth),
                                                TEST(little_memory_still_talks),
                                                TEST(what_chooses_among_rows_has_its_share),
                                                TEST(a_plan_says_it),
                                                TEST(growing_never_changes_a_bit),
                                                TEST(what_was_asked_for_stays),
                                                TEST(a_longer_conversation_gets_room),
                                                TEST(an_indexer_gets_it_too)};
    return HARNESS_RUN(tests, argc, argv);
}
