// SPDX-License-Identifier: GPL-3.0-or-later
// Which slot has which key, who is free, and who goes next.
#include "engine/experts/tier.h"

#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/err.h"

int tier_open(struct tier *tier, const struct cache_shape *shape, struct moe_err *err)
{
    size_t n_keys = (size_t)shape->n_layers * shape->n_experts;
    tier->slots = calloc(shape->n_slots, sizeof *tier->slots);
    tier->table = malloc(n_keys * sizeof *tier->table);
    tier->policy = cache_policy_new(CACHE_LRFU, shape);
    if (!tier->slots || !tier->table || !tier->policy)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the table of %" PRIu32 " expert slots", shape->n_slots);
    tier->n_slots = shape->n_slots;
    for (size_t i = 0; i < n_keys; i++)
        tier->table[i] = CACHE_NO_SLOT;
    for (uint32_t i = 0; i < tier->n_slots; i++)
        slots_append(&tier->empty, &tier->slots[i]);
    return MOE_OK;
}

void tier_close(struct tier *tier)
{
    cache_policy_free(tier->policy);
    free(tier->table);
    free(tier->slots);
}

uint32_t tier_index(const struct tier *tier, const struct slot *slot)
{
    return (uint32_t)(slot - tier->slots);
}

struct slot *tier_find(const struct tier *tier, uint32_t key)
{
    uint32_t slot = tier->table[key];
    return slot == CACHE_NO_SLOT ? NULL : &tier->slots[slot];
}

uint32_t tier_n_free(const struct tier *tier)
{
    return tier->empty.count + cache_policy_n_offered(tier->policy);
}

void tier_asked(struct tier *tier, struct slot *slot)
{
    tier->n_prefetched -= slot->prefetched;
    slot->prefetched = false;
}

static void forget(struct tier *tier, struct slot *slot)
{
    if (slot->state == SLOT_EMPTY)
        return;
    tier_asked(tier, slot);
    cache_policy_drop(tier->policy, tier_index(tier, slot));
    tier->table[slot->key] = CACHE_NO_SLOT;
    if (slot->list)
        slots_remove(slot);
    slot->state = SLOT_EMPTY;
}

struct slot *tier_next(const struct tier *tier)
{
    if (tier->empty.first)
        return tier->empty.first;
    uint32_t victim = cache_policy_victim(tier->policy);
    return victim == CACHE_NO_SLOT ? NULL : &tier->slots[victim];
}

struct slot *tier_next_for_prefetch(const struct tier *tier, uint32_t most_prefetched)
{
    struct slot *next = tier_next(tier);
    if (tier->n_prefetched >= most_prefetched)
        return next && next->prefetched ? next : NULL;
    if (!next || !next->prefetched)
        return next;
    uint32_t victim = cache_policy_victim_but_prefetched(tier->policy);
    return victim == CACHE_NO_SLOT ? next : &tier->slots[victim];
}

void tier_take(struct tier *tier, struct slot *slot, uint32_t key)
{
    forget(tier, slot);
    tier_pin(tier, slot);
    slot->state = SLOT_QUEUED;
    slot->key = key;
    slot->source = NULL;
    slot->copied = 0;
    slot->fence = 0;
    slot->followed = false;
    slot->joined = false;
    slot->failure = (struct read_failure){.result = READ_FULL};
    tier->table[key] = tier_index(tier, slot);
    cache_policy_hold(tier->policy, tier_index(tier, slot), key);
}

void tier_pin(struct tier *tier, struct slot *slot)
{
    if (slot->pins++)
        return;
    tier->n_pinned++;
    cache_policy_withhold(tier->policy, tier_index(tier, slot));
    if (slot->list && !slot_is_loading(slot))
        slots_remove(slot);
}

bool tier_unpin(struct tier *tier, struct slot *slot)
{
    if (--slot->pins)
        return false;
    tier->n_pinned--;
    return true;
}

void tier_free(struct tier *tier, struct slot *slot)
{
    if (slot->list)
        slots_remove(slot);
    if (slot->state == SLOT_READY)
        cache_policy_offer(tier->policy, tier_index(tier, slot));
    else
        slots_append(&tier->empty, slot);
}

void tier_cool(struct tier *tier, struct slot *slot, uint64_t fence)
{
    slot->fence = fence;
    slots_append(&tier->cooling, slot);
}

void tier_clear(struct tier *tier, struct slot *slot)
{
    forget(tier, slot);
    if (!slot->pins)
        tier_free(tier, slot);
}
