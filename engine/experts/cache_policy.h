// SPDX-License-Identifier: GPL-3.0-or-later
// Which slot of a full cache gives way. Knows slots and keys by number only; the expert store and the simulator of
// recorded routing (sim.h) both ask it.
//
// A key is used (cache_policy_use) each time that somebody asks for it, present or not. A slot that holds a key and
// that nobody needs right now is offered; the victim is the offered slot of the least worth. A slot in use is not
// offered, so it is never a victim.
//
// Worth in CACHE_LRFU, the policy of the store (Lee et al. 2001, "LRFU: a spectrum of policies"): every use adds one to
// the key's weight, which halves each `half_life` tokens (a large cache looks further back); since all weights fade
// alike, log2(weight) + last use / half_life orders them once and for all. Uses are remembered also of keys that left
// the cache.
//
// Prefill sweeps over all experts of a layer, in order, again and again: it doesn't count as use, and what it brings in
// goes before anything that decoding uses, the newest first, so that a sweep over more experts than there are slots
// meets those that stayed. What was prefetched and never asked for goes first of all, the oldest first.
//
// Layers are met in turn, so what was used longest ago is what comes next; with fewer slots than a token asks for, it
// is never met again. While slots are few (below four times a token's experts) each layer therefore keeps a share of
// them of its own, but for `shared_slots` of the dispatches in flight.
#ifndef MOECHAT_ENGINE_EXPERTS_CACHE_POLICY_H
#define MOECHAT_ENGINE_EXPERTS_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cache_policy cache_policy;

enum cache_policy_kind { CACHE_LRU, CACHE_LFU, CACHE_LRFU, CACHE_BELADY, CACHE_POLICIES };
enum cache_use { CACHE_DECODE, CACHE_PREFILL, CACHE_PREFETCH };

#define CACHE_NO_SLOT   UINT32_MAX
#define CACHE_HALF_LIFE 4 // tokens, the least of CACHE_LRFU

struct cache_shape {
    uint32_t n_slots;
    uint32_t n_layers, n_experts; // key: layer * n_experts + expert
    uint32_t n_moe_layers, top_k; // of whose experts it is
    const uint32_t *layer_rank; // [n_layers], a layer's number among those; NULL: they are the last ones. The caller's
    uint32_t shared_slots;      // of the dispatches in flight
    double half_life;           // in tokens; 0: twice the tokens whose experts fit in the cache
};

cache_policy *cache_policy_new(enum cache_policy_kind kind, const struct cache_shape *shape); // NULL: no memory
void cache_policy_free(cache_policy *p);                                                      // NULL is fine
bool cache_policy_is_layered(const cache_policy *p); // each layer keeps its share

// One request of one layer begins: time passes by a layer's part of a token when it decodes.
void cache_policy_tick(cache_policy *p, enum cache_use use);
void cache_policy_use(cache_policy *p, uint32_t key, enum cache_use use);
void cache_policy_foresee(cache_policy *p, uint32_t key, uint64_t next_use); // CACHE_BELADY's knowledge

void cache_policy_hold(cache_policy *p, uint32_t slot, uint32_t key); // the slot has, or is getting, this key
void cache_policy_drop(cache_policy *p, uint32_t slot);               // it has none any more; no longer offered
void cache_policy_offer(cache_policy *p, uint32_t slot);              // again: its worth is looked up anew
void cache_policy_withhold(cache_policy *p, uint32_t slot);
bool cache_policy_is_offered(const cache_policy *p, uint32_t slot);
uint32_t cache_policy_n_offered(const cache_policy *p);
// The offered slot of the least worth, CACHE_NO_SLOT when none is. It stays offered.
uint32_t cache_policy_victim(const cache_policy *p);
uint32_t cache_policy_victim_but_prefetched(const cache_policy *p); // the same among those that were asked for
// The offered slot of the most worth among those that are accepted, CACHE_NO_SLOT when none is.
uint32_t cache_policy_favourite(const cache_policy *p, bool (*accepts)(const void *context, uint32_t slot),
                                const void *context);
// Did decoding use the key, and is it worth more than what the slot holds? CACHE_NO_SLOT: than nothing.
bool cache_policy_is_wanted(const cache_policy *p, uint32_t key, uint32_t slot);
// Was the slot's key used by decoding within the last two tokens?
bool cache_policy_is_live(const cache_policy *p, uint32_t slot);

#endif
