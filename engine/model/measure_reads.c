// SPDX-License-Identifier: GPL-3.0-or-later
// How fast experts could be read at best: whole experts from random places by plain threads, nothing of the store's.
#define _GNU_SOURCE // O_DIRECT
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/draws.h"
#include "engine/base/err.h"
#include "engine/model/model.h"

enum { RAW_PAGE = 4096 };

struct raw {
    const struct package *package;
    const int *fds; // [package->n_files]
    uint64_t until_ns;
    _Atomic uint64_t bytes;
    atomic_int failed_errno;
};

struct raw_thread {
    struct raw *raw;
    pthread_t thread;
    uint64_t random;
    char *memory; // of a slot and the pages around its spans
};

// The span's pages, from their beginning to their end.
static bool read_span(struct raw_thread *self, const struct expert_span *span, char *target)
{
    uint64_t first = span->offset / RAW_PAGE * RAW_PAGE;
    size_t length = (size_t)((span->offset + span->bytes - first + RAW_PAGE - 1) / RAW_PAGE * RAW_PAGE);
    for (size_t done = 0; done < length && first + done < span->offset + span->bytes;) {
        ssize_t n = pread(self->raw->fds[span->file], target + done, length - done, (off_t)(first + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            atomic_store(&self->raw->failed_errno, n < 0 ? errno : EIO);
            return false;
        }
        done += (size_t)n;
    }
    atomic_fetch_add(&self->raw->bytes, span->bytes);
    return true;
}

static void *run(void *argument)
{
    struct raw_thread *self = argument;
    const struct package *package = self->raw->package;
    const struct shape *shape = &package->shape;
    while (clock_ns() < self->raw->until_ns) {
        struct expert_span spans[MAX_EXPERT_SPANS];
        uint32_t layer =
            shape->first_k_dense_replace + draw_below(&self->random, shape->n_layers - shape->first_k_dense_replace);
        uint32_t n = package_spans(package, layer, draw_below(&self->random, shape->n_routed_experts), spans);
        char *target = self->memory;
        for (uint32_t i = 0; i < n; i++, target += 2 * RAW_PAGE) {
            if (!read_span(self, &spans[i], target))
                return NULL;
            target += spans[i].bytes / RAW_PAGE * RAW_PAGE;
        }
    }
    return NULL;
}

static int open_files(const struct package *package, bool direct, int *fds, struct moe_err *err)
{
    for (uint32_t i = 0; i < package->n_files; i++) {
        const char *path = package->files[i].path;
        fds[i] = open(path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
        if (fds[i] < 0)
            return moe_fail_file(err, MOE_IO, path, errno, "cannot be read for the benchmark");
    }
    return MOE_OK;
}

static int measure(struct raw *raw, const struct moe_raw_reads *how, double *bytes_per_s, struct moe_err *err)
{
    struct raw_thread threads[MOE_MAX_READERS] = {0};
    size_t room = (size_t)package_slot_bytes(raw->package) + (size_t)MAX_EXPERT_SPANS * 2 * RAW_PAGE;
    unsigned started = 0;
    uint64_t began = clock_ns();
    raw->until_ns = began + (uint64_t)(how->seconds * 1e9);
    for (; started < how->threads && started < MOE_MAX_READERS; started++) {
        struct raw_thread *thread = &threads[started];
        *thread = (struct raw_thread){.raw = raw, .random = how->seed * 977 + started};
        thread->memory = gpu_pages(room);
        if (!thread->memory || pthread_create(&thread->thread, NULL, run, thread) != 0) {
            free(thread->memory);
            break;
        }
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i].thread, NULL);
        free(threads[i].memory);
    }
    *bytes_per_s = (double)atomic_load(&raw->bytes) * 1e9 / (double)(clock_ns() - began);
    if (started < how->threads)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %u readers", how->threads);
    int failed = atomic_load(&raw->failed_errno);
    return failed ? moe_fail_file(err, MOE_IO, raw->package->directory, failed, "an expert could not be read") : MOE_OK;
}

int moe_model_measure_reads(const moe_model *model, const struct moe_raw_reads *how, double *bytes_per_s,
                            struct moe_err *err)
{
    const struct package *package = &model->package;
    *bytes_per_s = 0;
    int *fds = malloc((package->n_files + 1) * sizeof *fds);
    if (!fds)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for measuring");
    for (uint32_t i = 0; i < package->n_files; i++)
        fds[i] = -1;
    struct raw raw = {.package = package, .fds = fds};
    int code = open_files(package, how->direct, fds, err);
    if (!code)
        code = measure(&raw, how, bytes_per_s, err);
    for (uint32_t i = 0; i < package->n_files; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(fds);
    return code;
}
