// SPDX-License-Identifier: GPL-3.0-or-later
// A pool of threads that read files into memory. It knows no expert, slot or device: a request says which bytes of
// which descriptor go where, and comes back once, whole or with the reason why not.
//
// Threads: one thread, the owner, calls everything here; the pool's own threads call only the read function and block
// all signals. Between reader_submit and the request's return from reader_reap (or a reader_withdraw that says true)
// the request and its target belong to the pool, and the descriptor must stay open.
#ifndef MOECHAT_ENGINE_EXPERTS_READER_H
#define MOECHAT_ENGINE_EXPERTS_READER_H

#include "engine/moe.h"

typedef struct reader reader;

enum read_result {
    READ_FULL,
    READ_EOF,   // the file ended first
    READ_ERROR, // sys_errno says why
};

struct read_request {
    int fd;
    uint32_t alignment; // of a descriptor with O_DIRECT; 0: without. A range that is not aligned is read with the whole
                        // blocks around it: into the target's own, if it may and lies like the file's range in its
                        // block, else copied out of a buffer of the thread's own
    bool around;        // the blocks of the target that the range touches may be filled whole
    bool prefetch;      // begun only when no other request waits
    uint64_t offset;
    size_t length;
    void *target;
    void *owner; // the caller's
    // Set when the request comes back.
    enum read_result result;
    int sys_errno;
    size_t delivered; // bytes that did arrive
    size_t cached;    // of those, from the system's page cache and not from the device (never with `read` of the
                      // options); at least so many, where the system does not count what devices deliver. What it
                      // reads ahead counts as the device's with the pool's next reads
};

struct reader_options {
    unsigned threads;  // 1 to READER_MAX_THREADS
    uint32_t capacity; // requests between submit and reap, at most
    moe_read_fn *read; // NULL: pread. Short reads and EINTR are resumed
    void *context;
    bool watches; // threads watch for work for a while before they sleep: for waits that are shorter than an awakening
    bool bounce;  // some requests will be direct, not aligned and not `around`: each thread gets READER_BOUNCE bytes
};

#define READER_MAX_THREADS   MOE_MAX_READERS
#define READER_FOREVER       (-1)
#define READER_BOUNCE        (1U << 20)
#define READER_MAX_ALIGNMENT 4096

int reader_open(const struct reader_options *options, reader **r, struct moe_err *err);
// Drops requests that have not begun, waits for those that have. NULL is fine.
void reader_close(reader *r);
// requests[0..n), all of one `prefetch`, begun in this order. False: with them more than `capacity` would be out; then
// none is.
bool reader_submit(reader *r, struct read_request *requests, uint32_t n);
// Takes back requests[0..n), all of one `prefetch`, if no thread has begun any: true, and they will not be reaped.
// False: some are being read, or are done, and all stay.
bool reader_withdraw(reader *r, const struct read_request *requests, uint32_t n);
// Prefetches that turned out to be needed: those of requests[0..n) that have not begun join the others' queue.
void reader_promote(reader *r, struct read_request *requests, uint32_t n);
// The next request that is done, in order of completion. Waits up to wait_ms (0: not at all, READER_FOREVER); NULL when
// the time is over, or at once when nothing is being read.
struct read_request *reader_reap(reader *r, int wait_ms);
// Time since opening during which some request that is no prefetch was waiting or being read.
uint64_t reader_busy_ns(reader *r);

#endif
