// SPDX-License-Identifier: GPL-3.0-or-later
// Attention residuals: what a sublayer reads is a mixture of the residual stream and of what it was at earlier layers.

#if SHAPE_CPU
#define BANK_ITEMS 1
#else
#define BANK_ITEMS NORM_LANES
#endif

// The sums of squares of one vector and of its products with norm and proj, the same in each work-item.
static float2 bank_sums(__global const float *u, __global const float *norm, __global const float *proj, uint dim,
                        __local float2 *sums)
{
#if SHAPE_CPU
    float16 squares = 0, products = 0;
    uint i = 0;
    for (; i + 16 <= dim; i += 16) {
        float16 v = vload16(0, u + i);
        squares = fma(v, v, squares);
        products = fma(v, vload16(0, norm + i) * vload16(0, proj + i), products);
    }
    float2 sum = (float2)(sum16(squares), sum16(products));
    for (; i < dim; i++)
        sum = fma((float2)(u[i]), (float2)(u[i], norm[i] * proj[i]), sum);
    return sum;
#else
    float2 own = 0;
    for (uint i = get_local_id(0); i < dim; i += BANK_ITEMS)
        own = fma((float2)(u[i]), (float2)(u[i], norm[i] * proj[i]), own);
    barrier(CLK_LOCAL_MEM_FENCE); // the sums of the vector before have been read
    sums[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    __local float2 *shares = sums + NORM_LANES;
    float2 sum = 0;
    uint share = get_local_id(0) % NORM_SHARES;
    for (uint i = share; i < NORM_LANES; i += NORM_SHARES)
        sum += sums[i];
    shares[share] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    for (uint i = 0; i < NORM_SHARES; i++)
        sum += shares[i];
    return sum;
#endif
}

#if BUILD_PARTS & PART_STREAMS
// Groups: x over rows.
__kernel GROUP_SIZE(BANK_ITEMS, 1) void bank_mix(const struct args_bank_mix a, const struct tiling t,
                                                 __global const uchar *norms, __global const uchar *projs,
                                                 __global float *x, __global float *bank, __global float *y)
{
    __local float2 sums[NORM_LANES + NORM_SHARES];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    __global const float *norm = (__global const float *)(norms + a.norm);
    __global const float *proj = (__global const float *)(projs + a.proj);
    x += (ulong)(a.first + r) * a.dim;
    bank += (ulong)(a.first + r) * a.most * a.dim;
    y += (ulong)(a.to + r) * a.dim;
    float share[MOST_BANK + 1];
    float largest = -INFINITY, total = 0;
    for (uint j = 0; j <= a.n; j++) {
        float2 sum = bank_sums(j < a.n ? bank + (ulong)j * a.dim : x, norm, proj, a.dim, sums);
        share[j] = sum.y / sqrt(sum.x / (float)a.dim + a.eps);
        largest = fmax(largest, share[j]);
    }
    for (uint j = 0; j <= a.n; j++) {
        share[j] = exp_near(share[j] - largest);
        total += share[j];
    }
    for (uint j = 0; j <= a.n; j++)
        share[j] /= total;
    uint i = get_local_id(0);
#if SHAPE_CPU
    for (; i + 16 <= a.dim; i += 16) {
        float16 own = vload16(0, x + i), sum = 0;
        for (uint j = 0; j < a.n; j++)
            sum = fma((float16)(share[j]), vload16(0, bank + (ulong)j * a.dim + i), sum);
        vstore16(fma((float16)(share[a.n]), own, sum), 0, y + i);
        if (a.appends) {
            vstore16(own, 0, bank + (ulong)a.n * a.dim + i);
            vstore16((float16)(0), 0, x + i);
        }
    }
#endif
    for (; i < a.dim; i += BANK_ITEMS) {
        float own = x[i], sum = 0;
        for (uint j = 0; j < a.n; j++)
            sum = fma(share[j], bank[(ulong)j * a.dim + i], sum);
        y[i] = fma(share[a.n], own, sum);
        if (a.appends) {
            bank[(ulong)a.n * a.dim + i] = own;
            x[i] = 0;
        }
    }
}
#endif
