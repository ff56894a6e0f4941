// SPDX-License-Identifier: GPL-3.0-or-later
// Copies beside the ops, on a device made to keep its own memory, on one that shares ours, and in plain C.
#include <stdlib.h>

#include "device.h"
#include "harness.h"

enum { BYTES = 3 << 20, COPIES = 5 };

static void fill(unsigned char *bytes, unsigned round)
{
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + round * 31);
}

static void check(struct harness *t, gpu *g)
{
    struct gpu_error err = {0};
    gpu_buf *buf = gpu_buf_new(g, (uint64_t)COPIES * BYTES, &err);
    gpu_buf *other = gpu_buf_new(g, BYTES, &err);
    unsigned char *source[COPIES], *back = malloc(BYTES), *want = malloc(BYTES);
    uint64_t number[COPIES], before = gpu_counters(g).bytes_written;
    CHECK(t, buf && other && back && want);
    for (unsigned i = 0; i < COPIES; i++) {
        source[i] = gpu_host_alloc(g, BYTES, &err);
        fill(source[i], i);
        number[i] = gpu_copy(g, buf, (uint64_t)i * BYTES, source[i], BYTES);
        gpu_op_copy(g, &(struct args_copy){BYTES}, other, other); // ops go on meanwhile
    }
    for (unsigned i = COPIES; i--;) {
        gpu_copy_wait(g, number[i]);
        CHECK(t, gpu_copy_passed(g, number[i]));
        for (unsigned k = 0; k <= i; k++) // in order, so all before it have passed too
            CHECK(t, gpu_copy_passed(g, number[k]));
    }
    for (unsigned i = 0; i < COPIES; i++) {
        CHECK_EQ(t, gpu_read(g, buf, (uint64_t)i * BYTES, back, BYTES, &err), GPU_OK);
        fill(want, i);
        CHECK(t, memcmp(back, want, BYTES) == 0);
    }
    CHECK_EQ(t, gpu_counters(g).bytes_written - before, gpu_describe(g)->shares_host_memory ? 0 : COPIES * BYTES);
    CHECK(t, gpu_copy_passed(g, gpu_copy(g, buf, (uint64_t)COPIES * BYTES - 1, source[0], 2)));
    CHECK_EQ(t, gpu_check(g, &err), GPU_ARGUMENT);
    gpu_copy(g, buf, 0, source[1], BYTES); // closing waits for it
    for (unsigned i = 0; i < COPIES; i++)
        gpu_host_free(g, source[i]);
    free(back);
    free(want);
    gpu_buf_free(other);
    gpu_buf_free(buf);
    gpu_close(g);
}

static void in_plain_c(struct harness *t)
{
    check(t, gpu_open(&(struct gpu_options){.selector = "ref"}, NULL));
}

static void of_each_shape(struct harness *t)
{
    static const enum gpu_shape shapes[] = {GPU_SHAPE_CPU, GPU_SHAPE_GPU};
    for (int i = 0; i < 2; i++) {
        struct gpu_error err = {0};
        struct gpu_options options = {.selector = "cpu", .cache_dir = "build/cache/kernels"};
        gpu *g = gpu_open_shape(&options, shapes[i], &err);
        if (CHECK(t, g != NULL))
            check(t, g);
        else
            printf("    %s\n", err.text);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(in_plain_c),
        TEST(of_each_shape),
    };
    return HARNESS_RUN(tests, argc, argv);
}
