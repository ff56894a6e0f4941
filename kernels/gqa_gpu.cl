// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: grouped attention. A work-group serves GQA_LANES lanes, which are the heads of rows that share a key head, counted
// through (row, head of the group), and goes through positions GQA_KEYS at a time, from multiples of it. Scores: a
// work-item has one key and four lanes. Values: one column and all lanes, so that each number of the cache is read once.
#if !SHAPE_CPU

#define GQA_KEYS 64
#define GQA_DEPTH 32                              // columns of the keys that are at hand together
#define GQA_FOURS (GQA_DEPTH / 4)
#define GQA_LOADS (GQA_KEYS * GQA_FOURS / GQA_ITEMS)
#define GQA_SHARE (GQA_KEYS * GQA_LANES / GQA_ITEMS) // weights that a work-item computes

struct gqa_space {
    float4 queries[GQA_LANES][MOST_HEAD_DIM / 4 + 1];
    float4 keys[GQA_KEYS][GQA_FOURS + 1];
    float weights[GQA_KEYS][GQA_LANES + 4]; // the scores, then the weights
    float factors[GQA_LANES];               // what earlier sums are multiplied with
};

struct gqa_job {
    const struct args_gqa *a;
    __global const void *cache;
    uint head;  // of keys
    uint size;  // heads that share it
    uint first; // lane
    uint lanes; // of all rows
};

INLINE struct gqa_job gqa_job_of(const struct args_gqa *a, __global const void *cache)
{
    struct gqa_job job = {a, cache, get_group_id(0) % a->n_kv_heads, a->n_heads / a->n_kv_heads,
                          get_group_id(0) / a->n_kv_heads * GQA_LANES};
    job.lanes = a->n_rows * job.size;
    return job;
}

// A lane's row and head; behind the last the last again.
INLINE uint lane_row(const struct gqa_job *job, uint lane)
{
    return min(job->first + lane, job->lanes - 1) / job->size;
}

INLINE uint lane_head(const struct gqa_job *job, uint lane)
{
    return job->head * job->size + min(job->first + lane, job->lanes - 1) % job->size;
}

INLINE void gqa_take_queries(const struct gqa_job *job, __global const float *q, __local struct gqa_space *space)
{
    const struct args_gqa *a = job->a;
    uint fours = (a->head_dim + GQA_DEPTH - 1) / GQA_DEPTH * GQA_FOURS; // behind head_dim zeros
    for (uint i = get_local_id(0); i < GQA_LANES * fours; i += GQA_ITEMS) {
        uint lane = i / fours;
        uint column = i % fours * 4;
        __global const float *query =
            q + a->q_offset + (ulong)lane_row(job, lane) * a->q_stride + (ulong)lane_head(job, lane) * a->q_head_stride;
        space->queries[lane][i % fours] = column < a->head_dim ? vload4(0, query + column) : 0;
    }
}

// Four columns of a position's key.
INLINE float4 gqa_key(const struct gqa_job *job, uint position, uint column)
{
    const struct args_gqa *a = job->a;
    ulong at = ((ulong)position * 2 * a->n_kv_heads + job->head) * a->head_dim + min(column, a->head_dim - 4);
    float4 four = a->kv_type == KV_F32 ? ((__global const float4 *)job->cache)[at / 4]
                                       : vload_half4(at / 4, (__global const half *)job->cache);
    return column < a->head_dim ? four : 0;
}

struct gqa_load {
    float4 keys[GQA_LOADS];
};

INLINE struct gqa_load gqa_fetch(const struct gqa_job *job, uint first, uint end, uint depth)
{
    struct gqa_load load;
    UNROLL
    for (uint i = 0; i < GQA_LOADS; i++) {
        uint four = get_local_id(0) + i * GQA_ITEMS;
        load.keys[i] = gqa_key(job, min(first + four / GQA_FOURS, end - 1), depth + four % GQA_FOURS * 4);
    }
    return load;
}

// The scores of the positions from `first` on: minus infinity behind a lane's own.
INLINE void gqa_scores(const struct gqa_job *job, uint first, uint end, __local struct gqa_space *space)
{
    const struct args_gqa *a = job->a;
    uint item = get_local_id(0);
    uint key = item % GQA_KEYS;
    uint lane = item / GQA_KEYS * 4;
    float4 dots[4] = {0, 0, 0, 0};
    struct gqa_load load = gqa_fetch(job, first, end, 0);
    for (uint depth = 0; depth < a->head_dim; depth += GQA_DEPTH) {
        UNROLL
        for (uint i = 0; i < GQA_LOADS; i++) {
            uint four = item + i * GQA_ITEMS;
            space->keys[four / GQA_FOURS][four % GQA_FOURS] = load.keys[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        load = gqa_fetch(job, first, end, min(depth + GQA_DEPTH, a->head_dim - 4));
        UNROLL
        for (uint d = 0; d < GQA_FOURS; d++) {
            float4 four = space->keys[key][d];
            UNROLL
            for (uint i = 0; i < 4; i++)
                dots[i] = fma(space->queries[lane + i][depth / 4 + d], four, dots[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint is_seen = first + key <= a->position + lane_row(job, lane + i);
        float4 dot = dots[i];
        float score = ((dot.x + dot.z) + (dot.y + dot.w)) * a->softmax_scale;
        space->weights[key][lane + i] = is_seen && first + key < end ? score : -INFINITY;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Scores become weights. Work-items of the same lane keep the same largest and total.
INLINE void gqa_softmax(__local struct gqa_space *space, float *largest, float *total)
{
    uint lane = get_local_id(0) % GQA_LANES;
    uint share = get_local_id(0) / GQA_LANES * GQA_SHARE;
    float most = *largest;
    NO_UNROLL
    for (uint k = 0; k < GQA_KEYS; k += 8)
        UNROLL
        for (uint i = 0; i < 8; i++)
            most = fmax(most, space->weights[k + i][lane]);
    float factor = exp_near(*largest - most);
    float own[GQA_SHARE];
    UNROLL
    for (uint i = 0; i < GQA_SHARE; i++)
        own[i] = exp_near(space->weights[share + i][lane] - most);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint i = 0; i < GQA_SHARE; i++)
        space->weights[share + i][lane] = own[i];
    space->factors[lane] = factor;
    barrier(CLK_LOCAL_MEM_FENCE);
    float8 sums = 0;
    NO_UNROLL
    for (uint k = 0; k < GQA_KEYS; k += 8)
        sums += (float8)(space->weights[k][lane], space->weights[k + 1][lane], space->weights[k + 2][lane],
                         space->weights[k + 3][lane], space->weights[k + 4][lane], space->weights[k + 5][lane],
                         space->weights[k + 6][lane], space->weights[k + 7][lane]);
    float4 four = sums.lo + sums.hi;
    *largest = most;
    *total = fma(*total, factor, (four.x + four.z) + (four.y + four.w));
}

// sums[lane] += weights * the work-item's column of the values.
INLINE void gqa_values(const struct gqa_job *job, uint first, uint n, __local const struct gqa_space *space,
                       float4 *sums)
{
    const struct args_gqa *a = job->a;
    uint column = min((uint)get_local_id(0), a->head_dim - 1);
    ulong stride = 2 * (ulong)a->n_kv_heads * a->head_dim;
    ulong at = (ulong)first * stride + (ulong)(a->n_kv_heads + job->head) * a->head_dim + column;
    UNROLL
    for (uint i = 0; i < GQA_LANES / 4; i++)
        sums[i] *= vload4(i, space->factors);
    UNROLL_4
    for (uint p = 0; p < n; p++) {
        float4 value = cache_at(job->cache, a->kv_type, at + p * stride);
        UNROLL
        for (uint i = 0; i < GQA_LANES / 4; i++)
            sums[i] = fma(vload4(i, space->weights[p]), value, sums[i]);
    }
}

// All positions from begin to end - 1, begin a multiple of GQA_KEYS, for the group's lanes.
INLINE void gqa_through(const struct gqa_job *job, uint begin, uint end, __local struct gqa_space *space, float4 *sums,
                        float *largest, float *total)
{
    for (uint first = begin; first < end; first += GQA_KEYS) {
        gqa_scores(job, first, end, space);
        gqa_softmax(space, largest, total);
        gqa_values(job, first, min(end - first, (uint)GQA_KEYS), space, sums);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#if BUILD_PARTS & PART_GROUPS
// Decode: parts as attention_tiles leaves them, for attention_merge. Groups: x over key heads and blocks of lanes, y over
// tiles.
__kernel GROUP_SIZE(GQA_ITEMS, 1) void gqa_tiles(const struct args_gqa a, const struct tiling t, __global const float *q,
                                                 __global const void *cache, __global float *partials)
{
    __local struct gqa_space space;
    if (a.n_rows == 0)
        return;
    struct gqa_job job = gqa_job_of(&a, cache);
    uint item = get_local_id(0);
    uint begin = get_group_id(1) * t.rows_per_group;
    float4 sums[GQA_LANES / 4] = {0, 0, 0, 0};
    float largest = -INFINITY;
    float total = 0;
    gqa_take_queries(&job, q, &space);
    gqa_through(&job, begin, min(begin + t.rows_per_group, a.position + 1), &space, sums, &largest, &total);
    uint stride = a.head_dim + PARTIAL_TAIL;
    __global float *partial = partials + ((ulong)get_group_id(1) * a.n_heads + job.head * job.size + job.first) * stride;
    uint n = min(job.lanes - job.first, (uint)GQA_LANES);
    UNROLL
    for (uint i = 0; i < GQA_LANES / 4; i++) {
        if (item < a.head_dim && 4 * i < n)
            partial[4 * i * stride + item] = sums[i].x;
        if (item < a.head_dim && 4 * i + 1 < n)
            partial[(4 * i + 1) * stride + item] = sums[i].y;
        if (item < a.head_dim && 4 * i + 2 < n)
            partial[(4 * i + 2) * stride + item] = sums[i].z;
        if (item < a.head_dim && 4 * i + 3 < n)
            partial[(4 * i + 3) * stride + item] = sums[i].w;
    }
    if (item < n) {
        partial[item * stride + a.head_dim] = largest;
        partial[item * stride + a.head_dim + 1] = total;
    }
}
#endif

// + 0: a lane's zero has no sign that its neighbours could change.
INLINE void gqa_put(const struct gqa_job *job, uint lane, float sum, __local const struct gqa_space *space,
                    __global float *out)
{
    const struct args_gqa *a = job->a;
    if (job->first + lane < job->lanes && get_local_id(0) < a->head_dim)
        out[((ulong)lane_row(job, lane) * a->n_heads + lane_head(job, lane)) * a->head_dim + get_local_id(0)] =
            sum / space->factors[lane] + 0.0f;
}

#if BUILD_PARTS & PART_GROUPS
// Groups: x over key heads and blocks of lanes.
__kernel GROUP_SIZE(GQA_ITEMS, 1) void gqa_prefill(const struct args_gqa a, const struct tiling t,
                                                   __global const float *q, __global const void *cache,
                                                   __global float *out, __global float *scratch)
{
    __local struct gqa_space space;
    if (a.n_rows == 0)
        return;
    struct gqa_job job = gqa_job_of(&a, cache);
    float4 sums[GQA_LANES / 4] = {0, 0, 0, 0};
    float largest = -INFINITY;
    float total = 0;
    gqa_take_queries(&job, q, &space);
    gqa_through(&job, 0, a.position + lane_row(&job, GQA_LANES - 1) + 1, &space, sums, &largest, &total);
    space.factors[get_local_id(0) % GQA_LANES] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint i = 0; i < GQA_LANES / 4; i++) {
        gqa_put(&job, 4 * i, sums[i].x, &space, out);
        gqa_put(&job, 4 * i + 1, sums[i].y, &space, out);
        gqa_put(&job, 4 * i + 2, sums[i].z, &space, out);
        gqa_put(&job, 4 * i + 3, sums[i].w, &space, out);
    }
}
#endif

#endif
