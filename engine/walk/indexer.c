// SPDX-License-Identifier: GPL-3.0-or-later
// Keys, scores and the choice.
#include "engine/walk/indexer.h"

#include <math.h>

#include "engine/walk/loader.h"
#include "engine/walk/pass.h"

// Rows whose scores are there at a time: of a long context they are the larger part of the scratch.
enum { SLAB = 32 };

void indexer_want(struct loader *l, struct indexer_weights *w)
{
    const struct shape *s = l->shape;
    const struct indexer_dims *d = &s->indexer;
    loader_matrix(l, &w->q_b, "self_attn.indexer.wq_b", d->n_heads * d->head_dim, s->q_lora_rank);
    loader_matrix(l, &w->k, "self_attn.indexer.wk", d->head_dim, s->hidden_size);
    loader_vector(l, &w->norm, "self_attn.indexer.k_norm.weight", d->head_dim);
    loader_vector(l, &w->bias, "self_attn.indexer.k_norm.bias", d->head_dim);
    loader_matrix(l, &w->weights, "self_attn.indexer.weights_proj", d->n_heads, s->hidden_size);
    if (d->pool < 2)
        return;
    static const char *const ape[1] = {"self_attn.indexer.index_kpool_compress_ape"};
    loader_matrix(l, &w->gate, "self_attn.indexer.index_kpool_compress_gate", d->head_dim, s->hidden_size);
    loader_numbers(l, &w->ape, &(struct want_numbers){ape, 1, d->pool, d->head_dim, false});
}

// Numbers of a token's row, and of its share of a pool's key.
static uint32_t row_width(const struct indexer_dims *d)
{
    return d->pool > 1 ? 2 * d->head_dim : d->head_dim;
}

uint32_t indexer_list(const struct shape *s)
{
    return s->indexer.top_k + s->indexer.pool - 1;
}

void indexer_memory(const struct shape *s, struct mixer_needs *needs)
{
    const struct indexer_dims *d = &s->indexer;
    needs->rows[INDEXER_STREAM] = row_width(d);
    needs->rows[INDEXER_POOLS] = d->pool > 1 ? d->head_dim / d->pool : 0;
    needs->chunk[INDEXER_KEYS] = (uint64_t)row_width(d) + d->n_heads;
    needs->chunk[INDEXER_QUERIES] = (uint64_t)d->n_heads * d->head_dim;
    needs->group = indexer_list(s);
    needs->position = (SLAB + d->pool - 1) / d->pool;
}

void indexer_work(const struct shape *s, struct mixer_work *work)
{
    const struct indexer_dims *d = &s->indexer;
    double heads = d->n_heads, dim = d->head_dim;
    work->token += heads * dim * s->q_lora_rank + s->hidden_size * (row_width(d) + heads);
    work->score = heads * dim / d->pool;
}

uint32_t indexer_dense_rows(const struct pass *pass)
{
    uint32_t all = indexer_list(pass->shape); // a list has room for as many positions
    uint32_t dense = pass->position < all ? all - pass->position : 0;
    return dense < pass->rows ? dense : pass->rows;
}

static struct rows keys_of(const struct pass *pass)
{
    const struct indexer_dims *d = &pass->shape->indexer;
    return scratch_mixer(pass->scratch, INDEXER_KEYS, row_width(d) + d->n_heads);
}

static struct rows weights_of(const struct pass *pass)
{
    struct rows weights = keys_of(pass);
    weights.offset += row_width(&pass->shape->indexer);
    return weights;
}

uint32_t indexer_products(const struct pass *pass, const struct indexer_weights *w,
                          struct projection products[INDEXER_PRODUCTS])
{
    products[0] = (struct projection){.matrix = &w->k, .to = keys_of(pass)};
    products[1] = (struct projection){.matrix = &w->weights, .to = weights_of(pass)};
    if (pass->shape->indexer.pool < 2)
        return 2;
    products[2] = (struct projection){.matrix = &w->gate, .to = keys_of(pass)};
    products[2].to.offset += pass->shape->indexer.head_dim;
    return 3;
}

void indexer_derive(const struct pass *pass, uint32_t layer)
{
    const struct indexer_dims *d = &pass->shape->indexer;
    const struct vector *ape = &pass->weights->layers[layer].indexer.ape;
    if (d->pool < 2)
        return;
    struct args_index_pool args = {
        .ape = ape->offset,
        .n_rows = pass->rows,
        .dim = d->head_dim,
        .pool = d->pool,
        .position = pass->position,
        .kv_type = pass->memory->type,
    };
    gpu_op_index_pool(pass->gpu, &args, ape->buf, pass_rows(pass, layer, INDEXER_STREAM),
                      pass_rows(pass, layer, INDEXER_POOLS));
}

static void append(const struct pass *pass, const struct indexer_weights *w, uint32_t layer)
{
    const struct shape *s = pass->shape;
    struct rows keys = keys_of(pass);
    struct args_index_append args = {
        .norm = w->norm.offset,
        .bias = w->bias.offset,
        .n_rows = pass->rows,
        .dim = s->indexer.head_dim,
        .rope_dim = s->qk_rope_head_dim,
        .in_stride = keys.stride,
        .in_offset = keys.offset,
        .position = pass->position,
        .kv_type = pass->memory->type,
        .interleaved = s->indexer.interleaved,
        .eps = 1e-6F, // in transformers' code, whatever rms_norm_eps is
        .scale = s->rope_scale,
        .n_behind = row_width(&s->indexer) - s->indexer.head_dim,
    };
    struct gpu_index_append_bufs bufs = {w->norm.buf, w->bias.buf, pass->weights->inv_freq, keys.buf,
                                         pass_rows(pass, layer, INDEXER_STREAM)};
    gpu_op_index_append(pass->gpu, &args, &bufs);
    indexer_derive(pass, layer);
}

// The same rows from the nth on.
static struct rows behind(struct rows rows, uint32_t n)
{
    rows.offset += n * rows.stride;
    return rows;
}

// Queries of the rows from `first` on, turned.
static void make_queries(const struct pass *pass, const struct indexer_weights *w, uint32_t first, struct rows q_lora)
{
    const struct indexer_dims *d = &pass->shape->indexer;
    struct rows q = behind(scratch_mixer(pass->scratch, INDEXER_QUERIES, d->n_heads * d->head_dim), first);
    struct pass rest = *pass;
    rest.rows -= first;
    pass_project(&rest, &(struct projection){.matrix = &w->q_b, .from = behind(q_lora, first), .to = q});
    struct args_rope args = {
        .n_rows = rest.rows,
        .n_heads = d->n_heads,
        .row_stride = q.stride,
        .head_stride = d->head_dim,
        .offset = q.offset,
        .rope_dim = pass->shape->qk_rope_head_dim,
        .position = pass->position + first,
        .interleaved = d->interleaved,
        .scale = pass->shape->rope_scale,
    };
    if (args.rope_dim)
        gpu_op_rope(pass->gpu, &args, pass->weights->inv_freq, q.buf);
}

// n rows from `first` on, which all have lists.
static void choose(const struct pass *pass, uint32_t layer, uint32_t first, uint32_t n)
{
    const struct indexer_dims *d = &pass->shape->indexer;
    struct rows q = behind(scratch_mixer(pass->scratch, INDEXER_QUERIES, d->n_heads * d->head_dim), first);
    struct rows weight = behind(weights_of(pass), first);
    gpu_buf *scores = pass->scratch->buf[SCRATCH_POSITIONS];
    gpu_buf *keys = pass_rows(pass, layer, d->pool > 1 ? INDEXER_POOLS : INDEXER_STREAM);
    uint32_t position = pass->position + first, length = (position + n) / d->pool;
    struct args_index_scores args = {
        .n_rows = n,
        .n_heads = d->n_heads,
        .dim = d->head_dim,
        .q_stride = q.stride,
        .q_offset = q.offset,
        .weight_stride = weight.stride,
        .weight_offset = weight.offset,
        .position = position,
        .kv_type = pass->memory->type,
        .out_stride = length,
        .scale = (float)(1 / sqrt((double)d->head_dim * d->n_heads)),
        .pool = d->pool,
    };
    struct gpu_index_scores_bufs bufs = {q.buf, weight.buf, keys, scores};
    gpu_op_index_scores(pass->gpu, &args, &bufs);
    struct args_index_choice choice = {
        .n_rows = n,
        .top_k = d->top_k / d->pool,
        .position = position,
        .in_stride = length,
        .first = (pass->first + first) * indexer_list(pass->shape),
        .pool = d->pool,
    };
    gpu_op_index_choice(pass->gpu, &choice, scores, pass->scratch->buf[SCRATCH_LISTS]);
}

void indexer_choose(const struct pass *pass, uint32_t layer, struct rows q_lora)
{
    const struct indexer_weights *w = &pass->weights->layers[layer].indexer;
    uint32_t first = indexer_dense_rows(pass);
    append(pass, w, layer);
    if (first == pass->rows)
        return;
    make_queries(pass, w, first, q_lora);
    for (uint32_t n; first < pass->rows; first += n) {
        n = pass->rows - first < SLAB ? pass->rows - first : SLAB;
        choose(pass, layer, first, n);
    }
}
