// SPDX-License-Identifier: GPL-3.0-or-later
// Element-wise ops. Groups: x over a row's elements, y over rows. GPU: a work-item per element; CPU: a work-item goes
// through ELEMENTS_GROUP of them in vectors. FOR_ELEMENTS runs `vector` for 16 elements from i on, `scalar` for one.

#if SHAPE_CPU
#define ELEMENT_ITEMS 1
#define FOR_ELEMENTS(n, vector, scalar)                                                                                \
    {                                                                                                                  \
        uint i = get_group_id(0) * ELEMENTS_GROUP;                                                                     \
        uint end = min(i + ELEMENTS_GROUP, n);                                                                         \
        for (; i + 16 <= end; i += 16)                                                                                 \
            vector;                                                                                                    \
        for (; i < end; i++)                                                                                           \
            scalar;                                                                                                    \
    }
#else
#define ELEMENT_ITEMS ELEMENTS_GROUP
#define FOR_ELEMENTS(n, vector, scalar)                                                                                \
    {                                                                                                                  \
        uint i = get_global_id(0);                                                                                     \
        if (i < n)                                                                                                     \
            scalar;                                                                                                    \
    }
#endif

#if BUILD_PARTS & PART_ELEMENTS
// A work-item turns one pair of a block of heads: z counts blocks of rows_per_group heads.
__kernel GROUP_SIZE(32, 1) void rope(const struct args_rope a, const struct tiling t, __global const float *inv_freq,
                                     __global float *x)
{
    uint j = get_global_id(0);
    uint r = get_global_id(1);
    if (r >= a.n_rows || j >= a.rope_dim / 2)
        return;
    float2 turn = cos_sin((float)(a.position + r) * inv_freq[j]) * a.scale;
    uint first = a.interleaved ? 2 * j : j;
    uint second = a.interleaved ? 2 * j + 1 : j + a.rope_dim / 2;
    uint head = get_global_id(2) * t.rows_per_group;
    uint end = min(head + t.rows_per_group, a.n_heads);
    for (; head < end; head++) {
        __global float *pair = x + (ulong)r * a.row_stride + (ulong)head * a.head_stride + a.offset;
        float2 turned = turn_pair((float2)(pair[first], pair[second]), turn);
        pair[first] = turned.x;
        pair[second] = turned.y;
    }
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENT_ITEMS, 1) void gather(const struct args_gather a, const struct tiling t,
                                                  __global const float *x, __global const int *index,
                                                  __global float *out)
{
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    __global const float *from = x + (ulong)index[a.first + r] * a.dim;
    __global float *to = out + (ulong)r * a.dim;
    FOR_ELEMENTS(a.dim, vstore16(vload16(0, from + i), 0, to + i), to[i] = from[i])
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
// The first of the launch's rows with an index adds up all of them.
__kernel GROUP_SIZE(ELEMENT_ITEMS, 1) void scatter_add(const struct args_gather a, const struct tiling t,
                                                       __global const float *y, __global const int *index,
                                                       __global const float *weight, __global const uint *chain,
                                                       __global float *out)
{
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    uint k = a.first + r;
    uint end = a.first + a.n_rows;
    uint before = chain[2 * k];
    if (before >= a.first && before < k)
        return;
    __global float *to = out + (ulong)index[k] * a.dim;
    for (; k < end; k = chain[2 * k + 1]) {
        float w = weight[k];
        __global const float *from = y + ((ulong)a.row + k - a.first) * a.dim;
        FOR_ELEMENTS(a.dim, vstore16(fma((float16)(w), vload16(0, from + i), vload16(0, to + i)), 0, to + i),
                     to[i] = fma(w, from[i], to[i]))
    }
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void silu_product(const struct args_silu_product a, const struct tiling t,
                                                         __global const float *gate, __global const int *ids,
                                                         __global float *y)
{
    uint i = get_global_id(0);
    uint k = get_global_id(1);
    if (i >= a.dim)
        return;
    uint row = a.at.n ? expert_at(&a.at, ids, k).rank : k;
    ulong at = (ulong)row * a.out_stride + a.out_offset + i;
    y[at] = swiglu(gate[at], y[at], LIMITS(a));
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void gate_product(const struct args_gate_product a, const struct tiling t,
                                                         __global const float *gate, __global float *y)
{
    uint i = get_global_id(0);
    uint r = get_global_id(1);
    if (r >= a.n_rows || i >= a.n_heads * a.dim)
        return;
    ulong from = (ulong)r * a.gate_stride + a.gate_offset + (ulong)(i / a.dim) * a.gate_head_stride;
    y[(ulong)r * a.stride + a.offset + i] *= sigmoid(gate[from + (a.one_each ? 0 : i % a.dim)]);
}
#endif

#if SHAPE_CPU
// Tap j of sixteen channels.
static float16 taps_of(__global const float *weight, uint j)
{
    weight += j;
    return (float16)(weight[0], weight[4], weight[8], weight[12], weight[16], weight[20], weight[24], weight[28],
                     weight[32], weight[36], weight[40], weight[44], weight[48], weight[52], weight[56], weight[60]);
}

static void conv_sixteen(const struct args_short_conv *a, uint c, __global const float *weight,
                         __global const float *x, __global const float *from, __global float *to, __global float *y)
{
    float16 taps[CONV_TAPS];
    UNROLL
    for (uint j = 0; j < CONV_TAPS; j++)
        taps[j] = taps_of(weight + (ulong)c * CONV_TAPS, j);
    float16 first = vload16(0, from + c);
    float16 second = vload16(0, from + a->channels + c);
    float16 third = vload16(0, from + 2 * (ulong)a->channels + c);
    for (uint r = 0; r < a->n_rows; r++) {
        float16 last = vload16(0, x + (ulong)r * a->in_stride + c);
        float16 sum = fma(taps[3], last, fma(taps[2], third, fma(taps[1], second, taps[0] * first)));
        vstore16(sum / (1.0f + exp16(-sum)), 0, y + (ulong)r * a->out_stride + c);
        first = second;
        second = third;
        third = last;
    }
    vstore16(first, 0, to + c);
    vstore16(second, 0, to + a->channels + c);
    vstore16(third, 0, to + 2 * (ulong)a->channels + c);
}
#endif

// Channel c of rows first .. end - 1; the last rows leave the history.
static void conv_one(const struct args_short_conv *a, uint c, uint2 rows, __global const float *weight,
                     __global const float *x, __global const float *from, __global float *to, __global float *y)
{
    float4 taps = vload4(c, weight);
    float seen[CONV_TAPS - 1];
    UNROLL
    for (uint j = 0; j < CONV_TAPS - 1; j++)
        seen[j] = rows.x ? x[(ulong)(rows.x + j - (CONV_TAPS - 1)) * a->in_stride + c] : from[(ulong)j * a->channels + c];
    for (uint r = rows.x; r < rows.y; r++) {
        float last = x[(ulong)r * a->in_stride + c];
        float sum = fma(taps.w, last, fma(taps.z, seen[2], fma(taps.y, seen[1], taps.x * seen[0])));
        y[(ulong)r * a->out_stride + c] = silu(sum);
        seen[0] = seen[1];
        seen[1] = seen[2];
        seen[2] = last;
    }
    if (rows.y < a->n_rows)
        return;
    UNROLL
    for (uint j = 0; j < CONV_TAPS - 1; j++)
        to[(ulong)j * a->channels + c] = seen[j];
}

#if BUILD_PARTS & PART_STATES
// Groups: x over blocks of ELEMENTS_GROUP channels, y over blocks of rows_per_group rows.
__kernel GROUP_SIZE(ELEMENT_ITEMS, 1) void short_conv(const struct args_short_conv a, const struct tiling t,
                                                      __global const uchar *weights, __global const float *x,
                                                      __global const float *from, __global float *to, __global float *y)
{
    if (a.n_rows == 0)
        return;
    __global const float *weight = (__global const float *)(weights + a.weight);
    x += a.in_offset;
    y += a.out_offset;
    from += a.from;
    to += a.to;
    uint2 rows = (uint2)(get_group_id(1) * t.rows_per_group, min((uint)(get_group_id(1) + 1) * t.rows_per_group, a.n_rows));
    FOR_ELEMENTS(a.channels, conv_sixteen(&a, i, weight, x, from, to, y), conv_one(&a, i, rows, weight, x, from, to, y))
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void combine(const struct args_combine a, const struct tiling t,
                                                    __global const float *partial, __global const float *weight,
                                                    __global float *out)
{
    uint i = get_global_id(0);
    if (i >= a.dim)
        return;
    float sum = 0;
    for (uint k = 0; k < a.n_partials; k++)
        sum = fma(weight[a.first_weight + k], partial[(ulong)k * a.dim + i], sum);
    out[i] += sum;
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void copy(const struct args_copy a, const struct tiling t,
                                                 __global const float *src, __global float *dst)
{
#if SHAPE_CPU
    ulong end = a.bytes / 64;
    for (ulong i = get_global_id(0); i < end; i += get_global_size(0))
        vstore16(vload16(i, src), i, dst);
#else // neighbouring lanes take neighbouring 16 bytes
    ulong end = a.bytes / 16;
    for (ulong i = get_global_id(0); i < end; i += get_global_size(0))
        vstore4(vload4(i, src), i, dst);
#endif
}
#endif

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void clear(const struct args_clear a, const struct tiling t, __global float *y)
{
    for (ulong i = get_global_id(0); i < a.n; i += get_global_size(0))
        y[a.first + i] = 0;
}
#endif
