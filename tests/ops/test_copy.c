// SPDX-License-Identifier: GPL-3.0-or-later
// Copies beside the ops, on a device made to keep its own memory, on one that shares ours, and in plain C.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/device.h"
#include "tests/harness.h"

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
    gpu_buf *other = gpu_buf_new(g, BYTES, &err), *all = gpu_buf_new(g, (uint64_t)COPIES * BYTES, &err);
    unsigned char *source[COPIES], *back = malloc(BYTES), *want = malloc(BYTES);
    uint64_t number[COPIES], before = gpu_counters(g).bytes_written;
    CHECK(t, buf && other && all && back && want);
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
    // Ops that follow a copy see its bytes, though nobody has waited for it.
    for (unsigned i = 0; i < COPIES; i++) {
        gpu_follow(g, gpu_copy(g, buf, (uint64_t)i * BYTES, source[COPIES - 1 - i], BYTES));
        gpu_op_copy(g, &(struct args_copy){(uint64_t)COPIES * BYTES}, buf, all);
        CHECK_EQ(t, gpu_read(g, all, (uint64_t)i * BYTES, back, BYTES, &err), GPU_OK);
        fill(want, COPIES - 1 - i);
        CHECK(t, memcmp(back, want, BYTES) == 0);
    }
    gpu_follow(g, gpu_copy(g, buf, 2 * (uint64_t)BYTES, source[2], BYTES));
    before += gpu_describe(g)->shares_host_memory ? 0 : (COPIES + 1) * BYTES;
    // Back again, and in order with a copy over the same bytes.
    unsigned char *returned = gpu_host_alloc(g, BYTES, &err);
    uint64_t back_number = gpu_copy_back(g, buf, 2 * (uint64_t)BYTES, returned, BYTES);
    gpu_copy_wait(g, gpu_copy(g, buf, 2 * (uint64_t)BYTES, source[0], BYTES));
    fill(want, 2);
    CHECK(t, gpu_copy_passed(g, back_number) && memcmp(returned, want, BYTES) == 0);
    before += gpu_describe(g)->shares_host_memory ? 0 : BYTES;
    gpu_copy_back(g, buf, (uint64_t)COPIES * BYTES - 1, returned, 2);
    CHECK_EQ(t, gpu_check(g, &err), GPU_ARGUMENT);
    gpu_host_free(g, returned);
    CHECK_EQ(t, gpu_counters(g).bytes_written - before, gpu_describe(g)->shares_host_memory ? 0 : COPIES * BYTES);
    CHECK(t, gpu_copy_passed(g, gpu_copy(g, buf, (uint64_t)COPIES * BYTES - 1, source[0], 2)));
    CHECK_EQ(t, gpu_check(g, &err), GPU_ARGUMENT);
    gpu_copy(g, buf, 0, source[1], BYTES); // closing waits for it
    for (unsigned i = 0; i < COPIES; i++)
        gpu_host_free(g, source[i]);
    free(back);
    free(want);
    gpu_buf_free(other);
    gpu_buf_free(all);
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

// As an integrated GPU would: what is written between gpu_map and gpu_unmap is what ops read, and nothing is copied.
static void mapped_memory_is_filled_in_place(struct harness *t)
{
    struct gpu_error err = {0};
    gpu *g = gpu_open(&(struct gpu_options){.selector = "cpu", .cache_dir = "build/cache/kernels", .map = true}, &err);
    if (!CHECK(t, g && gpu_describe(g)->maps_host_memory && !gpu_describe(g)->shares_host_memory))
        return;
    unsigned char *back = malloc(BYTES), *want = malloc(BYTES);
    gpu_buf *to = gpu_buf_new(g, BYTES, &err);
    gpu_buf *from[2] = {gpu_buf_new_shared(g, BYTES, &err), gpu_buf_new_shared(g, BYTES, &err)};
    CHECK(t, gpu_buf_host(to) == NULL && gpu_buf_host(from[0]) == NULL);
    for (unsigned round = 0; round < 6; round++) {
        gpu_buf *buf = from[round % 2];
        unsigned char *target = gpu_map(g, buf);
        if (!CHECK(t, target && (uintptr_t)target % 4096 == 0))
            break;
        gpu_op_copy(g, &(struct args_copy){BYTES}, from[!(round % 2)], to); // ops on the other go on meanwhile
        fill(target, round);
        gpu_copy_wait(g, gpu_unmap(g, buf));
        gpu_op_copy(g, &(struct args_copy){BYTES}, buf, to);
        CHECK_EQ(t, gpu_read(g, to, 0, back, BYTES, &err), GPU_OK);
        fill(want, round);
        CHECK(t, memcmp(back, want, BYTES) == 0);
    }
    CHECK_EQ(t, gpu_counters(g).bytes_written, 0);
    gpu_map(g, from[0]); // freeing gives it back
    for (int i = 0; i < 2; i++)
        gpu_buf_free(from[i]);
    gpu_buf_free(to);
    gpu_close(g);
    free(back);
    free(want);
}

// The device's queue stands still until this is set, a moment later.
struct gate {
    cl_event event;
    atomic_bool open;
};

static void *open_gate(void *context)
{
    struct gate *gate = context;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&gate->open, true);
    clSetUserEventStatus(gate->event, CL_COMPLETE);
    return NULL;
}

// Of two ranges the second can't be read: by then the first may be under way, and so may what a fence stands for.
static void a_read_that_fails_waits_for_the_others(struct harness *t)
{
    struct gpu_error err = {0};
    gpu *g = gpu_open_shape(&(struct gpu_options){.selector = "cpu", .cache_dir = "build/cache/kernels"}, GPU_SHAPE_GPU,
                            &err);
    if (!CHECK(t, g != NULL))
        return;
    for (int empty = 0; empty < 2; empty++) { // or the last range is empty, and nothing fails
        char target[64];
        gpu_buf *buf = gpu_buf_new(g, 4096, &err);
        struct gate gate = {.event = clCreateUserEvent(g->context, NULL)};
        pthread_t opener;
        CHECK_EQ(t, clEnqueueMarkerWithWaitList(g->queue, 1, &gate.event, NULL), CL_SUCCESS);
        gpu_op_copy(g, &(struct args_copy){64}, buf, buf);
        uint64_t fence = gpu_fence(g);
        CHECK_EQ(t, pthread_create(&opener, NULL, open_gate, &gate), 0);
        struct gpu_range ranges[2] = {{buf, 0, target, 64}, {buf, 64, NULL, empty ? 0 : 64}};
        CHECK_EQ(t, gpu_read_ranges(g, ranges, 2, &err), empty ? GPU_OK : GPU_LAUNCH);
        CHECK(t, atomic_load(&gate.open) && gpu_fence_passed(g, fence));
        pthread_join(opener, NULL);
        clReleaseEvent(gate.event);
        gpu_buf_free(buf);
    }
    gpu_close(g);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(in_plain_c),
        TEST(of_each_shape),
        TEST(mapped_memory_is_filled_in_place),
        TEST(a_read_that_fails_waits_for_the_others),
    };
    return HARNESS_RUN(tests, argc, argv);
}
