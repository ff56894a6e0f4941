// SPDX-License-Identifier: GPL-3.0-or-later
// Attention residuals: checks, then the launch or ref.
#include "kernels/ops_check.h"
#include "kernels/ref.h"

void gpu_op_bank_mix(gpu *g, const struct args_bank_mix *a, const struct gpu_bank_bufs *b)
{
    static const char op[] = "bank_mix";
    uint64_t dim = a->dim, rows = (uint64_t)a->first + a->n_rows;
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, dim > 0 && dim <= MOST_BANK_DIM && a->most <= MOST_BANK && a->n + a->appends <= a->most, op,
                 "no such dimensions") ||
        !op_need(g, op_holds_vector(b->norm, a->norm, dim), op, "the norm lies outside its buffer") ||
        !op_need(g, op_holds_vector(b->proj, a->proj, dim), op, "the projection lies outside its buffer") ||
        !op_need(g, op_holds(b->x, 0, 4 * rows * dim), op, "the stream has too few rows") ||
        !op_need(g, op_holds(b->bank, 0, 4 * rows * a->most * dim), op, "the bank has too few rows") ||
        !op_need(g, op_holds(b->y, 0, 4 * ((uint64_t)a->to + a->n_rows) * dim) && b->y != b->x && b->y != b->bank, op,
                 "the output is too small, or an input"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_bank_mix(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_BANK_MIX,
                               .args = a,
                               .buffers = {b->norm, b->proj, b->x, b->bank, b->y},
                               .groups = {a->n_rows}});
}
