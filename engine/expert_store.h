// SPDX-License-Identifier: GPL-3.0-or-later
// The routed experts: a bounded number of slots in device memory, filled on demand from the layer files.
//
// A slot is EMPTY, LOADING (its bytes are on their way, its key is taken but nobody may use it yet) or READY. A request
// pins its slots; a pinned slot is never reused; a released one becomes free when the fence of its last op has passed.
// A miss takes the least recently used free slot, forgets its old key first and is read by the pool; a failed read
// leaves the slot EMPTY. Thread: the engine's; readers see only their own request.
#ifndef MOECHAT_EXPERT_STORE_H
#define MOECHAT_EXPERT_STORE_H

#include "container.h"
#include "gpu.h"

typedef struct expert_store expert_store;

struct expert_store_options {
    uint64_t cache_bytes; // as moe_model_options
    unsigned readers;
    moe_read_fn *read;
    void *read_context;
};

// Where a requested expert lies: add `offset` to the blob-relative offsets of the package's matrices.
struct expert_place {
    gpu_buf *buf;
    uint64_t offset;
    uint32_t slot;
    uint32_t layer;
    uint32_t expert;
    enum moe_origin origin; // where the request found it
};

struct expert_counts {
    uint64_t hits, misses, evictions, bytes_read;
    uint64_t prefetched, used, wasted;
    uint64_t wait_ns;
};

int expert_store_open(gpu *g, const struct package *package, const struct expert_store_options *options,
                      expert_store **store, struct moe_err *err);
void expert_store_close(expert_store *store); // waits for reads under way; NULL is fine
struct moe_cache_plan expert_store_plan(const expert_store *store);
struct expert_counts expert_store_counts(const expert_store *store);
const char *expert_store_policy(const expert_store *store); // of prefetching: "off"

// How many experts one request may name at most: the slots.
// Pins a slot for each of ids[0..n) (distinct) of a MoE layer and starts the reads of those that are missing. All or
// nothing: on failure nothing stays pinned. Waits, if need be, for fences of released slots.
struct expert_request {
    uint32_t layer;
    const int32_t *ids;
    uint32_t n;
};
int expert_acquire(expert_store *store, const struct expert_request *request, struct expert_place *places,
                   struct moe_err *err);
// Blocks until the expert's bytes are where the device's next op finds them. A failed read: MOE_IO with layer, expert,
// file, offset and errno. `cancelled`, when not NULL, is looked at while waiting: MOE_CANCELLED.
int expert_wait(expert_store *store, const struct expert_place *place, bool (*cancelled)(void *), void *context,
                struct moe_err *err);
// One release per acquire, after the ops that use the places were enqueued, failed waits included.
void expert_release(expert_store *store, const struct expert_place *places, uint32_t n);

#endif
