// SPDX-License-Identifier: GPL-3.0-or-later
// The oracle of combine: partial sums of experts added up in plain C. A test that is linked with
// --wrap=gpu_op_combine,--wrap=gpu_op_combine_norm may have the whole engine add them up on the host, too.
#ifndef MOECHAT_TESTS_HOST_COMBINE_H
#define MOECHAT_TESTS_HOST_COMBINE_H

#include <math.h>
#include <stdlib.h>

#include "kernels/gpu.h"

// out += sum over k of weight[first_weight + k] * partial[k], by rank and with fma as kernels do: the same bits.
static inline void host_combine(const struct args_combine *a, const float *partial, const float *weight, float *out)
{
    for (uint32_t i = 0; i < a->dim; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < a->n_partials; k++)
            sum = fmaf(weight[a->first_weight + k], partial[(size_t)k * a->dim + i], sum);
        out[i] += sum;
    }
}

#ifdef HOST_COMBINE_WRAPS
static bool combines_on_host;     // the engine does now
static uint64_t combined_on_host; // so often

void __real_gpu_op_combine(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight, gpu_buf *out);
void __wrap_gpu_op_combine(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight, gpu_buf *out);
void __real_gpu_op_combine_norm(gpu *g, const struct args_combine_norm *a, const struct gpu_combine_bufs *b);
void __wrap_gpu_op_combine_norm(gpu *g, const struct args_combine_norm *a, const struct gpu_combine_bufs *b);

// What the device says of a failure stays with it.
static void combine_by_way_of_host(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight,
                                   gpu_buf *out)
{
    size_t dim = a->dim, n = a->n_partials;
    float *sums = malloc((dim + n * dim + n) * sizeof *sums);
    if (!sums)
        abort();
    const struct gpu_range ranges[] = {
        {out, 0, sums, dim * sizeof *sums},
        {partial, 0, sums + dim, n * dim * sizeof *sums},
        {weight, a->first_weight * sizeof *sums, sums + dim + n * dim, n * sizeof *sums},
    };
    struct args_combine here = {.n_partials = a->n_partials, .dim = a->dim};
    if (!gpu_failed(g) && !gpu_read_ranges(g, ranges, 3, NULL)) {
        host_combine(&here, sums + dim, sums + dim + n * dim, sums);
        gpu_write(g, out, 0, sums, dim * sizeof *sums);
        combined_on_host++;
    }
    free(sums);
}

void __wrap_gpu_op_combine(gpu *g, const struct args_combine *a, gpu_buf *partial, gpu_buf *weight, gpu_buf *out)
{
    if (combines_on_host)
        combine_by_way_of_host(g, a, partial, weight, out);
    else
        __real_gpu_op_combine(g, a, partial, weight, out);
}

void __wrap_gpu_op_combine_norm(gpu *g, const struct args_combine_norm *a, const struct gpu_combine_bufs *b)
{
    if (!combines_on_host) {
        __real_gpu_op_combine_norm(g, a, b);
        return;
    }
    struct args_combine combine = {.n_partials = a->n_partials, .dim = a->dim, .first_weight = a->first_weight};
    struct args_rmsnorm norm = {.weight = a->norm, .n_rows = 1, .dim = a->dim, .eps = a->eps, .plus_one = a->plus_one};
    combine_by_way_of_host(g, &combine, b->partial, b->weight, b->out);
    gpu_op_rmsnorm(g, &norm, b->norm, b->out, b->y);
}
#endif

#endif
