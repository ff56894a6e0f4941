// SPDX-License-Identifier: GPL-3.0-or-later
// Grouped attention, plainly: a work-item goes through the positions of a row's head, softmax kept running.

__kernel GROUP_SIZE(1, 1) void gqa(const struct args_gqa a, const struct tiling t, __global const float *q,
                                   __global const void *cache, __global float *out)
{
    uint h = get_group_id(0);
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    __global const float *query = q + (ulong)r * a.q_stride + a.q_offset + (ulong)h * a.q_head_stride;
    __global float *to = out + ((ulong)r * a.n_heads + h) * a.head_dim;
    uint kv_head = h / (a.n_heads / a.n_kv_heads);
    float sums[MOST_HEAD_DIM];
    for (uint i = 0; i < a.head_dim; i++)
        sums[i] = 0;
    float largest = -INFINITY;
    float total = 0;
    for (uint p = 0; p <= a.position + r; p++) {
        ulong key = ((ulong)p * 2 * a.n_kv_heads + kv_head) * a.head_dim;
        ulong value = key + (ulong)a.n_kv_heads * a.head_dim;
        float score = 0;
        for (uint i = 0; i < a.head_dim; i++)
            score = fma(query[i], cache_at(cache, a.kv_type, key + i), score);
        score *= a.softmax_scale;
        float most = fmax(largest, score);
        float factor = exp_near(largest - most);
        float weight = exp_near(score - most);
        largest = most;
        total = fma(total, factor, weight);
        for (uint i = 0; i < a.head_dim; i++)
            sums[i] = fma(weight, cache_at(cache, a.kv_type, value + i), sums[i] * factor);
    }
    for (uint i = 0; i < a.head_dim; i++)
        to[i] = sums[i] / total;
}
