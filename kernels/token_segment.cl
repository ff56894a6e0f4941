// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: a token's kernels for several kinds of matrices at once (token_kinds.cl). What stands between two meetings is a
// list of segments: rows of a matrix, or of several alike, times rows of x. Each kind has a way through a segment
// (token_kind.cl), and plain matrices have the one below. A task is a group's: one or two tiles of TEAM_MMA_ROWS rows, one
// for each TEAM_ITEMS of its work-items; with gate and up half as many outputs. Sums are those of the ops.

#define TOKEN_TEAM  (TEAM * TEAMS)             // work-items of a tile
#define TOKEN_TILES (TOKEN_ITEMS / TOKEN_TEAM) // of a task
#define TOKEN_PLAIN 4                          // rows of a task of a plain matrix

// Where x lies, as its kind wants it; behind it a choice or blocks of rows (all of it 43 KB, see token_kind.cl).
#define TOKEN_PLACES   2724
#define TOKEN_X_PLACES 2180

struct team_space {
    uint4 x[TOKEN_PLACES];
    float totals[TEAM_SPAN_INPUTS / 16]; // x is laid out as far as that, whatever the row
    float largest[TOKEN_ITEMS / 32];
    float sums[TOKEN_TILES * TEAM_MMA_ROWS][TEAM + 1];
    uint table[1]; // of kinds that have one: none of these
    int ids[MOST_EXPERTS];
    float weights[MOST_EXPERTS];
};

struct token_segment {
    struct args_matrix matrix; // of number 0
    __global const uchar *matrices;
    ulong base; // by_id: number k lies so far behind, and ids[k] times stride
    ulong stride;
    ulong up; // gated: how far up's weights lie behind gate's
    __global const float *x;
    __global const float *norm; // of x; NULL: it is taken as it is,
    __global const float *gate; // times the sigmoid of this; NULL: 1
    __global float *y;
    uint x_stride; // from number to number; 0: one row for all
    uint y_stride;
    uint rows_between; // the numbers' first rows
    uint first_row;
    uint n_out; // of each number
    uint blocks; // tasks of each number
    uint tiles;  // of a task
    uint first;  // the group's tasks
    uint step;
    uint end;
    uint met; // where `meets`: what is met for before x is looked at
    uint n_experts;
    float limit;
    float situ_beta;
    uchar gated;
    uchar by_id;
    uchar adds;
    uchar meets;
    uchar same_x; // as the segment before
    uchar stages; // whether the group has tasks or not: the next segment's x is the same
    uchar plus_one;
};

// How x lies in local memory since it was last staged; 0: no other segment can use it.
struct token_staged {
    uint as;
    float scale;
};

// A group's tasks of `numbers` matrices of n_out outputs, TEAM_MMA_ROWS or half as many a tile. `before` tasks of others
// have begun with group 0.
INLINE void segment_cut(__local struct token_segment *seg, uint tiles, uint n_out, uint numbers, uint before)
{
    uint group = get_group_id(0), n_groups = get_num_groups(0);
    seg->n_out = n_out;
    seg->tiles = tiles;
    seg->blocks = blocks_of(n_out, (seg->gated ? TEAM_MMA_ROWS / 2 : TEAM_MMA_ROWS) * tiles);
    seg->first = (group + n_groups - before % n_groups) % n_groups;
    seg->step = n_groups;
    seg->end = seg->blocks * numbers;
}

// One tile a task where there are groups for all of them.
INLINE uint tiles_for(uint n_tiles)
{
    return n_tiles > get_num_groups(0) ? TOKEN_TILES : 1;
}

INLINE __global const uchar *segment_place(__local const struct token_segment *seg, __local const struct team_space *space,
                                           uint k)
{
    ulong place = seg->by_id ? seg->base + min((uint)space->ids[min(k, MOST_EXPERTS - 1u)], seg->n_experts - 1) * seg->stride : 0;
    return seg->matrices + place;
}

// Plain rows of x: a team of TEAM lanes has a row, as in matvec_team.cl.
INLINE void plain_stage(__local const struct token_segment *seg, float scale, __local float4 *to)
{
    for (uint i = get_local_id(0); i < seg->matrix.in_dim / 4; i += TOKEN_ITEMS) {
        float4 v = ((__global const float4 *)seg->x)[i];
        if (seg->norm) {
            float4 w = ((__global const float4 *)seg->norm)[i];
            v = (seg->plus_one ? 1.0f + w : w) * (v * scale);
        }
        to[team_place(i)] = v;
    }
}

INLINE uint bits_of_plain(uint kind)
{
    return kind == KIND_BF16 ? 16 : 32;
}

// Of one matrix, TOKEN_PLAIN rows a task.
INLINE void segment_run_plain(__local const struct token_segment *seg, __local struct team_space *space, float scale,
                              struct token_staged *staged)
{
    __local float4 *x = (__local float4 *)space->x;
    uint team = get_local_id(0) / TEAM, lane = get_local_id(0) % TEAM;
    uint bits = bits_of_plain(seg->matrix.kind), n_units = seg->matrix.in_dim / 32;
    if (seg->first >= seg->end)
        return;
    staged->as = 0;
    plain_stage(seg, scale, x);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint task = seg->first; task < seg->end; task += seg->step) {
        uint o = task * TOKEN_PLAIN + team;
        if (team >= TOKEN_PLAIN)
            continue;
        __global const uchar *row = seg->matrices + seg->matrix.weight + (ulong)min(o, seg->n_out - 1) * (seg->matrix.in_dim * bits / 8);
        float dot = 0;
        for (uint unit = lane; unit < n_units; unit += TEAM)
            dot = bits == 32 ? plain_unit(row, 32, unit, x, unit, dot) : plain_unit(row, 16, unit, x, unit, dot);
        dot = token_sum(dot);
        if (lane == 0 && o < seg->n_out)
            seg->y[o] = dot;
    }
}
