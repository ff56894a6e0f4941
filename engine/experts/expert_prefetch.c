// SPDX-License-Identifier: GPL-3.0-or-later
// Which predictions the store acts on: only what the disk, the slots and those who wait can spare.
#include "engine/base/clock.h"
#include "engine/experts/expert_parts.h"

#define IDLE_NEEDED    0.3
#define IDLE_SAMPLE_NS 20000000u // the gauge averages over a few of these

double expert_disk_idle(expert_store *store)
{
    struct idle_gauge *gauge = &store->gauge;
    uint64_t now = clock_ns();
    uint64_t since = now - gauge->at_ns;
    if (since < IDLE_SAMPLE_NS)
        return gauge->idle;
    uint64_t busy = reader_busy_ns(store->flights.pool);
    double idle = 1 - (double)(busy - gauge->busy_ns) / (double)since;
    gauge->idle = gauge->at_ns ? (gauge->idle + idle) / 2 : 1;
    gauge->at_ns = now;
    gauge->busy_ns = busy;
    return gauge->idle;
}

// Experts that nobody has asked for yet that a tier may hold.
static uint32_t quota(const expert_store *store, const struct tier *tier)
{
    uint32_t most = 2 * store->per_dispatch;
    return tier->n_slots / 4 < most ? tier->n_slots / 4 : most;
}

// A prefetch may have an empty slot, or one of an expert that was prefetched and not asked for, or what decoding hasn't
// used lately; and as many stay free as a token needs in one layer.
static struct slot *take_for_prefetch(expert_store *store, struct tier *tier, uint32_t key)
{
    if (tier_n_free(tier) + tier->cooling.count + tier->n_pinned <= store->per_dispatch)
        return NULL;
    struct slot *own = expert_own_slot(store, tier, key);
    struct slot *slot = own ? own : tier_next_for_prefetch(tier, quota(store, tier));
    if (!slot || (own && own->list != &tier->empty) ||
        (slot->state == SLOT_READY && !slot->prefetched && cache_policy_is_live(tier->policy, tier_index(tier, slot))))
        return NULL;
    if (tier == &class_of(store, slot)->device)
        expert_write_back(store, slot);
    expert_take(store, tier, slot, key);
    tier_unpin(tier, slot); // QUEUED and nowhere
    cache_policy_use(tier->policy, key, CACHE_PREFETCH);
    slot->prefetched = true;
    tier->n_prefetched++;
    return slot;
}

static bool disk_is_free(expert_store *store)
{
    uint32_t most = store->plan.readers > 1 ? store->plan.readers / 2 : 1;
    return !store->queued.first && store->flights.idle && store->flights.n_prefetches < most &&
           expert_disk_idle(store) >= IDLE_NEEDED;
}

static bool read_ahead(expert_store *store, struct tier *tier, uint32_t key)
{
    struct read_failure failure;
    struct slot *slot = disk_is_free(store) ? take_for_prefetch(store, tier, key) : NULL;
    if (!slot)
        return false;
    struct flight_order order = {
        .layer = key / store->n_experts,
        .expert = key % store->n_experts,
        .target = expert_open_target(store, slot),
        .owner = slot,
        .prefetch = true,
    };
    struct flight *flight = order.target ? flights_begin(&store->flights, &order, &failure) : NULL;
    if (flight) {
        slot_read(slot, flight);
    } else {
        expert_close_target(store, slot);
        tier_clear(tier, slot); // whoever asks for it is told why
    }
    return flight;
}

static bool copy_ahead(expert_store *store, struct slot *source)
{
    struct size_class *size = class_of(store, source);
    tier_pin(&size->host, source); // first: it must not make room for what the device gives up
    struct slot *slot = take_for_prefetch(store, &size->device, source->key);
    if (!slot) {
        if (tier_unpin(&size->host, source))
            tier_free(&size->host, source);
        return false;
    }
    tier_asked(&size->host, source); // the device's slot is the prefetched one from now on
    slot->source = source;
    return expert_copy(store, slot, &store->untold) == MOE_OK;
}

// False: this is no time for it.
static bool begin_prefetches(expert_store *store, uint32_t layer)
{
    if (layer < store->first_moe_layer || layer >= store->n_layers || expert_take_in(store, 0, layer, &store->untold))
        return false;
    expert_cool_down(store);
    const struct size_class *size = class_for(store, expert_key(store, layer, 0));
    cache_policy_tick(size->device.policy, CACHE_PREFETCH);
    if (expert_has_host(store))
        cache_policy_tick(size->host.policy, CACHE_PREFETCH);
    return true;
}

// True: a load was begun.
static bool load_ahead(expert_store *store, uint32_t key)
{
    struct slot *host = expert_on_host(store, key);
    if (expert_on_device(store, key) || (host && slot_is_loading(host)))
        return false; // there, or on its way
    bool begun =
        host ? copy_ahead(store, host) : read_ahead(store, expert_read_tier(store, class_for(store, key)), key);
    store->prefetched += begun;
    return begun;
}

uint32_t expert_prefetch(expert_store *store, const struct expert_prediction *prediction)
{
    uint32_t begun = 0;
    if (!begin_prefetches(store, prediction->layer))
        return 0;
    for (uint32_t i = 0; i < prediction->n; i++)
        if ((uint32_t)prediction->ids[i] < store->n_experts)
            begun += load_ahead(store, expert_key(store, prediction->layer, (uint32_t)prediction->ids[i]));
    return begun;
}

// A round over all keys, from the first that is missing on; one that stays missing holds it up for so many calls, not
// for good.
enum { FILL_LOADS = 16, FILL_KEYS = 4096, FILL_TRIES = 64 };

static bool is_full(const expert_store *store)
{
    for (uint32_t p = 0; p < store->n_classes; p++)
        for (uint32_t i = 0; i < store->classes[p].device.n_slots; i++)
            if (store->classes[p].device.slots[i].state != SLOT_READY)
                return false;
    return true;
}

uint32_t expert_fill(expert_store *store)
{
    struct fill *fill = &store->fill;
    uint32_t first = expert_key(store, store->first_moe_layer, 0), end = expert_key(store, store->n_layers, 0);
    fill->at = fill->at < first ? first : fill->at;
    if (!store->plan.all || fill->done || !begin_prefetches(store, fill->at / store->n_experts))
        return 0;
    uint32_t begun = 0, missing = 0, from = fill->at;
    end = end - from < FILL_KEYS ? end : from + FILL_KEYS;
    for (uint32_t key = from; key < end && missing < FILL_LOADS; key++) {
        if (expert_on_device(store, key)) {
            fill->at += fill->at == key;
            continue;
        }
        missing++;
        begun += load_ahead(store, key);
    }
    fill->tries = fill->at == from ? fill->tries + 1 : 0;
    if (fill->tries == FILL_TRIES) {
        fill->at++;
        fill->tries = 0;
    }
    if (fill->at == expert_key(store, store->n_layers, 0)) {
        fill->at = first;
        fill->done = is_full(store);
    }
    return begun;
}

static void withdraw_prefetches(expert_store *store, uint32_t layer, bool all)
{
    struct flights *flights = &store->flights;
    for (uint32_t i = 0; i < flights->n_items && flights->n_prefetches; i++) {
        struct flight *flight = &flights->items[i];
        struct slot *slot = flight->owner;
        if (!flight->n_left || !flight->prefetch || !(all || slot->key / store->n_experts == layer))
            continue;
        if (!flights_withdraw(flights, flight))
            continue;
        slot->flight = NULL;
        expert_close_target(store, slot);
        tier_clear(expert_read_tier(store, class_of(store, slot)), slot);
        store->prefetched--;
    }
}

void expert_drop_prefetches(expert_store *store)
{
    withdraw_prefetches(store, 0, true);
}

void expert_drop_stale(expert_store *store, uint32_t layer)
{
    withdraw_prefetches(store, layer, false);
}
