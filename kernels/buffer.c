// SPDX-License-Identifier: GPL-3.0-or-later
// Buffers, host memory, copies between them, and fences.
//
// Where the device shares the host's memory (CPU devices), a buffer is memory of ours that the driver uses in place:
// PoCL's own pointers are not 4096-aligned, as direct reads from disk need. So is one that the host fills where the
// device maps it (integrated GPUs): memory of whole pages is what their makers ask for so that nothing is copied.
#define _GNU_SOURCE // madvise
#include "kernels/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, STAGING_HALF = 8 << 20, SCRATCH_STEP = 1 << 20 };

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

void *gpu_pages(uint64_t bytes)
{
    if (bytes > PTRDIFF_MAX - HUGE_PAGE) // which the sanitizer's malloc ends the program for
        return NULL;
    if (bytes < HUGE_PAGE)
        return aligned_alloc(PAGE, round_up(bytes, PAGE));
    void *pages = NULL; // posix_memalign: of a size that is no multiple of the alignment, too
    if (posix_memalign(&pages, HUGE_PAGE, round_up(bytes, PAGE)))
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(pages, round_up(bytes, PAGE), MADV_HUGEPAGE); // a wish
#endif
    return pages;
}

static gpu_buf *new_buf(gpu *g, uint64_t bytes, bool in_pages, struct gpu_error *err)
{
    gpu_buf *buf = calloc(1, sizeof *buf);
    if (!buf || bytes == 0 || bytes > g->info.max_alloc_bytes)
        goto fail;
    buf->owner = g;
    buf->bytes = bytes;
    if (in_pages) {
        buf->pages = gpu_pages(bytes);
        if (!buf->pages)
            goto fail;
    }
    if (g->info.shares_host_memory)
        buf->host = buf->pages;
    if (g->context) {
        cl_int rc;
        buf->memory = clCreateBuffer(g->context, CL_MEM_READ_WRITE | (in_pages ? CL_MEM_USE_HOST_PTR : 0),
                                     in_pages ? round_up(bytes, PAGE) : bytes, buf->pages, &rc);
        if (rc != CL_SUCCESS)
            goto fail;
    }
    return buf;
fail:
    gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "device %s (%s): no buffer of %llu bytes (largest: %llu)",
                  g->info.selector, g->info.name, (unsigned long long)bytes,
                  (unsigned long long)g->info.max_alloc_bytes);
    if (buf)
        free(buf->pages);
    free(buf);
    return NULL;
}

gpu_buf *gpu_buf_new(gpu *g, uint64_t bytes, struct gpu_error *err)
{
    return new_buf(g, bytes, g->info.shares_host_memory, err);
}

gpu_buf *gpu_buf_new_shared(gpu *g, uint64_t bytes, struct gpu_error *err)
{
    return new_buf(g, bytes, g->info.shares_host_memory || g->info.maps_host_memory, err);
}

void gpu_buf_free(gpu_buf *buf)
{
    if (!buf)
        return;
    gpu_wait_for_all(buf->owner);
    gpu_unmap(buf->owner, buf);
    gpu_copies_finish(buf->owner);
    if (buf->memory)
        clReleaseMemObject(buf->memory);
    free(buf->pages);
    free(buf);
}

uint64_t gpu_buf_bytes(const gpu_buf *buf)
{
    return buf->bytes;
}

void *gpu_buf_host(gpu_buf *buf)
{
    return buf->host;
}

static gpu_buf *grown(gpu *g, gpu_buf **buf, uint64_t bytes)
{
    if (*buf && (*buf)->bytes >= bytes)
        return *buf;
    gpu_buf_free(*buf);
    struct gpu_error err = {0};
    *buf = gpu_buf_new(g, round_up(bytes + 1, SCRATCH_STEP), &err);
    if (!*buf)
        gpu_fail(g, err.code, err.native, "%s", err.text);
    return *buf;
}

gpu_buf *gpu_scratch(gpu *g, uint64_t bytes)
{
    return grown(g, &g->scratch, bytes);
}

gpu_buf *gpu_gates(gpu *g, uint64_t bytes)
{
    return grown(g, &g->gates, bytes);
}

gpu_buf *gpu_plain(gpu *g, unsigned which, uint64_t bytes)
{
    return grown(g, &g->plain[which], bytes);
}

// Memory of the driver's that is page-locked once it is mapped. The driver's alignment is not ours.
static bool pin_block(gpu *g, struct host_block *block)
{
    cl_int rc;
    block->pinned =
        clCreateBuffer(g->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, block->bytes + PAGE, NULL, &rc);
    if (rc != CL_SUCCESS)
        return false;
    block->mapped = clEnqueueMapBuffer(g->queue, block->pinned, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                       block->bytes + PAGE, 0, NULL, NULL, &rc);
    if (rc != CL_SUCCESS) {
        clReleaseMemObject(block->pinned);
        return false;
    }
    block->memory = (void *)round_up((uintptr_t)block->mapped, PAGE);
    return true;
}

void *gpu_host_alloc(gpu *g, uint64_t bytes, struct gpu_error *err)
{
    struct host_block *block = calloc(1, sizeof *block);
    if (!block || bytes == 0)
        goto fail;
    block->bytes = bytes;
    if (g->info.shares_host_memory) {
        block->memory = gpu_pages(bytes);
        if (!block->memory)
            goto fail;
    } else if (!pin_block(g, block)) {
        goto fail;
    }
    block->next = g->blocks;
    g->blocks = block;
    return block->memory;
fail:
    gpu_error_set(err, GPU_OUT_OF_MEMORY, 0, "no %llu bytes of page-locked memory for device %s",
                  (unsigned long long)bytes, g->info.selector);
    free(block);
    return NULL;
}

void gpu_host_free(gpu *g, void *memory)
{
    for (struct host_block **link = &g->blocks; *link; link = &(*link)->next) {
        struct host_block *block = *link;
        if (block->memory != memory)
            continue;
        *link = block->next;
        if (block->pinned) {
            gpu_copies_finish(g);
            clEnqueueUnmapMemObject(g->queue, block->pinned, block->mapped, 0, NULL, NULL);
            g->dirty = true;
            gpu_wait_for_all(g); // which tells of ops that were lost before
            clReleaseMemObject(block->pinned);
        } else {
            free(block->memory);
        }
        free(block);
        return;
    }
}

static bool is_pinned(const gpu *g, const void *memory, uint64_t bytes)
{
    for (const struct host_block *block = g->blocks; block; block = block->next) {
        uintptr_t from = (uintptr_t)block->memory;
        uintptr_t at = (uintptr_t)memory;
        if (block->pinned && at >= from && at - from <= block->bytes && bytes <= block->bytes - (at - from))
            return true;
    }
    return false;
}

bool gpu_in_range(gpu *g, const gpu_buf *buf, uint64_t offset, uint64_t bytes)
{
    if (buf && offset <= buf->bytes && bytes <= buf->bytes - offset)
        return true;
    gpu_fail(g, GPU_ARGUMENT, 0, "a copy of %llu bytes at %llu lies outside its buffer of %llu",
             (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)(buf ? buf->bytes : 0));
    return false;
}

static void enqueue_write(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes, cl_bool blocking)
{
    cl_int rc = clEnqueueWriteBuffer(g->queue, buf->memory, blocking, offset, bytes, source, 0, NULL, NULL);
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "a write of %llu bytes to %s failed", (unsigned long long)bytes, g->info.name);
    g->dirty = true;
    g->fenced = false;
}

// Through the two halves of the staging memory; a half is taken again when its writes are done.
static void staged_write(gpu *g, gpu_buf *buf, uint64_t offset, const char *source, uint64_t bytes)
{
    struct gpu_error err = {0};
    if (!g->staging)
        g->staging = gpu_host_alloc(g, 2 * (uint64_t)STAGING_HALF, &err);
    if (!g->staging)
        gpu_fail(g, err.code, err.native, "%s", err.text);
    while (bytes > 0 && !gpu_failed(g)) {
        uint64_t left = STAGING_HALF - g->staging_used % STAGING_HALF;
        uint64_t piece = bytes < left ? bytes : left;
        char *place = (char *)g->staging + g->staging_used;
        memcpy(place, source, piece);
        enqueue_write(g, buf, offset, place, piece, CL_FALSE);
        source += piece;
        offset += piece;
        bytes -= piece;
        g->staging_used = (g->staging_used + piece) % (2 * (uint64_t)STAGING_HALF);
        if (piece == left) {
            uint64_t fence = gpu_fence(g);
            gpu_fence_wait(g, g->staging_fence);
            g->staging_fence = fence;
        }
    }
}

void gpu_write(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes)
{
    if (gpu_failed(g) || !gpu_in_range(g, buf, offset, bytes) || bytes == 0)
        return;
    if (buf->host && !g->dirty) {
        memcpy((char *)buf->host + offset, source, bytes);
        return;
    }
    if (!g->info.shares_host_memory)
        g->counts.bytes_written += bytes;
    if (is_pinned(g, source, bytes)) {
        enqueue_write(g, buf, offset, source, bytes, CL_TRUE);
        g->counts.waits++;
    } else {
        staged_write(g, buf, offset, source, bytes);
    }
}

// All commands are done: so are all fences.
static void all_done(gpu *g)
{
    for (size_t i = 0; i < g->fences.n; i++)
        clReleaseEvent(g->fences.items[i].event);
    g->fences.n = 0;
    if (g->fences.last < g->fences.promised)
        g->fences.last = g->fences.promised;
    g->fences.passed = g->fences.last;
    g->dirty = false;
    if (g->profile)
        profile_take_in(g->profile);
}

void gpu_wait_for_all(gpu *g)
{
    if (!g->dirty)
        return;
    g->counts.waits++;
    cl_int rc = clFinish(g->queue);
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "%s lost the commands it was given", g->info.name);
    all_done(g);
}

// With an event, if `event` is not NULL. False: it failed.
static bool enqueue_read_event(gpu *g, const struct gpu_range *r, cl_bool blocking, cl_event *event)
{
    cl_int rc = clEnqueueReadBuffer(g->queue, r->buf->memory, blocking, r->offset, r->bytes, r->target, 0, NULL, event);
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "a read of %llu bytes from %s failed", (unsigned long long)r->bytes, g->info.name);
    return rc == CL_SUCCESS;
}

static void enqueue_read(gpu *g, const struct gpu_range *r, cl_bool blocking)
{
    enqueue_read_event(g, r, blocking, NULL);
}

int gpu_read(gpu *g, gpu_buf *buf, uint64_t offset, void *target, uint64_t bytes, struct gpu_error *err)
{
    return gpu_read_ranges(g, &(struct gpu_range){buf, offset, target, bytes}, 1, err);
}

// Whether groups met since somebody asked the last time is known with what they computed.
static void take_meeting(gpu *g)
{
    g->meeting.asked = g->meeting.met;
    if (!g->meeting.state[1])
        return;
    g->meeting.groups = 0;
    gpu_fail(
        g, GPU_LAUNCH, 0,
        "groups of %s waited for each other in vain, so what it computed is lost; from here on no op needs them to",
        g->info.name);
}

int gpu_read_ranges(gpu *g, const struct gpu_range *ranges, unsigned n, struct gpu_error *err)
{
    bool good = true;
    unsigned last = n; // of those whose bytes have to be fetched; n: none
    for (unsigned i = 0; i < n; i++) {
        const struct gpu_range *r = &ranges[i];
        good = good && gpu_in_range(g, r->buf, r->offset, r->bytes);
        if (good && r->bytes > 0 && !r->buf->host)
            last = i;
    }
    if (!good || gpu_failed(g) || last == n)
        gpu_wait_for_all(g);
    if (gpu_failed(g))
        return gpu_check(g, err);
    bool asks = last < n && g->meeting.met != g->meeting.asked;
    if (asks)
        enqueue_read(g, &(struct gpu_range){g->meeting.count, 0, g->meeting.state, sizeof g->meeting.state}, false);
    for (unsigned i = 0; i < n; i++) {
        if (ranges[i].buf->host)
            memcpy(ranges[i].target, (char *)ranges[i].buf->host + ranges[i].offset, ranges[i].bytes);
        else if (ranges[i].bytes > 0)
            enqueue_read(g, &ranges[i], i == last);
    }
    if (last < n && gpu_failed(g)) {
        g->dirty = true; // reads may be under way that nobody has waited for
        gpu_wait_for_all(g);
    } else if (last < n) {
        g->counts.waits++;
        all_done(g);
        if (asks)
            take_meeting(g);
    }
    return gpu_check(g, err);
}

// The next number is that of an event to come, and a place for it is there. False: there is no need for one, or no
// memory, and then all is waited for.
static bool next_fence(gpu *g)
{
    struct fences *f = &g->fences;
    f->last++;
    g->fenced = true;
    if (!g->dirty) {
        f->passed = f->last;
        return false;
    }
    if (f->n < f->capacity)
        return true;
    size_t capacity = f->capacity ? 2 * f->capacity : 64;
    struct fence *items = realloc(f->items, capacity * sizeof *items);
    if (!items) {
        gpu_wait_for_all(g); // then no event is needed
        return false;
    }
    f->items = items;
    f->capacity = capacity;
    return true;
}

static void put_fence(gpu *g, cl_event event)
{
    struct fences *f = &g->fences;
    f->items[f->n++] = (struct fence){f->last, event};
    clFlush(g->queue);
}

uint64_t gpu_fence(gpu *g)
{
    struct fences *f = &g->fences;
    if ((g->fenced && f->last > 0) || !next_fence(g))
        return f->last;
    cl_event event;
    cl_int rc = clEnqueueMarkerWithWaitList(g->queue, 0, NULL, &event);
    if (rc == CL_SUCCESS) {
        put_fence(g, event);
        return f->last;
    }
    gpu_fail(g, GPU_LAUNCH, rc, "%s refused a fence", g->info.name);
    gpu_wait_for_all(g);
    return f->last;
}

uint64_t gpu_fence_to_come(gpu *g)
{
    struct fences *f = &g->fences;
    if (g->fenced || !g->dirty)
        return gpu_fence(g);
    f->promised = f->last + 1;
    return f->promised;
}

// There is a fence of that number.
static void keep_promise(gpu *g, uint64_t fence)
{
    if (fence > g->fences.last)
        gpu_fence(g);
}

void gpu_flush(gpu *g)
{
    if (g->dirty)
        clFlush(g->queue);
}

// Forgets the `n` oldest fences, which have passed.
static void forget(struct fences *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        clReleaseEvent(f->items[i].event);
    if (n == 0)
        return;
    f->passed = f->items[n - 1].number;
    f->n -= n;
    memmove(f->items, f->items + n, f->n * sizeof *f->items);
}

// Done, or lost.
static bool is_over(gpu *g, const struct fence *fence)
{
    cl_int status = CL_QUEUED;
    cl_int rc = clGetEventInfo(fence->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (rc != CL_SUCCESS || status < 0)
        gpu_fail(g, GPU_LAUNCH, status, "%s lost the commands it was given", g->info.name);
    return rc != CL_SUCCESS || status <= CL_COMPLETE;
}

bool gpu_fences_passed(gpu *g, struct fences *f, uint64_t fence)
{
    size_t done = 0;
    while (fence > f->passed && done < f->n && f->items[done].number <= fence && is_over(g, &f->items[done]))
        done++;
    forget(f, done);
    return fence <= f->passed;
}

bool gpu_fence_passed(gpu *g, uint64_t fence)
{
    return gpu_fences_passed(g, &g->fences, fence);
}

bool gpu_fences_wait(gpu *g, struct fences *f, uint64_t fence)
{
    size_t upto = 0;
    while (upto < f->n && f->items[upto].number < fence)
        upto++;
    if (upto == f->n)
        return false;
    g->counts.waits++;
    cl_int rc = clWaitForEvents(1, &f->items[upto].event);
    if (rc != CL_SUCCESS)
        gpu_fail(g, GPU_LAUNCH, rc, "%s lost the commands it was given", g->info.name);
    for (size_t i = 0; i < upto; i++) // the wait tells of its own only
        is_over(g, &f->items[i]);
    forget(f, upto + 1);
    return true;
}

void gpu_fence_wait(gpu *g, uint64_t fence)
{
    keep_promise(g, fence);
    if (fence > g->fences.passed && !gpu_fences_wait(g, &g->fences, fence))
        gpu_wait_for_all(g);
}

// Whether bytes have to be fetched.
static bool is_fetched(gpu *g, const struct gpu_range *r)
{
    return gpu_in_range(g, r->buf, r->offset, r->bytes) && r->bytes > 0 && !r->buf->host;
}

// The last read's event is the fence: a marker behind it costs the host as much as a launch does.
static void read_and_fence(gpu *g, const struct gpu_range *r)
{
    cl_event event;
    g->dirty = true;
    if (!next_fence(g)) {
        enqueue_read(g, r, CL_TRUE);
        return;
    }
    if (enqueue_read_event(g, r, CL_FALSE, &event))
        put_fence(g, event);
    else
        gpu_wait_for_all(g); // else the number has no event, and whoever only looks at it never sees it pass
}

uint64_t gpu_read_begin(gpu *g, const struct gpu_range *ranges, unsigned n)
{
    const struct gpu_range *last = NULL;
    for (unsigned i = 0; i < n && !gpu_failed(g); i++) {
        if (!is_fetched(g, &ranges[i]))
            continue;
        if (last) {
            enqueue_read(g, last, CL_FALSE);
            g->dirty = true; // also where the next one fails: this one is under way
            g->fenced = false;
        }
        last = &ranges[i];
    }
    if (!last || gpu_failed(g))
        return gpu_fence(g);
    read_and_fence(g, last);
    return g->fences.last;
}

int gpu_read_end(gpu *g, const struct gpu_range *ranges, unsigned n, uint64_t fence, struct gpu_error *err)
{
    gpu_fence_wait(g, fence);
    for (unsigned i = 0; i < n && !gpu_failed(g); i++)
        if (ranges[i].buf->host)
            memcpy(ranges[i].target, (char *)ranges[i].buf->host + ranges[i].offset, ranges[i].bytes);
    return gpu_check(g, err);
}

int gpu_check(gpu *g, struct gpu_error *err)
{
    int code = (int)g->error.code;
    if (code && err)
        *err = g->error;
    g->error = (struct gpu_error){.code = GPU_OK};
    return code;
}

int gpu_finish(gpu *g, struct gpu_error *err)
{
    gpu_wait_for_all(g);
    return gpu_check(g, err);
}

struct gpu_counts gpu_counters(const gpu *g)
{
    return g->counts;
}

// What the host writes is what an op reads.
static bool passes_through(gpu *g, gpu_buf *from, gpu_buf *to, int byte)
{
    enum { BYTES = 4096 };
    char got[BYTES];
    char *target = gpu_map(g, from);
    if (!target)
        return false;
    memset(target, byte, BYTES);
    gpu_copy_wait(g, gpu_unmap(g, from));
    gpu_op_copy(g, &(struct args_copy){BYTES}, from, to);
    bool same = gpu_read(g, to, 0, got, BYTES, NULL) == GPU_OK;
    for (int i = 0; i < BYTES; i++)
        same = same && got[i] == byte;
    return same;
}

void gpu_prove_sharing(gpu *g)
{
    enum { BYTES = 4096 };
    if (!g->info.shares_host_memory && !g->info.maps_host_memory)
        return;
    gpu_buf *from = gpu_buf_new_shared(g, BYTES, NULL);
    gpu_buf *to = gpu_buf_new(g, BYTES, NULL);
    // Twice: a driver that copies once, when it makes the buffer, would pass the first time.
    bool same = from && to && passes_through(g, from, to, 1) && passes_through(g, from, to, 2);
    gpu_check(g, NULL);
    g->info.shares_host_memory &= same;
    g->info.maps_host_memory &= same;
    gpu_buf_free(from);
    gpu_buf_free(to);
    g->counts = (struct gpu_counts){0};
}

void gpu_release_all(gpu *g)
{
    all_done(g);
    gpu_copies_release(g);
    free(g->fences.items);
    gpu_buf_free(g->scratch);
    gpu_buf_free(g->gates);
    for (int i = 0; i < PLAIN_BUFFERS; i++)
        gpu_buf_free(g->plain[i]);
    gpu_buf_free(g->meeting.count);
    if (g->staging)
        gpu_host_free(g, g->staging);
}
