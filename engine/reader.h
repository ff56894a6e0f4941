// SPDX-License-Identifier: GPL-3.0-or-later
// A pool of threads that read files into memory. It knows no expert, slot or device: a request says which bytes of
// which descriptor go where, and comes back once, whole or with the reason why not.
//
// Threads: one thread, the owner, calls everything here; the pool's own threads call only the read function and block
// all signals. Between reader_submit and the request's return from reader_reap (or a reader_withdraw that says true)
// the request and its target belong to the pool, and the descriptor must stay open.
#ifndef MOECHAT_READER_H
#define MOECHAT_READER_H

#include "moe.h"

typedef struct reader reader;

enum read_result {
    READ_FULL,
    READ_EOF,   // the file ended first
    READ_ERROR, // sys_errno says why
};

struct read_request {
    int fd;
    uint64_t offset;
    size_t length;
    void *target;
    // Set when the request comes back.
    enum read_result result;
    int sys_errno;
    size_t delivered; // bytes that did arrive
};

struct reader_options {
    unsigned threads;  // 1 to READER_MAX_THREADS
    uint32_t capacity; // requests between submit and reap, at most
    moe_read_fn *read; // NULL: pread. Short reads and EINTR are resumed
    void *context;
};

#define READER_MAX_THREADS 64
#define READER_FOREVER     (-1)

int reader_open(const struct reader_options *options, reader **r, struct moe_err *err);
// Drops requests that have not begun, waits for those that have. NULL is fine.
void reader_close(reader *r);
// False: `capacity` requests are out already.
bool reader_submit(reader *r, struct read_request *request);
// Takes back a request that no thread has begun: true, and it will not be reaped. False: it is being read, or is done.
bool reader_withdraw(reader *r, const struct read_request *request);
// The next request that is done, in order of completion. Waits up to wait_ms (0: not at all, READER_FOREVER); NULL when
// the time is over, or at once when nothing is being read.
struct read_request *reader_reap(reader *r, int wait_ms);

#endif
