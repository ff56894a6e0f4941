// SPDX-License-Identifier: GPL-3.0-or-later
// An indexer's key of a token, on its way into the cache; and how scores are ordered.

#if SHAPE_CPU
#define INDEX_LANES 1
#else
#define INDEX_LANES HEAD_LANES
#endif

// The sum of n / 4 fours of a row, or of their squares' distances from the mean.
static float index_sum(__local const float4 *row, uint n, float mean, uint squares)
{
    float4 sum = 0;
    for (uint i = 0; i < n / 4; i++) {
        float4 four = row[i] - mean;
        sum += squares ? four * four : four;
    }
    return (sum.x + sum.z) + (sum.y + sum.w);
}

#if BUILD_PARTS & PART_INDEX
// Groups: x over rows.
__kernel GROUP_SIZE(INDEX_LANES, 1) void index_append(const struct args_index_append a, const struct tiling t,
                                                      __global const uchar *norms, __global const uchar *biases,
                                                      __global const float *inv_freq, __global const float *x,
                                                      __global void *cache)
{
    __local float4 fours[MOST_INDEX_DIM / 4];
    __local float *row = (__local float *)fours;
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    __global const float *norm = (__global const float *)(norms + a.norm);
    __global const float *bias = (__global const float *)(biases + a.bias);
    __global const float *from = x + (ulong)r * a.in_stride + a.in_offset;
    for (uint i = get_local_id(0); i < a.dim; i += INDEX_LANES)
        row[i] = from[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    float mean = index_sum(fours, a.dim, 0, 0) / (float)a.dim;
    float scale = 1.0f / sqrt(index_sum(fours, a.dim, mean, 1) / (float)a.dim + a.eps);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < a.dim; i += INDEX_LANES)
        row[i] = (row[i] - mean) * scale * norm[i] + bias[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong at = (ulong)(a.position + r) * (a.dim + a.n_behind);
    for (uint i = get_local_id(0); i < a.n_behind; i += INDEX_LANES)
        cache_put(cache, a.kv_type, at + a.dim + i, from[a.dim + i]);
    for (uint i = get_local_id(0); i < a.dim; i += INDEX_LANES) {
        uint half_dim = a.rope_dim / 2;
        uint pair = a.interleaved ? i / 2 : i % max(half_dim, 1u);
        uint first = a.interleaved ? 2 * pair : pair;
        uint second = a.interleaved ? 2 * pair + 1 : pair + half_dim;
        uint turns = i < a.rope_dim;
        float2 turn = cos_sin((float)(a.position + r) * (turns ? inv_freq[pair] : 0.0f)) * a.scale;
        float2 turned = turn_pair((float2)(row[turns ? first : i], row[turns ? second : i]), turn);
        cache_put(cache, a.kv_type, at + i, !turns ? row[i] : i == first ? turned.x : turned.y);
    }
}
#endif

#if BUILD_PARTS & PART_INDEX
// Groups: x over pools, from the first row's on.
__kernel GROUP_SIZE(INDEX_LANES, 1) void index_pool(const struct args_index_pool a, const struct tiling t,
                                                    __global const uchar *apes, __global const void *cache,
                                                    __global void *pools)
{
    uint end = a.position + a.n_rows;
    if (a.n_rows == 0 || a.pool == 0)
        return;
    uint pool = a.position / a.pool + get_group_id(0);
    uint begin = pool * a.pool;
    uint is_whole = begin + a.pool <= end;
    uint share = is_whole || begin >= end ? a.dim : (end - begin) * (a.dim / a.pool);
    uint n = begin < end ? share : 0;
    __global const float *ape = (__global const float *)(apes + a.ape);
    for (uint c = get_local_id(0); c < n; c += INDEX_LANES) {
        float largest = -INFINITY;
        float sum = 0;
        float total = 0;
        uint steps = is_whole ? a.pool : 0;
        for (uint j = 0; j < steps; j++)
            largest = fmax(largest, cache_at(cache, a.kv_type, (2 * (ulong)(begin + j) + 1) * a.dim + c) + ape[j * a.dim + c]);
        for (uint j = 0; j < steps; j++) {
            ulong at = 2 * (ulong)(begin + j) * a.dim + c;
            float weight = exp_near(cache_at(cache, a.kv_type, at + a.dim) + ape[j * a.dim + c] - largest);
            sum = fma(weight, cache_at(cache, a.kv_type, at), sum);
            total += weight;
        }
        cache_put(pools, a.kv_type, (ulong)pool * a.dim + c, is_whole ? sum / total : 0.0f);
    }
}
#endif

// How many keys a row at a position chooses from.
static uint index_seen(uint position, uint pool)
{
    return pool > 1 ? (position + 1) / pool : position + 1;
}

// How far lists lie apart.
static uint choice_stride(const struct args_index_choice *a)
{
    return a->pool > 1 ? a->top_k * a->pool + a->pool - 1 : a->top_k;
}

// Number k of a list is this key, if it `is_chosen`: a position, or all of a pool.
static void choice_put(const struct args_index_choice *a, __global uint *list, uint k, uint key, uint is_chosen)
{
    uint each = max(a->pool, 1u);
    uint n = is_chosen ? each : 0;
    for (uint j = 0; j < n; j++)
        list[k * each + j] = key * each + j;
}

// The open pool's positions, of the row at this position, behind the chosen ones.
static void choice_put_open(const struct args_index_choice *a, __global uint *list, uint position, uint first, uint step)
{
    uint n = a->pool > 1 ? (position + 1) % a->pool : 0;
    for (uint j = first; j < n; j += step)
        list[a->top_k * a->pool + j] = position + 1 - n + j;
}

// Whole numbers in the order of the scores.
static uint index_order(float score)
{
    uint bits = as_uint(score + 0.0f);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

static uint choice_shift(uint level)
{
    return level == 0 ? 21 : level == 1 ? 10 : 0;
}

static uint choice_bin(uint order, uint level)
{
    return order >> choice_shift(level) & (level == 2 ? 1023 : 2047);
}

// What stands above the level's bits; the same for all numbers that it counts.
static uint choice_above(uint order, uint level)
{
    return level == 0 ? 0 : order >> choice_shift(level - 1);
}
