// SPDX-License-Identifier: GPL-3.0-or-later
// The router's choice: a work-group per row. A place in the order is found by counting who comes before, so lanes need
// no contest among themselves.

#if SHAPE_CPU
#define LANES 1
#else
#define LANES ROUTER_LANES
#endif

// How many of n values come before number i: the larger ones, and equal ones of a lower index. n is a multiple of 4, or
// NaN fill it up, which come before nobody.
static uint rank_of(__local const float *values, uint n, uint i)
{
    float4 own = values[i];
    int4 before = 0;
    for (uint k = 0; k < n; k += 4) {
        float4 four = *(__local const float4 *)(values + k);
        int4 lower = (int4)(k, k + 1, k + 2, k + 3) < (int4)(i);
        before -= (four > own) | ((four == own) & lower);
    }
    return before.x + before.y + before.z + before.w;
}

// The sum of the two best, or the best alone.
static float group_score(uint topk_method, __local const float *values, uint n)
{
    float first = -INFINITY;
    float second = -INFINITY;
    for (uint i = 0; i < n; i++) {
        float v = values[i];
        second = fmax(second, fmin(first, v));
        first = fmax(first, v);
    }
    return topk_method == TOPK_NOAUX ? first + second : first;
}

struct router_space {
    float4 choice[MOST_ROUTED / 4];
    float4 group[MOST_ROUTED / 4];
    float score[MOST_ROUTED];
};

__kernel GROUP_SIZE(LANES, 1) void router(const struct args_router a, const struct tiling t,
                                          __global const float *logits, __global const uchar *biases,
                                          __global int *ids, __global float *weights)
{
    __local struct router_space space;
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    uint lane = get_local_id(0);
    uint n = a.n_experts;
    uint size = n / a.n_group;
    uint softmax = a.scoring == ROUTER_SOFTMAX;
    __global const float *logit = logits + (ulong)r * n;
    __global const float *bias = (__global const float *)(biases + a.bias);
    __local float *score = space.score;
    __local float *choice = (__local float *)space.choice;
    __local float *group = (__local float *)space.group;
    __global int *chosen = ids + a.first + (ulong)r * a.top_k;
    __global float *weight = weights + a.first + (ulong)r * a.top_k;
    float largest = -INFINITY;
    for (uint e = 0; softmax && e < n; e++)
        largest = fmax(largest, logit[e]);
    for (uint e = lane; e < n; e += LANES) {
        float s = softmax ? exp_near(logit[e] - largest) : sigmoid(logit[e]);
        float c = softmax ? logit[e] : s;
        if (a.has_bias)
            c += bias[e];
        score[e] = s;
        choice[e] = isnan(c) ? -INFINITY : c; // ids stay in range whatever comes in
    }
    for (uint i = lane; i < 4; i += LANES) { // what rank_of reads behind the last
        if (n + i < MOST_ROUTED)
            choice[n + i] = NAN;
        if (a.n_group + i < MOST_ROUTED)
            group[a.n_group + i] = NAN;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint g = lane; g < a.n_group; g += LANES)
        group[g] = group_score(a.topk_method, choice + g * size, size);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = lane; e < n; e += LANES)
        if (rank_of(group, a.n_group, e / size) >= a.topk_group)
            choice[e] = -INFINITY;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = lane; e < n; e += LANES) {
        uint rank = rank_of(choice, n, e);
        if (rank < a.top_k)
            chosen[rank] = (int)e;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    // Every lane for itself: PoCL 3.1 runs a loop of uniform length for all lanes even inside a branch for one.
    float total = softmax ? 0.0f : 1.0f;
    for (uint e = 0; softmax && e < n; e++)
        total += score[e];
    float sum = 1e-20f;
    for (uint k = 0; k < a.top_k; k++)
        sum += score[chosen[k]] / total;
    for (uint k = lane; k < a.top_k; k += LANES) {
        float s = score[chosen[k]] / total;
        weight[k] = (a.norm_topk_prob ? s / sum : s) * a.routed_scaling_factor;
    }
}
