// SPDX-License-Identifier: GPL-3.0-or-later
// The feed-forward half of a layer: a dense MLP, or the router, the shared expert and the routed experts. Those of a
// decoded token, and the two ways to them, are in ffn_decode.c; those of a prefill are here.
#include "engine/walk/ffn.h"

#include <string.h>

#include "engine/base/err.h"

bool ffn_cancelled(void *context)
{
    return atomic_load((const atomic_bool *)context);
}

void ffn_route(const struct pass *pass, const struct routing *to)
{
    const struct shape *s = pass->shape;
    const struct layer_weights *w = to->weights;
    struct rows logits = {to->logits, s->n_routed_experts, 0};
    pass_norm(pass, &(struct normalisation){&w->post_attention_layernorm, pass_stream(pass), to->normed, s->hidden_size,
                                            s->rms_norm_eps});
    pass_project(pass, &(struct projection){&w->router, to->normed, logits, false});
    struct args_router args = {
        .bias = w->router_bias.offset,
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
        .first = to->first,
    };
    struct gpu_router_bufs bufs = {logits.buf, w->router_bias.buf, to->ids, to->chosen_weights};
    gpu_op_router(pass->gpu, &args, &bufs);
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

// Brings ids and weights to the host, and proves that they are what a router can say.
static int read_choice(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    struct scratch *scratch = pass->scratch;
    size_t count = (size_t)pass->rows * s->top_k, at = ffn_choice(pass, layer);
    size_t first = at + (size_t)pass->first * s->top_k;
    int32_t *chosen = scratch->router_ids + first;
    float *weights = scratch->router_weights + first;
    const struct gpu_range choice[] = {
        {scratch->buf[SCRATCH_ROUTER_IDS], at * sizeof *chosen, chosen, count * sizeof *chosen},
        {scratch->buf[SCRATCH_ROUTER_WEIGHTS], at * sizeof *weights, weights, count * sizeof *weights},
    };
    struct gpu_error device;
    telemetry_settle(pass->telemetry, pass->gpu, MOE_ON_ROUTER);
    int failed = gpu_read_ranges(pass->gpu, choice, 2, &device);
    telemetry_switch(pass->telemetry, MOE_ON_HOST);
    if (failed)
        return moe_fail_gpu(err, &device);
    int code = MOE_OK;
    for (uint32_t row = 0; row < pass->rows && !code; row++)
        code = ffn_prove_choice(pass, layer, row, chosen + (size_t)row * s->top_k, err);
    return code;
}

// Sorts the group's rows by expert: expert e's rows and weights are expert_first[e] .. expert_first[e + 1).
static void sort_by_expert(const struct pass *pass)
{
    const struct shape *s = pass->shape;
    struct scratch *scratch = pass->scratch;
    size_t count = (size_t)pass->rows * s->top_k;
    uint32_t *start = scratch->expert_first + 1; // start[e] moves to the end of e while e's rows are filled in
    memset(scratch->expert_first, 0, sizeof *start * ((size_t)s->n_routed_experts + 2));
    for (size_t i = 0; i < count; i++)
        start[scratch->router_ids[i] + 1]++;
    for (uint32_t e = 0; e < s->n_routed_experts; e++)
        start[e + 1] += start[e];
    for (size_t i = 0; i < count; i++) {
        uint32_t at = start[scratch->router_ids[i]]++;
        scratch->expert_index[at] = (int32_t)(i / s->top_k);
        scratch->expert_weight[at] = scratch->router_weights[i];
    }
}

// Rows of the group in the order of their experts: `n` experts that lie in one buffer, each with its range of them.
struct expert_rows {
    uint32_t n;
    struct expert_place places[MOST_EACH];
    uint32_t first[MOST_EACH], rows[MOST_EACH];
};

// Gathers the experts' rows, no more than the scratch holds, runs each on its own and adds the weighted results to
// their tokens: one launch for all, but for the sums, whose order is that of the experts.
static void run_expert_rows(const struct pass *pass, const struct expert_rows *experts)
{
    struct scratch *scratch = pass->scratch;
    const struct expert_layout *layout = package_experts(pass->package, experts->places[0].layer);
    uint32_t hidden = pass->shape->hidden_size, inner = pass->shape->moe_intermediate_size;
    gpu_buf *in = scratch->buf[SCRATCH_EXPERT_IN], *act = scratch->buf[SCRATCH_MLP];
    gpu_buf *out = scratch->buf[SCRATCH_EXPERT_OUT], *matrices = experts->places[0].buf;
    struct args_swiglu swiglu[MOST_EACH];
    struct args_matmul down[MOST_EACH];
    struct args_gather args = {.dim = hidden, .first = experts->first[0]};
    for (uint32_t k = 0; k < experts->n; k++) {
        uint64_t place = experts->places[k].offset;
        swiglu[k] = (struct args_swiglu){.gate = gpu_matrix_behind(&layout->gate, place),
                                         .up = gpu_matrix_behind(&layout->up, place),
                                         .n_rows = experts->rows[k],
                                         .in_stride = hidden,
                                         .in_offset = args.n_rows * hidden,
                                         .out_stride = inner,
                                         .out_offset = args.n_rows * inner};
        down[k] = (struct args_matmul){.matrix = gpu_matrix_behind(&layout->down, place),
                                       .n_rows = experts->rows[k],
                                       .in_stride = inner,
                                       .in_offset = args.n_rows * inner,
                                       .out_stride = hidden,
                                       .out_offset = args.n_rows * hidden};
        args.n_rows += experts->rows[k];
    }
    gpu_op_gather(pass->gpu, &args, scratch->buf[SCRATCH_NORMED], scratch->buf[SCRATCH_EXPERT_INDEX], in);
    gpu_op_swiglu_each(pass->gpu, swiglu, experts->n, &(struct gpu_product_bufs){matrices, in, act});
    gpu_op_matmul_each(pass->gpu, down, experts->n, &(struct gpu_product_bufs){matrices, act, out});
    args.n_rows = 0;
    for (uint32_t k = 0; k < experts->n; k++) {
        args.row += args.n_rows;
        args.first = experts->first[k];
        args.n_rows = experts->rows[k];
        struct gpu_scatter_bufs bufs = {out, scratch->buf[SCRATCH_EXPERT_INDEX], scratch->buf[SCRATCH_EXPERT_WEIGHT],
                                        scratch->buf[SCRATCH_HIDDEN]};
        gpu_op_scatter_add(pass->gpu, &args, &bufs);
    }
}

// The expert whose turn it is, which is there, and those after it that are there too and whose rows fit beside its own.
static struct expert_rows experts_together(const struct pass *pass)
{
    const uint32_t *first = pass->scratch->expert_first;
    struct expert_rows experts = {.n = 0};
    uint32_t rows = 0;
    const struct expert_place *place;
    while (experts.n < MOST_EACH && (place = sweep_peek(pass->sweep, experts.n))) {
        uint32_t own = first[place->expert + 1] - first[place->expert];
        if (experts.n > 0 && (place->buf != experts.places[0].buf || rows + own > pass->scratch->rows ||
                              !expert_ready(pass->store, place)))
            break;
        experts.places[experts.n] = *place;
        experts.first[experts.n] = first[place->expert];
        experts.rows[experts.n++] = own;
        rows += own;
    }
    return experts;
}

// One whose rows are more than the scratch holds goes through them a chunk's worth at a time.
static void run_experts(const struct pass *pass, const struct expert_rows *experts)
{
    struct expert_rows part = *experts;
    for (uint32_t left = experts->rows[0]; experts->n == 1 && left > pass->scratch->rows; left -= part.rows[0]) {
        part.rows[0] = pass->scratch->rows;
        run_expert_rows(pass, &part);
        part.first[0] += part.rows[0];
    }
    if (experts->n == 1)
        part.rows[0] = experts->first[0] + experts->rows[0] - part.first[0];
    run_expert_rows(pass, &part);
}

// A group: every busy expert once, by ascending id. The order of the sums follows from the ids alone, so neither the
// number of slots nor what was in them changes a bit.
static int prefill_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct scratch *scratch = pass->scratch;
    struct sweep_layer of = {.layer = layer,
                             .n_experts = pass->shape->n_routed_experts,
                             .first = scratch->expert_first,
                             .last = layer + 1 == pass->shape->n_layers,
                             .cancelled = ffn_cancelled,
                             .context = (void *)(uintptr_t)pass->cancel};
    sort_by_expert(pass);
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    uint64_t count = (uint64_t)pass->rows * pass->shape->top_k;
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_INDEX], 0, scratch->expert_index,
              count * sizeof *scratch->expert_index);
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_WEIGHT], 0, scratch->expert_weight,
              count * sizeof *scratch->expert_weight);
    const struct expert_place *place;
    int code = sweep_begin(pass->sweep, pass->store, &of, err);
    pass_begins_experts(pass, layer);
    while (!code && (place = sweep_next(pass->sweep))) {
        if (ffn_cancelled(of.context)) // experts that are there are not waited for, and still take their time
            code = moe_fail(err, MOE_CANCELLED, "stopped");
        else
            code = expert_wait(pass->store, place, ffn_cancelled, of.context, err);
        telemetry_waited(pass->telemetry, pass->store, layer);
        if (code)
            break;
        struct expert_rows experts = experts_together(pass);
        for (uint32_t k = 0; k < experts.n; k++)
            telemetry_use(pass->telemetry, &(struct telemetry_use){&experts.places[k], 0, experts.rows[k], 0, 0});
        run_experts(pass, &experts);
        for (uint32_t k = 0; k < experts.n && !code; k++) {
            code = sweep_done(pass->sweep, pass->store, pass->gpu, err);
            pass_did_expert(pass, experts.rows[k]);
        }
    }
    return code;
}

int ffn_begin(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    const struct shape *s = pass->shape;
    const struct layer_weights *w = &pass->weights->layers[layer];
    telemetry_switch(pass->telemetry, MOE_ON_ROUTER);
    if (!shape_is_moe(s, layer)) {
        pass_norm(pass, &(struct normalisation){&w->post_attention_layernorm, pass_stream(pass), pass_normed(pass),
                                                s->hidden_size, s->rms_norm_eps});
        telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
        pass_mlp(pass, w);
        telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
        if (!pass->decode) { // else the host runs ahead by layers, and a cancel comes as late
            telemetry_settle(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
            gpu_fence_wait(pass->gpu, gpu_fence(pass->gpu));
        }
        return MOE_OK;
    }
    gpu_buf *const *buf = pass->scratch->buf;
    ffn_route(pass, &(struct routing){w, pass_normed(pass), buf[SCRATCH_ROUTER_LOGITS], buf[SCRATCH_ROUTER_IDS],
                                      buf[SCRATCH_ROUTER_WEIGHTS], ffn_choice(pass, layer)});
    if (pass->decode && ffn_stays(pass, layer)) {
        telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_ROUTER);
        return MOE_OK;
    }
    int code = read_choice(pass, layer, err);
    if (code || pass->decode || !s->n_shared_experts)
        return code;
    telemetry_switch(pass->telemetry, MOE_ON_EXPERTS);
    pass_mlp(pass, w);
    telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
    return MOE_OK;
}

int ffn_experts(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    int code = MOE_OK;
    if (pass->decode) {
        code = ffn_decode(pass, layer, err);
    } else {
        telemetry_layer_begin(pass->telemetry, layer, pass->store);
        code = prefill_experts(pass, layer, err);
        telemetry_layer_end(pass->telemetry, layer, pass->store);
    }
    telemetry_mark(pass->telemetry, pass->gpu, MOE_ON_EXPERTS);
    return code;
}
