// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: one token of a layer that keeps a state, in one launch: convolution, scan, gated norm. A group has a whole head:
// its state in registers, four columns of a slice of rows a work-item, so that lanes load whole rows. Sums are
// delta_gpu.cl's, of SCAN_SLICES slices each, and heads.cl's: the same bits.
#if !SHAPE_CPU

#define TOKEN_FOURS (TOKEN_ITEMS / SCAN_SLICES) // of columns: a head has no more values than keys can be

struct token_space {
    float4 keys[KEY_FOURS]; // rows behind key_dim are zero
    float4 queries[KEY_FOURS];
    float4 decays[KEY_FOURS];
    float values[MOST_KEY_DIM];
    float4 differences[TOKEN_FOURS]; // d
    float4 parts[3][SCAN_TEAM / 4];
    float4 sums[2][SCAN_SLICES][TOKEN_FOURS]; // S^T k, S^T q
    float4 squares[HEAD_LANES / 4];
};

struct token_job {
    const struct args_delta_token *a;
    uint head;
    uint key_head;
    uint first_of_keys; // is the first head that has these keys: who leaves their history
    __global const float *taps, *x, *from;
    __global float *to;
};

// What a work-item brings for one channel of the convolution.
struct token_taps {
    float4 taps;
    float seen[CONV_TAPS]; // the last is this token's
};

INLINE struct token_taps token_take_taps(const struct token_job *job, uint c)
{
    uint channels = job->a->conv.channels;
    struct token_taps own = {vload4(c, job->taps)};
    UNROLL
    for (uint j = 0; j < CONV_TAPS - 1; j++)
        own.seen[j] = job->from[j * channels + c];
    own.seen[CONV_TAPS - 1] = job->x[c];
    return own;
}

// Whoever owns a channel leaves its history.
INLINE float token_conv(const struct token_job *job, const struct token_taps *own, uint c, uint owns)
{
    float4 taps = own->taps;
    UNROLL
    for (uint j = 0; j < CONV_TAPS - 1; j++)
        if (owns)
            job->to[j * job->a->conv.channels + c] = own->seen[j + 1];
    return silu(fma(taps.w, own->seen[3], fma(taps.z, own->seen[2], fma(taps.y, own->seen[1], taps.x * own->seen[0]))));
}

// All that a work-item asks for before it computes anything, but for the state: each wait costs as much as all of them.
struct token_load {
    struct token_taps key, value; // of a query or a key, and of a value
    uint channel;
    uint value_channel;
    float rate, bias, decay, beta, gate, weight;
};

// Work-items below MOST_KEY_DIM have queries and values, the others keys.
INLINE struct token_load token_take_inputs(const struct token_job *job, __global const uchar *rates,
                                           __global const uchar *dt_biases, __global const uchar *norms,
                                           __global const float *gates, __global const float *z)
{
    const struct args_delta *a = &job->a->scan;
    const struct args_gated_norm *norm = &job->a->norm;
    uint item = get_local_id(0), i = item % MOST_KEY_DIM, base = job->a->conv.out_offset;
    uint key = min(i, a->key_dim - 1), value = min(i, a->value_dim - 1);
    uint at = a->decay == DECAY_HEAD ? job->head : job->head * a->key_dim + key;
    struct token_load load;
    load.channel = (item < MOST_KEY_DIM ? a->q_offset : a->k_offset) - base + job->key_head * a->key_dim + key;
    load.value_channel = a->v_offset - base + job->head * a->value_dim + value;
    load.key = token_take_taps(job, load.channel);
    load.value = token_take_taps(job, load.value_channel);
    load.rate = rate_of(a, rates, job->head);
    load.bias = ((__global const float *)(dt_biases + a->dt_bias))[at];
    load.decay = gates[a->decay_offset + at];
    load.beta = gates[a->beta_offset + job->head];
    load.gate = z[norm->gate_offset + job->head * norm->dim + value];
    load.weight = ((__global const float *)(norms + norm->weight))[value];
    return load;
}

// Queries, keys and values as the convolution leaves them, and decays; what is not there is zero.
INLINE void token_inputs(const struct token_job *job, const struct token_load *load, __local struct token_space *space)
{
    const struct args_delta *a = &job->a->scan;
    uint item = get_local_id(0), i = item % MOST_KEY_DIM;
    float own = token_conv(job, &load->key, load->channel, job->first_of_keys && i < a->key_dim);
    ((__local float *)(item < MOST_KEY_DIM ? space->queries : space->keys))[i] = i < a->key_dim ? own : 0;
    if (item < MOST_KEY_DIM) {
        float value = token_conv(job, &load->value, load->value_channel, i < a->value_dim);
        space->values[i] = i < a->value_dim ? value : 0;
    } else {
        ((__local float *)space->decays)[i] = decay_of(a, load->rate, load->decay + load->bias);
    }
}

// Queries and keys of length 1, `root` of them what queries are divided by besides; k . q.
INLINE float token_scale(const struct args_delta *a, float root, __local struct token_space *space)
{
    uint item = get_local_id(0), i = item % MOST_KEY_DIM, lane = item % SCAN_TEAM;
    __local float *queries = (__local float *)space->queries, *keys = (__local float *)space->keys;
    float qq = 0, kk = 0, kq = 0;
    if (item < SCAN_TEAM) {
        UNROLL
        for (uint j = 0; j < SCAN_EACH; j++) {
            float q = queries[lane + j * SCAN_TEAM], k = keys[lane + j * SCAN_TEAM];
            qq = fma(q, q, qq);
            kk = fma(k, k, kk);
            kq = fma(k, q, kq);
        }
        ((__local float *)space->parts[0])[item] = qq;
        ((__local float *)space->parts[1])[item] = kk;
        ((__local float *)space->parts[2])[item] = kq;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    qq = kk = kq = 0;
    UNROLL
    for (uint part = 0; part < SCAN_TEAM / 4; part++) {
        float4 q = space->parts[0][part], k = space->parts[1][part], both = space->parts[2][part];
        qq = (((qq + q.x) + q.y) + q.z) + q.w;
        kk = (((kk + k.x) + k.y) + k.z) + k.w;
        kq = (((kq + both.x) + both.y) + both.z) + both.w;
    }
    float q_scale = root / sqrt(qq + a->norm_eps);
    float k_scale = 1.0f / sqrt(kk + a->norm_eps);
    if (item < MOST_KEY_DIM)
        queries[i] *= q_scale;
    else
        keys[i] *= k_scale;
    return kq * q_scale * k_scale;
}

// Four columns of a row. Every work-item reads something: what is not there counts as zero.
INLINE float4 token_take(const struct args_delta *a, __global const float *from, uint row, uint column)
{
    uint there = row < a->key_dim && column < a->value_dim;
    ulong at = (ulong)min(row, a->key_dim - 1) * a->value_dim + min(column, a->value_dim - 4);
    float4 four = *(__global const float4 *)(from + at);
    return there ? four : 0;
}

// The head's answer, normed and gated, of which a work-item has element i.
INLINE void token_norm(const struct args_gated_norm *a, uint head, float answer, const struct token_load *load,
                       __global float *y, __local float4 *squares)
{
    uint i = get_local_id(0);
    if (i < HEAD_LANES)
        ((__local float *)squares)[i] = i < a->dim ? answer * answer : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i >= a->dim)
        return;
    float4 parts = 0;
    UNROLL
    for (uint k = 0; k < HEAD_LANES / 4; k++)
        parts += squares[k];
    float scale = 1.0f / sqrt(((parts.x + parts.y) + (parts.z + parts.w)) / (float)a->dim + a->eps);
    float act = a->act == GATE_SILU ? silu(load->gate) : sigmoid(load->gate);
    y[a->out_offset + head * a->dim + i] = load->weight * (answer * scale) * act;
}

INLINE struct token_job token_job_of(const struct args_delta_token *a, uint head, __global const uchar *taps,
                                     __global const float *x, __global const float *conv_from, __global float *conv_to)
{
    const struct args_delta *scan = &a->scan;
    struct token_job job = {a, head, key_head_of(scan, head)};
    job.first_of_keys = scan->tiled_heads ? head < scan->n_key_heads
                                          : head % (scan->n_value_heads / scan->n_key_heads) == 0;
    job.taps = (__global const float *)(taps + a->conv.weight);
    job.x = x + a->conv.in_offset;
    job.from = conv_from + a->conv.from;
    job.to = conv_to + a->conv.to;
    return job;
}

INLINE ulong token_state_at(const struct args_delta *scan, uint head)
{
    return (ulong)head * scan->key_dim * scan->value_dim;
}

// The work-item's share of a head's state.
INLINE void token_take_state(const struct args_delta *scan, uint head, __global const float *from, float4 *s)
{
    uint item = get_local_id(0);
    UNROLL
    for (uint r = 0; r < SCAN_ROWS; r++)
        s[r] = token_take(scan, from + scan->from + token_state_at(scan, head), item / TOKEN_FOURS * SCAN_ROWS + r,
                          item % TOKEN_FOURS * 4);
}

// A head: its state anew, and its answer.
INLINE void token_answer(const struct token_job *job, const struct token_load *load, float4 *s, __global float *to,
                         __global float *out, __local struct token_space *space)
{
    const struct args_delta *scan = &job->a->scan;
    uint item = get_local_id(0), slice = item / TOKEN_FOURS, first_row = slice * SCAN_ROWS;
    uint column = item % TOKEN_FOURS * 4;
    ulong at = token_state_at(scan, job->head);
    float root = 1.0f / sqrt((float)scan->key_dim);
    token_inputs(job, load, space);
    float beta = sigmoid(load->beta);
    barrier(CLK_LOCAL_MEM_FENCE);
    float kq = token_scale(scan, root, space);
    barrier(CLK_LOCAL_MEM_FENCE);
    float4 known[4] = {0, 0, 0, 0}, wanted[4] = {0, 0, 0, 0}; // of every fourth row
    UNROLL
    for (uint j = 0; j < SCAN_FOURS; j++) {
        float4 decay = space->decays[slice * SCAN_FOURS + j], key = space->keys[slice * SCAN_FOURS + j];
        float4 query = space->queries[slice * SCAN_FOURS + j];
        s[4 * j] *= decay.x, s[4 * j + 1] *= decay.y, s[4 * j + 2] *= decay.z, s[4 * j + 3] *= decay.w;
        known[0] = fma((float4)(key.x), s[4 * j], known[0]);
        known[1] = fma((float4)(key.y), s[4 * j + 1], known[1]);
        known[2] = fma((float4)(key.z), s[4 * j + 2], known[2]);
        known[3] = fma((float4)(key.w), s[4 * j + 3], known[3]);
        wanted[0] = fma((float4)(query.x), s[4 * j], wanted[0]);
        wanted[1] = fma((float4)(query.y), s[4 * j + 1], wanted[1]);
        wanted[2] = fma((float4)(query.z), s[4 * j + 2], wanted[2]);
        wanted[3] = fma((float4)(query.w), s[4 * j + 3], wanted[3]);
    }
    space->sums[0][slice][item % TOKEN_FOURS] = (known[0] + known[2]) + (known[1] + known[3]);
    space->sums[1][slice][item % TOKEN_FOURS] = (wanted[0] + wanted[2]) + (wanted[1] + wanted[3]);
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0, asked = 0; // of column item % MOST_KEY_DIM
    UNROLL
    for (uint i = 0; i < SCAN_SLICES; i++) {
        sum += ((__local const float *)space->sums[0][i])[item % MOST_KEY_DIM];
        asked += ((__local const float *)space->sums[1][i])[item % MOST_KEY_DIM];
    }
    float d = beta * (space->values[item % MOST_KEY_DIM] - sum);
    if (item < MOST_KEY_DIM)
        ((__local float *)space->differences)[item] = d;
    barrier(CLK_LOCAL_MEM_FENCE);
    float4 difference = space->differences[item % TOKEN_FOURS];
    UNROLL
    for (uint r = 0; r < SCAN_ROWS; r++) {
        s[r] = fma((float4)(((__local const float *)space->keys)[first_row + r]), difference, s[r]);
        if (first_row + r < scan->key_dim && column < scan->value_dim)
            *(__global float4 *)(to + scan->to + at + (ulong)(first_row + r) * scan->value_dim + column) = s[r];
    }
    token_norm(&job->a->norm, job->head, fma(d, kq, asked), load, out, space->squares);
}

#if BUILD_PARTS & PART_STATES && !defined(TOKEN_PROGRAM)
// Groups: heads of values.
__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void delta_token(const struct args_delta_token a, const struct tiling t,
                                                     __global const uchar *taps, __global const uchar *rates,
                                                     __global const uchar *dt_biases, __global const uchar *norms,
                                                     __global const float *x, __global const float *gates,
                                                     __global const float *z, __global const float *conv_from,
                                                     __global float *conv_to, __global const float *from,
                                                     __global float *to, __global float *out)
{
    __local struct token_space space;
    float4 s[SCAN_ROWS];
    if (a.conv.n_rows == 0)
        return;
    struct token_job job = token_job_of(&a, get_group_id(0), taps, x, conv_from, conv_to);
    struct token_load load = token_take_inputs(&job, rates, dt_biases, norms, gates, z);
    token_take_state(&a.scan, job.head, from, s);
    token_answer(&job, &load, s, to, out, &space);
}
#endif

#endif
