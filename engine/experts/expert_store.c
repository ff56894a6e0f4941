// SPDX-License-Identifier: GPL-3.0-or-later
// Requests: what they pin, what they wait for, what is counted of them.
#include "engine/experts/expert_store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/amounts.h"
#include "engine/base/err.h"
#include "engine/experts/expert_parts.h"

#define CANCEL_POLL_MS 10 // how often a wait looks at its cancel flag: nothing wakes it

static int check_request(expert_store *store, const struct expert_request *request, struct moe_err *err)
{
    if (request->layer >= store->n_layers || request->layer < store->first_moe_layer)
        return moe_fail(err, MOE_BAD_ARGUMENT, "layer %" PRIu32 " has no routed experts", request->layer);
    const struct tier *tier = &class_for(store, expert_key(store, request->layer, 0))->device;
    if (request->n > tier->n_slots)
        return moe_fail(err, MOE_BAD_ARGUMENT, "%" PRIu32 " experts asked for at once, the cache has %" PRIu32 " slots",
                        request->n, tier->n_slots);
    store->serial++;
    for (uint32_t i = 0; i < request->n; i++) {
        int32_t id = request->ids[i];
        if ((uint32_t)id >= store->n_experts) // or below 0
            return moe_fail(err, MOE_BAD_ARGUMENT, "layer %" PRIu32 ": expert %" PRId32 " is not one of %" PRIu32,
                            request->layer, id, store->n_experts);
        if (store->asked[id] == store->serial)
            return moe_fail(err, MOE_BAD_ARGUMENT, "layer %" PRIu32 ": expert %" PRId32 " is asked for twice",
                            request->layer, id);
        store->asked[id] = store->serial;
    }
    return MOE_OK;
}

// What a request needs of the slots, as they are now.
struct need {
    uint32_t misses;
    uint32_t unpinned_hits;
    uint32_t free_hits; // of those, the ones that count as free
};

static struct need count_need(const expert_store *store, const struct expert_request *request)
{
    const struct tier *tier = &class_for(store, expert_key(store, request->layer, 0))->device;
    struct need need = {0};
    for (uint32_t i = 0; i < request->n; i++) {
        const struct slot *slot = tier_find(tier, expert_key(store, request->layer, (uint32_t)request->ids[i]));
        need.misses += !slot;
        need.unpinned_hits += slot && !slot->pins;
        need.free_hits += slot && cache_policy_is_offered(tier->policy, tier_index(tier, slot));
    }
    return need;
}

static int fail_budget(const expert_store *store, const struct expert_request *request, const struct need *need,
                       struct moe_err *err)
{
    const struct size_class *size = class_for(store, expert_key(store, request->layer, 0));
    uint32_t more = need->misses + need->unpinned_hits;
    uint64_t slots = (uint64_t)size->device.n_pinned + more, experts = (uint64_t)size->n_layers * store->n_experts;
    char least[AMOUNT_SIZE];
    // The size gets its experts' part of the cache.
    uint64_t bytes = (slots * store->plan.experts + experts - 1) / experts * store->plan.slot_bytes;
    return moe_fail(err, MOE_BUDGET,
                    "layer %" PRIu32 " needs %" PRIu32 " more slots while %" PRIu32 " of the cache's %" PRIu32
                    " slots are in use: give --expert-cache %s or more",
                    request->layer, more, size->device.n_pinned, size->device.n_slots,
                    amount_to_type(least, bytes, true));
}

static int take_in_or_cancel(expert_store *store, uint32_t layer, bool (*cancelled)(void *), void *context,
                             struct moe_err *err)
{
    if (cancelled && cancelled(context))
        return moe_fail(err, MOE_CANCELLED, "cancelled while reading experts");
    return expert_take_in(store, cancelled ? CANCEL_POLL_MS : READER_FOREVER, layer, err);
}

// Until the misses have free slots beside the hits'. Nothing is pinned or evicted yet, so failing leaves no trace. May
// wait for loads that a cancelled request or a prefetch left under way.
static int make_room(expert_store *store, const struct expert_request *request, struct moe_err *err)
{
    for (;;) {
        int failed = expert_take_in(store, 0, request->layer, err);
        if (failed)
            return failed;
        expert_cool_down(store);
        struct tier *tier = &class_for(store, expert_key(store, request->layer, 0))->device;
        struct need need = count_need(store, request);
        if (need.misses + need.unpinned_hits > tier->n_slots - tier->n_pinned)
            return fail_budget(store, request, &need, err);
        if (need.misses + need.free_hits <= tier_n_free(tier))
            return MOE_OK;
        if (tier->cooling.first) {
            gpu_fence_wait(store->g, tier->cooling.first->fence);
            tier_free(tier, tier->cooling.first);
            continue;
        }
        expert_drop_prefetches(store);
        if (need.misses + need.free_hits <= tier_n_free(tier))
            return MOE_OK;
        failed = take_in_or_cancel(store, request->layer, request->cancelled, request->context, err);
        if (failed)
            return failed;
    }
}

static struct slot *slot_at(const expert_store *store, const struct expert_place *place)
{
    return &class_for(store, expert_key(store, place->layer, 0))->device.slots[place->slot];
}

static enum moe_origin origin_of(const struct slot *device, const struct slot *host)
{
    const struct slot *found = device ? device : host;
    return !found                              ? MOE_FROM_DISK
           : found->state == SLOT_WRITING_BACK ? MOE_FROM_HOST
           : slot_is_loading(found)            ? MOE_FROM_LATE
           : found->prefetched                 ? MOE_FROM_PREFETCH
           : device                            ? MOE_FROM_DEVICE
                                               : MOE_FROM_HOST;
}

// Where the key is; notes that it was asked for.
static enum moe_origin ask(expert_store *store, uint32_t key, enum cache_use use)
{
    struct size_class *size = class_for(store, key);
    struct slot *slot = expert_on_device(store, key), *host = expert_on_host(store, key);
    enum moe_origin origin = origin_of(slot, host);
    cache_policy_use(size->device.policy, key, use);
    store->used += (slot && slot->prefetched) || (host && host->prefetched);
    struct flight *flight = slot && slot->flight ? slot->flight : host ? host->flight : NULL;
    if (flight && flight->dropped) { // what was let go of is wanted after all
        flight->dropped = false;
        store->prefetched++;
        store->used++;
    }
    if (slot) {
        tier_asked(&size->device, slot);
        if (slot->flight)
            flights_promote(&store->flights, slot->flight);
    }
    if (!expert_has_host(store))
        return origin;
    cache_policy_use(size->host.policy, key, use);
    if (host) {
        tier_asked(&size->host, host);
        if (cache_policy_is_offered(size->host.policy, tier_index(&size->host, host)))
            cache_policy_offer(size->host.policy, tier_index(&size->host, host)); // at its new worth
    }
    return origin;
}

static uint64_t *count_of(struct expert_layer_counts *counts, enum moe_origin origin)
{
    uint64_t *const by_origin[MOE_ORIGINS] = {&counts->hits_device, &counts->hits_host, &counts->prefetched_in_time,
                                              &counts->late, &counts->missed};
    return by_origin[origin];
}

int expert_trace(expert_store *store, const struct expert_request *request, struct moe_err *err)
{
    if (!store->trace || !request->n)
        return MOE_OK;
    struct trace_request traced = {
        .use = request->use, .layer = request->layer, .rows = request->rows ? request->rows : 1, .n = request->n};
    for (uint32_t i = 0; i < request->n; i++)
        traced.ids[i] = (uint16_t)request->ids[i];
    return trace_write(store->trace, &traced, err);
}

// Notes that they were asked for, and where each was; slot: the device's, or CACHE_NO_SLOT.
static void ask_for_all(expert_store *store, const struct expert_request *request, struct expert_place *places)
{
    struct size_class *size = class_for(store, expert_key(store, request->layer, 0));
    struct tier *tier = &size->device;
    cache_policy_tick(tier->policy, request->use);
    if (expert_has_host(store))
        cache_policy_tick(size->host.policy, request->use);
    for (uint32_t i = 0; i < request->n; i++) {
        struct expert_place *place = &places[i];
        place->layer = request->layer;
        place->expert = (uint32_t)request->ids[i];
        uint32_t key = expert_key(store, place->layer, place->expert);
        place->origin = ask(store, key, request->use);
        ++*count_of(&store->layers[place->layer], place->origin);
        const struct slot *slot = tier_find(tier, key);
        place->slot = slot ? tier_index(tier, slot) : CACHE_NO_SLOT;
    }
}

int expert_acquire(expert_store *store, const struct expert_request *request, struct expert_place *places,
                   struct moe_err *err)
{
    int failed = check_request(store, request, err);
    if (!failed && !request->ahead)
        failed = expert_trace(store, request, err);
    if (!failed)
        failed = make_room(store, request, err);
    if (failed)
        return failed;
    struct tier *tier = &class_for(store, expert_key(store, request->layer, 0))->device;
    // All hits first: a miss must not evict one. A slot still READING for a cancelled request is a hit too, though
    // expert_wait will wait for it: its read is paid for.
    ask_for_all(store, request, places);
    for (uint32_t i = 0; i < request->n; i++) {
        if (places[i].slot == CACHE_NO_SLOT)
            continue;
        struct slot *slot = &tier->slots[places[i].slot];
        slot->joined |= slot->state == SLOT_READING && !slot->pins;
        tier_pin(tier, slot);
    }
    for (uint32_t i = 0; i < request->n; i++) {
        struct expert_place *place = &places[i];
        if (place->slot == CACHE_NO_SLOT) {
            uint32_t key = expert_key(store, place->layer, place->expert);
            struct slot *own = expert_own_slot(store, tier, key), *slot = own ? own : tier_next(tier);
            expert_write_back(store, slot);
            expert_take(store, tier, slot, key);
            place->slot = tier_index(tier, slot);
            if (!failed) // once the device said no, the rest is only taken, to be released
                failed = expert_load(store, slot, err);
            else
                tier_clear(tier, slot);
        }
        place->buf = expert_device_place(store, &tier->slots[place->slot], &place->offset);
    }
    if (failed)
        expert_release(store, places, request->n);
    else
        expert_drop_stale(store, request->layer);
    return failed;
}

bool expert_layer_stays(expert_store *store, uint32_t layer, struct expert_row *row)
{
    if (!store->plan.all)
        return false;
    const struct size_class *size = class_for(store, expert_key(store, layer, 0));
    const struct slot *slots = expert_own_slot(store, &size->device, expert_key(store, layer, 0));
    uint32_t first = tier_index(&size->device, slots), last = first + store->n_experts - 1;
    if (first / size->device_slab_slots != last / size->device_slab_slots)
        return false;
    bool stays = store->stays[layer];
    for (uint32_t i = 0; !stays; i++) {
        if (slots[i].state != SLOT_READY)
            return false;
        stays = store->stays[layer] = i + 1 == store->n_experts;
    }
    row->buf = expert_device_place(store, slots, &row->offset);
    row->stride = size->slot_bytes;
    return true;
}

int expert_note_uses(expert_store *store, const struct expert_request *request, struct expert_place *places,
                     struct moe_err *err)
{
    int failed = check_request(store, request, err);
    if (!failed)
        failed = expert_trace(store, request, err);
    if (failed)
        return failed;
    ask_for_all(store, request, places);
    for (uint32_t i = 0; i < request->n; i++)
        places[i].buf = expert_device_place(store, slot_at(store, &places[i]), &places[i].offset);
    return MOE_OK;
}

bool expert_store_traces(const expert_store *store)
{
    return store->trace;
}

static int fail_place(const expert_store *store, const struct expert_place *place, struct moe_err *err)
{
    const struct read_failure *failure = &slot_at(store, place)->failure;
    const char *path = store->package->files[failure->file].path;
    int code;
    if (failure->result == READ_FULL)
        code = moe_fail(err, MOE_DEVICE, "layer %" PRIu32 ", expert %" PRIu32 ": the device did not take its bytes",
                        place->layer, place->expert);
    else
        code = moe_fail(
            err, MOE_IO, "%.300s: layer %" PRIu32 ", expert %" PRIu32 " could not be read at byte %" PRIu64 ": %s",
            path, place->layer, place->expert, failure->offset,
            failure->result == READ_EOF ? "the file is cut short, copy it again" : strerror(failure->sys_errno));
    if (!err)
        return code;
    err->layer = (int)place->layer;
    err->expert = (int)place->expert;
    if (code == MOE_IO) {
        err->sys_errno = failure->sys_errno;
        err->offset = failure->offset;
        snprintf(err->file, sizeof err->file, "%s", path);
    }
    return code;
}

bool expert_ready(expert_store *store, const struct expert_place *place)
{
    const struct slot *slot = slot_at(store, place);
    if (slot_is_loading(slot))
        expert_take_in(store, 0, place->layer, &store->untold);
    return slot->state == SLOT_READY;
}

bool expert_is_coming(expert_store *store, const struct expert_place *place)
{
    return expert_ready(store, place) || slot_at(store, place)->state == SLOT_COPYING;
}

// Copies run in their order, so the last of them is behind all.
void expert_follow(expert_store *store, const struct expert_place *places, const uint32_t *which, uint32_t n)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct slot *slot = slot_at(store, &places[which[i]]);
        if (slot->state != SLOT_COPYING)
            continue;
        last = slot->copy > last ? slot->copy : last;
        if (expert_has_host(store) && !slot->followed)
            store->layers[places[which[i]].layer].bytes_device += expert_blob_bytes(store, slot);
        slot->followed = true;
    }
    if (last)
        gpu_follow(store->g, last);
}

int expert_confirm(expert_store *store, struct moe_err *err)
{
    return expert_take_in(store, 0, store->first_moe_layer, err);
}

void expert_store_settle(expert_store *store)
{
    expert_take_in(store, 0, store->first_moe_layer, &store->untold);
}

int expert_wait(expert_store *store, const struct expert_place *place, bool (*cancelled)(void *), void *context,
                struct moe_err *err)
{
    const struct slot *slot = slot_at(store, place);
    int failed = expert_take_in(store, 0, place->layer, err);
    while (!failed && slot_is_loading(slot))
        failed = take_in_or_cancel(store, place->layer, cancelled, context, err);
    if (failed)
        return failed;
    return slot->state == SLOT_READY ? MOE_OK : fail_place(store, place, err);
}

int expert_wait_any(expert_store *store, const struct expert_wait_list *list, struct moe_err *err)
{
    for (;;) {
        const struct expert_place *any = NULL;
        const struct expert_place *first = NULL;
        const struct expert_place *coming = NULL; // next
        uint64_t arrived = UINT64_MAX, copy = UINT64_MAX;
        for (uint32_t i = 0; i < list->n; i++) {
            const struct expert_place *place = &list->places[i];
            if (list->done[i])
                continue;
            any = place;
            const struct slot *slot = slot_at(store, place);
            if (slot->state == SLOT_EMPTY) {
                fail_place(store, place, err);
                return -1;
            }
            if (slot->state == SLOT_READY && slot->arrived < arrived) {
                first = place;
                arrived = slot->arrived;
            }
            if (list->follows && slot->state == SLOT_COPYING && slot->copy < copy) {
                coming = place;
                copy = slot->copy;
            }
        }
        first = first ? first : coming;
        if (first)
            return (int)(first - list->places);
        if (!any) {
            moe_fail(err, MOE_BAD_ARGUMENT, "none of %" PRIu32 " experts is left to wait for", list->n);
            return -1;
        }
        if (take_in_or_cancel(store, any->layer, list->cancelled, list->context, err))
            return -1;
    }
}

void expert_release(expert_store *store, const struct expert_place *places, uint32_t n)
{
    uint64_t fence = n ? gpu_fence_to_come(store->g) : 0;
    for (uint32_t i = 0; i < n; i++) {
        struct slot *slot = slot_at(store, &places[i]);
        struct tier *tier = &class_of(store, slot)->device;
        assert(slot->pins);
        if (!tier_unpin(tier, slot))
            continue;
        if (slot->state == SLOT_READY)
            tier_cool(tier, slot, fence);
        else if (slot->state == SLOT_COPYING)
            slot->fence = fence; // of ops that may follow it
        else if (slot_is_loading(slot))
            expert_abandon(store, slot);
        else
            tier_free(tier, slot);
    }
    expert_load_queued(store, &store->untold);
}

// What was read for a place that no op used counts as read ahead and wasted.
static void count_wasted(expert_store *store, const struct expert_place *place, bool read)
{
    bool ahead = place->origin != MOE_FROM_DISK; // it was counted so, and when asked for as used
    store->prefetched += (uint64_t)read - ahead;
    store->used -= ahead;
    store->layers[place->layer].wasted += read;
}

void expert_drop(expert_store *store, const struct expert_place *place)
{
    struct slot *slot = slot_at(store, place), *reading = slot->source ? slot->source : slot;
    struct flight *flight = reading->flight;
    uint32_t key = reading->key;
    bool was_read = slot->state == SLOT_READY || slot->state == SLOT_COPYING;
    --*count_of(&store->layers[place->layer], place->origin);
    expert_release(store, place, 1);
    // Taken back, slot and flight may be those of an expert that has waited for them.
    bool goes_on = flight && reading->flight == flight && reading->key == key;
    if (goes_on && place->origin == MOE_FROM_DISK)
        flight->dropped = true; // it counts when it has landed
    else if (place->origin != MOE_FROM_DEVICE && place->origin != MOE_FROM_HOST)
        count_wasted(store, place, was_read || goes_on);
}

void expert_count_dropped(expert_store *store, struct flight *flight, uint32_t layer)
{
    store->prefetched += flight->dropped;
    store->layers[layer].wasted += flight->dropped;
    flight->dropped = false;
}

// ---- What it says of itself
// ------------------------------------------------------------------------------------------

struct moe_cache_plan expert_store_plan(const expert_store *store)
{
    return store->plan;
}

uint32_t expert_slots(const expert_store *store, uint32_t layer)
{
    return class_for(store, expert_key(store, layer, 0))->device.n_slots;
}

uint32_t expert_least_slots(const expert_store *store)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < store->n_classes; i++)
        least = store->classes[i].device.n_slots < least ? store->classes[i].device.n_slots : least;
    return least;
}

struct expert_counts expert_store_counts(const expert_store *store)
{
    struct expert_counts sum = {.evictions = store->evictions,
                                .written_back = store->written_back,
                                .prefetched = store->prefetched,
                                .used = store->used};
    for (uint32_t i = store->first_moe_layer; i < store->n_layers; i++) {
        const struct expert_layer_counts *layer = &store->layers[i];
        sum.hits += layer->hits_device + layer->hits_host + layer->prefetched_in_time + layer->late;
        sum.misses += layer->missed;
        sum.late += layer->late;
        sum.bytes_read += layer->bytes_disk;
        sum.bytes_cached += layer->bytes_cached;
        sum.bytes_copied += layer->bytes_device;
        sum.wasted += layer->wasted;
        sum.wait_ns += layer->wait_disk_ns + layer->wait_copy_ns;
        sum.wait_copy_ns += layer->wait_copy_ns;
    }
    return sum;
}

void expert_store_layer(const expert_store *store, uint32_t layer, struct expert_layer_counts *counts)
{
    *counts = store->layers[layer];
}

static void note_tier(const expert_store *store, const struct tier *tier, enum moe_tier is, uint8_t *tiers)
{
    uint32_t first_key = expert_key(store, store->first_moe_layer, 0);
    for (uint32_t i = 0; i < tier->n_slots; i++)
        if (tier->slots[i].state == SLOT_READY)
            tiers[tier->slots[i].key - first_key] = (uint8_t)is;
}

void expert_store_tiers(const expert_store *store, uint8_t *tiers)
{
    memset(tiers, MOE_TIER_DISK, (size_t)(store->n_layers - store->first_moe_layer) * store->n_experts);
    for (uint32_t i = 0; i < store->n_classes; i++)
        note_tier(store, &store->classes[i].host, MOE_TIER_HOST, tiers);
    for (uint32_t i = 0; i < store->n_classes; i++)
        note_tier(store, &store->classes[i].device, MOE_TIER_DEVICE, tiers);
}

enum moe_origin expert_where(const expert_store *store, uint32_t layer, uint32_t expert)
{
    uint32_t key = expert_key(store, layer, expert);
    return origin_of(expert_on_device(store, key), expert_on_host(store, key));
}

bool expert_has_slot(const expert_store *store, uint32_t layer, uint32_t expert)
{
    return expert_on_device(store, expert_key(store, layer, expert)) != NULL;
}
