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

__kernel GROUP_SIZE(ELEMENT_ITEMS, 1) void scatter_add(const struct args_gather a, const struct tiling t,
                                                       __global const float *y, __global const int *index,
                                                       __global const float *weight, __global float *out)
{
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    float w = weight[a.first + r];
    __global const float *from = y + ((ulong)a.row + r) * a.dim;
    __global float *to = out + (ulong)index[a.first + r] * a.dim;
    FOR_ELEMENTS(a.dim, vstore16(fma((float16)(w), vload16(0, from + i), vload16(0, to + i)), 0, to + i),
                 to[i] = fma(w, from[i], to[i]))
}

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
    y[at] = silu(gate[at]) * y[at];
}

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
