// SPDX-License-Identifier: GPL-3.0-or-later
// Decode attention's second half, for both shapes. The first half leaves, for each tile of ATTENTION_TILE positions and
// each head, kv_lora_rank unnormalised sums, the tile's largest score and the sum of its weights; here the tiles are
// merged in their order.

__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void attention_merge(const struct args_attention a, const struct tiling t,
                                                            __global const float *partials, __global float *out)
{
    uint c = get_global_id(0);
    uint h = get_group_id(1);
    if (h >= a.n_heads || c >= a.kv_lora_rank)
        return;
    uint width = a.kv_lora_rank + 2;
    float largest = -INFINITY;
    for (uint tile = 0; tile < t.n_tiles; tile++)
        largest = fmax(largest, partials[((ulong)tile * a.n_heads + h) * width + a.kv_lora_rank]);
    float sum = 0;
    float weights = 0;
    for (uint tile = 0; tile < t.n_tiles; tile++) {
        __global const float *partial = partials + ((ulong)tile * a.n_heads + h) * width;
        float factor = exp_near(partial[a.kv_lora_rank] - largest);
        sum = fma(factor, partial[c], sum);
        weights = fma(factor, partial[a.kv_lora_rank + 1], weights);
    }
    out[(ulong)h * a.kv_lora_rank + c] = sum / weights;
}
