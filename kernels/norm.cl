// SPDX-License-Identifier: GPL-3.0-or-later
// RMSNorm: a work-group per row; alone, after the sum of a token's experts, and on the way into the cache.

#if SHAPE_CPU
#define NORM_TOGETHER 1
#else
#define NORM_TOGETHER 4 // elements that a work-item sums side by side
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ROW_LANES, 1) void rmsnorm(const struct args_rmsnorm a, const struct tiling t,
                                               __global const uchar *weights, __global const float *x,
                                               __global float *y)
{
    __local float sums[NORM_SUMS];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    struct normed_row row = {(__global const float *)(weights + a.weight), a.dim, a.eps, a.plus_one};
    norm_row(&row, x + (ulong)r * a.in_stride + a.in_offset, y + (ulong)r * a.out_stride + a.out_offset, ROW_LANES,
             sums);
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ROW_LANES, 1) void combine_norm(const struct args_combine_norm a, const struct tiling t,
                                                    __global const uchar *norms, __global const float *partial,
                                                    __global const float *weight, __global float *out,
                                                    __global float *y)
{
    __local float sums[NORM_SUMS];
    if (a.dim == 0)
        return;
    uint i = get_local_id(0);
#if SHAPE_CPU
    for (; i + 16 <= a.dim; i += 16) {
        float16 sum = 0;
        for (uint k = 0; k < a.n_partials; k++)
            sum = fma((float16)(weight[a.first_weight + k]), vload16(0, partial + (ulong)k * a.dim + i), sum);
        vstore16(vload16(0, out + i) + sum, 0, out + i);
    }
#endif
    for (; i < a.dim; i += NORM_TOGETHER * ROW_LANES) {
        float sum[NORM_TOGETHER];
        UNROLL
        for (uint j = 0; j < NORM_TOGETHER; j++)
            sum[j] = 0;
        UNROLL_4
        for (uint k = 0; k < a.n_partials; k++)
            UNROLL
            for (uint j = 0; j < NORM_TOGETHER; j++)
                sum[j] = fma(weight[a.first_weight + k], partial[(ulong)k * a.dim + min(i + j * ROW_LANES, a.dim - 1)], sum[j]);
        UNROLL
        for (uint j = 0; j < NORM_TOGETHER; j++)
            if (i + j * ROW_LANES < a.dim)
                out[i + j * ROW_LANES] += sum[j];
    }
    struct normed_row row = {(__global const float *)(norms + a.norm), a.dim, a.eps, a.plus_one};
    norm_row(&row, out, y, ROW_LANES, sums);
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
// Groups: x over parts, y over rows.
__kernel GROUP_SIZE(ROW_LANES, 1) void kv_append(const struct args_kv_append a, const struct tiling t,
                                                 __global const uchar *norms, __global const float *inv_freq,
                                                 __global const float *x, __global void *cache, __global float *q)
{
    __local float sums[NORM_SUMS];
    if (get_group_id(1) < a.n_rows)
        append_part(&a, get_group_id(0), get_group_id(1), norms, inv_freq, x, cache, q, sums);
}
#endif
