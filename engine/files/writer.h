// SPDX-License-Identifier: GPL-3.0-or-later
// A file made of chunks that threads produce and write side by side, while its SHA-256 is taken in order.
#ifndef MOECHAT_ENGINE_FILES_WRITER_H
#define MOECHAT_ENGINE_FILES_WRITER_H

#include "engine/moe.h"

// How a chunk is made: called by several threads at once, each with a buffer of its own.
struct writer_chunks {
    uint64_t count;
    uint64_t most_bytes; // of the largest chunk
    bool blocks; // every chunk begins and ends at a multiple of 4096: written past the page cache where that works
    uint64_t (*offset)(const void *context, uint64_t chunk); // offset(count) is the file's end
    int (*produce)(const void *context, uint64_t chunk, void *buffer, struct moe_err *err);
    const void *context;
};

struct writer_options {
    unsigned threads;      // 1 to 64
    uint64_t memory_bytes; // for chunks under way; at least two are
    moe_write_fn *write;   // NULL: pwrite
    void *write_context;
    bool (*cancelled)(void *);                       // NULL: never; looked at after each chunk
    void (*advanced)(void *context, uint64_t bytes); // after each chunk, on the caller's thread; may be NULL
    void *context;                                   // of cancelled and advanced
};

// Creates (or empties) the file at path, writes it and makes it durable. MOE_IO names file, offset and errno.
int writer_run(const char *path, const struct writer_chunks *chunks, const struct writer_options *options,
               char sha256[65], struct moe_err *err);

#endif
