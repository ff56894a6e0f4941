// SPDX-License-Identifier: GPL-3.0-or-later
// Experts on their way from their files: one flight for each, of a read for each span, or of several where reads are
// cut into pieces. Then all readers work at one flight before the next begins, so flights arrive one after the other
// and not all together, and a flight's beginning is there before its end. Knows files, spans and the pool of readers; a
// target is just memory.
//
// Direct reads (O_DIRECT) go past the page cache; what alignment a file wants is asked of the system (statx) where it
// tells, else taken for 4096 and tried. A file that refuses is read buffered, and `refused` counts it.
#ifndef MOECHAT_ENGINE_EXPERTS_FLIGHTS_H
#define MOECHAT_ENGINE_EXPERTS_FLIGHTS_H

#include "engine/files/package.h"
#include "engine/experts/reader.h"

struct read_failure {
    enum read_result result; // READ_FULL: none
    int sys_errno;
    uint32_t file;   // index of package->files
    uint64_t offset; // in the file
};

struct flight_part {
    uint32_t file;
    bool whole; // it is back, nothing is missing
};

struct flight {
    struct read_request *reads; // [n_parts], in the order of the target
    struct flight_part *parts;
    uint32_t n_parts;
    uint32_t n_left; // parts not back yet; 0: it is not under way
    bool prefetch;
    bool dropped; // the caller's: nobody waits for it any more
    char *target;
    void *owner;      // the caller's
    uint32_t n_there; // the first so many parts are whole,
    uint64_t there;   // so the first so many bytes of the target are there
    // Valid when it is back.
    struct read_failure failure; // of the first part, by its place, that failed
    uint32_t failed_part;
    uint64_t delivered; // bytes that did arrive,
    uint64_t cached;    // of them, from the system's page cache
    struct flight *next_idle;
};

struct expert_file {
    int fd;             // -1: not open
    uint32_t alignment; // of direct reads; 0: buffered
    uint32_t n_reading; // requests out
    bool suspect;       // a read failed: opened again, by its name, before the next one
};

struct flights {
    const struct package *package;
    reader *pool;
    struct expert_file *files; // [package->n_files]
    struct flight *items;
    struct flight *idle;
    struct read_request *reads; // of all items, most_parts each
    struct flight_part *parts;  // likewise
    uint32_t most_parts;
    uint64_t direct_piece, buffered_piece;    // bytes of a read at most
    uint32_t n_items, n_flying, n_prefetches; // prefetches are counted in both
    uint32_t refused;                         // files that don't take direct reads
    bool direct;
};

struct flights_options {
    uint32_t n_flights; // at once, at most
    unsigned readers;
    bool direct;
    bool watches;         // as reader_options'
    uint64_t piece_bytes; // as moe_model_options' read_piece_bytes
    moe_read_fn *read;    // NULL: pread
    void *read_context;
};

int flights_open(struct flights *f, const struct package *package, const struct flights_options *options,
                 struct moe_err *err);
void flights_close(struct flights *f);                   // waits for reads under way; of zeroes is fine
void flights_set_direct(struct flights *f, bool direct); // while nothing is being read

// What to read, and where to; `target` is package_slot_bytes large, 4096-aligned, and the pool's until the flight is
// over.
struct flight_order {
    uint32_t layer, expert;
    void *target;
    void *owner;
    bool prefetch;
};
// NULL with failure->result READ_FULL: no flight is idle. NULL with another: a file that failed before can't be opened.
struct flight *flights_begin(struct flights *f, const struct flight_order *order, struct read_failure *failure);
// Takes a flight back of which nothing was read yet. False: it goes on.
bool flights_withdraw(struct flights *f, struct flight *flight);
void flights_promote(struct flights *f, struct flight *flight); // a prefetch that is needed now
// The next flight of which a part is back, or NULL; waits as reader_reap does. With n_left 0 it is over: its owner
// reads what it says and then calls flights_done.
struct flight *flights_reap(struct flights *f, int wait_ms);
void flights_done(struct flights *f, struct flight *flight);

#endif
