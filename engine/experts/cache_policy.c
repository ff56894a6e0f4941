// SPDX-License-Identifier: GPL-3.0-or-later
// Worth of keys, and a heap of the slots on offer.
#include "engine/experts/cache_policy.h"

#include <math.h>
#include <stdlib.h>

#define NEVER (-1.0)
// The worth of what prefill alone used lies below every other, what was prefetched below that.
#define ONLY_READ  (-1e15)
#define PREFETCHED (-2e15)

struct key_stats {
    double last; // token of the last decode use, NEVER
    double weight;
    double read; // time of the last prefill use
    uint64_t next_use;
    bool prefetched; // and not asked for since
};

struct slot_stats {
    uint32_t key; // CACHE_NO_SLOT: none
    uint32_t at;  // in the heap, CACHE_NO_SLOT: not offered
    double worth; // when it was offered
};

struct cache_policy {
    enum cache_policy_kind kind;
    struct cache_shape shape;
    bool layered;
    double tokens; // decoded so far, in parts of a layer each
    double reads;  // requests of prefill and prefetches so far
    struct key_stats *keys;
    struct slot_stats *slots;
    uint32_t *heap; // offered slots, the least worth first
    uint32_t n_offered;
    uint32_t *held; // [n_layers] slots of the layer's keys
};

cache_policy *cache_policy_new(enum cache_policy_kind kind, const struct cache_shape *shape)
{
    cache_policy *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    size_t n_keys = (size_t)shape->n_layers * shape->n_experts;
    p->kind = kind;
    p->shape = *shape;
    if (!(p->shape.half_life > 0))
        p->shape.half_life = fmax(CACHE_HALF_LIFE, 2.0 * shape->n_slots / (shape->top_k * (double)shape->n_moe_layers));
    p->layered = kind == CACHE_LRFU && shape->n_slots < 4 * (uint64_t)shape->top_k * shape->n_moe_layers;
    p->keys = calloc(n_keys, sizeof *p->keys);
    p->slots = calloc(shape->n_slots, sizeof *p->slots);
    p->heap = calloc(shape->n_slots, sizeof *p->heap);
    p->held = calloc(shape->n_layers, sizeof *p->held);
    if (!p->keys || !p->slots || !p->heap || !p->held) {
        cache_policy_free(p);
        return NULL;
    }
    for (size_t i = 0; i < n_keys; i++)
        p->keys[i].last = NEVER;
    for (uint32_t i = 0; i < shape->n_slots; i++)
        p->slots[i] = (struct slot_stats){.key = CACHE_NO_SLOT, .at = CACHE_NO_SLOT};
    return p;
}

void cache_policy_free(cache_policy *p)
{
    if (!p)
        return;
    free(p->held);
    free(p->heap);
    free(p->slots);
    free(p->keys);
    free(p);
}

bool cache_policy_is_layered(const cache_policy *p)
{
    return p->layered;
}

void cache_policy_tick(cache_policy *p, enum cache_use use)
{
    if (use == CACHE_DECODE)
        p->tokens += 1.0 / p->shape.n_moe_layers;
    else
        p->reads++;
}

void cache_policy_use(cache_policy *p, uint32_t key, enum cache_use use)
{
    struct key_stats *stats = &p->keys[key];
    stats->prefetched = use == CACHE_PREFETCH;
    if (use != CACHE_DECODE) {
        stats->read = p->reads;
        return;
    }
    double fade = p->kind == CACHE_LFU ? 0 : (p->tokens - stats->last) / p->shape.half_life;
    stats->weight = 1 + (stats->last < 0 ? 0 : stats->weight * exp2(-fade));
    stats->last = p->tokens;
}

void cache_policy_foresee(cache_policy *p, uint32_t key, uint64_t next_use)
{
    p->keys[key].next_use = next_use;
}

static double worth(const cache_policy *p, uint32_t key)
{
    const struct key_stats *stats = &p->keys[key];
    if (p->kind == CACHE_BELADY)
        return -(double)stats->next_use;
    if (stats->prefetched)
        return PREFETCHED + stats->read;
    if (stats->last < 0)
        return ONLY_READ - stats->read;
    switch (p->kind) {
    case CACHE_LFU:
        return stats->weight + stats->last * 1e-9;
    case CACHE_LRFU:
        return log2(stats->weight) + stats->last / p->shape.half_life;
    default:
        return stats->last;
    }
}

// ---- The heap
// --------------------------------------------------------------------------------------------------------

static bool is_less(const cache_policy *p, uint32_t a, uint32_t b)
{
    double x = p->slots[a].worth;
    double y = p->slots[b].worth;
    return x < y || (x == y && a < b);
}

static void put(cache_policy *p, uint32_t at, uint32_t slot)
{
    p->heap[at] = slot;
    p->slots[slot].at = at;
}

// Moves the slot at `at` to where it belongs.
static void settle(cache_policy *p, uint32_t at)
{
    uint32_t slot = p->heap[at];
    while (at && is_less(p, slot, p->heap[(at - 1) / 2])) {
        put(p, at, p->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < p->n_offered && is_less(p, p->heap[child + 1], p->heap[child]))
            child++;
        if (child >= p->n_offered || !is_less(p, p->heap[child], slot))
            break;
        put(p, at, p->heap[child]);
        at = child;
    }
    put(p, at, slot);
}

void cache_policy_offer(cache_policy *p, uint32_t slot)
{
    struct slot_stats *stats = &p->slots[slot];
    stats->worth = worth(p, stats->key);
    if (stats->at == CACHE_NO_SLOT)
        put(p, p->n_offered++, slot);
    settle(p, stats->at);
}

void cache_policy_withhold(cache_policy *p, uint32_t slot)
{
    uint32_t at = p->slots[slot].at;
    if (at == CACHE_NO_SLOT)
        return;
    p->slots[slot].at = CACHE_NO_SLOT;
    p->n_offered--;
    if (at < p->n_offered) {
        put(p, at, p->heap[p->n_offered]);
        settle(p, at);
    }
}

bool cache_policy_is_offered(const cache_policy *p, uint32_t slot)
{
    return p->slots[slot].at != CACHE_NO_SLOT;
}

uint32_t cache_policy_n_offered(const cache_policy *p)
{
    return p->n_offered;
}

// ---- Keys in slots
// ---------------------------------------------------------------------------------------------------

void cache_policy_hold(cache_policy *p, uint32_t slot, uint32_t key)
{
    p->slots[slot].key = key;
    p->held[key / p->shape.n_experts]++;
}

void cache_policy_drop(cache_policy *p, uint32_t slot)
{
    cache_policy_withhold(p, slot);
    uint32_t key = p->slots[slot].key;
    if (key != CACHE_NO_SLOT)
        p->held[key / p->shape.n_experts]--;
    p->slots[slot].key = CACHE_NO_SLOT;
}

// The layer's own slots: equal shares of what is not for the dispatches in flight, the rest to the first layers.
static uint32_t share_of(const cache_policy *p, uint32_t layer)
{
    const struct cache_shape *s = &p->shape;
    uint32_t shared = s->shared_slots > s->top_k ? s->shared_slots : s->top_k;
    uint32_t own = s->n_slots > shared ? s->n_slots - shared : 0;
    uint32_t index = s->layer_rank ? s->layer_rank[layer] : layer - (s->n_layers - s->n_moe_layers);
    return own / s->n_moe_layers + (index < own % s->n_moe_layers);
}

// There are few slots in this case, so all that are offered are looked at.
static uint32_t layered_victim(const cache_policy *p)
{
    uint32_t best = CACHE_NO_SLOT;
    for (uint32_t i = 0; i < p->n_offered; i++) {
        uint32_t slot = p->heap[i];
        uint32_t layer = p->slots[slot].key / p->shape.n_experts;
        bool surplus = p->held[layer] > share_of(p, layer) || p->slots[slot].worth < ONLY_READ / 2;
        if (surplus && (best == CACHE_NO_SLOT || is_less(p, slot, best)))
            best = slot;
    }
    return best == CACHE_NO_SLOT && p->n_offered ? p->heap[0] : best;
}

uint32_t cache_policy_victim(const cache_policy *p)
{
    if (p->layered)
        return layered_victim(p);
    return p->n_offered ? p->heap[0] : CACHE_NO_SLOT;
}

// The least below `at`: beneath a prefetched one there may be less than beside it.
static uint32_t least_but_prefetched(const cache_policy *p, uint32_t at)
{
    if (at >= p->n_offered)
        return CACHE_NO_SLOT;
    uint32_t slot = p->heap[at];
    if (!p->keys[p->slots[slot].key].prefetched)
        return slot;
    uint32_t a = least_but_prefetched(p, 2 * at + 1);
    uint32_t b = least_but_prefetched(p, 2 * at + 2);
    if (a == CACHE_NO_SLOT || b == CACHE_NO_SLOT)
        return a == CACHE_NO_SLOT ? b : a;
    return is_less(p, a, b) ? a : b;
}

uint32_t cache_policy_victim_but_prefetched(const cache_policy *p)
{
    return least_but_prefetched(p, 0);
}

uint32_t cache_policy_favourite(const cache_policy *p, bool (*accepts)(const void *context, uint32_t slot),
                                const void *context)
{
    uint32_t best = CACHE_NO_SLOT;
    for (uint32_t i = 0; i < p->n_offered; i++)
        if ((best == CACHE_NO_SLOT || is_less(p, best, p->heap[i])) && accepts(context, p->heap[i]))
            best = p->heap[i];
    return best;
}

bool cache_policy_is_wanted(const cache_policy *p, uint32_t key, uint32_t slot)
{
    double of_key = worth(p, key);
    return of_key > ONLY_READ / 2 && (slot == CACHE_NO_SLOT || of_key > worth(p, p->slots[slot].key));
}

bool cache_policy_is_live(const cache_policy *p, uint32_t slot)
{
    const struct key_stats *stats = &p->keys[p->slots[slot].key];
    return stats->last >= 0 && p->tokens - stats->last <= 2;
}
