// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores, by inline PTX: attention over latent rows of float16, 512 + 64 wide, as all MLA models of today
// have them. A group serves 16 heads of one row: one tile of mma.sync.m16n8k16. What float32 has, a query or a weight,
// goes in as two float16 halves: 22 bits, after a power of 2 that the head's largest sets; what the cache has is
// float16 anyway. Sums are float32.
//
// Of a fragment a lane holds (PTX ISA, mma.m16n8k16): g = lane / 4, j = lane % 4; of A rows g and g + 8, of B column g, of
// both inputs 2j, 2j + 1, 2j + 8, 2j + 9; of C rows g and g + 8, columns 2j and 2j + 1. Which input of the fragment is
// which column of the cache is free as long as A and B agree, so a lane's keys are 16 columns that stand together.
#if NVIDIA_MMA

#define MMA_RANK 512
#define MMA_WIDTH 576
#define MMA_BLOCKS (MMA_WIDTH / 64)        // of columns: 4 fragments each
#define MMA_WARPS (MMA_ITEMS / 32)         // each takes 16 keys of a step, then 128 columns of the values
#define MMA_STEP (16 * MMA_WARPS)          // keys
#define MMA_CHUNKS 2                       // of 64 columns of values a warp

struct mma_space {
    uint4 queries[MMA_BLOCKS * 4][2][32]; // fragments, their first halves and their second
    uint4 weights[MMA_WARPS][2][32];
    float shares[MMA_ITEMS];
    float largest[MMA_WARPS][16];
    float scale[16]; // of the heads' scores
};

INLINE float4 query_four(const struct attention_job *job, uint head, uint column)
{
    const struct args_attention *a = job->a;
    uint h = min(job->first_head + head, a->n_heads - 1);
    return column < MMA_RANK ? *(__global const float4 *)(job->q_latent + (ulong)h * MMA_RANK + column)
                             : vload4(0, job->q + (ulong)h * a->q_head_stride + column - MMA_RANK);
}

// The queries' fragments, divided by a power of 2 that `scale` takes back.
INLINE void mma_queries(const struct attention_job *job, __local struct mma_space *space)
{
    uint item = get_local_id(0);
    uint head = item / (MMA_ITEMS / 16);
    float largest = 0;
    UNROLL
    for (uint i = 0; i < MMA_WIDTH / (MMA_ITEMS / 16 * 4); i++) {
        float4 four = fabs(query_four(job, head, (item % (MMA_ITEMS / 16) + i * (MMA_ITEMS / 16)) * 4));
        largest = fmax(largest, fmax(fmax(four.x, four.y), fmax(four.z, four.w)));
    }
    space->shares[item] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 16) {
        largest = 0;
        UNROLL
        for (uint i = 0; i < MMA_ITEMS / 16; i++)
            largest = fmax(largest, space->shares[item * (MMA_ITEMS / 16) + i]);
        uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // the largest becomes 2^13 and more: small ones keep bits
        space->scale[item] = as_float((exponent - 13) << 23);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint lane = item % 32;
    float inverse[2];
    UNROLL
    for (uint h = 0; h < 2; h++)
        inverse[h] = as_float((254u << 23) - as_uint(space->scale[lane / 4 + h * 8]));
    UNROLL
    for (uint n = 0; n < MMA_BLOCKS * 4 / MMA_WARPS; n++) {
        uint i = n * MMA_ITEMS + item;
        uint column = i / 128 * 64 + lane % 4 * 16 + i / 32 % 4 * 4;
        float4 low = query_four(job, lane / 4, column) * inverse[0];
        float4 high = query_four(job, lane / 4 + 8, column) * inverse[1];
        uint2 a0 = halves(low.x, low.y), a1 = halves(high.x, high.y);
        uint2 a2 = halves(low.z, low.w), a3 = halves(high.z, high.w);
        space->queries[i / 32][0][lane] = (uint4)(a0.x, a1.x, a2.x, a3.x);
        space->queries[i / 32][1][lane] = (uint4)(a0.y, a1.y, a2.y, a3.y);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Scores of the warp's 16 keys of the step: [key / 8][fragment].
INLINE void mma_scores(const struct attention_job *job, uint first, uint end, __local const struct mma_space *space,
                       float4 *scores)
{
    uint lane = get_local_id(0) % 32;
    uint key = first + get_local_id(0) / 32 * 16 + lane / 4;
    __global const uint4 *rows[2];
    UNROLL
    for (uint n = 0; n < 2; n++) {
        rows[n] = (__global const uint4 *)((__global const uchar *)job->cache +
                                           (ulong)row_of(job, min(key + n * 8, end - 1)) * (MMA_WIDTH * 2)) +
                  lane % 4 * 2;
        scores[n] = 0;
    }
    _Pragma("unroll 3")
    for (uint block = 0; block < MMA_BLOCKS; block++) {
        uint4 keys[2][2];
        UNROLL
        for (uint n = 0; n < 2; n++) {
            keys[n][0] = rows[n][block * 8];
            keys[n][1] = rows[n][block * 8 + 1];
        }
        UNROLL
        for (uint s = 0; s < 4; s++) {
            uint4 high = space->queries[block * 4 + s][0][lane];
            uint4 low = space->queries[block * 4 + s][1][lane];
            UNROLL
            for (uint n = 0; n < 2; n++) {
                uint4 four = keys[n][s / 2];
                uint b0 = s % 2 ? four.z : four.x, b1 = s % 2 ? four.w : four.y;
                mma(&scores[n], high, b0, b1);
                mma(&scores[n], low, b0, b1);
            }
        }
    }
}

// sums[chunk][column in 8] = sums * factors + weights of the step's keys times the warp's columns of them. The units cut
// off what a sum has too many bits for, always towards 0: so theirs are short, and long sums are fma's.
INLINE void mma_values(const struct attention_job *job, uint first, uint end, __local const struct mma_space *space,
                       const float *factors, float4 (*sums)[8])
{
    uint lane = get_local_id(0) % 32;
    uint column = get_local_id(0) / 32 * (64 * MMA_CHUNKS) + lane / 4 * 8;
    UNROLL
    for (uint c = 0; c < MMA_CHUNKS; c++) {
        uint values[MMA_WARPS][4][4];
        UNROLL
        for (uint s = 0; s < MMA_WARPS; s++)
            UNROLL
            for (uint i = 0; i < 4; i++) {
                uint key = row_of(job, min(first + s * 16 + lane % 4 * 2 + i % 2 + i / 2 * 8, end - 1));
                __global const uchar *row = (__global const uchar *)job->cache + (ulong)key * (MMA_WIDTH * 2);
                uint4 four = *(__global const uint4 *)(row + (column + c * 64) * 2);
                values[s][i][0] = four.x, values[s][i][1] = four.y;
                values[s][i][2] = four.z, values[s][i][3] = four.w;
            }
        UNROLL
        for (uint t = 0; t < 8; t++) {
            uint which = t % 2 ? 0x7632 : 0x5410;
            float4 part = 0;
            UNROLL
            for (uint s = 0; s < MMA_WARPS; s++) {
                uint b0 = pick(values[s][0][t / 2], values[s][1][t / 2], which);
                uint b1 = pick(values[s][2][t / 2], values[s][3][t / 2], which);
                mma(&part, space->weights[s][0][lane], b0, b1);
                mma(&part, space->weights[s][1][lane], b0, b1);
            }
            sums[c][t] = fma(sums[c][t], (float4)((float2)(factors[0]), (float2)(factors[1])), part * 0x1p-14f);
        }
    }
}

// What the rows [begin, end) of the cache give: sums of values as in mma_values, the largest score and the sum of
// weights of heads g and g + 8; `total` of all of the group's keys.
INLINE void mma_attend(const struct attention_job *job, uint begin, uint end, __local struct mma_space *space,
                       float4 (*sums)[8], float *largest, float *total)
{
    uint lane = get_local_id(0) % 32;
    uint warp = get_local_id(0) / 32;
    mma_queries(job, space);
    float scale[2];
    UNROLL
    for (uint h = 0; h < 2; h++) {
        scale[h] = space->scale[lane / 4 + h * 8] * job->a->softmax_scale;
        largest[h] = -INFINITY;
        total[h] = 0;
    }
    UNROLL
    for (uint c = 0; c < MMA_CHUNKS; c++)
        UNROLL
        for (uint t = 0; t < 8; t++)
            sums[c][t] = 0;
    for (uint first = begin; first < end; first += MMA_STEP) {
        float4 scores[2];
        mma_scores(job, first, end, space, scores);
        float most[2] = {-INFINITY, -INFINITY};
        UNROLL
        for (uint n = 0; n < 2; n++) {
            uint key = first + warp * 16 + n * 8 + lane % 4 * 2;
            scores[n] *= (float4)((float2)(scale[0]), (float2)(scale[1]));
            scores[n].even = key < end ? scores[n].even : -INFINITY;
            scores[n].odd = key + 1 < end ? scores[n].odd : -INFINITY;
            most[0] = fmax(most[0], fmax(scores[n].x, scores[n].y));
            most[1] = fmax(most[1], fmax(scores[n].z, scores[n].w));
        }
        UNROLL
        for (uint h = 0; h < 2; h++) {
            most[h] = fmax(most[h], of_lane(most[h], 1));
            most[h] = fmax(most[h], of_lane(most[h], 2));
            if (lane % 4 == 0)
                space->largest[warp][lane / 4 + h * 8] = most[h];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float factors[2];
        UNROLL
        for (uint h = 0; h < 2; h++) {
            float before = largest[h];
            UNROLL
            for (uint w = 0; w < MMA_WARPS; w++)
                largest[h] = fmax(largest[h], space->largest[w][lane / 4 + h * 8]);
            factors[h] = exp_near(before - largest[h]);
            total[h] *= factors[h];
        }
        uint2 parts[4];
        UNROLL
        for (uint n = 0; n < 2; n++)
            UNROLL
            for (uint h = 0; h < 2; h++) {
                float even = exp_near((h ? scores[n].z : scores[n].x) - largest[h]);
                float odd = exp_near((h ? scores[n].w : scores[n].y) - largest[h]);
                total[h] += even + odd;
                parts[n * 2 + h] = halves(even * 0x1p14f, odd * 0x1p14f);
            }
        space->weights[warp][0][lane] = (uint4)(parts[0].x, parts[1].x, parts[2].x, parts[3].x);
        space->weights[warp][1][lane] = (uint4)(parts[0].y, parts[1].y, parts[2].y, parts[3].y);
        barrier(CLK_LOCAL_MEM_FENCE);
        mma_values(job, first, end, space, factors, sums);
    }
    UNROLL
    for (uint h = 0; h < 2; h++) {
        total[h] += of_lane(total[h], 1);
        total[h] += of_lane(total[h], 2);
        if (lane % 4 == 0)
            space->shares[warp * 16 + lane / 4 + h * 8] = total[h];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint h = 0; h < 2; h++) {
        total[h] = 0;
        UNROLL
        for (uint w = 0; w < MMA_WARPS; w++)
            total[h] += space->shares[w * 16 + lane / 4 + h * 8];
    }
}

// to + head * stride + column = sums * by, of the group's heads that there are; rows lie at 16 bytes.
INLINE void mma_put(const struct attention_job *job, float4 (*sums)[8], const float *by, __global float *to,
                    ulong stride)
{
    uint lane = get_local_id(0) % 32;
    uint column = get_local_id(0) / 32 * (64 * MMA_CHUNKS) + lane % 4 * 16;
    UNROLL
    for (uint h = 0; h < 2; h++) {
        uint head = job->first_head + lane / 4 + h * 8;
        if (head >= job->a->n_heads)
            continue;
        __global float4 *row = (__global float4 *)(to + head * stride + column);
        UNROLL
        for (uint c = 0; c < MMA_CHUNKS; c++)
            UNROLL
            for (uint t = 0; t < 8; t += 4) {
                const float4 *four = sums[c] + t;
                float4 first = h ? (float4)(four[0].z, four[1].z, four[2].z, four[3].z)
                                 : (float4)(four[0].x, four[1].x, four[2].x, four[3].x);
                float4 behind = h ? (float4)(four[0].w, four[1].w, four[2].w, four[3].w)
                                  : (float4)(four[0].y, four[1].y, four[2].y, four[3].y);
                row[c * 16 + t / 4] = first * by[h];
                row[c * 16 + 2 + t / 4] = behind * by[h];
            }
    }
}

INLINE void mma_tile(const struct attention_job *job, const struct tiling *t, uint length,
                     __local struct mma_space *space, __global float *partials)
{
    const struct args_attention *a = job->a;
    uint begin = get_group_id(1) * t->rows_per_group;
    float4 sums[MMA_CHUNKS][8];
    float largest[2], total[2];
    mma_attend(job, begin, min(begin + t->rows_per_group, length), space, sums, largest, total);
    ulong stride = MMA_RANK + PARTIAL_TAIL;
    __global float *partial = partials + (ulong)get_group_id(1) * a->n_heads * stride;
    const float one[2] = {1, 1};
    mma_put(job, sums, one, partial, stride);
    uint lane = get_local_id(0);
    if (lane < 32 && lane % 4 == 0)
        UNROLL
        for (uint h = 0; h < 2; h++) {
            uint head = job->first_head + lane / 4 + h * 8;
            if (head < a->n_heads) {
                partial[head * stride + MMA_RANK] = largest[h];
                partial[head * stride + MMA_RANK + 1] = total[h];
            }
        }
}

#if BUILD_PARTS & PART_LATENT_MMA
// As attention_tiles.
__kernel GROUP_SIZE(MMA_ITEMS, 1) void attention_tiles_mma(const struct args_attention a, const struct tiling t,
                                                           __global const float *q_latent, __global const float *q,
                                                           __global const void *cache, __global float *partials)
{
    __local struct mma_space space;
    if (a.n_rows == 0)
        return;
    struct attention_job job = attention_job_of(&a, q_latent, q, cache, 0);
    job.first_head = get_group_id(0) * 16;
    mma_tile(&job, &t, a.position + 1, &space, partials);
}
#endif

#if BUILD_PARTS & PART_LISTS
__kernel GROUP_SIZE(MMA_ITEMS, 1) void list_tiles_mma(const struct args_attention a, const struct tiling t,
                                                      __global const float *q_latent, __global const float *q,
                                                      __global const void *cache, __global const uint *list,
                                                      __global float *partials)
{
    __local struct mma_space space;
    if (a.n_rows == 0)
        return;
    struct attention_job job = list_job_of(&a, q_latent, q, cache, 0, list);
    job.first_head = get_group_id(0) * 16;
    mma_tile(&job, &t, listed_of(&a, 0), &space, partials);
}
#endif

INLINE void mma_row(const struct attention_job *job, uint row, uint length, __local struct mma_space *space,
                    __global float *out)
{
    float4 sums[MMA_CHUNKS][8];
    float largest[2], total[2];
    mma_attend(job, 0, length, space, sums, largest, total);
    const float by[2] = {1 / total[0], 1 / total[1]};
    mma_put(job, sums, by, out + (ulong)(job->a->first_row + row) * job->a->n_heads * MMA_RANK, MMA_RANK);
}

#if BUILD_PARTS & PART_LATENT_MMA
// As attention_prefill.
__kernel GROUP_SIZE(MMA_ITEMS, 1) void attention_prefill_mma(const struct args_attention a, const struct tiling t,
                                                             __global const float *q_latent, __global const float *q,
                                                             __global const void *cache, __global float *out)
{
    __local struct mma_space space;
    if (get_group_id(1) >= a.n_rows)
        return;
    uint row = a.n_rows - 1 - get_group_id(1); // the longest first
    struct attention_job job = attention_job_of(&a, q_latent, q, cache, row);
    job.first_head = get_group_id(0) * 16;
    mma_row(&job, row, a.position + row + 1, &space, out);
}
#endif

#if BUILD_PARTS & PART_LISTS
__kernel GROUP_SIZE(MMA_ITEMS, 1) void list_prefill_mma(const struct args_attention a, const struct tiling t,
                                                        __global const float *q_latent, __global const float *q,
                                                        __global const void *cache, __global const uint *list,
                                                        __global float *out)
{
    __local struct mma_space space;
    if (get_group_id(1) >= a.n_rows)
        return;
    uint row = get_group_id(1);
    struct attention_job job = list_job_of(&a, q_latent, q, cache, row, list);
    job.first_head = get_group_id(0) * 16;
    mma_row(&job, row, listed_of(&a, row), &space, out);
}
#endif

#endif
