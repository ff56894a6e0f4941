// SPDX-License-Identifier: GPL-3.0-or-later
// RMSNorm: a work-group per row.

#if SHAPE_CPU
#define NORM_LANES 1
#else
#define NORM_LANES 256
#endif

__kernel GROUP_SIZE(NORM_LANES, 1) void rmsnorm(const struct args_rmsnorm a, const struct tiling t,
                                                __global const uchar *weights, __global const float *x,
                                                __global float *y)
{
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    __global const ushort *weight = (__global const ushort *)(weights + a.weight);
    __global const float *in = x + (ulong)r * a.in_stride + a.in_offset;
    __global float *out = y + (ulong)r * a.out_stride + a.out_offset;
#if SHAPE_CPU
    float16 lanes = 0;
    uint whole = a.dim / 16;
    for (uint i = 0; i < whole; i++) {
        float16 v = vload16(i, in);
        lanes = fma(v, v, lanes);
    }
    float sum = sum16(lanes);
    for (uint i = 16 * whole; i < a.dim; i++)
        sum = fma(in[i], in[i], sum);
    float scale = 1.0f / sqrt(sum / (float)a.dim + a.eps);
    for (uint i = 0; i < whole; i++)
        vstore16(as_float16(convert_uint16(vload16(i, weight)) << 16) * (vload16(i, in) * scale), i, out);
    for (uint i = 16 * whole; i < a.dim; i++)
        out[i] = bf16(weight[i]) * (in[i] * scale);
#else
    __local float sums[NORM_LANES];
    uint lane = get_local_id(0);
    float sum = 0;
    for (uint i = lane; i < a.dim; i += NORM_LANES)
        sum = fma(in[i], in[i], sum);
    sums[lane] = sum;
    for (uint half_of = NORM_LANES / 2; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_of)
            sums[lane] += sums[lane + half_of];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float scale = 1.0f / sqrt(sums[0] / (float)a.dim + a.eps);
    for (uint i = lane; i < a.dim; i += NORM_LANES)
        out[i] = bf16(weight[i]) * (in[i] * scale);
#endif
}
