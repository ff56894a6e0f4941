// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: attention. Lanes are heads of rows, VECTOR of them, that share keys and values: of latent rows counted through
// (row, head), of grouped ones through (row, head of a group). Keys and values are read number by number and serve all
// lanes. Tiles of ATTENTION_TILE positions, softmax kept running across them. A lane's result does not depend on its
// neighbours: what lies behind its own position weighs exactly 0.
//
// A decoded token whose heads would fill no more than half of the lanes has its tiles by columns instead.
//
// Scratch of a group: queries [keys][VECTOR], sums [values][VECTOR], and for f16 caches a converted tile.
#if SHAPE_CPU

struct lane_job {
    __global const void *cache;
    __global const uint *list; // the cache's rows that are looked at, one behind the other; 0: all
    uint kv_type;
    uint keys;      // columns of a key and of a value, where they lie in a row of the cache, and how far rows are apart
    uint keys_at;
    uint values;
    uint values_at; // keys_at: a key is its own value
    uint stride;
    uint few; // lanes, if these lie one behind the other; 0: side by side, VECTOR of them
    float softmax_scale;
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

static void take_scratch(struct lane_job *job, __global float *scratch)
{
    job->few = 0;
    job->queries = scratch;
    job->sums = scratch + VECTOR * job->keys;
    job->converted = job->sums + VECTOR * job->values;
}

static struct lane_job latent_job(const struct args_attention *a, __global const void *cache, __global float *scratch)
{
    struct lane_job job;
    job.cache = cache;
    job.list = 0;
    job.kv_type = a->kv_type;
    job.keys = job.stride = a->kv_lora_rank + a->rope_dim;
    job.values = a->kv_lora_rank;
    job.keys_at = job.values_at = 0;
    job.softmax_scale = a->softmax_scale;
    take_scratch(&job, scratch);
    return job;
}

// A part of a lane's query, from column `at` on.
static void put_query(struct lane_job *job, uint lane, uint at, __global const float *from, uint n)
{
    if (job->few && lane < job->few)
        for (uint c = 0; c < n; c++)
            job->queries[lane * job->keys + at + c] = from[c];
    for (uint c = 0; !job->few && c < n; c++)
        job->queries[(at + c) * VECTOR + lane] = from[c];
}

// Lanes first .. first + VECTOR - 1 of all (row, head); beyond the last, the last again.
static void take_latent_lanes(struct lane_job *job, const struct args_attention *a, const struct lane_inputs *in,
                              uint first)
{
    int position[VECTOR];
    for (uint lane = 0; lane < VECTOR; lane++) {
        uint head = min(first + lane, a->n_rows * a->n_heads - 1);
        uint r = head / a->n_heads;
        position[lane] = (int)(a->position + r);
        __global const float *latent = in->q_latent + (ulong)head * a->kv_lora_rank;
        __global const float *rope =
            in->q + (ulong)r * a->q_row_stride + (ulong)(head % a->n_heads) * a->q_head_stride + a->q_rope_offset;
        put_query(job, lane, 0, latent, a->kv_lora_rank);
        put_query(job, lane, a->kv_lora_rank, rope, a->rope_dim);
    }
    job->position = vload16(0, position);
}

// The heads of a group: those that share a key head.
struct lane_group {
    uint head; // of keys
    uint size;
};

static struct lane_job group_job(const struct args_gqa *a, uint head, __global const void *cache,
                                 __global float *scratch)
{
    struct lane_job job;
    job.cache = cache;
    job.list = 0;
    job.kv_type = a->kv_type;
    job.keys = job.values = a->head_dim;
    job.stride = 2 * a->n_kv_heads * a->head_dim;
    job.keys_at = head * a->head_dim;
    job.values_at = (a->n_kv_heads + head) * a->head_dim;
    job.softmax_scale = a->softmax_scale;
    take_scratch(&job, scratch);
    return job;
}

// Where a lane's row of q, or of an output of head_dim columns a head, begins.
static ulong group_lane_at(const struct args_gqa *a, const struct lane_group *group, uint lane, ulong row, ulong head)
{
    return (ulong)(lane / group->size) * row + (group->head * group->size + lane % group->size) * head;
}

static void take_group_lanes(struct lane_job *job, const struct args_gqa *a, const struct lane_group *group,
                             __global const float *q, uint first)
{
    int position[VECTOR];
    for (uint i = 0; i < VECTOR; i++) {
        uint lane = min(first + i, a->n_rows * group->size - 1);
        __global const float *query = q + a->q_offset + group_lane_at(a, group, lane, a->q_stride, a->q_head_stride);
        position[i] = (int)(a->position + lane / group->size);
        put_query(job, i, 0, query, a->head_dim);
    }
    job->position = vload16(0, position);
}

static void start_sums(struct lane_job *job)
{
    job->largest = -INFINITY;
    job->total = 0;
    for (uint c = 0; c < job->values; c++)
        vstore16((float16)(0), c, job->sums);
}

// A tile's keys and values as float32.
struct lane_tile {
    __global const float *keys;
    __global const float *values;
    uint stride;
};

static void convert_row(__global const half *from, uint n, __global float *to)
{
    uint i = 0;
    for (; i + 16 <= n; i += 16)
        vstore16(vload_half16(0, from + i), 0, to + i);
    for (; i < n; i++)
        to[i] = vload_half(i, from);
}

static void take_row(const struct lane_job *job, ulong at, __global float *to)
{
    if (job->kv_type == KV_F16)
        convert_row((__global const half *)job->cache + at, job->keys, to);
    else
        for (uint c = 0; c < job->keys; c++)
            to[c] = ((__global const float *)job->cache)[at + c];
}

// Rows first .. first + n - 1 of the cache, or of the list, side by side.
static struct lane_tile take_tile(const struct lane_job *job, uint first, uint n)
{
    struct lane_tile tile;
    if (job->list) {
        tile.keys = tile.values = job->converted;
        tile.stride = job->keys;
        for (uint p = 0; p < n; p++)
            take_row(job, (ulong)job->list[first + p] * job->stride, job->converted + p * job->keys);
        return tile;
    }
    uint apart = job->values_at == job->keys_at ? 0 : job->keys; // of a converted row: where its values begin
    if (job->kv_type == KV_F32) {
        __global const float *rows = (__global const float *)job->cache + (ulong)first * job->stride;
        tile.keys = rows + job->keys_at;
        tile.values = rows + job->values_at;
        tile.stride = job->stride;
        return tile;
    }
    tile.keys = job->converted;
    tile.values = job->converted + apart;
    tile.stride = job->keys + (apart ? job->values : 0);
    for (uint p = 0; p < n; p++) {
        __global const half *row = (__global const half *)job->cache + (ulong)(first + p) * job->stride;
        convert_row(row + job->keys_at, job->keys, job->converted + p * tile.stride);
        if (apart)
            convert_row(row + job->values_at, job->values, job->converted + p * tile.stride + apart);
    }
    return tile;
}

// A tile's part for a vector of lanes: sums [values], largest score, sum of weights, a vector each;
// of few lanes the sums are [lanes][values].
struct lane_parts {
    __global float *begin;
    uint vectors; // of a tile
    uint keys;
    uint values;
};

static __global float *part_at(const struct lane_parts *parts, uint tile, uint vector)
{
    return parts->begin + ((ulong)tile * parts->vectors + vector) * (parts->values + 2) * VECTOR;
}

// ---- a decoded token's few lanes, not side by side but one after the other: vectors are columns of keys and of values

#define FEW 8 // lanes at most
#ifdef __AVX512F__
#define COLUMNS       16
#define COLUMNS_FLOAT float16
#define COLUMNS_LOAD  vload16
#define COLUMNS_STORE vstore16
#define COLUMNS_SUM   sum16
#else
#define COLUMNS       8
#define COLUMNS_FLOAT float8
#define COLUMNS_LOAD  vload8
#define COLUMNS_STORE vstore8
#define COLUMNS_SUM   sum8
#endif
#define FEW_ROWS 4 // positions, or vectors of columns, that two lanes take together

static bool is_few(uint keys, uint values, uint n_lanes)
{
    return n_lanes <= FEW && keys % 16 == 0 && values % 16 == 0;
}

static uint few_of(const struct lane_job *job, uint n_lanes)
{
    return is_few(job->keys, job->values, n_lanes) ? n_lanes : 0;
}

// Of two lanes, FEW_ROWS positions from `first` on; beyond the tile's n, the last again.
static void few_scores(const struct lane_job *job, const struct lane_tile *tile, const uint *lanes, uint first, uint n,
                       float (*scores)[ATTENTION_TILE])
{
    __global const float *keys[FEW_ROWS];
    COLUMNS_FLOAT s[2][FEW_ROWS] = {{0}};
    UNROLL
    for (uint i = 0; i < FEW_ROWS; i++)
        keys[i] = tile->keys + min(first + i, n - 1) * tile->stride;
    for (uint c = 0; c < job->keys; c += COLUMNS) {
        COLUMNS_FLOAT one = COLUMNS_LOAD(0, job->queries + lanes[0] * job->keys + c);
        COLUMNS_FLOAT two = COLUMNS_LOAD(0, job->queries + lanes[1] * job->keys + c);
        UNROLL
        for (uint i = 0; i < FEW_ROWS; i++) {
            COLUMNS_FLOAT key = COLUMNS_LOAD(0, keys[i] + c);
            s[0][i] = fma(key, one, s[0][i]);
            s[1][i] = fma(key, two, s[1][i]);
        }
    }
    UNROLL
    for (uint l = 0; l < 2; l++)
        UNROLL
        for (uint i = 0; i < FEW_ROWS; i++)
            scores[lanes[l]][first + i] = COLUMNS_SUM(s[l][i]) * job->softmax_scale;
}

// A lane's scores of n positions become weights.
static void few_weights(float *scores, uint n, float *largest, float *total)
{
    enum { VECTORS = ATTENTION_TILE / 16 };
    float16 s[VECTORS];
    float16 most = -INFINITY, sum = 0;
    UNROLL
    for (uint v = 0; v < VECTORS; v++) {
        int16 position = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (int16)(16 * (int)v);
        s[v] = select((float16)(-INFINITY), vload16(v, scores), position < (int16)((int)n));
        most = fmax(most, s[v]);
    }
    float8 eight = fmax(most.lo, most.hi);
    float4 four = fmax(eight.lo, eight.hi);
    *largest = fmax(fmax(four.x, four.z), fmax(four.y, four.w));
    UNROLL
    for (uint v = 0; v < VECTORS; v++) {
        s[v] = exp16(s[v] - *largest);
        sum += s[v];
        vstore16(s[v], v, scores);
    }
    *total = sum16(sum);
}

// FEW_ROWS vectors of two lanes' sums, from column `first` on; beyond the last, it again.
static void few_sums(const struct lane_job *job, const struct lane_tile *tile, const uint *lanes, uint first, uint n,
                     float (*weights)[ATTENTION_TILE])
{
    COLUMNS_FLOAT s[2][FEW_ROWS] = {{0}};
    uint at[FEW_ROWS];
    UNROLL
    for (uint i = 0; i < FEW_ROWS; i++)
        at[i] = min(first + i * COLUMNS, job->values - COLUMNS);
    for (uint p = 0; p < n; p++) {
        COLUMNS_FLOAT one = weights[lanes[0]][p], two = weights[lanes[1]][p];
        UNROLL
        for (uint i = 0; i < FEW_ROWS; i++) {
            COLUMNS_FLOAT value = COLUMNS_LOAD(0, tile->values + p * tile->stride + at[i]);
            s[0][i] = fma(one, value, s[0][i]);
            s[1][i] = fma(two, value, s[1][i]);
        }
    }
    UNROLL
    for (uint l = 0; l < 2; l++)
        UNROLL
        for (uint i = 0; i < FEW_ROWS; i++)
            COLUMNS_STORE(s[l][i], 0, job->sums + lanes[l] * job->values + at[i]);
}

// Positions first .. first + n - 1, a tile, into the part that the job's sums begin.
static void few_tile(const struct lane_job *job, uint first, uint n)
{
    struct lane_tile tile = take_tile(job, first, n);
    float scores[FEW][ATTENTION_TILE];
    float largest[VECTOR] = {0}, total[VECTOR] = {0};
    for (uint lane = 0; lane < job->few; lane += 2) {
        uint lanes[2] = {lane, min(lane + 1, job->few - 1)};
        for (uint p = 0; p < n; p += FEW_ROWS)
            few_scores(job, &tile, lanes, p, n, scores);
    }
    for (uint lane = 0; lane < job->few; lane++)
        few_weights(scores[lane], n, largest + lane, total + lane);
    for (uint lane = 0; lane < job->few; lane += 2) {
        uint lanes[2] = {lane, min(lane + 1, job->few - 1)};
        for (uint c = 0; c < job->values; c += FEW_ROWS * COLUMNS)
            few_sums(job, &tile, lanes, c, n, scores);
    }
    vstore16(vload16(0, largest), job->values, job->sums);
    vstore16(vload16(0, total), job->values + 1, job->sums);
}

// As lanes_merge.
static void few_merge(const struct lane_parts *parts, uint n_tiles, uint n_lanes, __global float *out)
{
    uint vector = get_group_id(1), first = get_group_id(0) * MERGE_COLUMNS, values = parts->values;
    float16 largest = -INFINITY;
    for (uint tile = 0; tile < n_tiles; tile++)
        largest = fmax(largest, vload16(values, part_at(parts, tile, vector)));
    float16 total = 0;
    float16 sums[FEW] = {0};
    for (uint tile = 0; tile < n_tiles; tile++) {
        __global const float *partial = part_at(parts, tile, vector);
        float16 factor = exp16(vload16(values, partial) - largest);
        float factors[VECTOR];
        vstore16(factor, 0, factors);
        total = fma(factor, vload16(values + 1, partial), total);
        UNROLL
        for (uint i = 0; i < FEW; i++)
            sums[i] = fma((float16)(factors[i]), vload16(0, partial + min(i, n_lanes - 1) * values + first), sums[i]);
    }
    float totals[VECTOR];
    vstore16(total, 0, totals);
    UNROLL
    for (uint i = 0; i < FEW; i++)
        if (i < n_lanes)
            vstore16(sums[i] / totals[i], 0, out + (ulong)i * values + first);
}

#define TOGETHER 8 // positions, or columns, that share each load of a vector

static void tile_scores(const struct lane_job *job, const struct lane_tile *tile, uint n, float16 *scores)
{
    __global const float *keys = tile->keys;
    uint stride = tile->stride;
    uint p = 0;
    for (; p + TOGETHER <= n; p += TOGETHER) {
        float16 s[TOGETHER] = {0};
        for (uint c = 0; c < job->keys; c++) {
            float16 query = vload16(c, job->queries);
            UNROLL
            for (uint i = 0; i < TOGETHER; i++)
                s[i] = fma((float16)(keys[(p + i) * stride + c]), query, s[i]);
        }
        UNROLL
        for (uint i = 0; i < TOGETHER; i++)
            scores[p + i] = s[i] * job->softmax_scale;
    }
    for (; p < n; p++) {
        float16 s = 0;
        for (uint c = 0; c < job->keys; c++)
            s = fma((float16)(keys[p * stride + c]), vload16(c, job->queries), s);
        scores[p] = s * job->softmax_scale;
    }
}

// Positions first .. first + n - 1 into the job's running softmax.
static void add_tile(struct lane_job *job, uint first, uint n)
{
    struct lane_tile tile = take_tile(job, first, n);
    __global const float *values = tile.values;
    uint stride = tile.stride;
    float16 scores[ATTENTION_TILE];
    tile_scores(job, &tile, n, scores);
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
    for (uint c = 0; c < job->values; c += TOGETHER) {
        float16 s[TOGETHER];
        UNROLL
        for (uint i = 0; i < TOGETHER; i++)
            s[i] = vload16(c + i, job->sums) * factor;
        for (uint p = 0; p < n; p++) {
            UNROLL
            for (uint i = 0; i < TOGETHER; i++)
                s[i] = fma(scores[p], (float16)(values[p * stride + c + i]), s[i]);
        }
        UNROLL
        for (uint i = 0; i < TOGETHER; i++)
            vstore16(s[i], c + i, job->sums);
    }
}

// The group's run of tiles, of one row, for its vector; groups: x over vectors, y over n_groups runs.
static void lanes_tiles(struct lane_job *job, const struct lane_parts *parts, const struct tiling *t, uint length)
{
    uint run = get_group_id(1);
    uint end = (uint)((ulong)(run + 1) * t->n_tiles / t->n_groups);
    for (uint tile = (uint)((ulong)run * t->n_tiles / t->n_groups); tile < end; tile++) {
        uint first = tile * ATTENTION_TILE;
        job->sums = part_at(parts, tile, get_group_id(0));
        if (job->few) {
            few_tile(job, first, min((uint)ATTENTION_TILE, length - first));
            continue;
        }
        start_sums(job);
        add_tile(job, first, min((uint)ATTENTION_TILE, length - first));
        vstore16(job->largest, job->values, job->sums);
        vstore16(job->total, job->values + 1, job->sums);
    }
}

static __global float *tiles_scratch(const struct lane_parts *parts, const struct tiling *t)
{
    __global float *scratch = part_at(parts, t->n_tiles, 0); // behind the parts
    return scratch + ((ulong)get_group_id(0) * t->n_groups + get_group_id(1)) * t->scratch_stride;
}

// MERGE_COLUMNS columns from `first` on of n_lanes of a vector, to `out`; tiles are merged in their order. Groups: x over
// blocks of columns, y over vectors.
static void lanes_merge(const struct lane_parts *parts, uint n_tiles, uint n_lanes, __global float *out)
{
    uint vector = get_group_id(1);
    uint first = get_group_id(0) * MERGE_COLUMNS;
    uint values = parts->values;
    if (is_few(parts->keys, values, n_lanes)) {
        few_merge(parts, n_tiles, n_lanes, out);
        return;
    }
    float16 largest = -INFINITY;
    for (uint tile = 0; tile < n_tiles; tile++)
        largest = fmax(largest, vload16(values, part_at(parts, tile, vector)));
    float16 total = 0;
    float16 sums[MERGE_COLUMNS] = {0};
    for (uint tile = 0; tile < n_tiles; tile++) {
        __global const float *partial = part_at(parts, tile, vector);
        float16 factor = exp16(vload16(values, partial) - largest);
        total = fma(factor, vload16(values + 1, partial), total);
        UNROLL
        for (uint i = 0; i < MERGE_COLUMNS; i++)
            sums[i] = fma(factor, vload16(min(first + i, values - 1), partial), sums[i]);
    }
    UNROLL
    for (uint i = 0; i < MERGE_COLUMNS; i++) {
        float lanes[VECTOR];
        vstore16(sums[i] / total, 0, lanes);
        for (uint lane = 0; lane < n_lanes && first + i < values; lane++)
            out[(ulong)lane * values + first + i] = lanes[lane];
    }
}

// Positions 0 .. length - 1 for the lanes that were taken.
static void lanes_through(struct lane_job *job, uint length)
{
    start_sums(job);
    for (uint first = 0; first < length; first += ATTENTION_TILE)
        add_tile(job, first, min((uint)ATTENTION_TILE, length - first));
}

static void lanes_put(const struct lane_job *job, uint lane, __global float *out)
{
    float total[VECTOR];
    vstore16(job->total, 0, total);
    for (uint c = 0; c < job->values; c++) // + 0: a lane's zero has no sign that its neighbours could change
        out[c] = job->sums[c * VECTOR + lane] / total[lane] + 0.0f;
}

// From a row on.
static struct lane_inputs latent_inputs(const struct args_attention *a, __global const float *q_latent,
                                        __global const float *q, uint row)
{
    struct lane_inputs in = {q_latent + (ulong)(a->first_row + row) * a->n_heads * a->kv_lora_rank,
                             q + (ulong)(a->first_row + row) * a->q_row_stride};
    return in;
}

// One of the rows, as if it stood behind as many others as it has on its list.
static struct args_attention listed_row(const struct args_attention *a, uint r)
{
    struct args_attention row = *a;
    row.n_rows = 1;
    row.position = listed_of(a, r) - 1;
    return row;
}

static struct lane_parts latent_parts(const struct args_attention *a, __global float *partials)
{
    struct lane_parts parts = {partials, (a->n_heads + VECTOR - 1) / VECTOR, a->kv_lora_rank + a->rope_dim,
                               a->kv_lora_rank};
    return parts;
}

__kernel GROUP_SIZE(1, 1) void attention_tiles(const struct args_attention a, const struct tiling t,
                                               __global const float *q_latent, __global const float *q,
                                               __global const void *cache, __global float *partials)
{
    if (a.n_rows == 0)
        return;
    struct lane_parts parts = latent_parts(&a, partials);
    struct lane_job job = latent_job(&a, cache, tiles_scratch(&parts, &t));
    struct lane_inputs in = latent_inputs(&a, q_latent, q, 0);
    job.few = few_of(&job, a.n_heads - get_group_id(0) * VECTOR);
    take_latent_lanes(&job, &a, &in, get_group_id(0) * VECTOR);
    lanes_tiles(&job, &parts, &t, a.position + 1);
}
CALLABLE(attention_tiles, args_attention, 4)

__kernel GROUP_SIZE(1, 1) void list_tiles(const struct args_attention a, const struct tiling t,
                                          __global const float *q_latent, __global const float *q,
                                          __global const void *cache, __global const uint *list,
                                          __global float *partials)
{
    if (a.n_rows == 0)
        return;
    struct args_attention row = listed_row(&a, 0);
    struct lane_parts parts = latent_parts(&row, partials);
    struct lane_job job = latent_job(&row, cache, tiles_scratch(&parts, &t));
    struct lane_inputs in = latent_inputs(&a, q_latent, q, 0);
    job.list = list + a.first_listed;
    job.few = few_of(&job, a.n_heads - get_group_id(0) * VECTOR);
    take_latent_lanes(&job, &row, &in, get_group_id(0) * VECTOR);
    lanes_tiles(&job, &parts, &t, row.position + 1);
}
CALLABLE(list_tiles, args_attention, 5)

__kernel GROUP_SIZE(1, 1) void attention_merge(const struct args_attention a, const struct tiling t,
                                               __global float *partials, __global float *out)
{
    uint head = get_group_id(1) * VECTOR;
    if (a.n_rows == 0)
        return;
    struct lane_parts parts = latent_parts(&a, partials);
    lanes_merge(&parts, t.n_tiles, min((uint)VECTOR, a.n_heads - head),
                out + ((ulong)a.first_row * a.n_heads + head) * a.kv_lora_rank);
}
CALLABLE(attention_merge, args_attention, 2)

// n_groups groups; each takes every n_groups-th vector of lanes.
__kernel GROUP_SIZE(1, 1) void attention_prefill(const struct args_attention a, const struct tiling t,
                                                 __global const float *q_latent, __global const float *q,
                                                 __global const void *cache, __global float *out, __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    struct lane_job job = latent_job(&a, cache, scratch + (ulong)get_group_id(0) * t.scratch_stride);
    struct lane_inputs in = latent_inputs(&a, q_latent, q, 0);
    out += (ulong)a.first_row * a.n_heads * a.kv_lora_rank;
    uint lanes = a.n_rows * a.n_heads;
    for (uint lane = get_group_id(0) * VECTOR; lane < lanes; lane += t.n_groups * VECTOR) {
        take_latent_lanes(&job, &a, &in, lane);
        uint n_lanes = min((uint)VECTOR, lanes - lane);
        lanes_through(&job, a.position + (lane + n_lanes - 1) / a.n_heads + 1);
        for (uint i = 0; i < n_lanes; i++)
            lanes_put(&job, i, out + (ulong)(lane + i) * a.kv_lora_rank);
    }
}

// As attention_prefill; a vector's lanes are of one row, whose list they share.
__kernel GROUP_SIZE(1, 1) void list_prefill(const struct args_attention a, const struct tiling t,
                                            __global const float *q_latent, __global const float *q,
                                            __global const void *cache, __global const uint *list, __global float *out,
                                            __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    struct lane_job job = latent_job(&a, cache, scratch + (ulong)get_group_id(0) * t.scratch_stride);
    uint vectors = (a.n_heads + VECTOR - 1) / VECTOR;
    for (uint vector = get_group_id(0); vector < a.n_rows * vectors; vector += t.n_groups) {
        uint r = vector / vectors;
        uint head = vector % vectors * VECTOR;
        struct lane_inputs in = latent_inputs(&a, q_latent, q, r);
        struct args_attention row = listed_row(&a, r);
        job.list = list + a.first_listed + (ulong)r * list_stride(&a);
        take_latent_lanes(&job, &row, &in, head);
        lanes_through(&job, row.position + 1);
        for (uint i = 0; i < VECTOR && head + i < a.n_heads; i++)
            lanes_put(&job, i, out + ((ulong)(a.first_row + r) * a.n_heads + head + i) * a.kv_lora_rank);
    }
}

// A group of heads, and which of its vectors of lanes this is.
static struct lane_group group_of(const struct args_gqa *a, uint vector, uint *first)
{
    struct lane_group group = {0, a->n_heads / a->n_kv_heads};
    uint vectors = (a->n_rows * group.size + VECTOR - 1) / VECTOR;
    group.head = vector / vectors;
    *first = vector % vectors * VECTOR;
    return group;
}

static struct lane_parts group_parts(const struct args_gqa *a, __global float *partials)
{
    uint vectors = (a->n_heads / a->n_kv_heads + VECTOR - 1) / VECTOR;
    struct lane_parts parts = {partials, a->n_kv_heads * vectors, a->head_dim, a->head_dim};
    return parts;
}

__kernel GROUP_SIZE(1, 1) void gqa_tiles(const struct args_gqa a, const struct tiling t, __global const float *q,
                                         __global const void *cache, __global float *partials)
{
    if (a.n_rows == 0)
        return;
    uint first;
    struct lane_group group = group_of(&a, get_group_id(0), &first);
    struct lane_parts parts = group_parts(&a, partials);
    struct lane_job job = group_job(&a, group.head, cache, tiles_scratch(&parts, &t));
    job.few = few_of(&job, group.size - first);
    take_group_lanes(&job, &a, &group, q, first);
    lanes_tiles(&job, &parts, &t, a.position + 1);
}
CALLABLE(gqa_tiles, args_gqa, 3)

__kernel GROUP_SIZE(1, 1) void gqa_merge(const struct args_gqa a, const struct tiling t, __global float *partials,
                                         __global float *out)
{
    if (a.n_rows == 0)
        return;
    uint first;
    struct lane_group group = group_of(&a, get_group_id(1), &first);
    struct lane_parts parts = group_parts(&a, partials);
    lanes_merge(&parts, t.n_tiles, min((uint)VECTOR, group.size - first),
                out + group_lane_at(&a, &group, first, 0, a.head_dim));
}
CALLABLE(gqa_merge, args_gqa, 2)

// n_groups groups, as attention_prefill.
__kernel GROUP_SIZE(1, 1) void gqa_prefill(const struct args_gqa a, const struct tiling t, __global const float *q,
                                           __global const void *cache, __global float *out, __global float *scratch)
{
    if (a.n_rows == 0)
        return;
    uint lanes = a.n_rows * (a.n_heads / a.n_kv_heads);
    uint vectors = a.n_kv_heads * ((lanes + VECTOR - 1) / VECTOR);
    for (uint vector = get_group_id(0); vector < vectors; vector += t.n_groups) {
        uint first;
        struct lane_group group = group_of(&a, vector, &first);
        struct lane_job job = group_job(&a, group.head, cache, scratch + (ulong)get_group_id(0) * t.scratch_stride);
        take_group_lanes(&job, &a, &group, q, first);
        uint n_lanes = min((uint)VECTOR, lanes - first);
        lanes_through(&job, a.position + (first + n_lanes - 1) / group.size + 1);
        for (uint i = 0; i < n_lanes; i++)
            lanes_put(&job, i, out + group_lane_at(&a, &group, first + i, (ulong)a.n_heads * a.head_dim, a.head_dim));
    }
}

#endif
