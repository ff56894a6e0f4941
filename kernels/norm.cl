// SPDX-License-Identifier: GPL-3.0-or-later
// RMSNorm: a work-group per row; alone, after the sum of a token's experts, and on the way into the cache.

#if SHAPE_CPU
#define ROW_LANES 1
#define NORM_TOGETHER 1
#else
#define ROW_LANES NORM_LANES
#define NORM_TOGETHER 4 // elements that a work-item sums side by side
#endif
#define NORM_SHARES 32

struct normed_row {
    __global const float *weight;
    uint dim;
    float eps;
    uint plus_one;
};

static float weight_at(const struct normed_row *row, uint i)
{
    return row->plus_one ? 1.0f + row->weight[i] : row->weight[i];
}

#if !SHAPE_CPU
// In two steps: NORM_SHARES work-items add up a share each, as do all others again, for loops in branches go wrong in
// PoCL 3.1; then each adds up the shares.
static float sum_of_lanes(float own, __local float *sums)
{
    __local float *shares = sums + ROW_LANES;
    uint share = get_local_id(0) % NORM_SHARES;
    sums[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    UNROLL
    for (uint i = share; i < ROW_LANES; i += NORM_SHARES)
        sum += sums[i];
    shares[share] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    UNROLL
    for (uint i = 0; i < NORM_SHARES; i++)
        sum += shares[i];
    return sum;
}
#endif

// `in` may be what this work-item has just written: each reads its own elements only.
static void norm_row(const struct normed_row *row, __global const float *in, __global float *out, __local float *sums)
{
    uint dim = row->dim;
#if SHAPE_CPU
    uint whole = dim / 16;
    float sum = sum_of_squares(in, dim);
    float scale = 1.0f / sqrt(sum / (float)dim + row->eps);
    for (uint i = 0; i < whole; i++) {
        float16 weight = vload16(i, row->weight);
        vstore16((row->plus_one ? 1.0f + weight : weight) * (vload16(i, in) * scale), i, out);
    }
    for (uint i = 16 * whole; i < dim; i++)
        out[i] = weight_at(row, i) * (in[i] * scale);
#else
    uint lane = get_local_id(0);
    float sum = 0;
    UNROLL_4
    for (uint i = lane; i < dim; i += ROW_LANES)
        sum = fma(in[i], in[i], sum);
    float scale = 1.0f / sqrt(sum_of_lanes(sum, sums) / (float)dim + row->eps);
    UNROLL_4
    for (uint i = lane; i < dim; i += ROW_LANES)
        out[i] = weight_at(row, i) * (in[i] * scale);
#endif
}

__kernel GROUP_SIZE(ROW_LANES, 1) void rmsnorm(const struct args_rmsnorm a, const struct tiling t,
                                               __global const uchar *weights, __global const float *x,
                                               __global float *y)
{
    __local float sums[ROW_LANES + NORM_SHARES];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    struct normed_row row = {(__global const float *)(weights + a.weight), a.dim, a.eps, a.plus_one};
    norm_row(&row, x + (ulong)r * a.in_stride + a.in_offset, y + (ulong)r * a.out_stride + a.out_offset, sums);
}

__kernel GROUP_SIZE(ROW_LANES, 1) void combine_norm(const struct args_combine_norm a, const struct tiling t,
                                                    __global const uchar *norms, __global const float *partial,
                                                    __global const float *weight, __global float *out,
                                                    __global float *y)
{
    __local float sums[ROW_LANES + NORM_SHARES];
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
    norm_row(&row, out, y, sums);
}

// A group makes a row of the cache.
__kernel GROUP_SIZE(ROW_LANES, 1) void kv_append(const struct args_kv_append a, const struct tiling t,
                                                 __global const uchar *norms, __global const float *inv_freq,
                                                 __global float *x, __global void *cache)
{
    __local float sums[ROW_LANES + NORM_SHARES];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    __global float *from = x + (ulong)r * a.in_stride;
    ulong at = (ulong)(a.position + r) * (a.kv_lora_rank + a.rope_dim);
    struct normed_row row = {(__global const float *)(norms + a.norm), a.kv_lora_rank, a.eps, 0};
    norm_row(&row, from, from, sums);
    uint i = get_local_id(0);
#if SHAPE_CPU
    for (; i + 16 <= a.kv_lora_rank; i += 16) {
        if (a.kv_type == KV_F32)
            vstore16(vload16(0, from + i), 0, (__global float *)cache + at + i);
        else
            vstore_half16_rte(vload16(0, from + i), 0, (__global half *)cache + at + i);
    }
#else
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
    for (; i < a.kv_lora_rank; i += ROW_LANES)
        cache_put(cache, a.kv_type, at + i, from[i]);
    at += a.kv_lora_rank;
    from += a.kv_lora_rank;
    for (uint j = get_local_id(0); a.no_rope && j < a.rope_dim; j += ROW_LANES)
        cache_put(cache, a.kv_type, at + j, from[j]);
    for (uint j = get_local_id(0); !a.no_rope && j < a.rope_dim / 2; j += ROW_LANES) {
        uint first = a.interleaved ? 2 * j : j;
        uint second = a.interleaved ? 2 * j + 1 : j + a.rope_dim / 2;
        float2 turn = cos_sin((float)(a.position + r) * inv_freq[j]) * a.scale;
        float2 turned = turn_pair((float2)(from[first], from[second]), turn);
        cache_put(cache, a.kv_type, at + first, turned.x);
        cache_put(cache, a.kv_type, at + second, turned.y);
    }
}
