// SPDX-License-Identifier: GPL-3.0-or-later
// Ops that look at each number by itself, norms and the router: checks, then the launch or ref.c.
#include <string.h>

#include "kernels/ops_check.h"
#include "kernels/ref.h"

void gpu_op_embed(gpu *g, const struct args_embed *a, gpu_buf *table, gpu_buf *ids, gpu_buf *out)
{
    const struct args_matrix *m = &a->table;
    if (gpu_failed(g) || a->n_rows == 0 || !op_need_matrix(g, table, m, "embed") ||
        !op_need(g, op_holds_rows(ids, a->n_rows, 1, 0, 1), "embed", "too few ids") ||
        !op_need(g, op_holds_rows(out, a->n_rows, m->in_dim, 0, m->in_dim), "embed", "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_embed(a, table->host, ids->host, out->host));
        return;
    }
    const struct program *program = op_program(g, m);
    uint32_t together = program ? (g->cpu_shape ? 16 : 8) : m->kind == KIND_MLX_4 ? 8 : m->kind == KIND_MLX_8 ? 4 : 1;
    launch(g, &(struct launch){.kernel = KERNEL_EMBED,
                               .program = program,
                               .args = a,
                               .buffers = {table, ids, out},
                               .groups = {ceil_div(m->in_dim / together, ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_rmsnorm(gpu *g, const struct args_rmsnorm *a, gpu_buf *weight, gpu_buf *x, gpu_buf *y)
{
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, a->dim > 0 && op_holds_vector(weight, a->weight, a->dim), "rmsnorm",
                 "the weight lies outside its buffer") ||
        !op_need(g, op_holds_rows(x, a->n_rows, a->in_stride, a->in_offset, a->dim), "rmsnorm",
                 "the input is too small") ||
        !op_need(g, op_holds_rows(y, a->n_rows, a->out_stride, a->out_offset, a->dim), "rmsnorm",
                 "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_rmsnorm(a, weight->host, x->host, y->host));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_RMSNORM, .args = a, .buffers = {weight, x, y}, .groups = {a->n_rows}});
}

void gpu_op_rope(gpu *g, const struct args_rope *a, gpu_buf *inv_freq, gpu_buf *x)
{
    if (gpu_failed(g) || a->n_rows == 0 || a->n_heads == 0 ||
        !op_need(g, a->rope_dim > 0 && a->rope_dim % 2 == 0 && op_holds(inv_freq, 0, 2 * (uint64_t)a->rope_dim), "rope",
                 "inv_freq is too small or rope_dim odd") ||
        !op_need(g, a->head_stride >= a->rope_dim || a->n_heads == 1, "rope", "heads overlap") ||
        !op_need(g,
                 op_holds_rows(x, a->n_rows, a->row_stride, a->offset,
                               (uint64_t)(a->n_heads - 1) * a->head_stride + a->rope_dim),
                 "rope", "the rows are too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_rope(a, inv_freq->host, x->host));
        return;
    }
    // Heads that share a cosine; of one row they had better be turned side by side on a GPU.
    uint32_t heads = !g->cpu_shape && a->n_rows == 1 ? 1 : 16;
    launch(g, &(struct launch){.kernel = KERNEL_ROPE,
                               .args = a,
                               .tiling = {.rows_per_group = heads},
                               .buffers = {inv_freq, x},
                               .groups = {ceil_div(a->rope_dim / 2, 32), a->n_rows, ceil_div(a->n_heads, heads)}});
}

bool op_kv_append_fits(gpu *g, const struct args_kv_append *a, const struct gpu_kv_append_bufs *b)
{
    uint64_t element = a->kv_type == KV_F16 ? 2 : 4, width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    bool turns_q = a->n_heads > 0 && !a->no_rope;
    return op_need(g, a->kv_lora_rank > 0 && a->kv_type <= KV_F16, "kv_append", "no such cache") &&
           op_need(g, op_holds_vector(b->norm, a->norm, a->kv_lora_rank), "kv_append",
                   "the norm's weight lies outside its buffer") &&
           op_need(g,
                   a->no_rope ||
                       (a->rope_dim > 0 && a->rope_dim % 2 == 0 && op_holds(b->inv_freq, 0, 2 * (uint64_t)a->rope_dim)),
                   "kv_append", "inv_freq is too small or rope_dim odd") &&
           op_need(g, op_holds_rows(b->x, a->n_rows, a->in_stride, 0, width), "kv_append", "the input is too small") &&
           op_need(g, op_holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * width * element), "kv_append",
                   "the cache is full") &&
           op_need(g, a->n_heads < 2 || a->q_head_stride >= a->rope_dim, "kv_append", "heads of q overlap") &&
           op_need(g,
                   !turns_q ||
                       (b->q != b->x && op_holds_rows(b->q, a->n_rows, a->q_row_stride, a->q_offset,
                                                      (uint64_t)(a->n_heads - 1) * a->q_head_stride + a->rope_dim)),
                   "kv_append", "q is too small, or x");
}

void gpu_op_kv_append(gpu *g, const struct args_kv_append *a, const struct gpu_kv_append_bufs *b)
{
    bool turns_q = a->n_heads > 0 && !a->no_rope;
    if (gpu_failed(g) || a->n_rows == 0 || !op_kv_append_fits(g, a, b))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_kv_append(a, b));
        return;
    }
    size_t groups = g->cpu_shape || !turns_q ? 1 : 1 + ceil_div(a->n_heads, TURNED_HEADS);
    launch(g, &(struct launch){
                  .kernel = KERNEL_KV_APPEND,
                  .args = a,
                  .buffers = {b->norm, a->no_rope ? b->norm : b->inv_freq, b->x, b->cache, turns_q ? b->q : b->x},
                  .groups = {groups, a->n_rows}});
}

void gpu_op_gather(gpu *g, const struct args_gather *a, gpu_buf *x, gpu_buf *index, gpu_buf *out)
{
    if (gpu_failed(g) || a->n_rows == 0 || a->dim == 0 ||
        !op_need(g, op_holds_rows(x, 1, 0, 0, a->dim), "gather", "the input is too small") ||
        !op_need(g, op_holds_rows(index, a->n_rows, 1, a->first, 1), "gather", "too few indices") ||
        !op_need(g, op_holds_rows(out, a->n_rows, a->dim, 0, a->dim), "gather", "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_gather(a, x->host, index->host, out->host));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_GATHER,
                               .args = a,
                               .buffers = {x, index, out},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_scatter_add(gpu *g, const struct args_gather *a, const struct gpu_scatter_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || a->dim == 0 ||
        !op_need(g, op_holds_rows(b->y, a->n_rows, a->dim, (uint64_t)a->row * a->dim, a->dim), "scatter_add",
                 "the input is too small") ||
        !op_need(g, op_holds_rows(b->index, a->n_rows, 1, a->first, 1), "scatter_add", "too few indices") ||
        !op_need(g, op_holds_rows(b->weight, a->n_rows, 1, a->first, 1), "scatter_add", "too few weights") ||
        !op_need(g, op_holds_rows(b->chain, a->n_rows, 2, 2 * (uint64_t)a->first, 2), "scatter_add",
                 "the chain is too short") ||
        !op_need(g, op_holds_rows(b->out, 1, 0, 0, a->dim), "scatter_add", "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_scatter_add(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_SCATTER_ADD,
                               .args = a,
                               .buffers = {b->y, b->index, b->weight, b->chain, b->out},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_combine(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight, gpu_buf *out)
{
    if (gpu_failed(g) || a->n_partials == 0 || a->dim == 0 ||
        !op_need(g, op_holds_rows(partial, a->n_partials, a->dim, 0, a->dim), "combine", "too few partial sums") ||
        !op_need(g, op_holds_rows(weight, a->n_partials, 1, a->first_weight, 1), "combine", "too few weights") ||
        !op_need(g, op_holds_rows(out, 1, 0, 0, a->dim), "combine", "the output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_combine(a, partial->host, weight->host, out->host));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_COMBINE,
                               .args = a,
                               .buffers = {partial, weight, out},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP)}});
}

void gpu_op_combine_norm(gpu *g, const struct args_combine_norm *a, const struct gpu_combine_bufs *b)
{
    if (gpu_failed(g) || a->n_partials == 0 || a->dim == 0 ||
        !op_need(g, op_holds_vector(b->norm, a->norm, a->dim), "combine_norm",
                 "the norm's weight lies outside its buffer") ||
        !op_need(g, op_holds_rows(b->partial, a->n_partials, a->dim, 0, a->dim), "combine_norm",
                 "too few partial sums") ||
        !op_need(g, op_holds_rows(b->weight, a->n_partials, 1, a->first_weight, 1), "combine_norm",
                 "too few weights") ||
        !op_need(g, op_holds_rows(b->out, 1, 0, 0, a->dim) && op_holds_rows(b->y, 1, 0, 0, a->dim), "combine_norm",
                 "an output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_combine_norm(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_COMBINE_NORM,
                               .args = a,
                               .buffers = {b->norm, b->partial, b->weight, b->out, b->y},
                               .groups = {1}});
}

void gpu_op_clear(gpu *g, const struct args_clear *a, gpu_buf *y)
{
    if (gpu_failed(g) || a->n == 0 ||
        !op_need(g, a->n <= UINT32_MAX && a->first <= UINT32_MAX && op_holds(y, 4 * a->first, 4 * a->n), "clear",
                 "the buffer is too small"))
        return;
    if (op_is_ref(g)) {
        memset((float *)y->host + a->first, 0, 4 * a->n);
        op_done_by_ref(g, GPU_OK);
        return;
    }
    size_t groups = ceil_div(a->n, ELEMENTS_GROUP);
    launch(g, &(struct launch){
                  .kernel = KERNEL_CLEAR, .args = a, .buffers = {y}, .groups = {groups < 65535 ? groups : 65535}});
}

void gpu_op_copy(gpu *g, const struct args_copy *a, gpu_buf *src, gpu_buf *dst)
{
    if (gpu_failed(g) || a->bytes == 0 || !op_need(g, a->bytes % 64 == 0, "copy", "bytes must be a multiple of 64") ||
        !op_need(g, op_holds(src, 0, a->bytes) && op_holds(dst, 0, a->bytes), "copy", "a buffer is too small"))
        return;
    if (op_is_ref(g)) {
        memcpy(dst->host, src->host, a->bytes);
        op_done_by_ref(g, GPU_OK);
        return;
    }
    size_t groups = ceil_div(a->bytes, COPY_GROUP_BYTES);
    launch(g,
           &(struct launch){
               .kernel = KERNEL_COPY, .args = a, .buffers = {src, dst}, .groups = {groups < 65535 ? groups : 65535}});
}

void gpu_op_router(gpu *g, const struct args_router *a, const struct gpu_router_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, op_router_fits(a), "router",
                 "no such router, or experts, groups and top_k do not fit each other") ||
        !op_need(g, !a->has_bias || op_holds_vector(b->bias, a->bias, a->n_experts), "router",
                 "the bias lies outside its buffer") ||
        !op_need(g, op_holds_rows(b->logits, a->n_rows, a->n_experts, 0, a->n_experts), "router", "too few logits") ||
        !op_need(g,
                 op_holds_rows(b->ids, a->n_rows, a->top_k, a->first, a->top_k) &&
                     op_holds_rows(b->weights, a->n_rows, a->top_k, a->first, a->top_k),
                 "router", "an output is too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_router(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_ROUTER,
                               .args = a,
                               .buffers = {b->logits, a->has_bias ? b->bias : b->logits, b->ids, b->weights},
                               .groups = {a->n_rows}});
}
