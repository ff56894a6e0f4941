// SPDX-License-Identifier: GPL-3.0-or-later
// What each op is asked for before it touches memory, for test_refusals.c and test_refusals_mixers.c: buffers of
// exactly the bytes that it needs are taken, and with four bytes less of any one, with arguments that fit nothing,
// after a failure and for no rows it does nothing at all. On the device in plain C: the checks are the same for all.
#ifndef MOECHAT_REFUSALS_H
#define MOECHAT_REFUSALS_H

#include "tests/fake_driver.h"
#include "tests/ops/rig.h"

enum { MOST_BUFFERS = 7, AMPLE = 1 << 16 };

// `how` 0 is right; 1 .. nothing ask for no rows; the next ones are wrong, whatever the buffers.
struct asked {
    const char *op;
    void (*call)(gpu *g, gpu_buf *const *b, unsigned how, uint32_t kv_type);
    size_t bytes[MOST_BUFFERS];
    unsigned nothing, wrong;
    unsigned indices; // a bit for each buffer that holds them: they are 0
    uint32_t kv_type;
};

#define FLOATS(n) (4 * (size_t)(n))
// Variants that are alike before each is spoiled in its own way.
#define ALL_ARE(variants, value)                                                                                       \
    for (size_t i = 0; i < sizeof(variants) / sizeof *(variants); i++)                                                 \
    (variants)[i] = value

struct asked_list {
    const struct asked *items;
    size_t n;
};

static struct asked_list asked(void); // the program's own

static struct args_matrix plain_matrix(uint64_t weight, uint32_t out_dim)
{
    return (struct args_matrix){.weight = weight, .in_dim = 32, .out_dim = out_dim, .kind = KIND_F32};
}

// What one call did.
struct done {
    bool refused, changed;
    char text[248];
};

static float *content(const struct asked *a, unsigned i, size_t bytes)
{
    float *numbers = random_floats(bytes / 4 + 1, 7 + i);
    if (a->indices >> i & 1)
        memset(numbers, 0, bytes);
    return numbers;
}

// Calls it with `ample` bytes more of each buffer than it needs, and, of number `less`, four bytes less. `failed`:
// after another op was refused.
static struct done call(gpu *g, const struct asked *a, unsigned how, size_t ample, int less, bool failed)
{
    struct done done = {0};
    gpu_buf *b[MOST_BUFFERS] = {NULL};
    float *before[MOST_BUFFERS];
    size_t bytes[MOST_BUFFERS];
    for (unsigned i = 0; i < MOST_BUFFERS && a->bytes[i]; i++) {
        bytes[i] = a->bytes[i] + ample;
        before[i] = content(a, i, bytes[i]);
        bytes[i] -= (int)i == less ? 4 : 0;
        b[i] = bytes[i] ? upload(g, before[i], bytes[i]) : NULL;
    }
    if (failed)
        gpu_op_clear(g, &(struct args_clear){.n = 1}, NULL);
    a->call(g, b, how, a->kv_type);
    struct gpu_error err = {0};
    done.refused = gpu_check(g, &err) == GPU_ARGUMENT;
    snprintf(done.text, sizeof done.text, "%s", err.text);
    for (unsigned i = 0; i < MOST_BUFFERS && a->bytes[i]; i++) {
        char *after = b[i] ? download(g, b[i]) : NULL;
        done.changed |= after && memcmp(after, before[i], bytes[i]) != 0;
        free(after), free(before[i]), gpu_buf_free(b[i]);
    }
    return done;
}

static gpu *open_ref(void)
{
    struct gpu_error err;
    gpu *g = gpu_open_shape(&(struct gpu_options){.selector = "ref"}, GPU_SHAPE_OF_DEVICE, &err);
    if (!g) {
        fprintf(stderr, "%s\n", err.text);
        exit(70);
    }
    return g;
}

static bool named(const struct done *done, const char *op)
{
    char begin[64];
    snprintf(begin, sizeof begin, "op %s: ", op);
    return strstr(done->text, begin) != NULL;
}

static void exact_buffers_are_enough(struct harness *t)
{
    gpu *g = open_ref();
    struct asked_list list = asked();
    for (size_t i = 0; i < list.n; i++) {
        struct done done = call(g, &list.items[i], 0, 0, -1, false);
        if (!CHECK(t, !done.refused && done.changed))
            printf("    %zu, %s: %s\n", i, list.items[i].op, done.text);
    }
    gpu_close(g);
}

static void smaller_ones_are_left_alone(struct harness *t)
{
    gpu *g = open_ref();
    struct asked_list list = asked();
    for (size_t i = 0; i < list.n; i++)
        for (int less = 0; less < MOST_BUFFERS && list.items[i].bytes[less]; less++) {
            struct done done = call(g, &list.items[i], 0, 0, less, false);
            if (!CHECK(t, done.refused && !done.changed && named(&done, list.items[i].op)))
                printf("    %zu, %s, buffer %d: %s\n", i, list.items[i].op, less, done.text);
        }
    gpu_close(g);
}

static void what_fits_nothing_is_refused(struct harness *t)
{
    gpu *g = open_ref();
    struct asked_list list = asked();
    for (size_t i = 0; i < list.n; i++)
        for (unsigned how = list.items[i].nothing + 1; how <= list.items[i].nothing + list.items[i].wrong; how++) {
            struct done done = call(g, &list.items[i], how, AMPLE, -1, false);
            if (!CHECK(t, done.refused && !done.changed && named(&done, list.items[i].op)))
                printf("    %zu, %s, wrong in way %u: %s\n", i, list.items[i].op, how, done.text);
        }
    gpu_close(g);
}

static void no_rows_are_no_work(struct harness *t)
{
    gpu *g = open_ref();
    struct asked_list list = asked();
    for (size_t i = 0; i < list.n; i++)
        for (unsigned how = 1; how <= list.items[i].nothing; how++) {
            struct done done = call(g, &list.items[i], how, AMPLE, -1, false);
            if (!CHECK(t, !done.refused && !done.changed))
                printf("    %zu, %s: %s\n", i, list.items[i].op, done.text);
        }
    gpu_close(g);
}

static void nothing_follows_a_failure(struct harness *t)
{
    gpu *g = open_ref();
    struct asked_list list = asked();
    for (size_t i = 0; i < list.n; i++) {
        struct done done = call(g, &list.items[i], 0, 0, -1, true);
        if (!CHECK(t, done.refused && !done.changed && named(&done, "clear")))
            printf("    %zu, %s: %s\n", i, list.items[i].op, done.text);
    }
    gpu_close(g);
}

// The launches of each op in each shape, of few and of many processors: groups, tiles and arguments.
static void say_launches(struct cases *cases, gpu *g, const struct asked *a)
{
    gpu_buf *b[MOST_BUFFERS] = {NULL};
    for (unsigned i = 0; i < MOST_BUFFERS && a->bytes[i]; i++) {
        float *numbers = content(a, i, a->bytes[i] + AMPLE);
        b[i] = upload(g, numbers, a->bytes[i] + AMPLE);
        free(numbers);
    }
    cases_say(cases, "== %s\n", a->op);
    a->call(g, b, 0, a->kv_type);
    struct gpu_error err = {0};
    int code = gpu_check(g, &err);
    cases_say(cases, "%d, %s, %" PRIu64 " launches\n", code, err.text, gpu_counters(g).launches);
    for (unsigned i = 0; i < MOST_BUFFERS; i++)
        gpu_buf_free(b[i]);
}

static uint64_t launches_wanted(void); // the program's own

static void launches_are_as_they_were(struct harness *t)
{
    struct asked_list list = asked();
    struct cases cases = cases_begin(list.items->op);
    for (int shape = 0; shape < 6; shape++)
        for (size_t i = 0; i < list.n; i++) {
            gpu *g = fake_open(&cases, shape / 2 == 0);
            g->has_mma = shape / 2 == 2;
            g->info.compute_units = shape % 2 ? 132 : 2;
            say_launches(&cases, g, &list.items[i]);
            fake_close(g);
            CHECK_EQ(t, fake.memories, 0);
            CHECK_EQ(t, fake.events, 0);
        }
    CHECK_CASES(t, &cases, launches_wanted());
}

static const struct harness_test refusals[] = {
    TEST(exact_buffers_are_enough), TEST(smaller_ones_are_left_alone), TEST(what_fits_nothing_is_refused),
    TEST(no_rows_are_no_work),      TEST(nothing_follows_a_failure),   TEST(launches_are_as_they_were),
};

#endif
