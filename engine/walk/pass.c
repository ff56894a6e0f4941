// SPDX-License-Identifier: GPL-3.0-or-later
// The ops that are the same wherever they stand: projections and norms of the pass's rows.
#include "engine/walk/pass.h"

void pass_project(const struct pass *pass, const struct projection *p)
{
    struct args_matmul args = {
        .matrix = p->matrix->at,
        .n_rows = pass->rows,
        .in_stride = p->from.stride,
        .in_offset = p->from.offset,
        .out_stride = p->to.stride,
        .out_offset = p->to.offset,
        .add = p->add,
    };
    if (pass->decode)
        gpu_op_matvec(pass->gpu, &args, p->matrix->buf, p->from.buf, p->to.buf);
    else
        gpu_op_matmul(pass->gpu, &args, p->matrix->buf, p->from.buf, p->to.buf);
}

void pass_norm(const struct pass *pass, const struct normalisation *norm)
{
    struct args_rmsnorm args = {
        .weight = norm->weight->offset,
        .n_rows = pass->rows,
        .dim = norm->dim,
        .in_stride = norm->from.stride,
        .in_offset = norm->from.offset,
        .out_stride = norm->to.stride,
        .out_offset = norm->to.offset,
        .eps = norm->eps,
    };
    gpu_op_rmsnorm(pass->gpu, &args, norm->weight->buf, norm->from.buf, norm->to.buf);
}

void pass_norm_project(const struct pass *pass, const struct normalisation *norm, const struct projection *projections,
                       uint32_t n)
{
    if (!pass->decode || pass->stream->unfused) {
        pass_norm(pass, norm);
        for (uint32_t k = 0; k < n; k++)
            pass_project(pass, &projections[k]);
        return;
    }
    struct args_norm_matvecs args = {
        .norm = norm->weight->offset,
        .n = n,
        .in_offset = norm->from.offset,
        .normed_offset = norm->to.offset,
        .eps = norm->eps,
    };
    struct gpu_norm_matvecs_bufs bufs = {.norm = norm->weight->buf, .x = norm->from.buf, .normed = norm->to.buf};
    for (uint32_t k = 0; k < n; k++) {
        args.matrix[k] = projections[k].matrix->at;
        args.out_offset[k] = projections[k].to.offset;
        bufs.matrix[k] = projections[k].matrix->buf;
        bufs.y[k] = projections[k].to.buf;
    }
    gpu_op_norm_matvecs(pass->gpu, &args, &bufs);
}
