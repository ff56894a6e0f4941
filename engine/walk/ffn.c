// SPDX-License-Identifier: GPL-3.0-or-later
// The feed-forward half of a layer up to the routed experts: a dense MLP, or the router and the shared expert. And what
// the ways of the routed ones have in common.
#include "engine/walk/ffn.h"

#include "engine/base/err.h"
#include "engine/walk/latent.h"

static struct projection router_of(const struct pass *pass, const struct routing *to)
{
    struct rows logits = {to->logits, pass->shape->n_routed_experts, 0};
    return (struct projection){.matrix = &pass->weights->layers[to->layer].router, .to = logits};
}

struct args_router ffn_router(const struct pass *pass, uint32_t layer, uint32_t first)
{
    const struct shape *s = pass->shape;
    return (struct args_router){
        .bias = pass->weights->layers[layer].router_bias.offset,
        .n_rows = pass->rows,
        .n_experts = s->n_routed_experts,
        .n_group = s->n_group,
        .topk_group = s->topk_group,
        .top_k = s->top_k,
        .norm_topk_prob = s->norm_topk_prob,
        .scoring = s->scoring,
        .topk_method = s->topk_method,
        .has_bias = s->has_correction_bias,
        .routed_scaling_factor = s->routed_scaling_factor,
        .first = first,
    };
}

// By the logits.
static void choose(const struct pass *pass, const struct routing *to)
{
    struct args_router args = ffn_router(pass, to->layer, to->first);
    gpu_buf *bias = pass->weights->layers[to->layer].router_bias.buf;
    gpu_op_router(pass->gpu, &args, &(struct gpu_router_bufs){to->logits, bias, to->ids, to->weights});
}

void ffn_route(const struct pass *pass, const struct routing *to, struct rows x)
{
    struct projection logits = router_of(pass, to);
    logits.from = x;
    pass_project(pass, &logits);
    choose(pass, to);
}

struct projection ffn_shared_gate(const struct pass *pass, uint32_t layer)
{
    const struct matrix *gate = &pass->weights->layers[layer].shared_gate;
    if (!gate->buf)
        return (struct projection){.matrix = NULL};
    return (struct projection){.matrix = gate, .to = scratch_rows(pass->scratch, SCRATCH_SHARED_GATE, 1)};
}

// act *= sigmoid(gate . x): before the last matrix, which is as good as behind it. act has rows of its stride.
static void gate_shared(const struct pass *pass, uint32_t layer, struct rows x, struct rows act)
{
    struct projection of = ffn_shared_gate(pass, layer);
    struct rows gate = of.to;
    if (!of.matrix)
        return;
    of.from = x;
    if (!pass->decode)
        pass_project(pass, &of);
    struct args_gate_product args = {
        .n_rows = pass->rows,
        .n_heads = 1,
        .dim = act.stride,
        .stride = act.stride,
        .offset = act.offset,
        .gate_stride = gate.stride,
        .gate_head_stride = 1,
        .gate_offset = gate.offset,
        .one_each = 1,
    };
    gpu_op_gate_product(pass->gpu, &args, gate.buf, act.buf);
}

void ffn_mlp(const struct pass *pass, uint32_t layer, struct rows x)
{
    const struct layer_weights *w = &pass->weights->layers[layer];
    struct rows act = scratch_rows(pass->scratch, SCRATCH_MLP, w->gate.at.out_dim);
    struct args_swiglu args = {
        .gate = w->gate.at,
        .up = w->up.at,
        .n_rows = pass->rows,
        .in_stride = x.stride,
        .in_offset = x.offset,
        .out_stride = act.stride,
        .limit = pass->shape->swiglu_limit,
        .situ_beta = pass->shape->situ_beta,
    };
    if (pass->decode)
        gpu_op_swiglu_vec(pass->gpu, &args, w->gate.buf, x.buf, act.buf);
    else
        gpu_op_swiglu_mat(pass->gpu, &args, w->gate.buf, x.buf, act.buf);
    gate_shared(pass, layer, x, act);
    stream_add(pass, &w->down, act);
}

uint32_t ffn_choice(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    return pass->decode ? (layer - s->first_k_dense_replace) * s->top_k : 0;
}

int ffn_prove_choice(const struct pass *pass, uint32_t layer, uint32_t row, const int32_t *ids, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    for (uint32_t k = 0; k < s->top_k; k++) {
        bool fine = ids[k] >= 0 && (uint32_t)ids[k] < s->n_routed_experts;
        for (uint32_t j = 0; j < k; j++)
            fine &= ids[j] != ids[k];
        if (fine)
            continue;
        int code = moe_fail(err, MOE_BAD_NUMBERS,
                            "layer %u chose no proper experts for token %u: its numbers are not finite; "
                            "`moechat info --verify` checks the files, `--device ref` the device",
                            layer, pass->position + row);
        if (err)
            err->layer = (int)layer;
        return code;
    }
    return MOE_OK;
}

static void choice_ranges(const struct pass *pass, uint32_t layer, struct gpu_range ranges[2])
{
    const struct scratch *scratch = pass->scratch;
    uint32_t top_k = pass->shape->top_k;
    size_t count = (size_t)pass->rows * top_k, at = ffn_choice(pass, layer), first = at + (size_t)pass->first * top_k;
    int32_t *chosen = scratch->router_ids + first;
    float *weights = scratch->router_weights + first;
    ranges[0] =
        (struct gpu_range){scratch->buf[SCRATCH_ROUTER_IDS], at * sizeof *chosen, chosen, count * sizeof *chosen};
    ranges[1] = (struct gpu_range){scratch->buf[SCRATCH_ROUTER_WEIGHTS], at * sizeof *weights, weights,
                                   count * sizeof *weights};
}

static int prove_rows(const struct pass *pass, uint32_t layer, const int32_t *chosen, struct moe_err *err)
{
    int code = MOE_OK;
    for (uint32_t row = 0; row < pass->rows && !code; row++)
        code = ffn_prove_choice(pass, layer, row, chosen + (size_t)row * pass->shape->top_k, err);
    return code;
}

int ffn_read_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct gpu_range ranges[2];
    struct gpu_error device;
    choice_ranges(pass, layer, ranges);
    pass_stage(pass, STAGE_WAIT, layer);
    int failed = gpu_read_ranges(pass->gpu, ranges, 2, &device);
    pass_stage(pass, STAGE_HOST, layer);
    return failed ? moe_fail_gpu(err, &device) : prove_rows(pass, layer, ranges[0].target, err);
}

// Ids alone: what they weigh is for telemetry, and comes with the token's logits.
void ffn_send_choice(const struct pass *pass, uint32_t layer, struct ffn_choice_read *read)
{
    struct gpu_range ranges[2];
    choice_ranges(pass, layer, ranges);
    read->ids = ranges[0];
    read->fence = gpu_read_begin(pass->gpu, &read->ids, 1);
}

int ffn_receive_choice(const struct pass *pass, uint32_t layer, const struct ffn_choice_read *read, struct moe_err *err)
{
    struct gpu_error device;
    pass_stage(pass, STAGE_WAIT, layer);
    int failed = gpu_read_end(pass->gpu, &read->ids, 1, read->fence, &device);
    pass_stage(pass, STAGE_HOST, layer);
    if (failed)
        return moe_fail_gpu(err, &device);
    int code = prove_rows(pass, layer, read->ids.target, err);
    if (code && gpu_read_ranges(pass->gpu, &read->ids, 1, &device)) // which asks the device what became of it
        code = moe_fail_gpu(err, &device);
    return code;
}

void ffn_run_batch(const struct pass *pass, uint32_t layer, const struct args_places *batch, gpu_buf *matrices)
{
    const struct shape *s = pass->shape;
    const struct expert_layout *experts = package_experts(pass->package, layer);
    struct rows x = latent_read(pass);
    gpu_buf *const *buf = pass->scratch->buf;
    struct gpu_experts_bufs bufs = {
        .matrices = matrices, .ids = buf[SCRATCH_ROUTER_IDS], .x = x.buf, .y = buf[SCRATCH_MLP]};
    struct args_swiglu_experts in = {
        .gate = experts->gate,
        .up = experts->up,
        .at = *batch,
        .in_offset = x.offset,
        .out_stride = s->moe_intermediate_size,
        .limit = s->swiglu_limit,
        .situ_beta = s->situ_beta,
    };
    struct args_matvec_experts out = {
        .matrix = experts->down,
        .at = *batch,
        .in_stride = s->moe_intermediate_size,
        .out_stride = shape_expert_size(s),
    };
    gpu_op_swiglu_experts(pass->gpu, &in, &bufs);
    bufs.x = buf[SCRATCH_MLP];
    bufs.y = buf[SCRATCH_EXPERT_OUT];
    gpu_op_matvec_experts(pass->gpu, &out, &bufs);
}

static int begin_dense(const struct pass *pass, uint32_t layer)
{
    pass_stage(pass, STAGE_MLP, layer);
    ffn_mlp(pass, layer, stream_in(pass, layer, SITE_FFN));
    if (!pass->decode) { // else the host runs ahead by layers, and a cancel comes as late
        pass_stage(pass, STAGE_WAIT, layer);
        gpu_fence_wait(pass->gpu, gpu_fence(pass->gpu));
    }
    return MOE_OK;
}

int ffn_begin(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    gpu_buf *const *buf = pass->scratch->buf;
    if (!shape_is_moe(pass->shape, layer))
        return begin_dense(pass, layer);
    pass_stage(pass, STAGE_ROUTER, layer);
    if (ffn_resident_routes(pass, layer))
        return MOE_OK;
    struct routing to = {layer, buf[SCRATCH_ROUTER_LOGITS], buf[SCRATCH_ROUTER_IDS], buf[SCRATCH_ROUTER_WEIGHTS],
                         ffn_choice(pass, layer)};
    struct projection beside[2] = {router_of(pass, &to), ffn_shared_gate(pass, layer)};
    struct rows x = stream_project(pass, layer, SITE_FFN, beside, pass->decode && beside[1].matrix ? 2 : 1);
    choose(pass, &to);
    latent_begin(pass, layer, x);
    if (pass->decode)
        return MOE_OK;
    int code = ffn_read_choice(pass, layer, err);
    if (!code && pass->shape->n_shared_experts) {
        pass_stage(pass, STAGE_MLP, layer);
        ffn_mlp(pass, layer, x);
    }
    return code;
}

int ffn_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    int code = MOE_OK;
    if (!pass->decode)
        code = ffn_prefill(pass, layer, err);
    else if (!ffn_resident(pass, layer))
        code = ffn_streamed(pass, layer, err);
    if (!code)
        latent_end(pass, layer);
    return code;
}
