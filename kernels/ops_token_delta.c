// SPDX-License-Identifier: GPL-3.0-or-later
// A decoded token's layer that keeps a state, in one launch where groups can wait for each other.
#include "kernels/ops_check.h"

enum { PRODUCT_QKV, PRODUCT_Z, PRODUCT_BETA, PRODUCT_DECAY, PRODUCTS };

// What it stands for.
static void apart(gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b)
{
    struct args_matmul last = {
        .matrix = a->last, .n_rows = 1, .in_offset = a->token.norm.out_offset, .out_offset = a->in.in_offset, .add = 1};
    gpu_op_norm_matvecs(g, &a->in, &b->in);
    gpu_op_delta_token(g, &a->token, &b->token);
    gpu_op_matvec(g, &last, b->last, b->token.norm.y, b->in.x);
}

// Do the products become the scan's rows?
static bool rows_fit(const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b)
{
    const struct args_norm_matvecs *in = &a->in;
    const struct args_delta *scan = &a->token.scan;
    return in->n == PRODUCTS && b->in.y[PRODUCT_QKV] == b->token.conv.x && b->in.y[PRODUCT_Z] == b->token.norm.gate &&
           b->in.y[PRODUCT_BETA] == b->token.scan.gate && b->in.y[PRODUCT_DECAY] == b->token.scan.gate &&
           in->out_offset[PRODUCT_QKV] == a->token.conv.in_offset &&
           in->out_offset[PRODUCT_Z] == a->token.norm.gate_offset &&
           in->out_offset[PRODUCT_BETA] == scan->beta_offset && in->out_offset[PRODUCT_DECAY] == scan->decay_offset &&
           a->last.out_dim == in->matrix[0].in_dim &&
           a->last.in_dim == (uint64_t)a->token.norm.n_heads * a->token.norm.dim;
}

// May it be one launch, and of which program?
static bool is_together(const gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b,
                        const struct program **program)
{
    bool common = g->meeting.has_states && op_token_takes(g, &a->last);
    bool kinds = g->token && op_token_takes_kind(g, &a->last);
    for (uint32_t k = 0; k < PRODUCTS; k++) {
        const struct args_matrix *m = &a->in.matrix[k];
        common = common && op_token_takes(g, m);
        kinds = kinds && (op_token_takes_kind(g, m) || op_token_takes_plain(m));
    }
    *program = common ? NULL : g->token;
    return g->meeting.groups && (common || kinds) && op_is_delta_token(g, &a->token, &b->token) &&
           a->in.norm % 16 == 0 && a->in.in_offset % 4 == 0 && a->token.norm.out_offset % 4 == 0;
}

void gpu_op_delta_layer(gpu *g, const struct args_delta_layer *a, const struct gpu_delta_layer_bufs *b)
{
    static const char op[] = "delta_layer";
    if (gpu_failed(g) || !op_need(g, rows_fit(a, b), op, "the ops do not fit each other"))
        return;
    const struct program *program;
    if (!is_together(g, a, b, &program)) {
        apart(g, a, b);
        return;
    }
    const struct gpu_delta_token_bufs *t = &b->token;
    if (!op_norm_matvecs_fit(g, &a->in, &b->in) || !op_delta_token_fits(g, &a->token, t) ||
        !op_need_matrix(g, b->last, &a->last, op))
        return;
    struct args_delta_layer args = *a;
    args.meetings = 0;
    struct launch l = {.kernel = KERNEL_DELTA_LAYER,
                       .program = program,
                       .args = &args,
                       .buffers = {b->in.norm,
                                   b->in.x,
                                   b->in.matrix[PRODUCT_QKV],
                                   b->in.matrix[PRODUCT_Z],
                                   b->in.matrix[PRODUCT_BETA],
                                   b->in.matrix[PRODUCT_DECAY],
                                   t->conv.x,
                                   t->norm.gate,
                                   t->scan.gate,
                                   t->conv.weight,
                                   t->scan.rate,
                                   t->scan.dt_bias,
                                   t->norm.weight,
                                   t->conv.from,
                                   t->conv.to,
                                   t->scan.from,
                                   t->scan.to,
                                   t->norm.y,
                                   b->last,
                                   g->meeting.count}};
    op_token_launch(g, &l, &args.met, 2);
}
