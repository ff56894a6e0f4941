// SPDX-License-Identifier: GPL-3.0-or-later
// Asks for a prefill's experts ahead, in order.
#include "engine/experts/sweep.h"

static bool is_busy(const struct sweep *sweep, uint32_t expert)
{
    return sweep->of.first[expert + 1] > sweep->of.first[expert];
}

static struct expert_place *entry(struct sweep *sweep, uint32_t n)
{
    return &sweep->ring[n % SWEEP_MOST];
}

// Moves on to the next expert that is to be asked for; false when there is none.
static bool advance(struct sweep *sweep)
{
    const struct sweep_layer *of = &sweep->of;
    if (sweep->next.layer == of->layer) {
        while (sweep->next.expert < of->n_experts && !is_busy(sweep, sweep->next.expert))
            sweep->next.expert++;
        if (sweep->next.expert < of->n_experts)
            return true;
        sweep->next.layer++;
        sweep->next.expert = 0;
    }
    return sweep->next_too && sweep->next.expert < of->n_experts;
}

static int ask(struct sweep *sweep, expert_store *store, struct moe_err *err)
{
    int code = MOE_OK;
    while (!code && sweep->asked - sweep->done < sweep->window && advance(sweep)) {
        int32_t id = (int32_t)sweep->next.expert;
        struct expert_request request = {.layer = sweep->next.layer,
                                         .ids = &id,
                                         .n = 1,
                                         .use = CACHE_PREFILL,
                                         .cancelled = sweep->of.cancelled,
                                         .context = sweep->of.context,
                                         .ahead = true};
        code = expert_acquire(store, &request, entry(sweep, sweep->asked), err);
        sweep->asked += !code;
        sweep->next.expert += !code;
    }
    return code;
}

static void drop(struct sweep *sweep, expert_store *store)
{
    expert_drop(store, entry(sweep, sweep->done));
    sweep->done++;
}

// Lets go of what was asked for of this layer in vain.
static void skip_idle(struct sweep *sweep, expert_store *store)
{
    while (sweep->done < sweep->asked && entry(sweep, sweep->done)->layer == sweep->of.layer &&
           !is_busy(sweep, entry(sweep, sweep->done)->expert))
        drop(sweep, store);
}

int sweep_begin(struct sweep *sweep, expert_store *store, const struct sweep_layer *of, struct moe_err *err)
{
    uint32_t slots = expert_least_slots(store), most = expert_store_plan(store).all ? SWEEP_MOST : SWEEP_AHEAD;
    sweep->window = slots < most ? slots : most;
    sweep->behind = most == SWEEP_MOST ? SWEEP_MOST : SWEEP_BEHIND;
    if (sweep->next.layer != of->layer || sweep->done == sweep->asked) {
        sweep_drop(sweep, store);
        sweep->next.layer = of->layer;
        sweep->next.expert = of->begin;
    }
    sweep->of = *of;
    // So many choices that nearly every expert of the next layer will be busy, too.
    sweep->next_too =
        sweep_ahead(sweep) && !of->last && of->first[of->n_experts] >= SWEEP_SURE * (uint64_t)of->n_experts;
    skip_idle(sweep, store);
    return ask(sweep, store, err);
}

const struct expert_place *sweep_next(struct sweep *sweep)
{
    if (sweep->done == sweep->asked || entry(sweep, sweep->done)->layer != sweep->of.layer)
        return NULL;
    return entry(sweep, sweep->done);
}

const struct expert_place *sweep_peek(struct sweep *sweep, uint32_t ahead)
{
    for (uint32_t i = 1; i <= ahead; i++)
        if (sweep->done + i >= sweep->asked || entry(sweep, sweep->done + i)->layer != sweep->of.layer ||
            !is_busy(sweep, entry(sweep, sweep->done + i)->expert))
            return NULL;
    return entry(sweep, sweep->done + ahead);
}

int sweep_done(struct sweep *sweep, expert_store *store, gpu *g, struct moe_err *err)
{
    uint64_t *fence = &sweep->fences[sweep->done % sweep->behind];
    const struct expert_place *place = entry(sweep, sweep->done);
    int32_t id = (int32_t)place->expert;
    struct expert_request used = {.layer = place->layer,
                                  .ids = &id,
                                  .n = 1,
                                  .use = CACHE_PREFILL,
                                  .rows = sweep->of.first[id + 1] - sweep->of.first[id]};
    expert_release(store, place, 1);
    sweep->done++;
    gpu_fence_wait(g, *fence);
    *fence = gpu_fence(g);
    int code = expert_trace(store, &used, err);
    if (code)
        return code;
    skip_idle(sweep, store);
    return ask(sweep, store, err);
}

void sweep_drop(struct sweep *sweep, expert_store *store)
{
    while (sweep->done < sweep->asked)
        drop(sweep, store);
}
