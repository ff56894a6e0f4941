// SPDX-License-Identifier: GPL-3.0-or-later
// Spans into reads, and their results into one.
#define _GNU_SOURCE // O_DIRECT, statx
#include "engine/experts/flights.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

enum { USUAL_ALIGNMENT = 4096, PAGE = 4096 };
#define LEAST_PIECE (UINT64_C(512) << 10)
#define MOST_PIECE  (UINT64_C(2) << 20)

// ---- Files
// -----------------------------------------------------------------------------------------------------------

// 0: the file doesn't take direct reads.
static uint32_t wanted_alignment(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx about;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 && (about.stx_mask & STATX_DIOALIGN)) {
        uint32_t most =
            about.stx_dio_mem_align > about.stx_dio_offset_align ? about.stx_dio_mem_align : about.stx_dio_offset_align;
        bool fine = about.stx_dio_offset_align && most <= USUAL_ALIGNMENT && (most & (most - 1)) == 0;
        return fine ? most : 0;
    }
#endif
    return USUAL_ALIGNMENT;
}

// Where the system doesn't tell, the first block does.
static bool takes_direct(int fd, uint32_t alignment)
{
    void *block = aligned_alloc(alignment, alignment);
    ssize_t got = block ? pread(fd, block, alignment, 0) : -1;
    free(block);
    return got >= 0;
}

static void make_direct(struct flights *f, struct expert_file *file)
{
    int flags = fcntl(file->fd, F_GETFL);
    file->alignment = 0;
    if (!f->direct) {
        fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
        return;
    }
    uint32_t alignment = wanted_alignment(file->fd);
    if (alignment && fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0) {
        if (takes_direct(file->fd, alignment)) {
            file->alignment = alignment;
            return;
        }
        fcntl(file->fd, F_SETFL, flags);
    }
    f->refused++;
}

static int open_file(struct flights *f, uint32_t index, struct moe_err *err)
{
    struct expert_file *file = &f->files[index];
    int fd;
    uint64_t bytes;
    int code = file_open(f->package->files[index].path, &fd, &bytes, err);
    if (code)
        return code;
    if (file->fd >= 0) {
        f->refused -= f->direct && !file->alignment;
        close(file->fd);
    }
    file->fd = fd;
    file->suspect = false;
    make_direct(f, file);
    return MOE_OK;
}

void flights_set_direct(struct flights *f, bool direct)
{
    f->direct = direct;
    f->refused = 0;
    for (uint32_t i = 0; i < f->package->n_files; i++)
        make_direct(f, &f->files[i]);
}

// Some expert's span lies neither on whole blocks nor in pages of its own.
static bool any_is_shifted(const struct package *package)
{
    uint64_t places = 0;
    for (uint32_t layer = 0; layer < package->shape.n_layers; layer++)
        for (uint32_t i = 0; i < package->layers[layer].n_spans; i++) {
            const struct expert_span *span = &package->layers[layer].spans[i];
            places |= span->own_pages ? 0 : span->offset | span->bytes | span->at;
        }
    return places % USUAL_ALIGNMENT != 0;
}

// From the page cache one thread copies far slower than several, and a layer's few misses would keep few readers busy
// and arrive together: pieces, such that all readers have one of a single expert, none so small that handing it out
// costs. A disk is kept busy by whole experts, in fewer and larger reads.
static void choose_pieces(struct flights *f, const struct flights_options *options)
{
    uint64_t expert = package_slot_bytes(f->package), asked = options->piece_bytes;
    uint64_t piece = expert / options->readers;
    piece = piece < LEAST_PIECE ? LEAST_PIECE : piece > MOST_PIECE ? MOST_PIECE : piece;
    uint64_t n = (expert + piece - 1) / piece;
    piece = ((expert + n - 1) / n + PAGE - 1) / PAGE * PAGE; // of about one size
    f->direct_piece = asked ? asked : MOE_READ_WHOLE;
    f->buffered_piece = asked ? asked : piece;
}

// Reads of an expert, at most: one of each span more for its beginning up to a page.
static uint32_t most_parts(const struct flights *f)
{
    uint64_t piece = f->direct_piece < f->buffered_piece ? f->direct_piece : f->buffered_piece;
    uint32_t most = 1;
    for (uint32_t layer = 0; layer < f->package->shape.n_layers; layer++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->package->layers[layer].n_spans; i++)
            n += 2 + (uint32_t)(f->package->layers[layer].spans[i].bytes / piece);
        most = n > most ? n : most;
    }
    return most;
}

int flights_open(struct flights *f, const struct package *package, const struct flights_options *options,
                 struct moe_err *err)
{
    if (options->piece_bytes % PAGE && options->piece_bytes != MOE_READ_WHOLE)
        return moe_fail(err, MOE_BAD_ARGUMENT, "pieces of %" PRIu64 " bytes asked for: a multiple of %d, or whole",
                        options->piece_bytes, PAGE);
    f->package = package;
    f->direct = options->direct;
    choose_pieces(f, options);
    f->most_parts = most_parts(f);
    f->files = calloc(package->n_files, sizeof *f->files);
    f->items = calloc(options->n_flights, sizeof *f->items);
    f->reads = calloc((size_t)options->n_flights * f->most_parts, sizeof *f->reads);
    f->parts = calloc((size_t)options->n_flights * f->most_parts, sizeof *f->parts);
    for (uint32_t i = 0; f->files && i < package->n_files; i++)
        f->files[i].fd = -1;
    if (!f->files || !f->items || !f->reads || !f->parts)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %" PRIu32 " expert reads", options->n_flights);
    for (uint32_t i = 0; i < package->n_files; i++) {
        int code = open_file(f, i, err);
        if (code)
            return code;
    }
    for (; f->n_items < options->n_flights; f->n_items++) {
        struct flight *flight = &f->items[f->n_items];
        flight->reads = f->reads + (size_t)f->n_items * f->most_parts;
        flight->parts = f->parts + (size_t)f->n_items * f->most_parts;
        flight->next_idle = f->idle;
        f->idle = flight;
    }
    struct reader_options pool = {
        .threads = options->readers,
        .capacity = options->n_flights * f->most_parts,
        .read = options->read,
        .context = options->read_context,
        .watches = options->watches,
        .bounce = any_is_shifted(package),
    };
    return reader_open(&pool, &f->pool, err);
}

void flights_close(struct flights *f)
{
    reader_close(f->pool); // first: readers use what is freed below
    for (uint32_t i = 0; f->files && i < f->package->n_files; i++)
        if (f->files[i].fd >= 0)
            close(f->files[i].fd);
    free(f->files);
    free(f->items);
    free(f->reads);
    free(f->parts);
}

// ---- Flights
// ---------------------------------------------------------------------------------------------------------

// What failed may have been the file, and its descriptor with it: a replaced file is found under its name only.
static bool reopen(struct flights *f, const struct expert_span *span, struct read_failure *failure)
{
    struct expert_file *file = &f->files[span->file];
    struct moe_err err;
    if (!file->suspect || file->n_reading || open_file(f, span->file, &err) == MOE_OK)
        return true;
    *failure = (struct read_failure){
        .result = READ_ERROR,
        .sys_errno = err.sys_errno ? err.sys_errno : ESPIPE, // what a pipe would say to pread
        .file = span->file,
        .offset = span->offset,
    };
    return false;
}

// Adds the reads of a span. All but the first begin at a page of the file.
static void cut(const struct flights *f, struct flight *flight, const struct expert_span *span)
{
    struct expert_file *file = &f->files[span->file];
    uint64_t piece = f->direct ? f->direct_piece : f->buffered_piece;
    for (uint64_t done = 0, here; done < span->bytes; done += here) {
        uint64_t at = span->offset + done;
        here = span->bytes - done;
        if (here > piece)
            here = piece - at % PAGE;
        flight->parts[flight->n_parts] = (struct flight_part){.file = span->file};
        flight->reads[flight->n_parts++] = (struct read_request){
            .fd = file->fd,
            .alignment = file->alignment,
            .around = span->own_pages,
            .prefetch = flight->prefetch,
            .offset = at,
            .length = (size_t)here,
            .target = flight->target + span->at + done,
            .owner = flight,
        };
        file->n_reading++;
    }
}

struct flight *flights_begin(struct flights *f, const struct flight_order *order, struct read_failure *failure)
{
    struct expert_span spans[MAX_EXPERT_SPANS];
    uint32_t n = package_spans(f->package, order->layer, order->expert, spans);
    *failure = (struct read_failure){.result = READ_FULL};
    if (!f->idle)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!reopen(f, &spans[i], failure))
            return NULL;
    struct flight *flight = f->idle;
    f->idle = flight->next_idle;
    *flight = (struct flight){
        .reads = flight->reads,
        .parts = flight->parts,
        .prefetch = order->prefetch,
        .target = order->target,
        .owner = order->owner,
    };
    f->n_flying++;
    f->n_prefetches += flight->prefetch;
    for (uint32_t i = 0; i < n; i++)
        cut(f, flight, &spans[i]);
    flight->n_left = flight->n_parts;
    bool submitted = reader_submit(f->pool, flight->reads, flight->n_parts); // the pool has room for every flight
    assert(submitted);
    (void)submitted;
    return flight;
}

void flights_done(struct flights *f, struct flight *flight)
{
    f->n_flying--;
    f->n_prefetches -= flight->prefetch;
    flight->n_left = 0;
    flight->next_idle = f->idle;
    f->idle = flight;
}

bool flights_withdraw(struct flights *f, struct flight *flight)
{
    if (flight->n_left < flight->n_parts || !reader_withdraw(f->pool, flight->reads, flight->n_parts))
        return false;
    for (uint32_t i = 0; i < flight->n_parts; i++)
        f->files[flight->parts[i].file].n_reading--;
    flights_done(f, flight);
    return true;
}

void flights_promote(struct flights *f, struct flight *flight)
{
    if (!flight->prefetch)
        return;
    reader_promote(f->pool, flight->reads, flight->n_parts);
    f->n_prefetches--;
    flight->prefetch = false;
}

static void note_failure(struct flight *flight, uint32_t index)
{
    const struct read_request *read = &flight->reads[index];
    if (flight->failure.result != READ_FULL && flight->failed_part < index)
        return;
    flight->failed_part = index;
    flight->failure = (struct read_failure){
        .result = read->result,
        .sys_errno = read->sys_errno,
        .file = flight->parts[index].file,
        .offset = read->offset + read->delivered,
    };
}

struct flight *flights_reap(struct flights *f, int wait_ms)
{
    const struct read_request *read = reader_reap(f->pool, wait_ms);
    if (!read)
        return NULL;
    struct flight *flight = read->owner;
    uint32_t index = (uint32_t)(read - flight->reads);
    struct expert_file *file = &f->files[flight->parts[index].file];
    file->n_reading--;
    flight->n_left--;
    flight->delivered += read->delivered;
    flight->cached += read->cached;
    flight->parts[index].whole = read->result == READ_FULL;
    if (read->result != READ_FULL) {
        file->suspect = true;
        note_failure(flight, index);
    }
    for (; flight->n_there < flight->n_parts && flight->parts[flight->n_there].whole; flight->n_there++) {
        const struct read_request *whole = &flight->reads[flight->n_there];
        flight->there = (uint64_t)((char *)whole->target - flight->target) + whole->length;
    }
    return flight;
}
