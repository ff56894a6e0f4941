// SPDX-License-Identifier: GPL-3.0-or-later
// The routed experts of a decoded token, resident: where a layer's experts all have slots that they keep
// (expert_layer_stays), the ids stay on the device and the kernels find the experts by them. No wait: the token's
// choices come to the host with its logits, are proved there, and the store is told of them. Nothing that ops use can
// be evicted meanwhile, since nothing ever is where every expert has a slot; so these layers pin nothing, are in no
// ring, and may be left standing by a cancel. The same bits as the streamed way's.
#include "engine/walk/ffn.h"
#include "engine/walk/latent.h"

#include <string.h>

static bool *stays_of(const struct pass *pass, uint32_t layer)
{
    return &pass->routed->stays[layer - pass->shape->first_k_dense_replace];
}

// Predictions would come too late for a layer whose choice stays on the device, and a trace tells of layers in their
// order: where there are such, all layers stay or none.
void ffn_begin_token(const struct pass *pass)
{
    const struct shape *s = pass->shape;
    struct routed *routed = pass->routed;
    uint32_t n = 0, n_layers = s->n_layers - s->first_k_dense_replace;
    for (uint32_t layer = s->first_k_dense_replace; layer < s->n_layers; layer++) {
        struct expert_row row;
        n += *stays_of(pass, layer) = routed->may_stay && expert_layer_stays(routed->store, layer, &row);
    }
    bool some_may = routed->prefetch.acting == MOE_PREFETCH_OFF && !expert_store_traces(routed->store);
    if (n < n_layers && !some_may)
        memset(routed->stays, 0, n_layers * sizeof *routed->stays);
    routed->untold = routed->followed = false;
    prefetch_begin_token(&routed->prefetch);
    pass_runs_ahead(pass);
}

// Op by op, as the streamed way has it.
static void run_apart(const struct pass *pass, uint32_t layer, const struct args_places *all, gpu_buf *matrices)
{
    if (pass->shape->n_shared_experts)
        ffn_mlp(pass, layer, stream_read_last(pass));
    ffn_run_batch(pass, layer, all, matrices);
    latent_add_ranked(pass, layer, ffn_choice(pass, layer));
}

// All of them, the shared one too, which reads what they read, in two launches.
static void run_together(const struct pass *pass, uint32_t layer, const struct args_places *all, gpu_buf *matrices)
{
    const struct shape *s = pass->shape;
    const struct layer_weights *w = &pass->weights->layers[layer];
    const struct expert_layout *experts = package_experts(pass->package, layer);
    uint32_t inner = s->moe_intermediate_size;
    gpu_buf *act = pass->scratch->buf[SCRATCH_MLP], *ids = pass->scratch->buf[SCRATCH_ROUTER_IDS];
    struct rows x = stream_read_last(pass);
    struct args_swiglu_experts in = {
        .gate = experts->gate,
        .up = experts->up,
        .at = *all,
        .in_offset = x.offset,
        .out_stride = inner,
        .shared_offset = s->top_k * inner,
        .limit = s->swiglu_limit,
        .situ_beta = s->situ_beta,
    };
    struct args_add_experts out = {
        .matrix = experts->down,
        .at = *all,
        .in_stride = inner,
        .shared_offset = in.shared_offset,
        .first_weight = ffn_choice(pass, layer),
    };
    struct projection gate = ffn_shared_gate(pass, layer);
    if (s->n_shared_experts) {
        in.shared_gate = w->gate.at;
        in.shared_up = w->up.at;
        in.is_gated = gate.matrix != NULL;
        out.shared = w->down.at;
    }
    struct gpu_experts_bufs bufs = {matrices, ids, x.buf, act, w->gate.buf, gate.to.buf};
    gpu_op_swiglu_experts(pass->gpu, &in, &bufs);
    stream_add_experts(pass, &out, &(struct gpu_experts_bufs){matrices, ids, act, NULL, w->down.buf, NULL});
}

// From the norm on, in as few launches as the device allows.
static void run_whole(const struct pass *pass, uint32_t layer, const struct expert_row *row)
{
    const struct shape *s = pass->shape;
    const struct layer_weights *w = &pass->weights->layers[layer];
    const struct expert_layout *experts = package_experts(pass->package, layer);
    gpu_buf *const *buf = pass->scratch->buf;
    const struct vector *norm = &w->post_attention_layernorm;
    struct rows normed = stream_read_last(pass);
    struct args_moe_token args = {
        .router = w->router.at,
        .gate = experts->gate,
        .up = experts->up,
        .down = experts->down,
        .choice = ffn_router(pass, layer, ffn_choice(pass, layer)),
        .norm = norm->offset,
        .base = row->offset,
        .stride = row->stride,
        .shared_offset = s->top_k * s->moe_intermediate_size,
        .eps = s->rms_norm_eps,
        .limit = s->swiglu_limit,
        .situ_beta = s->situ_beta,
    };
    struct gpu_moe_token_bufs bufs = {
        .norm = norm->buf,
        .router = w->router.buf,
        .bias = w->router_bias.buf,
        .experts = row->buf,
        .logits = buf[SCRATCH_ROUTER_LOGITS],
        .ids = buf[SCRATCH_ROUTER_IDS],
        .weights = buf[SCRATCH_ROUTER_WEIGHTS],
        .act = buf[SCRATCH_MLP],
        .partial = buf[SCRATCH_EXPERT_OUT],
        .normed = normed.buf,
        .out = pass->stream->hidden,
    };
    if (s->n_shared_experts) {
        args.shared_gate = w->gate.at;
        args.shared_up = w->up.at;
        args.shared_down = w->down.at;
        bufs.shared = w->gate.buf;
        bufs.shared_down = w->down.buf;
    }
    struct projection factor = ffn_shared_gate(pass, layer);
    if (factor.matrix) {
        args.shared_factor = factor.matrix->at;
        bufs.shared_factor = factor.matrix->buf;
        bufs.factor = factor.to.buf;
    }
    gpu_op_moe_token(pass->gpu, &args, &bufs);
}

bool ffn_resident_routes(const struct pass *pass, uint32_t layer)
{
    struct expert_row row;
    return pass->decode && stream_is_simple(pass) && !pass->shape->latent_size && *stays_of(pass, layer) &&
           expert_layer_stays(pass->routed->store, layer, &row);
}

bool ffn_resident(const struct pass *pass, uint32_t layer)
{
    struct routed *routed = pass->routed;
    struct expert_row row;
    if (!*stays_of(pass, layer))
        return false;
    bool routes = ffn_resident_routes(pass, layer);
    if (!expert_layer_stays(routed->store, layer, &row))
        return *stays_of(pass, layer) = false;
    struct args_places all = {
        .base = row.offset,
        .stride = row.stride,
        .n = pass->shape->top_k,
        .by_id = 1,
        .first_id = ffn_choice(pass, layer),
        .n_experts = pass->shape->n_routed_experts,
    };
    pass_stage(pass, STAGE_EXPERTS, layer);
    if (routes)
        run_whole(pass, layer, &row);
    else
        (pass->stream->unfused || pass->shape->latent_size ? run_apart : run_together)(pass, layer, &all, row.buf);
    routed->untold = true;
    gpu_flush(pass->gpu); // the device need not wait until the host has given it all layers
    return true;
}

unsigned ffn_choices(const struct pass *pass, struct gpu_range ranges[2])
{
    const struct scratch *scratch = pass->scratch;
    if (!pass->decode || pass->shape->n_layers == pass->shape->first_k_dense_replace)
        return 0;
    uint64_t bytes = sizeof(float) * ffn_choice(pass, pass->shape->n_layers);
    ranges[0] = (struct gpu_range){scratch->buf[SCRATCH_ROUTER_WEIGHTS], 0, scratch->router_weights, bytes};
    ranges[1] = (struct gpu_range){scratch->buf[SCRATCH_ROUTER_IDS], 0, scratch->router_ids, bytes};
    return pass->routed->untold ? 2 : 1;
}

// Tells the store, the predictors and the record what a layer that stays was used for.
static int tell(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    uint32_t at = ffn_choice(pass, layer), top_k = pass->shape->top_k;
    struct expert_request request = {.layer = layer, .ids = pass->scratch->router_ids + at, .n = top_k};
    pass_stage(pass, STAGE_ASK, layer);
    int code = expert_note_uses(routed->store, &request, routed->places, err);
    if (code)
        return code;
    prefetch_chosen(&routed->prefetch, layer, request.ids, routed->store);
    for (uint32_t k = 0; k < top_k; k++)
        pass_used(pass, &(struct telemetry_use){&routed->places[k], k, 1});
    return MOE_OK;
}

int ffn_take_choices(const struct pass *pass, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    int code = MOE_OK;
    if (!pass->decode || s->n_layers == s->first_k_dense_replace)
        return MOE_OK;
    bool untold = pass->routed->untold;
    for (uint32_t layer = s->first_k_dense_replace; untold && layer < s->n_layers && !code; layer++)
        if (*stays_of(pass, layer))
            code = ffn_prove_choice(pass, layer, 0, pass->scratch->router_ids + ffn_choice(pass, layer), err);
    for (uint32_t layer = s->first_k_dense_replace; untold && layer < s->n_layers && !code; layer++)
        if (*stays_of(pass, layer))
            code = tell(pass, layer, err);
    pass->routed->untold = false;
    if (!code)
        pass_weighed(pass, pass->scratch->router_weights);
    return code;
}
