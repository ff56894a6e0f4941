// SPDX-License-Identifier: GPL-3.0-or-later
// Sizes and allocates a session's activations.
#include "engine/walk/scratch.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

// Logits of a chunk are computed in pieces of at most this many bytes when every position is asked for.
enum { LOGIT_BYTES = 64 << 20 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// Elements (4 bytes each) of every buffer.
static void measure(const struct scratch_options *options, const struct scratch *scratch,
                    uint64_t elements[SCRATCH_COUNT])
{
    const struct shape *s = options->shape;
    uint64_t rows = scratch->rows;
    uint64_t group = scratch->group;
    uint64_t shared = s->shared_intermediate_size;
    uint64_t mlp = larger(s->intermediate_size, shared);
    elements[SCRATCH_IDS] = group;
    for (uint32_t layer = 0; layer < s->n_layers; layer++) {
        struct mixer_needs needs = mixer_needs(s, layer);
        for (int i = 0; i < MIXER_BUFFERS; i++)
            elements[SCRATCH_MIXER + i] = larger(elements[SCRATCH_MIXER + i], rows * needs.chunk[i]);
        elements[SCRATCH_LISTS] = larger(elements[SCRATCH_LISTS], group * needs.group);
    }
    elements[SCRATCH_MLP] = larger(larger(rows * mlp, (uint64_t)scratch->expert_rows * s->moe_intermediate_size),
                                   (uint64_t)s->top_k * s->moe_intermediate_size + shared);
    elements[SCRATCH_SHARED_GATE] = s->has_shared_gate ? rows : 0;
    elements[SCRATCH_ROUTER_LOGITS] = rows * s->n_routed_experts;
    uint64_t choices = larger(rows, s->n_layers - s->first_k_dense_replace) * s->top_k;
    elements[SCRATCH_ROUTER_IDS] = elements[SCRATCH_ROUTER_WEIGHTS] = choices;
    elements[SCRATCH_EXPERT_INDEX] = group * s->top_k;
    elements[SCRATCH_EXPERT_WEIGHT] = group * s->top_k;
    elements[SCRATCH_EXPERT_CHAIN] = 2 * group * s->top_k;
    elements[SCRATCH_EXPERT_IN] = (uint64_t)scratch->expert_rows * shape_expert_size(s);
    elements[SCRATCH_LATENT] = elements[SCRATCH_LATENT_SUM] = group * s->latent_size;
    uint64_t wide = larger(s->hidden_size, s->latent_size); // a token's experts and the shared one's are side by side
    elements[SCRATCH_EXPERT_OUT] = larger(scratch->expert_rows, (uint64_t)s->top_k + 1) * wide;
    elements[SCRATCH_LOGITS] = (uint64_t)scratch->logit_rows * s->vocab_size;
}

static int allocate_host(const struct shape *s, struct scratch *scratch)
{
    uint32_t n_moe_layers = s->n_layers - s->first_k_dense_replace;
    size_t chosen = (size_t)larger(scratch->group, n_moe_layers) * s->top_k;
    uint64_t back = larger((uint64_t)scratch->group * s->hidden_size, (uint64_t)scratch->logit_rows * s->vocab_size);
    scratch->expert_index = calloc(chosen, sizeof *scratch->expert_index);
    scratch->expert_weight = calloc(chosen, sizeof *scratch->expert_weight);
    scratch->expert_chain = calloc(chosen, 2 * sizeof *scratch->expert_chain);
    scratch->chain_last = calloc(scratch->group, sizeof *scratch->chain_last);
    scratch->expert_first = calloc((size_t)s->n_routed_experts + 2, sizeof *scratch->expert_first);
    scratch->host_rows = calloc(back, sizeof *scratch->host_rows);
    return scratch->expert_index && scratch->expert_weight && scratch->expert_chain && scratch->chain_last &&
           scratch->expert_first && scratch->host_rows;
}

uint64_t scratch_row_bytes(const struct shape *shape, uint32_t expert_rows)
{
    uint64_t elements[SCRATCH_COUNT] = {0}, sum = 0;
    measure(&(struct scratch_options){.shape = shape}, &(struct scratch){.rows = 1, .expert_rows = expert_rows},
            elements);
    for (int i = 0; i < SCRATCH_COUNT; i++)
        sum += elements[i];
    return sum * sizeof(float);
}

uint64_t scratch_group_bytes(const struct shape *shape)
{
    uint64_t lists = 0;
    for (uint32_t layer = 0; layer < shape->n_layers; layer++)
        lists = larger(lists, mixer_needs(shape, layer).group);
    return sizeof(float) * (1 + 4 * (uint64_t)shape->top_k + lists + 2 * (uint64_t)shape->latent_size);
}

uint64_t scratch_position_bytes(const struct shape *shape)
{
    uint64_t floats = 0;
    for (uint32_t layer = 0; layer < shape->n_layers; layer++)
        floats = larger(floats, mixer_needs(shape, layer).position);
    return floats * sizeof(float);
}

int scratch_open(gpu *g, const struct scratch_options *options, struct scratch *scratch, struct moe_err *err)
{
    const struct shape *shape = options->shape;
    uint32_t rows = options->rows, group = options->group;
    memset(scratch, 0, sizeof *scratch);
    scratch->rows = rows;
    scratch->expert_rows = options->expert_rows;
    scratch->group = group;
    scratch->position_bytes = scratch_position_bytes(shape);
    uint64_t fit = LOGIT_BYTES / (sizeof(float) * (uint64_t)shape->vocab_size);
    scratch->logit_rows = fit < 1 ? 1 : fit < rows ? (uint32_t)fit : rows;
    if (!allocate_host(shape, scratch))
        return moe_fail(err, MOE_NO_MEMORY, "no host memory for groups of %u tokens; ask for a smaller --group", group);
    struct gpu_error err_of_host;
    scratch->gpu = g;
    uint64_t chosen = larger(group, shape->n_layers - shape->first_k_dense_replace) * shape->top_k;
    uint64_t vocab = shape->vocab_size;
    scratch->last_rows[0] = gpu_host_alloc(g, 2 * (vocab + chosen) * sizeof(float), &err_of_host);
    if (!scratch->last_rows[0])
        return moe_fail_gpu(err, &err_of_host);
    scratch->last_rows[1] = scratch->last_rows[0] + vocab;
    scratch->router_weights = scratch->last_rows[1] + vocab;
    scratch->router_ids = (int32_t *)(scratch->router_weights + chosen);
    uint64_t elements[SCRATCH_COUNT] = {0};
    measure(options, scratch, elements);
    for (int i = 0; i < SCRATCH_COUNT; i++) {
        struct gpu_error device;
        if (!elements[i]) // a mixer's that there is no use for
            continue;
        scratch->buf[i] = gpu_buf_new(g, elements[i] * sizeof(float), &device);
        if (!scratch->buf[i])
            return moe_fail_gpu(err, &device);
    }
    return MOE_OK;
}

int scratch_reserve(struct scratch *scratch, uint32_t positions, struct moe_err *err)
{
    gpu_buf **buf = &scratch->buf[SCRATCH_POSITIONS];
    uint64_t bytes = positions * scratch->position_bytes;
    struct gpu_error device;
    if (!bytes || (*buf && gpu_buf_bytes(*buf) >= bytes))
        return MOE_OK;
    gpu_buf *grown = gpu_buf_new(scratch->gpu, bytes, &device);
    if (!grown)
        return moe_fail(err, MOE_NO_MEMORY,
                        "no memory to choose among %u tokens: %.200s; give a smaller --expert-cache or --context",
                        positions, device.text);
    gpu_buf_free(*buf);
    *buf = grown;
    return MOE_OK;
}

void scratch_release(struct scratch *scratch)
{
    for (int i = 0; i < SCRATCH_COUNT; i++)
        gpu_buf_free(scratch->buf[i]);
    free(scratch->expert_index);
    free(scratch->expert_weight);
    free(scratch->expert_chain);
    free(scratch->chain_last);
    free(scratch->expert_first);
    free(scratch->host_rows);
    if (scratch->last_rows[0])
        gpu_host_free(scratch->gpu, scratch->last_rows[0]);
    memset(scratch, 0, sizeof *scratch);
}
