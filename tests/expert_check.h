// SPDX-License-Identifier: GPL-3.0-or-later
// All that must hold of an expert store between two calls, whatever happened before. expert_rig.h looks after each call
// of a test.
#ifndef MOECHAT_EXPERT_CHECK_H
#define MOECHAT_EXPERT_CHECK_H

#include "engine/experts/expert_parts.h"

// What a slot must be in each state; NULL: nothing is wrong.
static inline const char *check_slot(const expert_store *store, const struct tier *tier, const struct slot *slot)
{
    bool device = tier == &class_of(store, slot)->device, has_host = expert_has_host(store);
    bool offered = cache_policy_is_offered(tier->policy, tier_index(tier, slot));
    if (slot->state != SLOT_EMPTY && class_for(store, slot->key) != class_of(store, slot))
        return "an expert is in a slot of another size";
    if (slot->state != SLOT_EMPTY && expert_blob_bytes(store, slot) > class_of(store, slot)->slot_bytes)
        return "an expert is in a slot that is too small";
    if (slot->state != SLOT_EMPTY && tier_find(tier, slot->key) != slot)
        return "a slot has a key that is not found there";
    if (slot->state == SLOT_EMPTY && (slot->prefetched || offered))
        return "an EMPTY slot is prefetched, or offered";
    if (slot->state == SLOT_EMPTY && slot->list != (slot->pins ? NULL : &tier->empty))
        return "an EMPTY slot is not on the list of those, or pinned and on it";
    if (slot->state == SLOT_QUEUED && (!device || slot->list != &store->queued || slot->source))
        return "a QUEUED slot is not the device's, not in the queue, or has begun";
    if (slot->state == SLOT_READING && slot->list)
        return "a READING slot is on a list";
    if (slot->state == SLOT_READING && !slot->flight == !slot->source)
        return "a READING slot has neither a read of its own nor a source, or both";
    if (slot->state != SLOT_READING && slot->flight)
        return "a slot has a read and is not READING";
    if (slot->flight && (slot->flight->owner != slot || !slot->flight->n_left || device == has_host))
        return "a slot's read is another's, or over, or goes to the wrong tier";
    if (slot->state == SLOT_COPYING && (!device || slot->list != &store->copying))
        return "a COPYING slot is not the device's, or not among those";
    if (slot->state == SLOT_COPYING && !slot->source == has_host)
        return "a COPYING slot has no source";
    if (slot->state == SLOT_WRITING_BACK && (device || slot->list != &store->writing_back))
        return "a slot that is WRITING_BACK is not the host's, or not among those";
    if (slot->state == SLOT_READY && slot->pins && (slot->list || offered))
        return "a pinned slot is on a list, or offered";
    if (slot->state == SLOT_READY && !slot->pins && offered == (device && slot->list == &tier->cooling))
        return "a READY slot that nobody pins is neither offered nor cooling, or both";
    if (slot->state == SLOT_READY && (!slot->arrived || slot->arrived > store->arrivals))
        return "a READY slot has not arrived";
    if (slot_is_loading(slot) && offered)
        return "a slot whose bytes are on their way is offered";
    return NULL;
}

static inline const char *check_source(const expert_store *store, const struct slot *slot)
{
    const struct slot *source = slot->source;
    uint64_t bytes = slot->state == SLOT_EMPTY ? 0 : expert_blob_bytes(store, slot);
    if (!source && slot->copied && expert_has_host(store) && slot_is_loading(slot))
        return "copies were begun from no source";
    if (!source)
        return NULL;
    if (slot->state != SLOT_READING && slot->state != SLOT_COPYING)
        return "a slot that waits for nothing has a source";
    if (source->key != slot->key || !source->pins || source->state == SLOT_EMPTY)
        return "a source has another expert, or is not pinned";
    if (slot->state == SLOT_READING && (source->state != SLOT_READING || slot->copied > source->flight->there))
        return "a slot waits for a source that is not being read, or copied what is not there";
    if (slot->state == SLOT_COPYING && (source->state == SLOT_READING || slot->copied != bytes))
        return "a COPYING slot's source is still being read, or a part of it is not on its way";
    return NULL;
}

static inline const char *check_list(const struct slot_list *list, bool in_order)
{
    uint32_t count = 0;
    for (const struct slot *slot = list->first, *before = NULL; slot; before = slot, slot = slot->next, count++)
        if (slot->list != list || slot->previous != before || (!slot->next && list->last != slot) ||
            (in_order && before && (before->copy > slot->copy)))
            return "a list is torn, or out of order";
    return count == list->count ? NULL : "a list counts wrong";
}

static inline const char *check_tier(const expert_store *store, const struct tier *tier)
{
    uint32_t pinned = 0, prefetched = 0, held = 0, keys = 0, offered = 0, most = store->n_layers * store->n_experts;
    const char *wrong = check_list(&tier->empty, false);
    for (const struct slot *slot = tier->cooling.first; !wrong && slot; slot = slot->next)
        if (slot->next && slot->next->fence < slot->fence)
            wrong = "slots cool in another order than their fences'";
    for (uint32_t i = 0; !wrong && i < tier->n_slots; i++) {
        const struct slot *slot = &tier->slots[i];
        wrong = check_slot(store, tier, slot);
        if (!wrong)
            wrong = check_source(store, slot);
        const struct slot *own = slot->state == SLOT_EMPTY ? NULL : expert_own_slot(store, tier, slot->key);
        if (!wrong && own && own != slot)
            wrong = "an expert is in another's own slot";
        pinned += slot->pins > 0;
        prefetched += slot->prefetched;
        held += slot->state != SLOT_EMPTY;
        offered += cache_policy_is_offered(tier->policy, i);
    }
    for (uint32_t key = 0; key < most; key++)
        keys += tier->table[key] != CACHE_NO_SLOT;
    if (!wrong && (pinned != tier->n_pinned || prefetched != tier->n_prefetched))
        wrong = "a tier counts its pinned slots or those prefetched wrong";
    if (!wrong && (held != keys || offered != cache_policy_n_offered(tier->policy)))
        wrong = "a tier's keys are not those of its slots, or it counts the offered wrong";
    return wrong ? wrong : check_list(&tier->cooling, false);
}

// A host slot is pinned by those whose source it is, and by nobody else.
static inline const char *check_host_pins(const expert_store *store)
{
    uint64_t pins = 0, sources = 0;
    for (uint32_t p = 0; p < store->n_classes; p++) {
        const struct size_class *size = &store->classes[p];
        for (uint32_t i = 0; i < size->host.n_slots; i++)
            pins += size->host.slots[i].pins;
        for (uint32_t i = 0; i < size->device.n_slots; i++)
            sources += size->device.slots[i].source != NULL;
    }
    return pins == sources ? NULL : "a host slot is pinned and no device slot waits for it";
}

// Reads out are those of slots, and each file knows how many it has.
static inline const char *check_flights(const expert_store *store)
{
    const struct flights *f = &store->flights;
    uint32_t flying = 0, prefetches = 0, idle = 0, slots = 0;
    uint64_t parts = 0, reading = 0;
    for (uint32_t i = 0; i < f->n_items; i++) {
        flying += f->items[i].n_left > 0;
        prefetches += f->items[i].n_left > 0 && f->items[i].prefetch;
        parts += f->items[i].n_left;
    }
    for (const struct flight *flight = f->idle; flight && idle <= f->n_items; flight = flight->next_idle)
        idle++;
    for (uint32_t i = 0; i < f->package->n_files; i++)
        reading += f->files[i].n_reading;
    for (uint32_t p = 0; p < store->n_classes; p++) {
        const struct tier *tier = expert_read_tier(store, &store->classes[p]);
        for (uint32_t i = 0; i < tier->n_slots; i++)
            slots += tier->slots[i].flight != NULL;
    }
    if (flying != f->n_flying || prefetches != f->n_prefetches || idle + flying != f->n_items)
        return "reads under way are counted wrong";
    if (flying != slots)
        return "a read is under way for no slot";
    return parts == reading ? NULL : "a file's reads are counted wrong";
}

// What is wrong with it, in words; NULL: nothing.
static inline const char *expert_check(const expert_store *store)
{
    const char *wrong = check_list(&store->queued, false);
    for (uint32_t p = 0; p < store->n_classes && !wrong; p++) {
        wrong = check_tier(store, &store->classes[p].device);
        if (!wrong && expert_has_host(store))
            wrong = check_tier(store, &store->classes[p].host);
    }
    if (!wrong)
        wrong = check_list(&store->copying, true);
    if (!wrong)
        wrong = check_list(&store->writing_back, true);
    if (!wrong)
        wrong = check_host_pins(store);
    if (!wrong)
        wrong = check_flights(store);
    for (uint32_t key = 0; !wrong && key < store->n_layers * store->n_experts; key++)
        if (store->stays[key / store->n_experts]) {
            const struct slot *slot = expert_on_device(store, key);
            if (!slot || slot->state != SLOT_READY)
                wrong = "an expert of a layer that stays is not there";
        }
    return wrong;
}

#endif
