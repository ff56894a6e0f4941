// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: the delta scan. A group takes SCAN_COLUMNS columns of a head's state, which no others touch; work-items keep
// SCAN_ROWS rows of a column each, for all tokens of the launch. Keys, queries and gates of SCAN_TOKENS tokens are
// prepared together. For each token a column's two sums go through local memory once: with the decayed S,
// out = S^T q + (k . q) d, which needs no second look at the state.
#if !SHAPE_CPU

struct scan_space {
    float4 keys[SCAN_TOKENS][KEY_FOURS]; // rows behind key_dim are zero
    float4 queries[SCAN_TOKENS][KEY_FOURS];
    float4 decays[SCAN_TOKENS][KEY_FOURS];
    float values[SCAN_TOKENS][SCAN_COLUMNS];
    float head_decays[SCAN_TOKENS]; // with DECAY_HEAD
    float betas[SCAN_TOKENS];
    float products[SCAN_TOKENS]; // k . q
    float parts[3][SCAN_TOKENS][SCAN_TEAM + 1];
    float sums[2][2][SCAN_SLICES][SCAN_COLUMNS]; // of two tokens in turn
};

struct scan_job {
    const struct args_delta *a;
    __global const uchar *rates;
    __global const float *dt_bias;
    __global const float *x;
    __global const float *gates;
    uint head;
    uint column; // of the group's first
};

// Decays by channel: a work-item has one channel of all tokens that there are.
INLINE void scan_decays(const struct scan_job *job, float rate, uint first, __local struct scan_space *space)
{
    const struct args_delta *a = job->a;
    uint channel = get_local_id(0);
    uint at = job->head * a->key_dim + min(channel, a->key_dim - 1);
    __global const float *gate = job->gates + a->decay_offset + at;
    float f[SCAN_TOKENS];
    UNROLL
    for (uint t = 0; t < SCAN_TOKENS; t++)
        f[t] = gate[(ulong)min(first + t, a->n_rows - 1) * a->gate_stride] + job->dt_bias[at];
    UNROLL
    for (uint t = 0; t < SCAN_TOKENS; t++)
        ((__local float *)space->decays[t])[channel] = f[t];
    uint n = min(a->n_rows - first, (uint)SCAN_TOKENS);
    NO_UNROLL
    for (uint t = 0; t < n; t++) {
        __local float *decay = (__local float *)space->decays[t] + channel;
        *decay = decay_of(a, rate, *decay);
    }
}

INLINE void scan_prepare(const struct scan_job *job, uint first, __local struct scan_space *space)
{
    const struct args_delta *a = job->a;
    uint item = get_local_id(0);
    uint t = item / SCAN_TEAM;
    uint lane = item % SCAN_TEAM;
    uint row = min(first + t, a->n_rows - 1);
    uint key_head = key_head_of(a, job->head);
    __global const float *x = job->x + (ulong)row * a->in_stride;
    __global const float *gate = job->gates + (ulong)row * a->gate_stride;
    float rate = rate_of(a, job->rates, job->head);
    float q[SCAN_EACH], k[SCAN_EACH];
    uint by_head = a->decay == DECAY_HEAD;
    float qq = 0, kk = 0, kq = 0;
    UNROLL
    for (uint j = 0; j < SCAN_EACH; j++) {
        uint i = lane + j * SCAN_TEAM;
        bool is_there = i < a->key_dim;
        q[j] = is_there ? x[a->q_offset + key_head * a->key_dim + i] : 0;
        k[j] = is_there ? x[a->k_offset + key_head * a->key_dim + i] : 0;
    }
    float f = gate[a->decay_offset + (by_head ? job->head : 0)] + job->dt_bias[by_head ? job->head : 0];
    uint column = item % SCAN_COLUMNS; // of the token item / SCAN_COLUMNS
    uint value_row = min(first + item / SCAN_COLUMNS, a->n_rows - 1);
    float value = 0;
    if (job->column + column < a->value_dim)
        value = job->x[(ulong)value_row * a->in_stride + a->v_offset + job->head * a->value_dim + job->column + column];
    float beta = sigmoid(gate[a->beta_offset + job->head]);
    UNROLL
    for (uint j = 0; j < SCAN_EACH; j++) {
        qq = fma(q[j], q[j], qq);
        kk = fma(k[j], k[j], kk);
        kq = fma(k[j], q[j], kq);
    }
    barrier(CLK_LOCAL_MEM_FENCE); // all are done with the tokens before
    space->parts[0][t][lane] = qq;
    space->parts[1][t][lane] = kk;
    space->parts[2][t][lane] = kq;
    space->values[item / SCAN_COLUMNS][column] = value;
    space->betas[t] = beta;
    space->head_decays[t] = decay_of(a, rate, f); // means nothing by channel
    barrier(CLK_LOCAL_MEM_FENCE);
    qq = kk = kq = 0;
    UNROLL
    for (uint i = 0; i < SCAN_TEAM; i++) {
        qq += space->parts[0][t][i];
        kk += space->parts[1][t][i];
        kq += space->parts[2][t][i];
    }
    float q_scale = 1.0f / sqrt((float)a->key_dim) / sqrt(qq + a->norm_eps);
    float k_scale = 1.0f / sqrt(kk + a->norm_eps);
    space->products[t] = kq * q_scale * k_scale;
    UNROLL
    for (uint j = 0; j < SCAN_EACH; j++) {
        uint i = lane + j * SCAN_TEAM;
        ((__local float *)space->queries[t])[i] = q[j] * q_scale;
        ((__local float *)space->keys[t])[i] = k[j] * k_scale;
    }
    if (!by_head)
        scan_decays(job, rate, first, space);
    barrier(CLK_LOCAL_MEM_FENCE);
}

INLINE float sum_fours(float4 v)
{
    return (v.x + v.z) + (v.y + v.w);
}

// Four rows of a column, from `row` on. Every work-item reads something: what is not there counts as zero.
INLINE float4 scan_take(const struct args_delta *a, __global const float *column, uint row, uint has_column)
{
    float4 four;
    four.x = column[(ulong)min(row, a->key_dim - 1) * a->value_dim];
    four.y = column[(ulong)min(row + 1, a->key_dim - 1) * a->value_dim];
    four.z = column[(ulong)min(row + 2, a->key_dim - 1) * a->value_dim];
    four.w = column[(ulong)min(row + 3, a->key_dim - 1) * a->value_dim];
    uint4 rows = (uint4)(row, row + 1, row + 2, row + 3);
    return select((float4)(0), four, rows < (uint4)(has_column ? a->key_dim : 0));
}

INLINE void scan_put(const struct args_delta *a, float4 four, __global float *column, uint row, uint has_column)
{
    uint end = has_column ? a->key_dim : 0;
    if (row < end)
        column[(ulong)row * a->value_dim] = four.x;
    if (row + 1 < end)
        column[(ulong)(row + 1) * a->value_dim] = four.y;
    if (row + 2 < end)
        column[(ulong)(row + 2) * a->value_dim] = four.z;
    if (row + 3 < end)
        column[(ulong)(row + 3) * a->value_dim] = four.w;
}

#if BUILD_PARTS & PART_STATES
// Groups: x over heads, y over blocks of columns.
__kernel GROUP_SIZE(SCAN_ITEMS, 1) void delta(const struct args_delta a, const struct tiling tiling,
                                              __global const uchar *rates, __global const uchar *dt_biases,
                                              __global const float *x, __global const float *gates,
                                              __global const float *from, __global float *to, __global float *out)
{
    __local struct scan_space space;
    if (a.n_rows == 0)
        return;
    struct scan_job job = {&a, rates, (__global const float *)(dt_biases + a.dt_bias), x, gates};
    job.head = get_group_id(0);
    job.column = get_group_id(1) * SCAN_COLUMNS;
    uint column = get_local_id(0) % SCAN_COLUMNS;
    uint slice = get_local_id(0) / SCAN_COLUMNS;
    uint has_column = job.column + column < a.value_dim;
    uint first_row = slice * SCAN_ROWS;
    uint by_head = a.decay == DECAY_HEAD;
    ulong at = (ulong)job.head * a.key_dim * a.value_dim + min(job.column + column, a.value_dim - 1);
    float4 s[SCAN_FOURS];
    UNROLL
    for (uint j = 0; j < SCAN_FOURS; j++)
        s[j] = scan_take(&a, from + a.from + at, first_row + 4 * j, has_column);
    for (uint first = 0; first < a.n_rows; first += SCAN_TOKENS) {
        scan_prepare(&job, first, &space);
        uint n = min(a.n_rows - first, (uint)SCAN_TOKENS);
        for (uint t = 0; t < n; t++) {
            float4 known = 0;
            float4 asked = 0;
            UNROLL
            for (uint j = 0; j < SCAN_FOURS; j++) {
                s[j] *= by_head ? (float4)(space.head_decays[t]) : space.decays[t][slice * SCAN_FOURS + j];
                known = fma(space.keys[t][slice * SCAN_FOURS + j], s[j], known);
                asked = fma(space.queries[t][slice * SCAN_FOURS + j], s[j], asked);
            }
            space.sums[t % 2][0][slice][column] = sum_fours(known);
            space.sums[t % 2][1][slice][column] = sum_fours(asked);
            barrier(CLK_LOCAL_MEM_FENCE);
            float known_all = 0;
            float asked_all = 0;
            UNROLL
            for (uint i = 0; i < SCAN_SLICES; i++) {
                known_all += space.sums[t % 2][0][i][column];
                asked_all += space.sums[t % 2][1][i][column];
            }
            float d = space.betas[t] * (space.values[t][column] - known_all);
            UNROLL
            for (uint j = 0; j < SCAN_FOURS; j++)
                s[j] = fma(space.keys[t][slice * SCAN_FOURS + j], (float4)(d), s[j]);
            if (slice == 0 && has_column)
                out[(ulong)(first + t) * a.out_stride + a.out_offset + job.head * a.value_dim + job.column + column] =
                    fma(d, space.products[t], asked_all);
        }
    }
    UNROLL
    for (uint j = 0; j < SCAN_FOURS; j++)
        scan_put(&a, s[j], to + a.to + at, first_row + 4 * j, has_column);
}
#endif

#endif
