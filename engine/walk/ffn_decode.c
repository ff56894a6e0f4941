// SPDX-License-Identifier: GPL-3.0-or-later
// The experts of one decoded token. Two ways, same bits:
//
// Streamed: the chosen ids come to the host, which asks the store for their slots. A wait for each layer; experts that
// are there compute while the others are read.
//
// Resident: where a layer's experts all have slots that they keep (expert_layer_stays), the ids stay on the device and
// the kernels find the experts by them. No wait: the token's choices come to the host with its logits, are proved
// there, and the store is told of them. Nothing that ops use can be evicted meanwhile, since nothing ever is where
// every expert has a slot; so these layers pin nothing, are in no ring, and may be left standing by a cancel.
#include "engine/walk/ffn.h"

#include <string.h>

#include "engine/base/err.h"

// Lets the next layer's router look at the state as it is now, if this guesser wants to know what it says.
static void look_ahead(const struct pass *pass, uint32_t layer, enum moe_prefetch guesser)
{
    struct prefetch_look look;
    if (!prefetch_looks(pass->prefetch, guesser, layer, &look))
        return;
    ffn_route(pass, &(struct routing){
                        .weights = &pass->weights->layers[layer + 1],
                        .normed = {look.normed, pass->shape->hidden_size, 0},
                        .logits = look.logits,
                        .ids = look.ids,
                        .chosen_weights = look.weights,
                    });
}

// Waits for all of a token's experts.
static int await_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    int code = MOE_OK;
    for (uint32_t k = 0; k < pass->shape->top_k && !code; k++)
        code = expert_wait(pass->store, &pass->scratch->places[k], ffn_cancelled, (void *)(uintptr_t)pass->cancel, err);
    telemetry_waited(pass->telemetry, pass->store, layer);
    return code;
}

// Puts experts that are there and lie in one buffer to work, each into its partial sum.
static void run_batch(const struct pass *pass, uint32_t layer, const struct args_places *batch, gpu_buf *matrices)
{
    const struct shape *s = pass->shape;
    const struct expert_layout *experts = package_experts(pass->package, layer);
    struct rows normed = pass_normed(pass);
    gpu_buf *const *buf = pass->scratch->buf;
    struct gpu_experts_bufs bufs = {matrices, buf[SCRATCH_ROUTER_IDS], normed.buf, buf[SCRATCH_MLP]};
    struct args_swiglu_experts in = {
        .gate = experts->gate,
        .up = experts->up,
        .at = *batch,
        .in_offset = normed.offset,
        .out_stride = s->moe_intermediate_size,
    };
    struct args_matvec_experts out = {
        .matrix = experts->down,
        .at = *batch,
        .in_stride = s->moe_intermediate_size,
        .out_stride = s->hidden_size,
    };
    gpu_op_swiglu_experts(pass->gpu, &in, &bufs);
    bufs.x = buf[SCRATCH_MLP];
    bufs.y = buf[SCRATCH_EXPERT_OUT];
    gpu_op_matvec_experts(pass->gpu, &out, &bufs);
}

// The expert of this rank joins a batch; the step stood still for it so long.
static void join(const struct pass *pass, struct args_places *batch, uint32_t rank, uint64_t waited_ns)
{
    struct scratch *scratch = pass->scratch;
    uint32_t at = ffn_choice(pass, scratch->places[rank].layer);
    struct telemetry_use use = {&scratch->places[rank], rank, 1, scratch->router_weights[at + rank], waited_ns};
    scratch->done[rank] = true;
    batch->place[batch->n] = scratch->places[rank].offset;
    batch->rank[batch->n++] = rank;
    telemetry_use(pass->telemetry, &use);
}

// Each expert of a token into its partial sum, in the order in which their bytes are there; those that are there
// together in one launch.
static int run_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct scratch *scratch = pass->scratch;
    const struct expert_place *places = scratch->places;
    uint32_t top_k = pass->shape->top_k, most = pass->without & MOE_WITHOUT_BATCHES ? 1 : MOST_EXPERTS;
    struct expert_wait_list list = {places, scratch->done, top_k, ffn_cancelled, (void *)(uintptr_t)pass->cancel};
    uint32_t there = 0; // when they were asked for
    for (uint32_t k = 0; k < top_k; k++) {
        scratch->done[k] = false;
        there += places[k].origin == MOE_FROM_DEVICE || places[k].origin == MOE_FROM_PREFETCH;
    }
    for (uint32_t n = 0; n < top_k;) {
        int code = n >= there ? prefetch_take(pass->prefetch, pass->store, err) : MOE_OK; // before the first wait
        if (code)
            return code;
        struct args_places batch = {.n = 0};
        struct moe_err failure;
        int first = expert_wait_any(pass->store, &list, &failure);
        uint64_t waited = telemetry_waited(pass->telemetry, pass->store, layer);
        if (first < 0) {
            if (err)
                *err = failure;
            return (int)failure.code;
        }
        join(pass, &batch, (uint32_t)first, waited);
        for (uint32_t k = 0; k < top_k && batch.n < most; k++)
            if (!scratch->done[k] && places[k].buf == places[first].buf && expert_ready(pass->store, &places[k]))
                join(pass, &batch, k, 0);
        run_batch(pass, layer, &batch, places[first].buf);
        n += batch.n;
    }
    return MOE_OK;
}

// Adds up the partial sums, by rank, and norms the result for whoever comes next.
static void combine(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    gpu_buf *const *buf = pass->scratch->buf;
    struct args_combine args = {.n_partials = s->top_k, .dim = s->hidden_size, .first_weight = ffn_choice(pass, layer)};
    if (!pass_comes_normed(pass, layer + 1)) {
        gpu_op_combine(pass->gpu, &args, buf[SCRATCH_EXPERT_OUT], buf[SCRATCH_ROUTER_WEIGHTS], buf[SCRATCH_HIDDEN]);
        return;
    }
    const struct vector *norm =
        layer + 1 < s->n_layers ? &pass->weights->layers[layer + 1].input_layernorm : &pass->weights->norm;
    struct args_combine_norm both = {.norm = norm->offset,
                                     .n_partials = args.n_partials,
                                     .dim = args.dim,
                                     .first_weight = args.first_weight,
                                     .eps = s->rms_norm_eps};
    struct gpu_combine_bufs bufs = {buf[SCRATCH_EXPERT_OUT], buf[SCRATCH_ROUTER_WEIGHTS], buf[SCRATCH_HIDDEN],
                                    norm->buf, buf[SCRATCH_NORMED]};
    gpu_op_combine_norm(pass->gpu, &both, &bufs);
}

// One token: its top_k experts into partial sums, added up in the router's rank order whatever came first.
static int decode_streamed(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    struct scratch *scratch = pass->scratch;
    const int32_t *ids = scratch->router_ids + ffn_choice(pass, layer);
    struct expert_request request = {.layer = layer,
                                     .ids = ids,
                                     .n = s->top_k,
                                     .cancelled = ffn_cancelled,
                                     .context = (void *)(uintptr_t)pass->cancel};
    int code = expert_acquire(pass->store, &request, scratch->places, err);
    if (code)
        return code;
    telemetry_waited(pass->telemetry, pass->store, layer);
    prefetch_chosen(pass->prefetch, layer, ids, pass->store);
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    look_ahead(pass, layer, MOE_PREFETCH_ROUTER);
    bool shared_first = !(pass->without & MOE_WITHOUT_SHARED_FIRST);
    if (s->n_shared_experts && shared_first)
        pass_mlp(pass, &pass->weights->layers[layer]); // computes while missing experts are read
    look_ahead(pass, layer, MOE_PREFETCH_ROUTER_SHARED);
    prefetch_send(pass->prefetch);
    code = pass->without & MOE_WITHOUT_HITS_FIRST ? await_choice(pass, layer, err) : MOE_OK;
    if (!code)
        code = run_choice(pass, layer, err);
    if (!code && s->n_shared_experts && !shared_first)
        pass_mlp(pass, &pass->weights->layers[layer]);
    if (!code)
        code = prefetch_take(pass->prefetch, pass->store, err);
    if (!code)
        combine(pass, layer);
    expert_release(pass->store, scratch->places, s->top_k);
    if (!code)
        code = ring_begin(pass->ring, pass->gpu, err);
    ring_trim(pass->ring, pass->gpu);
    return code;
}

static bool *stays_of(const struct pass *pass, uint32_t layer)
{
    return &pass->scratch->stays[layer - pass->shape->first_k_dense_replace];
}

bool ffn_stays(const struct pass *pass, uint32_t layer)
{
    return *stays_of(pass, layer);
}

// Guesses would come too late for a layer whose choice stays on the device, and a trace tells of layers in their order:
// where there are such, all layers stay or none.
void ffn_begin_token(const struct pass *pass)
{
    const struct shape *s = pass->shape;
    bool wanted = !(pass->without & (MOE_WITHOUT_RESIDENT | MOE_WITHOUT_BATCHES)) && pass->ring->depth == RING_DEPTH &&
                  !pass->prefetch->on_predictions;
    uint32_t n = 0, n_layers = s->n_layers - s->first_k_dense_replace;
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers; layer++) {
        struct expert_row row;
        n += *stays_of(pass, layer) = wanted && expert_layer_stays(pass->store, layer, &row);
    }
    bool some_may = pass->prefetch->acting == MOE_PREFETCH_OFF && !expert_store_traces(pass->store);
    if (n < n_layers && !some_may)
        memset(pass->scratch->stays, 0, n_layers * sizeof *pass->scratch->stays);
    pass->scratch->untold = false;
    if (n == n_layers || (n && some_may))
        telemetry_look_rarely(pass->telemetry);
}

static void decode_resident(const struct pass *pass, uint32_t layer, const struct expert_row *row)
{
    struct args_places all = {
        .base = row->offset,
        .stride = row->stride,
        .n = pass->shape->top_k,
        .by_id = 1,
        .first_id = ffn_choice(pass, layer),
        .n_experts = pass->shape->n_routed_experts,
    };
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    if (pass->shape->n_shared_experts)
        pass_mlp(pass, &pass->weights->layers[layer]);
    run_batch(pass, layer, &all, row->buf);
    pass->scratch->untold = true;
    combine(pass, layer);
    gpu_flush(pass->gpu); // the device need not wait until the host has given it all layers
}

int ffn_decode(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct expert_row row;
    if (ffn_stays(pass, layer) && expert_layer_stays(pass->store, layer, &row)) {
        decode_resident(pass, layer, &row);
        return MOE_OK;
    }
    telemetry_layer_begin(pass->telemetry, layer, pass->store);
    int code = decode_streamed(pass, layer, err);
    telemetry_layer_end(pass->telemetry, layer, pass->store);
    return code;
}

unsigned ffn_choices(const struct pass *pass, struct gpu_range ranges[2])
{
    const struct scratch *scratch = pass->scratch;
    if (!pass->decode || !scratch->untold)
        return 0;
    uint64_t bytes = sizeof(float) * ffn_choice(pass, pass->shape->n_layers);
    ranges[0] = (struct gpu_range){scratch->buf[SCRATCH_ROUTER_IDS], 0, scratch->router_ids, bytes};
    ranges[1] = (struct gpu_range){scratch->buf[SCRATCH_ROUTER_WEIGHTS], 0, scratch->router_weights, bytes};
    return 2;
}

// Tells the store, the guessers and the record what a layer that stays was used for.
static int tell(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct scratch *scratch = pass->scratch;
    uint32_t at = ffn_choice(pass, layer), top_k = pass->shape->top_k;
    struct expert_request request = {.layer = layer, .ids = scratch->router_ids + at, .n = top_k};
    telemetry_layer_begin(pass->telemetry, layer, pass->store);
    int code = expert_note_uses(pass->store, &request, scratch->places, err);
    if (code)
        return code;
    prefetch_chosen(pass->prefetch, layer, request.ids, pass->store);
    for (uint32_t k = 0; k < top_k; k++)
        telemetry_use(pass->telemetry,
                      &(struct telemetry_use){&scratch->places[k], k, 1, scratch->router_weights[at + k], 0});
    telemetry_layer_end(pass->telemetry, layer, pass->store);
    return MOE_OK;
}

int ffn_take_choices(const struct pass *pass, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    int code = MOE_OK;
    if (!pass->decode || !pass->scratch->untold)
        return MOE_OK;
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers && !code; layer++)
        if (ffn_stays(pass, layer))
            code = ffn_prove_choice(pass, layer, 0, pass->scratch->router_ids + ffn_choice(pass, layer), err);
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers && !code; layer++)
        if (ffn_stays(pass, layer))
            code = tell(pass, layer, err);
    pass->scratch->untold = false;
    return code;
}
