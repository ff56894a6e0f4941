// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores, by inline PTX: an indexer's scores, over keys of 128. A warp keeps its keys in registers, as
// fragments, and goes through rows and their heads, which the group has at hand in stages. A query goes in as two float16
// halves: 22 bits, after a power of 2 that the head's largest sets. A key of float16 is exact, one of float32 goes in
// like a query. Sums of 128 products are the units', for each pair of halves by itself; sums over heads are fma's, for
// each lane of the heads 2j, 2j + 1 of every 8, ascending, then those of the four lanes. So a score depends on its row and
// its key alone, however launches are cut.
//
// Fragments as in mma.cl: A are 16 keys, B 8 heads. Of step s a lane has the four columns s / 2 * 32 + j * 8 + s % 2 * 4
// and behind, so that it loads eight that stand together.
#if NVIDIA_MMA && !SHAPE_CPU

#define INDEX_MMA_DIM   128
#define INDEX_MMA_STEPS (INDEX_MMA_DIM / 16)
#define INDEX_MMA_LANES (INDEX_MMA_ITEMS / INDEX_MMA_STAGE)   // work-items that bring a head
#define INDEX_MMA_FOURS (INDEX_MMA_DIM / 4 / INDEX_MMA_LANES) // of a work-item

struct index_stage {
    uint4 queries[INDEX_MMA_STAGE / 8][INDEX_MMA_STEPS][32]; // fragments: both registers of the first halves, of the second
    float weights[INDEX_MMA_STAGE]; // times what the query was divided by
};

// What a work-item brings of a stage, as it came.
struct index_load {
    float4 fours[INDEX_MMA_FOURS];
    float weight;
};

struct index_rows {
    const struct args_index_scores *a;
    __global const float *q;
    __global const float *weight;
    uint row;
    uint head; // the stage's first
};

struct index_keys {
    uint4 fragments[2][INDEX_MMA_STEPS]; // float16: of both 16 keys; float32: both halves of 16
    float scale[2];                      // float32: of keys g and g + 8
};

// A power of 2 that divides numbers of this size to less than 2^14.
INLINE float index_power(float largest)
{
    return as_float((clamp(as_uint(largest) >> 23, 15u, 254u) - 13) << 23);
}

INLINE float index_inverse(float power)
{
    return as_float((254u << 23) - as_uint(power));
}

INLINE float index_largest(float4 four)
{
    four = fabs(four);
    return fmax(fmax(four.x, four.y), fmax(four.z, four.w));
}

INLINE void index_fetch(const struct index_rows *at, struct index_load *load)
{
    const struct args_index_scores *a = at->a;
    uint head = at->head + get_local_id(0) / INDEX_MMA_LANES;
    bool there = at->row < a->n_rows && head < a->n_heads;
    __global const float *q = at->q + (ulong)at->row * a->q_stride + a->q_offset + (ulong)head * INDEX_MMA_DIM;
    UNROLL
    for (uint i = 0; i < INDEX_MMA_FOURS; i++)
        load->fours[i] = there ? vload4(get_local_id(0) % INDEX_MMA_LANES + i * INDEX_MMA_LANES, q) : 0;
    load->weight = there ? at->weight[(ulong)at->row * a->weight_stride + a->weight_offset + head] * a->scale : 0.0f;
}

INLINE void index_store(const struct index_load *load, __local struct index_stage *stage)
{
    uint head = get_local_id(0) / INDEX_MMA_LANES, part = get_local_id(0) % INDEX_MMA_LANES;
    float largest = 0;
    UNROLL
    for (uint i = 0; i < INDEX_MMA_FOURS; i++)
        largest = fmax(largest, index_largest(load->fours[i]));
    UNROLL
    for (uint apart = 1; apart < INDEX_MMA_LANES; apart *= 2)
        largest = fmax(largest, of_lane(largest, apart));
    float power = index_power(largest), inverse = index_inverse(power);
    UNROLL
    for (uint i = 0; i < INDEX_MMA_FOURS; i++) {
        uint n = part + i * INDEX_MMA_LANES; // of the fours of a head
        float4 four = load->fours[i] * inverse;
        uint2 b0 = halves(four.x, four.y), b1 = halves(four.z, four.w);
        stage->queries[head / 8][n / 8 * 2 + n % 2][head % 8 * 4 + n / 2 % 4] = (uint4)(b0.x, b1.x, b0.y, b1.y);
    }
    if (part == 0)
        stage->weights[head] = load->weight * power;
}

// 32 keys, the lane's eights of four of them.
INLINE void index_keys_f16(__global const half *cache, uint first, uint last, struct index_keys *keys)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint m = 0; m < 2; m++) {
        uint key = first + m * 16 + lane / 4;
        __global const uint4 *low = (__global const uint4 *)(cache + (ulong)min(key, last) * INDEX_MMA_DIM) + lane % 4;
        __global const uint4 *high = (__global const uint4 *)(cache + (ulong)min(key + 8, last) * INDEX_MMA_DIM) + lane % 4;
        UNROLL
        for (uint t = 0; t < INDEX_MMA_STEPS / 2; t++) {
            uint4 a = low[t * 4], b = high[t * 4];
            keys->fragments[m][t * 2] = (uint4)(a.x, b.x, a.y, b.y);
            keys->fragments[m][t * 2 + 1] = (uint4)(a.z, b.z, a.w, b.w);
        }
        keys->scale[m] = 1;
    }
}

// 16 keys, first the lane's columns of key g, then those of key g + 8.
INLINE void index_keys_f32(__global const float *cache, uint first, uint last, struct index_keys *keys)
{
    uint lane = get_local_id(0) % 32;
    UNROLL
    for (uint h = 0; h < 2; h++) {
        ulong key = min(first + lane / 4 + h * 8, last);
        __global const float4 *row = (__global const float4 *)(cache + key * INDEX_MMA_DIM) + lane % 4 * 2;
        float4 fours[INDEX_MMA_STEPS];
        float largest = 0;
        UNROLL
        for (uint s = 0; s < INDEX_MMA_STEPS; s++)
            fours[s] = row[s / 2 * 8 + s % 2];
        UNROLL
        for (uint s = 0; s < INDEX_MMA_STEPS; s++)
            largest = fmax(largest, index_largest(fours[s]));
        largest = fmax(largest, of_lane(largest, 1));
        largest = fmax(largest, of_lane(largest, 2));
        keys->scale[h] = index_power(largest);
        float inverse = index_inverse(keys->scale[h]);
        UNROLL
        for (uint s = 0; s < INDEX_MMA_STEPS; s++) {
            float4 four = fours[s] * inverse;
            uint2 a0 = halves(four.x, four.y), a2 = halves(four.z, four.w);
            uint4 *high = &keys->fragments[0][s], *low = &keys->fragments[1][s];
            *high = h ? (uint4)(high->x, a0.x, high->z, a2.x) : (uint4)(a0.x, 0, a2.x, 0);
            *low = h ? (uint4)(low->x, a0.y, low->z, a2.y) : (uint4)(a0.y, 0, a2.y, 0);
        }
    }
}

// sums + what 8 heads give for keys g and g + 8 of the first 16, then of the second. Products with a second half are
// summed apart.
INLINE float4 index_eight(__local const struct index_stage *stage, uint eight, const struct index_keys *keys,
                          const bool wide, float4 sums)
{
    uint lane = get_local_id(0) % 32;
    float4 dots[2] = {0, 0}, rests[2] = {0, 0};
    UNROLL
    for (uint s = 0; s < INDEX_MMA_STEPS; s++) {
        uint4 query = stage->queries[eight][s][lane];
        mma(&dots[0], keys->fragments[0][s], query.x, query.y);
        mma(wide ? &rests[0] : &dots[1], keys->fragments[1][s], query.x, query.y);
        mma(wide ? &rests[1] : &rests[0], keys->fragments[0][s], query.z, query.w);
        if (!wide)
            mma(&rests[1], keys->fragments[1][s], query.z, query.w);
    }
    float2 weight = vload2(eight * 4 + lane % 4, stage->weights);
    float4 first = fmax(dots[0] + (wide ? rests[0] + rests[1] : rests[0]), 0.0f);
    float4 second = wide ? 0 : fmax(dots[1] + rests[1], 0.0f);
    sums = fma((float4)(weight.x), (float4)(first.xz, second.xz), sums);
    return fma((float4)(weight.y), (float4)(first.yw, second.yw), sums);
}

// A lane has the score of one key of the warp's 32, or of 16 the lanes whose j is 0 or 1.
INLINE void index_put(const struct index_rows *at, const struct index_keys *keys, uint first, const bool wide,
                      float4 sums, __global float *scores)
{
    uint lane = get_local_id(0) % 32, j = lane % 4;
    UNROLL
    for (uint apart = 1; apart < 4; apart *= 2)
        sums += (float4)(of_lane(sums.x, apart), of_lane(sums.y, apart), of_lane(sums.z, apart), of_lane(sums.w, apart));
    if (wide)
        sums.xy *= (float2)(keys->scale[0], keys->scale[1]);
    float2 two = !wide && j >= 2 ? sums.zw : sums.xy;
    uint key = first + j * 8 + lane / 4;
    if ((!wide || j < 2) && key < index_seen(at->a->position + at->row, at->a->pool))
        scores[(ulong)at->row * at->a->out_stride + key] = j % 2 ? two.y : two.x;
}

// All keys of the group, block by block, of which the launcher gives it one. Where the stages at hand are all that there
// are they would stay for the next.
INLINE void index_go(const struct index_rows *job, uint end, uint n_keys, const bool wide, __global const void *cache,
                     __local struct index_stage *stages, __global float *scores)
{
    const uint keys_a_warp = wide ? 16 : 32, keys_a_block = keys_a_warp * (INDEX_MMA_ITEMS / 32);
    uint stages_a_row = (job->a->n_heads + INDEX_MMA_STAGE - 1) / INDEX_MMA_STAGE;
    bool stay = (end - job->row) * stages_a_row <= INDEX_MMA_STAGES;
    bool bring = true;
    for (uint block = get_group_id(0) * keys_a_block; block < n_keys; block += get_num_groups(0) * keys_a_block) {
        uint first = block + get_local_id(0) / 32 * keys_a_warp;
        struct index_rows at = *job;
        struct index_keys keys;
        struct index_load load;
        if (bring)
            index_fetch(&at, &load);
        if (!wide)
            index_keys_f16(cache, first, n_keys - 1, &keys);
        if (bring)
            index_store(&load, stages);
        if (wide)
            index_keys_f32(cache, first, n_keys - 1, &keys);
        float4 sums = 0;
        for (uint n = 0; at.row < end; n++) {
            __local struct index_stage *stage = stages + n % INDEX_MMA_STAGES;
            struct index_rows next = at;
            bool is_last = at.head + INDEX_MMA_STAGE >= at.a->n_heads; // of the row
            next.head = is_last ? 0 : at.head + INDEX_MMA_STAGE;
            next.row += is_last;
            bool fetches = bring && next.row < end;
            if (fetches)
                index_fetch(&next, &load);
            if (bring)
                barrier(CLK_LOCAL_MEM_FENCE);
            NO_UNROLL
            for (uint eight = 0; eight < INDEX_MMA_STAGE / 8; eight++)
                sums = index_eight(stage, eight, &keys, wide, sums);
            if (is_last) {
                index_put(&at, &keys, first, wide, sums, scores);
                sums = 0;
            }
            if (fetches)
                index_store(&load, stages + (n + 1) % INDEX_MMA_STAGES);
            at = next;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        bring = !stay;
    }
}

INLINE void index_group(const struct args_index_scores *a, const struct tiling *t, const bool wide,
                        __global const float *q, __global const float *weight, __global const void *cache,
                        __local struct index_stage *stages, __global float *scores)
{
    struct index_rows job = {a, q, weight, get_group_id(1) * t->rows_per_group, 0};
    uint end = min(job.row + t->rows_per_group, a->n_rows);
    if (job.row < end)
        index_go(&job, end, index_seen(a->position + end - 1, a->pool), wide, cache, stages, scores);
}

// Groups: x over blocks of INDEX_MMA_ITEMS keys, y over runs of rows_per_group rows. Keys of float16.
__kernel GROUP_SIZE(INDEX_MMA_ITEMS, 1) void index_scores_mma(const struct args_index_scores a, const struct tiling t,
                                                              __global const float *q, __global const float *weight,
                                                              __global const void *cache, __global float *scores)
{
    __local struct index_stage stages[INDEX_MMA_STAGES];
    index_group(&a, &t, false, q, weight, cache, stages, scores);
}

// Keys of float32, half as many.
__kernel GROUP_SIZE(INDEX_MMA_ITEMS, 1) void index_scores_mma_f32(const struct args_index_scores a,
                                                                  const struct tiling t, __global const float *q,
                                                                  __global const float *weight,
                                                                  __global const void *cache, __global float *scores)
{
    __local struct index_stage stages[INDEX_MMA_STAGES];
    index_group(&a, &t, true, q, weight, cache, stages, scores);
}

#endif
