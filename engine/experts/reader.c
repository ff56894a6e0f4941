// SPDX-License-Identifier: GPL-3.0-or-later
// Queues of reads, and the threads that serve them.
#define _GNU_SOURCE // preadv2, RUSAGE_THREAD
#include "engine/experts/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"

#define WATCH_NS 300000u // most layers of a token ask again before

struct ring {
    struct read_request **items; // [capacity]
    uint32_t first;
    atomic_uint count; // changed under the lock, watched without it
};

struct reader_thread {
    reader *owner;
    pthread_t thread;
    char *bounce; // READER_BOUNCE bytes, NULL: none
    // Below: under the lock.
    bool past_cache;    // what it reads now does not go through the page cache
    int counters;       // /proc/thread-self/io of this thread, -1: not there
    uint64_t delivered; // bytes that devices delivered for it, when somebody looked last
};

struct reader {
    moe_read_fn *read;
    void *context;
    uint32_t capacity;
    unsigned n_threads;
    bool watches; // for WATCH_NS before a thread sleeps
    struct reader_thread threads[READER_MAX_THREADS];
    // Below: under the lock.
    pthread_mutex_t lock;
    pthread_cond_t wanted;   // a request was queued, or closing
    pthread_cond_t finished; // a request is done
    struct ring queued;
    struct ring prefetches; // queued too, but only begun when `queued` is empty
    struct ring done;
    uint32_t running;
    uint32_t wanted_now; // of queued and running, those that somebody waits for
    uint64_t busy_since, busy_ns;
    uint64_t process_delivered; // bytes that devices delivered for the process, when somebody looked last
    uint64_t ahead;             // that they delivered for the threads' reads, beyond what those that are done asked for
    bool closing;
};

// Never overflows: submit keeps all rings' requests and those being read within the capacity.
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

// The lock. Where threads watch, whoever has it is out again long before a sleep and an awakening would be over.
static void enter(reader *r)
{
    for (int tries = 0; r->watches && tries < 1000; tries++)
        if (!pthread_mutex_trylock(&r->lock))
            return;
    pthread_mutex_lock(&r->lock);
}

// Not under the lock: until one of the rings has something, but not for long. Whoever else wants the core gets it.
static void watch(const struct ring *a, const struct ring *b)
{
    for (uint64_t until = clock_ns() + WATCH_NS; !a->count && !b->count && clock_ns() < until;)
        sched_yield();
}

static ptrdiff_t read_at(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    (void)context;
    return pread(fd, target, length, (off_t)offset);
}

// A part of a file; with an alignment, offset, length and target are multiples of it.
struct range {
    int fd;
    uint32_t alignment;
    uint64_t offset;
    size_t length;
    char *target;
};

// What can be had without waiting for the device: what is in the page cache, from the range's beginning on. Returns
// the bytes; *tells becomes false where the file system can't.
static size_t take_cached(const struct range *range, bool *tells)
{
    struct iovec target = {range->target, range->length};
    ssize_t got = preadv2(range->fd, &target, 1, (off_t)range->offset, RWF_NOWAIT);
    *tells = got >= 0 || errno == EAGAIN;
    return got > 0 ? (size_t)got : 0;
}

// Bytes that devices delivered for the thread, or for the process; 0 as long as nothing was, and where the system does
// not count.
static uint64_t device_bytes(int who)
{
    struct rusage usage;
    return getrusage(who, &usage) == 0 ? (uint64_t)usage.ru_inblock * 512 : 0;
}

// The same of one of the threads, which need not be the one that asks.
static uint64_t thread_device_bytes(const struct reader_thread *thread, bool self)
{
    static const char name[] = "\nread_bytes: ";
    char text[512];
    ssize_t got = thread->counters < 0 ? -1 : pread(thread->counters, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    const char *at = strstr(text, name);
    if (at)
        return strtoull(at + sizeof name - 1, NULL, 10);
    return self ? device_bytes(RUSAGE_THREAD) : thread->delivered;
}

// How much of a read the page cache had; under the lock. all: device_bytes of the process after the read, which is a
// call that takes long enough to be made before. Its first missing page ends what take_cached takes, and what
// the system reads ahead looks cached afterwards, to this thread and to those that read what lies behind. Where the
// system counts, it is known what devices delivered for all threads until now: that, beyond what was asked for before,
// is this read's, and the rest of it was cached. So the sums are right, and of reads at the same time one may be told a
// part of another's.
static void count_cached(struct reader_thread *self, struct read_request *request, bool tells, uint64_t all)
{
    reader *r = self->owner;
    if (self->past_cache)
        self->delivered = thread_device_bytes(self, true);
    if (all == 0 || self->past_cache)
        return;
    for (unsigned i = 0; i < r->n_threads && all != r->process_delivered; i++) {
        struct reader_thread *thread = &r->threads[i];
        if (thread->past_cache)
            continue; // it will look itself
        uint64_t before = thread->delivered;
        thread->delivered = thread_device_bytes(thread, thread == self);
        r->ahead += thread->delivered - before;
    }
    r->process_delivered = all;
    if (!tells)
        return;
    size_t here = r->ahead < request->delivered ? (size_t)r->ahead : request->delivered;
    r->ahead -= here;
    request->cached = request->delivered - here;
}

// Resumes until the range is full, the file ends or a read fails. With O_DIRECT only whole blocks can be resumed, and a
// read that ends inside a block has met the file's end.
static enum read_result read_range(const reader *r, const struct range *range, size_t *delivered, int *sys_errno)
{
    *delivered = 0;
    while (*delivered < range->length) {
        size_t from = range->alignment ? *delivered - *delivered % range->alignment : *delivered;
        ptrdiff_t got =
            r->read(r->context, range->fd, range->target + from, range->length - from, range->offset + from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            *sys_errno = errno;
            return READ_ERROR;
        }
        if (from + (size_t)got <= *delivered)
            return READ_EOF;
        *delivered = from + (size_t)got;
    }
    return READ_FULL;
}

// Reads the whole blocks around the request, a buffer at a time.
static void fill_through(const reader *r, struct read_request *request, char *bounce)
{
    uint64_t block = request->alignment;
    while (request->result == READ_FULL && request->delivered < request->length) {
        uint64_t at = request->offset + request->delivered;
        size_t skipped = (size_t)(at % block);
        size_t left = request->length - request->delivered;
        size_t wanted = left < READER_BOUNCE - skipped ? left : READER_BOUNCE - skipped;
        size_t whole = (size_t)((skipped + wanted + block - 1) / block * block);
        struct range range = {request->fd, request->alignment, at - skipped, whole, bounce};
        size_t got;
        enum read_result result = read_range(r, &range, &got, &request->sys_errno);
        size_t useful = got < skipped ? 0 : got - skipped < wanted ? got - skipped : wanted;
        memcpy((char *)request->target + request->delivered, bounce + skipped, useful);
        request->delivered += useful;
        if (useful < wanted) // the last block of a file need not be whole
            request->result = result;
    }
}

// The whole blocks, to where they lie around the target.
static void fill_around(const reader *r, struct read_request *request)
{
    size_t block = request->alignment, skipped = (size_t)(request->offset % block), got;
    size_t whole = (skipped + request->length + block - 1) / block * block;
    struct range range = {request->fd, request->alignment, request->offset - skipped, whole,
                          (char *)request->target - skipped};
    enum read_result result = read_range(r, &range, &got, &request->sys_errno);
    size_t useful = got < skipped ? 0 : got - skipped;
    request->delivered = useful < request->length ? useful : request->length;
    if (useful < request->length) // what fails or ends behind it is nobody's business
        request->result = result;
}

// Returns whether the file system tells what is in its page cache.
static bool fill(const struct reader_thread *thread, struct read_request *request)
{
    const reader *r = thread->owner;
    request->result = READ_FULL;
    request->sys_errno = 0;
    request->delivered = request->cached = 0;
    uint64_t places = request->offset | request->length | (uintptr_t)request->target;
    bool alike = request->alignment && (request->offset - (uintptr_t)request->target) % request->alignment == 0;
    if (request->alignment && places % request->alignment) {
        if (request->around && alike)
            fill_around(r, request);
        else
            fill_through(r, request, thread->bounce);
        return false;
    }
    struct range range = {request->fd, request->alignment, request->offset, request->length, request->target};
    bool tells = false;
    if (!range.alignment && r->read == read_at)
        request->cached = take_cached(&range, &tells);
    range.offset += request->cached;
    range.target += request->cached;
    range.length -= request->cached;
    request->result = read_range(r, &range, &request->delivered, &request->sys_errno);
    request->delivered += request->cached;
    return tells;
}

// A request that somebody waits for came (+1) or is done (-1).
static void count_wanted(reader *r, int change)
{
    if (!r->wanted_now && change > 0)
        r->busy_since = clock_ns();
    r->wanted_now += (uint32_t)change;
    if (!r->wanted_now && change < 0)
        r->busy_ns += clock_ns() - r->busy_since;
}

static void *serve(void *argument)
{
    struct reader_thread *self = argument;
    reader *r = self->owner;
    int counters = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    pthread_mutex_lock(&r->lock);
    self->counters = counters;
    for (;;) {
        while (!r->queued.count && !r->prefetches.count && !r->closing)
            pthread_cond_wait(&r->wanted, &r->lock);
        if (r->closing)
            break;
        struct read_request *request = ring_pop(r, r->queued.count ? &r->queued : &r->prefetches);
        r->running++;
        bool direct = request->alignment;
        self->past_cache = direct || r->read != read_at;
        pthread_mutex_unlock(&r->lock);
        bool tells = fill(self, request);
        uint64_t all = device_bytes(RUSAGE_SELF);
        enter(r);
        count_cached(self, request, tells, all);
        self->past_cache = false;
        r->running--;
        if (!request->prefetch)
            count_wanted(r, -1);
        ring_push(r, &r->done, request);
        pthread_cond_signal(&r->finished);
        if (r->watches && !direct && !r->queued.count && !r->prefetches.count) {
            pthread_mutex_unlock(&r->lock);
            watch(&r->queued, &r->prefetches);
            enter(r);
        }
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
        r->threads[r->n_threads].owner = r;
        r->threads[r->n_threads].counters = -1;
        failed = pthread_create(&r->threads[r->n_threads].thread, NULL, serve, &r->threads[r->n_threads]);
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

static bool make_bounces(reader *r, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        r->threads[i].bounce = aligned_alloc(READER_MAX_ALIGNMENT, READER_BOUNCE);
        if (!r->threads[i].bounce)
            return false;
    }
    return true;
}

static void free_memory(reader *r)
{
    for (unsigned i = 0; i < READER_MAX_THREADS; i++)
        free(r->threads[i].bounce);
    free(r->done.items);
    free(r->prefetches.items);
    free(r->queued.items);
    free(r);
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
    r->watches = options->watches;
    r->queued.items = calloc(r->capacity, sizeof *r->queued.items);
    r->prefetches.items = calloc(r->capacity, sizeof *r->prefetches.items);
    r->done.items = calloc(r->capacity, sizeof *r->done.items);
    if (!r->queued.items || !r->prefetches.items || !r->done.items ||
        (options->bounce && !make_bounces(r, options->threads)) || init_locks(r))
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
    free_memory(r);
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
    for (unsigned i = 0; i < r->n_threads; i++) {
        pthread_join(r->threads[i].thread, NULL);
        if (r->threads[i].counters >= 0)
            close(r->threads[i].counters);
    }
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wanted);
    pthread_cond_destroy(&r->finished);
    free_memory(r);
}

bool reader_submit(reader *r, struct read_request *requests, uint32_t n)
{
    enter(r);
    bool room = n <= r->capacity - (r->queued.count + r->prefetches.count + r->running + r->done.count);
    for (uint32_t i = 0; i < n && room; i++) {
        ring_push(r, requests[i].prefetch ? &r->prefetches : &r->queued, &requests[i]);
        if (!requests[i].prefetch)
            count_wanted(r, 1);
        pthread_cond_signal(&r->wanted);
    }
    pthread_mutex_unlock(&r->lock);
    return room;
}

static bool is_among(const struct read_request *request, const struct read_request *requests, uint32_t n)
{
    return request >= requests && request < requests + n;
}

// Turns the ring once, leaving out what is among the requests.
static void leave_out(const reader *r, struct ring *ring, const struct read_request *requests, uint32_t n)
{
    for (uint32_t left = ring->count; left; left--) {
        struct read_request *request = ring_pop(r, ring);
        if (!is_among(request, requests, n))
            ring_push(r, ring, request);
    }
}

bool reader_withdraw(reader *r, const struct read_request *requests, uint32_t n)
{
    enter(r);
    struct ring *ring = requests->prefetch ? &r->prefetches : &r->queued;
    uint32_t found = 0;
    for (uint32_t i = 0; i < ring->count; i++)
        found += is_among(ring->items[(ring->first + i) % r->capacity], requests, n);
    if (found == n) {
        leave_out(r, ring, requests, n);
        for (uint32_t i = 0; i < n && !requests->prefetch; i++)
            count_wanted(r, -1);
    }
    pthread_mutex_unlock(&r->lock);
    return found == n;
}

void reader_promote(reader *r, struct read_request *requests, uint32_t n)
{
    enter(r);
    for (uint32_t left = r->prefetches.count; left; left--) {
        struct read_request *request = ring_pop(r, &r->prefetches);
        bool needed = is_among(request, requests, n);
        if (needed) {
            request->prefetch = false;
            count_wanted(r, 1);
        }
        ring_push(r, needed ? &r->queued : &r->prefetches, request);
    }
    pthread_mutex_unlock(&r->lock);
}

uint64_t reader_busy_ns(reader *r)
{
    enter(r);
    uint64_t busy = r->busy_ns + (r->wanted_now ? clock_ns() - r->busy_since : 0);
    pthread_mutex_unlock(&r->lock);
    return busy;
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
    if (!wait_ms && !r->done.count)
        return NULL;
    if (wait_ms > 0)
        deadline = deadline_after(wait_ms);
    enter(r);
    bool late = wait_ms == 0;
    if (r->watches && !late && !r->done.count && r->queued.count + r->prefetches.count + r->running) {
        pthread_mutex_unlock(&r->lock);
        watch(&r->done, &r->done);
        enter(r);
    }
    while (!r->done.count && r->queued.count + r->prefetches.count + r->running && !late) {
        if (wait_ms > 0)
            late = pthread_cond_timedwait(&r->finished, &r->lock, &deadline) == ETIMEDOUT;
        else
            pthread_cond_wait(&r->finished, &r->lock);
    }
    struct read_request *request = r->done.count ? ring_pop(r, &r->done) : NULL;
    pthread_mutex_unlock(&r->lock);
    return request;
}
