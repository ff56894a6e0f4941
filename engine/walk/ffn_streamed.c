// SPDX-License-Identifier: GPL-3.0-or-later
// The routed experts of a decoded token, streamed: the chosen ids come to the host, which asks the store for their
// slots. A wait for each layer; experts that are there compute while the others are read.
#include "engine/walk/ffn.h"
#include "engine/walk/latent.h"

// Pins the chosen experts, and starts to read those that are missing.
static int ask(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    struct expert_request request = {.layer = layer,
                                     .ids = pass->scratch->router_ids + ffn_choice(pass, layer),
                                     .n = pass->shape->top_k,
                                     .cancelled = observer_cancelled,
                                     .context = pass->observer};
    int code = expert_acquire(routed->store, &request, routed->places, err);
    if (!code)
        prefetch_chosen(&routed->prefetch, layer, request.ids, routed->store);
    return code;
}

// Lets the next layer's router look at the state as it is now, if this predictor wants to know what it says.
static void look_ahead(const struct pass *pass, uint32_t layer, enum moe_prefetch predictor)
{
    struct prefetch_look look;
    if (!prefetch_looks(&pass->routed->prefetch, predictor, layer, &look))
        return;
    struct rows x = {look.normed, pass->shape->hidden_size, 0};
    stream_peek(pass, layer + 1, x);
    ffn_route(pass, &(struct routing){layer + 1, look.logits, look.ids, look.weights, 0}, x);
}

enum shared_when { SHARED_WHILE_READING, SHARED_LAST };

static void add_shared(const struct pass *pass, uint32_t layer, enum shared_when when)
{
    if (pass->shape->n_shared_experts && pass->routed->shared_last == (when == SHARED_LAST))
        ffn_mlp(pass, layer, stream_read_last(pass));
}

static int await_all(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    int code = MOE_OK;
    for (uint32_t k = 0; k < pass->shape->top_k && !code; k++)
        code = expert_wait(routed->store, &routed->places[k], observer_cancelled, pass->observer, err);
    pass_stage(pass, STAGE_EXPERTS, layer); // nobody is to blame for these waits
    return code;
}

// The expert of this rank joins a batch.
static void join(const struct pass *pass, struct args_places *batch, uint32_t rank)
{
    struct routed *routed = pass->routed;
    const struct expert_place *place = &routed->places[rank];
    routed->done[rank] = true;
    batch->place[batch->n] = place->offset;
    batch->rank[batch->n++] = rank;
    pass_used(pass, &(struct telemetry_use){place, rank, 1});
}

// The device waits for the batch's copies, and the host for nothing.
static void follow(const struct pass *pass, const struct args_places *batch)
{
    struct routed *routed = pass->routed;
    uint32_t layer = routed->places[batch->rank[0]].layer;
    pass_stage(pass, STAGE_COPY, layer);
    expert_follow(routed->store, routed->places, batch->rank, batch->n);
    pass_stage(pass, STAGE_EXPERTS, layer);
    routed->followed = true;
}

// Waits for one of those that are left, and takes those with it that are there and lie in the same buffer: those that
// are, while there are such, then those that are being copied, and the device does the waiting. Returns the buffer;
// NULL after failing.
static gpu_buf *next_batch(const struct pass *pass, struct args_places *batch, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    const struct expert_place *places = routed->places;
    uint32_t top_k = pass->shape->top_k;
    struct expert_wait_list list = {places, routed->done, top_k, observer_cancelled, pass->observer, true};
    int first = expert_wait_any(routed->store, &list, err);
    if (first < 0)
        return NULL;
    bool (*joins)(expert_store *, const struct expert_place *) =
        expert_ready(routed->store, &places[first]) ? expert_ready : expert_is_coming;
    join(pass, batch, (uint32_t)first);
    for (uint32_t k = 0; k < top_k && batch->n < routed->most_at_once; k++)
        if (!routed->done[k] && places[k].buf == places[first].buf && joins(routed->store, &places[k]))
            join(pass, batch, k);
    if (joins == expert_is_coming)
        follow(pass, batch);
    return places[first].buf;
}

// Each expert of a token into its partial sum, in the order in which their bytes are there; those that are there
// together in one launch.
static int run_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    uint32_t top_k = pass->shape->top_k, there = 0; // when they were asked for
    for (uint32_t k = 0; k < top_k; k++) {
        enum moe_origin origin = routed->places[k].origin;
        routed->done[k] = false;
        there += origin == MOE_FROM_DEVICE || origin == MOE_FROM_PREFETCH;
    }
    int code = routed->all_first ? await_all(pass, layer, err) : MOE_OK;
    for (uint32_t n = 0; n < top_k && !code;) {
        struct args_places batch = {.n = 0};
        struct moe_err failure;
        if (n >= there) // before the first wait
            code = prefetch_take(&routed->prefetch, routed->store, err);
        if (code)
            break;
        gpu_buf *matrices = next_batch(pass, &batch, &failure);
        if (!matrices) {
            if (err)
                *err = failure;
            return (int)failure.code;
        }
        ffn_run_batch(pass, layer, &batch, matrices);
        n += batch.n;
    }
    return code;
}

// What needs no choice, given to the device while that comes to the host.
static void run_meanwhile(const struct pass *pass, uint32_t layer)
{
    look_ahead(pass, layer, MOE_PREFETCH_ROUTER);
    pass_stage(pass, STAGE_MLP, layer);
    add_shared(pass, layer, SHARED_WHILE_READING);
    look_ahead(pass, layer, MOE_PREFETCH_ROUTER_SHARED);
    prefetch_send(&pass->routed->prefetch);
}

// Whatever came first, the partial sums are added up in the router's rank order.
static int add_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    int code = run_choice(pass, layer, err);
    if (code)
        return code;
    add_shared(pass, layer, SHARED_LAST);
    code = prefetch_take(&routed->prefetch, routed->store, err);
    if (!code)
        latent_add_ranked(pass, layer, ffn_choice(pass, layer));
    return code;
}

// After a failure or a stop some were asked for in vain.
static void let_go(const struct pass *pass, int code)
{
    struct routed *routed = pass->routed;
    if (!code)
        expert_release(routed->store, routed->places, pass->shape->top_k);
    for (uint32_t k = 0; code && k < pass->shape->top_k; k++)
        if (routed->done[k])
            expert_release(routed->store, &routed->places[k], 1);
        else
            expert_drop(routed->store, &routed->places[k]);
}

int ffn_streamed(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    struct ffn_choice_read read;
    ffn_send_choice(pass, layer, &read);
    run_meanwhile(pass, layer);
    prefetch_idle(&routed->prefetch, routed->store); // the device has this layer's first half to do
    int code = ffn_receive_choice(pass, layer, &read, err);
    if (code)
        return code;
    pass_stage(pass, STAGE_ASK, layer);
    code = ask(pass, layer, err);
    if (code)
        return code;
    pass_stage(pass, STAGE_EXPERTS, layer);
    code = add_experts(pass, layer, err);
    let_go(pass, code);
    if (!code)
        code = ring_begin(&routed->ring, pass->gpu, err);
    gpu_flush(pass->gpu);
    ring_trim(&routed->ring, pass->gpu);
    return code;
}
