// SPDX-License-Identifier: GPL-3.0-or-later
// What the tests of the expert store share: a small package on disk, a device of plain memory that stands in for
// kernels/ (its fences pass when the test says so), and a read function that can be held up or told to fail.
// The linker takes these gpu_ functions before the library's, so nothing of kernels/ comes into such a program.
#ifndef MOECHAT_EXPERT_RIG_H
#define MOECHAT_EXPERT_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/draws.h"
#include "engine/experts/expert_store.h"
#include "engine/files/spans.h"
#include "tests/expert_check.h"
#include "tests/harness.h"

// ---- The device
// ------------------------------------------------------------------------------------------------------

struct gpu {
    struct gpu_info info;
    uint64_t fence, passed; // fences given out; those up to here have passed
    bool lazy;              // fences pass only in gpu_fence_wait or by rig_pass
    bool refuse_writes, refuse_maps;
    bool failed;
    bool lazy_copies; // copies pass, and their bytes arrive, only when somebody waits
    uint64_t copy, copied;
    uint64_t followed; // gpu_follow's last
    uint64_t lost;     // the copy of this number never arrives
    struct rig_copy {
        gpu_buf *buf;
        uint64_t offset, bytes;
        const void *source;
        void *back; // where bytes of the device go instead
    } copies[64];   // by number, of those under way
    unsigned fence_waits, copy_waits, host_blocks;
    uint64_t bytes_allocated, bytes_written;
    uint64_t most;     // that it allocates, 0: info.global_bytes
    struct harness *t; // who hears what expert_check says of its stores, and heard it
    bool told;
};

struct gpu_buf {
    gpu *g;
    uint64_t bytes;
    bool mapped;
    unsigned char *memory;
};

const struct gpu_info *gpu_describe(const gpu *g)
{
    return &g->info;
}

gpu_buf *gpu_buf_new(gpu *g, uint64_t bytes, struct gpu_error *err)
{
    if (bytes > g->info.max_alloc_bytes || g->bytes_allocated + bytes > (g->most ? g->most : g->info.global_bytes)) {
        *err = (struct gpu_error){.code = GPU_OUT_OF_MEMORY, .text = "the rig is full"};
        return NULL;
    }
    gpu_buf *buf = malloc(sizeof *buf);
    *buf = (gpu_buf){.g = g, .bytes = bytes, .memory = aligned_alloc(4096, bytes)};
    memset(buf->memory, 0xA5, bytes);
    g->bytes_allocated += bytes;
    return buf;
}

static void rig_copy_all(gpu *g); // as the device does before memory goes

void gpu_buf_free(gpu_buf *buf)
{
    if (buf) {
        rig_copy_all(buf->g);
        buf->g->bytes_allocated -= buf->bytes;
        free(buf->memory);
    }
    free(buf);
}

uint64_t gpu_buf_bytes(const gpu_buf *buf)
{
    return buf->bytes;
}

void *gpu_buf_host(gpu_buf *buf)
{
    return buf->g->info.shares_host_memory ? buf->memory : NULL;
}

void *gpu_host_alloc(gpu *g, uint64_t bytes, struct gpu_error *err)
{
    (void)err;
    g->host_blocks++;
    return aligned_alloc(4096, bytes);
}

void gpu_host_free(gpu *g, void *memory)
{
    rig_copy_all(g);
    g->host_blocks--;
    free(memory);
}

void gpu_write(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes)
{
    if (g->refuse_writes || offset + bytes > buf->bytes) {
        g->failed = true;
        return;
    }
    memcpy(buf->memory + offset, source, bytes);
    g->bytes_written += bytes;
}

static void rig_copy_one(gpu *g)
{
    struct rig_copy *copy = &g->copies[++g->copied % 64];
    if (g->copied == g->lost || (copy->back && g->refuse_writes))
        g->failed = true;
    else if (copy->back)
        memcpy(copy->back, copy->buf->memory + copy->offset, copy->bytes);
    else
        gpu_write(g, copy->buf, copy->offset, copy->source, copy->bytes);
}

static void rig_copy_all(gpu *g)
{
    while (g->copied < g->copy)
        rig_copy_one(g);
}

static inline uint64_t rig_copy_begin(gpu *g, const struct rig_copy *copy)
{
    g->copies[++g->copy % 64] = *copy;
    while (g->copied < g->copy && (!g->lazy_copies || g->copy - g->copied == 64))
        rig_copy_one(g);
    return g->copy;
}

uint64_t gpu_copy(gpu *g, gpu_buf *buf, uint64_t offset, const void *source, uint64_t bytes)
{
    return rig_copy_begin(g, &(struct rig_copy){buf, offset, bytes, source, NULL});
}

uint64_t gpu_copy_back(gpu *g, gpu_buf *buf, uint64_t offset, void *target, uint64_t bytes)
{
    return rig_copy_begin(g, &(struct rig_copy){buf, offset, bytes, NULL, target});
}

gpu_buf *gpu_buf_new_shared(gpu *g, uint64_t bytes, struct gpu_error *err)
{
    return gpu_buf_new(g, bytes, err);
}

void *gpu_map(gpu *g, gpu_buf *buf)
{
    if (!g->info.maps_host_memory)
        return gpu_buf_host(buf);
    if (g->refuse_maps || buf->mapped) {
        g->failed = true;
        return NULL;
    }
    rig_copy_all(g); // one after the other
    buf->mapped = true;
    memset(buf->memory, 0x5A, buf->bytes); // what it held is lost
    return buf->memory;
}

// The bytes are the device's when an empty copy has passed.
uint64_t gpu_unmap(gpu *g, gpu_buf *buf)
{
    if (!buf->mapped)
        return g->copied;
    buf->mapped = false;
    return gpu_copy(g, buf, 0, "", 0);
}

bool gpu_copy_passed(gpu *g, uint64_t copy)
{
    return copy <= g->copied;
}

void gpu_copy_wait(gpu *g, uint64_t copy)
{
    g->copy_waits++;
    while (g->copied < copy)
        rig_copy_one(g);
}

void gpu_follow(gpu *g, uint64_t copy)
{
    g->followed = copy;
}

bool gpu_failed(const gpu *g)
{
    return g->failed;
}

uint64_t gpu_host_memory_left(const gpu *g)
{
    return g->info.global_bytes;
}

int gpu_check(gpu *g, struct gpu_error *err)
{
    if (!g->failed)
        return 0;
    g->failed = false;
    *err = (struct gpu_error){.code = GPU_LAUNCH, .text = "the rig lost a command"};
    return GPU_LAUNCH;
}

struct gpu_counts gpu_counters(const gpu *g)
{
    return (struct gpu_counts){.bytes_written = g->bytes_written};
}

uint64_t gpu_fence(gpu *g)
{
    g->fence++;
    if (!g->lazy)
        g->passed = g->fence;
    return g->fence;
}

uint64_t gpu_fence_to_come(gpu *g)
{
    return gpu_fence(g);
}

bool gpu_fence_passed(gpu *g, uint64_t fence)
{
    return fence <= g->passed;
}

void gpu_fence_wait(gpu *g, uint64_t fence)
{
    g->fence_waits++;
    if (g->passed < fence)
        g->passed = fence;
}

// ---- The package
// -----------------------------------------------------------------------------------------------------

enum { RIG_LAYERS = 4, RIG_EXPERTS = 8, RIG_TOP_K = 3, RIG_BLOB = 8192, RIG_ALL = 3 * RIG_EXPERTS }; // layer 0 is dense

// Every 8 bytes of the package differ.
static inline uint64_t rig_word(uint32_t layer, uint32_t expert, uint64_t word)
{
    uint64_t x = ((uint64_t)layer << 48 | (uint64_t)expert << 32 | word) + 0x9E3779B97F4A7C15U;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
    x = (x ^ x >> 27) * 0x94D049BB133111EBU;
    return x ^ x >> 31;
}

static inline void rig_blob(uint32_t layer, uint32_t expert, uint64_t words[RIG_BLOB / 8])
{
    for (uint64_t i = 0; i < RIG_BLOB / 8; i++)
        words[i] = rig_word(layer, expert, i);
}

struct rig {
    struct package package;
    struct package_layer layers[RIG_LAYERS];
    struct package_file files[RIG_LAYERS];
    char names[RIG_LAYERS][32];
    char paths[RIG_LAYERS][64];
    gpu g;
    uint64_t host_bytes; // of the stores that rig_store opens
    enum moe_io io;
    unsigned readers;    // 0: 2
    uint32_t dispatches; // 0: 1
    enum moe_write_back write_back;
    const char *trace;         // NULL: none is written
    uint64_t read_piece_bytes; // 0: chosen, and whole, so small are the experts
};

static inline void rig_path(const struct rig *rig, uint32_t layer, char path[4200])
{
    snprintf(path, 4200, "%s/%s", rig->package.directory, rig->names[layer]);
}

// (Re)writes a layer's file in place, cut off after `bytes`.
static inline bool rig_write_layer(const struct rig *rig, uint32_t layer, uint64_t bytes)
{
    char path[4200];
    rig_path(rig, layer, path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    bool good = fd >= 0;
    for (uint32_t expert = 0; good && expert < RIG_EXPERTS; expert++) {
        uint64_t words[RIG_BLOB / 8];
        rig_blob(layer, expert, words);
        good = pwrite(fd, words, sizeof words, (off_t)expert * RIG_BLOB) == RIG_BLOB;
    }
    good = good && ftruncate(fd, (off_t)bytes) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

static inline bool rig_open(struct rig *rig, bool shares_host_memory)
{
    memset(rig, 0, sizeof *rig);
    // Slabs of five slots: most budgets take several, the last one cut.
    rig->g.info = (struct gpu_info){.name = "rig",
                                    .shares_host_memory = shares_host_memory,
                                    .global_bytes = 2 * (RIG_ALL + 1) * RIG_BLOB,
                                    .max_alloc_bytes = 5 * RIG_BLOB + 100};
    rig->host_bytes = MOE_CACHE_NONE;
    struct package *package = &rig->package;
    package->shape.n_layers = RIG_LAYERS;
    package->shape.first_k_dense_replace = 1;
    package->shape.n_routed_experts = RIG_EXPERTS;
    package->shape.top_k = RIG_TOP_K;
    package->layers = rig->layers;
    package->files = rig->files;
    package->n_files = RIG_LAYERS - 1;
    snprintf(package->directory, sizeof package->directory, "/tmp/moechat-rig-XXXXXX");
    if (!mkdtemp(package->directory))
        return false;
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
        snprintf(rig->names[layer], sizeof rig->names[layer], "layer-%03u.experts", layer);
        snprintf(rig->paths[layer], sizeof rig->paths[layer], "%.40s/%.20s", package->directory, rig->names[layer]);
        rig->files[layer - 1] = (struct package_file){rig->paths[layer], RIG_EXPERTS * RIG_BLOB, ""};
        rig->layers[layer] = (struct package_layer){{.blob_bytes = RIG_BLOB}, 1, {{layer - 1, 0, RIG_BLOB, 0, true}}};
        if (!rig_write_layer(rig, layer, RIG_EXPERTS * RIG_BLOB))
            return false;
    }
    return true;
}

// Turns the package into one whose experts lie in three spans of odd places and lengths, in the files of two layers, as
// in a folder from the hub; the bytes of an expert stay the same.
static inline bool rig_scatter(struct rig *rig)
{
    static const uint64_t bytes[3] = {4160, 64, RIG_BLOB - 4160 - 64};
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
        struct package_layer *to = &rig->layers[layer];
        uint32_t other = layer % (RIG_LAYERS - 1); // the next layer's file
        to->n_spans = 3;
        to->spans[0] = (struct expert_span){layer - 1, RIG_EXPERTS * RIG_BLOB + 1000, bytes[0], 0, false};
        to->spans[1] = (struct expert_span){layer - 1, to->spans[0].offset + RIG_EXPERTS * bytes[0] + 3, bytes[1],
                                            bytes[0], false};
        to->spans[2] =
            (struct expert_span){other, 3 * RIG_EXPERTS * RIG_BLOB + 77, bytes[2], bytes[0] + bytes[1], false};
        for (uint32_t expert = 0; expert < RIG_EXPERTS; expert++) {
            uint64_t words[RIG_BLOB / 8];
            rig_blob(layer, expert, words);
            for (uint32_t i = 0; i < 3; i++) {
                const struct expert_span *span = &to->spans[i];
                int fd = open(rig->files[span->file].path, O_WRONLY);
                ssize_t put =
                    pwrite(fd, (char *)words + span->at, span->bytes, (off_t)(span->offset + expert * span->bytes));
                close(fd);
                if (put != (ssize_t)span->bytes)
                    return false;
            }
        }
    }
    return true;
}

// Turns it into one whose experts lie in two or three spans, as in a GGUF of several types: layers of 2, 3 and 6 pages,
// tensors in three files by turns, at multiples of 32, one close behind the other from near the file's begin to its
// end. The last layer's last span is of no whole pages, so not all of its experts lie alike.
static inline bool rig_spread(struct rig *rig)
{
    static const uint64_t bytes[RIG_LAYERS][3] = {{0}, {4096, 4096}, {4096, 4096, 4096}, {4096, 12288, 7200}};
    uint64_t ends[RIG_LAYERS - 1] = {32, 4064, 0};
    bool good = true;
    for (uint32_t i = 0; i < RIG_LAYERS - 1; i++)
        good = good && truncate(rig->files[i].path, 0) == 0;
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
        struct package_layer *to = &rig->layers[layer];
        uint64_t word = 0;
        for (to->n_spans = 0; to->n_spans < 3 && bytes[layer][to->n_spans]; to->n_spans++) {
            uint32_t file = (layer + to->n_spans) % (RIG_LAYERS - 1);
            to->spans[to->n_spans] =
                (struct expert_span){.file = file, .offset = ends[file], .bytes = bytes[layer][to->n_spans]};
            ends[file] += RIG_EXPERTS * bytes[layer][to->n_spans];
        }
        spans_place(to, 32);
        for (uint32_t i = 0; i < to->n_spans; word += to->spans[i++].bytes / 8) {
            int fd = open(rig->files[to->spans[i].file].path, O_WRONLY);
            for (uint32_t expert = 0; expert < RIG_EXPERTS; expert++) {
                uint64_t words[12288 / 8], put = to->spans[i].bytes;
                for (uint64_t w = 0; w < put / 8; w++)
                    words[w] = rig_word(layer, expert, word + w);
                off_t at = (off_t)(to->spans[i].offset + expert * put);
                good = good && pwrite(fd, words, put, at) == (ssize_t)put;
            }
            close(fd);
        }
    }
    for (uint32_t i = 0; i < RIG_LAYERS - 1; i++)
        rig->files[i].bytes = ends[i];
    uint64_t slot = package_slot_bytes(&rig->package);
    rig->g.info.global_bytes = rig->g.info.global_bytes / RIG_BLOB * slot; // as many slots as before
    rig->g.info.max_alloc_bytes = rig->g.info.max_alloc_bytes / RIG_BLOB * slot;
    return good;
}

static inline void rig_close(struct rig *rig)
{
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++) {
        char path[4200];
        rig_path(rig, layer, path);
        unlink(path);
    }
    rmdir(rig->package.directory);
}

// ---- Reading
// ---------------------------------------------------------------------------------------------------------

// pread, but: every read takes a permit when `gated`; at most `most` bytes a call; and the next `fail_count` reads that
// cover byte `fail_at` of a file fail with `fail_errno` (0: end of file).
struct rig_read {
    bool gated;
    sem_t permits, entered;
    size_t most;
    atomic_int fail_count;
    atomic_int fail_errno;
    _Atomic uint64_t fail_at;
    atomic_int calls;
    _Atomic uint64_t last; // offset of the read that began last
};

static inline ptrdiff_t rig_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    struct rig_read *how = context;
    atomic_fetch_add(&how->calls, 1);
    atomic_store(&how->last, offset);
    if (how->gated) {
        sem_post(&how->entered);
        while (sem_wait(&how->permits))
            ;
    }
    if (how->most && length > how->most)
        length = how->most;
    uint64_t bad = atomic_load(&how->fail_at);
    if (offset <= bad && bad < offset + length && atomic_load(&how->fail_count) > 0) {
        atomic_fetch_sub(&how->fail_count, 1);
        errno = atomic_load(&how->fail_errno);
        return errno ? -1 : 0;
    }
    return pread(fd, target, length, (off_t)offset);
}

static inline void rig_gate(struct rig_read *how)
{
    how->gated = true;
    sem_init(&how->permits, 0, 0);
    sem_init(&how->entered, 0, 0);
}

static inline void rig_permit(struct rig_read *how, int n)
{
    while (n--)
        sem_post(&how->permits);
}

// Waits for n reads to have begun; false after 10 s.
static inline bool rig_entered(struct rig_read *how, int n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    while (n > 0) {
        if (!sem_timedwait(&how->entered, &until))
            n--;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

// ---- The store
// -------------------------------------------------------------------------------------------------------

// Every call of a test ends with a look at all that must hold.
static inline int rig_look(const expert_store *store, const char *after, int result)
{
    const char *wrong = store ? expert_check(store) : NULL;
    if (!wrong || store->g->told)
        return result;
    printf("    after %s: %s\n", after, wrong);
    if (!store->g->t)
        abort();
    store->g->told = !harness_check(store->g->t, 0, __FILE__, __LINE__, "the store's invariants hold");
    return result;
}

static inline int rig_look_at_new(expert_store *const *store, int result)
{
    return rig_look(*store, "expert_store_open", result);
}

#define expert_store_open(g, package, options, store, err)                                                             \
    rig_look_at_new(store, (expert_store_open)(g, package, options, store, err))
#define expert_store_close(store)      (rig_look(store, "what was before closing", 0), (expert_store_close)(store))
#define expert_acquire(store, ...)     rig_look(store, "expert_acquire", (expert_acquire)(store, __VA_ARGS__))
#define expert_ready(store, place)     rig_look(store, "expert_ready", (expert_ready)(store, place))
#define expert_wait(store, ...)        rig_look(store, "expert_wait", (expert_wait)(store, __VA_ARGS__))
#define expert_wait_any(store, ...)    rig_look(store, "expert_wait_any", (expert_wait_any)(store, __VA_ARGS__))
#define expert_is_coming(store, place) rig_look(store, "expert_is_coming", (expert_is_coming)(store, place))
#define expert_confirm(store, err)     rig_look(store, "expert_confirm", (expert_confirm)(store, err))
#define expert_release(store, ...)     ((expert_release)(store, __VA_ARGS__), (void)rig_look(store, "expert_release", 0))
#define expert_layer_stays(store, ...) rig_look(store, "expert_layer_stays", (expert_layer_stays)(store, __VA_ARGS__))
#define expert_note_uses(store, ...)   rig_look(store, "expert_note_uses", (expert_note_uses)(store, __VA_ARGS__))
#define expert_prefetch(store, ...)                                                                                    \
    (uint32_t) rig_look(store, "expert_prefetch", (int)(expert_prefetch)(store, __VA_ARGS__))
#define expert_fill(store) (uint32_t) rig_look(store, "expert_fill", (int)(expert_fill)(store))
#define expert_drop_prefetches(store)                                                                                  \
    ((expert_drop_prefetches)(store), (void)rig_look(store, "expert_drop_prefetches", 0))
#define expert_take_in(store, ...) rig_look(store, "expert_take_in", (expert_take_in)(store, __VA_ARGS__))

static inline uint64_t rig_slot_bytes(const struct rig *rig)
{
    return package_slot_bytes(&rig->package);
}

static inline expert_store *rig_store(struct harness *t, struct rig *rig, uint64_t slots, struct rig_read *how)
{
    struct expert_store_options options = {
        .cache_bytes = slots * rig_slot_bytes(rig),
        .host_bytes = rig->host_bytes,
        .io = rig->io,
        .dispatches = rig->dispatches,
        .readers = rig->readers ? rig->readers : 2,
        .read_piece_bytes = rig->read_piece_bytes,
        .write_back = rig->write_back,
        .trace_file = rig->trace,
        .read = how ? rig_read : NULL,
        .read_context = how,
    };
    expert_store *store;
    struct moe_err err = {0};
    rig->g.t = t;
    if (!CHECK_EQ(t, expert_store_open(&rig->g, &rig->package, &options, &store, &err), MOE_OK))
        printf("    %s\n", err.text);
    return store;
}

// The bytes that the device has at a place are the expert's.
static inline bool rig_holds(const struct expert_place *place)
{
    const struct rig *rig = (const struct rig *)((const char *)place->buf->g - offsetof(struct rig, g));
    const struct package_layer *layer = &rig->layers[place->layer];
    const unsigned char *slot = place->buf->memory + place->offset;
    bool good = place->offset % 4096 == 0 && !place->buf->mapped &&
                place->offset + layer->experts.blob_bytes <= place->buf->bytes;
    uint64_t word = 0;
    for (uint32_t i = 0; good && i < layer->n_spans; i++)
        for (uint64_t at = 0; good && at < layer->spans[i].bytes; at += 8, word++) {
            uint64_t value = rig_word(place->layer, place->expert, word);
            good = memcmp(slot + layer->spans[i].at + at, &value, sizeof value) == 0;
        }
    return good;
}

static inline int rig_acquire(expert_store *store, uint32_t layer, const int32_t *ids, uint32_t n,
                              struct expert_place *places)
{
    struct expert_request request = {.layer = layer, .ids = ids, .n = n};
    return expert_acquire(store, &request, places, NULL);
}

// Acquires, waits, compares and releases one request.
static inline bool rig_use(expert_store *store, uint32_t layer, const int32_t *ids, uint32_t n)
{
    struct expert_place places[RIG_ALL];
    if (rig_acquire(store, layer, ids, n, places))
        return false;
    bool good = true;
    for (uint32_t i = 0; i < n; i++)
        good = !expert_wait(store, &places[i], NULL, NULL, NULL) && rig_holds(&places[i]) && good;
    expert_release(store, places, n);
    return good;
}

static inline bool rig_use_one(expert_store *store, uint32_t layer, int32_t id)
{
    return rig_use(store, layer, &id, 1);
}

// True when the expert is there without a read; counts as a use.
static inline bool rig_is_hit(expert_store *store, uint32_t layer, int32_t id)
{
    uint64_t before = expert_store_counts(store).hits;
    return rig_use_one(store, layer, id) && expert_store_counts(store).hits == before + 1;
}

static inline bool rig_prefetch(expert_store *store, uint32_t layer, int32_t id)
{
    return expert_prefetch(store, &(struct expert_prediction){layer, &id, 1}) == 1;
}

static inline struct expert_layer_counts rig_counts(const expert_store *store, uint32_t layer)
{
    struct expert_layer_counts counts;
    expert_store_layer(store, layer, &counts);
    return counts;
}

// Uses one expert. MOE_ORIGINS: it could not be had, or its bytes are others.
static inline enum moe_origin rig_origin(expert_store *store, uint32_t layer, int32_t id)
{
    struct expert_place place = {.origin = MOE_ORIGINS};
    if (!rig_acquire(store, layer, &id, 1, &place)) {
        if (expert_wait(store, &place, NULL, NULL, NULL) || !rig_holds(&place))
            place.origin = MOE_ORIGINS;
        expert_release(store, &place, 1);
    }
    return place.origin;
}

// Until so many bytes are there; for 2 s at most.
static inline void rig_let_arrive(expert_store *store, uint64_t bytes)
{
    for (int i = 0; i < 2000 && expert_store_counts(store).bytes_read < bytes; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        expert_store_settle(store);
    }
}

static inline bool rig_yes(void *context)
{
    (void)context;
    return true;
}

#endif
