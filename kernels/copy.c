// SPDX-License-Identifier: GPL-3.0-or-later
// Copies on a queue of their own, so that bytes travel while ops compute.
#include "kernels/device.h"

#include <stdlib.h>
#include <string.h>

static bool open_queue(gpu *g)
{
    cl_int rc = CL_SUCCESS;
    if (!g->copy_queue)
        g->copy_queue = clCreateCommandQueue(g->context, g->device, 0, &rc);
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "%s gives no second queue", g->info.name);
    return rc == CL_SUCCESS;
}

static struct fence *next_fence(gpu *g)
{
    struct fences *f = &g->copies;
    if (f->n == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 64;
        struct fence *items = realloc(f->items, capacity * sizeof *items);
        if (!items) {
            gpu_fail(g, GPU_OUT_OF_MEMORY, 0, "no memory for a copy's number");
            return NULL;
        }
        f->items = items;
        f->capacity = capacity;
    }
    return &f->items[f->n];
}

// A command of the copies' queue was given, with the event.
static uint64_t number(gpu *g, struct fence *fence)
{
    struct fences *f = &g->copies;
    fence->number = ++f->last;
    f->n++;
    g->counts.launches++;
    clFlush(g->copy_queue);
    return f->last;
}

// A range of a buffer from the source, or else into the target.
struct travel {
    gpu_buf *buf;
    uint64_t offset, bytes;
    const void *source;
    void *target;
};

static cl_int begin_travel(gpu *g, const struct travel *t, cl_event *event)
{
    return t->source ? clEnqueueWriteBuffer(g->copy_queue, t->buf->memory, CL_FALSE, t->offset, t->bytes, t->source, 0,
                                            NULL, event)
                     : clEnqueueReadBuffer(g->copy_queue, t->buf->memory, CL_FALSE, t->offset, t->bytes, t->target, 0,
                                           NULL, event);
}

static uint64_t travel(gpu *g, const struct travel *t)
{
    if (gpu_failed(g) || !gpu_in_range(g, t->buf, t->offset, t->bytes))
        return g->copies.passed;
    if (t->source && !g->info.shares_host_memory)
        g->counts.bytes_written += t->bytes;
    if (t->buf->host) {
        char *here = (char *)t->buf->host + t->offset;
        memcpy(t->source ? here : t->target, t->source ? t->source : here, t->bytes);
        return g->copies.passed;
    }
    struct fence *fence = open_queue(g) ? next_fence(g) : NULL;
    if (!fence)
        return g->copies.passed;
    cl_int rc = begin_travel(g, t, &fence->event);
    if (rc == CL_SUCCESS)
        return number(g, fence);
    gpu_fail(g, GPU_LAUNCH, rc, "a copy of %llu bytes %s %s failed", (unsigned long long)t->bytes,
             t->source ? "to" : "from", g->info.name);
    return g->copies.passed;
}

uint64_t gpu_copy(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes)
{
    return travel(g, &(struct travel){.buf = buf, .offset = offset, .bytes = bytes, .source = source});
}

uint64_t gpu_copy_back(gpu *g, gpu_buf *buf, uint64_t offset, void *target, uint64_t bytes)
{
    return travel(g, &(struct travel){.buf = buf, .offset = offset, .bytes = bytes, .target = target});
}

void *gpu_map(gpu *g, gpu_buf *buf)
{
    if (buf->host || !buf->pages)
        return buf->host;
    cl_int rc = CL_SUCCESS;
    if (open_queue(g)) // waits for no op: those have a queue of their own
        buf->mapped = clEnqueueMapBuffer(g->copy_queue, buf->memory, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                         buf->bytes, 0, NULL, NULL, &rc);
    if (rc != CL_SUCCESS) {
        gpu_fail(g, GPU_LAUNCH, rc, "%s does not map %llu bytes", g->info.name, (unsigned long long)buf->bytes);
        buf->mapped = NULL;
    }
    return buf->mapped;
}

uint64_t gpu_unmap(gpu *g, gpu_buf *buf)
{
    struct fences *f = &g->copies;
    if (!buf->mapped)
        return f->passed;
    struct fence *fence = next_fence(g);
    cl_int rc = clEnqueueUnmapMemObject(g->copy_queue, buf->memory, buf->mapped, 0, NULL, fence ? &fence->event : NULL);
    buf->mapped = NULL;
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "%s does not take back %llu mapped bytes", g->info.name,
                 (unsigned long long)buf->bytes);
    if (rc != CL_SUCCESS || !fence)
        return f->passed; // nobody may use it: the error is there
    return number(g, fence);
}

bool gpu_copy_passed(gpu *g, uint64_t copy)
{
    return gpu_fences_passed(g, &g->copies, copy);
}

void gpu_copy_wait(gpu *g, uint64_t copy)
{
    if (!gpu_copy_passed(g, copy))
        gpu_fences_wait(g, &g->copies, copy);
}

void gpu_follow(gpu *g, uint64_t copy)
{
    const struct fences *f = &g->copies;
    size_t at = 0;
    if (gpu_failed(g) || gpu_copy_passed(g, copy) || gpu_failed(g))
        return;
    while (at + 1 < f->n && f->items[at].number < copy)
        at++;
    cl_int rc = clEnqueueBarrierWithWaitList(g->queue, 1, &f->items[at].event, NULL);
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "%s lets no op wait for a copy", g->info.name);
    g->dirty = true;
    g->fenced = false;
}

void gpu_copies_finish(gpu *g)
{
    gpu_copy_wait(g, g->copies.last);
}

void gpu_copies_release(gpu *g)
{
    gpu_copies_finish(g);
    free(g->copies.items);
    if (g->copy_queue)
        clReleaseCommandQueue(g->copy_queue);
}
