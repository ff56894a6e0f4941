// SPDX-License-Identifier: GPL-3.0-or-later
// The checks of the ops.
#include "kernels/ops_check.h"

bool op_need(gpu *g, bool good, const char *op, const char *what)
{
    if (!good)
        gpu_fail(g, GPU_ARGUMENT, 0, "op %s: %s", op, what);
    return good;
}

bool op_holds(const gpu_buf *buf, uint64_t offset, uint64_t bytes)
{
    return buf && offset <= buf->bytes && bytes <= buf->bytes - offset;
}

bool op_holds_vector(const gpu_buf *buf, uint64_t offset, uint64_t n)
{
    return offset % 4 == 0 && op_holds(buf, offset, 4 * n);
}

bool op_holds_rows(const gpu_buf *buf, uint64_t n_rows, uint64_t stride, uint64_t offset, uint64_t width)
{
    uint64_t floats = buf ? buf->bytes / 4 : 0, first = offset + width;
    return width > 0 && first <= floats &&
           (n_rows == 1 || (stride >= width && n_rows - 1 <= (floats - first) / stride));
}

// Tensor cores copy blocks by 16 bytes and have room for what lies before one in its first 16: of IQ4_XS for 8.
static uint32_t least_alignment(uint32_t kind)
{
    return kind == KIND_IQ4_XS ? 8 : 4;
}

bool op_holds_matrix(const gpu_buf *buf, const struct args_matrix *m)
{
    if (!matrix_is_shaped(m) || m->weight % least_alignment(m->kind))
        return false;
    uint64_t rows = m->out_dim, scales = matrix_scale_bytes(m), biases = matrix_bias_bytes(m);
    return op_holds(buf, m->weight, rows * matrix_row_bytes(m)) &&
           (!scales || (m->scales % 4 == 0 && op_holds(buf, m->scales, rows * scales))) &&
           (!biases || (m->biases % 4 == 0 && op_holds(buf, m->biases, rows * biases))) &&
           (!m->factor || (m->biases % 4 == 0 && op_holds(buf, m->biases, matrix_factor_bytes(m))));
}

bool op_need_kind(gpu *g, const struct args_matrix *m, const char *op)
{
    const struct program *program;
    const struct kind_info *info = kind_info(m->kind);
    if (!info || format_program(g, m, &program))
        return op_need(g, info, op, "a matrix of no kind");
    gpu_fail(g, GPU_ARGUMENT, 0, "op %s: there are no kernels for a matrix of kind %s, or they were not opened", op,
             info->name);
    return false;
}

const struct program *op_program(const gpu *g, const struct args_matrix *m)
{
    const struct program *program;
    format_program(g, m, &program);
    return program;
}

bool op_is_one_program(const gpu *g, const struct args_matrix *a, const struct args_matrix *b)
{
    return op_program(g, a) == op_program(g, b);
}

bool op_need_matrix(gpu *g, const gpu_buf *buf, const struct args_matrix *m, const char *op)
{
    return op_need_kind(g, m, op) &&
           op_need(g, op_holds_matrix(buf, m), op, "a matrix has no valid shape or lies outside its buffer");
}

bool op_same_dims(const struct args_matrix *a, const struct args_matrix *b)
{
    return a->in_dim == b->in_dim && a->out_dim == b->out_dim;
}

bool op_same_shape(const struct args_matrix *a, const struct args_matrix *b)
{
    struct gpu_format f = gpu_format_of(a, 0), other = gpu_format_of(b, 0);
    return op_same_dims(a, b) && f.kind == other.kind && f.scale_type == other.scale_type &&
           (!matrix_bias_bytes(a) || a->group_size == b->group_size) && a->factor == b->factor;
}

bool op_is_ref(const gpu *g)
{
    return g->info.kind == GPU_KIND_REF;
}

void op_done_by_ref(gpu *g, int code)
{
    g->counts.launches++;
    g->fenced = false;
    if (code)
        gpu_fail(g, (enum gpu_code)code, 0, "no memory for a row of scratch");
}

bool op_takes_mma(const gpu *g, const struct args_matrix *m)
{
    return g->has_mma && m->kind != KIND_F32 && m->kind != KIND_BF16;
}

bool op_team_takes_mma(const gpu *g, const struct args_matrix *m)
{
    return g->has_mma && op_program(g, m) && kind_info(m->kind)->by_pieces;
}

static bool holds_one(const gpu_buf *buf, const struct args_matrix *m, uint64_t place)
{
    struct args_matrix one = gpu_matrix_behind(m, place);
    return place % 4 == 0 && place <= buf->bytes && op_holds_matrix(buf, &one);
}

bool op_holds_experts(const struct gpu_experts_bufs *b, const struct args_matrix *m, const struct args_places *at)
{
    const gpu_buf *buf = b->matrices;
    if (!buf)
        return false;
    if (at->by_id)
        return op_holds_rows(b->ids, at->n, 1, at->first_id, 1) && at->n_experts > 0 && at->stride % 4 == 0 &&
               at->stride <= buf->bytes / at->n_experts && at->base <= buf->bytes && holds_one(buf, m, at->base) &&
               holds_one(buf, m, at->base + (at->n_experts - 1) * at->stride);
    bool good = at->n <= MOST_EXPERTS;
    for (uint32_t k = 0; good && k < at->n; k++)
        good = holds_one(buf, m, at->place[k]);
    return good;
}

bool op_router_fits(const struct args_router *a)
{
    return a->n_experts > 0 && a->n_experts <= MOST_ROUTED && a->n_group > 0 && a->n_experts % a->n_group == 0 &&
           a->topk_group > 0 && a->topk_group <= a->n_group && a->top_k > 0 &&
           a->top_k <= (uint64_t)a->topk_group * (a->n_experts / a->n_group) && a->scoring <= ROUTER_SOFTMAX &&
           a->topk_method <= TOPK_NOAUX && (!a->has_bias || (a->scoring == ROUTER_SIGMOID && a->bias % 4 == 0));
}
