// SPDX-License-Identifier: GPL-3.0-or-later
// Hyper-connections: checks, then the launch or ref.
#include "kernels/ops_check.h"
#include "kernels/ref.h"

enum { MOST_STEPS = 1000 };

// Rows first .. first + n_rows - 1 of `width` numbers each.
static bool holds(const gpu_buf *buf, uint64_t first, uint64_t n_rows, uint64_t width)
{
    return op_holds(buf, 0, 4 * (first + n_rows) * width);
}

static bool spread_fits(gpu *g, const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b,
                        const char *op)
{
    uint64_t wide = (uint64_t)HYPER_STREAMS * a->dim;
    return op_need(g, a->dim > 0 && a->dim <= MOST_HYPER_DIM, op, "no such dimension") &&
           op_need(g, a->begins || holds(b->parts, a->first, a->n_rows, HYPER_PARTS), op, "too few parts") &&
           op_need(g, holds(b->out, a->first, a->n_rows, a->dim), op, "what is new has too few rows") &&
           op_need(g, a->begins || holds(b->from, a->first, a->n_rows, wide), op, "the streams have too few rows");
}

void gpu_op_hyper_spread(gpu *g, const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b)
{
    static const char op[] = "hyper_spread";
    uint64_t wide = (uint64_t)HYPER_STREAMS * a->dim;
    if (gpu_failed(g) || a->n_rows == 0 || !spread_fits(g, a, b, op) ||
        !op_need(g, holds(b->to, a->to, a->n_rows, wide), op, "the output is too small") ||
        !op_need(g, b->from != b->to || a->first == a->to || a->n_rows == 1, op, "rows would be read and written"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_hyper_spread(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_HYPER_SPREAD,
                               .args = a,
                               .buffers = {b->parts, b->out, b->from, b->to},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_hyper_mean(gpu *g, const struct args_hyper_spread *a, const struct gpu_hyper_spread_bufs *b)
{
    static const char op[] = "hyper_mean";
    if (gpu_failed(g) || a->n_rows == 0 || !spread_fits(g, a, b, op) ||
        !op_need(g, b->to != b->from && b->to != b->out && holds(b->to, a->to, a->n_rows, a->dim), op,
                 "the output is too small, or an input"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_hyper_mean(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_HYPER_MEAN,
                               .args = a,
                               .buffers = {b->parts, b->out, b->from, b->to},
                               .groups = {ceil_div(a->dim, ELEMENTS_GROUP), a->n_rows}});
}

void gpu_op_hyper_mix(gpu *g, const struct args_hyper_mix *a, const struct gpu_hyper_mix_bufs *b)
{
    static const char op[] = "hyper_mix";
    uint64_t wide = (uint64_t)HYPER_STREAMS * a->dim;
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, a->dim > 0 && a->dim <= MOST_HYPER_DIM && a->steps <= MOST_STEPS, op,
                 "no such dimension, or too many steps") ||
        !op_need(g,
                 op_holds_vector(b->base, a->base, HYPER_LOGITS) && op_holds_vector(b->scale, a->scale, HYPER_SCALES),
                 op, "base or scale lie outside their buffers") ||
        !op_need(g, holds(b->streams, a->first, a->n_rows, wide), op, "the streams have too few rows") ||
        !op_need(g, holds(b->logits, a->first, a->n_rows, HYPER_LOGITS), op, "too few logits") ||
        !op_need(g, holds(b->parts, a->first, a->n_rows, HYPER_PARTS), op, "the parts have no room") ||
        !op_need(g, b->y != b->streams && holds(b->y, a->first, a->n_rows, a->dim), op,
                 "the output is too small, or the input"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_hyper_mix(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_HYPER_MIX,
                               .args = a,
                               .buffers = {b->base, b->scale, b->streams, b->logits, b->parts, b->y},
                               .groups = {a->n_rows}});
}
