// SPDX-License-Identifier: GPL-3.0-or-later
// One tier of expert slots: the device's, or the host's. Bookkeeping only; no byte is moved here.
//
// Who needs a slot pins it. Unpinned, an EMPTY slot is on the `empty` list; a READY one is offered to the policy, or,
// while ops that use it may still run, `cooling` until their fence has passed. A slot whose bytes are on their way is
// on no list of the tier's.
#ifndef MOECHAT_ENGINE_EXPERTS_TIER_H
#define MOECHAT_ENGINE_EXPERTS_TIER_H

#include "engine/experts/cache_policy.h"
#include "engine/experts/slot.h"

struct tier {
    struct slot *slots;
    uint32_t n_slots;
    uint32_t n_pinned;
    uint32_t n_prefetched; // not EMPTY, prefetched and not asked for
    uint32_t *table;       // [keys], the key's slot or CACHE_NO_SLOT
    cache_policy *policy;
    struct slot_list empty;
    struct slot_list cooling; // in order of their fences
};

int tier_open(struct tier *tier, const struct cache_shape *shape, struct moe_err *err);
void tier_close(struct tier *tier); // of zeroes is fine

uint32_t tier_index(const struct tier *tier, const struct slot *slot);
struct slot *tier_find(const struct tier *tier, uint32_t key); // NULL: not here
uint32_t tier_n_free(const struct tier *tier);                 // slots that tier_take can give
// An EMPTY slot, else the policy's victim; NULL when none is free. For another prefetch, what was prefetched is left
// alone as long as fewer than `most_prefetched` are held, and makes room for it once there are as many.
struct slot *tier_next(const struct tier *tier);
struct slot *tier_next_for_prefetch(const struct tier *tier, uint32_t most_prefetched);
// EMPTY or READY -> QUEUED: gives a free slot the key, with one pin; its old key is forgotten.
void tier_take(struct tier *tier, struct slot *slot, uint32_t key);
// Any state -> EMPTY: forgets the key; free when unpinned.
void tier_clear(struct tier *tier, struct slot *slot);
void tier_pin(struct tier *tier, struct slot *slot);
// Takes one pin off and says whether it was the last; the slot is then nowhere: tier_free, tier_cool, or its bytes are
// on their way.
bool tier_unpin(struct tier *tier, struct slot *slot);
void tier_free(struct tier *tier, struct slot *slot); // an unpinned slot, READY or EMPTY
void tier_cool(struct tier *tier, struct slot *slot, uint64_t fence);
void tier_asked(struct tier *tier, struct slot *slot); // it is no longer just prefetched

#endif
