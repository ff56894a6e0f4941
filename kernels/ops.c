// SPDX-License-Identifier: GPL-3.0-or-later
// The ops of gpu.h: check shapes against buffers, then launch the kernels of the device's shape, or call ref.c.
#include "kernels/device.h"

#include <string.h>

#include "kernels/ref.h"

// ---- checks: a caller's error becomes the sticky GPU_ARGUMENT and nothing is launched

static bool need(gpu *g, bool good, const char *op, const char *what)
{
    if (!good)
        gpu_fail(g, GPU_ARGUMENT, 0, "op %s: %s", op, what);
    return good;
}

static bool holds(const gpu_buf *buf, uint64_t offset, uint64_t bytes)
{
    return buf && offset <= buf->bytes && bytes <= buf->bytes - offset;
}

// Rows of `width` floats (or ids), `stride` apart. 32-bit factors: no product overflows 64 bits.
static bool holds_rows(const gpu_buf *buf, uint64_t n_rows, uint64_t stride, uint64_t offset, uint64_t width)
{
    return holds(buf, 0, 4 * ((n_rows - 1) * stride + offset + width)) && (n_rows == 1 || stride >= width);
}

static bool holds_matrix(const gpu_buf *buf, const struct args_matrix *m)
{
    if (!matrix_is_shaped(m) || m->weight % 4)
        return false;
    uint64_t rows = m->out_dim, scales = matrix_scale_bytes(m), biases = matrix_bias_bytes(m);
    return holds(buf, m->weight, rows * matrix_row_bytes(m)) &&
           (!scales || (m->scales % 4 == 0 && holds(buf, m->scales, rows * scales))) &&
           (!biases || (m->biases % 4 == 0 && holds(buf, m->biases, rows * biases)));
}

// May an op use the matrix?
static bool need_matrix(gpu *g, const gpu_buf *buf, const struct args_matrix *m, const char *op)
{
    const struct kind_info *info = kind_info(m->kind);
    if (info && !(info->computable && (info->scales != SCALES_AFFINE || m->scale_type == SCALE_BF16))) {
        gpu_fail(g, GPU_ARGUMENT, 0, "op %s: there are no kernels for a matrix of kind %s", op, info->name);
        return false;
    }
    return need(g, holds_matrix(buf, m), op, "a matrix has no valid shape or lies outside its buffer");
}

static uint32_t inputs_per_word(const struct args_matrix *m) // as in quant.cl
{
    return m->kind == KIND_MLX_4 ? 8 : m->kind == KIND_MLX_8 ? 4 : 1;
}

static bool same_shape(const struct args_matrix *a, const struct args_matrix *b)
{
    return a->in_dim == b->in_dim && a->out_dim == b->out_dim && a->kind == b->kind && a->group_size == b->group_size &&
           a->scale_type == b->scale_type;
}

static bool is_ref(const gpu *g)
{
    return g->info.kind == GPU_KIND_REF;
}

static void ref_done(gpu *g, int code)
{
    g->counts.launches++;
    g->fenced = false;
    if (code)
        gpu_fail(g, (enum gpu_code)code, 0, "no memory for a row of scratch");
}

static size_t ceil_div(uint64_t a, uint64_t b)
{
    return (size_t)((a + b - 1) / b);
}

// ---- element-wise ops, norm, router

void gpu_op_embed(gpu *g, const struct args_embed *a, gpu_buf *table, gpu_buf *ids, gpu_buf *out)
{
    const struct args_matrix *m = &a->table;
    if (gpu_failed(g) || a->n_rows == 0 || !need_matrix(g, table, m, "embed") ||
        !need(g, holds_rows(ids, a->n_rows, 1, 0, 1), "embed", "too few ids") ||
        !need(g, holds_rows(out, a->n_rows, m->in_dim, 0, m->in_dim), "embed", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_embed(a, table->host, ids->host, out->host));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_EMBED,
                               .args = a,
                               .buffers = {table, ids, out},
                               .groups = {ceil_div(m->in_dim / inputs_per_word(m), ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_rmsnorm(gpu *g, const struct args_rmsnorm *a, gpu_buf *weight, gpu_buf *x, gpu_buf *y)
{
    if (gpu_failed(g) || a->n_rows == 0 ||
        !need(g, a->dim > 0 && a->weight % 4 == 0 && holds(weight, a->weight, 4 * (uint64_t)a->dim), "rmsnorm",
              "the weight lies outside its buffer") ||
        !need(g, holds_rows(x, a->n_rows, a->in_stride, a->in_offset, a->dim), "rmsnorm", "the input is too small") ||
        !need(g, holds_rows(y, a->n_rows, a->out_stride, a->out_offset, a->dim), "rmsnorm", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_rmsnorm(a, weight->host, x->host, y->host));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_RMSNORM, .args = a, .buffers = {weight, x, y}, .groups = {a->n_rows}});
}

void gpu_op_rope(gpu *g, const struct args_rope *a, gpu_buf *inv_freq, gpu_buf *x)
{
    if (gpu_failed(g) || a->n_rows == 0 || a->n_heads == 0 ||
        !need(g, a->rope_dim > 0 && a->rope_dim % 2 == 0 && holds(inv_freq, 0, 2 * (uint64_t)a->rope_dim), "rope",
              "inv_freq is too small or rope_dim odd") ||
        !need(g, a->head_stride >= a->rope_dim || a->n_heads == 1, "rope", "heads overlap") ||
        !need(g,
              holds_rows(x, a->n_rows, a->row_stride, a->offset,
                         (uint64_t)(a->n_heads - 1) * a->head_stride + a->rope_dim),
              "rope", "the rows are too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_rope(a, inv_freq->host, x->host));
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

void gpu_op_kv_append(gpu *g, const struct args_kv_append *a, const struct gpu_kv_append_bufs *b)
{
    uint64_t element = a->kv_type == KV_F16 ? 2 : 4, width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    if (gpu_failed(g) || a->n_rows == 0 ||
        !need(g, a->kv_lora_rank > 0 && a->kv_type <= KV_F16, "kv_append", "no such cache") ||
        !need(g, a->norm % 4 == 0 && holds(b->norm, a->norm, 4 * (uint64_t)a->kv_lora_rank), "kv_append",
              "the norm's weight lies outside its buffer") ||
        !need(g, a->rope_dim > 0 && a->rope_dim % 2 == 0 && holds(b->inv_freq, 0, 2 * (uint64_t)a->rope_dim),
              "kv_append", "inv_freq is too small or rope_dim odd") ||
        !need(g, holds_rows(b->x, a->n_rows, a->in_stride, 0, width), "kv_append", "the input is too small") ||
        !need(g, holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * width * element), "kv_append",
              "the cache is full"))
        return;
    if (is_ref(g)) {
        struct ref_kv_append_bufs r = {b->norm->host, b->inv_freq->host, b->x->host, b->cache->host};
        ref_done(g, ref_kv_append(a, &r));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_KV_APPEND,
                               .args = a,
                               .buffers = {b->norm, b->inv_freq, b->x, b->cache},
                               .groups = {a->n_rows}});
}

void gpu_op_gather(gpu *g, const struct args_gather *a, gpu_buf *x, gpu_buf *index, gpu_buf *out)
{
    if (gpu_failed(g) || a->n_rows == 0 || a->dim == 0 ||
        !need(g, holds_rows(x, 1, 0, 0, a->dim), "gather", "the input is too small") ||
        !need(g, holds_rows(index, a->n_rows, 1, a->first, 1), "gather", "too few indices") ||
        !need(g, holds_rows(out, a->n_rows, a->dim, 0, a->dim), "gather", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_gather(a, x->host, index->host, out->host));
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
        !need(g, holds_rows(b->y, a->n_rows, a->dim, (uint64_t)a->row * a->dim, a->dim), "scatter_add",
              "the input is too small") ||
        !need(g, holds_rows(b->index, a->n_rows, 1, a->first, 1), "scatter_add", "too few indices") ||
        !need(g, holds_rows(b->weight, a->n_rows, 1, a->first, 1), "scatter_add", "too few weights") ||
        !need(g, holds_rows(b->out, 1, 0, 0, a->dim), "scatter_add", "the output is too small"))
        return;
    if (is_ref(g)) {
        struct ref_scatter_bufs r = {b->y->host, b->index->host, b->weight->host, b->out->host};
        ref_done(g, ref_scatter_add(a, &r));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_SCATTER_ADD,
                               .args = a,
                               .buffers = {b->y, b->index, b->weight, b->out},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_combine(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight, gpu_buf *out)
{
    if (gpu_failed(g) || a->n_partials == 0 || a->dim == 0 ||
        !need(g, holds_rows(partial, a->n_partials, a->dim, 0, a->dim), "combine", "too few partial sums") ||
        !need(g, holds_rows(weight, a->n_partials, 1, a->first_weight, 1), "combine", "too few weights") ||
        !need(g, holds_rows(out, 1, 0, 0, a->dim), "combine", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_combine(a, partial->host, weight->host, out->host));
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
        !need(g, a->norm % 4 == 0 && holds(b->norm, a->norm, 4 * (uint64_t)a->dim), "combine_norm",
              "the norm's weight lies outside its buffer") ||
        !need(g, holds_rows(b->partial, a->n_partials, a->dim, 0, a->dim), "combine_norm", "too few partial sums") ||
        !need(g, holds_rows(b->weight, a->n_partials, 1, a->first_weight, 1), "combine_norm", "too few weights") ||
        !need(g, holds_rows(b->out, 1, 0, 0, a->dim) && holds_rows(b->y, 1, 0, 0, a->dim), "combine_norm",
              "an output is too small"))
        return;
    if (is_ref(g)) {
        struct ref_combine_bufs r = {b->partial->host, b->weight->host, b->out->host, b->norm->host, b->y->host};
        ref_done(g, ref_combine_norm(a, &r));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_COMBINE_NORM,
                               .args = a,
                               .buffers = {b->norm, b->partial, b->weight, b->out, b->y},
                               .groups = {1}});
}

void gpu_op_copy(gpu *g, const struct args_copy *a, gpu_buf *src, gpu_buf *dst)
{
    if (gpu_failed(g) || a->bytes == 0 || !need(g, a->bytes % 64 == 0, "copy", "bytes must be a multiple of 64") ||
        !need(g, holds(src, 0, a->bytes) && holds(dst, 0, a->bytes), "copy", "a buffer is too small"))
        return;
    if (is_ref(g)) {
        memcpy(dst->host, src->host, a->bytes);
        ref_done(g, GPU_OK);
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
        !need(g,
              a->n_experts > 0 && a->n_experts <= MOST_ROUTED && a->n_group > 0 && a->n_experts % a->n_group == 0 &&
                  a->topk_group > 0 && a->topk_group <= a->n_group && a->top_k > 0 &&
                  a->top_k <= (uint64_t)a->topk_group * (a->n_experts / a->n_group),
              "router", "experts, groups and top_k do not fit each other") ||
        !need(g, a->scoring <= ROUTER_SOFTMAX && a->topk_method <= TOPK_NOAUX, "router", "no such router") ||
        !need(g, !a->has_bias || a->scoring == ROUTER_SIGMOID, "router", "softmax takes no bias") ||
        !need(g, !a->has_bias || (a->bias % 4 == 0 && holds(b->bias, a->bias, 4 * (uint64_t)a->n_experts)), "router",
              "the bias lies outside its buffer") ||
        !need(g, holds_rows(b->logits, a->n_rows, a->n_experts, 0, a->n_experts), "router", "too few logits") ||
        !need(g,
              holds_rows(b->ids, a->n_rows, a->top_k, a->first, a->top_k) &&
                  holds_rows(b->weights, a->n_rows, a->top_k, a->first, a->top_k),
              "router", "an output is too small"))
        return;
    if (is_ref(g)) {
        struct ref_router_bufs r = {b->logits->host, a->has_bias ? b->bias->host : NULL, b->ids->host,
                                    b->weights->host};
        ref_done(g, ref_router(a, &r));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_ROUTER,
                               .args = a,
                               .buffers = {b->logits, a->has_bias ? b->bias : b->logits, b->ids, b->weights},
                               .groups = {a->n_rows}});
}

// ---- matrices

// One row a team gives few rows groups for the whole device; where there are many, more rows share each load of x.
// Teams have a row of each of `together` matrices.
static struct tiling cut_rows_gpu(const gpu *g, uint64_t n_rows, uint32_t together)
{
    enum { GROUPS_PER_UNIT = 4 };
    uint32_t most = TEAMS * TEAM_ROWS / together;
    bool few = ceil_div(n_rows, most) < (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
    return (struct tiling){.rows_per_group = few ? TEAMS : most, .n_groups = 1};
}

// How the rows of a matvec are cut, or of several that one launch computes. CPU: a second group must be worth its
// launch and its packing of x; many let cores that are late still share. GPU: what a group's teams compute together.
static struct tiling cut_rows(const gpu *g, const struct args_matrix *m, uint32_t n_matrices, uint32_t together)
{
    enum { LEAST_BYTES = 64 << 10, GROUPS_PER_UNIT = 8, ROWS_TOGETHER = 4 };
    if (!g->cpu_shape)
        return cut_rows_gpu(g, (uint64_t)m->out_dim * n_matrices, together);
    uint64_t most = ceil_div((uint64_t)GROUPS_PER_UNIT * g->info.compute_units, n_matrices);
    uint64_t groups = ceil_div(m->out_dim * matrix_row_bytes(m), LEAST_BYTES);
    uint64_t rows = ceil_div(m->out_dim, groups < most ? groups : most);
    rows = (rows + ROWS_TOGETHER - 1) / ROWS_TOGETHER * ROWS_TOGETHER;
    return (struct tiling){.rows_per_group = (uint32_t)rows,
                           .n_groups = (uint32_t)ceil_div(m->out_dim, rows),
                           .scratch_stride = m->in_dim / 32 * PACKED_UNIT};
}

void gpu_op_matvec(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y)
{
    const struct args_matrix *m = &a->matrix;
    if (gpu_failed(g) || !need(g, a->n_rows == 1, "matvec", "n_rows must be 1") ||
        !need_matrix(g, matrix, m, "matvec") ||
        !need(g, holds_rows(x, 1, 0, a->in_offset, m->in_dim), "matvec", "the input is too small") ||
        !need(g, holds_rows(y, 1, 0, a->out_offset, m->out_dim), "matvec", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_matmul(a, matrix->host, x->host, y->host));
        return;
    }
    struct tiling t = cut_rows(g, m, 1, 1);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)t.n_groups * t.scratch_stride);
    launch(g, &(struct launch){.kernel = KERNEL_MATVEC,
                               .args = a,
                               .tiling = t,
                               .buffers = {matrix, x, y, scratch},
                               .groups = {ceil_div(m->out_dim, t.rows_per_group)}});
}

void gpu_op_swiglu_vec(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y)
{
    const struct args_matrix *m = &a->gate;
    if (gpu_failed(g) || !need(g, a->n_rows == 1, "swiglu_vec", "n_rows must be 1") ||
        !need_matrix(g, matrices, m, "swiglu_vec") || !need_matrix(g, matrices, &a->up, "swiglu_vec") ||
        !need(g, same_shape(m, &a->up), "swiglu_vec", "gate and up are of two shapes") ||
        !need(g, holds_rows(x, 1, 0, a->in_offset, m->in_dim), "swiglu_vec", "the input is too small") ||
        !need(g, holds_rows(y, 1, 0, a->out_offset, m->out_dim), "swiglu_vec", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_swiglu(a, matrices->host, x->host, y->host));
        return;
    }
    struct tiling t = cut_rows(g, m, 1, 2);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)t.n_groups * t.scratch_stride);
    launch(g, &(struct launch){.kernel = KERNEL_SWIGLU_VEC,
                               .args = a,
                               .tiling = t,
                               .buffers = {matrices, x, y, scratch},
                               .groups = {ceil_div(m->out_dim, t.rows_per_group)}});
}

static bool holds_one(const gpu_buf *buf, const struct args_matrix *m, uint64_t place)
{
    struct args_matrix one = gpu_matrix_behind(m, place);
    return place % 4 == 0 && place <= buf->bytes && holds_matrix(buf, &one);
}

static bool holds_experts(const struct gpu_experts_bufs *b, const struct args_matrix *m, const struct args_places *at)
{
    const gpu_buf *buf = b->matrices;
    if (!buf)
        return false;
    if (at->by_id)
        return holds_rows(b->ids, at->n, 1, at->first_id, 1) && at->n_experts > 0 && at->stride % 4 == 0 &&
               at->stride <= buf->bytes / at->n_experts && at->base <= buf->bytes && holds_one(buf, m, at->base) &&
               holds_one(buf, m, at->base + (at->n_experts - 1) * at->stride);
    bool good = at->n <= MOST_EXPERTS;
    for (uint32_t k = 0; good && k < at->n; k++)
        good = holds_one(buf, m, at->place[k]);
    return good;
}

// Each expert's row of an activation.
static bool holds_ranks(const gpu_buf *buf, const struct args_places *at, uint32_t stride, uint32_t width)
{
    uint64_t rows = at->by_id ? at->n : 0;
    for (uint32_t k = 0; !at->by_id && k < at->n; k++)
        rows = at->rank[k] >= rows ? at->rank[k] + UINT64_C(1) : rows;
    return holds_rows(buf, rows, stride, 0, width);
}

// `together`: products of each row.
static void launch_experts(gpu *g, struct launch *l, const struct args_matrix *m, uint32_t n, uint32_t together,
                           const struct gpu_experts_bufs *b)
{
    l->tiling = cut_rows(g, m, n, together);
    gpu_buf *scratch = gpu_scratch(g, 4 * (uint64_t)n * l->tiling.n_groups * l->tiling.scratch_stride);
    gpu_buf *const buffers[] = {b->matrices, b->ids ? b->ids : b->x, b->x, b->y, scratch};
    memcpy(l->buffers, buffers, sizeof buffers);
    l->groups[0] = ceil_div(m->out_dim, l->tiling.rows_per_group);
    l->groups[1] = n;
    launch(g, l);
}

static struct ref_experts_bufs ref_experts(const struct gpu_experts_bufs *b)
{
    return (struct ref_experts_bufs){b->matrices->host, b->ids ? b->ids->host : NULL, b->x->host, b->y->host};
}

void gpu_op_swiglu_experts(gpu *g, const struct args_swiglu_experts *a, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = &a->gate;
    if (gpu_failed(g) || a->at.n == 0 ||
        !need(g, holds_experts(b, m, &a->at) && holds_experts(b, &a->up, &a->at) && same_shape(m, &a->up),
              "swiglu_experts", "gate and up have no valid shape or lie outside their buffer") ||
        !need(g, holds_rows(b->x, 1, 0, a->in_offset, m->in_dim), "swiglu_experts", "the input is too small") ||
        !need(g, holds_ranks(b->y, &a->at, a->out_stride, m->out_dim), "swiglu_experts", "the output is too small"))
        return;
    struct ref_experts_bufs r = ref_experts(b);
    if (is_ref(g))
        ref_done(g, ref_swiglu_experts(a, &r));
    else
        launch_experts(g, &(struct launch){.kernel = KERNEL_SWIGLU_EXPERTS, .args = a}, m, a->at.n, 2, b);
}

void gpu_op_matvec_experts(gpu *g, const struct args_matvec_experts *a, const struct gpu_experts_bufs *b)
{
    const struct args_matrix *m = &a->matrix;
    if (gpu_failed(g) || a->at.n == 0 ||
        !need(g, holds_experts(b, m, &a->at), "matvec_experts",
              "a matrix has no valid shape or lies outside its buffer") ||
        !need(g, holds_ranks(b->x, &a->at, a->in_stride, m->in_dim), "matvec_experts", "the input is too small") ||
        !need(g, holds_ranks(b->y, &a->at, a->out_stride, m->out_dim), "matvec_experts", "the output is too small"))
        return;
    struct ref_experts_bufs r = ref_experts(b);
    if (is_ref(g))
        ref_done(g, ref_matvec_experts(a, &r));
    else
        launch_experts(g, &(struct launch){.kernel = KERNEL_MATVEC_EXPERTS, .args = a}, m, a->at.n, 1, b);
}

// Lays x out in scratch as the CPU's matrix kernels want it: see matmul_cpu.cl.
static gpu_buf *pack(gpu *g, const struct args_matmul *a, gpu_buf *x)
{
    size_t vectors = ceil_div(a->n_rows, VECTOR);
    gpu_buf *packed = gpu_scratch(g, 4 * (uint64_t)vectors * VECTOR * a->matrix.in_dim);
    launch(g, &(struct launch){.kernel = KERNEL_PACK,
                               .args = a,
                               .buffers = {x, packed},
                               .groups = {ceil_div(a->matrix.in_dim, BLOCK), vectors}});
    return packed;
}

static void matmul_cpu(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y)
{
    launch(g,
           &(struct launch){.kernel = KERNEL_MATMUL,
                            .args = a,
                            .buffers = {matrix, pack(g, a, x), y},
                            .groups = {ceil_div(a->matrix.out_dim, MATMUL_ROWS), ceil_div(a->n_rows, MATMUL_TOKENS)}});
}

// GPU: tiles of 8 times as many tokens and outputs as the kernel's name says: the largest that still give every unit
// one, but none that are half empty.
static void cut_tiles(const gpu *g, struct launch *l, const struct args_each *at, uint32_t n, uint64_t n_outputs)
{
    static const uint32_t sides[][2] = {{2, 4}, {4, 4}, {8, 8}}; // of the kernels from l->kernel on
    uint32_t most = 0;
    uint64_t tiles = 0;
    for (uint32_t k = 0; k < n; k++) {
        most = at->n_rows[k] > most ? at->n_rows[k] : most;
        tiles += ceil_div(at->n_rows[k], 64) * ceil_div(n_outputs, 64);
    }
    unsigned i = most <= 16 ? 0 : most <= 32 || tiles < g->info.compute_units ? 1 : 2;
    l->kernel = (enum kernel_id)(l->kernel + i);
    l->groups[0] = ceil_div(n_outputs, 8 * sides[i][1]);
    l->groups[1] = ceil_div(most, 8 * sides[i][0]);
    l->groups[2] = n;
}

static void matmul_gpu(gpu *g, const struct args_matmul *a, uint32_t n, const struct gpu_product_bufs *b)
{
    struct args_matmul_each each = {.of = a[0]};
    for (uint32_t k = 0; k < n; k++) {
        each.at.behind[k] = a[k].matrix.weight - a[0].matrix.weight;
        each.at.n_rows[k] = a[k].n_rows;
        each.at.in_offset[k] = a[k].in_offset;
        each.at.out_offset[k] = a[k].out_offset;
    }
    struct launch l = {.kernel = KERNEL_MATMUL_2_4, .args = &each, .buffers = {b->matrices, b->x, b->y}};
    cut_tiles(g, &l, &each.at, n, a->matrix.out_dim);
    launch(g, &l);
}

static bool matmul_fits(gpu *g, const struct args_matmul *a, const struct gpu_product_bufs *b)
{
    const struct args_matrix *m = &a->matrix;
    return need(g, a->n_rows > 0, "matmul", "no rows") && need_matrix(g, b->matrices, m, "matmul") &&
           need(g, holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, m->in_dim), "matmul",
                "the input is too small") &&
           need(g, holds_rows(b->y, a->n_rows, a->out_stride, a->out_offset, m->out_dim), "matmul",
                "the output is too small");
}

// May one launch compute matrix b as it does a?
static bool is_behind(const struct args_matrix *a, const struct args_matrix *b)
{
    return same_shape(a, b) && b->weight - a->weight == b->scales - a->scales &&
           b->weight - a->weight == b->biases - a->biases;
}

void gpu_op_matmul_each(gpu *g, const struct args_matmul *a, uint32_t n, const struct gpu_product_bufs *b)
{
    bool good = !gpu_failed(g) && need(g, n > 0 && n <= MOST_EACH, "matmul", "too many at once");
    for (uint32_t k = 0; good && k < n; k++)
        good = matmul_fits(g, &a[k], b) && need(g,
                                                is_behind(&a->matrix, &a[k].matrix) && a[k].in_stride == a->in_stride &&
                                                    a[k].out_stride == a->out_stride && a[k].add == a->add,
                                                "matmul", "one is unlike the others");
    if (good && !is_ref(g) && !g->cpu_shape) {
        matmul_gpu(g, a, n, b);
        return;
    }
    for (uint32_t k = 0; good && k < n; k++)
        if (is_ref(g))
            ref_done(g, ref_matmul(&a[k], b->matrices->host, b->x->host, b->y->host));
        else
            matmul_cpu(g, &a[k], b->matrices, b->x, b->y);
}

void gpu_op_matmul(gpu *g, const struct args_matmul *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *y)
{
    if (a->n_rows > 0)
        gpu_op_matmul_each(g, a, 1, &(struct gpu_product_bufs){matrix, x, y});
}

static void swiglu_cpu(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y)
{
    struct args_matmul input = {
        .matrix = a->gate, .n_rows = a->n_rows, .in_stride = a->in_stride, .in_offset = a->in_offset};
    gpu_buf *packed = pack(g, &input, x);
    launch(g, &(struct launch){.kernel = KERNEL_SWIGLU_MAT,
                               .args = a,
                               .buffers = {matrices, packed, y},
                               .groups = {ceil_div(a->gate.out_dim, MATMUL_ROWS), ceil_div(a->n_rows, MATMUL_TOKENS)}});
}

static void swiglu_gpu(gpu *g, const struct args_swiglu *a, uint32_t n, const struct gpu_product_bufs *b)
{
    struct args_swiglu_each each = {.of = a[0]};
    for (uint32_t k = 0; k < n; k++) {
        each.at.behind[k] = a[k].gate.weight - a[0].gate.weight;
        each.at.n_rows[k] = a[k].n_rows;
        each.at.in_offset[k] = a[k].in_offset;
        each.at.out_offset[k] = a[k].out_offset;
    }
    struct launch l = {.kernel = KERNEL_SWIGLU_2_4, .args = &each, .buffers = {b->matrices, b->x, b->y}};
    cut_tiles(g, &l, &each.at, n, 2 * (uint64_t)a->gate.out_dim);
    launch(g, &l);
}

static bool swiglu_fits(gpu *g, const struct args_swiglu *a, const struct gpu_product_bufs *b)
{
    const struct args_matrix *m = &a->gate;
    return need(g, a->n_rows > 0, "swiglu_mat", "no rows") && need_matrix(g, b->matrices, m, "swiglu_mat") &&
           need_matrix(g, b->matrices, &a->up, "swiglu_mat") &&
           need(g, same_shape(m, &a->up), "swiglu_mat", "gate and up are of two shapes") &&
           need(g, holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, m->in_dim), "swiglu_mat",
                "the input is too small") &&
           need(g, holds_rows(b->y, a->n_rows, a->out_stride, a->out_offset, m->out_dim), "swiglu_mat",
                "the output is too small");
}

void gpu_op_swiglu_each(gpu *g, const struct args_swiglu *a, uint32_t n, const struct gpu_product_bufs *b)
{
    bool good = !gpu_failed(g) && need(g, n > 0 && n <= MOST_EACH, "swiglu_mat", "too many at once");
    for (uint32_t k = 0; good && k < n; k++)
        good =
            swiglu_fits(g, &a[k], b) && need(g,
                                             is_behind(&a->gate, &a[k].gate) && is_behind(&a->up, &a[k].up) &&
                                                 a[k].gate.weight - a->gate.weight == a[k].up.weight - a->up.weight &&
                                                 a[k].in_stride == a->in_stride && a[k].out_stride == a->out_stride,
                                             "swiglu_mat", "one is unlike the others");
    if (good && !is_ref(g) && !g->cpu_shape) {
        swiglu_gpu(g, a, n, b);
        return;
    }
    for (uint32_t k = 0; good && k < n; k++)
        if (is_ref(g))
            ref_done(g, ref_swiglu(&a[k], b->matrices->host, b->x->host, b->y->host));
        else
            swiglu_cpu(g, &a[k], b->matrices, b->x, b->y);
}

void gpu_op_swiglu_mat(gpu *g, const struct args_swiglu *a, gpu_buf *matrices, gpu_buf *x, gpu_buf *y)
{
    if (a->n_rows > 0)
        gpu_op_swiglu_each(g, a, 1, &(struct gpu_product_bufs){matrices, x, y});
}

// ---- products head by head

static bool kv_b_shaped(const struct args_kv_b *a, const gpu_buf *kv_b)
{
    uint64_t rows = (uint64_t)a->n_heads * ((uint64_t)a->qk_nope_head_dim + a->v_head_dim);
    return a->n_heads > 0 && a->qk_nope_head_dim > 0 && a->v_head_dim > 0 && rows == a->kv_b.out_dim &&
           holds_matrix(kv_b, &a->kv_b);
}

// CPU: a group is one head and a range of rows.
static struct tiling cut_tokens(uint32_t n_rows, const struct args_matrix *m)
{
    enum { TOKENS = 16 };
    return (struct tiling){.rows_per_group = TOKENS,
                           .n_groups = (uint32_t)ceil_div(n_rows, TOKENS),
                           .scratch_stride = m->in_dim / 32 * PACKED_UNIT};
}

static gpu_buf *heads_scratch(gpu *g, uint32_t n_heads, const struct tiling *t)
{
    return gpu_scratch(g, g->cpu_shape ? 4 * (uint64_t)n_heads * t->n_groups * t->scratch_stride : 0);
}

void gpu_op_q_prime(gpu *g, const struct args_kv_b *a, gpu_buf *kv_b, gpu_buf *q, gpu_buf *out)
{
    if (gpu_failed(g) || a->n_rows == 0 || !need(g, !a->decode || a->n_rows == 1, "q_prime", "decode takes one row") ||
        !need(g, kv_b_shaped(a, kv_b), "q_prime", "kv_b has no valid shape or lies outside its buffer") ||
        !need(g, a->n_heads == 1 || a->q_head_stride >= a->qk_nope_head_dim, "q_prime", "heads overlap") ||
        !need(g,
              holds_rows(q, a->n_rows, a->q_row_stride, 0,
                         (uint64_t)(a->n_heads - 1) * a->q_head_stride + a->qk_nope_head_dim),
              "q_prime", "q is too small") ||
        !need(g, holds(out, 0, 4 * (uint64_t)a->n_rows * a->n_heads * a->kv_b.in_dim), "q_prime",
              "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_q_prime(a, kv_b->host, q->host, out->host));
        return;
    }
    if (!g->cpu_shape && !a->decode) {
        launch(g, &(struct launch){.kernel = KERNEL_Q_PRIME_ROWS,
                                   .args = a,
                                   .buffers = {kv_b, q, out},
                                   .groups = {ceil_div(a->kv_b.in_dim, 64), ceil_div(a->n_rows, 64), a->n_heads}});
        return;
    }
    struct tiling t = cut_tokens(a->n_rows, &a->kv_b);
    size_t words = ceil_div(a->kv_b.in_dim / inputs_per_word(&a->kv_b), Q_WORDS);
    launch(g, &(struct launch){.kernel = KERNEL_Q_PRIME,
                               .args = a,
                               .tiling = t,
                               .buffers = {kv_b, q, out, heads_scratch(g, a->n_heads, &t)},
                               .groups = {g->cpu_shape ? t.n_groups : words, a->n_heads,
                                          g->cpu_shape ? ceil_div(a->kv_b.in_dim, BLOCK) : 0}});
}

void gpu_op_heads(gpu *g, const struct args_heads *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *out)
{
    const struct args_matrix *m = &a->matrix;
    uint64_t heads = (uint64_t)a->n_rows * a->n_heads;
    if (gpu_failed(g) || a->n_rows == 0 || !need(g, !a->decode || a->n_rows == 1, "heads", "decode takes one row") ||
        !need_matrix(g, matrix, m, "heads") ||
        !need(g,
              a->n_heads > 0 && a->n_out > 0 && (uint64_t)a->first_row + a->n_out <= a->head_rows &&
                  (uint64_t)a->n_heads * a->head_rows == m->out_dim,
              "heads", "heads and rows do not fit the matrix") ||
        !need(g, a->n_heads == 1 || a->head_stride >= m->in_dim, "heads", "heads overlap") ||
        !need(g, holds_rows(x, a->n_rows, a->row_stride, 0, (uint64_t)(a->n_heads - 1) * a->head_stride + m->in_dim),
              "heads", "the input is too small") ||
        !need(g, holds_rows(out, heads, a->n_out, 0, a->n_out), "heads", "the output is too small"))
        return;
    if (is_ref(g)) {
        ref_done(g, ref_heads(a, matrix->host, x->host, out->host));
        return;
    }
    if (!g->cpu_shape && !a->decode) {
        launch(g, &(struct launch){.kernel = KERNEL_HEADS_ROWS,
                                   .args = a,
                                   .buffers = {matrix, x, out},
                                   .groups = {ceil_div(a->n_out, 64), ceil_div(a->n_rows, 64), a->n_heads}});
        return;
    }
    struct tiling t = cut_tokens(a->n_rows, m);
    launch(g,
           &(struct launch){.kernel = KERNEL_HEADS,
                            .args = a,
                            .tiling = t,
                            .buffers = {matrix, x, out, heads_scratch(g, a->n_heads, &t)},
                            .groups = {g->cpu_shape ? t.n_groups : ceil_div(a->n_out, TEAMS * TEAM_ROWS), a->n_heads}});
}

// ---- attention

static bool attention_fits(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b, const char *op)
{
    uint64_t heads = (uint64_t)a->n_rows * a->n_heads;
    uint64_t width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    uint64_t element = a->kv_type == KV_F16 ? 2 : 4;
    return need(g, a->n_heads > 0 && a->kv_lora_rank > 0 && a->kv_lora_rank % 32 == 0 && a->kv_type <= KV_F16, op,
                "no such shape") &&
           need(g, a->n_heads == 1 || a->q_head_stride >= a->rope_dim, op, "heads overlap") &&
           need(g, holds(b->q_latent, 0, 4 * heads * a->kv_lora_rank), op, "q_latent is too small") &&
           need(g,
                holds_rows(b->q, a->n_rows, a->q_row_stride, a->q_rope_offset,
                           (uint64_t)(a->n_heads - 1) * a->q_head_stride + a->rope_dim),
                op, "q is too small") &&
           need(g, holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * width * element), op,
                "the cache holds fewer rows than are asked for") &&
           need(g, holds(b->out, 0, 4 * heads * a->kv_lora_rank), op, "the output is too small");
}

static void attention_ref(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    struct ref_attention_bufs r = {b->q_latent->host, b->q->host, b->cache->host, b->out->host};
    ref_done(g, ref_attention(a, &r));
}

// Floats that a CPU group keeps beside each other: queries, sums, and a tile of the cache, converted.
static uint64_t attention_stride(const struct args_attention *a)
{
    uint64_t width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    return VECTOR * (width + a->kv_lora_rank) + (a->kv_type == KV_F16 ? ATTENTION_TILE * width : 0);
}

// GPU: the positions of a tile, from the model and the length alone: groups enough for a large device, few sums to
// merge.
static uint32_t decode_tile(const struct args_attention *a)
{
    enum { GROUPS = 512 };
    uint32_t tile = DECODE_STEP;
    uint64_t blocks = ceil_div(a->n_heads, GROUP_HEADS);
    uint64_t most = GROUPS / blocks < MOST_TILES ? GROUPS / blocks : MOST_TILES;
    while (tile < UINT32_C(1) << 30 && ceil_div((uint64_t)a->position + 1, tile) > (most ? most : 1))
        tile *= 2;
    return tile;
}

void gpu_op_attention_decode(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    if (gpu_failed(g) || !need(g, a->n_rows == 1, "attention_decode", "n_rows must be 1") ||
        !attention_fits(g, a, b, "attention_decode"))
        return;
    if (is_ref(g)) {
        attention_ref(g, a, b);
        return;
    }
    uint32_t tile = g->cpu_shape ? ATTENTION_TILE : decode_tile(a);
    size_t tiles = ceil_div((uint64_t)a->position + 1, tile);
    struct launch parts = {.kernel = KERNEL_ATTENTION_TILES, .args = a, .buffers = {b->q_latent, b->q, b->cache}};
    struct launch merge = {.kernel = KERNEL_ATTENTION_MERGE, .args = a};
    uint64_t floats;
    parts.tiling.rows_per_group = tile;
    parts.tiling.n_tiles = (uint32_t)tiles;
    if (g->cpu_shape) {
        enum { GROUPS_PER_UNIT = 8 };
        uint64_t most = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
        size_t vectors = ceil_div(a->n_heads, VECTOR);
        parts.tiling.n_groups = (uint32_t)(tiles < most ? tiles : most);
        parts.tiling.scratch_stride = (uint32_t)attention_stride(a);
        floats =
            vectors * (VECTOR * tiles * (a->kv_lora_rank + 2) + (uint64_t)parts.tiling.n_groups * attention_stride(a));
        parts.groups[0] = vectors;
        parts.groups[1] = parts.tiling.n_groups;
        merge.groups[0] = ceil_div(a->kv_lora_rank, MERGE_COLUMNS);
        merge.groups[1] = vectors;
    } else {
        floats = tiles * a->n_heads * ((uint64_t)a->kv_lora_rank + 2);
        parts.groups[0] = ceil_div(a->n_heads, GROUP_HEADS);
        parts.groups[1] = tiles;
        parts.groups[2] = ceil_div(a->kv_lora_rank, MOST_VALUES);
        merge.groups[0] = ceil_div(a->kv_lora_rank, ELEMENTS_GROUP);
        merge.groups[1] = a->n_heads;
    }
    merge.tiling = parts.tiling;
    parts.buffers[3] = merge.buffers[0] = gpu_scratch(g, 4 * floats);
    merge.buffers[1] = b->out;
    launch(g, &parts);
    launch(g, &merge);
}

void gpu_op_attention_prefill(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !attention_fits(g, a, b, "attention_prefill"))
        return;
    if (is_ref(g)) {
        attention_ref(g, a, b);
        return;
    }
    struct launch l = {.kernel = KERNEL_ATTENTION_PREFILL, .args = a, .buffers = {b->q_latent, b->q, b->cache, b->out}};
    if (g->cpu_shape) {
        enum { GROUPS_PER_UNIT = 32 };
        size_t jobs = ceil_div((uint64_t)a->n_rows * a->n_heads, VECTOR);
        uint64_t most = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
        l.tiling.n_groups = (uint32_t)(jobs < most ? jobs : most);
        l.tiling.scratch_stride = (uint32_t)attention_stride(a);
        l.buffers[4] = gpu_scratch(g, 4 * (uint64_t)l.tiling.n_groups * l.tiling.scratch_stride);
        l.groups[0] = l.tiling.n_groups;
    } else {
        l.buffers[4] = b->out;
        l.groups[0] = ceil_div(a->n_heads, PREFILL_GROUP);
        l.groups[1] = a->n_rows;
        l.groups[2] = ceil_div(a->kv_lora_rank, MOST_VALUES);
    }
    launch(g, &l);
}
