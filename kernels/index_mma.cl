// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores, by inline PTX: an indexer's scores, over keys of 128. A query goes in as two float16 halves:
// 22 bits, after a power of 2 that the head's largest sets. A key of float16 is exact, one of float32 goes in like a
// query. Sums of 128 products are the units', for each pair of halves by itself; sums over heads are fma's, for each
// lane of the heads 2j, 2j + 1 of every 8, ascending, then those of the four lanes (float16: of 16 heads, then these,
// ascending). So a score depends on its row and its key alone, however launches are cut.
//
// Keys of float16: a warp keeps 16 heads of a row in registers, as fragments, and keys come by, a tile at a time, the
// next one on its way meanwhile. Keys of float32, which cost more to take apart than to read: a warp keeps 16 keys, and
// goes through rows and their heads, which the group has at hand in stages.
//
// Fragments as in mma.cl: A are 16 keys, B 8 heads. Of step s a lane has the four columns s / 2 * 32 + j * 8 + s % 2 *
// 4 and behind, so that it loads eight that stand together.
#if NVIDIA_MMA && !SHAPE_CPU

#define INDEX_MMA_DIM   128
#define INDEX_MMA_STEPS (INDEX_MMA_DIM / 16)
#define INDEX_MMA_WARPS (INDEX_MMA_ITEMS / 32)

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

// ---- keys of float16

#define INDEX_CHUNKS     (INDEX_MMA_DIM / 8) // of a key, 16 bytes each
#define INDEX_WARP_HEADS 16
#define INDEX_SHARES     (INDEX_F16_HEADS / INDEX_WARP_HEADS)

struct index_tiles {
    uint4 keys[INDEX_TILES][INDEX_TILE][INDEX_CHUNKS]; // a key's chunks by index_place
    float sums[2][INDEX_SHARES][INDEX_TILE]; // of this tile and the one before: each share of the heads by itself
};

struct index_row {
    const struct args_index_scores *a;
    __global const half *cache;
    uint row;
    uint n_keys;
    uint n_shares; // of the heads; the group's warps over these share the tile's keys
};

// Of lanes that load together, those of one key and those of the next take other banks.
INLINE uint index_place(uint key, uint chunk)
{
    return chunk ^ (key & 1) * 4;
}

// A tile, if there is one, begins its way; nothing is a group, too.
INLINE void index_bring(const struct index_row *job, uint first, __local uint4 (*keys)[INDEX_CHUNKS])
{
    uint chunk = get_local_id(0) % INDEX_CHUNKS;
    UNROLL
    for (uint i = 0; i < INDEX_TILE * INDEX_CHUNKS / INDEX_F16_ITEMS; i++) {
        uint key = (get_local_id(0) + i * INDEX_F16_ITEMS) / INDEX_CHUNKS;
        __global const half *row = job->cache + (ulong)min(first + key, job->n_keys - 1) * INDEX_MMA_DIM;
        if (first < job->n_keys)
            copy_16(&keys[key][index_place(key, chunk)], row + chunk * 8);
    }
    copies_group();
}

// A lane's columns of heads g and g + 8 of the warp's 16, and the heads' weights, as they come.
struct index_query {
    float4 fours[2][INDEX_MMA_STEPS];
    float weights[2];
};

// All of it is asked for before any of it is split.
INLINE struct index_query index_take(const struct index_row *job, __global const float *q, __global const float *weight,
                                     uint head)
{
    const struct args_index_scores *a = job->a;
    struct index_query query;
    q += (ulong)job->row * a->q_stride + a->q_offset + get_local_id(0) % 4 * 8;
    weight += (ulong)job->row * a->weight_stride + a->weight_offset;
    UNROLL
    for (uint n = 0; n < 2; n++) {
        uint own = min(head + n * 8, a->n_heads - 1);
        __global const float *from = q + own * INDEX_MMA_DIM;
        query.weights[n] = weight[own];
        if ((a->q_stride | a->q_offset) % 4 == 0)
            UNROLL
        for (uint s = 0; s < INDEX_MMA_STEPS; s++)
            query.fours[n][s] = ((__global const float4 *)from)[s / 2 * 8 + s % 2];
        else UNROLL for (uint s = 0; s < INDEX_MMA_STEPS; s++) query.fours[n][s] = vload4(s / 2 * 8 + s % 2, from);
    }
    return query;
}

// Fragments of 16 heads: first halves, second halves; weights[n] of head g + 8n, times what the query was divided by.
// What is behind the last head counts for nothing.
INLINE void index_split(const struct args_index_scores *a, const struct index_query *query, uint head, uint4 *high,
                        uint4 *low, float *weights)
{
    UNROLL
    for (uint n = 0; n < 2; n++) {
        float largest = 0;
        UNROLL
        for (uint s = 0; s < INDEX_MMA_STEPS; s++)
            largest = fmax(largest, index_largest(query->fours[n][s]));
        largest = fmax(largest, of_lane(largest, 1));
        largest = fmax(largest, of_lane(largest, 2));
        float power = index_power(largest), inverse = index_inverse(power);
        UNROLL
        for (uint s = 0; s < INDEX_MMA_STEPS; s++) {
            float4 four = query->fours[n][s] * inverse;
            uint2 a0 = halves(four.x, four.y), a2 = halves(four.z, four.w);
            high[s] = n ? (uint4)(high[s].x, a0.x, high[s].z, a2.x) : (uint4)(a0.x, 0, a2.x, 0);
            low[s] = n ? (uint4)(low[s].x, a0.y, low[s].z, a2.y) : (uint4)(a0.y, 0, a2.y, 0);
        }
        weights[n] = head + n * 8 < a->n_heads ? query->weights[n] * a->scale * power : 0;
    }
}

// What the warp's 16 heads give for 16 keys, into sums.
INLINE void index_sixteen(__local const uint4 (*keys)[INDEX_CHUNKS], const uint4 *high, const uint4 *low,
                          const float *weights, __local float *sums)
{
    uint g = get_local_id(0) % 32 / 4, j = get_local_id(0) % 4;
    float4 dots[2] = {0, 0}, rests[2] = {0, 0}; // of keys 0 to 7, 8 to 15
    UNROLL
    for (uint t = 0; t < INDEX_MMA_STEPS / 2; t++) {
        uint4 chunks[2] = {keys[g][index_place(g, t * 4 + j)], keys[g + 8][index_place(g, t * 4 + j)]};
        UNROLL
        for (uint e = 0; e < 2; e++) {
            mma(&dots[e], high[2 * t], chunks[e].x, chunks[e].y);
            mma(&rests[e], low[2 * t], chunks[e].x, chunks[e].y);
        }
        UNROLL
        for (uint e = 0; e < 2; e++) {
            mma(&dots[e], high[2 * t + 1], chunks[e].z, chunks[e].w);
            mma(&rests[e], low[2 * t + 1], chunks[e].z, chunks[e].w);
        }
    }
    float2 both[2]; // keys 2j and 2j + 1 of each eight
    UNROLL
    for (uint e = 0; e < 2; e++) {
        float4 dot = fmax(dots[e] + rests[e], 0.0f);
        both[e] = fma((float2)(weights[1]), dot.zw, weights[0] * dot.xy);
    }
    // Lanes keep half of what they have each time, and give the other half to the lane that keeps it.
    float2 kept = g & 1 ? both[1] : both[0], given = g & 1 ? both[0] : both[1];
    kept += (float2)(of_lane(given.x, 4), of_lane(given.y, 4));
    float sum = (g & 2 ? kept.y : kept.x) + of_lane(g & 2 ? kept.x : kept.y, 8);
    sum += of_lane(sum, 16);
    if (g < 4)
        sums[(g & 1) * 8 + 2 * j + (g >> 1)] = sum;
}

// The score of a tile whose sums are all there: a work-item's, of those that have one.
INLINE float index_tile_sum(const struct index_row *job, __local float (*sums)[INDEX_TILE])
{
    uint key = min((uint)get_local_id(0), (uint)(INDEX_TILE - 1));
    float sum = sums[0][key];
    UNROLL
    for (uint i = 1; i < INDEX_SHARES; i++)
        sum = i < job->n_shares ? sum + sums[i][key] : sum;
    return sum;
}

INLINE void index_put_tile(const struct index_row *job, uint first, float sum, __global float *scores)
{
    uint key = get_local_id(0);
    if (key < INDEX_TILE && first + key < job->n_keys)
        scores[(ulong)job->row * job->a->out_stride + first + key] = sum;
}

#if BUILD_PARTS & PART_INDEX
// Groups: x over tiles of keys, which a group takes every so many of, y over rows.
__kernel GROUP_SIZE(INDEX_F16_ITEMS, 1) void index_scores_mma(const struct args_index_scores a, const struct tiling t,
                                                              __global const float *q, __global const float *weight,
                                                              __global const void *cache, __global float *scores)
{
    __local struct index_tiles tiles;
    struct index_row job = {&a, (__global const half *)cache, get_group_id(1), 0, 0};
    job.n_keys = index_seen(a.position + job.row, a.pool);
    job.n_shares = a.n_heads > 2 * INDEX_WARP_HEADS ? 4 : a.n_heads > INDEX_WARP_HEADS ? 2 : 1;
    uint first = get_group_id(0) * INDEX_TILE, apart = get_num_groups(0) * INDEX_TILE;
    if (job.row >= a.n_rows || first >= job.n_keys)
        return;
    uint warp = get_local_id(0) / 32, share = warp % job.n_shares, head = share * INDEX_WARP_HEADS;
    head += get_local_id(0) % 32 / 4;
    uint4 high[INDEX_MMA_STEPS], low[INDEX_MMA_STEPS];
    float weights[2];
    struct index_query query = index_take(&job, q, weight, head); // what is waited for first
    UNROLL
    for (uint n = 0; n < INDEX_TILES - 1; n++)
        index_bring(&job, first + n * apart, tiles.keys[n]);
    index_split(&a, &query, head, high, low, weights);
    uint n = 0;
    for (; first < job.n_keys; n++, first += apart) {
        copies_wait_but_two(); // of three that are on their way
        barrier(CLK_LOCAL_MEM_FENCE);
        index_bring(&job, first + (INDEX_TILES - 1) * apart, tiles.keys[(n + INDEX_TILES - 1) % INDEX_TILES]);
        float sum = index_tile_sum(&job, tiles.sums[(n + 1) % 2]); // of the tile before; it is stored when all is under way
        for (uint key = warp / job.n_shares * 16; key < INDEX_TILE; key += INDEX_F16_ITEMS / 32 / job.n_shares * 16)
            index_sixteen(tiles.keys[n % INDEX_TILES] + key, high, low, weights, tiles.sums[n % 2][share] + key);
        if (n > 0)
            index_put_tile(&job, first - apart, sum, scores);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    index_put_tile(&job, first - apart, index_tile_sum(&job, tiles.sums[(n - 1) % 2]), scores);
}
#endif

// ---- keys of float32

#define INDEX_MMA_LANES (INDEX_MMA_ITEMS / INDEX_MMA_STAGE)   // work-items that bring a head
#define INDEX_MMA_FOURS (INDEX_MMA_DIM / 4 / INDEX_MMA_LANES) // of a work-item

struct index_stage {
    uint4 queries[INDEX_MMA_STAGE / 8][INDEX_MMA_STEPS]
                 [32];              // fragments: both registers of the first halves, of the second
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
    uint4 high[INDEX_MMA_STEPS]; // fragments of 16 keys: first halves, second halves
    uint4 low[INDEX_MMA_STEPS];
    float scale[2]; // of keys g and g + 8
};

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
            uint4 *high = &keys->high[s], *low = &keys->low[s];
            *high = h ? (uint4)(high->x, a0.x, high->z, a2.x) : (uint4)(a0.x, 0, a2.x, 0);
            *low = h ? (uint4)(low->x, a0.y, low->z, a2.y) : (uint4)(a0.y, 0, a2.y, 0);
        }
    }
}

// sums + what 8 heads give for keys g and g + 8. Products with a second half are summed apart.
INLINE float2 index_eight(__local const struct index_stage *stage, uint eight, const struct index_keys *keys,
                          float2 sums)
{
    uint lane = get_local_id(0) % 32;
    float4 dots = 0, rests[2] = {0, 0};
    UNROLL
    for (uint s = 0; s < INDEX_MMA_STEPS; s++) {
        uint4 query = stage->queries[eight][s][lane];
        mma(&dots, keys->high[s], query.x, query.y);
        mma(&rests[0], keys->low[s], query.x, query.y);
        mma(&rests[1], keys->high[s], query.z, query.w);
    }
    float2 weight = vload2(eight * 4 + lane % 4, stage->weights);
    dots = fmax(dots + (rests[0] + rests[1]), 0.0f);
    sums = fma((float2)(weight.x), dots.xz, sums);
    return fma((float2)(weight.y), dots.yw, sums);
}

// The lanes whose j is 0 or 1 have the score of one key of the warp's 16.
INLINE void index_put(const struct index_rows *at, const struct index_keys *keys, uint first, float2 sums,
                      __global float *scores)
{
    uint lane = get_local_id(0) % 32, j = lane % 4;
    UNROLL
    for (uint apart = 1; apart < 4; apart *= 2)
        sums += (float2)(of_lane(sums.x, apart), of_lane(sums.y, apart));
    sums *= (float2)(keys->scale[0], keys->scale[1]);
    uint key = first + j * 8 + lane / 4;
    if (j < 2 && key < index_seen(at->a->position + at->row, at->a->pool))
        scores[(ulong)at->row * at->a->out_stride + key] = j ? sums.y : sums.x;
}

#if BUILD_PARTS & PART_INDEX
// Groups: x over blocks of INDEX_MMA_ITEMS / 2 keys, y over runs of rows_per_group rows.
__kernel GROUP_SIZE(INDEX_MMA_ITEMS, 1) void index_scores_mma_f32(const struct args_index_scores a,
                                                                  const struct tiling t, __global const float *q,
                                                                  __global const float *weight,
                                                                  __global const void *cache, __global float *scores)
{
    __local struct index_stage stages[INDEX_MMA_STAGES];
    struct index_rows at = {&a, q, weight, get_group_id(1) * t.rows_per_group, 0};
    uint end = min(at.row + t.rows_per_group, a.n_rows), n_keys = index_seen(a.position + end - 1, a.pool);
    uint first = (get_group_id(0) * INDEX_MMA_WARPS + get_local_id(0) / 32) * 16;
    if (at.row >= end || get_group_id(0) * INDEX_MMA_WARPS * 16 >= n_keys)
        return;
    struct index_keys keys;
    struct index_load load;
    index_fetch(&at, &load);
    index_store(&load, stages);
    index_keys_f32((__global const float *)cache, first, n_keys - 1, &keys);
    float2 sums = 0;
    for (uint n = 0; at.row < end; n++) {
        struct index_rows next = at;
        bool is_last = at.head + INDEX_MMA_STAGE >= a.n_heads; // of the row
        next.head = is_last ? 0 : at.head + INDEX_MMA_STAGE;
        next.row += is_last;
        index_fetch(&next, &load); // zeros behind the last
        barrier(CLK_LOCAL_MEM_FENCE);
        NO_UNROLL
        for (uint eight = 0; eight < INDEX_MMA_STAGE / 8; eight++)
            sums = index_eight(stages + n % INDEX_MMA_STAGES, eight, &keys, sums);
        if (is_last) {
            index_put(&at, &keys, first, sums, scores);
            sums = 0;
        }
        index_store(&load, stages + (n + 1) % INDEX_MMA_STAGES);
        at = next;
    }
}
#endif

#endif
