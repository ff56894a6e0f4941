// SPDX-License-Identifier: GPL-3.0-or-later
// What a session's layers remember: arrays that grow with what is in them, and what is said when they can't.
#include <stdlib.h>

#include <json-c/json.h>

#include "engine/walk/memory.h"
#include "engine/walk/scratch.h"
#include "tests/harness.h"

enum { RANK = 5, ROPE = 2, WIDTH = RANK + ROPE, LAYERS = 3 };

// MLA of rows that no 64 bytes divide.
static const struct shape small = {
    .n_layers = LAYERS, .kv_lora_rank = RANK, .qk_rope_head_dim = ROPE, .max_position_embeddings = 1 << 20};

static gpu *open_device(struct harness *t, const char *name)
{
    struct gpu_options options = {.selector = name};
    struct gpu_error err;
    gpu *g = gpu_open(&options, &err);
    if (!g)
        printf("%s\n", err.text);
    CHECK(t, g != NULL);
    return g;
}

// Numbers that say their layer, row and column.
static float number(uint32_t layer, uint32_t row, uint32_t column)
{
    return (float)((layer * 10000 + row) * 8 + column);
}

static void fill(gpu *g, const struct memory *memory, uint32_t from, uint32_t to)
{
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t row = from; row < to; row++) {
            float values[WIDTH];
            for (uint32_t i = 0; i < WIDTH; i++)
                values[i] = number(layer, row, i);
            gpu_write(g, memory->layers[layer].rows[0], row * sizeof values, values, sizeof values);
        }
}

static uint32_t count_wrong(struct harness *t, gpu *g, const struct memory *memory, uint32_t rows)
{
    float *values = malloc((size_t)rows * WIDTH * sizeof *values);
    uint32_t wrong = 0;
    for (uint32_t layer = 0; values && layer < LAYERS; layer++) {
        struct gpu_error err;
        CHECK_EQ(t, gpu_read(g, memory->layers[layer].rows[0], 0, values, rows * WIDTH * sizeof *values, &err), 0);
        for (uint32_t i = 0; i < rows * WIDTH; i++)
            wrong += values[i] < number(layer, i / WIDTH, i % WIDTH) || values[i] > number(layer, i / WIDTH, i % WIDTH);
    }
    CHECK(t, values != NULL);
    free(values);
    return wrong;
}

static void rows_stay_while_arrays_grow(struct harness *t)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (size_t i = 0; i < 2; i++) {
        gpu *g = open_device(t, devices[i]);
        struct memory_layout layout = {&small, 5001, MOE_KV_F32};
        struct memory memory;
        struct moe_err err;
        if (!g || !CHECK_EQ(t, memory_open(g, &layout, &memory, &err), MOE_OK)) {
            gpu_close(g);
            return;
        }
        CHECK_EQ(t, memory.rows, 1024); // no more than a conversation begins with
        fill(g, &memory, 0, 1024);
        CHECK_EQ(t, memory_reserve(g, &memory, 1024, &err), MOE_OK);
        CHECK_EQ(t, memory.rows, 1024);
        CHECK_EQ(t, memory_reserve(g, &memory, 1025, &err), MOE_OK);
        CHECK_EQ(t, memory.rows, 2048);
        fill(g, &memory, 1024, 2048);
        CHECK_EQ(t, memory_reserve(g, &memory, 4500, &err), MOE_OK);
        CHECK_EQ(t, memory.rows, 4500);
        fill(g, &memory, 2048, 4500);
        CHECK_EQ(t, memory_reserve(g, &memory, 4501, &err), MOE_OK);
        CHECK_EQ(t, memory.rows, 5001); // its limit
        fill(g, &memory, 4500, 5001);
        memory.max_rows = 9000; // a limit that was raised
        CHECK_EQ(t, memory_reserve(g, &memory, 5002, &err), MOE_OK);
        CHECK_EQ(t, memory.rows, 9000);
        CHECK_EQ(t, count_wrong(t, g, &memory, 5001), 0);
        memory_release(&memory);
        gpu_close(g);
    }
}

static void too_much_is_refused(struct harness *t)
{
    gpu *g = open_device(t, "cpu");
    struct memory memory;
    struct moe_err err;
    struct memory_layout all = {&small, UINT32_MAX, MOE_KV_F32};
    if (g && CHECK_EQ(t, memory_open(g, &all, &memory, &err), MOE_NO_MEMORY))
        CHECK(t, strstr(err.text, "--context") != NULL);
    // What was there stays when the device gives no more.
    struct memory_layout some = {&small, 2000, MOE_KV_F32};
    if (g && CHECK_EQ(t, memory_open(g, &some, &memory, &err), MOE_OK)) {
        fill(g, &memory, 0, 1024);
        memory.max_rows = UINT32_MAX;
        CHECK_EQ(t, memory_reserve(g, &memory, UINT32_MAX, &err), MOE_NO_MEMORY);
        CHECK(t, strstr(err.text, "4294967295 tokens") && strstr(err.text, "--expert-cache"));
        CHECK_EQ(t, memory.rows, 1024);
        CHECK_EQ(t, count_wrong(t, g, &memory, 1024), 0);
        CHECK_EQ(t, memory_reserve(g, &memory, 1500, &err), MOE_OK);
        CHECK_EQ(t, count_wrong(t, g, &memory, 1024), 0);
        memory_release(&memory);
    }
    gpu_close(g);
}

// Arrays are whole units of 64 bytes: a row more may have room in the one that is there.
static void an_array_with_room_stays(struct harness *t)
{
    gpu *g = open_device(t, "ref");
    struct memory_layout one = {&small, 1, MOE_KV_F32};
    struct memory memory;
    struct moe_err err;
    if (g && CHECK_EQ(t, memory_open(g, &one, &memory, &err), MOE_OK)) {
        const gpu_buf *array = memory.layers[1].rows[0];
        memory.max_rows = 3;
        CHECK_EQ(t, memory_reserve(g, &memory, 2, &err), MOE_OK);
        CHECK(t, memory.rows == 2 && memory.layers[1].rows[0] == array);
        CHECK_EQ(t, memory_reserve(g, &memory, 3, &err), MOE_OK);
        CHECK(t, memory.rows == 3 && gpu_buf_bytes(memory.layers[1].rows[0]) >= 3 * WIDTH * sizeof(float));
        memory_release(&memory);
    }
    gpu_close(g);
}

// What a token of real models leaves, layer by layer: latents and index keys, of pools too, heads' keys and values,
// states; and what a token of a group holds beside its stream: an id, its choice of experts, and its list.
// A sixteenth of what is left, but 4 at least and 64 at most.
static void copies_by_numbers(struct harness *t)
{
    enum { STATE = 1000, ONE = 16 * STATE };
    static const struct {
        uint64_t left, copies;
    } table[] = {{0, 4},         {4 * ONE, 4},       {5 * ONE - 1, 4}, {5 * ONE, 5},   {6 * ONE - 1, 5},
                 {63 * ONE, 63}, {64 * ONE - 1, 63}, {64 * ONE, 64},   {65 * ONE, 64}, {UINT64_MAX, 64}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        CHECK_EQ(t, memory_copies(STATE, table[i].left), table[i].copies);
}

static void real_models_keep_what_they_say(struct harness *t)
{
    enum { FLOAT = sizeof(float) };
    static const struct {
        const char *name;
        uint64_t row, states, top_k, list;
    } models[] = {
        {"deepseek-v3", 61 * 576, 0, 8, 0},
        {"moonlight", 27 * 576, 0, 6, 0},
        {"glm-4.7-flash", 47 * 576, 0, 4, 0},
        {"deepseek-v3.2", 61 * (576 + 128), 0, 8, 2048},
        {"glm-5", 78 * (576 + 128), 0, 8, 2048},
        {"glm-5.2", 78 * 576 + 21 * 128, 0, 8, 2048}, // 21 of its layers choose for the others
        {"glm-5.3-flash", 11 * (512 + 256 + 32), 34 * (64 * 128 * 128 + 3 * 24576), 8, 2048 + 3},
        {"qwen3.6-35b-a3b", 10 * 1024, 30 * (32 * 128 * 128 + 3 * 8192), 8, 0},
        {"qwen3.5-397b-a17b", 15 * 1024, 45 * (64 * 128 * 128 + 3 * 12288), 10, 0},
        {"qwen3-next-80b-a3b", 12 * 1024, 36 * (32 * 128 * 128 + 3 * 8192), 10, 0},
        {"kimi-linear-48b-a3b", 7 * 576, 20 * (32 * 128 * 128 + 3 * 12288), 8, 0},
        {"kimi-k3", 24 * 576, 69 * (96 * 128 * 128 + 3 * 36864), 16, 2 * 3584}, // no list, but its latents
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[100];
        struct shape s;
        struct moe_err err = {.text = ""};
        snprintf(path, sizeof path, "tests/bench/configs/%s.json", models[i].name);
        struct json_object *config = json_object_from_file(path);
        bool good = CHECK(t, config && shape_read(config, path, &s, &err) == MOE_OK);
        json_object_put(config);
        if (!good)
            continue;
        good = CHECK_EQ(t, memory_row_bytes(&s, MOE_KV_F32), models[i].row * FLOAT) &
               CHECK_EQ(t, memory_row_bytes(&s, MOE_KV_F16), models[i].row * FLOAT / 2) &
               CHECK_EQ(t, memory_state_bytes(&s), models[i].states * FLOAT) &
               CHECK_EQ(t, scratch_group_bytes(&s), (1 + 4 * models[i].top_k + models[i].list) * FLOAT);
        if (!good)
            printf("    %s\n", models[i].name);
    }
}

static uint64_t buffer_bytes(const struct scratch *scratch)
{
    uint64_t bytes = 0;
    for (int i = 0; i < SCRATCH_COUNT; i++)
        bytes += scratch->buf[i] ? gpu_buf_bytes(scratch->buf[i]) : 0;
    return bytes;
}

// What is allocated, of the lists of a whole group and to choose among 131072 positions, is what plans are made with.
static void scratch_takes_what_it_says(struct harness *t)
{
    enum { ROWS = 4, GROUP = 2048, POSITIONS = 131072 };
    static const char *const names[] = {"deepseek-v3", "deepseek-v3.2", "glm-5.2", "glm-5.3-flash"};
    gpu *g = open_device(t, "ref");
    for (size_t i = 0; g && i < sizeof names / sizeof *names; i++) {
        char path[100];
        struct shape s;
        struct moe_err err = {.text = ""};
        struct scratch one, whole;
        snprintf(path, sizeof path, "tests/bench/configs/%s.json", names[i]);
        struct json_object *config = json_object_from_file(path);
        CHECK(t, config && shape_read(config, path, &s, &err) == MOE_OK);
        json_object_put(config);
        CHECK_EQ(t, scratch_open(g, &(struct scratch_options){&s, ROWS, ROWS, ROWS}, &one, &err), MOE_OK);
        CHECK_EQ(t, scratch_open(g, &(struct scratch_options){&s, ROWS, GROUP, ROWS}, &whole, &err), MOE_OK);
        uint64_t bytes = buffer_bytes(&whole);
        CHECK_EQ(t, bytes - buffer_bytes(&one), (GROUP - ROWS) * scratch_group_bytes(&s));
        CHECK_EQ(t, scratch_reserve(&whole, POSITIONS, &err), MOE_OK);
        CHECK_EQ(t, buffer_bytes(&whole) - bytes, POSITIONS * scratch_position_bytes(&s));
        scratch_release(&one), scratch_release(&whole);
    }
    gpu_close(g);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(rows_stay_while_arrays_grow), TEST(too_much_is_refused),
                                                TEST(an_array_with_room_stays),    TEST(real_models_keep_what_they_say),
                                                TEST(scratch_takes_what_it_says),  TEST(copies_by_numbers)};
    return HARNESS_RUN(tests, argc, argv);
}
