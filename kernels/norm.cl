// SPDX-License-Identifier: GPL-3.0-or-later
// RMSNorm: a work-group per row; alone, and after the sum of a token's experts.

#if SHAPE_CPU
#define ROW_LANES 1
#else
#define ROW_LANES NORM_LANES
#endif

struct normed_row {
    __global const ushort *weight;
    uint dim;
    float eps;
};

// `in` may be what this work-item has just written: each reads its own elements only.
static void norm_row(const struct normed_row *row, __global const float *in, __global float *out, __local float *sums)
{
    __global const ushort *weight = row->weight;
    uint dim = row->dim;
#if SHAPE_CPU
    float16 lanes = 0;
    uint whole = dim / 16;
    for (uint i = 0; i < whole; i++) {
        float16 v = vload16(i, in);
        lanes = fma(v, v, lanes);
    }
    float sum = sum16(lanes);
    for (uint i = 16 * whole; i < dim; i++)
        sum = fma(in[i], in[i], sum);
    float scale = 1.0f / sqrt(sum / (float)dim + row->eps);
    for (uint i = 0; i < whole; i++)
        vstore16(as_float16(convert_uint16(vload16(i, weight)) << 16) * (vload16(i, in) * scale), i, out);
    for (uint i = 16 * whole; i < dim; i++)
        out[i] = bf16(weight[i]) * (in[i] * scale);
#else
    uint lane = get_local_id(0);
    float sum = 0;
    for (uint i = lane; i < dim; i += ROW_LANES)
        sum = fma(in[i], in[i], sum);
    sums[lane] = sum;
    for (uint half_of = ROW_LANES / 2; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_of)
            sums[lane] += sums[lane + half_of];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float scale = 1.0f / sqrt(sums[0] / (float)dim + row->eps);
    for (uint i = lane; i < dim; i += ROW_LANES)
        out[i] = bf16(weight[i]) * (in[i] * scale);
#endif
}

__kernel GROUP_SIZE(ROW_LANES, 1) void rmsnorm(const struct args_rmsnorm a, const struct tiling t,
                                               __global const uchar *weights, __global const float *x,
                                               __global float *y)
{
    __local float sums[ROW_LANES];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    struct normed_row row = {(__global const ushort *)(weights + a.weight), a.dim, a.eps};
    norm_row(&row, x + (ulong)r * a.in_stride + a.in_offset, y + (ulong)r * a.out_stride + a.out_offset, sums);
}

__kernel GROUP_SIZE(ROW_LANES, 1) void combine_norm(const struct args_combine_norm a, const struct tiling t,
                                                    __global const uchar *norms, __global const float *partial,
                                                    __global const float *weight, __global float *out,
                                                    __global float *y)
{
    __local float sums[ROW_LANES];
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
    for (; i < a.dim; i += ROW_LANES) {
        float sum = 0;
        for (uint k = 0; k < a.n_partials; k++)
            sum = fma(weight[a.first_weight + k], partial[(ulong)k * a.dim + i], sum);
        out[i] += sum;
    }
    struct normed_row row = {(__global const ushort *)(norms + a.norm), a.dim, a.eps};
    norm_row(&row, out, y, sums);
}
