// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: an indexer's scores, by tiles of INDEX_HEADS heads and INDEX_ITEMS positions, and the choice by a group a row.
#if !SHAPE_CPU

#define INDEX_HEADS 32
#define INDEX_DEPTH 32                                 // columns that are at hand together
#define INDEX_FOURS (INDEX_DEPTH / 4)
#define INDEX_TEAMS (INDEX_ITEMS / 32)                 // each has its heads
#define INDEX_OWN_HEADS (INDEX_HEADS / INDEX_TEAMS)    // of a work-item
#define INDEX_OWN_KEYS (INDEX_ITEMS / 32)              // its positions

struct index_tile {
    float4 keys[INDEX_ITEMS][INDEX_FOURS + 1];
    float4 queries[INDEX_HEADS][INDEX_FOURS + 1];
};

union index_space {
    struct index_tile tile;
    float products[INDEX_HEADS][INDEX_ITEMS]; // of heads and positions, none below 0
};

struct index_job {
    const struct args_index_scores *a;
    __global const float *q; // of the row
    __global const void *cache;
    uint first; // position
    uint last;  // of all
};

// Four columns of a key; those behind it count as 0.
INLINE float4 index_key(const struct index_job *job, uint position, uint column)
{
    const struct args_index_scores *a = job->a;
    ulong at = ((ulong)min(position, job->last) * a->dim + min(column, a->dim - 4)) / 4;
    float4 four = a->kv_type == KV_F32 ? ((__global const float4 *)job->cache)[at]
                                       : vload_half4(at, (__global const half *)job->cache);
    return column < a->dim ? four : 0;
}

INLINE float4 index_query(const struct index_job *job, uint head, uint column)
{
    const struct args_index_scores *a = job->a;
    float4 four = vload4(0, job->q + (ulong)min(head, a->n_heads - 1) * a->dim + min(column, a->dim - 4));
    return column < a->dim ? four : 0;
}

INLINE void index_load(const struct index_job *job, uint head, uint depth, __local struct index_tile *tile)
{
    uint item = get_local_id(0);
    UNROLL
    for (uint i = 0; i < INDEX_FOURS; i++) {
        uint four = item + i * INDEX_ITEMS;
        tile->keys[four / INDEX_FOURS][four % INDEX_FOURS] =
            index_key(job, job->first + four / INDEX_FOURS, depth + four % INDEX_FOURS * 4);
    }
    UNROLL
    for (uint i = 0; i < INDEX_HEADS * INDEX_FOURS / INDEX_ITEMS; i++) {
        uint four = item + i * INDEX_ITEMS;
        tile->queries[four / INDEX_FOURS][four % INDEX_FOURS] =
            index_query(job, head + four / INDEX_FOURS, depth + four % INDEX_FOURS * 4);
    }
}

// dots[h][k] += the tile's columns, ascending, of the work-item's heads and positions.
INLINE void index_dots(__local const struct index_tile *tile, float (*dots)[INDEX_OWN_KEYS])
{
    uint lane = get_local_id(0) % 32;
    uint team = get_local_id(0) / 32;
    UNROLL_2
    for (uint d = 0; d < INDEX_FOURS; d++) {
        float4 keys[INDEX_OWN_KEYS];
        UNROLL
        for (uint k = 0; k < INDEX_OWN_KEYS; k++)
            keys[k] = tile->keys[lane + k * 32][d];
        UNROLL
        for (uint h = 0; h < INDEX_OWN_HEADS; h++) {
            float4 query = tile->queries[team * INDEX_OWN_HEADS + h][d];
            UNROLL
            for (uint k = 0; k < INDEX_OWN_KEYS; k++)
                dots[h][k] = fma(query.w, keys[k].w,
                                 fma(query.z, keys[k].z, fma(query.y, keys[k].y, fma(query.x, keys[k].x, dots[h][k]))));
        }
    }
}

#if BUILD_PARTS & PART_INDEX
// Groups: x over blocks of INDEX_ITEMS positions, y over rows.
__kernel GROUP_SIZE(INDEX_ITEMS, 1) void index_scores(const struct args_index_scores a, const struct tiling t,
                                                      __global const float *q, __global const float *weight,
                                                      __global const void *cache, __global float *scores,
                                                      __global float *scratch)
{
    __local union index_space space;
    uint r = get_group_id(1);
    uint first = get_group_id(0) * INDEX_ITEMS;
    uint n = index_seen(a.position + r, a.pool);
    if (r >= a.n_rows || first >= n)
        return;
    uint item = get_local_id(0);
    struct index_job job = {&a, q + (ulong)r * a.q_stride + a.q_offset, cache, first, n - 1};
    weight += (ulong)r * a.weight_stride + a.weight_offset;
    float sum = 0;
    for (uint head = 0; head < a.n_heads; head += INDEX_HEADS) {
        float dots[INDEX_OWN_HEADS][INDEX_OWN_KEYS];
        UNROLL
        for (uint h = 0; h < INDEX_OWN_HEADS; h++)
            UNROLL
            for (uint k = 0; k < INDEX_OWN_KEYS; k++)
                dots[h][k] = 0;
        for (uint depth = 0; depth < a.dim; depth += INDEX_DEPTH) {
            index_load(&job, head, depth, &space.tile);
            barrier(CLK_LOCAL_MEM_FENCE);
            index_dots(&space.tile, dots);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        UNROLL
        for (uint h = 0; h < INDEX_OWN_HEADS; h++)
            UNROLL
            for (uint k = 0; k < INDEX_OWN_KEYS; k++)
                space.products[item / 32 * INDEX_OWN_HEADS + h][item % 32 + k * 32] =
                    dots[h][k] < 0.0f ? 0.0f : dots[h][k];
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL_4
        for (uint h = 0; h < INDEX_HEADS; h++) {
            float scaled = head + h < a.n_heads ? weight[min(head + h, a.n_heads - 1)] * a.scale : 0.0f;
            sum = fma(scaled, space.products[h][item], sum);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (first + item <= job.last)
        scores[(ulong)r * a.out_stride + first + item] = sum;
}
#endif

#define CHOICE_ITEMS ELEMENTS_GROUP
#define CHOICE_OWN (CHOICE_BINS / CHOICE_ITEMS) // bins of a work-item, and positions that it lists at a time
#define CHOICE_FLIGHT 8                         // scores that it loads at once

struct choice_space {
    uint bins[CHOICE_BINS];
    uint sums[2][CHOICE_ITEMS];
    uint found[2]; // a level's bin, and how many of it are needed
};

// The sum of `own` of the work-items up to this one; *all of them.
INLINE uint choice_scan(uint own, __local struct choice_space *space, uint *all)
{
    uint item = get_local_id(0);
    uint at = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    space->sums[0][item] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint step = 1; step < CHOICE_ITEMS; step *= 2) {
        own += item >= step ? space->sums[at][item - step] : 0;
        at ^= 1;
        space->sums[at][item] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *all = space->sums[at][CHOICE_ITEMS - 1];
    return own;
}

// The bin that the last of the chosen lies in, of what the level counted; *need becomes how many of it are chosen.
INLINE uint choice_find(__local struct choice_space *space, uint *need)
{
    uint high = CHOICE_BINS - 1 - get_local_id(0) * CHOICE_OWN; // the first work-item has the highest bins
    uint own = 0, all;
    UNROLL
    for (uint b = 0; b < CHOICE_OWN; b++)
        own += space->bins[high - b];
    uint above = choice_scan(own, space, &all) - own;
    UNROLL
    for (uint b = 0; b < CHOICE_OWN; b++) {
        uint count = space->bins[high - b];
        if (above < *need && *need <= above + count) {
            space->found[0] = high - b;
            space->found[1] = *need - above;
        }
        above += count;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    *need = space->found[1];
    return space->found[0];
}

// Into bins, what positions begin .. end - 1 have at this level below what is known of the last number.
INLINE void choice_count(__global const float *scores, uint begin, uint end, uint level, uint last,
                         __local struct choice_space *space)
{
    uint item = get_local_id(0);
    UNROLL
    for (uint b = 0; b < CHOICE_OWN; b++)
        space->bins[item + b * CHOICE_ITEMS] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint first = begin + item; first < end; first += CHOICE_FLIGHT * CHOICE_ITEMS) {
        uint orders[CHOICE_FLIGHT];
        UNROLL
        for (uint i = 0; i < CHOICE_FLIGHT; i++)
            orders[i] = index_order(scores[min(first + i * CHOICE_ITEMS, end - 1)]);
        UNROLL
        for (uint i = 0; i < CHOICE_FLIGHT; i++)
            if (first + i * CHOICE_ITEMS < end && choice_above(orders[i], level) == choice_above(last, level))
                atomic_inc(&space->bins[choice_bin(orders[i], level)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// The last number that is chosen, how many of its like are, and, before some position, how many are larger or like it.
struct choice {
    uint last;
    uint need;
    uint larger;
    uint equal;
};

// The chosen ones of positions begin .. end - 1.
INLINE void choice_list(const struct args_index_choice *a, __global const float *scores, uint begin, uint end, struct choice *choice,
                        __local struct choice_space *space, __global uint *list)
{
    uint item = get_local_id(0);
    for (uint first = begin; first < end; first += CHOICE_BINS) {
        uint orders[CHOICE_OWN];
        uint own = 0, all; // larger ones, and in the lower half equal ones
        UNROLL
        for (uint i = 0; i < CHOICE_OWN; i++) {
            uint position = first + item * CHOICE_OWN + i;
            orders[i] = index_order(scores[min(position, end - 1)]);
            own += position >= end ? 0 : orders[i] > choice->last ? 1u << 16 : orders[i] == choice->last;
        }
        uint before = choice_scan(own, space, &all) - own;
        uint k = choice->larger + (before >> 16), e = choice->equal + (before & 0xffff);
        UNROLL
        for (uint i = 0; i < CHOICE_OWN; i++) {
            uint position = first + item * CHOICE_OWN + i;
            uint is_larger = position < end && orders[i] > choice->last;
            uint is_equal = position < end && orders[i] == choice->last;
            choice_put(a, list, k + min(e, choice->need), position, is_larger || (is_equal && e < choice->need));
            k += is_larger;
            e += is_equal;
        }
        choice->larger += all >> 16;
        choice->equal += all & 0xffff;
    }
}

#if BUILD_PARTS & PART_INDEX
// Groups: x over rows. Numbers alone: whoever counts first, the choice is the same.
__kernel GROUP_SIZE(CHOICE_ITEMS, 1) void index_choice(const struct args_index_choice a, const struct tiling t,
                                                       __global const float *scores, __global uint *list)
{
    __local struct choice_space space;
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    uint n = index_seen(a.position + r, a.pool);
    struct choice choice = {0, a.top_k, 0, 0};
    scores += (ulong)r * a.in_stride;
    for (uint level = 0; level < CHOICE_LEVELS; level++) {
        choice_count(scores, 0, n, level, choice.last, &space);
        choice.last |= choice_find(&space, &choice.need) << choice_shift(level);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    list += a.first + (ulong)r * choice_stride(&a);
    choice_list(&a, scores, 0, n, &choice, &space, list);
    choice_put_open(&a, list, a.position + r, get_local_id(0), CHOICE_ITEMS);
}
#endif

// Long rows: a group for each part of a row, rows_per_group positions of n_tiles parts. Counts: [rows][level][part][bin].
struct choice_part {
    uint begin;
    uint end;
    __global uint *counts; // of the row
};

INLINE struct choice_part choice_part_of(const struct args_index_choice *a, const struct tiling *t,
                                         __global uint *counts)
{
    uint r = get_group_id(1), n = index_seen(a->position + r, a->pool), begin = get_group_id(0) * t->rows_per_group;
    struct choice_part part = {min(begin, n), min(begin + t->rows_per_group, n),
                               counts + (ulong)r * CHOICE_LEVELS * t->n_tiles * CHOICE_BINS};
    return part;
}

// What all parts' counts say of the first so many levels; larger and equal are this work-item's share of those in the
// parts before this one.
INLINE struct choice choice_look(const struct args_index_choice *a, const struct tiling *t, __global const uint *counts,
                                 uint levels, __local struct choice_space *space)
{
    struct choice choice = {0, a->top_k, 0, 0};
    uint low = get_local_id(0) * CHOICE_OWN; // the first of the work-item's bins
    for (uint level = 0; level < levels; level++) {
        uint4 all[CHOICE_OWN / 4], before[CHOICE_OWN / 4];
        UNROLL
        for (uint i = 0; i < CHOICE_OWN / 4; i++)
            all[i] = before[i] = 0;
        __global const uint4 *bins = (__global const uint4 *)(counts + (ulong)level * t->n_tiles * CHOICE_BINS + low);
        UNROLL_4
        for (uint part = 0; part < t->n_tiles; part++)
            UNROLL
            for (uint i = 0; i < CHOICE_OWN / 4; i++) {
                uint4 count = bins[part * (CHOICE_BINS / 4) + i];
                all[i] += count;
                before[i] += part < get_group_id(0) ? count : 0;
            }
        UNROLL
        for (uint i = 0; i < CHOICE_OWN / 4; i++)
            vstore4(all[i], i, space->bins + low);
        barrier(CLK_LOCAL_MEM_FENCE);
        uint bin = choice_find(space, &choice.need);
        choice.last |= bin << choice_shift(level);
        uint own[CHOICE_OWN];
        UNROLL
        for (uint i = 0; i < CHOICE_OWN / 4; i++)
            vstore4(before[i], i, own);
        UNROLL
        for (uint b = 0; b < CHOICE_OWN; b++) {
            choice.larger += low + b > bin ? own[b] : 0;
            choice.equal += level == CHOICE_LEVELS - 1 && low + b == bin ? own[b] : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return choice;
}

#if BUILD_PARTS & PART_INDEX
// Groups: x over parts, y over rows. The level is scratch_stride's.
__kernel GROUP_SIZE(CHOICE_ITEMS, 1) void index_count(const struct args_index_choice a, const struct tiling t,
                                                      __global const float *scores, __global uint *counts)
{
    __local struct choice_space space;
    if (get_group_id(1) >= a.n_rows)
        return;
    uint item = get_local_id(0), level = t.scratch_stride;
    struct choice_part part = choice_part_of(&a, &t, counts);
    struct choice choice = choice_look(&a, &t, part.counts, level, &space);
    choice_count(scores + (ulong)get_group_id(1) * a.in_stride, part.begin, part.end, level, choice.last, &space);
    __global uint *to = part.counts + ((ulong)level * t.n_tiles + get_group_id(0)) * CHOICE_BINS;
    UNROLL
    for (uint b = 0; b < CHOICE_OWN; b++)
        to[item + b * CHOICE_ITEMS] = space.bins[item + b * CHOICE_ITEMS];
}
#endif

#if BUILD_PARTS & PART_INDEX
__kernel GROUP_SIZE(CHOICE_ITEMS, 1) void index_list(const struct args_index_choice a, const struct tiling t,
                                                     __global const float *scores, __global uint *counts,
                                                     __global uint *list)
{
    __local struct choice_space space;
    if (get_group_id(1) >= a.n_rows)
        return;
    struct choice_part part = choice_part_of(&a, &t, counts);
    struct choice choice = choice_look(&a, &t, part.counts, CHOICE_LEVELS, &space);
    uint larger, equal;
    choice_scan(choice.larger, &space, &larger);
    barrier(CLK_LOCAL_MEM_FENCE);
    choice_scan(choice.equal, &space, &equal);
    barrier(CLK_LOCAL_MEM_FENCE);
    choice.larger = larger;
    choice.equal = equal;
    list += a.first + (ulong)get_group_id(1) * choice_stride(&a);
    choice_list(&a, scores + (ulong)get_group_id(1) * a.in_stride, part.begin, part.end, &choice, &space, list);
    uint first = get_group_id(0) * CHOICE_ITEMS + get_local_id(0); // the first part's work-items write the open pool's
    choice_put_open(&a, list, a.position + get_group_id(1), first, t.n_tiles * CHOICE_ITEMS);
}
#endif

#endif
