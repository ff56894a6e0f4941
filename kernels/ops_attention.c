// SPDX-License-Identifier: GPL-3.0-or-later
// Attention, and the products head by head around it.
#include "kernels/ops_check.h"
#include "kernels/ref.h"

static bool kv_b_shaped(const struct args_kv_b *a)
{
    uint64_t rows = (uint64_t)a->n_heads * ((uint64_t)a->qk_nope_head_dim + a->v_head_dim);
    return a->n_heads > 0 && a->qk_nope_head_dim > 0 && a->v_head_dim > 0 && rows == a->kv_b.out_dim;
}

// CPU: a group is one head and a range of rows.
static struct tiling cut_tokens(uint32_t n_rows, const struct args_matrix *m)
{
    enum { TOKENS = 16 };
    return (struct tiling){.rows_per_group = TOKENS,
                           .n_groups = (uint32_t)ceil_div(n_rows, TOKENS),
                           .scratch_stride = op_packed_floats(m)};
}

static gpu_buf *heads_scratch(gpu *g, uint32_t n_heads, const struct tiling *t)
{
    return gpu_scratch(g, g->cpu_shape ? 4 * (uint64_t)n_heads * t->n_groups * t->scratch_stride : 0);
}

bool op_q_prime_fits(gpu *g, const struct args_kv_b *a, gpu_buf *kv_b, gpu_buf *q, gpu_buf *out)
{
    return op_need(g, !a->decode || a->n_rows == 1, "q_prime", "decode takes one row") &&
           op_need_matrix(g, kv_b, &a->kv_b, "q_prime") &&
           op_need(g, kv_b_shaped(a), "q_prime", "heads and rows do not fit kv_b") &&
           op_need(g, a->n_heads == 1 || a->q_head_stride >= a->qk_nope_head_dim, "q_prime", "heads overlap") &&
           op_need(g,
                   op_holds_rows(q, a->n_rows, a->q_row_stride, 0,
                                 (uint64_t)(a->n_heads - 1) * a->q_head_stride + a->qk_nope_head_dim),
                   "q_prime", "q is too small") &&
           op_need(g, op_holds(out, 0, 4 * (uint64_t)a->n_rows * a->n_heads * a->kv_b.in_dim), "q_prime",
                   "the output is too small");
}

void gpu_op_q_prime(gpu *g, const struct args_kv_b *a, gpu_buf *kv_b, gpu_buf *q, gpu_buf *out)
{
    if (gpu_failed(g) || a->n_rows == 0 || !op_q_prime_fits(g, a, kv_b, q, out))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_q_prime(a, kv_b->host, q->host, out->host));
        return;
    }
    const struct program *program = op_program(g, &a->kv_b);
    if (!g->cpu_shape && !a->decode) {
        launch(g, &(struct launch){.kernel = KERNEL_Q_PRIME_ROWS,
                                   .program = program,
                                   .args = a,
                                   .buffers = {kv_b, q, out},
                                   .groups = {ceil_div(a->kv_b.in_dim, 64), ceil_div(a->n_rows, 64), a->n_heads}});
        return;
    }
    struct tiling t = cut_tokens(a->n_rows, &a->kv_b);
    uint32_t per_word = program || a->kv_b.kind == KIND_MLX_4 ? 8 : a->kv_b.kind == KIND_MLX_8 ? 4 : 1;
    size_t words = ceil_div(a->kv_b.in_dim / per_word, Q_WORDS);
    launch(g, &(struct launch){.kernel = KERNEL_Q_PRIME,
                               .program = program,
                               .args = a,
                               .tiling = t,
                               .buffers = {kv_b, q, out, heads_scratch(g, a->n_heads, &t)},
                               .groups = {g->cpu_shape ? t.n_groups : words, a->n_heads,
                                          g->cpu_shape ? ceil_div(a->kv_b.in_dim, BLOCK) : 0}});
}

// CPU: of many rows each head is a product by itself, whose tiles share each weight.
static void heads_products(gpu *g, const struct args_heads *a, const struct gpu_product_bufs *b)
{
    struct args_matmul one = {
        .matrix = a->matrix, .n_rows = a->n_rows, .in_stride = a->row_stride, .out_stride = a->n_heads * a->n_out};
    one.matrix.out_dim = a->n_out;
    for (uint32_t h = 0; h < a->n_heads; h++) {
        uint64_t row = (uint64_t)h * a->head_rows + a->first_row;
        one.matrix.weight = a->matrix.weight + row * matrix_row_bytes(&a->matrix);
        one.matrix.scales = a->matrix.scales + row * matrix_scale_bytes(&a->matrix);
        one.matrix.biases = a->matrix.biases + row * matrix_bias_bytes(&a->matrix);
        one.in_offset = h * a->head_stride;
        one.out_offset = h * a->n_out;
        op_matmul_cpu(g, &one, b);
    }
}

bool op_heads_fit(gpu *g, const struct args_heads *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *out)
{
    const struct args_matrix *m = &a->matrix;
    uint64_t heads = (uint64_t)a->n_rows * a->n_heads;
    return op_need(g, !a->decode || a->n_rows == 1, "heads", "decode takes one row") &&
           op_need_matrix(g, matrix, m, "heads") &&
           op_need(g,
                   a->n_heads > 0 && a->n_out > 0 && (uint64_t)a->first_row + a->n_out <= a->head_rows &&
                       (uint64_t)a->n_heads * a->head_rows == m->out_dim,
                   "heads", "heads and rows do not fit the matrix") &&
           op_need(g, a->n_heads == 1 || a->head_stride >= m->in_dim, "heads", "heads overlap") &&
           op_need(
               g,
               op_holds_rows(x, a->n_rows, a->row_stride, 0, (uint64_t)(a->n_heads - 1) * a->head_stride + m->in_dim),
               "heads", "the input is too small") &&
           op_need(g, op_holds_rows(out, heads, a->n_out, 0, a->n_out), "heads", "the output is too small");
}

void gpu_op_heads(gpu *g, const struct args_heads *a, gpu_buf *matrix, gpu_buf *x, gpu_buf *out)
{
    const struct args_matrix *m = &a->matrix;
    if (gpu_failed(g) || a->n_rows == 0 || !op_heads_fit(g, a, matrix, x, out))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_heads(a, matrix->host, x->host, out->host));
        return;
    }
    if (g->cpu_shape && !a->decode) {
        heads_products(g, a, &(struct gpu_product_bufs){matrix, x, out, NULL});
        return;
    }
    const struct program *program = op_program(g, m);
    if (!a->decode) {
        bool mma = op_takes_mma(g, m);
        struct launch l = {.kernel = mma ? KERNEL_HEADS_MMA : KERNEL_HEADS_ROWS,
                           .program = program,
                           .args = a,
                           .buffers = {matrix, x, out},
                           .groups = {ceil_div(a->n_out, mma ? PRODUCT_OUTPUTS : 64),
                                      ceil_div(a->n_rows, mma ? PRODUCT_HEAD_TOKENS : 64), a->n_heads}};
        struct args_split split = {
            .at.n_rows = {a->n_rows}, .dim = m->in_dim, .in_stride = a->row_stride, .head_stride = a->head_stride};
        if (mma)
            l.buffers[1] = op_split(g, program, &split, a->n_heads, x, &l.tiling);
        if (l.buffers[1])
            launch(g, &l);
        return;
    }
    struct tiling t = cut_tokens(a->n_rows, m);
    if (!g->cpu_shape)
        t.rows_per_group =
            op_team_takes_mma(g, m) ? op_cut_tiles(g, m, (uint64_t)a->n_heads * a->n_out, 1) : TEAMS * TEAM_ROWS;
    launch(g,
           &(struct launch){.kernel = KERNEL_HEADS,
                            .program = program,
                            .args = a,
                            .tiling = t,
                            .buffers = {matrix, x, out, heads_scratch(g, a->n_heads, &t)},
                            .groups = {g->cpu_shape ? t.n_groups : ceil_div(a->n_out, t.rows_per_group), a->n_heads}});
}

static bool attention_fits(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b, const char *op)
{
    uint64_t rows = (uint64_t)a->first_row + a->n_rows, heads = rows * a->n_heads;
    uint64_t width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    uint64_t element = a->kv_type == KV_F16 ? 2 : 4;
    return op_need(g, a->n_heads > 0 && a->kv_lora_rank > 0 && a->kv_lora_rank % 32 == 0 && a->kv_type <= KV_F16, op,
                   "no such shape") &&
           op_need(g, a->n_heads == 1 || a->q_head_stride >= a->rope_dim, op, "heads overlap") &&
           op_need(g, op_holds(b->q_latent, 0, 4 * heads * a->kv_lora_rank), op, "q_latent is too small") &&
           op_need(g,
                   op_holds_rows(b->q, rows, a->q_row_stride, a->q_rope_offset,
                                 (uint64_t)(a->n_heads - 1) * a->q_head_stride + a->rope_dim),
                   op, "q is too small") &&
           op_need(g,
                   !a->n_listed ||
                       op_holds(b->list, 4 * (uint64_t)a->first_listed,
                                4 * (uint64_t)a->n_rows * (a->n_listed + (uint64_t)(a->pool > 1 ? a->pool - 1 : 0))),
                   op, "the lists are too short") &&
           op_need(g, op_holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * width * element), op,
                   "the cache holds fewer rows than are asked for") &&
           op_need(g, op_holds(b->out, 0, 4 * heads * a->kv_lora_rank), op, "the output is too small");
}

// Floats that a CPU group keeps beside each other: queries, sums, and a tile of the cache, converted.
static uint64_t attention_stride(const struct args_attention *a)
{
    uint64_t width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    return VECTOR * (width + a->kv_lora_rank) + (a->kv_type == KV_F16 || a->n_listed ? ATTENTION_TILE * width : 0);
}

// Rows of the cache that a decoded token sees.
static uint64_t seen(const struct args_attention *a)
{
    uint64_t open = a->pool > 1 ? (a->position + UINT64_C(1)) % a->pool : 0;
    return a->n_listed ? a->n_listed + open : (uint64_t)a->position + 1;
}

// GPU: the positions of a tile, from the model and the length alone: groups enough for a large device, few sums to
// merge.
static uint32_t decode_tile(const struct args_attention *a)
{
    enum { GROUPS = 512 };
    uint32_t tile = DECODE_STEP;
    uint64_t blocks = ceil_div(a->n_heads, GROUP_HEADS);
    uint64_t most = GROUPS / blocks < MOST_TILES ? GROUPS / blocks : MOST_TILES;
    while (tile < UINT32_C(1) << 30 && ceil_div(seen(a), tile) > (most ? most : 1))
        tile *= 2;
    return tile;
}

// Of so few scores, keys times heads, a decoded token's attention is faster without tensor cores, which want the
// queries prepared and have few groups.
enum { MOST_PLAIN_SCORES = 32768 };

// Tensor cores take the rows of the models that there are: float16, 512 + 64 wide.
static bool takes_mma(const gpu *g, const struct args_attention *a)
{
    return g->has_mma && a->kv_type == KV_F16 && a->kv_lora_rank == 512 && a->rope_dim == 64;
}

// As decode_tile: steps of 64 positions, cut into equal tiles.
static uint32_t decode_tile_mma(const struct args_attention *a)
{
    enum { GROUPS = 264, STEP = 64 };
    uint64_t steps = ceil_div(seen(a), STEP);
    uint64_t most = GROUPS / ceil_div(a->n_heads, MMA_HEADS);
    most = most < 1 ? 1 : most < MOST_TILES ? most : MOST_TILES;
    return (uint32_t)(STEP * ceil_div(steps, most));
}

static enum kernel_id tiles_kernel(bool listed, bool mma)
{
    if (listed)
        return mma ? KERNEL_LIST_TILES_MMA : KERNEL_LIST_TILES;
    return mma ? KERNEL_ATTENTION_TILES_MMA : KERNEL_ATTENTION_TILES;
}

// The tiles' launch on a GPU, and how they are cut, which is the merge's tiling, too.
static gpu_buf *launch_tiles(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b,
                             struct tiling *tiling)
{
    bool mma = takes_mma(g, a) && (uint64_t)seen(a) * a->n_heads > MOST_PLAIN_SCORES;
    uint32_t tile = mma ? decode_tile_mma(a) : decode_tile(a);
    size_t tiles = ceil_div(seen(a), tile);
    struct launch parts = {.kernel = tiles_kernel(a->n_listed > 0, mma),
                           .args = a,
                           .tiling = {.rows_per_group = tile, .n_tiles = (uint32_t)tiles},
                           .buffers = {b->q_latent, b->q, b->cache, b->list},
                           .groups = {ceil_div(a->n_heads, mma ? MMA_HEADS : GROUP_HEADS), tiles,
                                      mma ? 1 : ceil_div(a->kv_lora_rank, MOST_VALUES)}};
    gpu_buf *partials = gpu_scratch(g, 4 * tiles * a->n_heads * ((uint64_t)a->kv_lora_rank + PARTIAL_TAIL));
    parts.buffers[a->n_listed ? 4 : 3] = partials;
    *tiling = parts.tiling;
    launch(g, &parts);
    return partials;
}

gpu_buf *op_attention_tiles(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b,
                            struct tiling *tiling)
{
    return attention_fits(g, a, b, "attention_decode") ? launch_tiles(g, a, b, tiling) : NULL;
}

static void decode_on_cpu(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    enum { GROUPS_PER_UNIT = 8 };
    uint64_t most = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
    size_t tiles = ceil_div(seen(a), ATTENTION_TILE), vectors = ceil_div(a->n_heads, VECTOR);
    struct launch parts = {.kernel = tiles_kernel(a->n_listed > 0, false),
                           .args = a,
                           .tiling = {.rows_per_group = ATTENTION_TILE,
                                      .n_tiles = (uint32_t)tiles,
                                      .n_groups = (uint32_t)(tiles < most ? tiles : most),
                                      .scratch_stride = (uint32_t)attention_stride(a)},
                           .buffers = {b->q_latent, b->q, b->cache, b->list}};
    uint64_t floats =
        vectors * (VECTOR * tiles * (a->kv_lora_rank + 2) + (uint64_t)parts.tiling.n_groups * attention_stride(a));
    gpu_buf *partials = parts.buffers[a->n_listed ? 4 : 3] = gpu_scratch(g, 4 * floats);
    parts.groups[0] = vectors;
    parts.groups[1] = parts.tiling.n_groups;
    launch(g, &parts);
    launch(g, &(struct launch){.kernel = KERNEL_ATTENTION_MERGE,
                               .args = a,
                               .tiling = parts.tiling,
                               .buffers = {partials, b->out},
                               .groups = {ceil_div(a->kv_lora_rank, MERGE_COLUMNS), vectors}});
}

void gpu_op_attention_decode(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    if (gpu_failed(g) || !op_need(g, a->n_rows == 1, "attention_decode", "n_rows must be 1") ||
        !attention_fits(g, a, b, "attention_decode"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_attention(a, b));
        return;
    }
    if (g->cpu_shape) {
        decode_on_cpu(g, a, b);
        return;
    }
    struct launch merge = {.kernel = KERNEL_ATTENTION_MERGE, .args = a};
    merge.buffers[0] = launch_tiles(g, a, b, &merge.tiling);
    merge.buffers[1] = b->out;
    merge.groups[0] = a->kv_lora_rank / MERGE_LANES;
    merge.groups[1] = a->n_heads;
    launch(g, &merge);
}

void gpu_op_attention_prefill(gpu *g, const struct args_attention *a, const struct gpu_attention_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !attention_fits(g, a, b, "attention_prefill"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_attention(a, b));
        return;
    }
    bool listed = a->n_listed > 0, mma = !g->cpu_shape && takes_mma(g, a);
    struct launch l = {.kernel = listed ? KERNEL_LIST_PREFILL : KERNEL_ATTENTION_PREFILL,
                       .args = a,
                       .buffers = {b->q_latent, b->q, b->cache, listed ? b->list : b->out, b->out}};
    gpu_buf **scratch = &l.buffers[listed ? 5 : 4];
    *scratch = b->out;
    if (g->cpu_shape) {
        enum { GROUPS_PER_UNIT = 32 };
        size_t jobs =
            listed ? a->n_rows * ceil_div(a->n_heads, VECTOR) : ceil_div((uint64_t)a->n_rows * a->n_heads, VECTOR);
        uint64_t most = (uint64_t)GROUPS_PER_UNIT * g->info.compute_units;
        l.tiling.n_groups = (uint32_t)(jobs < most ? jobs : most);
        l.tiling.scratch_stride = (uint32_t)attention_stride(a);
        *scratch = gpu_scratch(g, 4 * (uint64_t)l.tiling.n_groups * l.tiling.scratch_stride);
        l.groups[0] = l.tiling.n_groups;
    } else if (mma) {
        l.kernel = listed ? KERNEL_LIST_PREFILL_MMA : KERNEL_ATTENTION_PREFILL_MMA;
        l.groups[0] = ceil_div(a->n_heads, MMA_HEADS);
        l.groups[1] = a->n_rows;
    } else {
        l.groups[0] = ceil_div(a->n_heads, PREFILL_GROUP);
        l.groups[1] = a->n_rows;
        l.groups[2] = ceil_div(a->kv_lora_rank, MOST_VALUES);
    }
    launch(g, &l);
}
