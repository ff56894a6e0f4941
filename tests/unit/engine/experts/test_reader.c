// SPDX-License-Identifier: GPL-3.0-or-later
// The pool of reading threads: whole reads out of short ones, typed failures, bounds, withdrawing and closing.
#define _GNU_SOURCE // preadv2, mincore
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"
#include "engine/base/clock.h"
#include "engine/experts/reader.h"

enum { SIZE = 5003 };

static unsigned char byte_at(uint64_t offset)
{
    return (unsigned char)(offset * 167 + (offset >> 8) * 13 + 5);
}

// A make-believe file of `end` bytes; `fd` is how many bytes a call gives at most. A call at or beyond fail_at fails;
// every second call is interrupted if asked for. A gate holds calls up, and counts those that it holds.
struct source {
    uint64_t end;
    uint64_t fail_at;
    int fail_errno;
    bool interrupt;
    atomic_int calls, bytes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool gated;
    int held, most_held;
    sigset_t mask; // of the last thread that read
};

static ptrdiff_t give(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct source *source = context;
    int call = atomic_fetch_add(&source->calls, 1);
    pthread_mutex_lock(&source->lock);
    pthread_sigmask(SIG_SETMASK, NULL, &source->mask);
    source->held++;
    if (source->held > source->most_held)
        source->most_held = source->held;
    pthread_cond_broadcast(&source->changed);
    while (source->gated)
        pthread_cond_wait(&source->changed, &source->lock);
    source->held--;
    pthread_mutex_unlock(&source->lock);
    if (source->interrupt && call % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (offset >= source->fail_at) {
        errno = source->fail_errno;
        return -1;
    }
    if (offset >= source->end)
        return 0;
    size_t n = length < (size_t)fd ? length : (size_t)fd;
    if (n > source->end - offset)
        n = (size_t)(source->end - offset);
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)target)[i] = byte_at(offset + i);
    atomic_fetch_add(&source->bytes, (int)n);
    return (ptrdiff_t)n;
}

static void source_init(struct source *source)
{
    memset(source, 0, sizeof *source);
    source->end = source->fail_at = UINT64_MAX;
    pthread_mutex_init(&source->lock, NULL);
    pthread_cond_init(&source->changed, NULL);
}

static void source_gate(struct source *source, bool gated)
{
    pthread_mutex_lock(&source->lock);
    source->gated = gated;
    pthread_cond_broadcast(&source->changed);
    pthread_mutex_unlock(&source->lock);
}

static void source_await(struct source *source, int held)
{
    pthread_mutex_lock(&source->lock);
    while (source->held < held)
        pthread_cond_wait(&source->changed, &source->lock);
    pthread_mutex_unlock(&source->lock);
}

static reader *open_pool(struct harness *t, unsigned threads, uint32_t capacity, struct source *source)
{
    struct reader_options options = {
        .threads = threads, .capacity = capacity, .read = source ? give : NULL, .context = source};
    reader *r = NULL;
    CHECK_EQ(t, reader_open(&options, &r, NULL), MOE_OK);
    return r;
}

static int right_bytes(const struct read_request *request)
{
    for (size_t i = 0; i < request->delivered; i++)
        if (((unsigned char *)request->target)[i] != byte_at(request->offset + i))
            return 0;
    return 1;
}

static void short_reads_are_resumed(struct harness *t)
{
    static const int pieces[] = {1, 7, 511, 4096, SIZE - 1, SIZE, SIZE + 1};
    struct source source;
    source_init(&source);
    reader *r = open_pool(t, 1, 1, &source);
    unsigned char bytes[SIZE + 1];
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        memset(bytes, 0, sizeof bytes);
        bytes[SIZE] = 77;
        atomic_store(&source.calls, 0);
        struct read_request request = {.fd = pieces[i], .offset = 1000 + i, .length = SIZE, .target = bytes};
        CHECK(t, reader_submit(r, &request, 1));
        CHECK(t, reader_reap(r, READER_FOREVER) == &request);
        CHECK_EQ(t, request.result, READ_FULL);
        CHECK_EQ(t, request.delivered, SIZE);
        CHECK(t, right_bytes(&request));
        CHECK_EQ(t, bytes[SIZE], 77);
        CHECK_EQ(t, atomic_load(&source.calls), (SIZE + pieces[i] - 1) / pieces[i]);
    }
    reader_close(r);
}

static void interruptions_are_resumed(struct harness *t)
{
    struct source source;
    source_init(&source);
    source.interrupt = true;
    reader *r = open_pool(t, 1, 1, &source);
    unsigned char bytes[SIZE];
    struct read_request request = {.fd = 1000, .offset = 3, .length = SIZE, .target = bytes};
    CHECK(t, reader_submit(r, &request, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &request);
    CHECK_EQ(t, request.result, READ_FULL);
    CHECK(t, right_bytes(&request));
    CHECK_EQ(t, atomic_load(&source.calls), 12);
    reader_close(r);
}

static void check_failure(struct harness *t, struct source *source, enum read_result result, size_t delivered)
{
    unsigned char bytes[SIZE];
    struct read_request request = {.fd = 600, .offset = 100, .length = SIZE, .target = bytes};
    reader *r = open_pool(t, 1, 1, source);
    CHECK(t, reader_submit(r, &request, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &request);
    CHECK_EQ(t, request.result, result);
    CHECK_EQ(t, request.sys_errno, source->fail_errno);
    CHECK_EQ(t, request.delivered, delivered);
    CHECK(t, right_bytes(&request));
    // The thread lives on.
    source->end = source->fail_at = UINT64_MAX;
    CHECK(t, reader_submit(r, &request, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &request);
    CHECK_EQ(t, request.result, READ_FULL);
    CHECK_EQ(t, request.sys_errno, 0);
    reader_close(r);
}

static void failures_are_typed(struct harness *t)
{
    struct source source;
    source_init(&source);
    source.end = 100 + 1500;
    check_failure(t, &source, READ_EOF, 1500);
    source.end = 100;
    check_failure(t, &source, READ_EOF, 0);
    source.end = 100 + SIZE - 1;
    check_failure(t, &source, READ_EOF, SIZE - 1);
    source.fail_at = 100 + 1200;
    source.fail_errno = EIO;
    check_failure(t, &source, READ_ERROR, 1200);
    source.fail_at = 0;
    source.fail_errno = ESTALE;
    check_failure(t, &source, READ_ERROR, 0);
}

static void files_are_read_with_pread(struct harness *t)
{
    char path[] = "/tmp/moechat-reader-XXXXXX";
    int fd = mkstemp(path);
    unsigned char bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = byte_at(i);
    CHECK_EQ(t, write(fd, bytes, SIZE), SIZE);
    memset(bytes, 0, sizeof bytes);
    reader *r = open_pool(t, 2, 3, NULL);
    struct read_request inside = {.fd = fd, .offset = 11, .length = SIZE - 11, .target = bytes};
    CHECK(t, reader_submit(r, &inside, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &inside);
    CHECK(t, inside.result == READ_FULL && right_bytes(&inside));
    struct read_request beyond = {.fd = fd, .offset = SIZE - 5, .length = 6, .target = bytes};
    CHECK(t, reader_submit(r, &beyond, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &beyond);
    CHECK(t, beyond.result == READ_EOF && beyond.delivered == 5);
    struct read_request closed = {.fd = -1, .length = 6, .target = bytes};
    CHECK(t, reader_submit(r, &closed, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &closed);
    CHECK(t, closed.result == READ_ERROR && closed.sys_errno == EBADF);
    reader_close(r);
    close(fd);
    unlink(path);
}

// Is the first page of a file in the page cache? By another way than the reader's.
static bool first_page_is_cached(int fd)
{
    unsigned char state = 0;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    bool known = page != MAP_FAILED && mincore(page, 4096, &state) == 0;
    if (page != MAP_FAILED)
        munmap(page, 4096);
    return !known || (state & 1);
}

static void what_the_page_cache_had_is_told_apart(struct harness *t)
{
    char path[] = "/var/tmp/moechat-reader-XXXXXX"; // on a disk, if /tmp is none
    int fd = mkstemp(path);
    unsigned char bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = byte_at(i);
    CHECK_EQ(t, write(fd, bytes, SIZE), SIZE);
    CHECK(t, fsync(fd) == 0);
    struct iovec all = {bytes, SIZE};
    bool tells = preadv2(fd, &all, 1, 0, RWF_NOWAIT) == SIZE; // not every file system does
    reader *r = open_pool(t, 1, 3, NULL);
    for (int cold = 0; cold < 2; cold++) {
        if (cold)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        bool was_cached = first_page_is_cached(fd);
        struct read_request request = {.fd = fd, .offset = 0, .length = SIZE, .target = bytes};
        memset(bytes, 0, sizeof bytes);
        CHECK(t, reader_submit(r, &request, 1));
        CHECK(t, reader_reap(r, READER_FOREVER) == &request);
        CHECK(t, request.result == READ_FULL && request.delivered == SIZE && right_bytes(&request));
        CHECK_EQ(t, request.cached, tells && was_cached ? SIZE : 0);
    }
    reader_close(r);
    close(fd);
    unlink(path);
}

// One page of sixteen is gone: so much comes from the device, not all that lies behind it.
static void one_missing_page_is_no_missing_file(struct harness *t)
{
    enum { PAGE = 4096, PAGES = 16, MISSING = 5 };
    char path[] = "/var/tmp/moechat-reader-XXXXXX";
    int fd = mkstemp(path);
    static unsigned char bytes[PAGES * PAGE];
    CHECK_EQ(t, write(fd, bytes, sizeof bytes), sizeof bytes);
    CHECK(t, fsync(fd) == 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    struct rusage usage;
    CHECK_EQ(t, pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    bool counts = getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_inblock > 0;
    struct iovec all = {bytes, sizeof bytes};
    bool tells = preadv2(fd, &all, 1, 0, RWF_NOWAIT) == (ssize_t)sizeof bytes;
    posix_fadvise(fd, MISSING * PAGE, PAGE, POSIX_FADV_DONTNEED);
    unsigned char there[PAGES] = {0};
    void *pages = mmap(NULL, sizeof bytes, PROT_READ, MAP_SHARED, fd, 0);
    bool known = pages != MAP_FAILED && mincore(pages, sizeof bytes, there) == 0;
    size_t cached = 0;
    for (int i = 0; i < PAGES; i++)
        cached += (there[i] & 1) * PAGE;
    munmap(pages, sizeof bytes);
    reader *r = open_pool(t, 1, 3, NULL);
    for (int again = 0; again < 2; again++) {
        struct read_request request = {.fd = fd, .offset = 0, .length = sizeof bytes, .target = bytes};
        CHECK(t, reader_submit(r, &request, 1));
        CHECK(t, reader_reap(r, READER_FOREVER) == &request);
        CHECK(t, request.result == READ_FULL && request.delivered == sizeof bytes);
        if (tells && counts && known && cached < sizeof bytes) // else the file system does not tell
            CHECK_EQ(t, request.cached, again ? sizeof bytes : cached);
    }
    reader_close(r);
    close(fd);
    unlink(path);
}

// What the system reads ahead for one thread others find in memory: it came from the device all the same, and all of
// them together say as much of it as the system does.
static void threads_that_read_in_a_row_say_what_the_device_delivered(struct harness *t)
{
    enum { THREADS = 8, PART = 32 << 10, PARTS = 128 };
    static unsigned char bytes[PARTS][PART];
    static struct read_request requests[PARTS];
    char path[] = "/var/tmp/moechat-reader-XXXXXX";
    int fd = mkstemp(path);
    CHECK_EQ(t, write(fd, bytes, sizeof bytes), sizeof bytes);
    CHECK(t, fsync(fd) == 0);
    struct rusage before, after;
    for (int round = 0; round < 4; round++) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        reader *r = open_pool(t, THREADS, PARTS, NULL);
        for (int i = 0; i < PARTS; i++)
            requests[i] = (struct read_request){
                .fd = fd, .offset = (uint64_t)i * PART, .length = PART, .target = bytes[i], .prefetch = i % 2};
        getrusage(RUSAGE_SELF, &before);
        for (int i = 0; i < PARTS; i++)
            CHECK(t, reader_submit(r, &requests[i], 1));
        uint64_t from_device = 0;
        for (int i = 0; i < PARTS; i++) {
            const struct read_request *request = reader_reap(r, READER_FOREVER);
            CHECK(t, request && request->result == READ_FULL && request->cached <= request->delivered);
            from_device += request ? request->delivered - request->cached : 0;
        }
        getrusage(RUSAGE_SELF, &after);
        struct iovec all = {bytes, sizeof bytes};
        bool tells = preadv2(fd, &all, 1, 0, RWF_NOWAIT) == (ssize_t)sizeof bytes;
        if (tells && after.ru_inblock > before.ru_inblock) // else the file system does not tell
            CHECK_EQ(t, from_device, (uint64_t)(after.ru_inblock - before.ru_inblock) * 512);
        reader_close(r);
    }
    close(fd);
    unlink(path);
}

// What lies elsewhere in its blocks than in memory goes through a buffer: each thread has its own.
static void other_places_go_through_a_buffer(struct harness *t)
{
    enum { THREADS = 3, BLOCK = 512 };
    struct source source;
    source_init(&source);
    source_gate(&source, true);
    const struct reader_options options = {
        .threads = THREADS, .capacity = THREADS, .bounce = true, .read = give, .context = &source};
    reader *r = NULL;
    CHECK_EQ(t, reader_open(&options, &r, NULL), MOE_OK);
    static unsigned char bytes[THREADS][SIZE + 1];
    struct read_request requests[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        requests[i] = (struct read_request){
            .fd = 1 << 20, .offset = 100 + 7777 * i, .length = SIZE, .target = bytes[i] + 1, .alignment = BLOCK};
        CHECK(t, reader_submit(r, &requests[i], 1));
    }
    source_await(&source, THREADS); // all of them at once
    source_gate(&source, false);
    for (unsigned i = 0; i < THREADS; i++) {
        struct read_request *request = reader_reap(r, READER_FOREVER);
        CHECK(t, request && request->result == READ_FULL && request->delivered == SIZE && right_bytes(request));
    }
    reader_close(r);
}

static void threads_read_at_the_same_time(struct harness *t)
{
    enum { THREADS = 5, REQUESTS = 9 };
    struct source source;
    source_init(&source);
    source_gate(&source, true);
    reader *r = open_pool(t, THREADS, REQUESTS, &source);
    unsigned char bytes[REQUESTS][64];
    struct read_request requests[REQUESTS + 1];
    for (unsigned i = 0; i < REQUESTS; i++) {
        requests[i] = (struct read_request){.fd = 64, .offset = i * 64, .length = 64, .target = bytes[i]};
        CHECK(t, reader_submit(r, &requests[i], 1));
    }
    CHECK(t, !reader_submit(r, &requests[REQUESTS], 1)); // the ring is full
    source_await(&source, THREADS);
    CHECK(t, !reader_submit(r, &requests[REQUESTS], 1)); // also with some of them being read
    CHECK(t, reader_reap(r, 0) == NULL);
    CHECK(t, reader_reap(r, 20) == NULL);
    source_gate(&source, false);
    unsigned seen = 0;
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct read_request *request = reader_reap(r, READER_FOREVER);
        if (!CHECK(t, request != NULL))
            break;
        CHECK(t, request->result == READ_FULL && right_bytes(request));
        seen |= 1U << (request - requests);
    }
    CHECK_EQ(t, seen, (1U << REQUESTS) - 1);
    CHECK_EQ(t, source.most_held, THREADS);
    CHECK(t, reader_reap(r, READER_FOREVER) == NULL); // nothing is being read: no wait
    reader_close(r);
}

static void done_requests_count_until_they_are_reaped(struct harness *t)
{
    struct source source;
    source_init(&source);
    reader *r = open_pool(t, 1, 2, &source);
    unsigned char bytes[3];
    struct read_request requests[3];
    for (unsigned i = 0; i < 3; i++) {
        requests[i] = (struct read_request){.fd = 1, .offset = i, .length = 1, .target = &bytes[i]};
        CHECK_EQ(t, reader_submit(r, &requests[i], 1), i < 2);
    }
    while (atomic_load(&source.bytes) < 2)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(t, !reader_submit(r, &requests[2], 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[0]);
    CHECK(t, reader_submit(r, &requests[2], 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[1]);
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[2]);
    reader_close(r);
}

static void withdrawing(struct harness *t)
{
    struct source source;
    source_init(&source);
    source_gate(&source, true);
    reader *r = open_pool(t, 1, 4, &source);
    unsigned char bytes[4];
    struct read_request requests[4];
    for (unsigned i = 0; i < 4; i++) {
        requests[i] = (struct read_request){.fd = 1, .offset = i, .length = 1, .target = &bytes[i]};
        CHECK(t, reader_submit(r, &requests[i], 1));
    }
    source_await(&source, 1);
    CHECK(t, !reader_withdraw(r, &requests[0], 1)); // being read
    CHECK(t, reader_withdraw(r, &requests[2], 1));
    CHECK(t, !reader_withdraw(r, &requests[2], 1));
    CHECK(t, reader_submit(r, &requests[2], 1));
    CHECK(t, reader_withdraw(r, &requests[1], 1)); // the first that waits, and then the last
    CHECK(t, reader_withdraw(r, &requests[2], 1));
    CHECK(t, reader_withdraw(r, &requests[3], 1)); // the only one
    CHECK(t, reader_submit(r, &requests[1], 1));
    CHECK(t, reader_submit(r, &requests[3], 1));
    CHECK(t, reader_submit(r, &requests[2], 1)); // at the end now
    source_gate(&source, false);
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[0]);
    CHECK(t, !reader_withdraw(r, &requests[0], 1)); // done
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[1]);
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[3]);
    CHECK(t, reader_reap(r, READER_FOREVER) == &requests[2]);
    reader_close(r);
}

static void *open_gate_later(void *context)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    source_gate(context, false);
    return NULL;
}

static void closing_finishes_what_has_begun(struct harness *t)
{
    struct source source;
    source_init(&source);
    source_gate(&source, true);
    reader *r = open_pool(t, 2, 5, &source);
    unsigned char bytes[5][SIZE];
    struct read_request requests[5];
    for (unsigned i = 0; i < 5; i++) {
        requests[i] = (struct read_request){.fd = 1000, .offset = i, .length = SIZE, .target = bytes[i]};
        CHECK(t, reader_submit(r, &requests[i], 1));
    }
    source_await(&source, 2);
    pthread_t thread;
    CHECK_EQ(t, pthread_create(&thread, NULL, open_gate_later, &source), 0);
    reader_close(r);
    CHECK_EQ(t, atomic_load(&source.bytes), 2 * SIZE);
    pthread_join(thread, NULL);
    reader_close(NULL);
}

// Requests that come while threads watch, just when they fall asleep, and when all sleep: nobody misses one.
static void threads_that_watch_miss_nothing(struct harness *t)
{
    enum { THREADS = 3, REQUESTS = 4, ROUNDS = 60 };
    struct source source;
    source_init(&source);
    const struct reader_options options = {
        .threads = THREADS, .capacity = REQUESTS, .watches = true, .read = give, .context = &source};
    reader *r = NULL;
    CHECK_EQ(t, reader_open(&options, &r, NULL), MOE_OK);
    unsigned char bytes[REQUESTS][64];
    struct read_request requests[REQUESTS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < REQUESTS; i++)
            requests[i] = (struct read_request){
                .fd = 64, .offset = round + i * 64, .length = 64, .target = bytes[i], .prefetch = i == 3};
        CHECK(t, reader_submit(r, requests, 3));
        CHECK(t, reader_submit(r, &requests[3], 1));
        for (unsigned i = 0; i < REQUESTS; i++) {
            struct read_request *request = reader_reap(r, i % 2 ? READER_FOREVER : 10000);
            CHECK(t, request && request->result == READ_FULL && request->delivered == 64 && right_bytes(request));
        }
        CHECK(t, !reader_reap(r, READER_FOREVER)); // nothing is being read
        for (uint64_t until = clock_ns() + 10000u * round; clock_ns() < until;)
            continue;
    }
    reader_close(r);
}

static void readers_take_no_signals(struct harness *t)
{
    struct source source;
    source_init(&source);
    reader *r = open_pool(t, 1, 1, &source);
    unsigned char byte;
    struct read_request request = {.fd = 1, .length = 1, .target = &byte};
    CHECK(t, reader_submit(r, &request, 1));
    CHECK(t, reader_reap(r, READER_FOREVER) == &request);
    CHECK(t, sigismember(&source.mask, SIGINT) && sigismember(&source.mask, SIGWINCH) &&
                 sigismember(&source.mask, SIGTERM));
    sigset_t ours;
    pthread_sigmask(SIG_SETMASK, NULL, &ours);
    CHECK(t, !sigismember(&ours, SIGINT));
    reader_close(r);
}

static void bad_options_are_refused(struct harness *t)
{
    static const struct reader_options bad[] = {{.capacity = 1}, {.threads = 1}, {.threads = 65, .capacity = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reader *r;
        struct moe_err err;
        CHECK_EQ(t, reader_open(&bad[i], &r, &err), MOE_BAD_ARGUMENT);
        CHECK(t, r == NULL);
    }
}

// ---- Whole blocks

// A range of a file that is read by whole blocks into a target that lies alike and has the blocks for itself: the bytes
// are right, the target's blocks are filled and nothing beyond them is, in one read where that gives all.
static void blocks_around_a_range_are_read_in_place(struct harness *t)
{
    enum { BLOCK = 512, ROOM = 16 * BLOCK };
    unsigned char *memory = aligned_alloc(READER_MAX_ALIGNMENT, ROOM);
    static const int pieces[] = {ROOM, BLOCK, 3 * BLOCK};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        for (uint64_t shift = 0; shift < BLOCK; shift += 31)
            for (size_t length = 1; length < 4 * BLOCK; length += 97) {
                struct source source;
                source_init(&source);
                reader *r = open_pool(t, 1, 1, &source); // without bounce buffers
                memset(memory, 0, ROOM);
                struct read_request request = {.fd = pieces[i],
                                               .alignment = BLOCK,
                                               .around = true,
                                               .offset = 7 * BLOCK + shift,
                                               .length = length,
                                               .target = memory + 2 * BLOCK + shift};
                CHECK(t, reader_submit(r, &request, 1));
                CHECK(t, reader_reap(r, READER_FOREVER) == &request);
                CHECK(t, request.result == READ_FULL && request.delivered == length && right_bytes(&request));
                size_t end = 2 * BLOCK + (shift + length + BLOCK - 1) / BLOCK * BLOCK;
                for (size_t at = 0; at < ROOM; at++)
                    if (memory[at] != (at < 2 * BLOCK || at >= end ? 0 : byte_at(5 * BLOCK + at))) {
                        CHECK_EQ(t, at, -1);
                        break;
                    }
                CHECK(t, pieces[i] < ROOM || atomic_load(&source.calls) == 1);
                reader_close(r);
            }
    free(memory);
}

// The last block of a file is not whole: enough when the range is there, else the end is where the file has it.
static void a_file_may_end_in_the_last_block(struct harness *t)
{
    enum { BLOCK = 512 };
    unsigned char *memory = aligned_alloc(READER_MAX_ALIGNMENT, 4096);
    for (uint64_t end = 2 * BLOCK; end < 5 * BLOCK; end += 13) {
        struct source source;
        source_init(&source);
        source.end = end;
        reader *r = open_pool(t, 1, 1, &source);
        struct read_request request = {.fd = 4096,
                                       .alignment = BLOCK,
                                       .around = true,
                                       .offset = 2 * BLOCK + 100,
                                       .length = 2 * BLOCK,
                                       .target = memory + 100};
        CHECK(t, reader_submit(r, &request, 1));
        CHECK(t, reader_reap(r, READER_FOREVER) == &request);
        bool there = end >= request.offset + request.length;
        CHECK_EQ(t, request.result, there ? READ_FULL : READ_EOF);
        CHECK_EQ(t, request.delivered, there ? 2 * BLOCK : end < request.offset ? 0 : end - request.offset);
        CHECK(t, right_bytes(&request));
        source.end = UINT64_MAX;
        source.fail_at = end / BLOCK * BLOCK; // a block that cannot be read
        source.fail_errno = EIO;
        request.fd = BLOCK;
        CHECK(t, reader_submit(r, &request, 1));
        CHECK(t, reader_reap(r, READER_FOREVER) == &request);
        there = source.fail_at >= request.offset + request.length;
        CHECK_EQ(t, request.result, there ? READ_FULL : READ_ERROR);
        CHECK(t, there || request.sys_errno == EIO);
        CHECK(t, right_bytes(&request));
        reader_close(r);
    }
    free(memory);
}

// Does the time of waiting go on?
static bool is_busy(reader *r)
{
    uint64_t before = reader_busy_ns(r);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return reader_busy_ns(r) > before;
}

static void only_what_is_waited_for_is_busy(struct harness *t)
{
    struct source source;
    source_init(&source);
    reader *r = open_pool(t, 1, 8, &source);
    static unsigned char bytes[5][16];
    struct read_request ahead[2], needed[3];
    for (int i = 0; i < 5; i++)
        *(i < 2 ? &ahead[i] : &needed[i - 2]) =
            (struct read_request){.fd = 100, .length = 16, .target = bytes[i], .prefetch = i < 2};
    source_gate(&source, true);
    CHECK(t, !is_busy(r));
    CHECK(t, reader_submit(r, ahead, 2));
    source_await(&source, 1);
    CHECK(t, !is_busy(r)); // one is read, one waits: ahead of time
    CHECK(t, reader_submit(r, needed, 1));
    CHECK(t, is_busy(r));
    CHECK(t, reader_withdraw(r, needed, 1));
    CHECK(t, !is_busy(r));
    CHECK(t, reader_submit(r, needed, 3));
    CHECK(t, is_busy(r));
    CHECK(t, reader_withdraw(r, needed, 2));
    CHECK(t, is_busy(r)); // for the third
    CHECK(t, reader_withdraw(r, &needed[2], 1));
    CHECK(t, !is_busy(r));
    reader_promote(r, &ahead[1], 1);
    CHECK(t, is_busy(r));
    source_gate(&source, false);
    CHECK(t, reader_reap(r, READER_FOREVER) == &ahead[0]);
    CHECK(t, reader_reap(r, READER_FOREVER) == &ahead[1]);
    CHECK(t, !is_busy(r));
    CHECK(t, reader_submit(r, needed, 3));
    for (int i = 0; i < 3; i++)
        CHECK(t, reader_reap(r, READER_FOREVER) == &needed[i]);
    CHECK(t, !is_busy(r));
    reader_close(r);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(short_reads_are_resumed),
        TEST(interruptions_are_resumed),
        TEST(failures_are_typed),
        TEST(blocks_around_a_range_are_read_in_place),
        TEST(a_file_may_end_in_the_last_block),
        TEST(files_are_read_with_pread),
        TEST(what_the_page_cache_had_is_told_apart),
        TEST(one_missing_page_is_no_missing_file),
        TEST(threads_that_read_in_a_row_say_what_the_device_delivered),
        TEST(other_places_go_through_a_buffer),
        TEST(threads_read_at_the_same_time),
        TEST(done_requests_count_until_they_are_reaped),
        TEST(withdrawing),
        TEST(only_what_is_waited_for_is_busy),
        TEST(closing_finishes_what_has_begun),
        TEST(threads_that_watch_miss_nothing),
        TEST(readers_take_no_signals),
        TEST(bad_options_are_refused),
    };
    return HARNESS_RUN(tests, argc, argv);
}
