// SPDX-License-Identifier: GPL-3.0-or-later
// Hyper-connections: HYPER_STREAMS residual streams a token, side by side, which are mixed with each other and with what
// sublayers say. A row's parts are `post` [4] and `comb` [4][4], as hyper_mix leaves them.

#if SHAPE_CPU
#define HYPER_ITEMS 1
#else
#define HYPER_ITEMS NORM_LANES
#endif

// What becomes of one element of the four streams, `apart` apart: by streams.
static float4 hyper_spread_one(__global const float *part, uint begins, float out, __global const float *from, uint apart)
{
    if (begins)
        return (float4)(out);
    float4 sum = vload4(0, part) * out;
    sum = fma(vload4(1, part), (float4)(from[0]), sum);
    sum = fma(vload4(2, part), (float4)(from[apart]), sum);
    sum = fma(vload4(3, part), (float4)(from[2 * (ulong)apart]), sum);
    return fma(vload4(4, part), (float4)(from[3 * (ulong)apart]), sum);
}

// Sixteen elements.
struct hyper_sixteen {
    float16 of[HYPER_STREAMS];
};

static struct hyper_sixteen hyper_spread_sixteen(__global const float *part, uint begins, float16 out,
                                                 __global const float *from, uint apart)
{
    struct hyper_sixteen sums;
    for (uint j = 0; j < HYPER_STREAMS; j++) {
        sums.of[j] = begins ? out : part[j] * out;
        for (uint i = 0; !begins && i < HYPER_STREAMS; i++)
            sums.of[j] = fma((float16)(part[HYPER_STREAMS * (i + 1) + j]), vload16(0, from + i * (ulong)apart), sums.of[j]);
    }
    return sums;
}

static void hyper_put_one(const struct args_hyper_spread *a, __global const float *part, __global float *out,
                          __global const float *from, __global float *to)
{
    float4 sum = hyper_spread_one(part, a->begins, *out, from, a->dim);
    to[0] = sum.x;
    to[a->dim] = sum.y;
    to[2 * (ulong)a->dim] = sum.z;
    to[3 * (ulong)a->dim] = sum.w;
    if (!a->keep)
        *out = 0;
}

#if SHAPE_CPU
static void hyper_put_sixteen(const struct args_hyper_spread *a, __global const float *part, __global float *out,
                              __global const float *from, __global float *to)
{
    struct hyper_sixteen sums = hyper_spread_sixteen(part, a->begins, vload16(0, out), from, a->dim);
    for (uint j = 0; j < HYPER_STREAMS; j++)
        vstore16(sums.of[j], 0, to + j * (ulong)a->dim);
    if (!a->keep)
        vstore16((float16)(0), 0, out);
}
#endif

#if BUILD_PARTS & PART_STREAMS
// Groups: x over elements, y over rows.
__kernel GROUP_SIZE(ELEMENT_ITEMS, 1) void hyper_spread(const struct args_hyper_spread a, const struct tiling t,
                                                        __global const float *parts, __global float *out,
                                                        __global const float *from, __global float *to)
{
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    parts += (ulong)(a.first + r) * HYPER_PARTS;
    out += (ulong)(a.first + r) * a.dim;
    from += (ulong)(a.first + r) * HYPER_STREAMS * a.dim;
    to += (ulong)(a.to + r) * HYPER_STREAMS * a.dim;
    FOR_ELEMENTS(a.dim, hyper_put_sixteen(&a, parts, out + i, from + i, to + i),
                 hyper_put_one(&a, parts, out + i, from + i, to + i))
}
#endif

static float hyper_mean_of(float4 four)
{
    return ((four.x + four.z) + (four.y + four.w)) * 0.25f;
}

#if SHAPE_CPU
static float16 hyper_mean_of_sixteen(struct hyper_sixteen sums)
{
    return ((sums.of[0] + sums.of[2]) + (sums.of[1] + sums.of[3])) * 0.25f;
}
#endif

#if BUILD_PARTS & PART_STREAMS
// The same groups.
__kernel GROUP_SIZE(ELEMENT_ITEMS, 1) void hyper_mean(const struct args_hyper_spread a, const struct tiling t,
                                                      __global const float *parts, __global const float *out,
                                                      __global const float *from, __global float *y)
{
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    parts += (ulong)(a.first + r) * HYPER_PARTS;
    out += (ulong)(a.first + r) * a.dim;
    from += (ulong)(a.first + r) * HYPER_STREAMS * a.dim;
    y += (ulong)(a.to + r) * a.dim;
    FOR_ELEMENTS(a.dim,
                 vstore16(hyper_mean_of_sixteen(hyper_spread_sixteen(parts, a.begins, vload16(0, out + i), from + i, a.dim)),
                          0, y + i),
                 y[i] = hyper_mean_of(hyper_spread_one(parts, a.begins, out[i], from + i, a.dim)))
}
#endif

// `steps` steps of Sinkhorn's, each rows and columns; rows of comb are vectors.
static void hyper_balance(float4 *comb, float eps, uint steps)
{
    float4 sums = (comb[0] + comb[1]) + (comb[2] + comb[3]) + eps;
    UNROLL
    for (uint i = 0; i < HYPER_STREAMS; i++)
        comb[i] /= sums;
    for (uint step = 0; step < steps; step++) {
        UNROLL
        for (uint i = 0; i < HYPER_STREAMS; i++)
            comb[i] *= 1.0f / ((comb[i].x + comb[i].y) + (comb[i].z + comb[i].w) + eps);
        sums = 1.0f / ((comb[0] + comb[1]) + (comb[2] + comb[3]) + eps);
        UNROLL
        for (uint i = 0; i < HYPER_STREAMS; i++)
            comb[i] *= sums;
    }
}

static float4 hyper_softmax(float4 x)
{
    float largest = fmax(fmax(x.x, x.y), fmax(x.z, x.w));
    float4 e = (float4)(exp_near(x.x - largest), exp_near(x.y - largest), exp_near(x.z - largest),
                        exp_near(x.w - largest));
    return e / ((e.x + e.y) + (e.z + e.w));
}

#if BUILD_PARTS & PART_STREAMS
// Groups: x over rows.
__kernel GROUP_SIZE(HYPER_ITEMS, 1) void hyper_mix(const struct args_hyper_mix a, const struct tiling t,
                                                 __global const uchar *bases, __global const uchar *scales,
                                                 __global const float *streams, __global const float *logits,
                                                 __global float *parts, __global float *y)
{
    __local float sums[NORM_SUMS];
    __local float shares[HYPER_STREAMS];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    uint item = get_local_id(0);
    ulong row = a.first + r;
    __global const float *base = (__global const float *)(bases + a.base);
    __global const float *scale = (__global const float *)(scales + a.scale);
    streams += row * HYPER_STREAMS * a.dim;
    logits += row * HYPER_LOGITS;
    parts += row * HYPER_PARTS;
    y += row * a.dim;
    struct normed_row all = {streams, HYPER_STREAMS * a.dim, a.norm_eps, 0};
    float norm = row_scale(&all, streams, HYPER_ITEMS, sums);
    float4 pre = fma(vload4(0, logits) * norm, (float4)(scale[0]), vload4(0, base));
    float4 post = fma(vload4(1, logits) * norm, (float4)(scale[1]), vload4(1, base));
    float4 comb[HYPER_STREAMS];
    UNROLL
    for (uint i = 0; i < HYPER_STREAMS; i++)
        comb[i] = hyper_softmax(fma(vload4(2 + i, logits) * norm, (float4)(scale[2]), vload4(2 + i, base))) + a.eps;
    pre = (float4)(sigmoid(pre.x), sigmoid(pre.y), sigmoid(pre.z), sigmoid(pre.w)) + a.eps;
    post = 2.0f * (float4)(sigmoid(post.x), sigmoid(post.y), sigmoid(post.z), sigmoid(post.w));
    hyper_balance(comb, a.eps, item < 32 ? a.steps : 0); // whoever doesn't write needn't
    if (item == 0) {
        vstore4(post, 0, parts);
        UNROLL
        for (uint i = 0; i < HYPER_STREAMS; i++)
            vstore4(comb[i], 1 + i, parts);
        vstore4(pre, 0, shares);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint i = item;
#if SHAPE_CPU
    for (; i + 16 <= a.dim; i += 16) {
        float16 sum = shares[0] * vload16(0, streams + i);
        for (uint j = 1; j < HYPER_STREAMS; j++)
            sum = fma((float16)(shares[j]), vload16(0, streams + j * (ulong)a.dim + i), sum);
        vstore16(sum, 0, y + i);
    }
#endif
    for (; i < a.dim; i += HYPER_ITEMS) {
        float sum = shares[0] * streams[i];
        UNROLL
        for (uint j = 1; j < HYPER_STREAMS; j++)
            sum = fma(shares[j], streams[j * (ulong)a.dim + i], sum);
        y[i] = sum;
    }
}
#endif
