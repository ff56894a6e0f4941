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

INLINE float segment_stage(__local const struct token_segment *seg, float norm_scale, uint k, uint first, uint n_fours,
                           __local struct team_space *space)
{
    struct stage_source from = {seg->x + k * seg->x_stride + first, seg->norm ? seg->norm + first : 0,
                                seg->norm   ? norm_scale
                                : seg->gate ? sigmoid(*seg->gate)
                                            : 1.0f,
                                seg->plus_one};
    barrier(CLK_LOCAL_MEM_FENCE); // what was here before has been used
#if !SPANS
    if (get_local_id(0) < ZERO_PLACES)
        space->x[ZEROS + get_local_id(0)] = 0;
#endif
    float scale = stage_pairs(&from, n_fours, space);
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
        uint k = task / seg->blocks, next = task + seg->step, n = warp;
        float2 dots = 0;
        for (uint first = 0; first < n_spans; first += CHUNK_INPUTS / 256) {
            uint end = min(n_spans, first + CHUNK_INPUTS / 256);
            if (n_spans > CHUNK_INPUTS / 256 || at == ~0u || (seg->x_stride && k != at))
                scale = segment_stage(seg, norm_scale, k, first * 256, (end - first) * 64, space);
            at = k;
            float2 sums = 0;
            for (; has_tile && n < end; n += TEAM_WARPS) {
                copies_wait();
                warp_barrier(); // others' have come, too
                span_add(rows, n, (n - first) * 64, near, space, &sums);
                warp_barrier(); // it is used
                if (n + TEAM_WARPS < n_spans) {
                    span_copy(rows, n + TEAM_WARPS, near);
                } else if (next < seg->end) {
                    segment_rows(seg, space, next, rows);
                    span_copy(rows, warp, near);
                }
            }
            dots = fma(sums, (float2)(scale), dots);
        }
        segment_put(seg, task, dots, space);
    }
}
#else
#define STAGED_AS (1 + PIECE_NEIGHBOURS + 2 * KIND_BIAS)

// From the lane's first piece of a task's chunk on, which begins with piece `first` of the row.
INLINE void segment_begin(__local const struct token_segment *seg, __local const struct team_space *space, uint task,
                          uint first, uint lane_first, struct team_lane *lane)
{
    segment_rows(seg, space, task, lane->rows);
    uint end = min(seg->matrix.in_dim / PIECE_INPUTS - first, (uint)CHUNK_PIECES);
    uint at = first + (lane_first < end ? lane_first : 0);
    row_move(&lane->rows[0], at);
    row_move(&lane->rows[1], at);
    lane->n = lane_first;
    lane->part = lane_first % BLOCK_PIECES;
}

// Asks for the first pieces of a task's chunk.
INLINE void segment_ask(__local const struct token_segment *seg, __local const struct team_space *space, uint task,
                        struct team_lane *lane, struct team_load *load)
{
    uint warp_first = get_local_id(0) % TEAM_ITEMS / 32 * WARP_PIECES, n_pieces = seg->matrix.in_dim / PIECE_INPUTS;
#if NEAR
    if (!LANE_ASKS(lane)) {
        segment_rows(seg, space, task, lane->rows);
        lane->part = 0;
        near_copy(lane->rows, warp_first, n_pieces, 0, &lane->place);
        return;
    }
#endif
    segment_begin(seg, space, task, 0, warp_first + get_local_id(0) % 4 * LANE_PIECES, lane);
    team_fetch(lane, min(n_pieces, (uint)CHUNK_PIECES), load);
}

#if NEAR
// The pieces of a task from number n on, of n_pieces that are x's only chunk, when they have come; then asks for the next.
INLINE void segment_near(__local const struct token_segment *seg, __local const struct team_space *space, uint n,
                         uint next, struct team_lane *lane, struct team_load *load)
{
    uint n_pieces = seg->matrix.in_dim / PIECE_INPUTS;
    near_load(lane->rows, n, n_pieces, &lane->place, load->pieces);
    if (n + GROUP_PIECES < n_pieces)
        near_copy(lane->rows, n + GROUP_PIECES, n_pieces, 0, &lane->place);
    else if (next < seg->end)
        segment_ask(seg, space, next, lane, load);
}
#endif

INLINE void segment_run(__local const struct token_segment *seg, __local struct team_space *space, float norm_scale,
                        struct token_staged *staged, volatile __global uint *meeting)
{
    uint item = get_local_id(0), warp_first = item % TEAM_ITEMS / 32 * WARP_PIECES;
    uint n_pieces = seg->matrix.in_dim / PIECE_INPUTS, lane_first = warp_first + item % 4 * LANE_PIECES;
    bool is_long = n_pieces > CHUNK_PIECES; // x does not fit at once
    bool has_work = item / TEAM_ITEMS < seg->tiles && (is_long || warp_first < n_pieces);
    uint task = seg->first;
    bool kept = seg->same_x && staged->as == STAGED_AS;
    uint at = kept ? 0 : ~0u;
    struct team_lane lane;
    struct team_load load;
#if NEAR
    lane.place = warp_place(min(seg->matrix.in_dim / 4, (uint)CHUNK_FOURS), seg->tiles * TEAM_WARPS, seg->matrix.in_dim,
                            true, space);
    if (is_long)
        lane.place.rows = 0;
#endif
    if (task < seg->end && has_work)
        segment_ask(seg, space, task, &lane, &load);
    if (seg->meets)
        meet(meeting, seg->met);
    bool stages = seg->stages && !kept && !is_long;
    NO_UNROLL
    for (; task < seg->end || stages; task += seg->step) {
        uint k = task < seg->end ? task / seg->blocks : 0, next = task + seg->step;
        float2 dots = 0;
        stages = false;
        NO_UNROLL
        for (uint first = 0; first < n_pieces; first += CHUNK_PIECES) {
            uint end = min(n_pieces - first, (uint)CHUNK_PIECES), then_first = first + end < n_pieces ? first + end : 0;
            if (is_long || at == ~0u || (seg->x_stride && k != at)) {
                staged->scale = segment_stage(seg, norm_scale, k, first * PIECE_INPUTS, end * (PIECE_INPUTS / 4), space);
                staged->as = is_long ? 0 : STAGED_AS;
                at = k;
            }
            if (task >= seg->end)
                break;
            if (!has_work)
                continue; // but x of the next chunk is brought by all
            uint then_task = then_first ? task : next, then_end = min(n_pieces - then_first, (uint)CHUNK_PIECES);
            float2 sums = 0;
            NO_UNROLL
            for (uint n_warp = warp_first;; n_warp += GROUP_PIECES) {
                bool closes = n_warp + GROUP_PIECES >= end;
                uint n = n_warp + item % 4 * LANE_PIECES, part = lane.part;
#if NEAR
                if (!LANE_ASKS(&lane))
                    segment_near(seg, space, n_warp, next, &lane, &load);
                else
#endif
                if (!closes)
                    team_step(&lane, end);
                else if (then_task < seg->end)
                    segment_begin(seg, space, then_task, then_first, lane_first, &lane);
                if (n_warp < end)
                    team_add(&load, n, part, end, space, &sums, &lane, closes ? then_end : end);
                else
                    team_fetch(&lane, then_end, &load);
                if (closes)
                    break;
            }
            dots = fma(sums, (float2)(staged->scale), dots);
        }
        if (task < seg->end)
            segment_put(seg, task, dots, space);
    }
}
#endif
