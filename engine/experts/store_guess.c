// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/base/clock.h"
#include "engine/experts/store_parts.h"

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

// Unasked guesses that a tier may hold.
static uint32_t quota(const expert_store *store, const struct tier *tier)
{
    uint32_t most = 2 * store->per_dispatch;
    return tier->n_slots / 4 < most ? tier->n_slots / 4 : most;
}

// A guess may have an empty slot, or one of those with unasked guesses, or what decoding hasn't used lately; and as
// many stay free as a token needs in one layer.
static struct slot *take_for_guess(expert_store *store, struct tier *tier, uint32_t key)
{
    if (tier_n_free(tier) + tier->cooling.count + tier->n_pinned <= store->per_dispatch)
        return NULL;
    struct slot *own = store_own_slot(store, tier, key);
    struct slot *slot = own ? own : tier_next_for_guess(tier, quota(store, tier));
    if (!slot || (own && own->list != &tier->empty) ||
        (slot->state == SLOT_READY && !slot->guessed && cache_policy_is_live(tier->policy, tier_index(tier, slot))))
        return NULL;
    if (tier == &store->device)
        store_save(store, slot);
    store_take(store, tier, slot, key);
    tier_unpin(tier, slot); // LOADING and nowhere
    cache_policy_use(tier->policy, key, CACHE_GUESS);
    slot->guessed = true;
    tier->n_guessed++;
    return slot;
}

static bool disk_is_free(expert_store *store)
{
    uint32_t most = store->plan.readers > 1 ? store->plan.readers / 2 : 1;
    return !store->pending.first && store->flights.idle && store->flights.n_guesses < most &&
           expert_disk_idle(store) >= IDLE_NEEDED;
}

static bool read_ahead(expert_store *store, struct tier *tier, uint32_t key)
{
    struct read_failure failure;
    struct slot *slot = disk_is_free(store) ? take_for_guess(store, tier, key) : NULL;
    if (!slot)
        return false;
    struct flight_order order = {
        .layer = key / store->n_experts,
        .expert = key % store->n_experts,
        .target = store_open_target(store, slot),
        .owner = slot,
        .guess = true,
    };
    slot->flight = order.target ? flights_begin(&store->flights, &order, &failure) : NULL;
    if (!slot->flight) {
        store_close_target(store, slot);
        tier_clear(tier, slot); // whoever asks for it is told why
    }
    return slot->flight;
}

static bool copy_ahead(expert_store *store, struct slot *source)
{
    tier_pin(&store->host, source); // first: it must not make room for what the device gives up
    struct slot *slot = take_for_guess(store, &store->device, source->key);
    if (!slot) {
        if (tier_unpin(&store->host, source))
            tier_free(&store->host, source);
        return false;
    }
    tier_asked(&store->host, source); // the device's slot carries the guess from now on
    slot->source = source;
    return store_copy(store, slot, &store->untold) == MOE_OK;
}

// False: this is no time for guesses.
static bool begin_guesses(expert_store *store, uint32_t layer)
{
    if (layer < store->first_moe_layer || layer >= store->n_layers || store_take_in(store, 0, layer, &store->untold))
        return false;
    store_cool_down(store);
    cache_policy_tick(store->device.policy, CACHE_GUESS);
    if (store_has_host(store))
        cache_policy_tick(store->host.policy, CACHE_GUESS);
    return true;
}

// True: a load was begun.
static bool load_ahead(expert_store *store, uint32_t key)
{
    struct slot *host = store_has_host(store) ? tier_find(&store->host, key) : NULL;
    if (tier_find(&store->device, key) || (host && host->state == SLOT_LOADING))
        return false; // there, or on its way
    bool begun =
        host ? copy_ahead(store, host) : read_ahead(store, store_has_host(store) ? &store->host : &store->device, key);
    store->prefetched += begun;
    return begun;
}

uint32_t expert_hint(expert_store *store, const struct expert_guess *guess)
{
    uint32_t begun = 0;
    if (!begin_guesses(store, guess->layer))
        return 0;
    for (uint32_t i = 0; i < guess->n; i++)
        if ((uint32_t)guess->ids[i] < store->n_experts)
            begun += load_ahead(store, store_key(store, guess->layer, (uint32_t)guess->ids[i]));
    return begun;
}

// A round over all keys, from the first that is missing on; one that stays missing holds it up for so many calls, not
// for good.
enum { FILL_LOADS = 16, FILL_KEYS = 4096, FILL_TRIES = 64 };

static bool is_full(const expert_store *store)
{
    for (uint32_t i = 0; i < store->device.n_slots; i++)
        if (store->device.slots[i].state != SLOT_READY)
            return false;
    return true;
}

uint32_t expert_fill(expert_store *store)
{
    struct fill *fill = &store->fill;
    uint32_t first = store_key(store, store->first_moe_layer, 0), end = store_key(store, store->n_layers, 0);
    fill->at = fill->at < first ? first : fill->at;
    if (!store->plan.all || fill->done || !begin_guesses(store, fill->at / store->n_experts))
        return 0;
    uint32_t begun = 0, missing = 0, from = fill->at;
    end = end - from < FILL_KEYS ? end : from + FILL_KEYS;
    for (uint32_t key = from; key < end && missing < FILL_LOADS; key++) {
        if (tier_find(&store->device, key)) {
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
    if (fill->at == store_key(store, store->n_layers, 0)) {
        fill->at = first;
        fill->done = is_full(store);
    }
    return begun;
}

static void withdraw_guesses(expert_store *store, uint32_t layer, bool all)
{
    struct tier *tier = store_has_host(store) ? &store->host : &store->device;
    struct flights *flights = &store->flights;
    for (uint32_t i = 0; i < flights->n_items && flights->n_guesses; i++) {
        struct flight *flight = &flights->items[i];
        struct slot *slot = flight->owner;
        if (!flight->n_left || !flight->guess || !(all || slot->key / store->n_experts == layer))
            continue;
        if (!flights_withdraw(flights, flight))
            continue;
        slot->flight = NULL;
        store_close_target(store, slot);
        tier_clear(tier, slot);
        store->prefetched--;
    }
}

void expert_drop_hints(expert_store *store)
{
    withdraw_guesses(store, 0, true);
}

void store_drop_stale(expert_store *store, uint32_t layer)
{
    withdraw_guesses(store, layer, false);
}
