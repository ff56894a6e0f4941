// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's tensor cores: rows of matrices times one row of x, for kinds that are taken apart in pieces. A tile is 16 rows:
// of fragment A lane (g, j) has rows g and g + 8, a piece of each by itself. So that one product sums no two lanes'
// inputs, B has x of lane j's piece in columns 2j and 2j + 1 alone, its first halves and its second: what the lane gets
// back are its own pieces' sums, to which it applies their scales. A group's warps share a tile's rows, in turns, or,
// where a row is short, have tiles of their own; a group computes some tiles, one after the other, and asks for the next
// one's first weights before it adds up sums. x lies in local memory, a chunk of TEAM_MMA_INPUTS at a time, as halves
// after a power of 2 that the chunk's largest sets: 22 bits of all that is within 2^17 of it. A lane's sums are ordered
// by the matrix's shape alone, and so are the 16 lanes' of a row.
// Kinds with spans (kind_spans.cl) have their blocks copied to local memory. There the four lanes of a row share each group
// of inputs, and groups take turns: B has one's x in columns 2j and 2j + 1 in its turn, so a lane gets back the sums of
// group j, whose scales it applies. Pieces of kinds with small blocks come by way of local memory, too (kind_near.cl).
#if PIECES && NVIDIA_MMA && !SHAPE_CPU

#ifdef SPANS
#define SPAN_STRIDE (SPAN_QUADS | 1) // uint4 from row to row: odd, that rows lie in different banks
#else
#define SPANS 0
#endif
#ifndef TOKEN_PROGRAM
#define CHUNK_INPUTS AT_HAND
#elif SPANS
#define CHUNK_INPUTS (SPAN_QUADS > 12 ? TEAM_SPAN_INPUTS * 3 / 4 : TEAM_SPAN_INPUTS)
#else
#define CHUNK_INPUTS TEAM_MMA_INPUTS
#endif
#define TEAM_WARPS (TEAM_ITEMS / 32)
#define LANE_PIECES (64 / PIECE_INPUTS) // that a lane takes of a row together
#define WARP_PIECES (4 * LANE_PIECES)   // and its warp
#define GROUP_PIECES (WARP_PIECES * TEAM_ITEMS / 32)
#define CHUNK_PIECES (TEAM_MMA_INPUTS / PIECE_INPUTS)
#define CHUNK_FOURS (CHUNK_INPUTS / 4)
#ifdef TOKEN_PROGRAM // a group has several teams of warps, which share x
#define STAGE_ITEMS TOKEN_ITEMS
#define STAGE_MOST (SPANS ? 4 : 2)
#define TURNS 2 // sets of 16 inputs whose sums are made together: pairs of four are 32 registers more
#else
#define STAGE_ITEMS TEAM_ITEMS
#define STAGE_MOST (CHUNK_FOURS % (7 * STAGE_ITEMS) == 0 ? 7 : 8)
#define TURNS 4
#endif
#define STAGE_FOURS (CHUNK_FOURS < STAGE_MOST * STAGE_ITEMS ? CHUNK_FOURS / STAGE_ITEMS : STAGE_MOST) // at once
#define CHUNK_PLACES (SPANS ? CHUNK_FOURS : CHUNK_FOURS + CHUNK_FOURS / 16)
#define ZERO_PLACES  4
#ifdef NEAR // behind what of x is there: for 8 rows of each warp, of the smallest blocks for 16
#define NEAR_PLACES (TEAM_WARPS * (BLOCK_BYTES <= 18 ? 16 : 8) * NEAR_STRIDE)
#else
#define NEAR        0
#define NEAR_PLACES 0
#endif
#ifdef TOKEN_PROGRAM
#define X_PLACES TOKEN_PLACES
#else
#define X_PLACES (CHUNK_PLACES + NEAR_PLACES + ZERO_PLACES)
#endif
#define ZEROS (X_PLACES - ZERO_PLACES) // the last places of x are 0, where pieces want it

#ifndef TOKEN_PROGRAM
struct team_space {
    uint4 x[X_PLACES]; // two pairs, and what they lack
    float totals[KIND_BIAS ? CHUNK_INPUTS / 16 : 1];
    float largest[TEAM_ITEMS / 32];
    float4 sums[TEAM_WARPS + 1][TEAM_MMA_ROWS]; // of a row's four lanes; the norm's before
    uint table[TABLE_WORDS] __attribute__((aligned(8)));
#if SPANS
    uint4 near[TEAM_WARPS][2][TEAM_MMA_ROWS][SPAN_STRIDE]; // a block of each row, and the next ones
#endif
};
typedef char team_space_fits[sizeof(struct team_space) <= 49152 ? 1 : -1];
typedef char norm_fits[sizeof(((struct team_space *)0)->sums) >= NORM_SUMS * sizeof(float) ? 1 : -1];
#endif

#define TEAM_SHARE(rows) (rows) // teams have no shares here

// A warp reads fours that are 16 apart together: a place is left free between these, that they lie in different banks. Of
// spans it reads those that are 8 apart.
INLINE uint pair_place(uint four)
{
#if SPANS
    return four ^ (SPAN_FOURS == 1 ? four / 2 & 4 : four / 8 & 1);
#else
    return four + four / 16;
#endif
}

// A row of x times a scale, or what its norm makes of it.
struct stage_source {
    __global const float *x;
    __global const float *weight; // NULL: no norm
    float scale;
    uint plus_one;
};

// Some fours of a row, every STAGE_ITEMS-th; behind the last one that again.
INLINE void stage_load(__global const float *row, uint base, uint n_fours, float4 *v)
{
    uint i = base + get_local_id(0);
    if (((ulong)row & 15) == 0) {
        UNROLL
        for (uint k = 0; k < STAGE_FOURS; k++)
            v[k] = ((__global const float4 *)row)[min(i + k * STAGE_ITEMS, n_fours - 1)];
    } else {
        UNROLL
        for (uint k = 0; k < STAGE_FOURS; k++)
            v[k] = vload4(min(i + k * STAGE_ITEMS, n_fours - 1), row);
    }
}

// The norm's weight comes behind the fours: together they are too many registers.
INLINE void stage_fetch(const struct stage_source *from, uint base, uint n_fours, float4 *v)
{
    stage_load(from->x, base, n_fours, v);
    UNROLL
    for (uint k = 0; k < STAGE_FOURS; k++)
        v[k] *= from->scale;
    if (!from->weight)
        return;
    uint i = base + get_local_id(0);
    UNROLL
    for (uint k = 0; k < STAGE_FOURS; k++) {
        float4 own = vload4(min(i + k * STAGE_ITEMS, n_fours - 1), from->weight);
        v[k] = (from->plus_one ? 1.0f + own : own) * v[k];
    }
}

INLINE float4 stage_sizes(float4 sizes, const float4 *v)
{
    UNROLL
    for (uint k = 0; k < STAGE_FOURS; k++)
        sizes = fmax(sizes, fabs(v[k]));
    return sizes;
}

// Where blocks may have come to what is behind the last four it is left as it is.
INLINE void stage_put(const float4 *v, uint base, uint n_fours, float factor, __local struct team_space *space)
{
    UNROLL
    for (uint k = 0; k < STAGE_FOURS; k++) {
        uint i = base + k * STAGE_ITEMS + get_local_id(0);
        float4 scaled = v[k] * factor;
        uint2 first = PIECE_NEIGHBOURS ? halves(scaled.x, scaled.y) : halves(scaled.x, scaled.z);
        uint2 second = PIECE_NEIGHBOURS ? halves(scaled.z, scaled.w) : halves(scaled.y, scaled.w);
        if (!NEAR || i < n_fours)
            space->x[pair_place(i)] = (uint4)(first.x, second.x, first.y, second.y);
        if (KIND_BIAS) {
            float total = (scaled.x + scaled.z) + (scaled.y + scaled.w);
            total += of_lane(total, 1);
            space->totals[i / 4] = total + of_lane(total, 2); // four lanes, one number
        }
    }
}

// x as halves, times a power of 2; what takes that back is returned. What a work-item brings at once stays with it, where
// that is all. All lanes stay together, for they exchange numbers. What is behind the last four is never used.
INLINE float stage_pairs(const struct stage_source *from, uint n_fours, __local struct team_space *space)
{
    float4 v[STAGE_FOURS];
    stage_fetch(from, 0, n_fours, v);
    float4 sizes = stage_sizes(0, v);
    for (uint base = STAGE_ITEMS * STAGE_FOURS; base < n_fours; base += STAGE_ITEMS * STAGE_FOURS) {
        stage_fetch(from, base, n_fours, v);
        sizes = stage_sizes(sizes, v);
    }
    float largest = fmax(fmax(sizes.x, sizes.y), fmax(sizes.z, sizes.w));
    UNROLL
    for (uint apart = 1; apart < 32; apart *= 2)
        largest = fmax(largest, of_lane(largest, apart));
    space->largest[get_local_id(0) / 32] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (uint warp = 0; warp < STAGE_ITEMS / 32; warp++)
        largest = fmax(largest, space->largest[warp]);
    uint exponent = clamp(as_uint(largest) >> 23, 15u, 254u); // the largest becomes 2^14 and more
    float factor = as_float((268u - exponent) << 23);
    uint last = (n_fours - 1) / (STAGE_ITEMS * STAGE_FOURS) * (STAGE_ITEMS * STAGE_FOURS);
    stage_put(v, last, n_fours, factor, space); // which were brought last
    for (uint base = 0; base < last; base += STAGE_ITEMS * STAGE_FOURS) {
        stage_fetch(from, base, n_fours, v);
        stage_put(v, base, n_fours, factor, space);
    }
    return as_float((exponent - 14) << 23);
}

#ifndef TOKEN_PROGRAM
// What a group multiplies: a row as it is, or what its norm makes of it, which each group makes for itself.
struct team_x {
    struct stage_source from;
    struct normed_row norm; // weight NULL: none
};

INLINE struct team_x plain_x(__global const float *x)
{
    struct team_x plain = {{x, 0, 1, 0}, {0, 0, 0, 0}};
    return plain;
}

// The norm's scale takes a while: a group asks for its first weights before. All come together.
INLINE void team_scale(struct team_x *x, __local struct team_space *space)
{
    if (x->norm.weight)
        x->from.scale = row_scale(&x->norm, x->from.x, TEAM_ITEMS, (__local float *)space->sums);
}

INLINE struct stage_source source_from(struct stage_source from, uint first)
{
    from.x += first;
    if (from.weight)
        from.weight += first;
    return from;
}

// A group's rows times x, of two matrices where `gated`: a fragment's upper rows are gate's then, its lower ones up's.
struct team_job {
    struct args_matrix upper, lower;
    __global const uchar *matrix;
    uint first_row, n_out;
    uint outputs;    // of a tile
    uint first, end; // of the group's outputs
    uint warps;      // that share a row
};

// `n` outputs are a group's.
INLINE struct team_job team_job_of(const struct args_matrix *upper, const struct args_matrix *lower, const bool gated,
                                   uint n, __global const uchar *matrix)
{
    uint first = get_group_id(0) * n;
    struct team_job job = {*upper, *lower, matrix, 0, upper->out_dim, gated ? TEAM_MMA_ROWS / 2 : TEAM_MMA_ROWS,
                           first, min(first + n, upper->out_dim), TEAM_ROW_WARPS(upper->in_dim)};
    return job;
}

// Outputs that the group computes at once.
INLINE uint team_job_step(const struct team_job *p)
{
    return p->outputs * (TEAM_WARPS / p->warps);
}

// The lane's two rows, where outputs from `first` on are computed.
INLINE void team_job_rows(const struct team_job *p, uint first, struct kind_row *rows)
{
    uint item = get_local_id(0), o = first + item / 32 / p->warps * p->outputs + item % 32 / 4, last = p->n_out - 1;
    uint other = p->outputs == TEAM_MMA_ROWS ? o + 8 : o;
    rows[0] = kind_row_of(&p->upper, p->matrix, p->first_row + min(o, last));
    rows[1] = kind_row_of(&p->lower, p->matrix, p->first_row + min(other, last));
}

// What the lanes of a row have of its dot product.
INLINE void put_dots(float2 dots, __local struct team_space *space)
{
    uint item = get_local_id(0);
    __local float *sums = (__local float *)space->sums[item / 32];
    barrier(CLK_LOCAL_MEM_FENCE); // the tile before has been added up
    sums[item % 32] = dots.x;
    sums[item % 32 + 32] = dots.y;
    barrier(CLK_LOCAL_MEM_FENCE);
}

// The sum of a row of the tile that so many warps from `first` on have.
INLINE float tile_sum(__local const struct team_space *space, uint first, uint warps, uint row)
{
    float4 sum = 0;
    for (uint warp = first; warp < first + warps; warp++)
        sum += space->sums[warp][row];
    return (sum.x + sum.z) + (sum.y + sum.w);
}

// Where the outputs from p's first on go.
struct team_out {
    __global float *y;
    uint add;
    float2 limits;
};

INLINE void team_job_put(const struct team_job *p, uint first, const struct team_out *out,
                         __local const struct team_space *space)
{
    uint item = get_local_id(0), o = first + item, warp = item / p->outputs * p->warps, row = item % p->outputs;
    if (item >= team_job_step(p) || o >= p->end)
        return;
    float sum = tile_sum(space, warp, p->warps, row);
    if (p->outputs < TEAM_MMA_ROWS)
        out->y[o] = swiglu(sum, tile_sum(space, warp, p->warps, row + TEAM_MMA_ROWS / 2), out->limits);
    else
        out->y[o] = out->add ? out->y[o] + sum : sum;
}
#endif

#if SPANS
// Begins to copy block n of the lane's two rows, which four lanes share.
INLINE void span_copy(const struct kind_row *rows, uint n, __local uint4 (*to)[SPAN_STRIDE])
{
    uint g = get_local_id(0) % 32 / 4, j = get_local_id(0) % 4;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        BYTES block = rows[i].p + n * BLOCK_BYTES;
        uint before = (uint)(ulong)block & 15;
        UNROLL
        for (uint k = 0; k < SPAN_QUADS; k += 4)
            if ((k + j) * 16 < before + BLOCK_BYTES)
                copy_16(&to[g + 8 * i][k + j], block - before + (k + j) * 16);
    }
}

// dots += the products of block n, whose first four of x is number `four` of the chunk. B has a part's inputs in the columns
// of its turn, 2j and 2j + 1 those of group j, and zeros in all others.
INLINE void span_add(const struct kind_row *rows, uint n, uint four, __local const uint4 (*near)[SPAN_STRIDE],
                     __local const struct team_space *space, float2 *dots)
{
    uint lane = get_local_id(0) % 32, g = lane / 4, j = lane % 4;
    uint own_turn = g / (8 / SPAN_TURNS);
    bool is_own = SPAN_TURNS == 4 || j / 2 == g / 2 % 2;
    struct span upper = span_at(near[g], (uint)(ulong)(rows[0].p + n * BLOCK_BYTES) & 15);
    struct span lower = span_at(near[g + 8], (uint)(ulong)(rows[1].p + n * BLOCK_BYTES) & 15);
    float4 sums[SPAN_SETS][SPAN_FOURS];
    uint a[SPAN_SETS][SPAN_WORDS], b[SPAN_SETS][SPAN_WORDS];
    uint2 x[SPAN_SETS][SPAN_FOURS];
    UNROLL
    for (uint set = 0; set < SPAN_SETS; set++) {
        span_load(&upper, j, set, a[set]);
        span_load(&lower, j, set, b[set]);
        UNROLL
        for (uint f = 0; f < SPAN_FOURS; f++) {
            uint from = four + span_four(set, own_turn) + j * SPAN_FOURS + f;
            x[set][f] = ((__local const uint2 *)(space->x + pair_place(from)))[g % 2];
            sums[set][f] = 0;
        }
    }
    // a product must wait for the one before of the same sum: others come between
    UNROLL
    for (uint turn = 0; turn < SPAN_TURNS; turn++) {
        uint own = is_own && own_turn == turn ? 0x3c003c00u : 0;
        UNROLL
        for (uint set = 0; set < SPAN_SETS; set++) {
            pair_t one[2 * SPAN_FOURS], two[2 * SPAN_FOURS];
            span_pairs(&upper, a[set], j, set, turn, space->table, one);
            span_pairs(&lower, b[set], j, set, turn, space->table, two);
            UNROLL
            for (uint f = 0; f < SPAN_FOURS; f++)
                mma(&sums[set][f], (uint4)(one[2 * f], two[2 * f], one[2 * f + 1], two[2 * f + 1]),
                    halves_mul(x[set][f].x, own), halves_mul(x[set][f].y, own));
        }
    }
    float2 one[SPAN_SETS], two[SPAN_SETS];
    span_scales(&upper, j, one);
    span_scales(&lower, j, two);
    UNROLL
    for (uint set = 0; set < SPAN_SETS; set++) {
        float4 sum = SPAN_FOURS == 2 ? sums[set][0] + sums[set][SPAN_FOURS - 1] : sums[set][0];
        *dots = fma((float2)(one[set].x, two[set].x), sum.xz + sum.yw, *dots);
        if (KIND_BIAS)
            *dots = fma((float2)(one[set].y, two[set].y),
                        (float2)(space->totals[(four + span_four(set, j)) / 4]), *dots);
    }
}

#ifndef TOKEN_PROGRAM
// The group's products with x. A warp has every so many-th block of its rows, one that it multiplies with and one that comes.
INLINE void team_tiles(const struct team_job *p, struct team_x *x, const struct team_out *out,
                       __local struct team_space *space)
{
    uint warp = get_local_id(0) / 32, turn = 0, in_row = warp % p->warps, n_spans = p->upper.in_dim / 256;
    bool at_once = p->upper.in_dim <= CHUNK_INPUTS;
    float scale = 0;
    struct kind_row rows[2];
    uint o = p->first;
    team_job_rows(p, o, rows);
    if (in_row < n_spans)
        span_copy(rows, in_row, space->near[warp][0]);
    table_fill(space->table);
    team_scale(x, space);
    for (; o < p->end; o += team_job_step(p)) {
        uint n = in_row, after = o + team_job_step(p);
        float2 dots = 0;
        for (uint first = 0; first < n_spans; first += CHUNK_INPUTS / 256) {
            uint end = min(n_spans, first + CHUNK_INPUTS / 256);
            if (!at_once || o == p->first) {
                barrier(CLK_LOCAL_MEM_FENCE); // what was here before has been used
                struct stage_source from = source_from(x->from, first * 256);
                scale = stage_pairs(&from, (end - first) * 64, space);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            float2 sums = 0;
            for (; n < end; n += p->warps) {
                copies_wait();
                warp_barrier(); // others' have come, too, and what was here before is used
                if (n + p->warps < n_spans)
                    span_copy(rows, n + p->warps, space->near[warp][turn ^ 1]);
                span_add(rows, n, (n - first) * 64, space->near[warp][turn], space, &sums);
                turn ^= 1;
            }
            dots = fma(sums, (float2)(scale), dots);
        }
        if (after < p->end) {
            team_job_rows(p, after, rows);
            if (in_row < n_spans)
                span_copy(rows, in_row, space->near[warp][turn]);
        }
        put_dots(dots, space);
        team_job_put(p, o, out, space);
    }
}
#endif
#else
// A lane's two rows, from their next blocks on, and where it is in them.
struct team_lane {
    struct kind_row rows[2];
    uint n; // its first piece of the chunk's
    uint part; // of the blocks: a piece of the first ones
#if NEAR
    struct near_place place; // of the warp; rows: what is next comes that way
#endif
};

struct team_load {
    struct piece pieces[2][LANE_PIECES];
};

// Where blocks are as small as pieces, the last one may have no second beside it: the first is taken again.
INLINE void team_fetch(const struct team_lane *lane, uint end, struct team_load *load)
{
    UNROLL
    for (uint i = 0; i < 2; i++)
        UNROLL
        for (uint k = 0; k < LANE_PIECES; k++)
            piece_load(&lane->rows[i], lane->part + (BLOCK_PIECES > 1 || lane->n + k < end ? k : 0), &load->pieces[i][k]);
}

// From the rows' first pieces to the lane's, behind `first` of them.
INLINE void lane_place(struct team_lane *lane, uint lane_first, uint first, uint end)
{
    uint n = first + (lane_first < end ? lane_first : 0);
    row_move(&lane->rows[0], n);
    row_move(&lane->rows[1], n);
    lane->n = lane_first;
    lane->part = lane_first % BLOCK_PIECES;
}

// On to what the lane takes next, if there is any.
INLINE void team_step(struct team_lane *lane, uint step, uint end)
{
    uint n = lane->n + step < end ? step : 0;
    row_move(&lane->rows[0], n);
    row_move(&lane->rows[1], n);
    lane->n += step;
}

// dots += the products of the pieces, the first of which is number n of the chunk's. The sums of some sets are made in
// turns, for a product must wait for the one before of the same sum. `then`, if it is not NULL: whose pieces, of as many, are
// asked for as soon as these have been used.
INLINE void team_add(struct team_load *load, uint n, uint part, uint end, __local const struct team_space *space,
                     float2 *dots, const struct team_lane *then)
{
    uint lane = get_local_id(0) % 32;
    bool own = lane / 8 == lane % 4;
    UNROLL
    for (uint turn = 0; turn < 4; turn += TURNS) {
        float4 sums[TURNS];
        pair_t upper[TURNS][8], lower[TURNS][8];
        uint at[TURNS];
        __local const uint2 *x[TURNS];
        UNROLL
        for (uint i = 0; i < TURNS; i++) {
            const uint k = (turn + i) / PIECE_SETS, set = (turn + i) % PIECE_SETS;
            at[i] = piece_at(n + k, set);
            x[i] = (__local const uint2 *)(space->x + (own && n + k < end ? pair_place(at[i] * 4) : ZEROS)) +
                   lane / 4 % 2;
            piece_set(&load->pieces[0][k], part + k, set, space->table, upper[i]);
            piece_set(&load->pieces[1][k], part + k, set, space->table, lower[i]);
            sums[i] = 0;
        }
        UNROLL
        for (uint f = 0; f < 4; f++)
            UNROLL
            for (uint i = 0; i < TURNS; i++) {
                uint2 b = x[i][2 * f];
                mma(&sums[i], (uint4)(upper[i][2 * f], lower[i][2 * f], upper[i][2 * f + 1], lower[i][2 * f + 1]), b.x,
                    b.y);
            }
        UNROLL
        for (uint i = PIECE_TOGETHER - 1; i < TURNS; i += PIECE_TOGETHER) {
            const uint k = (turn + i) / PIECE_SETS, set = (turn + i) % PIECE_SETS;
            bool is_there = n + k < end;
            float4 sum = PIECE_TOGETHER == 2 ? sums[i - 1] + sums[i] : sums[i];
            float2 one = piece_scale(&load->pieces[0][k], part + k, set);
            float2 two = piece_scale(&load->pieces[1][k], part + k, set);
            float2 more = fma((float2)(one.x, two.x) * PIECE_UNIT(set), sum.xz + sum.yw, *dots);
            if (KIND_BIAS) {
                uint place = is_there ? at[i] : 1;
                float total = space->totals[place] + (PIECE_TOGETHER == 2 ? space->totals[place - 1] : 0);
                more = fma((float2)(one.y, two.y), (float2)(total), more);
            }
            *dots = is_there ? more : *dots;
        }
        if (then && !NEAR && (turn + TURNS) % PIECE_SETS == 0) {
            const uint k = (turn + TURNS) / PIECE_SETS - 1;
            UNROLL
            for (uint i = 0; i < 2; i++)
                piece_load(&then->rows[i], then->part + (BLOCK_PIECES > 1 || then->n + k < end ? k : 0), &load->pieces[i][k]);
        }
    }
}

// What a warp has of x's places behind n_fours of x, where `warps` share them.
#if NEAR
INLINE struct near_place warp_place(uint n_fours, uint warps, uint in_dim, bool whole, __local struct team_space *space)
{
    uint first = pair_place(n_fours - 1) + 1, room = (ZEROS - first) / warps;
    return near_place_of(space->x + first + get_local_id(0) / 32 % warps * room, room, in_dim, whole);
}
#endif

#if NEAR && !defined(TOKEN_PROGRAM)
INLINE void team_tiles(const struct team_job *p, struct team_x *x, const struct team_out *out,
                       __local struct team_space *space)
{
    uint item = get_local_id(0), in_dim = p->upper.in_dim, n_pieces = in_dim / PIECE_INPUTS;
    uint begin = item / 32 % p->warps * WARP_PIECES, step = p->warps * WARP_PIECES;
    bool at_once = in_dim <= CHUNK_INPUTS;
    float scale = 0;
    struct kind_row rows[2];
    uint o = p->first;
    team_job_rows(p, o, rows);
    struct near_place place = warp_place(min(in_dim / 4, (uint)CHUNK_FOURS), TEAM_WARPS, in_dim,
                                         rows[0].whole && rows[1].whole, space);
    if (begin < n_pieces)
        near_copy(rows, begin, n_pieces, 0, &place);
    if (item < ZERO_PLACES)
        space->x[ZEROS + item] = 0;
    team_scale(x, space);
    for (; o < p->end; o += team_job_step(p)) {
        uint n = begin, after = o + team_job_step(p);
        float2 dots = 0;
        for (uint first = 0; first < n_pieces; first += CHUNK_PIECES) {
            uint end = min(n_pieces, first + CHUNK_PIECES);
            if (!at_once || o == p->first) {
                barrier(CLK_LOCAL_MEM_FENCE); // what was here before has been used
                struct stage_source from = source_from(x->from, first * PIECE_INPUTS);
                scale = stage_pairs(&from, (end - first) * (PIECE_INPUTS / 4), space);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            float2 sums = 0;
            for (; n < end; n += step) {
                struct team_load load;
                near_load(rows, n, n_pieces, &place, load.pieces);
                if (n + step < n_pieces)
                    near_copy(rows, n + step, n_pieces, 0, &place);
                team_add(&load, n - first + item % 4 * LANE_PIECES, 0, end - first, space, &sums, 0);
            }
            dots = fma(sums, (float2)(scale), dots);
        }
        if (after < p->end) {
            team_job_rows(p, after, rows);
            if (begin < n_pieces)
                near_copy(rows, begin, n_pieces, 0, &place);
        }
        put_dots(dots, space);
        team_job_put(p, o, out, space);
    }
}
#elif !defined(TOKEN_PROGRAM)
// A lane's rows from piece `first` on, a chunk's of so many as `end`, and what it takes first.
INLINE void lane_begin(const struct kind_row *rows, uint lane_first, uint first, uint end, const bool whole,
                       struct team_lane *lane, struct team_load *load)
{
    UNROLL
    for (uint i = 0; i < 2; i++)
        lane->rows[i] = rows[i];
    lane_place(lane, lane_first, first, end);
    UNROLL
    for (uint i = 0; i < 2; i++)
        lane->rows[i].whole = whole;
    team_fetch(lane, end, load);
}

// `whole` of kind_row, which is the same for all.
INLINE void team_tiles_of(const struct team_job *p, const bool whole, struct team_x *x, const struct team_out *out,
                          __local struct team_space *space)
{
    uint item = get_local_id(0), n_pieces = p->upper.in_dim / PIECE_INPUTS;
    uint begin = item / 32 % p->warps * WARP_PIECES, step = p->warps * WARP_PIECES;
    uint lane_first = begin + item % 4 * LANE_PIECES;
    bool at_once = n_pieces <= CHUNK_PIECES;
    float scale = 0;
    struct kind_row rows[2];
    struct team_lane lane;
    struct team_load now, next;
    uint o = p->first;
    team_job_rows(p, o, rows);
    uint begins = min(n_pieces, (uint)CHUNK_PIECES); // pieces of the first chunk
    lane_begin(rows, lane_first, 0, begins, whole, &lane, &now);
    team_scale(x, space);
    for (; o < p->end; o += team_job_step(p)) {
        uint after = o + team_job_step(p);
        float2 dots = 0;
        for (uint first = 0; first < n_pieces; first += CHUNK_PIECES) {
            uint end = min(n_pieces - first, (uint)CHUNK_PIECES);
            if (first > 0)
                lane_begin(rows, lane_first, first, end, whole, &lane, &now);
            if (!at_once || o == p->first) {
                barrier(CLK_LOCAL_MEM_FENCE); // what was here before has been used
                struct stage_source from = source_from(x->from, first * PIECE_INPUTS);
                scale = stage_pairs(&from, end * (PIECE_INPUTS / 4), space);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            float2 sums = 0;
            for (uint warps = begin; warps < end; warps += step) {
                uint n = lane.n;
                team_step(&lane, step, end);
                team_fetch(&lane, end, &next);
                team_add(&now, n, lane.part, end, space, &sums, 0);
                now = next;
            }
            dots = fma(sums, (float2)(scale), dots);
        }
        if (after < p->end) {
            team_job_rows(p, after, rows);
            lane_begin(rows, lane_first, 0, begins, whole, &lane, &now);
        }
        put_dots(dots, space);
        team_job_put(p, o, out, space);
    }
}

INLINE void team_tiles(const struct team_job *p, struct team_x *x, const struct team_out *out,
                       __local struct team_space *space)
{
    table_fill(space->table);
    if (get_local_id(0) < ZERO_PLACES)
        space->x[ZEROS + get_local_id(0)] = 0;
#ifdef PIECE_WHOLE
    struct kind_row rows[2];
    team_job_rows(p, p->first, rows);
    if (rows[0].whole && rows[1].whole)
        team_tiles_of(p, true, x, out, space);
    else
#endif
        team_tiles_of(p, false, x, out, space);
}
#endif

#endif

#ifndef TOKEN_PROGRAM

// A group's n rows of W x into y, or added to it.
INLINE void team_matvec(const struct args_matrix *m, uint n, __global const uchar *matrix, __global const float *x,
                        __local struct team_space *space, uint add, __global float *y)
{
    struct team_x plain = plain_x(x);
    struct team_job job = team_job_of(m, m, false, n, matrix);
    struct team_out out = {y, add, 0};
    team_tiles(&job, &plain, &out, space);
}

// x normed on its way; of the row for others all groups write shares.
INLINE void team_norm_matvec(const struct args_matrix *m, uint n, const struct normed_row *norm, __global const float *x,
                             const struct team_normed *to, __global const uchar *matrix, __local struct team_space *space,
                             __global float *y)
{
    struct team_x own = {{x, norm->weight, 1, norm->plus_one}, *norm};
    struct team_job job = team_job_of(m, m, false, n, matrix);
    struct team_out out = {y, 0, 0};
    team_tiles(&job, &own, &out, space);
    uint stride = (m->out_dim + n - 1) / n * TEAM_ITEMS;
    for (uint i = get_group_id(0) * TEAM_ITEMS + get_local_id(0); to->row && i < m->in_dim; i += stride)
        to->row[i] = weight_at(norm, i) * (x[i] * own.from.scale);
}

// n of n_out rows, from first_row on.
INLINE void team_heads(const struct args_matrix *m, uint first_row, uint n_out, uint n, __global const uchar *matrix,
                       __global const float *x, __local struct team_space *space, __global float *y)
{
    struct team_x plain = plain_x(x);
    struct team_job job = team_job_of(m, m, false, n, matrix);
    struct team_out out = {y, 0, 0};
    job.first_row = first_row;
    job.n_out = n_out;
    job.end = min(job.first + n, n_out);
    team_tiles(&job, &plain, &out, space);
}

// A group's n rows of silu(gate x) * (up x) into y, where any of its work-items may take them from then on.
INLINE void team_swiglu(const struct args_matrix *gate, const struct args_matrix *up, uint n,
                        __global const uchar *matrices, __global const float *x, __local struct team_space *space,
                        float2 limits, __global float *y)
{
    struct team_x plain = plain_x(x);
    struct team_job job = team_job_of(gate, up, true, n, matrices);
    struct team_out out = {y, 0, limits};
    team_tiles(&job, &plain, &out, space);
    barrier(CLK_GLOBAL_MEM_FENCE);
}

#endif
#endif
