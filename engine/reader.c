// SPDX-License-Identifier: GPL-3.0-or-later
#include "reader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "err.h"

struct ring {
    struct read_request **items; // [capacity]
    uint32_t first;
    uint32_t count;
};

struct reader {
    moe_read_fn *read;
    void *context;
    uint32_t capacity;
    unsigned n_threads;
    pthread_t threads[READER_MAX_THREADS];
    // Below: under the lock.
    pthread_mutex_t lock;
    pthread_cond_t wanted;   // a request was queued, or closing
    pthread_cond_t finished; // a request is done
    struct ring queued;
    struct ring done;
    uint32_t running;
    bool closing;
};

// Never overflows: submit keeps queued + running + done within the capacity.
static void ring_push(const reader *r, struct ring *ring, struct read_request *request)
{
    ring->items[(ring->first + ring->count) % r->capacity] = request;
    ring->count++;
}

static struct read_request *ring_pop(const reader *r, struct ring *ring)
{
    struct read_request *request = ring->items[ring->first];
    ring->first = (ring->first + 1) % r->capacity;
    ring->count--;
    return request;
}

static ptrdiff_t read_at(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    (void)context;
    return pread(fd, target, length, (off_t)offset);
}

static void fill(const reader *r, struct read_request *request)
{
    request->result = READ_FULL;
    request->sys_errno = 0;
    request->delivered = 0;
    while (request->delivered < request->length) {
        ptrdiff_t got = r->read(r->context, request->fd, (char *)request->target + request->delivered,
                                request->length - request->delivered, request->offset + request->delivered);
        if (got > 0) {
            request->delivered += (size_t)got;
        } else if (got == 0) {
            request->result = READ_EOF;
            return;
        } else if (errno != EINTR) {
            request->result = READ_ERROR;
            request->sys_errno = errno;
            return;
        }
    }
}

static void *serve(void *argument)
{
    reader *r = argument;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->queued.count && !r->closing)
            pthread_cond_wait(&r->wanted, &r->lock);
        if (r->closing)
            break;
        struct read_request *request = ring_pop(r, &r->queued);
        r->running++;
        pthread_mutex_unlock(&r->lock);
        fill(r, request);
        pthread_mutex_lock(&r->lock);
        r->running--;
        ring_push(r, &r->done, request);
        pthread_cond_signal(&r->finished);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

// Signals are for the thread that handles them; a reader that took one would only lose time.
static int start_threads(reader *r, unsigned threads)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (!failed && r->n_threads < threads) {
        failed = pthread_create(&r->threads[r->n_threads], NULL, serve, r);
        if (!failed)
            r->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static int init_locks(reader *r)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic))
        return -1;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&r->finished, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (failed)
        return -1;
    if (pthread_cond_init(&r->wanted, NULL))
        goto destroy_finished;
    if (pthread_mutex_init(&r->lock, NULL))
        goto destroy_wanted;
    return 0;

destroy_wanted:
    pthread_cond_destroy(&r->wanted);
destroy_finished:
    pthread_cond_destroy(&r->finished);
    return -1;
}

int reader_open(const struct reader_options *options, reader **out, struct moe_err *err)
{
    *out = NULL;
    if (!options->threads || options->threads > READER_MAX_THREADS || !options->capacity)
        return moe_fail(err, MOE_BAD_ARGUMENT, "%u reader threads asked for: 1 to %d work", options->threads,
                        READER_MAX_THREADS);
    reader *r = calloc(1, sizeof *r);
    if (!r)
        goto no_memory;
    r->read = options->read ? options->read : read_at;
    r->context = options->context;
    r->capacity = options->capacity;
    r->queued.items = calloc(r->capacity, sizeof *r->queued.items);
    r->done.items = calloc(r->capacity, sizeof *r->done.items);
    if (!r->queued.items || !r->done.items || init_locks(r))
        goto free_reader;
    int failed = start_threads(r, options->threads);
    if (failed) {
        reader_close(r);
        return moe_fail(err, MOE_NO_MEMORY, "could not start %u reader threads: %s; raise ulimit -u or -v",
                        options->threads, strerror(failed));
    }
    *out = r;
    return 0;

free_reader:
    free(r->done.items);
    free(r->queued.items);
    free(r);
no_memory:
    return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert readers");
}

void reader_close(reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_broadcast(&r->wanted);
    pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wanted);
    pthread_cond_destroy(&r->finished);
    free(r->done.items);
    free(r->queued.items);
    free(r);
}

bool reader_submit(reader *r, struct read_request *request)
{
    pthread_mutex_lock(&r->lock);
    bool room = r->queued.count + r->running + r->done.count < r->capacity;
    if (room) {
        ring_push(r, &r->queued, request);
        pthread_cond_signal(&r->wanted);
    }
    pthread_mutex_unlock(&r->lock);
    return room;
}

bool reader_withdraw(reader *r, const struct read_request *request)
{
    bool found = false;
    pthread_mutex_lock(&r->lock);
    // Turns the ring once, leaving the request out.
    for (uint32_t left = r->queued.count; left; left--) {
        struct read_request *queued = ring_pop(r, &r->queued);
        if (queued == request)
            found = true;
        else
            ring_push(r, &r->queued, queued);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static struct timespec deadline_after(int wait_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += wait_ms / 1000;
    at.tv_nsec += wait_ms % 1000 * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

struct read_request *reader_reap(reader *r, int wait_ms)
{
    struct timespec deadline = {0, 0};
    if (wait_ms > 0)
        deadline = deadline_after(wait_ms);
    pthread_mutex_lock(&r->lock);
    bool late = wait_ms == 0;
    while (!r->done.count && r->queued.count + r->running && !late) {
        if (wait_ms > 0)
            late = pthread_cond_timedwait(&r->finished, &r->lock, &deadline) == ETIMEDOUT;
        else
            pthread_cond_wait(&r->finished, &r->lock);
    }
    struct read_request *request = r->done.count ? ring_pop(r, &r->done) : NULL;
    pthread_mutex_unlock(&r->lock);
    return request;
}
