// SPDX-License-Identifier: GPL-3.0-or-later
// An indexer's keys, scores and choice: checks, then the launch or ref.c.
#include "kernels/ops_check.h"
#include "kernels/ref.h"

enum { MOST_HEADS = 65536, MOST_POOL = MOST_INDEX_DIM }; // sizes of hostile arguments stay far below 64 bits

static bool is_dim(uint32_t dim)
{
    return dim > 0 && dim % 8 == 0 && dim <= MOST_INDEX_DIM;
}

static uint64_t element_bytes(uint32_t kv_type)
{
    return kv_type == KV_F16 ? 2 : 4;
}

// Keys that the last of the rows chooses from.
static uint64_t seen(uint32_t position, uint32_t n_rows, uint32_t pool)
{
    return ((uint64_t)position + n_rows) / (pool > 1 ? pool : 1);
}

void gpu_op_index_append(gpu *g, const struct args_index_append *a, const struct gpu_index_append_bufs *b)
{
    static const char op[] = "index_append";
    uint64_t width = (uint64_t)a->dim + a->n_behind;
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, is_dim(a->dim) && a->kv_type <= KV_F16, op, "no such dimension or cache") ||
        !op_need(g, op_holds_vector(b->norm, a->norm, a->dim) && op_holds_vector(b->bias, a->bias, a->dim), op,
                 "the norm's weight or bias lies outside its buffer") ||
        !op_need(g,
                 a->rope_dim == 0 || (a->rope_dim % 2 == 0 && a->rope_dim <= a->dim &&
                                      op_holds(b->inv_freq, 0, 2 * (uint64_t)a->rope_dim)),
                 op, "inv_freq is too small, or rope_dim odd or beyond the row") ||
        !op_need(g, op_holds_rows(b->x, a->n_rows, a->in_stride, a->in_offset, width), op, "the rows are too small") ||
        !op_need(g, op_holds(b->cache, 0, ((uint64_t)a->position + a->n_rows) * width * element_bytes(a->kv_type)), op,
                 "the cache is full"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_index_append(a, b));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_INDEX_APPEND,
                               .args = a,
                               .buffers = {b->norm, b->bias, a->rope_dim ? b->inv_freq : b->norm, b->x, b->cache},
                               .groups = {a->n_rows}});
}

void gpu_op_index_pool(gpu *g, const struct args_index_pool *a, gpu_buf *ape, gpu_buf *cache, gpu_buf *pools)
{
    static const char op[] = "index_pool";
    uint64_t end = (uint64_t)a->position + a->n_rows, element = element_bytes(a->kv_type);
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, is_dim(a->dim) && a->pool > 0 && a->dim % a->pool == 0 && a->kv_type <= KV_F16, op,
                 "no such dimension, pool or cache") ||
        !op_need(g, op_holds_vector(ape, a->ape, (uint64_t)a->pool * a->dim), op, "ape lies outside its buffer") ||
        !op_need(g, op_holds(cache, 0, end * 2 * a->dim * element), op, "the cache has fewer rows") ||
        !op_need(g, op_holds(pools, 0, end * (a->dim / a->pool) * element), op, "the pools have no room"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_index_pool(a, ape, cache, pools));
        return;
    }
    launch(g, &(struct launch){.kernel = KERNEL_INDEX_POOL,
                               .args = a,
                               .buffers = {ape, cache, pools},
                               .groups = {(end - 1) / a->pool - a->position / a->pool + 1}});
}

// Float16: as many groups as there is room for at once, each with the heads of one row. Float32: a group has one block
// of keys for several rows.
static void score_by_mma(gpu *g, const struct args_index_scores *a, const struct gpu_index_scores_bufs *b)
{
    enum { ROOM = 3, GROUPS_PER_UNIT = 4 }; // at least, where there are as many
    bool wide = a->kv_type == KV_F32;
    uint64_t keys = seen(a->position, a->n_rows, a->pool);
    uint64_t blocks = ceil_div(keys, wide ? INDEX_MMA_ITEMS / 2 : INDEX_TILE);
    uint32_t rows = wide ? a->n_rows : 1;
    while (rows > 1 && blocks * ceil_div(a->n_rows, rows) < (uint64_t)GROUPS_PER_UNIT * g->info.compute_units)
        rows = (rows + 1) / 2;
    uint64_t most = (uint64_t)ROOM * g->info.compute_units / a->n_rows;
    if (!wide)
        blocks = blocks < most ? blocks : most ? most : 1;
    launch(g, &(struct launch){.kernel = wide ? KERNEL_INDEX_SCORES_MMA_F32 : KERNEL_INDEX_SCORES_MMA,
                               .args = a,
                               .tiling.rows_per_group = rows,
                               .buffers = {b->q, b->weight, b->cache, b->scores},
                               .groups = {blocks, ceil_div(a->n_rows, rows)}});
}

// Tensor cores take the keys of the models that there are.
static bool takes_mma(const gpu *g, const struct args_index_scores *a)
{
    return g->has_mma && a->dim == MOST_INDEX_DIM && (a->kv_type == KV_F32 || a->n_heads <= INDEX_F16_HEADS);
}

void gpu_op_index_scores(gpu *g, const struct args_index_scores *a, const struct gpu_index_scores_bufs *b)
{
    static const char op[] = "index_scores";
    uint64_t length = seen(a->position, a->n_rows, a->pool);
    if (gpu_failed(g) || a->n_rows == 0 || length == 0 ||
        !op_need(g, is_dim(a->dim) && a->n_heads > 0 && a->n_heads <= MOST_HEADS && a->kv_type <= KV_F16, op,
                 "no such heads or cache") ||
        !op_need(g, op_holds_rows(b->q, a->n_rows, a->q_stride, a->q_offset, (uint64_t)a->n_heads * a->dim), op,
                 "q is too small") ||
        !op_need(g, op_holds_rows(b->weight, a->n_rows, a->weight_stride, a->weight_offset, a->n_heads), op,
                 "the weights are too few") ||
        !op_need(g, op_holds(b->cache, 0, length * a->dim * element_bytes(a->kv_type)), op,
                 "the cache holds fewer rows than are asked for") ||
        !op_need(g, a->out_stride >= length && op_holds_rows(b->scores, a->n_rows, a->out_stride, 0, length), op,
                 "the scores have no room"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_index_scores(a, b));
        return;
    }
    if (takes_mma(g, a)) {
        score_by_mma(g, a, b);
        return;
    }
    struct launch l = {.kernel = KERNEL_INDEX_SCORES,
                       .args = a,
                       .buffers = {b->q, b->weight, b->cache, b->scores, b->scores},
                       .groups = {ceil_div(length, INDEX_ITEMS), a->n_rows}};
    if (g->cpu_shape) {
        enum { GROUPS_PER_UNIT = 8, LEAST_POSITIONS = 64 };
        uint64_t heads = ceil_div(a->n_heads, VECTOR) * VECTOR;
        uint64_t most = ceil_div((uint64_t)GROUPS_PER_UNIT * g->info.compute_units, a->n_rows);
        uint64_t runs = ceil_div(length, LEAST_POSITIONS);
        l.tiling.n_groups = (uint32_t)(runs < most ? runs : most);
        l.tiling.scratch_stride = (uint32_t)(heads * (a->dim + 1) + VECTOR * (uint64_t)a->dim);
        l.buffers[4] = gpu_scratch(g, 4 * (uint64_t)a->n_rows * l.tiling.n_groups * l.tiling.scratch_stride);
        l.groups[0] = l.tiling.n_groups;
    }
    launch(g, &l);
}

// GPU: one group for each of a long row's parts; a launch for each level, each of which looks at what all have counted.
static void choose_by_parts(gpu *g, const struct args_index_choice *a, gpu_buf *scores, gpu_buf *list)
{
    enum { GROUPS = 256 }; // each reads what all of its row's have counted
    uint64_t length = seen(a->position, a->n_rows, a->pool);
    uint64_t most = GROUPS / a->n_rows < CHOICE_PARTS ? GROUPS / a->n_rows : CHOICE_PARTS;
    uint64_t part = ceil_div(ceil_div(length, most ? most : 1), CHOICE_BINS) * CHOICE_BINS;
    part = part < CHOICE_PART ? CHOICE_PART : part;
    struct launch l = {.kernel = KERNEL_INDEX_COUNT, .args = a, .groups = {ceil_div(length, part), a->n_rows}};
    l.tiling.rows_per_group = (uint32_t)part;
    l.tiling.n_tiles = (uint32_t)l.groups[0];
    l.buffers[0] = scores;
    l.buffers[1] = gpu_scratch(g, 4 * (uint64_t)a->n_rows * CHOICE_LEVELS * l.tiling.n_tiles * CHOICE_BINS);
    for (uint32_t level = 0; level < CHOICE_LEVELS; level++) {
        l.tiling.scratch_stride = level;
        launch(g, &l);
    }
    l.kernel = KERNEL_INDEX_LIST;
    l.buffers[2] = list;
    launch(g, &l);
}

void gpu_op_index_choice(gpu *g, const struct args_index_choice *a, gpu_buf *scores, gpu_buf *list)
{
    static const char op[] = "index_choice";
    uint64_t length = seen(a->position, a->n_rows, a->pool), pool = a->pool > 1 ? a->pool : 1;
    uint64_t listed = a->top_k * pool + pool - 1;
    if (gpu_failed(g) || a->n_rows == 0 ||
        !op_need(g, a->top_k > 0 && a->top_k <= seen(a->position, 1, a->pool) && pool <= MOST_POOL, op,
                 "fewer scores than are chosen") ||
        !op_need(g, a->in_stride >= length && op_holds_rows(scores, a->n_rows, a->in_stride, 0, length), op,
                 "the scores are too few") ||
        !op_need(g, op_holds(list, 4 * (uint64_t)a->first, 4 * a->n_rows * listed), op, "the lists have no room"))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_index_choice(a, scores->host, list->host));
        return;
    }
    if (!g->cpu_shape && length > 2 * CHOICE_PART) {
        choose_by_parts(g, a, scores, list);
        return;
    }
    launch(g, &(struct launch){
                  .kernel = KERNEL_INDEX_CHOICE, .args = a, .buffers = {scores, list}, .groups = {a->n_rows}});
}
