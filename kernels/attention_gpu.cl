// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: attention over latent rows. A work-group serves GROUP_HEADS heads of one row, so that each load of the cache
// serves them all; it goes through tiles of ATTENTION_TILE positions.
#if !SHAPE_CPU

#define ATTENTION_ITEMS (TEAM * TEAMS)

struct tile_state {
    float scores[GROUP_HEADS][ATTENTION_TILE]; // then the weights
    float sums[ATTENTION_ITEMS][GROUP_HEADS];
    float largest[GROUP_HEADS]; // so far
    float total[GROUP_HEADS];
    float factor[GROUP_HEADS]; // what earlier sums must be multiplied with
};

struct tile_job {
    const struct args_attention *a;
    __global const float *q_latent;
    __global const float *q;
    __global const void *cache;
    uint row;
    uint head[GROUP_HEADS]; // the last is repeated when there are no more
    uint first;             // of the tile's positions
    uint end;
};

// Teams take positions in turn; a team's lanes share the dot products.
static void tile_scores(const struct tile_job *job, __local struct tile_state *state)
{
    const struct args_attention *a = job->a;
    uint item = get_local_id(0);
    uint lane = item % TEAM;
    uint width = a->kv_lora_rank + a->rope_dim;
    for (uint step = 0; job->first + step < job->end; step += TEAMS) {
        uint position = min(job->first + step + item / TEAM, job->end - 1);
        float dots[GROUP_HEADS] = {0};
        for (uint c = lane; c < width; c += TEAM) {
            float key = cache_at(job->cache, a->kv_type, (ulong)position * width + c);
            for (uint i = 0; i < GROUP_HEADS; i++) {
                ulong head = (ulong)job->row * a->n_heads + job->head[i];
                float query = c < a->kv_lora_rank
                                  ? job->q_latent[head * a->kv_lora_rank + c]
                                  : job->q[(ulong)job->row * a->q_row_stride + (ulong)job->head[i] * a->q_head_stride +
                                           a->q_rope_offset + c - a->kv_lora_rank];
                dots[i] = fma(query, key, dots[i]);
            }
        }
        for (uint i = 0; i < GROUP_HEADS; i++)
            state->sums[item][i] = dots[i];
        for (uint half_of = TEAM / 2; half_of > 0; half_of /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane < half_of)
                for (uint i = 0; i < GROUP_HEADS; i++)
                    state->sums[item][i] += state->sums[item + half_of][i];
        }
        if (lane == 0)
            for (uint i = 0; i < GROUP_HEADS; i++)
                state->scores[i][position - job->first] = state->sums[item][i] * a->softmax_scale;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// Scores become weights; one work-item per head keeps the running largest and total. The others' loops are empty: PoCL
// 3.1 would run a loop of uniform length for all, even inside a branch.
static void tile_softmax(const struct tile_job *job, __local struct tile_state *state)
{
    uint item = get_local_id(0);
    uint h = min(item, (uint)GROUP_HEADS - 1);
    uint n = job->end - job->first;
    uint mine = item < GROUP_HEADS ? n : 0;
    float before = state->largest[h];
    float largest = before;
    for (uint p = 0; p < mine; p++)
        largest = fmax(largest, state->scores[h][p]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < GROUP_HEADS) {
        state->factor[h] = exp_near(before - largest);
        state->largest[h] = largest;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < GROUP_HEADS * ATTENTION_TILE; i += ATTENTION_ITEMS) {
        uint p = i % ATTENTION_TILE;
        __local float *score = &state->scores[i / ATTENTION_TILE][p];
        *score = p < n ? exp_near(*score - state->largest[i / ATTENTION_TILE]) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float total = state->total[h] * state->factor[h];
    for (uint p = 0; p < mine; p++)
        total += state->scores[h][p];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < GROUP_HEADS)
        state->total[h] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
}

// sums[i] = factor * sums[i] + what the tile adds to column c of each head.
static void tile_values(const struct tile_job *job, __local struct tile_state *state, uint c, float *sums)
{
    uint width = job->a->kv_lora_rank + job->a->rope_dim;
    for (uint i = 0; i < GROUP_HEADS; i++)
        sums[i] *= state->factor[i];
    for (uint p = job->first; p < job->end; p++) {
        float value = cache_at(job->cache, job->a->kv_type, (ulong)p * width + c);
        for (uint i = 0; i < GROUP_HEADS; i++)
            sums[i] = fma(state->scores[i][p - job->first], value, sums[i]);
    }
}

static void tile_start(struct tile_job *job, __local struct tile_state *state, uint first_head)
{
    for (uint i = 0; i < GROUP_HEADS; i++)
        job->head[i] = min(first_head + i, job->a->n_heads - 1);
    uint item = get_local_id(0);
    if (item < GROUP_HEADS) {
        state->largest[item] = -INFINITY;
        state->total[item] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Groups: x over blocks of heads, y over tiles of positions.
__kernel GROUP_SIZE(ATTENTION_ITEMS, 1) void attention_tiles(const struct args_attention a, const struct tiling t,
                                                             __global const float *q_latent, __global const float *q,
                                                             __global const void *cache, __global float *partials)
{
    __local struct tile_state state;
    if (a.n_rows == 0)
        return;
    uint first_head = get_group_id(0) * GROUP_HEADS;
    struct tile_job job = {&a, q_latent, q, cache, 0};
    tile_start(&job, &state, first_head);
    job.first = get_group_id(1) * ATTENTION_TILE;
    job.end = min(job.first + ATTENTION_TILE, a.position + 1);
    tile_scores(&job, &state);
    tile_softmax(&job, &state);
    uint n = min((uint)GROUP_HEADS, a.n_heads - first_head);
    __global float *partial = partials + ((ulong)get_group_id(1) * a.n_heads + first_head) * (a.kv_lora_rank + 2);
    for (uint c = get_local_id(0); c < a.kv_lora_rank; c += ATTENTION_ITEMS) {
        float sums[GROUP_HEADS] = {0};
        tile_values(&job, &state, c, sums);
        for (uint i = 0; i < n; i++)
            partial[i * (a.kv_lora_rank + 2) + c] = sums[i];
    }
    if (get_local_id(0) < n) {
        uint i = get_local_id(0);
        partial[i * (a.kv_lora_rank + 2) + a.kv_lora_rank] = state.largest[i];
        partial[i * (a.kv_lora_rank + 2) + a.kv_lora_rank + 1] = state.total[i];
    }
}

// Groups: x over blocks of heads, y over rows. The sums so far stay in `out`; each column belongs to one work-item.
__kernel GROUP_SIZE(ATTENTION_ITEMS, 1) void attention_prefill(const struct args_attention a, const struct tiling t,
                                                               __global const float *q_latent, __global const float *q,
                                                               __global const void *cache, __global float *out,
                                                               __global float *scratch)
{
    __local struct tile_state state;
    uint row = get_group_id(1);
    if (row >= a.n_rows)
        return;
    uint first_head = get_group_id(0) * GROUP_HEADS;
    struct tile_job job = {&a, q_latent, q, cache, row};
    tile_start(&job, &state, first_head);
    uint n = min((uint)GROUP_HEADS, a.n_heads - first_head);
    __global float *heads = out + ((ulong)row * a.n_heads + first_head) * a.kv_lora_rank;
    uint length = a.position + row + 1;
    for (uint first = 0; first < length; first += ATTENTION_TILE) {
        job.first = first;
        job.end = min(first + ATTENTION_TILE, length);
        tile_scores(&job, &state);
        tile_softmax(&job, &state);
        for (uint c = get_local_id(0); c < a.kv_lora_rank; c += ATTENTION_ITEMS) {
            float sums[GROUP_HEADS];
            for (uint i = 0; i < GROUP_HEADS; i++)
                sums[i] = i < n && first > 0 ? heads[(ulong)i * a.kv_lora_rank + c] : 0.0f;
            tile_values(&job, &state, c, sums);
            for (uint i = 0; i < n; i++)
                heads[(ulong)i * a.kv_lora_rank + c] = first + ATTENTION_TILE >= length ? sums[i] / state.total[i] : sums[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// The tiles' parts of each head: kv_lora_rank unnormalised sums, the largest score, the sum of weights. Merged in order.
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

#endif
