// SPDX-License-Identifier: GPL-3.0-or-later
// What kind of host memory is best between the disk and a device: read into past the page cache, then copied from. The
// driver's page-locked memory against huge pages of our own that the driver is told of (CL_MEM_USE_HOST_PTR), and
// huge pages that it is not told of. `bench_pinned DIR DEVICE [ROUNDS [READERS [PAUSE_US]]]`; interleaved, medians.
// After a pause, as a layer's compute is one, a disk may be slower than without: only the time in reads counts.
#define _GNU_SOURCE // O_DIRECT
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/files/package.h"
#include "kernels/device.h"

enum { MOST_READERS = 16, MOST_ROUNDS = 99, N_KINDS = 3, HUGE_PAGE = 2 << 20 };
#define ROUND_NS UINT64_C(300000000)

static const char *const names[N_KINDS] = {"page-locked by the driver", "huge pages, told of",
                                           "huge pages, not told of"};

struct reading {
    const struct package *package;
    const int *fds;
    char *memory; // of READERS slots
    uint64_t room;
    int readers;
    useconds_t pause_us;
    uint64_t until;
    _Atomic uint64_t bytes, reading_ns, next;
};

static void *read_experts(void *context)
{
    struct reading *r = context;
    const struct shape *s = &r->package->shape;
    char *target = r->memory + atomic_fetch_add(&r->next, 1) % (unsigned)r->readers * r->room;
    uint64_t random = clock_ns();
    while (clock_ns() < r->until) {
        struct expert_span spans[MAX_EXPERT_SPANS];
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint32_t pick = (uint32_t)(random >> 33);
        uint32_t layer = s->first_k_dense_replace + pick % (s->n_layers - s->first_k_dense_replace);
        package_spans(r->package, layer, pick / 1000 % s->n_routed_experts, spans);
        if (r->pause_us)
            usleep(r->pause_us);
        uint64_t began = clock_ns();
        if (pread(r->fds[spans[0].file], target, spans[0].bytes, (off_t)spans[0].offset) != (ssize_t)spans[0].bytes)
            fprintf(stderr, "bench_pinned: a read failed; is the folder a package?\n");
        atomic_fetch_add(&r->reading_ns, clock_ns() - began);
        atomic_fetch_add(&r->bytes, spans[0].bytes);
    }
    return NULL;
}

static double read_rate(struct reading *r)
{
    pthread_t threads[MOST_READERS];
    r->until = clock_ns() + ROUND_NS;
    for (int i = 0; i < r->readers; i++)
        pthread_create(&threads[i], NULL, read_experts, r);
    for (int i = 0; i < r->readers; i++)
        pthread_join(threads[i], NULL);
    return (double)atomic_load(&r->bytes) / (double)atomic_load(&r->reading_ns) * r->readers;
}

// One copy at a time, each slot in turn, on the queue of the copies.
static double copy_rate(gpu *g, gpu_buf *to, const struct reading *r)
{
    uint64_t began = clock_ns(), bytes = 0;
    for (uint64_t i = 0; clock_ns() < began + ROUND_NS; i++, bytes += r->room)
        gpu_copy_wait(g, gpu_copy(g, to, 0, r->memory + i % (unsigned)r->readers * r->room, r->room));
    return (double)bytes / (double)(clock_ns() - began);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static char *tell_of(gpu *g, char *pages, uint64_t bytes)
{
    cl_int rc;
    cl_mem memory = clCreateBuffer(g->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, pages, &rc);
    char *mapped = rc != CL_SUCCESS ? NULL
                                    : clEnqueueMapBuffer(g->queue, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                                         bytes, 0, NULL, NULL, &rc);
    return rc == CL_SUCCESS ? mapped : NULL; // the process ends soon: nobody unmaps it
}

int main(int argc, char **argv)
{
    static double reads[N_KINDS][MOST_ROUNDS], copies[N_KINDS][MOST_ROUNDS];
    int rounds = argc > 3 ? atoi(argv[3]) : 9, readers = argc > 4 ? atoi(argv[4]) : 8;
    int pause_us = argc > 5 ? atoi(argv[5]) : 0;
    struct package package;
    struct moe_err err;
    struct gpu_error device;
    if (argc < 3 || rounds < 1 || rounds > MOST_ROUNDS || readers < 1 || readers > MOST_READERS || pause_us < 0)
        return puts("bench_pinned: name a package and a device"), 0;
    if (package_open(argv[1], &package, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    gpu *g = gpu_open(&(struct gpu_options){.selector = argv[2]}, &device);
    if (!g)
        return fprintf(stderr, "%s\n", device.text), 1;
    uint64_t room = (package_slot_bytes(&package) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *told = gpu_pages((unsigned)readers * room);
    char *memory[N_KINDS] = {gpu_host_alloc(g, (unsigned)readers * room, &device),
                             g->context ? tell_of(g, told, (unsigned)readers * room) : told,
                             gpu_pages((unsigned)readers * room)};
    gpu_buf *to = gpu_buf_new(g, room, &device);
    int *fds = calloc(package.n_files, sizeof *fds);
    for (uint32_t i = 0; i < package.n_files; i++)
        fds[i] = open(package.files[i].path, O_RDONLY | O_DIRECT);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < N_KINDS; i++) {
            int kind = (i + round) % N_KINDS;
            struct reading r = {.package = &package,
                                .fds = fds,
                                .memory = memory[kind],
                                .room = room,
                                .readers = readers,
                                .pause_us = (useconds_t)pause_us};
            if (!r.memory)
                continue;
            reads[kind][round] = read_rate(&r);
            copies[kind][round] = copy_rate(g, to, &r);
        }
    for (int kind = 0; kind < N_KINDS; kind++) {
        qsort(reads[kind], (size_t)rounds, sizeof reads[kind][0], compare);
        qsort(copies[kind], (size_t)rounds, sizeof copies[kind][0], compare);
        printf("%s%s: read %.2f GB/s (%.2f to %.2f), copied to the device %.2f GB/s (%.2f to %.2f)\n", names[kind],
               memory[kind] == told && kind == 1 ? ", the same pages" : "", reads[kind][rounds / 2], reads[kind][0],
               reads[kind][rounds - 1], copies[kind][rounds / 2], copies[kind][0], copies[kind][rounds - 1]);
    }
    return 0;
}
