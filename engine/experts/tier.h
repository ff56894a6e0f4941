// SPDX-License-Identifier: GPL-3.0-or-later
// One tier of expert slots: the device's, or the host's. Bookkeeping only; no byte is moved here.
//
// A slot is EMPTY, LOADING (its key is taken, nobody may use it yet) or READY. Who needs a slot pins it. Unpinned, an
// EMPTY slot is on the `empty` list, a READY one is offered to the policy, or, while ops that use it may still run,
// `cooling` until their fence has passed; a LOADING one is on no list of the tier's: its bytes are on their way.
#ifndef MOECHAT_ENGINE_EXPERTS_TIER_H
#define MOECHAT_ENGINE_EXPERTS_TIER_H

#include "engine/experts/cache_policy.h"
#include "engine/experts/flights.h"

// Slots in order, linked through themselves.
struct slot_list {
    struct slot *first;
    struct slot *last;
    uint32_t count;
};

enum slot_state { SLOT_EMPTY, SLOT_LOADING, SLOT_READY };

struct slot {
    struct slot_list *list; // the one that it is in, NULL: none
    struct slot *previous;
    struct slot *next;
    enum slot_state state;
    uint32_t key; // layer * n_routed_experts + expert, unless EMPTY
    uint32_t pins;
    bool guessed;                // it was loaded for a guess and nobody asked for it yet
    uint64_t fence;              // of the last release
    uint64_t arrived;            // serial of when it became READY
    uint64_t copy;               // number of the last copy that was begun into it
    bool saving;                 // a LOADING one of the host's: its bytes come back from the device
    uint64_t copied;             // of a LOADING one, bytes that were given to copies
    struct flight *flight;       // its read, when begun
    struct slot *source;         // of a device slot that waits for a host slot; that one is pinned
    struct read_failure failure; // why a pinned slot is EMPTY, for those who still wait
};

struct tier {
    struct slot *slots;
    uint32_t n_slots;
    uint32_t n_pinned;
    uint32_t n_guessed; // not EMPTY, loaded for guesses and not asked for
    uint32_t *table;    // [keys], the key's slot or CACHE_NO_SLOT
    cache_policy *policy;
    struct slot_list empty;
    struct slot_list cooling; // in order of their fences
};

int tier_open(struct tier *tier, const struct cache_shape *shape, struct moe_err *err);
void tier_close(struct tier *tier); // of zeroes is fine

void slots_append(struct slot_list *list, struct slot *slot);
void slots_remove(struct slot *slot);
uint32_t tier_index(const struct tier *tier, const struct slot *slot);
struct slot *tier_find(const struct tier *tier, uint32_t key); // NULL: not here
uint32_t tier_n_free(const struct tier *tier);                 // slots that tier_take can give
// An EMPTY slot, else the policy's victim; NULL when none is free. For another guess, guesses are left alone as long as
// fewer than `most_guesses` are held, and make room for it once there are as many.
struct slot *tier_next(const struct tier *tier);
struct slot *tier_next_for_guess(const struct tier *tier, uint32_t most_guesses);
// Gives a free slot the key, LOADING, with one pin; its old key is forgotten.
void tier_take(struct tier *tier, struct slot *slot, uint32_t key);
void tier_pin(struct tier *tier, struct slot *slot);
// Takes one pin off and says whether it was the last; the slot is then nowhere: tier_free, tier_cool or leave it
// LOADING.
bool tier_unpin(struct tier *tier, struct slot *slot);
void tier_free(struct tier *tier, struct slot *slot); // an unpinned slot, READY or EMPTY
void tier_cool(struct tier *tier, struct slot *slot, uint64_t fence);
void tier_clear(struct tier *tier, struct slot *slot); // forgets the key: EMPTY, and free when unpinned
void tier_asked(struct tier *tier, struct slot *slot); // it is a guess no more

#endif
