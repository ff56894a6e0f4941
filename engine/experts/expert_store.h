// SPDX-License-Identifier: GPL-3.0-or-later
// The routed experts: a bounded number of slots in device memory, filled on demand from the experts' files.
//
// Where the device has memory of its own there is a second tier: page-locked host memory, through which all bytes pass
// and which keeps what it can; a device slot is then filled by a copy. Where the device shares the host's memory the
// two are one, and files are read straight into device slots: nothing is copied.
//
// Where layers' experts differ in bytes slots come in a few sizes (cache_plan.h); each layer's experts have slots of
// one.
//
// A request pins its slots; a pinned slot is never reused; a released one becomes free when the fence of its last op
// has passed. A miss takes the slot that cache_policy.h says, forgets its old key first, and loads; a failed read
// leaves the slot EMPTY. No key is visible before its bytes are. Thread: the engine's; readers see only their own
// request.
#ifndef MOECHAT_ENGINE_EXPERTS_EXPERT_STORE_H
#define MOECHAT_ENGINE_EXPERTS_EXPERT_STORE_H

#include "engine/experts/cache_policy.h"
#include "engine/files/package.h"
#include "kernels/gpu.h"

typedef struct expert_store expert_store;

struct expert_store_options {
    uint64_t cache_bytes; // as moe_model_options
    unsigned readers;
    uint64_t read_piece_bytes;
    enum moe_write_back write_back;
    moe_read_fn *read;
    void *read_context;
    uint64_t host_bytes; // as moe_model_options' host_cache_bytes
    enum moe_io io;
    uint32_t dispatches;     // that hold slots at once, 0: 1
    bool force_two_tiers;    // tests: also where the device shares our memory
    const char *trace_file;  // as moe_model_options
    uint64_t resident_bytes; // that the device holds besides, for the plan
    uint64_t host_set_aside; // bytes of memory that are free and not for experts
    uint64_t device_set_aside;
};

// Where a requested expert lies: add `offset` to the slot-relative offsets of its layout.
struct expert_place {
    gpu_buf *buf;
    uint64_t offset;
    uint32_t slot; // of those of the layer's size
    uint32_t layer;
    uint32_t expert;
    enum moe_origin origin; // where the request found it
};

struct expert_counts {
    uint64_t hits;   // answered from a slot of either tier
    uint64_t misses; // by a read
    uint64_t late;   // of the hits, those whose read was still under way
    uint64_t evictions, bytes_read, bytes_copied;
    uint64_t bytes_cached;             // of those read, from the system's page cache
    uint64_t written_back;             // experts that went back from the device to the host
    uint64_t prefetched, used, wasted; // loads begun unasked; asked for later; evicted unasked
    uint64_t wait_ns, wait_copy_ns;    // the engine's thread, for reads and copies; of that, for copies
};

int expert_store_open(gpu *g, const struct package *package, const struct expert_store_options *options,
                      expert_store **store, struct moe_err *err);
// The plan of a store whose experts are not there yet, each of about so many bytes: no slot is made.
int expert_store_foresee(gpu *g, const struct shape *shape, uint64_t expert_bytes,
                         const struct expert_store_options *options, struct moe_cache_plan *plan, struct moe_err *err);
void expert_store_close(expert_store *store);                         // waits for reads under way; NULL is fine
int expert_store_end_trace(expert_store *store, struct moe_err *err); // as moe_model_end_trace
struct moe_cache_plan expert_store_plan(const expert_store *store);
uint32_t expert_slots(const expert_store *store, uint32_t layer); // of the device's, that the layer's experts may have
uint32_t expert_least_slots(const expert_store *store);           // that experts of any layer may have
struct expert_counts expert_store_counts(const expert_store *store);

// ---- Demand

// Pins a slot for each of ids[0..n) (distinct, at most expert_slots) of a MoE layer and starts the loads
// of those that are missing. All or nothing: on failure nothing stays pinned. May wait for fences of released slots and
// for loads that hold the slots it needs; `cancelled`, when not NULL, is looked at meanwhile: MOE_CANCELLED.
struct expert_request {
    uint32_t layer;
    const int32_t *ids;
    uint32_t n;
    enum cache_use use; // CACHE_PREFILL: a sweep that must not push out what decoding uses
    bool (*cancelled)(void *);
    void *context;
    uint32_t rows; // tokens that wait for them, for the trace; 0: 1
    bool ahead;    // of their turn: whether anybody needs them is told when that comes, by expert_trace
};
int expert_acquire(expert_store *store, const struct expert_request *request, struct expert_place *places,
                   struct moe_err *err);
// Writes into the trace what was asked for `ahead`, now that it is known how many tokens need it.
int expert_trace(expert_store *store, const struct expert_request *request, struct moe_err *err);
// Takes in what has arrived. True: the device's next op may use the place. Never blocks.
bool expert_ready(expert_store *store, const struct expert_place *place);
// Blocks until the expert's bytes are where the device's next op finds them. A failed read: MOE_IO with layer, expert,
// file, offset and errno; a read that was begun for somebody else, and that nobody waited for when this request came,
// is done once more before. `cancelled` as above.
int expert_wait(expert_store *store, const struct expert_place *place, bool (*cancelled)(void *), void *context,
                struct moe_err *err);
// Waits for any of places[i] with !done[i]; returns its index, or -1 with *err filled as by expert_wait
// (MOE_BAD_ARGUMENT when all are done). What was there first comes first: hits, then the others in the order of their
// arrival.
struct expert_wait_list {
    const struct expert_place *places;
    const bool *done; // [n]
    uint32_t n;
    bool (*cancelled)(void *);
    void *context;
    bool follows; // what is on its last way, from the host's memory, is there: expert_follow comes before its ops
};
int expert_wait_any(expert_store *store, const struct expert_wait_list *list, struct moe_err *err);
// Takes in what has arrived. True: the device's next op may use the place behind expert_follow. Never blocks.
bool expert_is_coming(expert_store *store, const struct expert_place *place);
// For n of the places, of which that is true: the device's next ops run when their bytes are there. That the device
// lost them on the way is told by whatever asks the store next; expert_confirm asks for nothing else.
void expert_follow(expert_store *store, const struct expert_place *places, const uint32_t *which, uint32_t n);
int expert_confirm(expert_store *store, struct moe_err *err);
// What a request for it would call its origin now.
enum moe_origin expert_where(const expert_store *store, uint32_t layer, uint32_t expert);
// Has it a slot on the device? Its bytes may be on their way there.
bool expert_has_slot(const expert_store *store, uint32_t layer, uint32_t expert);
// Where each routed expert is now: [MoE layers * n_routed_experts] of enum moe_tier. What is on its way has not
// arrived.
void expert_store_tiers(const expert_store *store, uint8_t *tiers);
// Takes in what has arrived for any layer. Never blocks.
void expert_store_settle(expert_store *store);
// One release per acquire, after the ops that use the places were enqueued, failed waits included.
void expert_release(expert_store *store, const struct expert_place *places, uint32_t n);
// Releases what was asked for and no op uses: ahead of its turn and not needed after all, or by what was stopped. Where
// it was read for that, it was read ahead and wasted; a read that has not begun is taken back. No hit, no miss.
void expert_drop(expert_store *store, const struct expert_place *place);

// ---- Layers that stay
//
// Where every expert has a slot of its own (plan.all) nothing is ever evicted: what is there stays until the store is
// closed, pinned or not.

// Experts in one buffer, a slot each: expert e at `offset` + e * `stride`.
struct expert_row {
    gpu_buf *buf;
    uint64_t offset;
    uint64_t stride;
};
// True: all of the layer's experts are there, to stay, and the device finds them by their ids alone. No request is
// needed then; but whoever uses them says so.
bool expert_layer_stays(expert_store *store, uint32_t layer, struct expert_row *row);
// The request that was not made of a layer that stays: counted, traced, remembered and answered in `places` as by
// expert_acquire, but nothing is pinned.
int expert_note_uses(expert_store *store, const struct expert_request *request, struct expert_place *places,
                     struct moe_err *err);
bool expert_store_traces(const expert_store *store); // as the options asked

// ---- Prefetch: what is predicted is loaded before it is asked for, if the store finds that it may
//
// A prefetch never delays a demand (its reads are begun when no other waits), never takes a slot that decoding used
// within the last two tokens, and what was prefetched and never asked for makes room for the next prefetch first; at
// most a quarter of the slots and two dispatches' worth hold such experts, where not every expert has a slot. From host
// memory to the device a prefetch always goes; from disk only while at least 30 % of the recent time no demand was
// being read, one read per two readers at once.
struct expert_prediction {
    uint32_t layer;
    const int32_t *ids; // the likeliest first
    uint32_t n;
};
// How many loads it started.
uint32_t expert_prefetch(expert_store *store, const struct expert_prediction *prediction);
// The surest prediction: where every expert has a slot, experts that are not there will be wanted some day. Begins a
// few loads by the rules above and says how many; call it now and then.
uint32_t expert_fill(expert_store *store);
// Prefetches whose reads have not begun are withdrawn.
void expert_drop_prefetches(expert_store *store);
// The part of the recent time, 0 to 1, in which no demand was waiting for the disk: what expert_prefetch goes by.
double expert_disk_idle(expert_store *store);

// ---- Counts of a layer since opening, in experts asked for
struct expert_layer_counts {
    uint64_t hits_device, hits_host, prefetched_in_time, late, missed; // by moe_origin; they add up
    uint64_t wasted;                                                   // prefetched, and dropped unasked
    uint64_t bytes_disk, bytes_device;                                 // read; copied to the device
    uint64_t bytes_cached;                                             // of those read, from the page cache
    uint64_t wait_disk_ns, wait_copy_ns;
};
void expert_store_layer(const expert_store *store, uint32_t layer, struct expert_layer_counts *counts);

#endif
