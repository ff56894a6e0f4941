// SPDX-License-Identifier: GPL-3.0-or-later
// The expert store's inside: what its .c files share. expert_store.c answers requests, expert_load.c moves bytes from
// files and to the device, expert_write_back.c moves them back, expert_prefetch.c decides what is loaded unasked, and
// expert_open.c lays it all out.
#ifndef MOECHAT_ENGINE_EXPERTS_EXPERT_PARTS_H
#define MOECHAT_ENGINE_EXPERTS_EXPERT_PARTS_H

#include "engine/experts/expert_store.h"
#include "engine/experts/tier.h"
#include "engine/experts/trace.h"

// How busy demands have kept the disk lately.
struct idle_gauge {
    uint64_t at_ns, busy_ns; // when it was looked at last
    double idle;             // 0 to 1
};

// Where expert_fill stands.
struct fill {
    uint32_t at, tries; // a key, and calls that did not get further
    bool done;
};

// Slots of one size in both tiers, and the layers whose experts they are for.
struct size_class {
    uint64_t slot_bytes;
    uint32_t n_layers;
    struct tier device;
    struct tier host; // no slots: the device's memory is the host's
    gpu_buf **device_slabs;
    void **host_slabs;
    uint32_t n_device_slabs, n_host_slabs, device_slab_slots, host_slab_slots;
};

struct expert_store {
    gpu *g;
    const struct package *package;
    bool maps;                                     // a slot's buffer, its own, is mapped while it is read into
    uint64_t least_copy;                           // of an expert that is still being read
    uint32_t n_layers, n_experts, first_moe_layer; // n_experts: of a layer
    uint32_t per_dispatch;                         // slots that a token needs in one layer
    struct moe_cache_plan plan;
    struct flights flights;
    struct size_class *classes; // [n_classes], by size
    uint32_t n_classes;
    uint32_t *layer_class;         // [n_layers], of MoE layers
    uint32_t *layer_rank;          // [n_layers], how many layers of its size come before it
    struct slot_list queued;       // device slots that wait for a flight or a host slot, in order
    struct slot_list copying;      // device slots, in the order of their copies
    struct slot_list writing_back; // host slots, likewise
    uint64_t last_copy;            // to the device, its number
    uint64_t arrivals;
    uint64_t *asked; // [n_experts], serial of the last request that named it
    uint64_t serial;
    struct expert_layer_counts *layers; // [n_layers]
    uint64_t evictions, prefetched, used, written_back;
    bool writes_back; // what the device gives up, if the host has no better; as moe_model_options say
    struct idle_gauge gauge;
    struct fill fill;
    trace_writer *trace; // NULL: none
    bool *stays;         // [n_layers], layers whose experts are all there and stay
    // Where an err is wanted and there is nobody to tell: then an error of the device stays there for the next to ask.
    struct moe_err untold;
};

static inline uint32_t expert_key(const expert_store *store, uint32_t layer, uint32_t expert)
{
    return layer * store->n_experts + expert;
}

static inline bool expert_has_host(const expert_store *store)
{
    return store->classes[0].host.n_slots > 0;
}

static inline struct size_class *class_of(const expert_store *store, const struct slot *slot)
{
    return &store->classes[slot->size_class];
}

static inline struct size_class *class_for(const expert_store *store, uint32_t key)
{
    return &store->classes[store->layer_class[key / store->n_experts]];
}

// What files are read into.
static inline struct tier *expert_read_tier(const expert_store *store, struct size_class *size)
{
    return expert_has_host(store) ? &size->host : &size->device;
}

// NULL: it isn't there.
static inline struct slot *expert_on_device(const expert_store *store, uint32_t key)
{
    return tier_find(&class_for(store, key)->device, key);
}

static inline struct slot *expert_on_host(const expert_store *store, uint32_t key)
{
    return expert_has_host(store) ? tier_find(&class_for(store, key)->host, key) : NULL;
}

// With plan.all the key's own slot of the device's tier, by which expert_layer_stays finds it; NULL: any slot will do.
static inline struct slot *expert_own_slot(const expert_store *store, const struct tier *tier, uint32_t key)
{
    bool own = store->plan.all && tier == &class_for(store, key)->device;
    uint32_t first = store->layer_rank[key / store->n_experts] * store->n_experts;
    return own ? &tier->slots[first + key % store->n_experts] : NULL;
}

// ---- expert_load.c

gpu_buf *expert_device_place(const expert_store *store, const struct slot *slot, uint64_t *offset);
// Where reads for a slot of the lower tier go: the host's, or the only one. NULL: the device doesn't open it, a sticky
// error. When nothing is read into it any more it is closed again; ops may use it when slot->copy has passed.
void *expert_open_target(expert_store *store, const struct slot *slot);
void expert_close_target(expert_store *store, struct slot *slot);
// Gives a free slot of the tier the key, counting what is lost.
void expert_take(expert_store *store, struct tier *tier, struct slot *slot, uint32_t key);
// Starts the load of a device slot that was taken, or leaves it QUEUED.
int expert_load(expert_store *store, struct slot *slot, struct moe_err *err);
int expert_load_queued(expert_store *store, struct moe_err *err);
// Starts the copy of slot->source, whose bytes are there and pinned for it, into a device slot; it will be READY, or
// EMPTY with an error.
int expert_copy(expert_store *store, struct slot *slot, struct moe_err *err);
// Takes in the copies and flights that are over, after waiting for a copy or else, as reader_reap does, for the first
// flight; the wait is the layer's. An error of the device may be an older op's: whoever called is told, for the device
// tells only once.
int expert_take_in(expert_store *store, int wait_ms, uint32_t layer, struct moe_err *err);
// Nobody wants a device slot any more whose bytes are on their way: a read that has begun finishes into it and lands as
// any other; one that has not is taken back.
void expert_abandon(expert_store *store, struct slot *slot);
// A flight has landed: was it let go of meanwhile, as by expert_drop?
void expert_count_dropped(expert_store *store, struct flight *flight, uint32_t layer);
void expert_cool_down(expert_store *store); // slots whose fence has passed are free

void *expert_host_place(const expert_store *store, const struct slot *slot);
uint64_t expert_blob_bytes(const expert_store *store, const struct slot *slot); // of its expert
void expert_became_ready(expert_store *store, struct slot *slot);

// ---- expert_write_back.c

// The host's slot for the next expert that comes, NULL: none is free.
struct slot *expert_next_of_host(const expert_store *store, struct size_class *size);
// A device slot is about to be taken for another expert. Copies that are begun into it later come after this one.
void expert_write_back(expert_store *store, const struct slot *slot);
void expert_end_write_backs(expert_store *store);

// ---- expert_prefetch.c

// Prefetches for a layer whose turn has come that have not begun are withdrawn.
void expert_drop_stale(expert_store *store, uint32_t layer);

#endif
