// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions of models whose layers choose the positions that they look at, on plain C and OpenCL: splits, groups, cuts
// and restores never change a bit, and as long as all positions are chosen the bits are those of the model without
// indexers.
#include <stdlib.h>
#include <unistd.h>

#include "tests/folder_rig.h"
#include "tests/setup_rig.h"

// The last one has index keys that tensor cores take.
static const char *const models[] = {"tests/golden/ck-v32-mlx/checkpoint", "tests/golden/gguf-glm-dsa/checkpoint",
                                     "tests/golden/ck-glm-52-mlx/checkpoint"};
static const char *const devices[] = {"ref", "cpu"};
// First with rows in float32, then in halves, which are the program's default.
enum { IN_FLOATS = 6, N_SETUPS = 2 * IN_FLOATS, CHOSEN = 8 }; // of ck-v32-mlx

static struct setup usual(int i)
{
    return (struct setup){
        .directory = models[i / 2 % 3],
        .device = devices[i % 2],
        .cache = MOE_CACHE_ALL,
        .session = {.prefetch = MOE_PREFETCH_OFF, .kv_type = i < IN_FLOATS ? MOE_KV_F32 : MOE_KV_F16}};
}

static void splits_never_change_a_bit(struct harness *t)
{
    static const struct splits splits = {{{2, 0}, {3, 9}, {7, 21}, {64, 0}, {65, 0}, {16, 80}}, {1, 4, 68, 69, 80}};
    for (int i = 0; i < IN_FLOATS; i++) {
        struct setup setup = usual(i);
        check_splits(t, &setup, &splits);
    }
}

static void feeds_of_any_length(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        check_feeds(t, &setup);
    }
}

// Rows are cut anywhere, for free, those of the indexers too; and other tokens than were cut leave nothing behind.
static void cuts_stand_anywhere(struct harness *t)
{
    uint64_t wants[N_SETUPS];
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        struct opened o;
        struct moe_err err;
        uint64_t want = wants[i] = run(t, &setup);
        CHECK(t, i < IN_FLOATS || want != wants[i - IN_FLOATS]);
        if (!open_setup(t, &setup, &o))
            continue;
        int32_t others[N_TOKENS];
        for (uint32_t k = 0; k < N_TOKENS; k++)
            others[k] = (o.ids[k] + 1) % (int32_t)o.vocab;
        const uint32_t cuts[] = {0, 1, CHOSEN, CHOSEN + 1, 37, N_TOKENS - 1};
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            struct moe_feed feed = {.ids = others, .count = N_TOKENS - cuts[c], .position = cuts[c]};
            CHECK_EQ(t, moe_session_floor(o.session, cuts[c]),
                     cuts[c] < moe_session_length(o.session) ? cuts[c] : moe_session_length(o.session));
            if (moe_session_length(o.session) > cuts[c])
                CHECK_EQ(t, moe_session_truncate(o.session, cuts[c], &err), 0);
            else if (cuts[c])
                CHECK_EQ(t, prefill(&o, cuts[c], &err), 0);
            CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
            CHECK_EQ(t, moe_session_truncate(o.session, cuts[c], &err), 0);
            CHECK_EQ(t, finish(t, &o), want);
        }
        close_opened(&o);
    }
}

// All of a conversation's rows, in two records, in another session: it goes on as the first does, and no token is read.
static void records_bring_all_rows_back(struct harness *t)
{
    for (int i = 0; i < N_SETUPS; i++) {
        struct setup setup = usual(i);
        struct opened o;
        struct moe_err err = {.text = ""};
        struct moe_record records[2];
        FILE *file = tmpfile();
        uint64_t want = run(t, &setup);
        if (!file || !open_setup(t, &setup, &o))
            continue;
        struct moe_record_io io = {.fd = fileno(file), .path = "saved"};
        CHECK_EQ(t, prefill(&o, 60, &err), 0);
        struct moe_record_part part = {.count = 5};
        CHECK_EQ(t, moe_session_write_record(o.session, &io, &part, &records[0], &err), 0);
        part = (struct moe_record_part){.offset = records[0].bytes, .first = 5, .count = 55};
        CHECK_EQ(t, moe_session_write_record(o.session, &io, &part, &records[1], &err), 0);
        close_opened(&o);
        if (!open_setup(t, &setup, &o))
            continue;
        for (int k = 0; k < 2; k++)
            if (!CHECK_EQ(t, moe_session_read_record(o.session, &io, &records[k], &err), 0))
                printf("%s\n", err.text);
        CHECK_EQ(t, moe_session_length(o.session), 60);
        CHECK_EQ(t, finish(t, &o), want);
        CHECK_EQ(t, moe_session_stats(o.session).prefilled_tokens, N_TOKENS - 60);
        close_opened(&o);
        fclose(file);
    }
}

// ---- Without indexers

// A file with these words in the place of those; the caller frees it.
static char *read_file(const char *directory, const char *name, size_t *length)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    char *text = made_memory(1 << 20);
    *length = file ? fread(text, 1, 1 << 20, file) : 0;
    if (!*length)
        exit(70);
    fclose(file);
    return text;
}

static void write_file(const char *directory, const char *name, const char *text, size_t length)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, length, file) != length || fclose(file))
        exit(70);
}

// Indexers go to layers that the model has not, which are left out as those for more tokens at once are.
static void move_indexers(char *text, size_t length)
{
    static const char layer[] = "model.layers.", rest[] = ".self_attn.indexer.";
    for (size_t i = 0; i + sizeof layer + sizeof rest < length; i++)
        if (memcmp(text + i, layer, sizeof layer - 1) == 0 &&
            memcmp(text + i + sizeof layer, rest, sizeof rest - 1) == 0)
            text[i + sizeof layer - 1] = (char)(text[i + sizeof layer - 1] + 5);
}

// A model that is dense with its indexers left out, and how many positions it chooses.
struct choosing {
    const char *directory, *dense_type;
    uint32_t chosen;
};

// With another index_topk, or, with 0, as a model that is dense.
static void write_variant(const char *directory, const struct choosing *model, int top_k)
{
    static const char *const names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                        "model.safetensors.index.json"};
    for (int i = 0; i < 3; i++) {
        size_t length;
        char *text = read_file(model->directory, names[i], &length);
        if (!top_k)
            move_indexers(text, length);
        write_file(directory, names[i], text, length);
        free(text);
    }
    char path[300];
    snprintf(path, sizeof path, "%s/config.json", model->directory);
    struct json_object *config = json_object_from_file(path);
    json_object_object_add(config, "index_topk", json_object_new_int(top_k));
    if (!top_k) {
        json_object_object_add(config, "model_type", json_object_new_string(model->dense_type));
        json_object_object_del(config, "index_topk");
    }
    made_text(directory, "config.json", json_object_to_json_string(config));
    json_object_put(config);
}

static void remove_variant(const char *directory)
{
    static const char *const names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                        "model.safetensors.index.json", "config.json"};
    for (int i = 0; i < 4; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

struct rows {
    uint64_t hashes[N_TOKENS];
    size_t bytes;
};

static int take_row(void *context, uint32_t position, const float *logits)
{
    struct rows *rows = context;
    uint64_t hash = 7;
    for (size_t i = 0; i < rows->bytes; i++)
        hash = (hash ^ ((const unsigned char *)logits)[i]) * 1099511628211u;
    rows->hashes[position] = hash;
    return 0;
}

// Each token's logits of the prompt, and what finish says.
static uint64_t all_rows(struct harness *t, const char *directory, const char *device, struct rows *rows)
{
    struct setup setup = {.directory = directory, .device = device, .cache = MOE_CACHE_ALL};
    struct opened o;
    struct moe_err err;
    uint64_t hash = 0;
    setup.session.prefill_chunk = 7;
    if (open_setup(t, &setup, &o)) {
        rows->bytes = o.vocab * sizeof(float);
        struct moe_feed feed = {.ids = o.ids, .count = N_TOKENS, .on_row = take_row, .context = rows};
        CHECK_EQ(t, moe_session_prefill(o.session, &feed, &err), 0);
        hash = finish(t, &o);
    }
    close_opened(&o);
    return hash;
}

static void check_dense(struct harness *t, const struct choosing *model)
{
    char dense[] = "/tmp/moechat-indexed-XXXXXX", all[] = "/tmp/moechat-indexed-XXXXXX";
    if (!CHECK(t, mkdtemp(dense) && mkdtemp(all)))
        return;
    write_variant(dense, model, 0);
    write_variant(all, model, 200);
    for (int i = 0; i < 2; i++) {
        struct rows few_rows, dense_rows, all_rows_of;
        uint64_t want = all_rows(t, dense, devices[i], &dense_rows);
        CHECK_EQ(t, all_rows(t, all, devices[i], &all_rows_of), want);
        CHECK(t, memcmp(all_rows_of.hashes, dense_rows.hashes, sizeof dense_rows.hashes) == 0);
        CHECK(t, all_rows(t, model->directory, devices[i], &few_rows) != want);
        CHECK(t, memcmp(few_rows.hashes, dense_rows.hashes, model->chosen * sizeof *few_rows.hashes) == 0);
        for (uint32_t k = model->chosen; k < N_TOKENS; k++)
            CHECK(t, few_rows.hashes[k] != dense_rows.hashes[k]);
    }
    remove_variant(dense);
    remove_variant(all);
}

static void while_all_are_chosen_nothing_is_lost(struct harness *t)
{
    check_dense(t, &(struct choosing){models[0], "deepseek_v3", CHOSEN});
    check_dense(t,
                &(struct choosing){models[2], "glm4_moe_lite", 10}); // of whose layers every second shares the choice
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(splits_never_change_a_bit),
        TEST(feeds_of_any_length),
        TEST(cuts_stand_anywhere),
        TEST(records_bring_all_rows_back),
        TEST(while_all_are_chosen_nothing_is_lost),
    };
    struct setup first = usual(0);
    open_driver(&first);
    return HARNESS_RUN(tests, argc, argv);
}
