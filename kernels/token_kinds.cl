// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA: moe_token, mla_in, mla_out and delta_layer (token_moe.cl, token_mla.cl, token_delta.cl) for the kinds that a
// program was built for: RUN_KINDS(kind) goes through a segment by the kind's way, or that of plain matrices. Segments lie in local memory: each is
// written by a work-item, while the others norm x.

#define RUN_SEGMENT(seg)                                                                                               \
    do {                                                                                                               \
        __local const struct token_segment *segment = (seg);                                                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        RUN_KINDS(segment->matrix.kind)                                                                                \
    } while (0)

enum { MOE_ROUTER, MOE_FACTOR, MOE_SHARED, MOE_GATES, MOE_SHARED_DOWN, MOE_DOWN, MOE_SEGMENTS };

struct moe_buffers {
    __global const uchar *norms;
    __global const uchar *router;
    __global const uchar *experts;
    __global const uchar *shared;
    __global const uchar *shared_down;
    __global const uchar *shared_factor;
    __global float *logits;
    __global float *act;
    __global float *factor;
    __global float *partial;
    __global float *out;
};

INLINE void moe_segment(const struct args_moe_token *a, uint which, const struct moe_buffers *b,
                        __local struct token_segment *seg)
{
    uint n_groups = get_num_groups(0), has_shared = a->shared_down.kind != KIND_NONE, top_k = a->choice.top_k;
    uint gated = which == MOE_SHARED || which == MOE_GATES, by_id = which == MOE_GATES || which == MOE_DOWN;
    uint has_factor = a->shared_factor.kind != KIND_NONE;
    uint shared_tiles = has_shared ? blocks_of(a->shared_gate.out_dim, TEAM_MMA_ROWS / 2) : 0;
    uint logit_tasks = blocks_of(a->router.out_dim, TOKEN_PLAIN);
    uint down_tiles = tiles_for((top_k + has_shared) * blocks_of(a->down.out_dim, TEAM_MMA_ROWS));
    uint down_blocks = has_shared ? blocks_of(a->down.out_dim, TEAM_MMA_ROWS * down_tiles) : 0;
    bool apart = 2 * down_blocks <= n_groups; // the shared expert's, the longest, are some groups' whole share
    seg->gated = gated;
    seg->by_id = by_id;
    seg->adds = seg->meets = seg->first_row = seg->rows_between = seg->x_stride = seg->y_stride = 0;
    seg->up = seg->same_x = seg->stages = 0;
    seg->base = a->base;
    seg->stride = a->stride;
    seg->n_experts = a->choice.n_experts;
    seg->plus_one = a->plus_one;
    seg->limit = a->limit;
    seg->situ_beta = a->situ_beta;
    seg->norm = which <= MOE_GATES ? (__global const float *)(b->norms + a->norm) : 0;
    seg->gate = 0;
    seg->x = b->out;
    if (which == MOE_ROUTER) {
        seg->matrix = a->router;
        seg->matrices = b->router;
        seg->y = b->logits;
        segment_cut(seg, 1, a->router.out_dim, 1, blocks_of(shared_tiles, tiles_for(shared_tiles + logit_tasks)));
        seg->end = logit_tasks;
    } else if (which == MOE_FACTOR) {
        seg->matrix = a->shared_factor;
        seg->matrices = b->shared_factor;
        seg->y = b->factor;
        segment_cut(seg, 1, 1, has_factor,
                    blocks_of(shared_tiles, tiles_for(shared_tiles + logit_tasks)) + logit_tasks);
    } else if (which == MOE_SHARED) {
        seg->matrix = a->shared_gate;
        seg->matrices = b->shared;
        seg->up = a->shared_up.weight - a->shared_gate.weight;
        seg->y = b->act + a->shared_offset;
        seg->stages = has_shared;
        segment_cut(seg, tiles_for(shared_tiles + logit_tasks), a->shared_gate.out_dim, has_shared, 0);
    } else if (which == MOE_GATES) {
        seg->matrix = a->gate;
        seg->matrices = b->experts;
        seg->up = a->up.weight - a->gate.weight;
        seg->y = b->act;
        seg->y_stride = a->gate.out_dim;
        seg->same_x = has_shared;
        segment_cut(seg, tiles_for(top_k * blocks_of(a->gate.out_dim, TEAM_MMA_ROWS / 2)), a->gate.out_dim, top_k, 0);
    } else if (which == MOE_SHARED_DOWN) {
        seg->matrix = a->shared_down;
        seg->matrices = b->shared_down;
        seg->x = b->act + a->shared_offset;
        seg->gate = has_factor ? b->factor : 0;
        seg->y = b->partial + (ulong)top_k * a->down.out_dim;
        segment_cut(seg, down_tiles, a->down.out_dim, has_shared, 0);
        seg->meets = seg->first < seg->end;
    } else {
        seg->matrix = a->down;
        seg->matrices = b->experts;
        seg->x = b->act;
        seg->x_stride = a->down.in_dim;
        seg->y = b->partial;
        seg->y_stride = a->down.out_dim;
        segment_cut(seg, down_tiles, a->down.out_dim, top_k, down_blocks);
        if (apart) {
            seg->first = get_group_id(0) < down_blocks ? seg->end : get_group_id(0) - down_blocks;
            seg->step = n_groups - down_blocks;
        }
        seg->meets = get_group_id(0) >= down_blocks; // who has none of the shared expert
    }
    seg->met = a->met + 2 * n_groups;
}

__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void moe_token(const struct args_moe_token a, const struct tiling t,
                                                   __global const uchar *norms, __global const uchar *router,
                                                   __global const uchar *biases, __global const uchar *experts,
                                                   __global const uchar *shared, __global const uchar *shared_down,
                                                   __global const uchar *shared_factor, __global float *logits,
                                                   __global int *ids, __global float *weights, __global float *act,
                                                   __global float *factor, __global float *partial, __global float *out,
                                                   volatile __global uint *meeting)
{
    __local struct team_space space;
    __local struct token_segment segments[MOE_SEGMENTS];
    uint group = get_group_id(0), n_groups = get_num_groups(0), item = get_local_id(0);
    meet_often(meeting, a.met, a.meetings);
    uint dim = a.router.in_dim, top_k = a.choice.top_k, has_shared = a.shared_down.kind != KIND_NONE;
    if (dim == 0)
        return;
    struct moe_buffers b = {norms,  router, experts, shared,  shared_down, shared_factor,
                            logits, act,    factor,  partial, out};
    if (item % 32 == 0 && item / 32 < MOE_SEGMENTS)
        moe_segment(&a, item / 32, &b, &segments[item / 32]);
    struct normed_row row = {(__global const float *)(norms + a.norm), dim, a.eps, a.plus_one};
    struct token_staged staged = {0, 0};
    float scale = row_scale(&row, out, TOKEN_ITEMS, (__local float *)space.x);
    __local float4 *choices = (__local float4 *)(space.x + TOKEN_X_PLACES);
    struct router_space choice = {(__local float *)choices, (__local float *)(choices + TOKEN_EXPERTS / 4),
                                  (__local float *)(choices + TOKEN_EXPERTS / 2), space.ids, space.weights};
    NO_UNROLL
    for (uint which = 0; which < MOE_SEGMENTS; which++) {
        if (which == MOE_GATES) {
            meet(meeting, a.met + n_groups);
            route(&a.choice, logits, (__global const float *)(biases + a.choice.bias), &choice);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (group == 0 && item < top_k) {
                ids[a.choice.first + item] = space.ids[item];
                weights[a.choice.first + item] = space.weights[item];
            }
        }
        RUN_SEGMENT(&segments[which]);
    }
    meet(meeting, a.met + 3 * n_groups);
    add_partials(dim, top_k, has_shared, space.weights, partial, out);
}

// One matrix times one row, or each head's rows times its own.
INLINE void whole_segment(__local struct token_segment *seg, const struct args_matrix *m, __global const uchar *matrix,
                          __global const float *x, __global float *y)
{
    seg->gated = seg->by_id = seg->adds = seg->meets = seg->plus_one = 0;
    seg->first_row = seg->rows_between = seg->x_stride = seg->y_stride = 0;
    seg->up = seg->same_x = seg->stages = 0;
    seg->norm = seg->gate = 0;
    seg->matrix = *m;
    seg->matrices = matrix;
    seg->x = x;
    seg->y = y;
}

#if TOKEN_LATENT
enum { IN_FIRST, IN_KV, IN_LAST, IN_KEYS, IN_SEGMENTS };

__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void mla_in(const struct args_mla_in a, const struct tiling t,
                                                __global const uchar *norms, __global const uchar *lora_norms,
                                                __global const uchar *latent_norms, __global const float *inv_freq,
                                                __global const float *x, __global const uchar *q_first,
                                                __global const uchar *q_last, __global const uchar *kv_a,
                                                __global const uchar *kv_b, __global float *lora, __global float *q,
                                                __global float *kv, __global void *cache, __global float *latent,
                                                volatile __global uint *meeting)
{
    __local struct team_space space;
    __local struct token_segment segments[IN_SEGMENTS];
    uint group = get_group_id(0), n_groups = get_num_groups(0), item = get_local_id(0), met = a.met;
    uint dim = a.kv_a.in_dim, has_lora = a.q_last.kind != KIND_NONE;
    meet_often(meeting, a.met, a.meetings);
    if (dim == 0)
        return;
    uint q_tiles = blocks_of(a.q_first.out_dim, TEAM_MMA_ROWS);
    uint tiles = tiles_for(q_tiles + blocks_of(a.kv_a.out_dim, TEAM_MMA_ROWS));
    uint parts = 1 + blocks_of(a.append.n_heads, TURNED_HEADS), last_met = a.met + (1 + has_lora) * n_groups;
    if (item == 0) {
        __local struct token_segment *seg = &segments[IN_FIRST];
        whole_segment(seg, &a.q_first, q_first, x, has_lora ? lora : q);
        seg->norm = (__global const float *)(norms + a.norm);
        seg->plus_one = a.plus_one;
        segment_cut(seg, tiles, a.q_first.out_dim, 1, 0);
    } else if (item == 32) {
        __local struct token_segment *seg = &segments[IN_KV];
        whole_segment(seg, &a.kv_a, kv_a, x, kv);
        seg->norm = (__global const float *)(norms + a.norm);
        seg->plus_one = a.plus_one;
        seg->same_x = 1;
        segment_cut(seg, tiles, a.kv_a.out_dim, 1, blocks_of(q_tiles, tiles));
    } else if (item == 64) {
        __local struct token_segment *seg = &segments[IN_LAST];
        whole_segment(seg, &a.q_last, q_last, lora, q);
        seg->norm = (__global const float *)(lora_norms + a.lora_norm);
        segment_cut(seg, tiles_for(blocks_of(a.q_last.out_dim, TEAM_MMA_ROWS)), a.q_last.out_dim, has_lora, 0);
    } else if (item == 96) {
        __local struct token_segment *seg = &segments[IN_KEYS];
        uint rank = a.append.kv_lora_rank, heads = a.append.n_heads;
        whole_segment(seg, &a.absorb.kv_b, kv_b, q, latent);
        seg->rows_between = seg->y_stride = rank;
        seg->x_stride = a.absorb.q_head_stride;
        segment_cut(seg, tiles_for(heads * blocks_of(rank, TEAM_MMA_ROWS) + parts), rank, heads, parts);
        seg->meets = group >= parts;
        seg->met = last_met;
    }
    struct normed_row row = {(__global const float *)(norms + a.norm), dim, a.eps, a.plus_one};
    struct token_staged staged = {0, 0};
    float scale = row_scale(&row, x, TOKEN_ITEMS, (__local float *)space.x);
    NO_UNROLL
    for (uint which = 0; which < IN_SEGMENTS; which++) {
        if (which == IN_LAST && !has_lora)
            continue;
        if (which == IN_LAST) {
            struct normed_row lora_row = {(__global const float *)(lora_norms + a.lora_norm), a.q_last.in_dim, a.lora_eps, 0};
            met += n_groups;
            meet(meeting, met);
            scale = row_scale(&lora_row, lora, TOKEN_ITEMS, (__local float *)space.x);
        }
        if (which == IN_KEYS && group < parts) {
            meet(meeting, last_met);
            for (uint part = group; part < parts; part += n_groups) {
                append_part(&a.append, part, 0, latent_norms, inv_freq, kv, cache, q, (__local float *)space.x);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
        RUN_SEGMENT(&segments[which]);
    }
}

enum { OUT_VALUES, OUT_LAST, OUT_SEGMENTS };

__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void mla_out(const struct args_mla_out a, const struct tiling t,
                                                 __global const float *partials, __global float *attended,
                                                 __global const uchar *values, __global float *heads,
                                                 __global const uchar *o, __global float *out,
                                                 volatile __global uint *meeting)
{
    __local struct team_space space;
    __local struct token_segment segments[OUT_SEGMENTS];
    uint group = get_group_id(0), n_groups = get_num_groups(0), item = get_local_id(0);
    const struct args_heads *h = &a.values;
    meet_often(meeting, a.met, a.meetings);
    if (a.o.in_dim == 0)
        return;
    if (item == 0) {
        __local struct token_segment *seg = &segments[OUT_VALUES];
        whole_segment(seg, &h->matrix, values, attended, heads);
        seg->first_row = h->first_row;
        seg->rows_between = h->head_rows;
        seg->x_stride = h->head_stride;
        seg->y_stride = h->n_out;
        segment_cut(seg, tiles_for(h->n_heads * blocks_of(h->n_out, TEAM_MMA_ROWS)), h->n_out, h->n_heads, 0);
        seg->meets = 1;
        seg->met = a.met + n_groups;
    } else if (item == 32) {
        __local struct token_segment *seg = &segments[OUT_LAST];
        whole_segment(seg, &a.o, o, heads, out);
        seg->adds = 1;
        segment_cut(seg, tiles_for(blocks_of(a.o.out_dim, TEAM_MMA_ROWS)), a.o.out_dim, 1, 0);
        seg->meets = 1;
        seg->met = a.met + 2 * n_groups;
    }
    float scale = 1;
    struct token_staged staged = {0, 0};
    uint columns = blocks_of(a.attention.kv_lora_rank, MERGE_LANES);
    for (uint task = group; task < columns * h->n_heads; task += n_groups) {
        barrier(CLK_LOCAL_MEM_FENCE); // what stood here has been used
        merge_part(&a.attention, t.n_tiles, task % columns * MERGE_LANES, task / columns, partials,
                   (__local struct merge_space *)space.x, attended);
    }
    NO_UNROLL
    for (uint which = 0; which < OUT_SEGMENTS; which++)
        RUN_SEGMENT(&segments[which]);
}
#endif

#if TOKEN_STATES
enum { DELTA_QKV, DELTA_Z, DELTA_BETA, DELTA_DECAY, DELTA_LAST, DELTA_SEGMENTS };

struct delta_buffers {
    __global const uchar *norms;
    __global const uchar *matrices[DELTA_SEGMENTS];
    __global float *x, *answers;
    __global float *to[DELTA_LAST];
};

INLINE bool is_plain_kind(uint kind)
{
    return kind == KIND_F32 || kind == KIND_BF16;
}

INLINE uint tiles_of(const struct args_matrix *m)
{
    return blocks_of(m->out_dim, is_plain_kind(m->kind) ? TOKEN_PLAIN : TEAM_MMA_ROWS);
}

INLINE void delta_segment(const struct args_delta_layer *a, uint which, const struct delta_buffers *b,
                          __local struct token_segment *seg)
{
    const struct args_norm_matvecs *in = &a->in;
    uint n_tiles = 0, before = 0;
    if (which == DELTA_LAST) {
        whole_segment(seg, &a->last, b->matrices[DELTA_LAST], b->answers + a->token.norm.out_offset,
                      b->x + in->in_offset);
        segment_cut(seg, tiles_for(tiles_of(&a->last)), a->last.out_dim, 1, 0);
        seg->adds = seg->meets = 1;
        seg->met = a->met + 2 * get_num_groups(0);
        return;
    }
    UNROLL
    for (uint k = 0; k < DELTA_LAST; k++)
        n_tiles += tiles_of(&in->matrix[k]);
    uint tiles = tiles_for(n_tiles);
    UNROLL
    for (uint k = 0; k < DELTA_LAST; k++) {
        bool is_plain = is_plain_kind(in->matrix[k].kind);
        uint tasks = is_plain ? tiles_of(&in->matrix[k]) : blocks_of(tiles_of(&in->matrix[k]), tiles);
        if (k == which) {
            whole_segment(seg, &in->matrix[k], b->matrices[k], b->x + in->in_offset, b->to[k] + in->out_offset[k]);
            seg->norm = (__global const float *)(b->norms + in->norm);
            seg->plus_one = in->plus_one;
            seg->same_x = k > 0;
            segment_cut(seg, tiles, in->matrix[k].out_dim, 1, before);
            if (is_plain)
                seg->end = tasks;
        }
        before += tasks;
    }
}

__kernel GROUP_SIZE(TOKEN_ITEMS, 1) void delta_layer(
    const struct args_delta_layer a, const struct tiling t, __global const uchar *in_norms, __global float *x,
    __global const uchar *in_qkv, __global const uchar *in_z, __global const uchar *in_beta,
    __global const uchar *in_decay, __global float *qkv, __global float *z, __global float *gates,
    __global const uchar *taps, __global const uchar *rates, __global const uchar *dt_biases,
    __global const uchar *norms, __global const float *conv_from, __global float *conv_to, __global const float *from,
    __global float *to, __global float *answers, __global const uchar *last, volatile __global uint *meeting)
{
    __local struct team_space space;
    __local struct token_segment segments[DELTA_SEGMENTS];
    uint group = get_group_id(0), n_groups = get_num_groups(0), item = get_local_id(0);
    meet_often(meeting, a.met, a.meetings);
    if (a.last.in_dim == 0)
        return;
    struct delta_buffers b = {in_norms, {in_qkv, in_z, in_beta, in_decay, last}, x, answers, {qkv, z, gates, gates}};
    if (item % 32 == 0 && item / 32 < DELTA_SEGMENTS)
        delta_segment(&a, item / 32, &b, &segments[item / 32]);
    struct normed_row row = {(__global const float *)(in_norms + a.in.norm), a.in.matrix[0].in_dim, a.in.eps, a.in.plus_one};
    struct token_staged staged = {0, 0};
    float scale = row_scale(&row, x + a.in.in_offset, TOKEN_ITEMS, (__local float *)space.x);
    NO_UNROLL
    for (uint which = 0; which < DELTA_SEGMENTS; which++) {
        if (which == DELTA_LAST) {
            // The last groups have the heads, for the first ones have more of the products.
            const struct args_delta *scan = &a.token.scan;
            uint first_head = n_groups - 1 - group;
            for (uint head = first_head; head < scan->n_value_heads || head == first_head; head += n_groups) {
                float4 s[SCAN_ROWS];
                bool is_there = head < scan->n_value_heads;
                if (is_there)
                    token_take_state(scan, head, from, s);
                if (head == first_head)
                    meet(meeting, a.met + n_groups);
                if (is_there) {
                    struct token_job job = token_job_of(&a.token, head, taps, qkv, conv_from, conv_to);
                    struct token_load load = token_take_inputs(&job, rates, dt_biases, norms, gates, z);
                    token_answer(&job, &load, s, to, answers, (__local struct token_space *)space.x);
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
            }
        }
        RUN_SEGMENT(&segments[which]);
    }
}
#endif
