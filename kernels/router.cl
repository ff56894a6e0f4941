// SPDX-License-Identifier: GPL-3.0-or-later
// The router's choice (route.cl): a work-group per row.

#if BUILD_PARTS & PART_ELEMENTS
__kernel GROUP_SIZE(LANES, 1) void router(const struct args_router a, const struct tiling t,
                                          __global const float *logits, __global const uchar *biases,
                                          __global int *ids, __global float *weights)
{
    __local float4 choice[MOST_ROUTED / 4];
    __local float4 group[MOST_ROUTED / 4];
    __local float4 score[MOST_ROUTED / 4];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    struct router_space space = {(__local float *)choice, (__local float *)group, (__local float *)score,
                                 (__local int *)group, (__local float *)choice};
    route(&a, logits + (ulong)r * a.n_experts, (__global const float *)(biases + a.bias), &space);
    ulong first = a.first + (ulong)r * a.top_k;
    for (uint k = get_local_id(0); k < a.top_k; k += LANES) { // each its own
        ids[first + k] = space.ids[k];
        weights[first + k] = space.weights[k];
    }
}
#endif
