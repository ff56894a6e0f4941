// SPDX-License-Identifier: GPL-3.0-or-later
// The way of routed experts into a latent space and back.
#include "engine/walk/latent.h"

static struct rows rows_of(const struct pass *pass, enum scratch_name name)
{
    uint32_t size = pass->shape->latent_size;
    return (struct rows){pass->scratch->buf[name], size, pass->first * size};
}

void latent_begin(const struct pass *pass, uint32_t layer, struct rows x)
{
    uint64_t size = pass->shape->latent_size;
    if (!size)
        return;
    struct projection in = {&pass->weights->layers[layer].latent_in, x, rows_of(pass, SCRATCH_LATENT), false};
    pass_project(pass, &in);
    struct args_clear clear = {.first = pass->first * size, .n = pass->rows * size};
    gpu_op_clear(pass->gpu, &clear, pass->scratch->buf[SCRATCH_LATENT_SUM]);
}

void latent_end(const struct pass *pass, uint32_t layer)
{
    const struct layer_weights *w = &pass->weights->layers[layer];
    struct pass chunk = *pass;
    for (uint32_t done = 0; pass->shape->latent_size && done < pass->rows; done += chunk.rows) {
        uint32_t left = pass->rows - done;
        chunk.first = pass->first + done;
        chunk.rows = left < pass->scratch->rows ? left : pass->scratch->rows;
        struct rows normed = rows_of(&chunk, SCRATCH_LATENT);
        struct normalisation norm = {&w->latent_norm, rows_of(&chunk, SCRATCH_LATENT_SUM), normed,
                                     pass->shape->latent_size, pass->shape->rms_norm_eps};
        pass_norm(&chunk, &norm);
        stream_add(&chunk, &w->latent_out, normed);
    }
}

struct rows latent_read(const struct pass *pass)
{
    return pass->shape->latent_size ? rows_of(pass, SCRATCH_LATENT) : stream_read_last(pass);
}

void latent_add_ranked(const struct pass *pass, uint32_t layer, uint32_t first_weight)
{
    const struct shape *s = pass->shape;
    gpu_buf *const *buf = pass->scratch->buf;
    if (!s->latent_size) {
        stream_add_ranked(pass, layer, first_weight);
        return;
    }
    struct args_combine args = {.n_partials = s->top_k, .dim = s->latent_size, .first_weight = first_weight};
    gpu_op_combine(pass->gpu, &args, buf[SCRATCH_EXPERT_OUT], buf[SCRATCH_ROUTER_WEIGHTS], buf[SCRATCH_LATENT_SUM]);
}

void latent_add_rows(const struct pass *pass, const struct args_gather *args)
{
    gpu_buf *const *buf = pass->scratch->buf;
    if (!pass->shape->latent_size) {
        stream_add_rows(pass, args);
        return;
    }
    struct gpu_scatter_bufs bufs = {buf[SCRATCH_EXPERT_OUT], buf[SCRATCH_EXPERT_INDEX], buf[SCRATCH_EXPERT_WEIGHT],
                                    buf[SCRATCH_EXPERT_CHAIN], buf[SCRATCH_LATENT_SUM]};
    gpu_op_scatter_add(pass->gpu, args, &bufs);
}
