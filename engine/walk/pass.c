// SPDX-License-Identifier: GPL-3.0-or-later
// The ops that are the same wherever they stand: a projection and a norm of the pass's rows.
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
