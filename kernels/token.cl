// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: what the kernels have in common that take one token through several ops in one launch. Between those all groups
// meet, for which all must be resident: the host has seen that they are (ops_token.c), and nobody waits forever. Weights are
// asked for before what they are multiplied with is looked at. Sums are those of the ops, in the same order. Matrices are
// MLX's of 4 and 8 bits.
#if NVIDIA_MMA && !SHAPE_CPU && !defined(KIND)

#define TOKEN_TEAMS (TOKEN_ITEMS / TEAM)
#define TOKEN_QUADS 4 // of words that a lane has on their way
#define PAIR_QUADS 4  // the same of two rows, where as many are asked for as have been used; 8 are no faster
#define TOKEN_STEPS(bits) (TOKEN_QUADS * 4 / (bits)) // units

struct staged_space {
    float4 x[TOKEN_INPUTS / 4];
    float totals[TOKEN_INPUTS / UNIT]; // of each unit
    float norm[NORM_SUMS];
};

struct token_row {
    __global const uint4 *words;
    __global const ushort *scales;
    __global const ushort *biases;
};

struct token_unit {
    uint4 words[2];
    uint scale;
    uint bias;
};

// As in matvec_team.cl.
INLINE uint token_place(uint four)
{
    return four ^ (four >> 3 & 7);
}

// A four of x into its place; all lanes come together, eight have a unit.
INLINE void token_put(__local struct staged_space *space, uint four, bool is_there, float4 v)
{
    float total = (v.x + v.z) + (v.y + v.w);
    total += of_lane(total, 4);
    total += of_lane(total, 2);
    total += of_lane(total, 1);
    if (!is_there)
        return;
    space->x[token_place(four)] = v;
    if (four % 8 == 0)
        space->totals[four / 8] = total;
}

// x times a factor.
INLINE void token_stage(__global const float *x, uint dim, float times, __local struct staged_space *space)
{
    uint n = dim / 4;
    for (uint base = 0; base < n; base += 2 * TOKEN_ITEMS) {
        uint i = base + get_local_id(0);
        float4 one = ((__global const float4 *)x)[min(i, n - 1)];
        float4 two = ((__global const float4 *)x)[min(i + TOKEN_ITEMS, n - 1)];
        token_put(space, i, i < n, one * times);
        token_put(space, i + TOKEN_ITEMS, i + TOKEN_ITEMS < n, two * times);
    }
}

// A row that is to be normed is asked for first of all, before weights that are much more.
INLINE void token_norm_begin(__global const float *x, uint dim, __local struct staged_space *space)
{
    for (uint i = get_local_id(0); i < dim / 4; i += TOKEN_ITEMS)
        copy_16(&space->x[token_place(i)], (__global const float4 *)x + i);
}

// row_scale of what is staged, and staged anew: the same sums.
INLINE void token_norm_end(const struct normed_row *row, __local struct staged_space *space)
{
    uint item = get_local_id(0), n = row->dim / 4;
    __local float *shares = space->norm + NORM_LANES;
    float sum = 0;
    copies_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < row->dim; i += NORM_LANES) {
        float v = ((__local const float *)&space->x[token_place(i / 4)])[i % 4];
        sum = fma(v, v, sum);
    }
    space->norm[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    UNROLL
    for (uint i = item % NORM_SHARES; i < NORM_LANES; i += NORM_SHARES)
        sum += space->norm[i];
    shares[item % NORM_SHARES] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    UNROLL
    for (uint i = 0; i < NORM_SHARES; i++)
        sum += shares[i];
    float scale = 1.0f / sqrt(sum / (float)row->dim + row->eps);
    for (uint base = 0; base < n; base += TOKEN_ITEMS) {
        uint i = base + item, at = min(i, n - 1);
        float4 w = ((__global const float4 *)row->weight)[at];
        w = row->plus_one ? 1.0f + w : w;
        token_put(space, i, i < n, w * (space->x[token_place(at)] * scale));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

INLINE struct token_row token_row_of(const struct args_matrix *m, __global const uchar *matrix, uint row)
{
    struct token_row at = {(__global const uint4 *)row_words(m, matrix, row), row_scales(m, matrix, row),
                           row_biases(m, matrix, row)};
    return at;
}

INLINE void token_load(const struct token_row *row, uint unit, const uint bits, uint shift, struct token_unit *to)
{
    to->words[0] = row->words[unit * (bits / 4)];
    if (bits == 8)
        to->words[1] = row->words[unit * 2 + 1];
    to->scale = row->scales[unit >> shift];
    to->bias = row->biases[unit >> shift];
}

// dot += the products of a unit.
INLINE float token_dot(const struct token_unit *u, uint unit, const uint bits, __local const struct staged_space *space,
                       float dot)
{
    const uint words[8] = {u->words[0].x, u->words[0].y, u->words[0].z, u->words[0].w,
                           u->words[1].x, u->words[1].y, u->words[1].z, u->words[1].w};
    float4 part = 0;
    UNROLL
    for (uint j = 0; j < UNIT / 4; j++) {
        uint word = words[bits == 4 ? j / 2 : j];
        float4 q = bits == 4 ? low_nibbles(j % 2 ? word >> 16 : word) : octets_apart(word);
        part = fma(q, space->x[token_place(unit * (UNIT / 4) + j)], part);
    }
    part *= places(bits); // powers of 2: the same as before the sum
    dot = fma(bf16(u->scale), (part.x + part.z) + (part.y + part.w), dot);
    return fma(bf16(u->bias), space->totals[unit], dot);
}

// A team's row, and the first units that are on their way.
struct token_rows {
    struct token_row row;
    uint n_units;
    uint shift;
    bool eight; // bits
    struct token_unit units[TOKEN_QUADS];
};

INLINE void token_fetch(struct token_rows *rows, const uint bits, uint unit)
{
    UNROLL
    for (uint s = 0; s < TOKEN_STEPS(bits); s++)
        token_load(&rows->row, min(unit + s * TEAM, rows->n_units - 1), bits, rows->shift, &rows->units[s]);
}

INLINE void token_begin(struct token_rows *rows, const struct args_matrix *m, uint row, __global const uchar *matrix)
{
    rows->row = token_row_of(m, matrix, row);
    rows->n_units = m->in_dim / UNIT;
    rows->shift = group_size_of(m) / 64;
    rows->eight = bits_of(m) == 8;
    if (rows->eight)
        token_fetch(rows, 8, get_local_id(0) % TEAM);
    else
        token_fetch(rows, 4, get_local_id(0) % TEAM);
}

INLINE float token_add(struct token_rows *rows, const uint bits, __local const struct staged_space *space)
{
    float dot = 0;
    uint first = get_local_id(0) % TEAM;
    NO_UNROLL
    for (uint unit = first; unit < rows->n_units; unit += TEAM * TOKEN_STEPS(bits)) {
        if (unit != first)
            token_fetch(rows, bits, unit);
        UNROLL
        for (uint s = 0; s < TOKEN_STEPS(bits); s++)
            if (unit + s * TEAM < rows->n_units)
                dot = token_dot(&rows->units[s], unit + s * TEAM, bits, space, dot);
    }
    return dot;
}

// The product of the row with what is staged, in each of a team's lanes.
INLINE float token_end(struct token_rows *rows, __local const struct staged_space *space)
{
    return token_sum(rows->eight ? token_add(rows, 8, space) : token_add(rows, 4, space));
}

INLINE bool is_first_lane(void)
{
    return get_local_id(0) % TEAM == 0;
}

// A task of TOKEN_TEAMS of n_out rows of a matrix, from first_row + `first` on.
struct token_task {
    struct token_rows rows;
    uint o; // output of the team
    bool is_there;
};

INLINE void product_begin(struct token_task *task, const struct args_matrix *m, uint first_row, uint n_out, uint first,
                          __global const uchar *matrix)
{
    task->o = first + get_local_id(0) / TEAM;
    task->is_there = is_first_lane() && task->o < n_out;
    uint row = first_row + min(task->o, n_out - 1);
    token_begin(&task->rows, m, row, matrix);
}

INLINE void product_end(struct token_task *task, __local const struct staged_space *space, __global float *y)
{
    float sum = token_end(&task->rows, space);
    if (task->is_there)
        y[task->o] = sum;
}

// ---- two rows a team, of one shape: as soon as a unit has been used, what comes after all of those on their way is asked for

#define PAIR_STEPS(bits) (PAIR_QUADS * 2 / (bits)) // units of each row that are on their way

struct token_pair {
    struct token_row row[2];
    uint n_units;
    uint shift;
    uint bits; // 0: there is nothing to fetch
    uint unit; // the lane's next
};

struct token_quads {
    uint4 words[PAIR_QUADS];
    uint scales[PAIR_QUADS];
    uint biases[PAIR_QUADS];
};

INLINE void pair_begin(struct token_pair *pair, const struct args_matrix *m, uint one, const struct args_matrix *also,
                       uint other, __global const uchar *matrix)
{
    pair->row[0] = token_row_of(m, matrix, one);
    pair->row[1] = token_row_of(also, matrix, other);
    pair->n_units = m->in_dim / UNIT;
    pair->shift = group_size_of(m) / 64;
    pair->bits = bits_of(m);
    pair->unit = get_local_id(0) % TEAM;
}

// Unit s of those of one row that are fetched together.
INLINE void pair_load(const struct token_pair *pair, const uint bits, const uint s, struct token_quads *to)
{
    uint unit = min(pair->unit + s * TEAM, pair->n_units - 1);
    UNROLL
    for (uint i = 0; i < 2; i++) {
        UNROLL
        for (uint j = 0; j < bits / 4; j++)
            to->words[(s * 2 + i) * (bits / 4) + j] = pair->row[i].words[unit * (bits / 4) + j];
        to->scales[s * 2 + i] = pair->row[i].scales[unit >> pair->shift];
        to->biases[s * 2 + i] = pair->row[i].biases[unit >> pair->shift];
    }
}

INLINE void pair_fetch(const struct token_pair *pair, struct token_quads *to)
{
    if (pair->bits == 4) {
        UNROLL
        for (uint s = 0; s < PAIR_STEPS(4); s++)
            pair_load(pair, 4, s, to);
    } else if (pair->bits == 8) {
        UNROLL
        for (uint s = 0; s < PAIR_STEPS(8); s++)
            pair_load(pair, 8, s, to);
    }
}

INLINE float4 quad_of(uint4 quad, const uint bits, const uint j)
{
    const uint at = (bits == 4 ? j / 2 : j) % 4;
    uint word = at == 0 ? quad.x : at == 1 ? quad.y : at == 2 ? quad.z : quad.w;
    return bits == 4 ? low_nibbles(j % 2 ? word >> 16 : word) : octets_apart(word);
}

// dots += the products of a unit of each row.
INLINE float2 pair_dot(const struct token_quads *q, const uint bits, const uint s, uint unit,
                       __local const struct staged_space *space, float2 dots)
{
    float4 one = 0, two = 0;
    const uint first = s * 2 * (bits / 4);
    UNROLL
    for (uint j = 0; j < UNIT / 4; j++) {
        float4 x = space->x[token_place(unit * (UNIT / 4) + j)];
        one = fma(quad_of(q->words[first + (bits == 8 ? j / 4 : 0)], bits, j), x, one);
        two = fma(quad_of(q->words[first + bits / 4 + (bits == 8 ? j / 4 : 0)], bits, j), x, two);
    }
    one *= places(bits); // powers of 2: the same as before the sum
    two *= places(bits);
    float total = space->totals[unit];
    dots.x = fma(bf16(q->scales[s * 2]), (one.x + one.z) + (one.y + one.w), dots.x);
    dots.x = fma(bf16(q->biases[s * 2]), total, dots.x);
    dots.y = fma(bf16(q->scales[s * 2 + 1]), (two.x + two.z) + (two.y + two.w), dots.y);
    dots.y = fma(bf16(q->biases[s * 2 + 1]), total, dots.y);
    return dots;
}

// The units that are there, of which the lane's first is `unit`; and the next are asked for, if they are of so many bits.
INLINE float2 pair_add(struct token_quads *q, const uint bits, uint unit, uint n_units, const struct token_pair *next,
                       __local const struct staged_space *space, float2 dots)
{
    bool more = next->bits == bits;
    UNROLL
    for (uint s = 0; s < PAIR_STEPS(bits); s++) {
        if (unit + s * TEAM < n_units)
            dots = pair_dot(q, bits, s, unit + s * TEAM, space, dots);
        if (more)
            pair_load(next, bits, s, q);
    }
    return dots;
}

#endif
