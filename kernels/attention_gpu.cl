// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: attention over latent rows, whose keys are their own values: a group serves several heads, so that each load of
// the cache serves them all.
#if !SHAPE_CPU

#define DECODE_LANES 32
#define DECODE_TEAMS 4
#define DECODE_ITEMS (DECODE_LANES * DECODE_TEAMS)
#define DECODE_POSITIONS (DECODE_STEP / DECODE_TEAMS) // of a team in a step
#define DECODE_COLUMNS 18                             // of each query, that a lane keeps
#define DECODE_BLOCK (DECODE_COLUMNS * DECODE_LANES)
#define DECODE_VALUES (MOST_VALUES / DECODE_ITEMS) // columns that a work-item adds up

struct attention_job {
    const struct args_attention *a;
    __global const float *q_latent; // of the row
    __global const float *q;
    __global const void *cache;
    __global const uint *list; // of the row; 0: it sees all rows of the cache
    uint first_head;
};

INLINE struct attention_job attention_job_of(const struct args_attention *a, __global const float *q_latent,
                                             __global const float *q, __global const void *cache, uint row)
{
    struct attention_job job = {a, q_latent + (ulong)(a->first_row + row) * a->n_heads * a->kv_lora_rank,
                                q + (ulong)(a->first_row + row) * a->q_row_stride + a->q_rope_offset, cache, 0};
    return job;
}

// The same with the row's list.
INLINE struct attention_job list_job_of(const struct args_attention *a, __global const float *q_latent,
                                        __global const float *q, __global const void *cache, uint row,
                                        __global const uint *list)
{
    struct attention_job job = attention_job_of(a, q_latent, q, cache, row);
    job.list = list + a->first_listed + (ulong)row * list_stride(a);
    return job;
}

// The cache's row that counts as number `key` of those that are seen.
INLINE uint row_of(const struct attention_job *job, uint key)
{
    return job->list ? job->list[key] : key;
}

static float query_at(const struct attention_job *job, uint head, uint column)
{
    const struct args_attention *a = job->a;
    uint h = min(job->first_head + head, a->n_heads - 1);
    if (column < a->kv_lora_rank)
        return job->q_latent[(ulong)h * a->kv_lora_rank + column];
    return column < a->kv_lora_rank + a->rope_dim ? job->q[(ulong)h * a->q_head_stride + column - a->kv_lora_rank] : 0;
}

struct decode_space {
    float dots[DECODE_STEP][GROUP_HEADS][DECODE_LANES + 1]; // the lanes' parts of the scores
    float scores[DECODE_STEP][GROUP_HEADS];
    float weights[DECODE_STEP][GROUP_HEADS];
    float factors[GROUP_HEADS]; // what earlier sums must be multiplied with
};

// dots[p][h] += the lane's columns of a block of them, of position p with query h.
INLINE void decode_dots(const struct attention_job *job, const uint kv_type, const uint *positions, uint block,
                        float (*queries)[GROUP_HEADS], float (*dots)[GROUP_HEADS])
{
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    UNROLL
    for (uint p = 0; p < DECODE_POSITIONS; p++) {
        float keys[DECODE_COLUMNS];
        UNROLL
        for (uint j = 0; j < DECODE_COLUMNS; j++) {
            uint c = block + get_local_id(0) % DECODE_LANES + j * DECODE_LANES;
            keys[j] = c < width ? cache_at(job->cache, kv_type, (ulong)positions[p] * width + c) : 0;
        }
        UNROLL
        for (uint j = 0; j < DECODE_COLUMNS; j++)
            UNROLL
            for (uint h = 0; h < GROUP_HEADS; h++)
                dots[p][h] = fma(queries[j][h], keys[j], dots[p][h]);
    }
}

// values[i][j]: column j of the work-item of a step's positions, the first of which is `first`; the last is repeated.
INLINE void decode_load(const struct attention_job *job, const uint kv_type, uint first, uint end, uint column,
                        float (*values)[DECODE_VALUES])
{
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    UNROLL
    for (uint i = 0; i < DECODE_STEP; i++)
        UNROLL
        for (uint j = 0; j < DECODE_VALUES; j++)
            values[i][j] = cache_at(job->cache, kv_type, (ulong)row_of(job, min(first + i, end - 1)) * width +
                                                             min(column + j * DECODE_ITEMS, job->a->kv_lora_rank - 1));
}

// sums[j][h] += weights of the step's positions times column j of the work-item.
INLINE void decode_values(__local const struct decode_space *space, float (*values)[DECODE_VALUES],
                          float (*sums)[GROUP_HEADS])
{
    UNROLL
    for (uint p = 0; p < DECODE_STEP; p++)
        UNROLL
        for (uint j = 0; j < DECODE_VALUES; j++)
            UNROLL
            for (uint h = 0; h < GROUP_HEADS; h++)
                sums[j][h] = fma(space->weights[p][h], values[p][j], sums[j][h]);
}

// Groups: x over blocks of heads, y over tiles of positions, z over blocks of columns. A tile's positions are gone
// through in steps; work-items with the same head, their number modulo GROUP_HEADS, keep the same largest and total.
INLINE void decode_tile(const struct attention_job *job, const struct tiling *t, uint length,
                        __local struct decode_space *space, __global float *partials)
{
    const struct args_attention *a = job->a;
    uint width = a->kv_lora_rank + a->rope_dim;
    uint item = get_local_id(0);
    uint lane = item % DECODE_LANES;
    uint team = item / DECODE_LANES;
    uint head = item % GROUP_HEADS;
    uint column = get_group_id(2) * MOST_VALUES + item;
    uint begin = get_group_id(1) * t->rows_per_group;
    uint end = min(begin + t->rows_per_group, length);
    float largest = -INFINITY;
    float total = 0;
    float sums[DECODE_VALUES][GROUP_HEADS];
    UNROLL
    for (uint j = 0; j < DECODE_VALUES; j++)
        UNROLL
        for (uint h = 0; h < GROUP_HEADS; h++)
            sums[j][h] = 0;
    float queries[DECODE_COLUMNS][GROUP_HEADS];
    for (uint first = begin; first < end; first += DECODE_STEP) {
        float dots[DECODE_POSITIONS][GROUP_HEADS] = {{0}};
        uint positions[DECODE_POSITIONS];
        UNROLL
        for (uint p = 0; p < DECODE_POSITIONS; p++)
            positions[p] = row_of(job, min(first + team * DECODE_POSITIONS + p, end - 1));
        for (uint block = 0; block < width; block += DECODE_BLOCK) {
            if (first == begin || width > DECODE_BLOCK)
                UNROLL
                for (uint j = 0; j < DECODE_COLUMNS; j++)
                    UNROLL
                    for (uint h = 0; h < GROUP_HEADS; h++)
                        queries[j][h] = query_at(job, h, block + lane + j * DECODE_LANES);
            if (a->kv_type == KV_F32)
                decode_dots(job, KV_F32, positions, block, queries, dots);
            else
                decode_dots(job, KV_F16, positions, block, queries, dots);
        }
        UNROLL
        for (uint p = 0; p < DECODE_POSITIONS; p++)
            UNROLL
            for (uint h = 0; h < GROUP_HEADS; h++)
                space->dots[team * DECODE_POSITIONS + p][h][lane] = dots[p][h];
        float values[DECODE_STEP][DECODE_VALUES]; // on their way while the scores are summed
        if (a->kv_type == KV_F32)
            decode_load(job, KV_F32, first, end, column, values);
        else
            decode_load(job, KV_F16, first, end, column, values);
        barrier(CLK_LOCAL_MEM_FENCE);
        // As many work-items as there are scores have one; the others repeat: PoCL 3.1 runs loops in branches for all.
        uint mine = item / GROUP_HEADS % DECODE_STEP;
        __local const float *parts = space->dots[mine][head];
        float4 sum = 0;
        UNROLL
        for (uint i = 0; i < DECODE_LANES; i += 4)
            sum += (float4)(parts[i], parts[i + 1], parts[i + 2], parts[i + 3]);
        float score = first + mine < end ? ((sum.x + sum.z) + (sum.y + sum.w)) * a->softmax_scale : -INFINITY;
        space->scores[mine][head] = score;
        barrier(CLK_LOCAL_MEM_FENCE);
        float before = largest;
        UNROLL
        for (uint p = 0; p < DECODE_STEP; p++)
            largest = fmax(largest, space->scores[p][head]);
        float factor = exp_near(before - largest);
        space->weights[mine][head] = exp_near(score - largest);
        space->factors[head] = factor;
        barrier(CLK_LOCAL_MEM_FENCE);
        total *= factor;
        UNROLL
        for (uint p = 0; p < DECODE_STEP; p++)
            total += space->weights[p][head];
        UNROLL
        for (uint j = 0; j < DECODE_VALUES; j++)
            UNROLL
            for (uint h = 0; h < GROUP_HEADS; h++)
                sums[j][h] *= space->factors[h];
        decode_values(space, values, sums);
    }
    uint n = min((uint)GROUP_HEADS, a->n_heads - job->first_head);
    uint stride = a->kv_lora_rank + PARTIAL_TAIL;
    __global float *partial = partials + ((ulong)get_group_id(1) * a->n_heads + job->first_head) * stride;
    UNROLL
    for (uint j = 0; j < DECODE_VALUES; j++)
        UNROLL
        for (uint h = 0; h < GROUP_HEADS; h++)
            if (h < n && column + j * DECODE_ITEMS < a->kv_lora_rank)
                partial[h * stride + column + j * DECODE_ITEMS] = sums[j][h];
    if (item < n && get_group_id(2) == 0) {
        partial[item * stride + a->kv_lora_rank] = largest;
        partial[item * stride + a->kv_lora_rank + 1] = total;
    }
}

#if BUILD_PARTS & PART_LATENT
__kernel GROUP_SIZE(DECODE_ITEMS, 1) void attention_tiles(const struct args_attention a, const struct tiling t,
                                                          __global const float *q_latent, __global const float *q,
                                                          __global const void *cache, __global float *partials)
{
    __local struct decode_space space;
    if (a.n_rows == 0)
        return;
    struct attention_job job = attention_job_of(&a, q_latent, q, cache, 0);
    job.first_head = get_group_id(0) * GROUP_HEADS;
    decode_tile(&job, &t, a.position + 1, &space, partials);
}
#endif

#if BUILD_PARTS & PART_LISTS
// The tiles are of the list.
__kernel GROUP_SIZE(DECODE_ITEMS, 1) void list_tiles(const struct args_attention a, const struct tiling t,
                                                     __global const float *q_latent, __global const float *q,
                                                     __global const void *cache, __global const uint *list,
                                                     __global float *partials)
{
    __local struct decode_space space;
    if (a.n_rows == 0)
        return;
    struct attention_job job = list_job_of(&a, q_latent, q, cache, 0, list);
    job.first_head = get_group_id(0) * GROUP_HEADS;
    decode_tile(&job, &t, listed_of(&a, 0), &space, partials);
}
#endif

#if BUILD_PARTS & PART_LATENT
// Groups: x over MERGE_LANES columns, y over heads.
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void attention_merge(const struct args_attention a, const struct tiling t,
                                                            __global const float *partials, __global float *out)
{
    __local struct merge_space space;
    if (get_group_id(1) < a.n_heads)
        merge_part(&a, t.n_tiles, get_group_id(0) * MERGE_LANES, get_group_id(1), partials, &space, out);
}
#endif

// Prefill: a group serves PREFILL_GROUP heads of one row and goes through its keys PREFILL_KEYS at a time. Scores: work-
// items compute 4 heads by 4 keys, in PREFILL_SLICES sums, each over its part of every PREFILL_DEPTH columns. Values:
// 4 heads by 8 columns.
#define PREFILL_KEYS 64
#define PREFILL_DEPTH 32
#define PREFILL_FOURS (PREFILL_DEPTH / 4)
#define PREFILL_SLICES 4
#define PREFILL_SHARES (PREFILL_ITEMS / PREFILL_GROUP) // work-items that share a head's softmax
#define PREFILL_KEYS_EACH (PREFILL_KEYS / PREFILL_SHARES)
#define PREFILL_LOADS (PREFILL_KEYS * PREFILL_FOURS / PREFILL_ITEMS)

struct prefill_space {
    float4 queries[PREFILL_GROUP][PREFILL_FOURS + 1];
    float4 keys[PREFILL_KEYS][PREFILL_FOURS + 1];
    float4 parts[PREFILL_SLICES][PREFILL_KEYS][PREFILL_GROUP / 4];
    float4 weights[PREFILL_KEYS][PREFILL_GROUP / 4]; // the scores, then the weights
    float shares[2][PREFILL_SHARES][PREFILL_GROUP];
    float4 factors[PREFILL_GROUP / 4];
};

// Four columns of a cached row; those behind the row count as 0.
INLINE float4 cache_four(const struct attention_job *job, uint key, uint column)
{
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    ulong at = (ulong)row_of(job, key) * width + column;
    if (width % 4 == 0) {
        if (column >= width)
            return 0;
        return job->a->kv_type == KV_F32 ? ((__global const float4 *)job->cache)[at / 4]
                                         : vload_half4(at / 4, (__global const half *)job->cache);
    }
    float4 four = 0;
    four.x = column < width ? cache_at(job->cache, job->a->kv_type, at) : 0;
    four.y = column + 1 < width ? cache_at(job->cache, job->a->kv_type, at + 1) : 0;
    four.z = column + 2 < width ? cache_at(job->cache, job->a->kv_type, at + 2) : 0;
    four.w = column + 3 < width ? cache_at(job->cache, job->a->kv_type, at + 3) : 0;
    return four;
}

// What a work-item brings of PREFILL_DEPTH columns of the queries and the keys.
struct prefill_load {
    float4 query;
    float4 keys[PREFILL_LOADS];
};

INLINE struct prefill_load prefill_fetch(const struct attention_job *job, uint first, uint length, uint depth)
{
    struct prefill_load load;
    uint item = get_local_id(0);
    uint head = item / PREFILL_FOURS % PREFILL_GROUP;
    uint column = depth + item % PREFILL_FOURS * 4;
    load.query = (float4)(query_at(job, head, column), query_at(job, head, column + 1), query_at(job, head, column + 2),
                          query_at(job, head, column + 3));
    UNROLL
    for (uint i = 0; i < PREFILL_LOADS; i++)
        load.keys[i] = cache_four(job, min(first + (item + i * PREFILL_ITEMS) / PREFILL_FOURS, length - 1), column);
    return load;
}

static void prefill_store(const struct prefill_load *load, __local struct prefill_space *space)
{
    uint item = get_local_id(0);
    if (item < PREFILL_GROUP * PREFILL_FOURS)
        space->queries[item / PREFILL_FOURS][item % PREFILL_FOURS] = load->query;
    UNROLL
    for (uint i = 0; i < PREFILL_LOADS; i++)
        space->keys[(item + i * PREFILL_ITEMS) / PREFILL_FOURS][item % PREFILL_FOURS] = load->keys[i];
}

// The scores of the keys from `first` on, in space->weights; those behind the row's own count as minus infinity.
INLINE void prefill_scores(const struct attention_job *job, uint first, uint length, __local struct prefill_space *space)
{
    uint item = get_local_id(0);
    uint slice = item / (PREFILL_ITEMS / PREFILL_SLICES);
    uint fours = item / (PREFILL_KEYS / 4) % (PREFILL_GROUP / 4);
    uint key = item % (PREFILL_KEYS / 4);
    float4 dots[4] = {0, 0, 0, 0}; // of the heads, by keys
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    struct prefill_load load = prefill_fetch(job, first, length, 0);
    for (uint depth = 0; depth < width; depth += PREFILL_DEPTH) {
        prefill_store(&load, space);
        barrier(CLK_LOCAL_MEM_FENCE);
        load = prefill_fetch(job, first, length, depth + PREFILL_DEPTH);
        UNROLL
        for (uint d = 0; d < PREFILL_FOURS / PREFILL_SLICES; d++) {
            uint four = slice * (PREFILL_FOURS / PREFILL_SLICES) + d;
            float4 queries[4];
            UNROLL
            for (uint i = 0; i < 4; i++)
                queries[i] = space->queries[fours * 4 + i][four];
            UNROLL
            for (uint k = 0; k < 4; k++) {
                float4 keys = space->keys[key + k * (PREFILL_KEYS / 4)][four];
                float4 heads = dots[k];
                heads = fma((float4)(queries[0].x, queries[1].x, queries[2].x, queries[3].x), keys.x, heads);
                heads = fma((float4)(queries[0].y, queries[1].y, queries[2].y, queries[3].y), keys.y, heads);
                heads = fma((float4)(queries[0].z, queries[1].z, queries[2].z, queries[3].z), keys.z, heads);
                heads = fma((float4)(queries[0].w, queries[1].w, queries[2].w, queries[3].w), keys.w, heads);
                dots[k] = heads;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    UNROLL
    for (uint k = 0; k < 4; k++)
        space->parts[slice][key + k * (PREFILL_KEYS / 4)][fours] = dots[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    uint row = item / (PREFILL_GROUP / 4);
    fours = item % (PREFILL_GROUP / 4);
    float4 score = (space->parts[0][row][fours] + space->parts[2][row][fours]) +
                   (space->parts[1][row][fours] + space->parts[3][row][fours]);
    space->weights[row][fours] = first + row < length ? score * job->a->softmax_scale : -INFINITY;
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Scores become weights. Work-items of the same head keep the same largest and total.
static void prefill_softmax(__local struct prefill_space *space, float *largest, float *total)
{
    uint head = get_local_id(0) % PREFILL_GROUP;
    uint share = get_local_id(0) / PREFILL_GROUP;
    __local float *scores = (__local float *)space->weights + share * PREFILL_KEYS_EACH * PREFILL_GROUP + head;
    float most = *largest;
    UNROLL
    for (uint i = 0; i < PREFILL_KEYS_EACH; i++)
        most = fmax(most, scores[i * PREFILL_GROUP]);
    space->shares[0][share][head] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint i = 0; i < PREFILL_SHARES; i++)
        most = fmax(most, space->shares[0][i][head]);
    float factor = exp_near(*largest - most);
    *largest = most;
    float sum = 0;
    UNROLL
    for (uint i = 0; i < PREFILL_KEYS_EACH; i++) {
        float weight = exp_near(scores[i * PREFILL_GROUP] - most);
        scores[i * PREFILL_GROUP] = weight;
        sum += weight;
    }
    space->shares[1][share][head] = sum;
    if (share == 0)
        ((__local float *)space->factors)[head] = factor;
    barrier(CLK_LOCAL_MEM_FENCE);
    *total *= factor;
    UNROLL
    for (uint i = 0; i < PREFILL_SHARES; i++)
        *total += space->shares[1][i][head];
}

// Groups: x over blocks of heads, y over rows, z over blocks of columns.
INLINE void prefill_row(const struct attention_job *job, uint row, uint length, __local struct prefill_space *space,
                        __global float *out)
{
    const struct args_attention *a = job->a;
    uint item = get_local_id(0);
    uint fours = item / (PREFILL_ITEMS / PREFILL_SLICES); // the heads whose values it adds up
    uint columns[2];
    columns[0] = get_group_id(2) * MOST_VALUES + item % (MOST_VALUES / 8) * 4;
    columns[1] = columns[0] + MOST_VALUES / 2;
    float4 sums[4][2] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    float largest = -INFINITY;
    float total = 0;
    for (uint first = 0; first < length; first += PREFILL_KEYS) {
        prefill_scores(job, first, length, space);
        prefill_softmax(space, &largest, &total);
        float4 factors = space->factors[fours];
        UNROLL
        for (uint i = 0; i < 2; i++) {
            sums[0][i] *= factors.x;
            sums[1][i] *= factors.y;
            sums[2][i] *= factors.z;
            sums[3][i] *= factors.w;
        }
        uint n = min(length - first, (uint)PREFILL_KEYS);
        UNROLL_4
        for (uint p = 0; p < n; p++) {
            float4 weights = space->weights[p][fours];
            UNROLL
            for (uint i = 0; i < 2; i++) {
                float4 value = columns[i] < a->kv_lora_rank ? cache_four(job, first + p, columns[i]) : 0;
                sums[0][i] = fma((float4)(weights.x), value, sums[0][i]);
                sums[1][i] = fma((float4)(weights.y), value, sums[1][i]);
                sums[2][i] = fma((float4)(weights.z), value, sums[2][i]);
                sums[3][i] = fma((float4)(weights.w), value, sums[3][i]);
            }
        }
    }
    if (item < PREFILL_GROUP)
        space->shares[0][0][item] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint h = 0; h < 4; h++) {
        uint head = job->first_head + fours * 4 + h;
        __global float *to = out + ((ulong)(a->first_row + row) * a->n_heads + head) * a->kv_lora_rank;
        UNROLL
        for (uint i = 0; i < 2; i++)
            if (head < a->n_heads && columns[i] < a->kv_lora_rank)
                vstore4(sums[h][i] / space->shares[0][0][fours * 4 + h], 0, to + columns[i]);
    }
}

#if BUILD_PARTS & PART_LATENT
__kernel GROUP_SIZE(PREFILL_ITEMS, 1) void attention_prefill(const struct args_attention a, const struct tiling t,
                                                             __global const float *q_latent, __global const float *q,
                                                             __global const void *cache, __global float *out,
                                                             __global float *scratch)
{
    __local struct prefill_space space;
    uint row = get_group_id(1);
    if (row >= a.n_rows)
        return;
    struct attention_job job = attention_job_of(&a, q_latent, q, cache, row);
    job.first_head = get_group_id(0) * PREFILL_GROUP;
    prefill_row(&job, row, a.position + row + 1, &space, out);
}
#endif

#if BUILD_PARTS & PART_LISTS
__kernel GROUP_SIZE(PREFILL_ITEMS, 1) void list_prefill(const struct args_attention a, const struct tiling t,
                                                        __global const float *q_latent, __global const float *q,
                                                        __global const void *cache, __global const uint *list,
                                                        __global float *out, __global float *scratch)
{
    __local struct prefill_space space;
    uint row = get_group_id(1);
    if (row >= a.n_rows)
        return;
    struct attention_job job = list_job_of(&a, q_latent, q, cache, row, list);
    job.first_head = get_group_id(0) * PREFILL_GROUP;
    prefill_row(&job, row, listed_of(&a, row), &space, out);
}
#endif

#endif
