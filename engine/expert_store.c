// SPDX-License-Identifier: GPL-3.0-or-later
#include "expert_store.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "err.h"
#include "file.h"
#include "reader.h"

#define NO_SLOT         UINT32_MAX
#define BLOB_ALIGNMENT  4096
#define DEFAULT_READERS 4
#define CANCEL_POLL_MS  10 // how often a wait looks at its cancel flag: nothing wakes it

// Slots in order, linked through themselves.
struct slot_list {
    struct slot *first;
    struct slot *last;
    uint32_t count;
};

enum slot_state { SLOT_EMPTY, SLOT_LOADING, SLOT_READY };

struct slot {
    struct slot_list *list; // the one that it is in, NULL: none
    struct slot *previous;
    struct slot *next;
    struct flight *flight; // its read, when submitted
    enum slot_state state;
    uint32_t layer, expert; // the key, unless EMPTY
    uint32_t pins;
    uint64_t fence; // of the last release
    // Why a pinned slot is EMPTY, for those who still wait.
    enum read_result failure; // READ_FULL: the device did not take the bytes
    int failed_errno;
    uint64_t failed_offset;
};

// One read on its way. The request is the first member, so that what the pool gives back is the flight.
struct flight {
    struct read_request request;
    struct slot *slot;
    void *staging; // NULL: the device shares our memory and the slot itself is read into
    struct flight *next_idle;
};

struct layer_file {
    const char *path; // the package's
    int fd;           // -1: a dense layer
    uint32_t flights; // reads under way
    bool suspect;     // a read failed: opened again before the next one
};

struct expert_store {
    gpu *g;
    reader *reader;
    const struct package *package;
    uint64_t slot_bytes;
    uint32_t n_layers, n_routed_experts, first_moe_layer;
    struct moe_cache_plan plan;
    struct expert_counts counts;

    gpu_buf **slabs;
    uint32_t n_slabs, slots_per_slab;
    struct slot *slots; // [n_slots]
    uint32_t n_slots, pinned;
    uint32_t *table;          // [n_layers * n_routed_experts], the expert's slot or NO_SLOT
    struct slot_list free;    // unpinned, fence passed: EMPTY ones first, then from cold to hot
    struct slot_list cooling; // unpinned, READY, in order of their fences
    struct slot_list pending; // LOADING, pinned, for want of a flight not submitted yet
    struct flight *flights;   // [n_flights]
    struct flight *idle;
    uint32_t n_flights;
    struct layer_file *files; // [n_layers]
    uint64_t *asked;          // [n_routed_experts], serial of the last request that named it
    uint64_t serial;
};

static void list_append(struct slot_list *list, struct slot *slot)
{
    slot->list = list;
    slot->previous = list->last;
    slot->next = NULL;
    *(list->last ? &list->last->next : &list->first) = slot;
    list->last = slot;
    list->count++;
}

static void list_prepend(struct slot_list *list, struct slot *slot)
{
    slot->list = list;
    slot->previous = NULL;
    slot->next = list->first;
    *(list->first ? &list->first->previous : &list->last) = slot;
    list->first = slot;
    list->count++;
}

static void list_remove(struct slot *slot)
{
    struct slot_list *list = slot->list;
    *(slot->previous ? &slot->previous->next : &list->first) = slot->next;
    *(slot->next ? &slot->next->previous : &list->last) = slot->previous;
    list->count--;
    slot->list = NULL;
}

static uint32_t *table_entry(const expert_store *store, uint32_t layer, uint32_t expert)
{
    return &store->table[(size_t)layer * store->n_routed_experts + expert];
}

static struct slot *find(const expert_store *store, uint32_t layer, uint32_t expert)
{
    uint32_t slot = *table_entry(store, layer, expert);
    return slot == NO_SLOT ? NULL : &store->slots[slot];
}

static gpu_buf *slab_of(const expert_store *store, const struct slot *slot, uint64_t *offset)
{
    uint32_t index = (uint32_t)(slot - store->slots);
    *offset = index % store->slots_per_slab * store->slot_bytes;
    return store->slabs[index / store->slots_per_slab];
}

static void forget(expert_store *store, struct slot *slot)
{
    if (slot->state != SLOT_EMPTY)
        *table_entry(store, slot->layer, slot->expert) = NO_SLOT;
    slot->state = SLOT_EMPTY;
}

// A slot whose bytes did not come.
static void empty(expert_store *store, struct slot *slot)
{
    forget(store, slot);
    if (!slot->pins)
        list_prepend(&store->free, slot);
}

// ---- Reads
// -----------------------------------------------------------------------------------------------------------

static int open_layer(struct layer_file *file, struct moe_err *err)
{
    int fd;
    uint64_t bytes;
    int code = file_open(file->path, &fd, &bytes, err);
    if (code)
        return code;
    if (file->fd >= 0)
        close(file->fd);
    file->fd = fd;
    file->suspect = false;
    return 0;
}

static void take_off(expert_store *store, struct slot *slot)
{
    struct layer_file *file = &store->files[slot->layer];
    struct expert_span spans[MAX_EXPERT_SPANS];
    package_spans(store->package, slot->layer, slot->expert, spans);
    uint64_t offset = spans[0].offset;
    // What failed may have been the file, and its descriptor with it: a replaced file is found under its name only.
    struct moe_err reopening;
    if (file->suspect && !file->flights && open_layer(file, &reopening)) {
        slot->failure = READ_ERROR;
        slot->failed_errno = reopening.sys_errno ? reopening.sys_errno : ESPIPE; // what a pipe would say to pread
        slot->failed_offset = offset;
        empty(store, slot);
        return;
    }
    struct flight *flight = store->idle;
    store->idle = flight->next_idle;
    flight->slot = slot;
    slot->flight = flight;
    uint64_t place;
    gpu_buf *slab = slab_of(store, slot, &place);
    flight->request = (struct read_request){
        .fd = file->fd,
        .offset = offset,
        .length = (size_t)spans[0].bytes,
        .target = flight->staging ? flight->staging : (char *)gpu_buf_host(slab) + place,
    };
    file->flights++;
    bool submitted = reader_submit(store->reader, &flight->request); // the pool has room for every flight
    assert(submitted);
    (void)submitted;
}

static void take_off_pending(expert_store *store)
{
    while (store->idle && store->pending.first) {
        struct slot *slot = store->pending.first;
        list_remove(slot);
        take_off(store, slot);
    }
}

static void flight_over(expert_store *store, struct flight *flight)
{
    store->files[flight->slot->layer].flights--;
    flight->slot->flight = NULL;
    flight->next_idle = store->idle;
    store->idle = flight;
}

// The key becomes visible here, after the bytes. An error of the device may be an older op's: whoever called is told,
// for the device tells only once.
static int land(expert_store *store, struct flight *flight, struct moe_err *err)
{
    struct read_request *request = &flight->request;
    struct slot *slot = flight->slot;
    store->counts.bytes_read += request->delivered;
    slot->failure = request->result;
    slot->failed_errno = request->sys_errno;
    slot->failed_offset = request->offset + request->delivered;
    bool arrived = request->result == READ_FULL;
    if (!arrived)
        store->files[slot->layer].suspect = true;
    int failed = 0;
    if (arrived && flight->staging) {
        uint64_t offset;
        gpu_buf *slab = slab_of(store, slot, &offset);
        gpu_write(store->g, slab, offset, flight->staging, request->length);
        struct gpu_error device;
        if (gpu_check(store->g, &device)) {
            failed = moe_fail_gpu(err, &device);
            arrived = false;
        }
    }
    flight_over(store, flight);
    if (arrived) {
        slot->state = SLOT_READY;
        if (!slot->pins) // its request was cancelled: no op has used it, and the next request may
            list_append(&store->free, slot);
    } else {
        empty(store, slot);
    }
    return failed;
}

// Takes in the reads that are done, after waiting for the first as reader_reap does.
static int take_in(expert_store *store, int wait_ms, struct moe_err *err)
{
    uint64_t begin = wait_ms ? clock_ns() : 0;
    struct read_request *request = reader_reap(store->reader, wait_ms);
    if (wait_ms)
        store->counts.wait_ns += clock_ns() - begin;
    int failed = 0;
    while (request && !failed) {
        failed = land(store, (struct flight *)request, err);
        if (!failed)
            request = reader_reap(store->reader, 0);
    }
    take_off_pending(store);
    return failed;
}

// ---- Requests
// --------------------------------------------------------------------------------------------------------

static int check_request(expert_store *store, const struct expert_request *request, struct moe_err *err)
{
    if (request->layer >= store->n_layers || request->layer < store->first_moe_layer)
        return moe_fail(err, MOE_BAD_ARGUMENT, "layer %" PRIu32 " has no routed experts", request->layer);
    if (request->n > store->n_slots)
        return moe_fail(err, MOE_BAD_ARGUMENT, "%" PRIu32 " experts asked for at once, the cache has %" PRIu32 " slots",
                        request->n, store->n_slots);
    store->serial++;
    for (uint32_t i = 0; i < request->n; i++) {
        int32_t id = request->ids[i];
        if ((uint32_t)id >= store->n_routed_experts) // or below 0
            return moe_fail(err, MOE_BAD_ARGUMENT, "layer %" PRIu32 ": expert %" PRId32 " is not one of %" PRIu32,
                            request->layer, id, store->n_routed_experts);
        if (store->asked[id] == store->serial)
            return moe_fail(err, MOE_BAD_ARGUMENT, "layer %" PRIu32 ": expert %" PRId32 " is asked for twice",
                            request->layer, id);
        store->asked[id] = store->serial;
    }
    return 0;
}

static void cooled(expert_store *store, struct slot *slot)
{
    list_remove(slot);
    list_append(&store->free, slot);
}

// Until the misses have free slots beside the hits'. Nothing is pinned or evicted yet, so failing leaves no trace. May
// wait for reads that a cancelled request left under way.
static int make_room(expert_store *store, const struct expert_request *request, struct moe_err *err)
{
    for (;;) {
        int failed = take_in(store, 0, err);
        if (failed)
            return failed;
        while (store->cooling.first && gpu_fence_passed(store->g, store->cooling.first->fence))
            cooled(store, store->cooling.first);
        uint32_t misses = 0;
        uint32_t unpinned_hits = 0;
        uint32_t free_hits = 0;
        for (uint32_t i = 0; i < request->n; i++) {
            const struct slot *slot = find(store, request->layer, (uint32_t)request->ids[i]);
            misses += !slot;
            unpinned_hits += slot && !slot->pins;
            free_hits += slot && slot->list == &store->free;
        }
        if (misses + unpinned_hits > store->n_slots - store->pinned) {
            uint64_t bytes = ((uint64_t)store->pinned + misses + unpinned_hits) * store->slot_bytes;
            return moe_fail(err, MOE_BUDGET,
                            "layer %" PRIu32 " needs %" PRIu32 " more slots while %" PRIu32 " of the cache's %" PRIu32
                            " slots are in use: give --expert-cache at least %" PRIu64 " bytes (%" PRIu64 " MiB)",
                            request->layer, misses + unpinned_hits, store->pinned, store->n_slots, bytes,
                            (bytes + (1U << 20) - 1) >> 20);
        }
        if (misses + free_hits <= store->free.count)
            return 0;
        if (store->cooling.first) {
            gpu_fence_wait(store->g, store->cooling.first->fence);
            cooled(store, store->cooling.first);
        } else {
            failed = take_in(store, READER_FOREVER, err);
            if (failed)
                return failed;
        }
    }
}

static void pin(expert_store *store, struct slot *slot)
{
    if (slot->pins++)
        return;
    store->pinned++;
    if (slot->list)
        list_remove(slot);
}

// Reuses the coldest free slot. A prefetch policy would come through here too, after the demand reads of a request and
// with pins 0; `prefetched`, `used` and `wasted` are its counts and stay 0 while there is none.
static struct slot *load(expert_store *store, uint32_t layer, uint32_t expert)
{
    struct slot *slot = store->free.first;
    store->counts.evictions += slot->state == SLOT_READY;
    forget(store, slot);
    pin(store, slot);
    slot->state = SLOT_LOADING;
    slot->layer = layer;
    slot->expert = expert;
    *table_entry(store, layer, expert) = (uint32_t)(slot - store->slots);
    list_append(&store->pending, slot);
    return slot;
}

int expert_acquire(expert_store *store, const struct expert_request *request, struct expert_place *places,
                   struct moe_err *err)
{
    int failed = check_request(store, request, err);
    if (!failed)
        failed = make_room(store, request, err);
    if (failed)
        return failed;
    // All hits first: a miss must not evict one. A slot still LOADING for a cancelled request is a hit too, though
    // expert_wait will wait for it: its read is paid for.
    for (uint32_t i = 0; i < request->n; i++) {
        struct slot *slot = find(store, request->layer, (uint32_t)request->ids[i]);
        places[i].slot = slot ? (uint32_t)(slot - store->slots) : NO_SLOT;
        places[i].origin = slot ? MOE_FROM_DEVICE : MOE_FROM_DISK;
        if (slot) {
            pin(store, slot);
            store->counts.hits++;
        }
    }
    for (uint32_t i = 0; i < request->n; i++) {
        uint32_t expert = (uint32_t)request->ids[i];
        struct expert_place *place = &places[i];
        place->layer = request->layer;
        place->expert = expert;
        if (place->slot == NO_SLOT) {
            place->slot = (uint32_t)(load(store, request->layer, expert) - store->slots);
            store->counts.misses++;
        }
        place->buf = slab_of(store, &store->slots[place->slot], &place->offset);
    }
    take_off_pending(store);
    return 0;
}

static int fail_place(const expert_store *store, const struct expert_place *place, struct moe_err *err)
{
    const struct slot *slot = &store->slots[place->slot];
    const char *path = store->files[place->layer].path;
    int code;
    if (slot->failure == READ_FULL)
        code = moe_fail(err, MOE_DEVICE, "layer %" PRIu32 ", expert %" PRIu32 ": the device did not take its bytes",
                        place->layer, place->expert);
    else
        code = moe_fail(
            err, MOE_IO, "%.300s: layer %" PRIu32 ", expert %" PRIu32 " could not be read at byte %" PRIu64 ": %s",
            path, place->layer, place->expert, slot->failed_offset,
            slot->failure == READ_EOF ? "the file is cut short, copy it again" : strerror(slot->failed_errno));
    if (!err)
        return code;
    err->layer = (int)place->layer;
    err->expert = (int)place->expert;
    if (code == MOE_IO) {
        err->sys_errno = slot->failed_errno;
        err->offset = slot->failed_offset;
        snprintf(err->file, sizeof err->file, "%s", path);
    }
    return code;
}

int expert_wait(expert_store *store, const struct expert_place *place, bool (*cancelled)(void *), void *context,
                struct moe_err *err)
{
    const struct slot *slot = &store->slots[place->slot];
    int failed = take_in(store, 0, err);
    while (!failed && slot->state == SLOT_LOADING) {
        if (cancelled && cancelled(context))
            return moe_fail(err, MOE_CANCELLED, "cancelled while reading experts");
        failed = take_in(store, cancelled ? CANCEL_POLL_MS : READER_FOREVER, err);
    }
    if (failed)
        return failed;
    return slot->state == SLOT_READY ? 0 : fail_place(store, place, err);
}

// Nobody wants a slot that is still LOADING: a read that has begun finishes into it and lands as any other; one that
// has not would only delay the next request's.
static void abandon(expert_store *store, struct slot *slot)
{
    if (slot->list)
        list_remove(slot);
    else if (reader_withdraw(store->reader, &slot->flight->request))
        flight_over(store, slot->flight);
    else
        return;
    empty(store, slot);
}

void expert_release(expert_store *store, const struct expert_place *places, uint32_t n)
{
    uint64_t fence = n ? gpu_fence(store->g) : 0;
    for (uint32_t i = 0; i < n; i++) {
        struct slot *slot = &store->slots[places[i].slot];
        assert(slot->pins);
        if (--slot->pins)
            continue;
        store->pinned--;
        slot->fence = fence;
        if (slot->state == SLOT_READY)
            list_append(&store->cooling, slot);
        else if (slot->state == SLOT_LOADING)
            abandon(store, slot);
        else
            empty(store, slot);
    }
    take_off_pending(store);
}

// ---- Opening and closing
// ---------------------------------------------------------------------------------------------

static int plan_slots(expert_store *store, const struct package *package, uint64_t cache_bytes, struct moe_err *err)
{
    uint64_t blob = package_slot_bytes(package);
    uint32_t top_k = package->shape.top_k;
    const struct gpu_info *device = gpu_describe(store->g);
    if (store->first_moe_layer >= store->n_layers || !top_k || top_k > store->n_routed_experts)
        return moe_fail(err, MOE_UNSUPPORTED, "the model has no routed experts");
    if (!blob || blob % BLOB_ALIGNMENT || blob > SIZE_MAX)
        return moe_fail(err, MOE_FORMAT, "experts of %" PRIu64 " bytes: not a multiple of %d", blob, BLOB_ALIGNMENT);
    if (blob > device->max_alloc_bytes)
        return moe_fail(err, MOE_NO_MEMORY,
                        "one expert takes %" PRIu64 " bytes, %s allows allocations of %" PRIu64
                        "; choose another device",
                        blob, device->name, device->max_alloc_bytes);
    uint64_t experts = (uint64_t)(store->n_layers - store->first_moe_layer) * store->n_routed_experts;
    if (experts >= NO_SLOT)
        return moe_fail(err, MOE_UNSUPPORTED, "%" PRIu64 " experts are too many", experts);
    uint64_t budget = cache_bytes == MOE_CACHE_AUTO ? device->global_bytes / 2 : cache_bytes;
    uint64_t slots = budget / blob; // MOE_CACHE_ALL is the largest budget of all
    if (slots > experts || cache_bytes == MOE_CACHE_ALL)
        slots = experts;
    uint64_t smallest = top_k * blob;
    if (slots < top_k)
        return moe_fail(err, MOE_BUDGET,
                        "an expert cache of %" PRIu64 " bytes holds %" PRIu64 " experts and a token needs %" PRIu32
                        " at once: give --expert-cache at least %" PRIu64 " bytes (%" PRIu64 " MiB)",
                        budget, slots, top_k, smallest, (smallest + (1U << 20) - 1) >> 20);
    store->slot_bytes = blob;
    store->n_slots = (uint32_t)slots;
    uint64_t per_slab = device->max_alloc_bytes / blob;
    store->slots_per_slab = per_slab < slots ? (uint32_t)per_slab : (uint32_t)slots;
    store->plan = (struct moe_cache_plan){
        .slots = slots, .slot_bytes = blob, .smallest_bytes = smallest, .all = slots == experts};
    return 0;
}

static int make_slots(expert_store *store, struct moe_err *err)
{
    uint32_t n_slabs = (store->n_slots - 1) / store->slots_per_slab + 1;
    size_t keys = (size_t)store->n_layers * store->n_routed_experts;
    store->slabs = calloc(n_slabs, sizeof *store->slabs);
    store->slots = calloc(store->n_slots, sizeof *store->slots);
    store->table = malloc(keys * sizeof *store->table);
    store->asked = calloc(store->n_routed_experts, sizeof *store->asked);
    if (!store->slabs || !store->slots || !store->table || !store->asked)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the table of %" PRIu32 " expert slots", store->n_slots);
    for (size_t i = 0; i < keys; i++)
        store->table[i] = NO_SLOT;
    for (uint32_t i = 0; i < store->n_slots; i++)
        list_append(&store->free, &store->slots[i]);
    for (uint32_t left = store->n_slots; left; store->n_slabs++) {
        uint32_t here = left < store->slots_per_slab ? left : store->slots_per_slab;
        struct gpu_error device;
        store->slabs[store->n_slabs] = gpu_buf_new(store->g, here * store->slot_bytes, &device);
        if (!store->slabs[store->n_slabs])
            return moe_fail(err, MOE_NO_MEMORY,
                            "no room for %" PRIu32 " expert slots of %" PRIu64
                            " bytes, try a smaller --expert-cache: %.248s",
                            store->n_slots, store->slot_bytes, device.text);
        left -= here;
    }
    return 0;
}

// With staging, twice the experts of a token are enough to read one layer while another is uploaded.
static int make_flights(expert_store *store, uint32_t top_k, struct moe_err *err)
{
    bool staged = !gpu_describe(store->g)->shares_host_memory;
    uint32_t n = staged && store->n_slots / 2 > top_k ? 2 * top_k : store->n_slots;
    store->flights = calloc(n, sizeof *store->flights);
    if (!store->flights)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %" PRIu32 " expert reads", n);
    for (; store->n_flights < n; store->n_flights++) {
        struct flight *flight = &store->flights[store->n_flights];
        struct gpu_error device;
        if (staged) {
            flight->staging = gpu_host_alloc(store->g, store->slot_bytes, &device);
            if (!flight->staging)
                return moe_fail_gpu(err, &device);
        }
        flight->next_idle = store->idle;
        store->idle = flight;
    }
    return 0;
}

static int open_files(expert_store *store, const struct package *package, struct moe_err *err)
{
    store->files = calloc(store->n_layers, sizeof *store->files);
    if (!store->files)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %" PRIu32 " layers", store->n_layers);
    for (uint32_t i = 0; i < store->n_layers; i++)
        store->files[i].fd = -1;
    for (uint32_t i = store->first_moe_layer; i < store->n_layers; i++) {
        struct layer_file *file = &store->files[i];
        file->path = package->files[package->layers[i].spans[0].file].path;
        int code = open_layer(file, err);
        if (code)
            return code;
    }
    return 0;
}

int expert_store_open(gpu *g, const struct package *package, const struct expert_store_options *options,
                      expert_store **out, struct moe_err *err)
{
    *out = NULL;
    expert_store *store = calloc(1, sizeof *store);
    if (!store)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the expert store");
    store->g = g;
    store->package = package;
    store->n_layers = package->shape.n_layers;
    store->n_routed_experts = package->shape.n_routed_experts;
    store->first_moe_layer = package->shape.first_k_dense_replace;
    int failed = plan_slots(store, package, options->cache_bytes, err);
    if (!failed)
        failed = open_files(store, package, err);
    if (!failed)
        failed = make_slots(store, err);
    if (!failed)
        failed = make_flights(store, package->shape.top_k, err);
    struct reader_options pool = {
        .threads = options->readers ? options->readers : DEFAULT_READERS,
        .capacity = store->n_flights,
        .read = options->read,
        .context = options->read_context,
    };
    if (!failed)
        failed = reader_open(&pool, &store->reader, err);
    if (failed)
        expert_store_close(store);
    else
        *out = store;
    return failed;
}

void expert_store_close(expert_store *store)
{
    if (!store)
        return;
    reader_close(store->reader); // first: readers write into what is freed below
    for (uint32_t i = 0; i < store->n_flights; i++)
        if (store->flights[i].staging)
            gpu_host_free(store->g, store->flights[i].staging);
    for (uint32_t i = 0; i < store->n_slabs; i++)
        gpu_buf_free(store->slabs[i]);
    for (uint32_t i = 0; store->files && i < store->n_layers; i++)
        if (store->files[i].fd >= 0)
            close(store->files[i].fd);
    free(store->files);
    free(store->flights);
    free(store->asked);
    free(store->table);
    free(store->slots);
    free(store->slabs);
    free(store);
}

struct moe_cache_plan expert_store_plan(const expert_store *store)
{
    return store->plan;
}

struct expert_counts expert_store_counts(const expert_store *store)
{
    return store->counts;
}

const char *expert_store_policy(const expert_store *store)
{
    (void)store;
    return "off";
}
