// SPDX-License-Identifier: GPL-3.0-or-later
// Norms of heads: a work-group per head of a row; with a gate, and on the way into grouped attention.

#if SHAPE_CPU
#define HEAD_ITEMS 1
#else
#define HEAD_ITEMS HEAD_LANES
#endif

// 1 / sqrt(mean(in^2) + eps), the same in every work-item of the group.
static float norm_scale(__global const float *in, uint dim, float eps, __local float *sums)
{
#if SHAPE_CPU
    float sum = sum_of_squares(in, dim);
#else
    float own = 0;
    for (uint i = get_local_id(0); i < dim; i += HEAD_ITEMS)
        own = fma(in[i], in[i], own);
    sums[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    float parts[4] = {0, 0, 0, 0};
    UNROLL
    for (uint i = 0; i < HEAD_ITEMS; i += 4)
        UNROLL
        for (uint j = 0; j < 4; j++)
            parts[j] += sums[i + j];
    float sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
#endif
    return 1.0f / sqrt(sum / (float)dim + eps);
}

#if BUILD_PARTS & PART_STATES
__kernel GROUP_SIZE(HEAD_ITEMS, 1) void gated_norm(const struct args_gated_norm a, const struct tiling t,
                                                   __global const uchar *weights, __global const float *x,
                                                   __global const float *gates, __global float *y)
{
    __local float sums[HEAD_ITEMS];
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    ulong head = get_group_id(0) * a.dim;
    __global const float *in = x + (ulong)r * a.in_stride + a.in_offset + head;
    __global const float *gate = gates + (ulong)r * a.gate_stride + a.gate_offset + head;
    __global const float *weight = (__global const float *)(weights + a.weight);
    __global float *out = y + (ulong)r * a.out_stride + a.out_offset + head;
    float scale = norm_scale(in, a.dim, a.eps, sums);
    uint i = get_local_id(0);
#if SHAPE_CPU
    for (; i + 16 <= a.dim; i += 16) {
        float16 z = vload16(0, gate + i);
        float16 act = (a.act == GATE_SILU ? z : 1.0f) / (1.0f + exp16(-z));
        vstore16(vload16(0, weight + i) * (vload16(0, in + i) * scale) * act, 0, out + i);
    }
#endif
    for (; i < a.dim; i += HEAD_ITEMS) {
        float act = a.act == GATE_SILU ? silu(gate[i]) : sigmoid(gate[i]);
        out[i] = weight[i] * (in[i] * scale) * act;
    }
}
#endif

// A head's way: normed, turned, written: q to where it was, keys into the cache. Pairs go together, so that a work-item
// reads only what it writes itself.
struct head_way {
    __global float *in;
    __global const float *weight;
    __global void *cache;
    ulong at; // in the cache
    float scale;
    uint to_cache;
};

static float normed_at(const struct args_gqa_append *a, const struct head_way *way, uint i)
{
    float weight = a->plus_one ? 1.0f + way->weight[i] : way->weight[i];
    return weight * (way->in[i] * way->scale);
}

static void head_put(const struct args_gqa_append *a, const struct head_way *way, uint i, float value)
{
    if (way->to_cache)
        cache_put(way->cache, a->kv_type, way->at + i, value);
    else
        way->in[i] = value;
}

#if BUILD_PARTS & PART_GROUPS
// Groups: x over heads of q, keys and values, y over rows.
__kernel GROUP_SIZE(HEAD_ITEMS, 1) void gqa_append(const struct args_gqa_append a, const struct tiling t,
                                                   __global const uchar *q_norm, __global const uchar *k_norm,
                                                   __global const float *inv_freq, __global float *q,
                                                   __global float *kv, __global void *cache)
{
    __local float sums[HEAD_ITEMS];
    uint r = get_group_id(1);
    uint h = get_group_id(0);
    if (r >= a.n_rows)
        return;
    uint kv_head = h - a.n_heads; // of keys, then of values
    struct head_way way;
    way.to_cache = h >= a.n_heads;
    way.cache = cache;
    way.at = ((ulong)(a.position + r) * 2 * a.n_kv_heads + (way.to_cache ? kv_head : 0)) * a.head_dim;
    uint is_value = way.to_cache && kv_head >= a.n_kv_heads;
    __global float *row = kv + (ulong)r * a.kv_stride;
    way.in = is_value       ? row + a.v_offset + (kv_head - a.n_kv_heads) * a.head_dim
             : way.to_cache ? row + a.k_offset + kv_head * a.head_dim
                            : q + (ulong)r * a.q_stride + a.q_offset + (ulong)h * a.q_head_stride;
    way.weight = (__global const float *)(way.to_cache ? k_norm + a.k_norm : q_norm + a.q_norm);
    way.scale = norm_scale(way.in, a.head_dim, a.eps, sums);
    for (uint i = get_local_id(0); i < a.head_dim; i += HEAD_ITEMS) {
        uint j = i - a.rope_offset;
        uint turns = !is_value && i >= a.rope_offset && j < a.rope_dim;
        if (!turns)
            head_put(&a, &way, i, is_value ? way.in[i] : normed_at(&a, &way, i));
    }
    for (uint j = get_local_id(0); !is_value && j < a.rope_dim / 2; j += HEAD_ITEMS) {
        uint first = a.rope_offset + (a.interleaved ? 2 * j : j);
        uint second = a.rope_offset + (a.interleaved ? 2 * j + 1 : j + a.rope_dim / 2);
        float2 turn = cos_sin((float)(a.position + r) * inv_freq[j]) * a.scale;
        float2 turned = turn_pair((float2)(normed_at(&a, &way, first), normed_at(&a, &way, second)), turn);
        head_put(&a, &way, first, turned.x);
        head_put(&a, &way, second, turned.y);
    }
}
#endif
