// SPDX-License-Identifier: GPL-3.0-or-later
// Experts that the device gives up and the host doesn't have, back to the host.
//
// All bytes come through the host's tier, so it would hold little that the device doesn't: two caches of the same
// experts. So a slot of the host's goes first when the device has its expert too, the one that will stay there longest;
// and what the device gives up comes back, unless the host has nothing worth less.
#include "engine/experts/store_parts.h"

// The device has the host slot's expert, and not as a guess that will go soon.
static bool is_on_device(const void *context, uint32_t index)
{
    const expert_store *store = context;
    const struct slot *slot = tier_find(&store->device, store->host.slots[index].key);
    return slot && slot->state == SLOT_READY && !slot->guessed;
}

struct slot *store_next_of_host(const expert_store *store)
{
    const struct tier *host = &store->host;
    struct slot *next = tier_next(host);
    if (!store->saves || !next || next->state == SLOT_EMPTY ||
        !cache_policy_is_wanted(host->policy, next->key, CACHE_NO_SLOT))
        return next;
    uint32_t twice = cache_policy_favourite(host->policy, is_on_device, store);
    return twice == CACHE_NO_SLOT ? next : &host->slots[twice];
}

void store_save(expert_store *store, const struct slot *slot)
{
    struct tier *host = &store->host;
    if (!store->saves || slot->state != SLOT_READY || tier_find(host, slot->key) || gpu_failed(store->g) ||
        tier_n_free(host) <= store->per_dispatch) // misses that come next need host slots
        return;
    struct slot *to = store_next_of_host(store);
    bool in_vain = to->state == SLOT_READY && !is_on_device(store, tier_index(host, to)) &&
                   !cache_policy_is_wanted(host->policy, slot->key, tier_index(host, to));
    if (in_vain || !cache_policy_is_wanted(host->policy, slot->key, CACHE_NO_SLOT))
        return;
    store_take(store, host, to, slot->key);
    tier_unpin(host, to); // LOADING and nowhere
    uint64_t offset;
    gpu_buf *slab = store_device_place(store, slot, &offset);
    to->copy = gpu_copy_back(store->g, slab, offset, store_host_place(store, to), store_blob_bytes(store, slot));
    if (gpu_failed(store->g)) {
        tier_clear(host, to);
        return;
    }
    to->saving = true;
    store->saved++;
    slots_append(&store->saving, to);
}

void store_end_saves(expert_store *store)
{
    while (store->saving.first && (gpu_failed(store->g) || gpu_copy_passed(store->g, store->saving.first->copy))) {
        struct slot *slot = store->saving.first;
        slots_remove(slot);
        slot->saving = false;
        if (gpu_failed(store->g)) { // the device keeps the error for whoever asks next
            gpu_copy_wait(store->g, slot->copy);
            tier_clear(&store->host, slot);
            continue;
        }
        store_became_ready(store, slot);
        if (!slot->pins)
            tier_free(&store->host, slot);
    }
}
