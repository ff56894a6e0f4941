// SPDX-License-Identifier: GPL-3.0-or-later
// What mixes tokens besides latent attention: checks, then the launch or ref.c.
#include "kernels/ops_check.h"
#include "kernels/ref.h"

enum { MOST_HEADS = 65536 }; // and columns of a head: sizes of hostile arguments stay far below 64 bits

// Rows of n heads, dim wide and head_stride apart, row_stride apart, from offset on.
struct head_rows {
    uint64_t n_rows, n_heads, dim, head_stride, row_stride, offset;
};

static bool holds_heads(const gpu_buf *buf, const struct head_rows *h)
{
    return (h->n_heads == 1 || h->head_stride >= h->dim) &&
           op_holds_rows(buf, h->n_rows, h->row_stride, h->offset, (h->n_heads - 1) * h->head_stride + h->dim);
}

// Two places of a state: in their buffers, and the same or apart. `at` and n in elements.
struct state_place {
    const gpu_buf *buf;
    uint64_t at;
};

static bool holds_states(struct state_place from, struct state_place to, uint64_t n)
{
    bool inside = from.at <= UINT64_MAX / 4 && to.at <= UINT64_MAX / 4 && op_holds(from.buf, 4 * from.at, 4 * n) &&
                  op_holds(to.buf, 4 * to.at, 4 * n);
    uint64_t apart = from.at < to.at ? to.at - from.at : from.at - to.at;
    return inside && (from.buf != to.buf || apart == 0 || apart >= n);
}

static bool heads_fit(uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim)
{
    return n_heads > 0 && n_heads <= MOST_HEADS && n_kv_heads > 0 && n_kv_heads <= n_heads && head_dim > 0 &&
           head_dim % 8 == 0 && head_dim <= MOST_HEAD_DIM;
}

void gpu_op_gqa_append(gpu *g, const struct args_gqa_append *a, const struct gpu_gqa_append_bufs *b)
{
    static const char op[] = "gqa_append";
    uint64_t element = a->kv_type == KV_F16 ? 2 : 4, width = (uint64_t)a->n_kv_heads * a->head_dim;
    struct head_rows q = {a->n_rows, a->n_heads, a->head_dim, a->q_head_stride, a->q_stride, a->q_offset};
    struct head_rows k = {a->n_rows, a->n_kv_heads, a->head_dim, a->head_dim, a->kv_stride, a->k_offset};
    struct head_rows v = k;
    v.offset = a->v_offset;
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, heads_fit(a->n_heads, a->n_kv_heads, a->head_dim) && a->kv_type <= KV_F16, op,
                 "no such heads or cache") ||
        !op_need(
            g, op_holds_vector(b->q_norm, a->q_norm, a->head_dim) && op_holds_vector(b->k_norm, a->k_norm, a->head_dim),
            op, "a norm's weight lies outside its buffer") ||
        !op_need(g,
                 a->rope_dim % 2 == 0 && (uint64_t)a->rope_offset + a->rope_dim <= a->head_dim &&
                     (a->rope_dim == 0 || op_holds(b->inv_freq, 0, 2 * (uint64_t)a->rope_dim)),
                 op, "inv_freq is too small, or rope_dim odd or beyond the head") ||
        !op_need(g, holds_heads(b->q, &q), op, "q is too small, or its heads overlap") ||
        !op_need(g, holds_heads(b->kv, &k) && holds_heads(b->kv, &v), op, "the rows of k and v are too small") ||
        !op_need(g, op_holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * 2 * width * element), op,
                 "the cache is full"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_gqa_append(a, b));
        return;
    }
    gpu_buf *inv_freq = a->rope_dim ? b->inv_freq : b->q_norm;
    launch(g, &(struct launch){.kernel = KERNEL_GQA_APPEND,
                               .args = a,
                               .buffers = {b->q_norm, b->k_norm, inv_freq, b->q, b->kv, b->cache},
                               .groups = {a->n_heads + 2 * (size_t)a->n_kv_heads, a->n_rows}});
}

static bool gqa_fits(gpu *g, const struct args_gqa *a, const struct gpu_gqa_bufs *b, const char *op)
{
    uint64_t element = a->kv_type == KV_F16 ? 2 : 4, heads = (uint64_t)a->n_rows * a->n_heads;
    struct head_rows q = {a->n_rows, a->n_heads, a->head_dim, a->q_head_stride, a->q_stride, a->q_offset};
    return op_need(g,
                   heads_fit(a->n_heads, a->n_kv_heads, a->head_dim) && a->n_heads % a->n_kv_heads == 0 &&
                       a->kv_type <= KV_F16,
                   op, "no such heads or cache") &&
           op_need(g, holds_heads(b->q, &q), op, "q is too small, or its heads overlap") &&
           op_need(
               g,
               op_holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * 2 * a->n_kv_heads * a->head_dim * element),
               op, "the cache holds fewer rows than are asked for") &&
           op_need(g, op_holds(b->out, 0, 4 * heads * a->head_dim), op, "the output is too small");
}

// Floats that a CPU group keeps beside each other: queries, sums, and a tile of keys and values, converted.
static uint32_t gqa_stride(const struct args_gqa *a)
{
    uint32_t lanes = a->kv_type == KV_F16 ? VECTOR + ATTENTION_TILE : VECTOR;
    return 2 * a->head_dim * lanes;
}

// Vectors (CPU), or blocks (GPU), of the lanes that share a key head, of all key heads.
static size_t gqa_blocks(const struct args_gqa *a, uint32_t lanes)
{
    return a->n_kv_heads * ceil_div((uint64_t)a->n_rows * (a->n_heads / a->n_kv_heads), lanes);
}

// GPU: the positions of a tile, from the model and the length alone: steps of 64, groups enough for a large device.
static uint32_t gqa_tile(const struct args_gqa *a)
{
    enum { GROUPS = 264, STEP = 64 };
    uint64_t steps = ceil_div((uint64_t)a->position + 1, STEP), most = GROUPS / gqa_blocks(a, GQA_LANES);
    most = most < 1 ? 1 : most < MOST_TILES ? most : MOST_TILES;
    return (uint32_t)(STEP * ceil_div(steps, most));
}

void gpu_op_gqa_decode(gpu *g, const struct args_gqa *a, const struct gpu_gqa_bufs *b)
{
    if (gpu_failed(g) || !op_need(g, a->n_rows == 1, "gqa_decode", "n_rows must be 1") ||
        !gqa_fits(g, a, b, "gqa_decode"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_gqa(a, b));
        return;
    }
    uint32_t tile = g->cpu_shape ? ATTENTION_TILE : gqa_tile(a);
    size_t tiles = ceil_div((uint64_t)a->position + 1, tile), blocks = gqa_blocks(a, g->cpu_shape ? VECTOR : GQA_LANES);
    struct tiling t = {.rows_per_group = tile, .n_tiles = (uint32_t)tiles};
    uint64_t floats = tiles * a->n_heads * ((uint64_t)a->head_dim + PARTIAL_TAIL);
    if (g->cpu_shape) {
        enum { GROUPS_PER_UNIT = 8 };
        uint64_t most = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
        t.n_groups = (uint32_t)(tiles < most ? tiles : most);
        t.scratch_stride = gqa_stride(a);
        floats = blocks * (VECTOR * tiles * ((uint64_t)a->head_dim + 2) + (uint64_t)t.n_groups * t.scratch_stride);
    }
    gpu_buf *scratch = gpu_scratch(g, 4 * floats);
    launch(g, &(struct launch){.kernel = KERNEL_GQA_TILES,
                               .args = a,
                               .tiling = t,
                               .buffers = {b->q, b->cache, scratch},
                               .groups = {blocks, g->cpu_shape ? t.n_groups : tiles}});
    if (g->cpu_shape) {
        launch(g, &(struct launch){.kernel = KERNEL_GQA_MERGE,
                                   .args = a,
                                   .tiling = t,
                                   .buffers = {scratch, b->out},
                                   .groups = {ceil_div(a->head_dim, MERGE_COLUMNS), blocks}});
        return;
    }
    struct args_attention merge = {.n_rows = 1, .n_heads = a->n_heads, .kv_lora_rank = a->head_dim};
    launch(g, &(struct launch){.kernel = KERNEL_ATTENTION_MERGE,
                               .args = &merge,
                               .tiling = t,
                               .buffers = {scratch, b->out},
                               .groups = {ceil_div(a->head_dim, MERGE_LANES), a->n_heads}});
}

void gpu_op_gqa_prefill(gpu *g, const struct args_gqa *a, const struct gpu_gqa_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !gqa_fits(g, a, b, "gqa_prefill"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_gqa(a, b));
        return;
    }
    struct launch l = {.kernel = KERNEL_GQA_PREFILL, .args = a, .buffers = {b->q, b->cache, b->out, b->out}};
    l.groups[0] = gqa_blocks(a, g->cpu_shape ? VECTOR : GQA_LANES);
    if (g->cpu_shape) {
        enum { GROUPS_PER_UNIT = 32 };
        uint64_t most = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
        l.groups[0] = l.groups[0] < most ? l.groups[0] : most;
        l.tiling.n_groups = (uint32_t)l.groups[0];
        l.tiling.scratch_stride = gqa_stride(a);
        l.buffers[3] = gpu_scratch(g, 4 * (uint64_t)l.tiling.n_groups * l.tiling.scratch_stride);
    }
    launch(g, &l);
}

static bool short_conv_fits(gpu *g, const struct args_short_conv *a, const struct gpu_short_conv_bufs *b)
{
    static const char op[] = "short_conv";
    uint64_t history = (uint64_t)(CONV_TAPS - 1) * a->channels;
    struct state_place from = {b->from, a->from}, to = {b->to, a->to};
    return op_need(g, a->channels > 0, op, "no channels") &&
           op_need(g, op_holds_vector(b->weight, a->weight, (uint64_t)CONV_TAPS * a->channels), op,
                   "the weight lies outside its buffer") &&
           op_need(g, holds_states(from, to, history), op,
                   "a history lies outside its buffer, or the two overlap in part") &&
           op_need(g, b->x != b->y, op, "the output may not be the input") &&
           op_need(g, op_holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, a->channels), op,
                   "the input is too small") &&
           op_need(g, op_holds_rows(b->y, a->n_rows, a->out_stride, a->out_offset, a->channels), op,
                   "the output is too small");
}

void gpu_op_short_conv(gpu *g, const struct args_short_conv *a, const struct gpu_short_conv_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !short_conv_fits(g, a, b))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_short_conv(a, b));
        return;
    }
    // Groups beside each other read the history that the last one writes, unless it goes elsewhere.
    bool in_place = b->from == b->to && a->from == a->to;
    uint32_t rows = in_place || g->cpu_shape ? a->n_rows : CONV_ROWS;
    launch(g, &(struct launch){.kernel = KERNEL_SHORT_CONV,
                               .args = a,
                               .tiling = {.rows_per_group = rows},
                               .buffers = {b->weight, b->x, b->from, b->to, b->y},
                               .groups = {ceil_div(a->channels, ELEMENTS_GROUP), ceil_div(a->n_rows, rows)}});
}

static bool delta_shaped(const struct args_delta *a)
{
    return a->n_key_heads > 0 && a->n_value_heads > 0 && a->n_value_heads <= MOST_HEADS &&
           a->n_value_heads % a->n_key_heads == 0 && a->key_dim > 0 && a->key_dim <= MOST_KEY_DIM && a->value_dim > 0 &&
           a->value_dim <= MOST_HEADS && a->decay <= DECAY_CHANNEL_BOUNDED &&
           (a->decay != DECAY_CHANNEL_BOUNDED || a->bound < 0);
}

static bool delta_fits(gpu *g, const struct args_delta *a, const struct gpu_delta_bufs *b)
{
    static const char op[] = "delta";
    uint64_t heads = a->n_value_heads, decays = a->decay == DECAY_HEAD ? heads : heads * a->key_dim;
    uint64_t keys = (uint64_t)a->n_key_heads * a->key_dim, values = heads * a->value_dim;
    struct state_place from = {b->from, a->from}, to = {b->to, a->to};
    return op_need(g, delta_shaped(a), op, "no such heads or decay") &&
           op_need(g, op_holds_vector(b->rate, a->rate, heads) && op_holds_vector(b->dt_bias, a->dt_bias, decays), op,
                   "the decay's weights lie outside their buffers") &&
           op_need(g, holds_states(from, to, values * a->key_dim), op,
                   "a state lies outside its buffer, or the two overlap in part") &&
           op_need(g,
                   op_holds_rows(b->x, a->n_rows, a->in_stride, a->q_offset, keys) &&
                       op_holds_rows(b->x, a->n_rows, a->in_stride, a->k_offset, keys) &&
                       op_holds_rows(b->x, a->n_rows, a->in_stride, a->v_offset, values),
                   op, "the rows of q, k and v are too small") &&
           op_need(g,
                   op_holds_rows(b->gate, a->n_rows, a->gate_stride, a->beta_offset, heads) &&
                       op_holds_rows(b->gate, a->n_rows, a->gate_stride, a->decay_offset, decays),
                   op, "the rows of gates are too small") &&
           op_need(g, b->out != b->x && b->out != b->gate, op, "the output may not be an input") &&
           op_need(g, op_holds_rows(b->out, a->n_rows, a->out_stride, a->out_offset, values), op,
                   "the output is too small");
}

void gpu_op_delta(gpu *g, const struct args_delta *a, const struct gpu_delta_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !delta_fits(g, a, b))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_delta(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_DELTA,
                               .args = a,
                               .buffers = {b->rate, b->dt_bias, b->x, b->gate, b->from, b->to, b->out},
                               .groups = {a->n_value_heads, g->cpu_shape ? 1 : ceil_div(a->value_dim, SCAN_COLUMNS)}});
}

static bool gated_norm_fits(gpu *g, const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b)
{
    static const char op[] = "gated_norm";
    uint64_t width = (uint64_t)a->n_heads * a->dim;
    return op_need(g, a->n_heads > 0 && a->dim > 0 && a->act <= GATE_SIGMOID, op, "no such heads or gate") &&
           op_need(g, op_holds_vector(b->weight, a->weight, a->dim), op, "the weight lies outside its buffer") &&
           op_need(g, op_holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, width), op,
                   "the input is too small") &&
           op_need(g, op_holds_rows(b->gate, a->n_rows, a->gate_stride, a->gate_offset, width), op,
                   "the gate is too small") &&
           op_need(g, op_holds_rows(b->y, a->n_rows, a->out_stride, a->out_offset, width), op,
                   "the output is too small");
}

void gpu_op_gated_norm(gpu *g, const struct args_gated_norm *a, const struct gpu_gated_norm_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !gated_norm_fits(g, a, b))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_gated_norm(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_GATED_NORM,
                               .args = a,
                               .buffers = {b->weight, b->x, b->gate, b->y},
                               .groups = {a->n_heads, a->n_rows}});
}

void gpu_op_gate_product(gpu *g, const struct args_gate_product *a, gpu_buf *gate, gpu_buf *y)
{
    static const char op[] = "gate_product";
    uint64_t each = a->one_each ? 1 : a->dim;
    struct head_rows gates = {a->n_rows, a->n_heads, each, a->gate_head_stride, a->gate_stride, a->gate_offset};
    if (gpu_failed(g) || a->n_rows == 0 || !op_need(g, a->n_heads > 0 && a->dim > 0, op, "no such heads") ||
        !op_need(g, gate != y, op, "the gate may not be the output") ||
        !op_need(g, holds_heads(gate, &gates), op, "the gate is too small, or its heads overlap") ||
        !op_need(g, op_holds_rows(y, a->n_rows, a->stride, a->offset, (uint64_t)a->n_heads * a->dim), op,
                 "the rows are too small"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_gate_product(a, gate->host, y->host));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_GATE_PRODUCT,
                               .args = a,
                               .buffers = {gate, y},
                               .groups = {ceil_div((uint64_t)a->n_heads * a->dim, ELEMENTS_GROUP), a->n_rows}});
}

// Do the rows of one op become those of the next, and does a group of the one kernel have room for a head, whose rows
// are read by fours?
bool op_is_delta_token(const gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b)
{
    const struct args_delta *scan = &a->scan;
    uint64_t keys = (uint64_t)scan->n_key_heads * scan->key_dim;
    uint64_t values = (uint64_t)scan->n_value_heads * scan->value_dim,
             end = (uint64_t)a->conv.out_offset + a->conv.channels;
    bool apart = b->conv.from != b->conv.to || a->conv.from != a->conv.to; // heads share the history of their keys
    return !op_is_ref(g) && !g->cpu_shape && apart && scan->value_dim <= MOST_KEY_DIM && scan->value_dim % 4 == 0 &&
           scan->from % 4 == 0 && scan->to % 4 == 0 && scan->q_offset >= a->conv.out_offset &&
           scan->q_offset + keys <= end && scan->k_offset >= a->conv.out_offset && scan->k_offset + keys <= end &&
           scan->v_offset >= a->conv.out_offset && scan->v_offset + values <= end &&
           a->conv.channels == 2 * keys + values && b->norm.y != b->scan.from && b->norm.gate != b->norm.y;
}

bool op_delta_token_fits(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b)
{
    return short_conv_fits(g, &a->conv, &b->conv) && delta_fits(g, &a->scan, &b->scan) &&
           gated_norm_fits(g, &a->norm, &b->norm) &&
           op_need(g,
                   a->conv.n_rows == 1 && a->scan.n_rows == 1 && a->norm.n_rows == 1 && b->conv.y == b->scan.x &&
                       b->scan.out == b->norm.x && a->scan.out_offset == a->norm.in_offset &&
                       a->norm.n_heads == a->scan.n_value_heads && a->norm.dim == a->scan.value_dim,
                   "delta_token", "the ops have no row in common");
}

void gpu_op_delta_token(gpu *g, const struct args_delta_token *a, const struct gpu_delta_token_bufs *b)
{
    if (gpu_failed(g) || !op_delta_token_fits(g, a, b))
        return;
    if (!op_is_delta_token(g, a, b)) {
        gpu_op_short_conv(g, &a->conv, &b->conv);
        gpu_op_delta(g, &a->scan, &b->scan);
        gpu_op_gated_norm(g, &a->norm, &b->norm);
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_DELTA_TOKEN,
                               .args = a,
                               .buffers = {b->conv.weight, b->scan.rate, b->scan.dt_bias, b->norm.weight, b->conv.x,
                                           b->scan.gate, b->norm.gate, b->conv.from, b->conv.to, b->scan.from,
                                           b->scan.to, b->norm.y},
                               .groups = {a->scan.n_value_heads}});
}
