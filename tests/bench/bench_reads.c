// SPDX-License-Identifier: GPL-3.0-or-later
// Experts through the store against the bare disk: the same experts, random ones, as many at once, read by plain
// threads past the page cache; interleaved, medians. `bench_reads DIR [ROUNDS]`; without DIR it has nothing to read.
#define _GNU_SOURCE // O_DIRECT
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "expert_store.h"

enum { WINDOW = 16, READERS = 8, MOST_ROUNDS = 99 };

struct work {
    const struct package *package;
    uint32_t n;
    uint32_t (*picks)[2]; // layer, expert
    int *fds;             // of package->files
    atomic_uint next;
};

static void *read_plainly(void *context)
{
    struct work *work = context;
    char *target = aligned_alloc(4096, package_slot_bytes(work->package));
    for (uint32_t i = atomic_fetch_add(&work->next, 1); i < work->n; i = atomic_fetch_add(&work->next, 1)) {
        struct expert_span spans[MAX_EXPERT_SPANS];
        uint32_t n = package_spans(work->package, work->picks[i][0], work->picks[i][1], spans);
        for (uint32_t s = 0; s < n; s++)
            if (pread(work->fds[spans[s].file], target, spans[s].bytes, (off_t)spans[s].offset) !=
                (ssize_t)spans[s].bytes)
                fprintf(stderr, "bench_reads: a plain read failed; is the folder a package?\n");
    }
    free(target);
    return NULL;
}

static uint64_t plainly(struct work *work)
{
    pthread_t threads[READERS];
    uint64_t began = clock_ns();
    atomic_store(&work->next, 0);
    for (int i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, read_plainly, work);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    return clock_ns() - began;
}

// As many under way as the window allows, taken up in order: the way of a prefill sweep.
static uint64_t through_store(struct work *work, expert_store *store)
{
    struct expert_place places[WINDOW];
    uint64_t began = clock_ns();
    for (uint32_t i = 0; i < work->n + WINDOW; i++) {
        struct expert_place *place = &places[i % WINDOW];
        if (i >= WINDOW) {
            if (expert_wait(store, place, NULL, NULL, NULL))
                fprintf(stderr, "bench_reads: a read failed\n");
            expert_release(store, place, 1);
        }
        int32_t id = i < work->n ? (int32_t)work->picks[i][1] : 0;
        struct expert_request request = {
            .layer = i < work->n ? work->picks[i][0] : 0, .ids = &id, .n = 1, .use = CACHE_PREFILL};
        if (i < work->n && expert_acquire(store, &request, place, NULL))
            fprintf(stderr, "bench_reads: no room\n");
    }
    return clock_ns() - began;
}

// Random experts, no two alike within two windows: nothing is in the cache when it is asked for.
static void pick(struct work *work)
{
    const struct shape *s = &work->package->shape;
    for (uint32_t i = 0; i < work->n; i++) {
        bool again = true;
        while (again) {
            work->picks[i][0] = s->first_k_dense_replace + (uint32_t)rand() % (s->n_layers - s->first_k_dense_replace);
            work->picks[i][1] = (uint32_t)rand() % s->n_routed_experts;
            again = false;
            for (uint32_t k = i > 2 * WINDOW ? i - 2 * WINDOW : 0; k < i; k++)
                again |= memcmp(work->picks[k], work->picks[i], sizeof work->picks[i]) == 0;
        }
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double plain[MOST_ROUNDS], ours[MOST_ROUNDS], ratio[MOST_ROUNDS];
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    struct package package;
    struct moe_err err;
    struct gpu_error device;
    expert_store *store;
    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS)
        return puts("bench_reads: name a package to read from"), 0;
    if (package_open(argv[1], &package, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    gpu *g = gpu_open(&(struct gpu_options){.selector = "ref"}, &device);
    uint64_t slot = package_slot_bytes(&package);
    struct expert_store_options options = {.cache_bytes = (WINDOW + 1) * slot, .io = MOE_IO_DIRECT, .readers = READERS};
    if (expert_store_open(g, &package, &options, &store, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    struct work work = {.package = &package, .n = (uint32_t)((UINT64_C(384) << 20) / slot) + WINDOW};
    work.picks = calloc(work.n, sizeof *work.picks);
    work.fds = calloc(package.n_files, sizeof *work.fds);
    for (uint32_t i = 0; i < package.n_files; i++)
        work.fds[i] = open(package.files[i].path, O_RDONLY | O_DIRECT);
    for (int round = 0; round < rounds; round++) {
        uint64_t read = expert_store_counts(store).bytes_read;
        pick(&work);
        uint64_t plain_ns = plainly(&work);
        uint64_t ours_ns = through_store(&work, store);
        read = expert_store_counts(store).bytes_read - read;
        plain[round] = (double)work.n * (double)slot / (double)plain_ns;
        ours[round] = (double)read / (double)ours_ns;
        ratio[round] = ours[round] / plain[round];
    }
    qsort(plain, (size_t)rounds, sizeof *plain, compare);
    qsort(ours, (size_t)rounds, sizeof *ours, compare);
    qsort(ratio, (size_t)rounds, sizeof *ratio, compare);
    printf("experts of %.2f MB, %d readers, %d rounds of %u: plain %.2f GB/s, through the store %.2f GB/s, ratio %.3f "
           "(%.3f to %.3f)\n",
           (double)slot / 1e6, READERS, rounds, work.n, plain[rounds / 2], ours[rounds / 2], ratio[rounds / 2],
           ratio[0], ratio[rounds - 1]);
    for (uint32_t i = 0; i < package.n_files; i++)
        close(work.fds[i]);
    free(work.fds);
    free(work.picks);
    expert_store_close(store);
    package_release(&package);
    gpu_close(g);
    return 0;
}
