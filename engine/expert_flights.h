// SPDX-License-Identifier: GPL-3.0-or-later
// Experts on their way from their files: one flight for each, of as many reads as it has spans. Knows files, spans and
// the pool of readers; a target is just memory.
//
// Direct reads (O_DIRECT) go past the page cache; what alignment a file wants is asked of the system (statx) where it
// tells, else taken for 4096 and tried. A file that refuses is read buffered, and `refused` counts it.
#ifndef MOECHAT_EXPERT_FLIGHTS_H
#define MOECHAT_EXPERT_FLIGHTS_H

#include "container.h"
#include "reader.h"

struct read_failure {
    enum read_result result; // READ_FULL: none
    int sys_errno;
    uint32_t file;   // index of package->files
    uint64_t offset; // in the file
};

struct flight {
    struct read_request parts[MAX_EXPERT_SPANS];
    uint32_t files[MAX_EXPERT_SPANS]; // of the parts
    uint32_t n_parts;
    uint32_t n_left; // parts not back yet; 0: it is not under way
    bool guess;
    void *owner; // the caller's
    // Valid when it is back.
    struct read_failure failure; // of the first part that failed
    uint64_t delivered;          // bytes that did arrive
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
    uint32_t n_items, n_flying, n_guesses; // guesses are counted in both
    uint32_t refused;                      // files that don't take direct reads
    bool direct;
};

struct flights_options {
    uint32_t n_flights; // at once, at most
    unsigned readers;
    bool direct;
    moe_read_fn *read; // NULL: pread
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
    bool guess;
};
// NULL with failure->result READ_FULL: no flight is idle. NULL with another: a file that failed before can't be opened.
struct flight *flights_begin(struct flights *f, const struct flight_order *order, struct read_failure *failure);
// Takes a flight back of which nothing was read yet. False: it goes on.
bool flights_withdraw(struct flights *f, struct flight *flight);
void flights_promote(struct flights *f, struct flight *flight); // a guess that is needed now
// The next flight that is over, or NULL; waits as reader_reap does, though for each of its parts anew. Its owner reads
// what it says and then calls flights_done.
struct flight *flights_reap(struct flights *f, int wait_ms);
void flights_done(struct flights *f, struct flight *flight);

#endif
