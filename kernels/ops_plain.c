// SPDX-License-Identifier: GPL-3.0-or-later
// Attention of a prompt with keys and values of each head: made of the latent rows by kv_b, for some heads at a time.
#include <stdlib.h>

#include "kernels/ops_check.h"
#include "kernels/ref.h"

enum {
    TILE_BYTES = PLAIN_TILE * (4 * (PLAIN_KEY + PLAIN_VALUE) + 16), // of a head
    ROPE_BYTES = PLAIN_TILE * 2 * PLAIN_ROPE,                       // of all
    MAKER_BYTES = 4 * (PLAIN_KEY + PLAIN_VALUE) * (PLAIN_RANK + 1), // of a head
    MOST_HEADS = 64                                                 // of a launch
};

// That keys and values of the heads of a launch may take, where one head's don't take more.
static uint64_t most_bytes(const gpu *g)
{
    const uint64_t most = UINT64_C(2) << 30, share = g->info.global_bytes / 64;
    return share < most ? share : most;
}

static bool is_apart(const struct args_attention_plain *a)
{
    return a->values.kind != KIND_NONE;
}

bool gpu_has_attention_plain(const gpu *g, const struct args_attention_plain *a)
{
    return g->has_mma && !a->keys.factor && !a->values.factor && a->kv_type == KV_F16 &&
           a->kv_lora_rank == PLAIN_RANK && a->rope_dim == PLAIN_ROPE && a->qk_nope_head_dim == PLAIN_KEY &&
           a->v_head_dim == PLAIN_VALUE;
}

static bool plain_shaped(const struct args_attention_plain *a)
{
    uint64_t heads = a->n_heads, keys = heads * a->qk_nope_head_dim, values = heads * a->v_head_dim;
    if (!is_apart(a))
        return a->keys.in_dim == a->kv_lora_rank && a->keys.out_dim == keys + values;
    return a->keys.in_dim == a->qk_nope_head_dim && a->keys.out_dim == heads * a->kv_lora_rank &&
           a->values.in_dim == a->kv_lora_rank && a->values.out_dim == values;
}

static bool plain_fits(gpu *g, const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b)
{
    static const char op[] = "attention_plain";
    uint64_t head = (uint64_t)a->qk_nope_head_dim + a->rope_dim, values = (uint64_t)a->n_heads * a->v_head_dim;
    uint64_t keys = (uint64_t)a->position + a->n_rows, width = (uint64_t)a->kv_lora_rank + a->rope_dim;
    return op_need_matrix(g, b->keys, &a->keys, op) && (!is_apart(a) || op_need_matrix(g, b->values, &a->values, op)) &&
           op_need(g, a->n_heads > 0 && a->kv_type <= KV_F16 && keys <= UINT32_MAX && plain_shaped(a), op,
                   "heads and rows do not fit the matrices") &&
           op_need(g, a->n_heads == 1 || a->q_head_stride >= head, op, "heads overlap") &&
           op_need(
               g,
               op_holds_rows(b->q, a->n_rows, a->q_row_stride, 0, (uint64_t)(a->n_heads - 1) * a->q_head_stride + head),
               op, "q is too small") &&
           op_need(g, op_holds(b->cache, 0, keys * width * (a->kv_type == KV_F16 ? 2 : 4)), op,
                   "the cache holds fewer rows than are asked for") &&
           op_need(g, op_holds_rows(b->out, a->n_rows, values, 0, values), op, "the output is too small");
}

// Rows of a matrix, `from` on.
static struct args_matrix rows_of(const struct args_matrix *m, uint32_t from, uint32_t n)
{
    struct args_matrix some = *m;
    some.weight += from * matrix_row_bytes(m);
    some.scales += from * matrix_scale_bytes(m);
    some.biases += from * matrix_bias_bytes(m);
    some.out_dim = n;
    return some;
}

// 0 to n - 1, written when the buffer is made; one that could not be is not kept for the next call.
static gpu_buf *numbers(gpu *g, uint32_t n)
{
    gpu_buf *before = g->plain[PLAIN_NUMBERS], *buf = gpu_plain(g, PLAIN_NUMBERS, n * sizeof(int32_t));
    int32_t *all = buf && buf != before ? malloc(n * sizeof *all) : NULL;
    if (!buf || buf == before)
        return buf;
    for (uint32_t i = 0; all && i < n; i++)
        all[i] = (int32_t)i;
    if (all)
        gpu_write(g, buf, 0, all, n * sizeof *all);
    else
        gpu_fail(g, GPU_OUT_OF_MEMORY, 0, "no memory for %u numbers", n);
    free(all);
    if (all && !gpu_failed(g))
        return buf;
    gpu_buf_free(buf);
    return g->plain[PLAIN_NUMBERS] = NULL;
}

// Rows of a matrix in float32.
static gpu_buf *floats_of(gpu *g, unsigned which, const struct args_matrix *rows, gpu_buf *matrix)
{
    gpu_buf *ids = numbers(g, MOST_HEADS * PLAIN_RANK);
    gpu_buf *to = gpu_plain(g, which, sizeof(float) * (uint64_t)rows->in_dim * rows->out_dim);
    struct args_embed all = {.table = *rows, .n_rows = rows->out_dim};
    if (ids && to)
        gpu_op_embed(g, &all, matrix, ids, to);
    return to;
}

// What makes keys and values of the heads that `a` says, as plain_expand wants it.
static gpu_buf *makers_of(gpu *g, const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b)
{
    uint32_t head = a->keys.out_dim / a->n_heads, values_head = a->values.out_dim / a->n_heads;
    struct args_matrix rows = rows_of(&a->keys, a->first_head * head, a->heads * head);
    gpu_buf *keys = floats_of(g, PLAIN_KEYS_OF, &rows, b->keys), *values = keys;
    if (a->turned) {
        rows = rows_of(&a->values, a->first_head * values_head, a->heads * values_head);
        values = floats_of(g, PLAIN_VALUES_OF, &rows, b->values);
    }
    gpu_buf *makers = gpu_plain(g, PLAIN_MAKERS_OF, (uint64_t)a->heads * MAKER_BYTES);
    if (keys && values && makers)
        launch(g, &(struct launch){.kernel = KERNEL_PLAIN_WEIGHTS,
                                   .args = a,
                                   .buffers = {keys, values, makers},
                                   .groups = {(PLAIN_KEY + PLAIN_VALUE) / 16, a->heads}});
    return makers;
}

// Keys and values of some heads, and attention over them.
static void attend_heads(gpu *g, const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b)
{
    uint64_t keys = (uint64_t)a->position + a->n_rows, n_tiles = ceil_div(keys, PLAIN_TILE);
    struct tiling t = {.n_tiles = (uint32_t)n_tiles};
    gpu_buf *makers = makers_of(g, a, b);
    gpu_buf *tiles = gpu_plain(g, PLAIN_TILES, n_tiles * ((uint64_t)a->heads * TILE_BYTES + ROPE_BYTES));
    if (!makers || !tiles)
        return;
    launch(g, &(struct launch){.kernel = KERNEL_PLAIN_EXPAND,
                               .args = a,
                               .tiling = t,
                               .buffers = {makers, b->cache, tiles},
                               .groups = {ceil_div(keys, PLAIN_KEYS), a->heads}});
    launch(g, &(struct launch){.kernel = KERNEL_ATTENTION_PLAIN_MMA,
                               .args = a,
                               .tiling = t,
                               .buffers = {b->q, tiles, b->out},
                               .groups = {a->heads, ceil_div(a->n_rows, PLAIN_ROWS)}});
}

void gpu_op_attention_plain(gpu *g, const struct args_attention_plain *a, const struct gpu_attention_plain_bufs *b)
{
    if (gpu_failed(g) || a->n_rows == 0 || !plain_fits(g, a, b))
        return;
    if (op_is_ref(g)) {
        op_done_by_ref(g, ref_attention_plain(a, b));
        return;
    }
    if (!op_need(g, gpu_has_attention_plain(g, a), "attention_plain", "the device has no kernels for this shape"))
        return;
    uint64_t head_bytes = ceil_div((uint64_t)a->position + a->n_rows, PLAIN_TILE) * TILE_BYTES;
    uint64_t fit = most_bytes(g) / head_bytes, most = fit < 1 ? 1 : fit < MOST_HEADS ? fit : MOST_HEADS;
    struct args_attention_plain some = *a;
    some.turned = is_apart(a);
    for (some.first_head = 0; some.first_head < a->n_heads; some.first_head += some.heads) {
        uint32_t left = a->n_heads - some.first_head;
        some.heads = left < most ? left : (uint32_t)most;
        attend_heads(g, &some, b);
    }
}
