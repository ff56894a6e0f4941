// SPDX-License-Identifier: GPL-3.0-or-later
// A decoded token's way into its attention over latent rows and out of it, in one launch each where groups can wait for
// each other.
#include "kernels/ops_check.h"

// The keys of each head, where their matrix is turned round.
static struct args_heads keys_of(const struct args_kv_b *a)
{
    uint32_t rank = a->n_heads ? a->kv_b.out_dim / a->n_heads : 0;
    return (struct args_heads){.matrix = a->kv_b,
                               .n_rows = 1,
                               .n_heads = a->n_heads,
                               .n_out = rank,
                               .head_rows = rank,
                               .row_stride = a->q_row_stride,
                               .head_stride = a->q_head_stride,
                               .decode = 1};
}

// What mla_in stands for.
static void in_apart(gpu *g, const struct args_mla_in *a, const struct gpu_mla_in_bufs *b)
{
    bool has_lora = a->q_last.kind != KIND_NONE;
    struct args_norm_matvecs first = {
        .matrix = {a->q_first, a->kv_a}, .norm = a->norm, .n = 2, .eps = a->eps, .plus_one = a->plus_one};
    struct args_norm_matvecs last = {.matrix = {a->q_last}, .norm = a->lora_norm, .n = 1, .eps = a->lora_eps};
    gpu_op_norm_matvecs(g, &first,
                        &(struct gpu_norm_matvecs_bufs){
                            b->norm, b->x, b->normed, {b->q_first, b->kv_a}, {has_lora ? b->lora : b->q, b->kv}});
    if (has_lora)
        gpu_op_norm_matvecs(
            g, &last, &(struct gpu_norm_matvecs_bufs){b->lora_norm, b->lora, b->lora_normed, {b->q_last}, {b->q}});
    gpu_op_kv_append(g, &a->append, &(struct gpu_kv_append_bufs){b->latent_norm, b->inv_freq, b->kv, b->cache, b->q});
    struct args_heads keys = keys_of(&a->absorb);
    if (a->turned)
        gpu_op_heads(g, &keys, b->kv_b, b->q, b->latent);
    else
        gpu_op_q_prime(g, &a->absorb, b->kv_b, b->q, b->latent);
}

static bool in_shapes_fit(const struct args_mla_in *a)
{
    const struct args_kv_append *k = &a->append;
    bool has_lora = a->q_last.kind != KIND_NONE;
    uint32_t q_out = has_lora ? a->q_last.out_dim : a->q_first.out_dim;
    return a->q_first.in_dim == a->kv_a.in_dim && (!has_lora || a->q_last.in_dim == a->q_first.out_dim) &&
           a->kv_a.out_dim == k->kv_lora_rank + k->rope_dim && k->n_rows == 1 && a->absorb.n_rows == 1 &&
           a->absorb.decode && a->absorb.n_heads == k->n_heads &&
           (a->turned ? a->absorb.kv_b.in_dim == a->absorb.qk_nope_head_dim &&
                            a->absorb.kv_b.out_dim == (uint64_t)k->kv_lora_rank * k->n_heads
                      : a->absorb.kv_b.in_dim == k->kv_lora_rank) &&
           q_out == k->q_row_stride && a->absorb.q_row_stride == q_out;
}

static bool in_takes_all(const gpu *g, const struct args_mla_in *a,
                         bool (*takes)(const gpu *g, const struct args_matrix *m))
{
    return takes(g, &a->q_first) && takes(g, &a->kv_a) && takes(g, &a->absorb.kv_b) &&
           (a->q_last.kind == KIND_NONE || takes(g, &a->q_last));
}

// May it be one launch, and of which program? The one of several kinds has keys turned round, the other as kv_b has
// them.
static bool in_is_together(const gpu *g, const struct args_mla_in *a, const struct program **program)
{
    *program = a->turned ? g->token : NULL;
    return g->meeting.groups && a->norm % 16 == 0 && (a->q_last.kind == KIND_NONE || a->lora_norm % 16 == 0) &&
           (a->turned ? g->token && a->absorb.q_head_stride % 4 == 0 && in_takes_all(g, a, op_token_takes_kind)
                      : in_takes_all(g, a, op_token_takes));
}

static bool in_buffers_fit(gpu *g, const struct args_mla_in *a, const struct gpu_mla_in_bufs *b)
{
    static const char op[] = "mla_in";
    bool has_lora = a->q_last.kind != KIND_NONE;
    uint64_t hidden = a->kv_a.in_dim, lora = a->q_last.in_dim;
    const struct gpu_kv_append_bufs append = {b->latent_norm, b->inv_freq, b->kv, b->cache, b->q};
    const struct args_heads keys = keys_of(&a->absorb);
    return op_need_matrix(g, b->q_first, &a->q_first, op) && op_need_matrix(g, b->kv_a, &a->kv_a, op) &&
           op_need(g, op_holds(b->norm, a->norm, 4 * hidden) && op_holds_rows(b->x, 1, 0, 0, hidden), op,
                   "a row or its norm is too short") &&
           (!has_lora ||
            (op_need_matrix(g, b->q_last, &a->q_last, op) &&
             op_need(g, op_holds(b->lora_norm, a->lora_norm, 4 * lora) && op_holds_rows(b->lora, 1, 0, 0, lora), op,
                     "q_lora's row or norm is too short"))) &&
           op_need(g,
                   op_holds_rows(b->q, 1, 0, 0, a->append.q_row_stride) &&
                       op_holds_rows(b->kv, 1, 0, 0, a->kv_a.out_dim),
                   op, "an output is too small") &&
           op_kv_append_fits(g, &a->append, &append) &&
           (a->turned ? op_heads_fit(g, &keys, b->kv_b, b->q, b->latent)
                      : op_q_prime_fits(g, &a->absorb, b->kv_b, b->q, b->latent));
}

void gpu_op_mla_in(gpu *g, const struct args_mla_in *a, const struct gpu_mla_in_bufs *b)
{
    if (gpu_failed(g) || !op_need(g, in_shapes_fit(a), "mla_in", "the matrices do not fit each other"))
        return;
    const struct program *program;
    if (!in_is_together(g, a, &program)) {
        in_apart(g, a, b);
        return;
    }
    if (!in_buffers_fit(g, a, b))
        return;
    struct args_mla_in args = *a;
    bool has_lora = a->q_last.kind != KIND_NONE;
    args.meetings = 0;
    struct launch l = {.kernel = KERNEL_MLA_IN,
                       .program = program,
                       .args = &args,
                       .buffers = {b->norm, has_lora ? b->lora_norm : b->norm, b->latent_norm,
                                   b->inv_freq ? b->inv_freq : b->norm, b->x, b->q_first,
                                   has_lora ? b->q_last : b->q_first, b->kv_a, b->kv_b, has_lora ? b->lora : b->q, b->q,
                                   b->kv, b->cache, b->latent, g->meeting.count}};
    op_token_launch(g, &l, &args.met, has_lora ? 2 : 1);
}

// What mla_out stands for.
static void out_apart(gpu *g, const struct args_mla_out *a, const struct gpu_mla_out_bufs *b)
{
    struct args_matmul o = {.matrix = a->o, .n_rows = 1, .add = 1};
    gpu_op_attention_decode(g, &a->attention, &b->attention);
    gpu_op_heads(g, &a->values, b->values, b->attention.out, b->heads);
    gpu_op_matvec(g, &o, b->o, b->heads, b->out);
}

static bool out_is_together(const gpu *g, const struct args_mla_out *a, const struct program **program)
{
    bool common = op_token_takes(g, &a->values.matrix) && op_token_takes(g, &a->o);
    *program = common ? NULL : g->token;
    return g->meeting.groups &&
           (common || (g->token && op_token_takes_kind(g, &a->values.matrix) && op_token_takes_kind(g, &a->o))) &&
           a->values.head_stride % 4 == 0 && a->values.head_stride == a->attention.kv_lora_rank;
}

static bool out_shapes_fit(const struct args_mla_out *a)
{
    const struct args_heads *v = &a->values;
    return v->n_rows == 1 && v->decode && v->n_heads == a->attention.n_heads &&
           v->matrix.in_dim == a->attention.kv_lora_rank && a->o.in_dim == (uint64_t)v->n_heads * v->n_out &&
           a->attention.n_rows == 1 && a->attention.first_row == 0;
}

void gpu_op_mla_out(gpu *g, const struct args_mla_out *a, const struct gpu_mla_out_bufs *b)
{
    static const char op[] = "mla_out";
    if (gpu_failed(g) || !op_need(g, out_shapes_fit(a), op, "the matrices do not fit each other"))
        return;
    const struct program *program;
    if (!out_is_together(g, a, &program)) {
        out_apart(g, a, b);
        return;
    }
    if (!op_heads_fit(g, &a->values, b->values, b->attention.out, b->heads) || !op_need_matrix(g, b->o, &a->o, op) ||
        !op_need(g, op_holds_rows(b->out, 1, 0, 0, a->o.out_dim), op, "the output is too small"))
        return;
    struct args_mla_out args = *a;
    struct tiling tiling;
    gpu_buf *partials = op_attention_tiles(g, &a->attention, &b->attention, &tiling);
    if (!partials)
        return;
    args.meetings = 0;
    struct launch l = {.kernel = KERNEL_MLA_OUT,
                       .program = program,
                       .args = &args,
                       .tiling = tiling,
                       .buffers = {partials, b->attention.out, b->values, b->heads, b->o, b->out, g->meeting.count}};
    op_token_launch(g, &l, &args.met, 2);
}
