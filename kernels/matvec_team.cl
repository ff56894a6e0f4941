// SPDX-License-Identifier: GPL-3.0-or-later
// GPU: rows of matrices times one row of x. A team of TEAM lanes computes up to TEAM_ROWS rows together; a lane takes every
// TEAM-th unit of 32 inputs of each, 16 bytes of 4 bits. A group's teams share x, which lies in local memory, a chunk of
// TEAM_INPUTS at a time, scaled so that quanta are used where they stand in their words: a mask makes them the low digits
// of a float. What a lane adds up, and in which order, depends on the matrix's shape alone.
#if !SHAPE_CPU

#define TEAM_ITEMS (TEAM * TEAMS)
#define UNIT 32
#define TEAM_UNITS (TEAM_INPUTS / UNIT)

// The sum of what a row's lanes left: row i of n of a team.
INLINE float team_sum(__local const float (*sums)[TEAM + 1], uint row)
{
    float4 sum = 0;
    UNROLL
    for (uint lane = 0; lane < TEAM; lane += 4)
        sum += (float4)(sums[row][lane], sums[row][lane + 1], sums[row][lane + 2],
                        sums[row][lane + 3]);
    return (sum.x + sum.z) + (sum.y + sum.w);
}

#if !(PIECES && NVIDIA_MMA)
// What a team of a group that computes so many rows has of them.
#define TEAM_SHARE(rows) ((rows) / TEAMS)

struct team_space {
    float4 x[TEAM_INPUTS / 4];
    float4 totals[TEAM_UNITS][2]; // of each four of x, unscaled
    float sums[TEAMS * TEAM_ROWS][TEAM + 1]; // the norm's before
#if PIECES
    uint table[TABLE_WORDS] __attribute__((aligned(8)));
#endif
};
typedef char norm_fits[sizeof(((struct team_space *)0)->sums) >= NORM_SUMS * sizeof(float) ? 1 : -1];

#ifdef KIND
struct team_rows {
    uint in_dim;
    uint whole; // means nothing here
    uint n;
    struct kind_row row[TEAM_ROWS];
};

INLINE struct team_rows team_rows_of(const struct args_matrix *m, __global const uchar *matrix, uint n)
{
    struct team_rows rows = {m->in_dim, 1, n};
    return rows;
}

INLINE void team_row_set(struct team_rows *rows, uint i, const struct args_matrix *m, __global const uchar *matrix, uint row)
{
    rows->row[i] = kind_row_of(m, matrix, row);
}
#else
struct team_row {
    __global const uint *words;
    __global const ushort *scales;
    __global const ushort *biases;
};

struct team_rows {
    uint bits;
    uint in_dim;
    uint group_shift; // a unit lies in group unit >> group_shift
    uint whole;       // rows begin at multiples of 16 bytes
    uint n;
    struct team_row row[TEAM_ROWS];
};

INLINE struct team_rows team_rows_of(const struct args_matrix *m, __global const uchar *matrix, uint n)
{
    struct team_rows rows = {bits_of(m), m->in_dim, group_size_of(m) / 64, ((ulong)(matrix + m->weight) & 15) == 0, n};
    return rows;
}

INLINE void team_row_set(struct team_rows *rows, uint i, const struct args_matrix *m, __global const uchar *matrix, uint row)
{
    rows->row[i].words = row_words(m, matrix, row);
    rows->row[i].scales = row_scales(m, matrix, row);
    rows->row[i].biases = row_biases(m, matrix, row);
}
#endif

INLINE void stage_x(const struct team_rows *rows, __global const float *x, uint n_units, __local struct team_space *space)
{
#ifdef KIND
    float4 scale = 1;
#else
    float4 scale = rows->bits <= 8 ? places(rows->bits) : 1;
#endif
    __local float *totals = (__local float *)space->totals;
    for (uint i = get_local_id(0); i < n_units * (UNIT / 4); i += TEAM_ITEMS) {
        float4 v = vload4(i, x);
        space->x[team_place(i)] = v * scale;
        totals[i] = (v.x + v.z) + (v.y + v.w);
    }
}

#ifdef KIND
#if PIECES
#define DOT dot_pieces
#else
#define DOT dot_units
// dots[i] += the products of a unit of each of n rows with the chunk's x: 16 inputs after the other, scale and bias apart.
INLINE void dot_units(const struct team_rows *rows, const uint n, uint first, uint unit,
                      __local const struct team_space *space, float *dots)
{
    float4 parts[TEAM_ROWS];
    UNROLL
    for (uint i = 0; i < n; i++)
        parts[i] = 0;
    NO_UNROLL
    for (uint k = 0; k < UNIT / 8; k++) {
        float4 low = space->x[team_place(unit * (UNIT / 4) + 2 * k)];
        float4 high = space->x[team_place(unit * (UNIT / 4) + 2 * k + 1)];
        bool last = k % (KIND_SCALES / 8) == KIND_SCALES / 8 - 1;
        float4 four = KIND_SCALES == 32 ? space->totals[unit][0] + space->totals[unit][1] : space->totals[unit][k / 2];
        float total = (four.x + four.z) + (four.y + four.w);
        UNROLL
        for (uint i = 0; i < n; i++) {
            float8 q = kind_eight(&rows->row[i], (first + unit) * (UNIT / 8) + k);
            parts[i] = fma(q.lo, low, parts[i]);
            parts[i] = fma(q.hi, high, parts[i]);
            if (!last)
                continue;
            float2 scale = kind_scale(&rows->row[i], ((first + unit) * (UNIT / 8) + k) / 2 & ~(KIND_SCALES / 16 - 1));
            dots[i] = fma(scale.x, (parts[i].x + parts[i].z) + (parts[i].y + parts[i].w), dots[i]);
            if (KIND_BIAS)
                dots[i] = fma(scale.y, total, dots[i]);
            parts[i] = 0;
        }
    }
}

#endif

#if PIECES
// dots[i] += the products of a piece of each of n rows with the chunk's x.
INLINE void dot_pieces(const struct team_rows *rows, const uint n, uint first, uint number,
                       __local const struct team_space *space, float *dots)
{
    UNROLL
    for (uint i = 0; i < n; i++) {
        struct piece piece;
        piece_load(&rows->row[i], first / (PIECE_INPUTS / UNIT) + number, &piece);
        float4 part = 0;
        UNROLL
        for (uint set = 0; set < PIECE_SETS; set++) {
            uint at = piece_at(first / (PIECE_INPUTS / UNIT) + number, set) - first * 2;
            pair_t pairs[8];
            piece_set(&piece, first / (PIECE_INPUTS / UNIT) + number, set, space->table, pairs);
            UNROLL
            for (uint f = 0; f < 4; f++)
                part = fma(four_of(pairs + 2 * f), space->x[team_place(at * 4 + f)], part);
            if (set % PIECE_TOGETHER < PIECE_TOGETHER - 1)
                continue;
            float2 scale = piece_scale(&piece, first / (PIECE_INPUTS / UNIT) + number, set);
            scale.x *= PIECE_UNIT(set);
            float4 total = space->totals[at / 2][at % 2];
            if (PIECE_TOGETHER == 2)
                total += space->totals[at / 2][0];
            dots[i] = fma(scale.x, (part.x + part.z) + (part.y + part.w), dots[i]);
            if (KIND_BIAS)
                dots[i] = fma(scale.y, (total.x + total.z) + (total.y + total.w), dots[i]);
            part = 0;
        }
    }
}
#endif

// The dot products of the team's rows with x: its lanes' parts, left in space->sums. Their number is `few` or TEAM_ROWS.
// All work-items of the group must call it; PoCL 3.1 wants no barrier inside a branch.
INLINE void team_dots(const struct team_rows *rows, const uint few, __global const float *x,
                      __local struct team_space *space)
{
    uint item = get_local_id(0);
    uint n_units = rows->in_dim / UNIT;
#if PIECES
    table_fill(space->table);
#endif
    float dots[TEAM_ROWS];
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++)
        dots[i] = 0;
    for (uint first = 0; first < n_units; first += TEAM_UNITS) {
        uint n_here = min(n_units - first, (uint)TEAM_UNITS);
        barrier(CLK_LOCAL_MEM_FENCE); // the chunk before has been used
        stage_x(rows, x + first * UNIT, n_here, space);
        barrier(CLK_LOCAL_MEM_FENCE);
#if PIECES
        n_here /= PIECE_INPUTS / UNIT;
#endif
        if (rows->n == few)
            for (uint unit = item % TEAM; unit < n_here; unit += TEAM)
                DOT(rows, few, first, unit, space, dots);
        else
            for (uint unit = item % TEAM; unit < n_here; unit += TEAM)
                DOT(rows, TEAM_ROWS, first, unit, space, dots);
    }
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++)
        if (i < rows->n)
            space->sums[item / TEAM * rows->n + i][item % TEAM] = dots[i];
    barrier(CLK_LOCAL_MEM_FENCE);
}
#else
// A unit's words of a row: one quad of words of 4 bits, two of 8.
struct team_unit {
    uint4 words[2];
    ushort scale;
    ushort bias;
};

INLINE void load_unit(const struct team_rows *rows, uint i, uint unit, const uint bits, const bool whole,
                      struct team_unit *to)
{
    const struct team_row *row = &rows->row[i];
    uint group = unit >> rows->group_shift;
    UNROLL
    for (uint j = 0; j < 2; j++)
        if (j < bits / 4) {
            uint at = unit * (bits / 4) + j;
            to->words[j] = whole ? ((__global const uint4 *)row->words)[at] : vload4(at, row->words);
        }
    to->scale = row->scales[group];
    to->bias = row->biases[group];
}

struct span {
    uint first; // units of the row before the chunk
    uint unit;  // of the chunk
    uint n_units;
};

// TEAM_FLIGHT / n units of each row, TEAM apart; the last of the chunk when there are no more.
INLINE void load_units(const struct team_rows *rows, const uint n, const uint bits, struct span at, struct team_unit *units)
{
    UNROLL
    for (uint s = 0; s < TEAM_FLIGHT / n; s++) {
        uint unit = at.first + min(at.unit + s * TEAM, at.n_units - 1);
        UNROLL
        for (uint i = 0; i < n; i++)
            load_unit(rows, i, unit, bits, true, &units[s * n + i]);
    }
}

// dots[i] += the products of a unit of each row with the chunk's x.
INLINE void dot_units(const struct team_unit *units, uint n, uint unit, const uint bits,
                      __local const struct team_space *space, float *dots)
{
    float4 parts[TEAM_ROWS];
    UNROLL
    for (uint i = 0; i < n; i++)
        parts[i] = 0;
    UNROLL
    for (uint j = 0; j < UNIT / 4; j++) {
        float4 x = space->x[team_place(unit * (UNIT / 4) + j)];
        UNROLL
        for (uint i = 0; i < n; i++) {
            uint at = bits == 4 ? j / 2 : j;
            uint4 quad = bits == 4 || j < 4 ? units[i].words[0] : units[i].words[1];
            uint word = at % 4 == 0 ? quad.x : at % 4 == 1 ? quad.y : at % 4 == 2 ? quad.z : quad.w;
            float4 q = bits == 4 ? low_nibbles(j % 2 ? word >> 16 : word) : octets_apart(word);
            parts[i] = fma(q, x, parts[i]);
        }
    }
    float4 four = space->totals[unit][0] + space->totals[unit][1];
    float total = (four.x + four.z) + (four.y + four.w);
    UNROLL
    for (uint i = 0; i < n; i++) {
        dots[i] = fma(bf16(units[i].scale), (parts[i].x + parts[i].z) + (parts[i].y + parts[i].w), dots[i]);
        dots[i] = fma(bf16(units[i].bias), total, dots[i]);
    }
}

// A lane's part of the dot products with a chunk of x, for matrices of 4 and 8 bits whose rows begin at multiples of 16
// bytes. TEAM_FLIGHT units are on their way before the first is used; the first ones are there.
INLINE void lane_chunk(const struct team_rows *rows, const uint n, const uint bits, struct span span,
                       struct team_unit *units, __local const struct team_space *space, float *dots)
{
    const uint steps = TEAM_FLIGHT / n;
    for (uint at = 0; at < span.n_units; at += steps * TEAM) {
        if (at > 0)
            load_units(rows, n, bits, span, units);
        UNROLL
        for (uint s = 0; s < steps; s++)
            if (span.unit + s * TEAM < span.n_units)
                dot_units(units + s * n, n, span.unit + s * TEAM, bits, space, dots);
        span.unit += steps * TEAM;
    }
}

// The same for any other matrix, in the same order.
INLINE void lane_chunk_any(const struct team_rows *rows, struct span span, __local const struct team_space *space,
                           float *dots)
{
    for (uint unit = span.unit; unit < span.n_units; unit += TEAM) {
        UNROLL
        for (uint i = 0; i < TEAM_ROWS; i++) {
            if (rows->bits <= 8) {
                struct team_unit words;
                load_unit(rows, i, span.first + unit, rows->bits, false, &words);
                dot_units(&words, 1, unit, rows->bits, space, dots + i);
                continue;
            }
            float4 part = 0;
            for (uint j = 0; j < UNIT / 4; j++)
                part = fma(plain4(rows->row[i].words, rows->bits, (span.first + unit) * (UNIT / 4) + j),
                           space->x[team_place(unit * (UNIT / 4) + j)], part);
            dots[i] += (part.x + part.z) + (part.y + part.w);
        }
    }
}

// A plain row by itself, one unit ahead.
INLINE float lane_chunk_alone(__global const uchar *row, const uint bits, struct span span, __local const float4 *x, float dot)
{
    struct plain_part now, next;
    if (span.unit < span.n_units)
        plain_part_load(row, bits, span.first + span.unit, &now);
    for (uint unit = span.unit; unit < span.n_units; unit += TEAM) {
        plain_part_load(row, bits, span.first + min(unit + TEAM, span.n_units - 1), &next);
        dot = plain_part_dot(&now, x, unit, dot);
        now = next;
    }
    return dot;
}

// The same for plain matrices whose rows begin at multiples of 16 bytes.
INLINE void lane_chunk_plain(const struct team_rows *rows, struct span span, __local const struct team_space *space,
                             float *dots)
{
    __global const uchar *first = (__global const uchar *)rows->row[0].words;
    if (rows->n == 1) {
        dots[0] = rows->bits == 32 ? lane_chunk_alone(first, 32, span, space->x, dots[0])
                                   : lane_chunk_alone(first, 16, span, space->x, dots[0]);
        return;
    }
    for (uint unit = span.unit; unit < span.n_units; unit += TEAM)
        UNROLL
        for (uint i = 0; i < TEAM_ROWS; i++)
            if (i < rows->n) {
                __global const uchar *row = (__global const uchar *)rows->row[i].words;
                dots[i] = rows->bits == 32 ? plain_unit(row, 32, span.first + unit, space->x, unit, dots[i])
                                           : plain_unit(row, 16, span.first + unit, space->x, unit, dots[i]);
            }
}

// The ways through a chunk that are compiled apart: n, bits; 0: any.
enum team_way { WAY_ANY, WAY_PLAIN, WAY_FEW_4, WAY_FEW_8, WAY_MANY_4, WAY_MANY_8 };

INLINE enum team_way team_way_of(const struct team_rows *rows, const uint few)
{
    if (!rows->whole)
        return WAY_ANY;
    if (rows->bits > 8)
        return WAY_PLAIN;
    if (rows->n == few)
        return rows->bits == 4 ? WAY_FEW_4 : WAY_FEW_8;
    return rows->bits == 4 ? WAY_MANY_4 : WAY_MANY_8;
}

// The dot products of the team's rows with x: its lanes' parts, left in space->sums. Their number is `few` or TEAM_ROWS.
// All work-items of the group must call it; PoCL 3.1 wants no barrier inside a branch.
INLINE void team_dots(const struct team_rows *rows, const uint few, __global const float *x,
                      __local struct team_space *space)
{
    uint item = get_local_id(0);
    uint n_units = rows->in_dim / UNIT;
    enum team_way way = team_way_of(rows, few);
    struct team_unit units[TEAM_FLIGHT];
    float dots[TEAM_ROWS];
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++)
        dots[i] = 0;
    for (uint first = 0; first < n_units; first += TEAM_UNITS) {
        struct span span = {first, item % TEAM, min(n_units - first, (uint)TEAM_UNITS)};
        if (way == WAY_FEW_4)
            load_units(rows, few, 4, span, units);
        else if (way == WAY_FEW_8)
            load_units(rows, few, 8, span, units);
        else if (way == WAY_MANY_4)
            load_units(rows, TEAM_ROWS, 4, span, units);
        else if (way == WAY_MANY_8)
            load_units(rows, TEAM_ROWS, 8, span, units);
        barrier(CLK_LOCAL_MEM_FENCE); // the chunk before has been used
        stage_x(rows, x + first * UNIT, span.n_units, space);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (way == WAY_FEW_4)
            lane_chunk(rows, few, 4, span, units, space, dots);
        else if (way == WAY_FEW_8)
            lane_chunk(rows, few, 8, span, units, space, dots);
        else if (way == WAY_MANY_4)
            lane_chunk(rows, TEAM_ROWS, 4, span, units, space, dots);
        else if (way == WAY_MANY_8)
            lane_chunk(rows, TEAM_ROWS, 8, span, units, space, dots);
        else if (way == WAY_PLAIN)
            lane_chunk_plain(rows, span, space, dots);
        else
            lane_chunk_any(rows, span, space, dots);
    }
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++)
        if (i < rows->n)
            space->sums[item / TEAM * rows->n + i][item % TEAM] = dots[i];
    barrier(CLK_LOCAL_MEM_FENCE);
}
#endif

INLINE uint team_first_row(uint n)
{
    return (get_group_id(0) * TEAMS + get_local_id(0) / TEAM) * n;
}

// A group's TEAMS * n rows of W x into y, or added to it; n is 1 or TEAM_ROWS.
INLINE void team_matvec(const struct args_matrix *m, uint n, __global const uchar *matrix, __global const float *x,
                        __local struct team_space *space, uint add, __global float *y)
{
    struct team_rows rows = team_rows_of(m, matrix, n);
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++)
        team_row_set(&rows, i, m, matrix, min(team_first_row(n) + min(i, n - 1), m->out_dim - 1));
    team_dots(&rows, 1, x, space);
    uint item = get_local_id(0);
    uint o = get_group_id(0) * TEAMS * n + item;
    if (item >= TEAMS * n || o >= m->out_dim)
        return;
    float sum = team_sum(space->sums, item);
    y[o] = add ? y[o] + sum : sum;
}

// The same of x normed, by each group for itself; of the row for others by the first.
INLINE void team_norm_matvec(const struct args_matrix *m, uint n, const struct normed_row *norm, __global const float *x,
                             const struct team_normed *to, __global const uchar *matrix, __local struct team_space *space,
                             __global float *y)
{
    __global float *own = to->row && get_group_id(0) == 0 ? to->row : to->own;
    norm_row(norm, x, own, TEAM_ITEMS, (__local float *)space->sums);
    barrier(CLK_GLOBAL_MEM_FENCE);
    team_matvec(m, n, matrix, own, space, 0, y);
}

// A group's TEAMS * n rows of silu(gate x) * (up x) into y; n is 1 or TEAM_ROWS / 2. A team's first n rows are gate's,
// then come as many of up.
INLINE void team_swiglu(const struct args_matrix *gate, const struct args_matrix *up, uint n,
                        __global const uchar *matrices, __global const float *x, __local struct team_space *space,
                        float2 limits, __global float *y)
{
    struct team_rows rows = team_rows_of(gate, matrices, 2 * n);
    rows.whole &= team_rows_of(up, matrices, 2 * n).whole;
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++) {
        bool is_gate = n == 1 ? i == 0 : i < TEAM_ROWS / 2;
        uint row = team_first_row(n) + (is_gate ? i : min(i - n, n - 1));
        struct args_matrix m = either_matrix(gate, up, !is_gate);
        team_row_set(&rows, i, &m, matrices, min(row, gate->out_dim - 1));
    }
    team_dots(&rows, 2, x, space);
    uint item = get_local_id(0);
    uint o = get_group_id(0) * TEAMS * n + item;
    if (item >= TEAMS * n || o >= gate->out_dim)
        return;
    uint row = item / n * 2 * n + item % n;
    y[o] = swiglu(team_sum(space->sums, row), team_sum(space->sums, row + n), limits);
}

// A group's TEAMS * TEAM_ROWS of n_out rows, from first_row on: n says nothing else, and loops know the number.
INLINE void team_heads(const struct args_matrix *m, uint first_row, uint n_out, uint n, __global const uchar *matrix,
                       __global const float *x, __local struct team_space *space, __global float *y)
{
    struct team_rows rows = team_rows_of(m, matrix, TEAM_ROWS);
    UNROLL
    for (uint i = 0; i < TEAM_ROWS; i++)
        team_row_set(&rows, i, m, matrix, first_row + min(team_first_row(TEAM_ROWS) + i, n_out - 1));
    team_dots(&rows, TEAM_ROWS, x, space);
    uint item = get_local_id(0);
    uint o = get_group_id(0) * TEAMS * TEAM_ROWS + item;
    if (item < TEAMS * TEAM_ROWS && o < n_out)
        y[o] = team_sum(space->sums, item);
}

#endif

#endif
