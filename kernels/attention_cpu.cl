// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: attention over latent rows. Lanes are heads of rows, VECTOR of them, counted through (row, head); keys and values
// are read number by number and serve all lanes. Tiles of ATTENTION_TILE positions, softmax kept running across them.
// A lane's result does not depend on its neighbours: what lies behind its own position weighs exactly 0.
//
// Scratch of a group: queries [width][VECTOR], sums [kv_lora_rank][VECTOR], and for f16 caches a converted tile.
#if SHAPE_CPU

struct lane_job {
    const struct args_attention *a;
    __global const void *cache;
    __global float *queries;
    __global float *sums;
    __global float *converted;
    int16 position; // each lane's own
    float16 largest;
    float16 total;
};

struct lane_inputs {
    __global const float *q_latent;
    __global const float *q;
};

static struct lane_job lane_job(const struct args_attention *a, __global const void *cache, __global float *scratch)
{
    struct lane_job job;
    uint width = a->kv_lora_rank + a->rope_dim;
    job.a = a;
    job.cache = cache;
    job.queries = scratch;
    job.sums = scratch + VECTOR * width;
    job.converted = job.sums + VECTOR * a->kv_lora_rank;
    return job;
}

// Lanes first .. first + VECTOR - 1 of all (row, head); beyond the last, the last again.
static void take_lanes(struct lane_job *job, const struct lane_inputs *in, uint first)
{
    const struct args_attention *a = job->a;
    int position[VECTOR];
    for (uint lane = 0; lane < VECTOR; lane++) {
        uint head = min(first + lane, a->n_rows * a->n_heads - 1);
        uint r = head / a->n_heads;
        position[lane] = (int)(a->position + r);
        __global const float *latent = in->q_latent + (ulong)head * a->kv_lora_rank;
        __global const float *rope =
            in->q + (ulong)r * a->q_row_stride + (ulong)(head % a->n_heads) * a->q_head_stride + a->q_rope_offset;
        for (uint c = 0; c < a->kv_lora_rank; c++)
            job->queries[c * VECTOR + lane] = latent[c];
        for (uint c = 0; c < a->rope_dim; c++)
            job->queries[(a->kv_lora_rank + c) * VECTOR + lane] = rope[c];
    }
    job->position = vload16(0, position);
}

static void start_sums(struct lane_job *job)
{
    job->largest = -INFINITY;
    job->total = 0;
    for (uint c = 0; c < job->a->kv_lora_rank; c++)
        vstore16((float16)(0), c, job->sums);
}

// Cache rows first .. first + n - 1 as float32.
static __global const float *tile_rows(const struct lane_job *job, uint first, uint n)
{
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    if (job->a->kv_type == KV_F32)
        return (__global const float *)job->cache + (ulong)first * width;
    __global const half *from = (__global const half *)job->cache + (ulong)first * width;
    uint i = 0;
    for (; i + 16 <= n * width; i += 16)
        vstore16(vload_half16(0, from + i), 0, job->converted + i);
    for (; i < n * width; i++)
        job->converted[i] = vload_half(i, from);
    return job->converted;
}

#define TOGETHER 8 // positions, or columns, that share each load of a vector

static void tile_scores(const struct lane_job *job, __global const float *rows, uint n, float16 *scores)
{
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    uint p = 0;
    for (; p + TOGETHER <= n; p += TOGETHER) {
        float16 s[TOGETHER] = {0};
        for (uint c = 0; c < width; c++) {
            float16 query = vload16(c, job->queries);
            UNROLL
            for (uint i = 0; i < TOGETHER; i++)
                s[i] = fma((float16)(rows[(p + i) * width + c]), query, s[i]);
        }
        UNROLL
        for (uint i = 0; i < TOGETHER; i++)
            scores[p + i] = s[i] * job->a->softmax_scale;
    }
    for (; p < n; p++) {
        float16 s = 0;
        for (uint c = 0; c < width; c++)
            s = fma((float16)(rows[p * width + c]), vload16(c, job->queries), s);
        scores[p] = s * job->a->softmax_scale;
    }
}

// Positions first .. first + n - 1 into the job's running softmax.
static void add_tile(struct lane_job *job, uint first, uint n)
{
    uint rank = job->a->kv_lora_rank;
    uint width = rank + job->a->rope_dim;
    __global const float *rows = tile_rows(job, first, n);
    float16 scores[ATTENTION_TILE];
    tile_scores(job, rows, n, scores);
    float16 largest = job->largest;
    for (uint p = 0; p < n; p++) {
        scores[p] = select((float16)(-INFINITY), scores[p], (int16)((int)(first + p)) <= job->position);
        largest = fmax(largest, scores[p]);
    }
    float16 factor = exp16(job->largest - largest);
    float16 total = job->total * factor;
    for (uint p = 0; p < n; p++) {
        scores[p] = exp16(scores[p] - largest);
        total += scores[p];
    }
    job->largest = largest;
    job->total = total;
    for (uint c = 0; c < rank; c += TOGETHER) {
        float16 s[TOGETHER];
        UNROLL
        for (uint i = 0; i < TOGETHER; i++)
            s[i] = vload16(c + i, job->sums) * factor;
        for (uint p = 0; p < n; p++) {
            UNROLL
            for (uint i = 0; i < TOGETHER; i++)
                s[i] = fma(scores[p], (float16)(rows[p * width + c + i]), s[i]);
        }
        UNROLL
        for (uint i = 0; i < TOGETHER; i++)
            vstore16(s[i], c + i, job->sums);
    }
}

// A tile's part for a vector of heads: sums [kv_lora_rank], largest score, sum of weights, a vector each.
static __global float *partial_at(const struct args_attention *a, __global float *partials, uint tile, uint vector)
{
    uint vectors = (a->n_heads + VECTOR - 1) / VECTOR;
    return partials + ((ulong)tile * vectors + vector) * (a->kv_lora_rank + 2) * VECTOR;
}

// Groups: x over vectors of heads, y over n_groups runs of tiles. Scratch of the groups lies behind the parts.
__kernel GROUP_SIZE(1, 1) void attention_tiles(const struct args_attention a, const struct tiling t,
                                               __global const float *q_latent, __global const float *q,
                                               __global const void *cache, __global float *partials)
{
    if (a.n_rows == 0)
        return;
    uint vector = get_group_id(0);
    __global float *scratch = partial_at(&a, partials, t.n_tiles, 0);
    struct lane_job job = lane_job(&a, cache, scratch + ((ulong)vector * t.n_groups + get_group_id(1)) * t.scratch_stride);
    struct lane_inputs in = {q_latent, q};
    take_lanes(&job, &in, vector * VECTOR);
    uint end = (uint)((ulong)(get_group_id(1) + 1) * t.n_tiles / t.n_groups);
    for (uint tile = (uint)((ulong)get_group_id(1) * t.n_tiles / t.n_groups); tile < end; tile++) {
        uint first = tile * ATTENTION_TILE;
        job.sums = partial_at(&a, partials, tile, vector);
        start_sums(&job);
        add_tile(&job, first, min((uint)ATTENTION_TILE, a.position + 1 - first));
        vstore16(job.largest, a.kv_lora_rank, job.sums);
        vstore16(job.total, a.kv_lora_rank + 1, job.sums);
    }
}

// Groups: x over blocks of MERGE_COLUMNS columns, y over vectors of heads. Tiles are merged in their order.
__kernel GROUP_SIZE(1, 1) void attention_merge(const struct args_attention a, const struct tiling t,
                                               __global float *partials, __global float *out)
{
    uint rank = a.kv_lora_rank;
    uint vector = get_group_id(1);
    uint first = get_group_id(0) * MERGE_COLUMNS;
    if (a.n_rows == 0)
        return;
    float16 largest = -INFINITY;
    for (uint tile = 0; tile < t.n_tiles; tile++)
        largest = fmax(largest, vload16(rank, partial_at(&a, partials, tile, vector)));
    float16 total = 0;
    float16 sums[MERGE_COLUMNS] = {0};
    for (uint tile = 0; tile < t.n_tiles; tile++) {
        __global const float *partial = partial_at(&a, partials, tile, vector);
        float16 factor = exp16(vload16(rank, partial) - largest);
        total = fma(factor, vload16(rank + 1, partial), total);
        UNROLL
        for (uint i = 0; i < MERGE_COLUMNS; i++)
            sums[i] = fma(factor, vload16(first + i, partial), sums[i]);
    }
    uint n_heads = min((uint)VECTOR, a.n_heads - vector * VECTOR);
    UNROLL
    for (uint i = 0; i < MERGE_COLUMNS; i++) {
        float lanes[VECTOR];
        vstore16(sums[i] / total, 0, lanes);
        for (uint lane = 0; lane < n_heads; lane++)
            out[(ulong)(vector * VECTOR + lane) * rank + first + i] = lanes[lane];
    }
}

// n_groups groups; each takes every n_groups-th vector of lanes.
__kernel GROUP_SIZE(1, 1) void attention_prefill(const struct args_attention a, const struct tiling t,
                                                 __global const float *q_latent, __global const float *q,
                                                 __global const void *cache, __global float *out, __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    struct lane_job job = lane_job(&a, cache, scratch + (ulong)get_group_id(0) * t.scratch_stride);
    struct lane_inputs in = {q_latent, q};
    uint lanes = a.n_rows * a.n_heads;
    for (uint lane = get_group_id(0) * VECTOR; lane < lanes; lane += t.n_groups * VECTOR) {
        take_lanes(&job, &in, lane);
        start_sums(&job);
        uint n_lanes = min((uint)VECTOR, lanes - lane);
        uint length = a.position + (lane + n_lanes - 1) / a.n_heads + 1;
        for (uint first = 0; first < length; first += ATTENTION_TILE)
            add_tile(&job, first, min((uint)ATTENTION_TILE, length - first));
        float total[VECTOR];
        vstore16(job.total, 0, total);
        for (uint i = 0; i < n_lanes; i++)
            for (uint c = 0; c < a.kv_lora_rank; c++) // + 0: a lane's zero has no sign that its neighbours could change
                out[(ulong)(lane + i) * a.kv_lora_rank + c] = job.sums[c * VECTOR + i] / total[i] + 0.0f;
    }
}

#endif
