// SPDX-License-Identifier: GPL-3.0-or-later
// Random lives of an expert store: requests that overlap, are cancelled or let go unread, prefetches, fills; copies and
// fences that pass late, reads that fail in the middle, copies that the device loses. Whatever was waited for has its
// bytes, what an op may still use keeps them, and in the end every slot is free and every expert can be had.
#include "engine/base/clock.h"
#include "tests/expert_rig.h"
#include "engine/experts/expert_parts.h"

enum { LIVES = 300, STEPS = 120, MOST_REQUESTS = 2, USES = 64 };

// An op that was given and need not be over.
struct use {
    struct expert_place place;
    uint64_t fence;
};

struct life {
    struct rig rig;
    struct rig_read how;
    expert_store *store;
    uint64_t random;
    struct request {
        struct expert_place places[RIG_TOP_K];
        uint32_t n;
    } requests[MOST_REQUESTS];
    uint32_t n_requests, at_once;
    struct use uses[USES];
    uint32_t n_uses;
    bool loses; // copies
};

static uint32_t below(struct life *life, uint32_t limit)
{
    life->random = life->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((life->random >> 33) % limit);
}

// Slots for two requests, or for one.
static bool open_life(struct harness *t, struct life *life, uint64_t seed)
{
    *life = (struct life){.random = seed};
    uint32_t kind = below(life, 6), slots = RIG_TOP_K + below(life, RIG_ALL - RIG_TOP_K + 1);
    if (!CHECK(t, rig_open(&life->rig, kind == 0)))
        return false;
    struct rig *rig = &life->rig;
    slots = below(life, 5) ? slots : RIG_ALL;
    rig->g.info.maps_host_memory = kind == 1;
    uint32_t layout = below(life, 4);
    if (layout < 2 && !CHECK(t, layout ? rig_spread(rig) : rig_scatter(rig)))
        return false;
    rig->io = below(life, 8) == 0 ? MOE_IO_DIRECT : MOE_IO_BUFFERED;
    rig->g.info.max_alloc_bytes = (below(life, 2) ? 5 : 11) * rig_slot_bytes(rig);
    rig->host_bytes = below(life, 4) ? (slots + below(life, RIG_ALL)) * rig_slot_bytes(rig) : MOE_CACHE_NONE;
    rig->readers = 1 + below(life, 4);
    rig->write_back = below(life, 4) ? MOE_WRITE_BACK_ON : MOE_WRITE_BACK_OFF;
    rig->read_piece_bytes = below(life, 3) ? 4096 : 0;
    rig->g.lazy = below(life, 3);
    rig->g.lazy_copies = below(life, 4);
    life->loses = kind > 1 && below(life, 2);
    life->how.most = below(life, 2) ? rig->io == MOE_IO_DIRECT ? 4096 : 1000 + below(life, 8000) : 0;
    life->at_once = slots / RIG_TOP_K < MOST_REQUESTS ? 1 : MOST_REQUESTS;
    rig->dispatches = life->at_once;
    life->store = rig_store(t, rig, slots, &life->how);
    return life->store;
}

// What ops may still use is as it was.
static void look_at_uses(struct harness *t, struct life *life)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < life->n_uses; i++)
        if (life->uses[i].fence > life->rig.g.passed) {
            CHECK(t, rig_holds(&life->uses[i].place));
            life->uses[left++] = life->uses[i];
        }
    life->n_uses = left;
}

static void ask(struct harness *t, struct life *life)
{
    struct request *request = &life->requests[life->n_requests];
    int32_t ids[RIG_EXPERTS];
    for (int i = 0; i < RIG_EXPERTS; i++)
        ids[i] = i;
    request->n = 1 + below(life, RIG_TOP_K);
    for (uint32_t i = 0; i < request->n; i++) {
        uint32_t other = i + below(life, RIG_EXPERTS - i);
        int32_t id = ids[other];
        ids[other] = ids[i];
        ids[i] = id;
    }
    struct expert_request order = {.layer = 1 + below(life, RIG_LAYERS - 1),
                                   .ids = ids,
                                   .n = request->n,
                                   .use = below(life, 3) ? CACHE_DECODE : CACHE_PREFILL,
                                   .cancelled = below(life, 6) ? NULL : rig_yes};
    struct moe_err err = {0};
    int code = expert_acquire(life->store, &order, request->places, &err);
    life->n_requests += !code;
    if (!CHECK(t, !code || (code == MOE_CANCELLED && order.cancelled) || (code == MOE_DEVICE && life->loses)))
        printf("    %d: %s\n", code, err.text);
}

// Waits for some of a request's experts, or for none, gives ops that use them and lets go.
static void answer(struct harness *t, struct life *life)
{
    uint32_t which = below(life, life->n_requests), waits = below(life, 4) ? RIG_TOP_K : below(life, RIG_TOP_K);
    struct request request = life->requests[which];
    for (uint32_t i = 0; i < request.n && i < waits; i++) {
        bool (*cancelled)(void *) = below(life, 8) ? NULL : rig_yes;
        struct moe_err err = {0};
        int code = expert_wait(life->store, &request.places[i], cancelled, NULL, &err);
        bool fine =
            !code || (code == MOE_CANCELLED && cancelled) || code == MOE_IO || (code == MOE_DEVICE && life->loses);
        if (!CHECK(t, fine) || !CHECK(t, code || rig_holds(&request.places[i])))
            printf("    %d: %s\n", code, err.text);
        if (!code && life->n_uses < USES)
            life->uses[life->n_uses++] = (struct use){request.places[i], life->rig.g.fence + 1};
    }
    expert_release(life->store, request.places, request.n);
    life->requests[which] = life->requests[--life->n_requests];
}

static void disturb(struct life *life)
{
    gpu *g = &life->rig.g;
    switch (below(life, 7)) {
    case 0:
        g->passed += below(life, (uint32_t)(g->fence - g->passed) + 1);
        break;
    case 1:
        expert_drop_prefetches(life->store);
        break;
    case 2:
        atomic_store(&life->how.fail_errno, below(life, 2) ? EIO : 0);
        atomic_store(&life->how.fail_at, below(life, RIG_EXPERTS * RIG_BLOB));
        atomic_store(&life->how.fail_count, 1);
        break;
    case 3:
    case 4:
        g->lost = life->loses ? g->copy + 1 + below(life, 3) : 0;
        break;
    default:
        for (uint32_t n = below(life, 4); n && g->copied < g->copy; n--)
            rig_copy_one(g);
    }
}

static void live(struct harness *t, struct life *life)
{
    int32_t predictions[RIG_TOP_K];
    for (int step = 0; step < STEPS; step++) {
        uint32_t what = below(life, 10);
        if (what < 4 && life->n_requests < life->at_once)
            ask(t, life);
        else if (what < 7 && life->n_requests)
            answer(t, life);
        else if (what < 8)
            expert_fill(life->store);
        else if (what < 9)
            disturb(life);
        for (int i = 0; i < RIG_TOP_K && what == 9; i++)
            predictions[i] = (int32_t)below(life, RIG_EXPERTS);
        if (what == 9)
            expert_prefetch(life->store, &(struct expert_prediction){1 + below(life, RIG_LAYERS - 1), predictions,
                                                                     1 + below(life, RIG_TOP_K)});
        look_at_uses(t, life);
    }
}

static bool is_free(const struct tier *tier)
{
    return tier->n_pinned == 0 && tier_n_free(tier) + tier->cooling.count == tier->n_slots;
}

// Nothing disturbs any more: all comes to rest, and all can be had.
static void end_life(struct harness *t, struct life *life)
{
    struct moe_err err;
    while (life->n_requests)
        answer(t, life);
    life->rig.g.lost = 0;
    atomic_store(&life->how.fail_count, 0);
    expert_drop_prefetches(life->store);
    for (uint64_t until = clock_ns() + UINT64_C(5000000000); clock_ns() < until;) {
        expert_take_in(life->store, 1, 1, &err);
        if (!life->store->flights.n_flying && !life->store->copying.first && !life->store->writing_back.first)
            break;
    }
    life->rig.g.failed = false;
    for (uint32_t p = 0; p < life->store->n_classes; p++) {
        const struct size_class *size = &life->store->classes[p];
        CHECK(t, is_free(&size->device) && (!expert_has_host(life->store) || is_free(&size->host)));
    }
    for (uint32_t key = 0; key < RIG_ALL; key++)
        CHECK(t, rig_use_one(life->store, 1 + key / RIG_EXPERTS, (int32_t)(key % RIG_EXPERTS)));
    struct expert_row row;
    for (uint32_t layer = 1; layer < RIG_LAYERS; layer++)
        if (expert_layer_stays(life->store, layer, &row))
            for (uint32_t e = 0; e < RIG_EXPERTS; e++)
                CHECK(t, rig_holds(&(struct expert_place){
                             .buf = row.buf, .offset = row.offset + e * row.stride, .layer = layer, .expert = e}));
    expert_store_close(life->store);
    rig_close(&life->rig);
}

static void random_lives(struct harness *t)
{
    struct life *life = malloc(sizeof *life);
    const char *one = getenv("MOECHAT_LIFE");
    for (uint64_t seed = 0; life && seed < LIVES; seed++) {
        if (one && seed != strtoull(one, NULL, 10))
            continue;
        int failures = t->failures;
        if (open_life(t, life, seed)) {
            live(t, life);
            end_life(t, life);
        }
        if (t->failures > failures) {
            printf("    MOECHAT_LIFE=%llu says it again, if the readers are as fast\n", (unsigned long long)seed);
            break;
        }
    }
    free(life);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(random_lives)};
    return HARNESS_RUN(tests, argc, argv);
}
