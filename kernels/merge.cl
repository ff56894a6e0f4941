// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: the sum of what a token's attention has left for each tile of positions, for its kernel and for those of a whole
// token.
#if !SHAPE_CPU

#define MERGE_SLICES (ELEMENTS_GROUP / MERGE_LANES)
#define MERGE_AHEAD 8 // tiles of a slice that are asked for together: MOST_TILES is a multiple of theirs in all slices

struct merge_space {
    float scores[MOST_TILES];
    float weights[MOST_TILES];
    float sums[MERGE_SLICES][MERGE_LANES];
    float totals[MERGE_SLICES];
};

// The tiles' parts of head h: kv_lora_rank unnormalised sums, the largest score, the sum of weights; MERGE_LANES columns
// from `first` on. Every MERGE_SLICES-th tile is summed together, in order, then these sums; there are no more tiles than
// MOST_TILES.
INLINE void merge_part(const struct args_attention *a, uint n_tiles, uint first, uint h, __global const float *partials,
                       __local struct merge_space *space, __global float *out)
{
    uint item = get_local_id(0);
    uint slice = item / MERGE_LANES;
    uint column = first + item % MERGE_LANES;
    uint c = min(column, a->kv_lora_rank - 1);
    uint width = a->kv_lora_rank + PARTIAL_TAIL;
    ulong stride = (ulong)a->n_heads * width;
    __global const float *partial = partials + (ulong)h * width;
    space->scores[item] = item < n_tiles ? partial[item * stride + a->kv_lora_rank] : -INFINITY;
    space->weights[item] = item < n_tiles ? partial[item * stride + a->kv_lora_rank + 1] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < MERGE_LANES) {
        float most = space->scores[item];
        UNROLL
        for (uint i = 1; i < MOST_TILES / MERGE_LANES; i++)
            most = fmax(most, space->scores[item + i * MERGE_LANES]);
        space->sums[0][item] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float largest = -INFINITY;
    UNROLL
    for (uint i = 0; i < MERGE_LANES; i++)
        largest = fmax(largest, space->sums[0][i]);
    space->scores[item] = exp_near(space->scores[item] - largest);
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    float total = 0;
    for (uint first_tile = slice; first_tile < n_tiles; first_tile += MERGE_AHEAD * MERGE_SLICES) {
        float parts[MERGE_AHEAD];
        UNROLL
        for (uint i = 0; i < MERGE_AHEAD; i++)
            parts[i] = partial[min(first_tile + i * MERGE_SLICES, n_tiles - 1) * stride + c];
        UNROLL
        for (uint i = 0; i < MERGE_AHEAD; i++) {
            uint tile = first_tile + i * MERGE_SLICES;
            sum = tile < n_tiles ? fma(space->scores[tile], parts[i], sum) : sum;
            total = tile < n_tiles ? fma(space->scores[tile], space->weights[tile], total) : total;
        }
    }
    space->sums[slice][item % MERGE_LANES] = sum;
    space->totals[slice] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    total = 0;
    UNROLL
    for (uint i = 0; i < MERGE_SLICES; i++) {
        sum += space->sums[i][item % MERGE_LANES];
        total += space->totals[i];
    }
    if (slice == 0 && column < a->kv_lora_rank)
        out[((ulong)a->first_row * a->n_heads + h) * a->kv_lora_rank + c] = sum / total;
}

#endif
