// SPDX-License-Identifier: GPL-3.0-or-later
// CPU: an indexer's scores, VECTOR heads side by side for INDEX_TOGETHER positions, and the choice.
//
// Scratch of a group: queries [heads / VECTOR][dim][VECTOR], scaled weights [heads], and for f16 caches INDEX_TOGETHER
// rows, converted.
#if SHAPE_CPU

#define INDEX_TOGETHER 8

struct index_job {
    const struct args_index_scores *a;
    __global const void *cache;
    __global float *queries;
    __global float *weights;
    __global float *converted;
    uint vectors;
};

static struct index_job index_job_of(const struct args_index_scores *a, __global const void *cache,
                                     __global float *scratch)
{
    struct index_job job = {a, cache, scratch};
    job.vectors = (a->n_heads + VECTOR - 1) / VECTOR;
    job.weights = scratch + job.vectors * VECTOR * a->dim;
    job.converted = job.weights + job.vectors * VECTOR;
    return job;
}

// Heads that there are not have neither a query nor a weight.
static void index_take_queries(struct index_job *job, __global const float *q, __global const float *weight)
{
    const struct args_index_scores *a = job->a;
    for (uint h = 0; h < job->vectors * VECTOR; h++) {
        __global float *to = job->queries + h / VECTOR * a->dim * VECTOR + h % VECTOR;
        for (uint c = 0; c < a->dim; c++)
            to[c * VECTOR] = h < a->n_heads ? q[h * a->dim + c] : 0.0f;
        job->weights[h] = h < a->n_heads ? weight[h] * a->scale : 0.0f;
    }
}

// Keys `first` to first + INDEX_TOGETHER - 1; beyond `last`, it again.
static void index_take_keys(const struct index_job *job, uint first, uint last, __global const float **keys)
{
    uint dim = job->a->dim;
    for (uint i = 0; i < INDEX_TOGETHER; i++) {
        ulong at = (ulong)min(first + i, last) * dim;
        keys[i] = job->converted + i * dim;
        if (job->a->kv_type == KV_F32)
            keys[i] = (__global const float *)job->cache + at;
        else
            convert_row((__global const half *)job->cache + at, dim, job->converted + i * dim);
    }
}

static void index_together(const struct index_job *job, uint first, uint last, __global float *scores)
{
    __global const float *keys[INDEX_TOGETHER];
    float sums[INDEX_TOGETHER] = {0};
    uint dim = job->a->dim;
    index_take_keys(job, first, last, keys);
    for (uint v = 0; v < job->vectors; v++) {
        float16 dots[INDEX_TOGETHER] = {0};
        for (uint c = 0; c < dim; c++) {
            float16 query = vload16(v * dim + c, job->queries);
            UNROLL
            for (uint i = 0; i < INDEX_TOGETHER; i++)
                dots[i] = fma((float16)(keys[i][c]), query, dots[i]);
        }
        UNROLL
        for (uint i = 0; i < INDEX_TOGETHER; i++) {
            float lanes[VECTOR];
            vstore16(select(dots[i], (float16)(0.0f), dots[i] < 0.0f), 0, lanes);
            for (uint h = 0; h < VECTOR; h++)
                sums[i] = fma(job->weights[v * VECTOR + h], lanes[h], sums[i]);
        }
    }
    for (uint i = 0; i < INDEX_TOGETHER && first + i <= last; i++)
        scores[first + i] = sums[i];
}

// Groups: x over n_groups runs of positions, y over rows.
__kernel GROUP_SIZE(1, 1) void index_scores(const struct args_index_scores a, const struct tiling t,
                                            __global const float *q, __global const float *weight,
                                            __global const void *cache, __global float *scores, __global float *scratch)
{
    uint r = get_group_id(1);
    if (r >= a.n_rows)
        return;
    struct index_job job =
        index_job_of(&a, cache, scratch + ((ulong)r * t.n_groups + get_group_id(0)) * t.scratch_stride);
    index_take_queries(&job, q + (ulong)r * a.q_stride + a.q_offset, weight + (ulong)r * a.weight_stride + a.weight_offset);
    uint length = index_seen(a.position + r, a.pool);
    ulong blocks = (length + INDEX_TOGETHER - 1) / INDEX_TOGETHER;
    uint end = (uint)((get_group_id(0) + 1) * blocks / t.n_groups);
    for (uint block = (uint)(get_group_id(0) * blocks / t.n_groups); block < end; block++)
        index_together(&job, block * INDEX_TOGETHER, length - 1, scores + (ulong)r * a.out_stride);
}

// Groups: x over rows.
__kernel GROUP_SIZE(1, 1) void index_choice(const struct args_index_choice a, const struct tiling t,
                                            __global const float *scores, __global uint *list)
{
    __local uint bins[CHOICE_BINS];
    uint r = get_group_id(0);
    if (r >= a.n_rows)
        return;
    uint n = index_seen(a.position + r, a.pool);
    uint need = a.top_k; // of those that are no larger than what is known of the last one
    uint last = 0;       // its number, as far as it is known
    scores += (ulong)r * a.in_stride;
    list += a.first + (ulong)r * choice_stride(&a);
    for (uint level = 0; level < CHOICE_LEVELS; level++) {
        for (uint b = 0; b < CHOICE_BINS; b++)
            bins[b] = 0;
        for (uint i = 0; i < n; i++) {
            uint order = index_order(scores[i]);
            bins[choice_bin(order, level)] += choice_above(order, level) == choice_above(last, level);
        }
        uint bin = CHOICE_BINS - 1;
        for (; bin > 0 && bins[bin] < need; bin--)
            need -= bins[bin];
        last |= bin << choice_shift(level);
    }
    for (uint i = 0, k = 0; i < n && k < a.top_k; i++) {
        uint order = index_order(scores[i]);
        uint chosen = order > last || (order == last && need > 0);
        need -= order == last && need > 0;
        choice_put(&a, list, k, i, chosen);
        k += chosen;
    }
    choice_put_open(&a, list, a.position + r, 0, 1);
}

#endif
