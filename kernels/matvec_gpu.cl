// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: one row of x times a matrix. A team of TEAM lanes computes TEAM_ROWS rows together, so that each load of x serves
// them all; a lane takes every TEAM-th word of each row, and the lanes' sums are added as a tree.
#if !SHAPE_CPU

struct team_rows {
    const struct args_matrix *m;
    __global const uchar *matrix;
    uint row[TEAM_ROWS];
};

// A lane's part of the dot products of quantised rows with x: every TEAM-th word.
static void lane_dot(const struct team_rows *rows, __global const float *x, uint lane, float *dots)
{
    const struct args_matrix *m = rows->m;
    uint per_word = 32 / m->bits;
    uint n_words = m->in_dim / per_word;
    for (uint w = lane; w < n_words; w += TEAM) {
        uint group = w * per_word / m->group_size;
        float8 in = 0;
        if (m->bits == 4)
            in = vload8(w, x);
        else
            in.lo = vload4(w, x);
        float4 pairs = in.lo + in.hi;
        float total = (pairs.x + pairs.z) + (pairs.y + pairs.w);
        for (uint i = 0; i < TEAM_ROWS; i++) {
            uint row = rows->row[i];
            uint word = row_words(m, rows->matrix, row)[w];
            float4 part;
            if (m->bits == 4) {
                float8 q = nibbles(word);
                part = fma(q.hi, in.hi, q.lo * in.lo);
            } else {
                part = octets(word) * in.lo;
            }
            float dot_q = (part.x + part.z) + (part.y + part.w);
            dots[i] = fma(bf16(row_scales(m, rows->matrix, row)[group]), dot_q, dots[i]);
            dots[i] = fma(bf16(row_biases(m, rows->matrix, row)[group]), total, dots[i]);
        }
    }
}

// The same of plain rows: every TEAM-th four inputs.
static void lane_dot_plain(const struct team_rows *rows, __global const float *x, uint lane, float *dots)
{
    const struct args_matrix *m = rows->m;
    for (uint at = lane; at < m->in_dim / 4; at += TEAM) {
        float4 in = vload4(at, x);
        for (uint i = 0; i < TEAM_ROWS; i++) {
            float4 part = plain4(row_words(m, rows->matrix, rows->row[i]), m->bits, at) * in;
            dots[i] += (part.x + part.z) + (part.y + part.w);
        }
    }
}

// The dot products of the team's rows with x, in lane 0's sums. All work-items of the group must call it.
static void team_dot(const struct team_rows *rows, __global const float *x, __local float (*sums)[TEAM_ROWS], float *dots)
{
    uint item = get_local_id(0);
    uint lane = item % TEAM;
    for (uint i = 0; i < TEAM_ROWS; i++)
        dots[i] = 0;
    if (rows->m->bits <= 8)
        lane_dot(rows, x, lane, dots);
    else
        lane_dot_plain(rows, x, lane, dots);
    for (uint i = 0; i < TEAM_ROWS; i++)
        sums[item][i] = dots[i];
    for (uint half_of = TEAM / 2; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_of)
            for (uint i = 0; i < TEAM_ROWS; i++)
                sums[item][i] += sums[item + half_of][i];
    }
    for (uint i = 0; i < TEAM_ROWS; i++)
        dots[i] = sums[item][i];
    barrier(CLK_LOCAL_MEM_FENCE);
}

static uint team_first_row(void)
{
    return (get_group_id(0) * TEAMS + get_local_id(0) / TEAM) * TEAM_ROWS;
}

static struct team_rows team_rows_of(const struct args_matrix *m, __global const uchar *matrix)
{
    struct team_rows rows = {m, matrix};
    for (uint i = 0; i < TEAM_ROWS; i++)
        rows.row[i] = min(team_first_row() + i, m->out_dim - 1);
    return rows;
}

// The team's rows of W x into y, or added to it.
static void team_matvec(const struct team_rows *rows, __global const float *x, __local float (*sums)[TEAM_ROWS],
                        uint add, __global float *y)
{
    float dots[TEAM_ROWS];
    team_dot(rows, x, sums, dots);
    if (get_local_id(0) % TEAM != 0)
        return;
    uint first = team_first_row();
    for (uint i = 0; i < TEAM_ROWS && first + i < rows->m->out_dim; i++)
        y[first + i] = add ? y[first + i] + dots[i] : dots[i];
}

// The team's rows of silu(gate x) * (up x) into y. `rows` are gate's.
static void team_swiglu(struct team_rows *rows, const struct args_matrix *up, __global const float *x,
                        __local float (*sums)[TEAM_ROWS], __global float *y)
{
    float gates[TEAM_ROWS];
    float ups[TEAM_ROWS];
    team_dot(rows, x, sums, gates);
    rows->m = up;
    team_dot(rows, x, sums, ups);
    if (get_local_id(0) % TEAM != 0)
        return;
    uint first = team_first_row();
    for (uint i = 0; i < TEAM_ROWS && first + i < up->out_dim; i++)
        y[first + i] = silu(gates[i]) * ups[i];
}

__kernel GROUP_SIZE(TEAM *TEAMS, 1) void matvec(const struct args_matmul a, const struct tiling t,
                                                __global const uchar *matrix, __global const float *x,
                                                __global float *y, __global float *scratch)
{
    __local float sums[TEAM * TEAMS][TEAM_ROWS];
    if (a.n_rows == 0)
        return;
    struct team_rows rows = team_rows_of(&a.matrix, matrix);
    team_matvec(&rows, x + a.in_offset, sums, a.add, y + a.out_offset);
}

__kernel GROUP_SIZE(TEAM *TEAMS, 1) void swiglu_vec(const struct args_swiglu a, const struct tiling t,
                                                    __global const uchar *matrices, __global const float *x,
                                                    __global float *y, __global float *scratch)
{
    __local float sums[TEAM * TEAMS][TEAM_ROWS];
    if (a.n_rows == 0)
        return;
    struct team_rows rows = team_rows_of(&a.gate, matrices);
    team_swiglu(&rows, &a.up, x + a.in_offset, sums, y + a.out_offset);
}

// Groups: x over rows, y over experts.
__kernel GROUP_SIZE(TEAM *TEAMS, 1) void swiglu_experts(const struct args_swiglu_experts a, const struct tiling t,
                                                        __global const uchar *matrices, __global const float *x,
                                                        __global float *y, __global float *scratch)
{
    __local float sums[TEAM * TEAMS][TEAM_ROWS];
    uint k = get_group_id(1);
    if (k >= a.at.n)
        return;
    struct expert_at at = expert_at(&a.at, k);
    struct team_rows rows = team_rows_of(&a.gate, matrices + at.place);
    team_swiglu(&rows, &a.up, x + a.in_offset, sums, y + (ulong)at.rank * a.out_stride);
}

__kernel GROUP_SIZE(TEAM *TEAMS, 1) void matvec_experts(const struct args_matvec_experts a, const struct tiling t,
                                                        __global const uchar *matrices, __global const float *x,
                                                        __global float *y, __global float *scratch)
{
    __local float sums[TEAM * TEAMS][TEAM_ROWS];
    uint k = get_group_id(1);
    if (k >= a.at.n)
        return;
    struct expert_at at = expert_at(&a.at, k);
    struct team_rows rows = team_rows_of(&a.matrix, matrices + at.place);
    team_matvec(&rows, x + (ulong)at.rank * a.in_stride, sums, 0, y + (ulong)at.rank * a.out_stride);
}

// Groups: x over the head's outputs, y over heads, z over rows.
__kernel GROUP_SIZE(TEAM *TEAMS, 1) void heads(const struct args_heads a, const struct tiling t,
                                               __global const uchar *matrix, __global const float *x,
                                               __global float *out, __global float *scratch)
{
    __local float sums[TEAM * TEAMS][TEAM_ROWS];
    uint r = get_group_id(2);
    uint h = get_group_id(1);
    if (r >= a.n_rows)
        return;
    struct team_rows rows = {&a.matrix, matrix};
    uint first = team_first_row();
    for (uint i = 0; i < TEAM_ROWS; i++)
        rows.row[i] = h * a.head_rows + a.first_row + min(first + i, a.n_out - 1);
    float dots[TEAM_ROWS];
    team_dot(&rows, x + (ulong)r * a.row_stride + h * a.head_stride, sums, dots);
    if (get_local_id(0) % TEAM != 0)
        return;
    for (uint i = 0; i < TEAM_ROWS && first + i < a.n_out; i++)
        out[((ulong)r * a.n_heads + h) * a.n_out + first + i] = dots[i];
}

// A work-item computes the outputs of one word's columns. Groups: x over words, y over heads, z over rows.
__kernel GROUP_SIZE(ELEMENTS_GROUP, 1) void q_prime(const struct args_kv_b a, const struct tiling t,
                                                    __global const uchar *kv_b, __global const float *q,
                                                    __global float *out, __global float *scratch)
{
    uint word = get_global_id(0);
    uint h = get_group_id(1);
    uint r = get_group_id(2);
    if (r >= a.n_rows)
        return;
    uint per_word = inputs_per_word(a.kv_b.bits);
    uint column = word * per_word;
    if (column >= a.kv_b.in_dim)
        return;
    __global const float *query = q + (ulong)r * a.q_row_stride + (ulong)h * a.q_head_stride;
    __global float *to = out + ((ulong)r * a.n_heads + h) * a.kv_b.in_dim + column;
    if (per_word == 1) {
        float total = 0;
        for (uint d = 0; d < a.qk_nope_head_dim; d++) {
            uint row = h * (a.qk_nope_head_dim + a.v_head_dim) + d;
            total = fma(query[d], plain1(row_words(&a.kv_b, kv_b, row), a.kv_b.bits, column), total);
        }
        *to = total;
        return;
    }
    uint group = column / a.kv_b.group_size;
    float8 sum = 0;
    for (uint d = 0; d < a.qk_nope_head_dim; d++) {
        uint row = h * (a.qk_nope_head_dim + a.v_head_dim) + d;
        uint bits = row_words(&a.kv_b, kv_b, row)[word];
        float8 weight = a.kv_b.bits == 4 ? nibbles(bits) : (float8)(octets(bits), (float4)(0));
        weight = fma(weight, (float8)(bf16(row_scales(&a.kv_b, kv_b, row)[group])),
                     (float8)(bf16(row_biases(&a.kv_b, kv_b, row)[group])));
        sum = fma((float8)(query[d]), weight, sum);
    }
    if (a.kv_b.bits == 4)
        vstore8(sum, 0, to);
    else
        vstore4(sum.lo, 0, to);
}

#endif
