// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: one kind's way through a segment (token_segment.cl) with tensor cores, by the pieces or spans that its op has
// (matvec_mma.cl), so with its sums. This text is compiled once for each kind of the program. Weights of the first task are
// asked for before groups meet, and those of the next one before sums are added up.

// The lane's two rows of a task. Blocks lie well: the host has looked.
INLINE void segment_rows(__local const struct token_segment *seg, __local const struct team_space *space, uint task,
                         struct kind_row *rows)
{
    uint k = task / seg->blocks, team = get_local_id(0) / TEAM_ITEMS;
    uint tile = task % seg->blocks * seg->tiles + min(team, seg->tiles - 1);
    uint o = tile * (seg->gated ? TEAM_MMA_ROWS / 2 : TEAM_MMA_ROWS) + get_local_id(0) % 32 / 4;
    uint first = seg->first_row + k * seg->rows_between, last = seg->n_out - 1;
    __global const uchar *matrix = segment_place(seg, space, k);
    struct args_matrix m = seg->matrix;
    rows[0] = kind_row_of(&m, matrix, first + min(o, last));
    m.weight += seg->up;
    rows[1] = kind_row_of(&m, matrix, first + min(seg->gated ? o : o + 8, last));
    rows[0].whole = rows[1].whole = true;
}

INLINE float segment_stage(__local const struct token_segment *seg, float norm_scale, uint k,
                           __local struct team_space *space)
{
    struct stage_source from = {seg->x + k * seg->x_stride, seg->norm,
                                seg->norm   ? norm_scale
                                : seg->gate ? sigmoid(*seg->gate)
                                            : 1.0f,
                                seg->plus_one};
    barrier(CLK_LOCAL_MEM_FENCE); // what was here before has been used
#if !SPANS
    if (get_local_id(0) < ZERO_PLACES)
        space->x[ZEROS + get_local_id(0)] = 0;
#endif
    float scale = stage_pairs(&from, seg->matrix.in_dim / 4, space);
    barrier(CLK_LOCAL_MEM_FENCE);
    return scale;
}

// The task's outputs, of the lanes' sums. All work-items come together.
INLINE void segment_put(__local const struct token_segment *seg, uint task, float2 dots, __local struct team_space *space)
{
    uint item = get_local_id(0), team = item / TEAM_ITEMS, lane = item % TEAM_ITEMS / 32 * 4 + item % 4;
    space->sums[team * TEAM_MMA_ROWS + item % 32 / 4][lane] = dots.x;
    space->sums[team * TEAM_MMA_ROWS + item % 32 / 4 + 8][lane] = dots.y;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint rows = seg->gated ? TEAM_MMA_ROWS / 2 : TEAM_MMA_ROWS;
    uint k = task / seg->blocks, tile = item / TEAM_MMA_ROWS, row = item % TEAM_MMA_ROWS;
    uint o = (task % seg->blocks * seg->tiles + tile) * rows + row;
    if (tile < seg->tiles && row < rows && o < seg->n_out) {
        float sum = team_sum(space->sums, item);
        __global float *y = seg->y + k * seg->y_stride + o;
        if (seg->gated)
            sum = swiglu(sum, team_sum(space->sums, item + TEAM_MMA_ROWS / 2), LIMITS(*seg));
        *y = seg->adds ? *y + sum : sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// x fits at once: longer rows do not come here (TOKEN_KIND_INPUTS).
#if SPANS
INLINE void segment_run(__local const struct token_segment *seg, __local struct team_space *space, float norm_scale,
                        struct token_staged *staged, volatile __global uint *meeting)
{
    uint item = get_local_id(0), warp = item % TEAM_ITEMS / 32, n_spans = seg->matrix.in_dim / 256;
    bool has_tile = item / TEAM_ITEMS < seg->tiles && warp < n_spans;
    __local uint4(*near)[SPAN_STRIDE] =
        (__local uint4(*)[SPAN_STRIDE])(space->x + CHUNK_PLACES + item / 32 * (TEAM_MMA_ROWS * SPAN_STRIDE));
    struct kind_row rows[2];
    uint task = seg->first, at = ~0u;
    float scale = 0;
    staged->as = 0;
    if (task < seg->end) {
        segment_rows(seg, space, task, rows);
        if (has_tile)
            span_copy(rows, warp, near);
    }
    if (seg->meets)
        meet(meeting, seg->met);
    NO_UNROLL
    for (; task < seg->end; task += seg->step) {
        uint k = task / seg->blocks, next = task + seg->step;
        if (at == ~0u || (seg->x_stride && k != at))
            scale = segment_stage(seg, norm_scale, k, space);
        at = k;
        float2 sums = 0;
        for (uint n = warp; has_tile && n < n_spans; n += TEAM_WARPS) {
            copies_wait();
            warp_barrier(); // others' have come, too
            span_add(rows, n, n * 64, near, space, &sums);
            warp_barrier(); // it is used
            if (n + TEAM_WARPS < n_spans) {
                span_copy(rows, n + TEAM_WARPS, near);
            } else if (next < seg->end) {
                segment_rows(seg, space, next, rows);
                span_copy(rows, warp, near);
            }
        }
        segment_put(seg, task, fma(sums, (float2)(scale), (float2)(0)), space);
    }
}
#else
#define STAGED_AS (1 + PIECE_NEIGHBOURS + 2 * KIND_BIAS)

// From the lane's first piece of a task on.
INLINE void segment_begin(__local const struct token_segment *seg, __local const struct team_space *space, uint task,
                          uint lane_first, struct team_lane *lane)
{
    segment_rows(seg, space, task, lane->rows);
    lane_place(lane, lane_first, 0, seg->matrix.in_dim / PIECE_INPUTS);
}

// Asks for the first pieces of a task.
INLINE void segment_ask(__local const struct token_segment *seg, __local const struct team_space *space, uint task,
                        struct team_lane *lane, struct team_load *load)
{
    uint warp_first = get_local_id(0) % TEAM_ITEMS / 32 * WARP_PIECES, n_pieces = seg->matrix.in_dim / PIECE_INPUTS;
#if NEAR
    segment_rows(seg, space, task, lane->rows);
    lane->part = 0;
    near_copy(lane->rows, warp_first, n_pieces, 0, &lane->place);
#else
    segment_begin(seg, space, task, warp_first + get_local_id(0) % 4 * LANE_PIECES, lane);
    team_fetch(lane, n_pieces, load);
#endif
}

// On to what the warp takes next, its first piece being number n: more of the task's, or what the next one begins with.
INLINE void segment_next(__local const struct token_segment *seg, __local const struct team_space *space, uint n, uint next,
                         struct team_lane *lane, struct team_load *load)
{
    uint n_pieces = seg->matrix.in_dim / PIECE_INPUTS;
#if NEAR // what was asked for has come, and makes room for it
    near_load(lane->rows, n, n_pieces, &lane->place, load->pieces);
    if (n + GROUP_PIECES < n_pieces)
        near_copy(lane->rows, n + GROUP_PIECES, n_pieces, 0, &lane->place);
    else if (next < seg->end)
        segment_ask(seg, space, next, lane, load);
#else // team_add asks for it
    if (n + GROUP_PIECES < n_pieces)
        team_step(lane, GROUP_PIECES, n_pieces);
    else if (next < seg->end)
        segment_begin(seg, space, next, get_local_id(0) % TEAM_ITEMS / 32 * WARP_PIECES + get_local_id(0) % 4 * LANE_PIECES,
                      lane);
#endif
}

INLINE void segment_run(__local const struct token_segment *seg, __local struct team_space *space, float norm_scale,
                        struct token_staged *staged, volatile __global uint *meeting)
{
    uint item = get_local_id(0), warp_first = item % TEAM_ITEMS / 32 * WARP_PIECES;
    uint n_pieces = seg->matrix.in_dim / PIECE_INPUTS;
    bool has_work = item / TEAM_ITEMS < seg->tiles && warp_first < n_pieces;
    uint task = seg->first;
    bool kept = seg->same_x && staged->as == STAGED_AS;
    uint at = kept ? 0 : ~0u;
    struct team_lane lane;
    struct team_load load;
#if NEAR
    lane.place = warp_place(seg->matrix.in_dim / 4, seg->tiles * TEAM_WARPS, seg->matrix.in_dim, true, space);
#endif
    if (task < seg->end && has_work)
        segment_ask(seg, space, task, &lane, &load);
    if (seg->meets)
        meet(meeting, seg->met);
    bool stages = seg->stages && !kept;
    NO_UNROLL
    for (; task < seg->end || stages; task += seg->step) {
        uint k = task < seg->end ? task / seg->blocks : 0;
        stages = false;
        if (at == ~0u || (seg->x_stride && k != at)) {
            staged->scale = segment_stage(seg, norm_scale, k, space);
            staged->as = STAGED_AS;
            at = k;
        }
        if (task >= seg->end)
            break;
        float2 sums = 0;
        NO_UNROLL
        for (uint n_warp = warp_first; has_work && n_warp < n_pieces; n_warp += GROUP_PIECES) {
            uint n = n_warp + item % 4 * LANE_PIECES, part = lane.part;
            segment_next(seg, space, n_warp, task + seg->step, &lane, &load);
            team_add(&load, n, part, n_pieces, space, &sums, &lane);
        }
        segment_put(seg, task, fma(sums, (float2)(staged->scale), (float2)(0)), space);
    }
}
#endif
