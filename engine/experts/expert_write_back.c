// SPDX-License-Identifier: GPL-3.0-or-later
// Experts that the device gives up and the host doesn't have, back to the host.
//
// All bytes come through the host's tier, so it would hold little that the device doesn't: two caches of the same
// experts. So a slot of the host's goes first when the device has its expert too, the one that will stay there longest;
// and what the device gives up comes back, unless the host has nothing worth less.
#include "engine/experts/expert_parts.h"

// The device has the host slot's expert, and not as a prefetched one that will go soon.
static bool is_on_device(const void *context, uint32_t index)
{
    const struct size_class *size = context;
    const struct slot *slot = tier_find(&size->device, size->host.slots[index].key);
    return slot && slot->state == SLOT_READY && !slot->prefetched;
}

struct slot *expert_next_of_host(const expert_store *store, struct size_class *size)
{
    const struct tier *host = &size->host;
    struct slot *next = tier_next(host);
    if (!store->writes_back || !next || next->state == SLOT_EMPTY ||
        !cache_policy_is_wanted(host->policy, next->key, CACHE_NO_SLOT))
        return next;
    uint32_t twice = cache_policy_favourite(host->policy, is_on_device, size);
    return twice == CACHE_NO_SLOT ? next : &host->slots[twice];
}

void expert_write_back(expert_store *store, const struct slot *slot)
{
    struct size_class *size = class_of(store, slot);
    struct tier *host = &size->host;
    if (!store->writes_back || slot->state != SLOT_READY || tier_find(host, slot->key) || gpu_failed(store->g) ||
        tier_n_free(host) <= store->per_dispatch) // misses that come next need host slots
        return;
    struct slot *to = expert_next_of_host(store, size);
    bool in_vain = to->state == SLOT_READY && !is_on_device(size, tier_index(host, to)) &&
                   !cache_policy_is_wanted(host->policy, slot->key, tier_index(host, to));
    if (in_vain || !cache_policy_is_wanted(host->policy, slot->key, CACHE_NO_SLOT))
        return;
    expert_take(store, host, to, slot->key);
    tier_unpin(host, to); // QUEUED and nowhere
    uint64_t offset;
    gpu_buf *slab = expert_device_place(store, slot, &offset);
    to->copy = gpu_copy_back(store->g, slab, offset, expert_host_place(store, to), expert_blob_bytes(store, slot));
    if (gpu_failed(store->g)) {
        tier_clear(host, to);
        return;
    }
    slot_write_back(to, &store->writing_back);
    store->written_back++;
}

void expert_end_write_backs(expert_store *store)
{
    while (store->writing_back.first &&
           (gpu_failed(store->g) || gpu_copy_passed(store->g, store->writing_back.first->copy))) {
        struct slot *slot = store->writing_back.first;
        if (gpu_failed(store->g)) { // the device keeps the error for whoever asks next
            gpu_copy_wait(store->g, slot->copy);
            tier_clear(&class_of(store, slot)->host, slot);
            continue;
        }
        expert_became_ready(store, slot);
        if (!slot->pins)
            tier_free(&class_of(store, slot)->host, slot);
    }
}
