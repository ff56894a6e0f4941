// SPDX-License-Identifier: GPL-3.0-or-later
// The routed experts of a prefill: a group's rows are sorted by expert, and every busy expert is swept over once, by
// ascending id.
#include "engine/walk/ffn.h"
#include "engine/walk/latent.h"

#include <string.h>

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

// A token's rows, which lie apart once they are sorted, from one to the next: sums of several experts are one launch.
static void chain_rows(const struct pass *pass)
{
    struct scratch *scratch = pass->scratch;
    uint32_t count = pass->rows * pass->shape->top_k;
    uint32_t *last = scratch->chain_last;
    for (uint32_t row = 0; row < pass->rows; row++)
        last[row] = NO_PLACE;
    for (uint32_t at = 0; at < count; at++) {
        uint32_t *own = &scratch->expert_chain[2 * (size_t)at], row = (uint32_t)scratch->expert_index[at];
        own[0] = last[row];
        own[1] = NO_PLACE;
        if (own[0] != NO_PLACE)
            scratch->expert_chain[2 * (size_t)own[0] + 1] = at;
        last[row] = at;
    }
}

// Rows of the group in the order of their experts: `n` experts that lie in one buffer, each with its range of them.
struct expert_rows {
    uint32_t n;
    struct expert_place places[MOST_EACH];
    uint32_t first[MOST_EACH], rows[MOST_EACH];
};

// Does the device read the experts' rows by their index? Then it lays all of the group's out, so it should for no less.
static bool reads_by_index(const struct pass *pass, const struct expert_layout *layout, uint32_t rows)
{
    return rows >= pass->rows && gpu_has_swiglu_index(pass->gpu, &layout->gate, &layout->up);
}

// Gathers the experts' rows, no more than the scratch holds, runs each on its own and adds the weighted results to
// their tokens, in the order of the experts: each step is one launch for all.
static void run_expert_rows(const struct pass *pass, const struct expert_rows *experts)
{
    struct scratch *scratch = pass->scratch;
    const struct expert_layout *layout = package_experts(pass->package, experts->places[0].layer);
    uint32_t hidden = shape_expert_size(pass->shape), inner = pass->shape->moe_intermediate_size;
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
                                         .out_offset = args.n_rows * inner,
                                         .limit = pass->shape->swiglu_limit,
                                         .situ_beta = pass->shape->situ_beta};
        down[k] = (struct args_matmul){.matrix = gpu_matrix_behind(&layout->down, place),
                                       .n_rows = experts->rows[k],
                                       .in_stride = inner,
                                       .in_offset = args.n_rows * inner,
                                       .out_stride = hidden,
                                       .out_offset = args.n_rows * hidden};
        args.n_rows += experts->rows[k];
    }
    struct rows x = latent_read(pass);
    if (reads_by_index(pass, layout, args.n_rows)) {
        in = x.buf;
        for (uint32_t k = 0; k < experts->n; k++) {
            swiglu[k].in_offset = experts->first[k];
            swiglu[k].indexed = pass->rows;
        }
    } else {
        gpu_op_gather(pass->gpu, &args, x.buf, scratch->buf[SCRATCH_EXPERT_INDEX], in);
    }
    struct gpu_product_bufs bufs = {matrices, in, act, scratch->buf[SCRATCH_EXPERT_INDEX]};
    gpu_op_swiglu_each(pass->gpu, swiglu, experts->n, &bufs);
    gpu_op_matmul_each(pass->gpu, down, experts->n, &(struct gpu_product_bufs){matrices, act, out, NULL});
    latent_add_rows(pass, &args);
}

// The expert whose turn it is, which is there, and those after it that are there too and whose rows fit beside its own.
static struct expert_rows experts_together(const struct pass *pass)
{
    const uint32_t *first = pass->scratch->expert_first;
    struct expert_rows experts = {.n = 0};
    uint32_t rows = 0;
    const struct expert_place *place;
    while (experts.n < MOST_EACH && (place = sweep_peek(&pass->routed->sweep, experts.n))) {
        uint32_t own = first[place->expert + 1] - first[place->expert];
        if (experts.n > 0 && (place->buf != experts.places[0].buf || rows + own > pass->scratch->expert_rows ||
                              !expert_ready(pass->routed->store, place)))
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
    uint32_t most = pass->scratch->expert_rows;
    for (uint32_t left = experts->rows[0]; experts->n == 1 && left > most; left -= part.rows[0]) {
        part.rows[0] = most;
        run_expert_rows(pass, &part);
        part.first[0] += part.rows[0];
    }
    if (experts->n == 1)
        part.rows[0] = experts->first[0] + experts->rows[0] - part.first[0];
    run_expert_rows(pass, &part);
}

// Gives the device the group's rows by expert.
static void write_rows(const struct pass *pass)
{
    struct scratch *scratch = pass->scratch;
    uint64_t count = (uint64_t)pass->rows * pass->shape->top_k;
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_INDEX], 0, scratch->expert_index,
              count * sizeof *scratch->expert_index);
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_WEIGHT], 0, scratch->expert_weight,
              count * sizeof *scratch->expert_weight);
    gpu_write(pass->gpu, scratch->buf[SCRATCH_EXPERT_CHAIN], 0, scratch->expert_chain,
              2 * count * sizeof *scratch->expert_chain);
}

// The order of the sums follows from the ids alone, so neither the number of slots nor what was in them changes a bit.
int ffn_prefill(const struct pass *pass, uint32_t layer, struct moe_err *err)
{
    struct routed *routed = pass->routed;
    struct stream_reach *reach = &pass->stream->reach;
    struct sweep_layer of = {.layer = layer,
                             .begin = reach->expert,
                             .n_experts = pass->shape->n_routed_experts,
                             .first = pass->scratch->expert_first,
                             .last = layer + 1 == pass->shape->n_layers,
                             .cancelled = observer_cancelled,
                             .context = pass->observer};
    sort_by_expert(pass);
    chain_rows(pass);
    write_rows(pass);
    pass_stage(pass, STAGE_ASK, layer);
    int code = sweep_begin(&routed->sweep, routed->store, &of, err);
    pass_stage(pass, STAGE_EXPERTS, layer);
    const struct expert_place *place;
    while (!code && (place = sweep_next(&routed->sweep))) {
        code = pass_goes_on(pass, err); // experts that are there are not waited for, and still take their time
        if (!code)
            code = expert_wait(routed->store, place, observer_cancelled, pass->observer, err);
        if (code)
            break;
        struct expert_rows experts = experts_together(pass);
        run_experts(pass, &experts);
        reach->expert = experts.places[experts.n - 1].expert + 1;
        for (uint32_t k = 0; k < experts.n && !code; k++) {
            code = sweep_done(&routed->sweep, routed->store, pass->gpu, err);
            pass_used(pass, &(struct telemetry_use){.place = &experts.places[k], .rows = experts.rows[k]});
        }
    }
    return code;
}
