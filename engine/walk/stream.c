// SPDX-License-Identifier: GPL-3.0-or-later
// The residual stream, and the plain residual: one vector a token, to which everything is added. A decoded token's
// norms are no launches: they come with the products of whoever reads. The plain one's last, whose groups are too many
// for that, comes with the last sum.
#include "engine/walk/pass.h"

#include "engine/base/err.h"

double stream_worth(const struct stream_reach *reach, uint32_t rows, const struct shape *shape)
{
    if (!rows || reach->layer >= shape->n_layers)
        return rows;
    double begun = (double)reach->rows / rows, experts = (double)reach->expert / shape->n_routed_experts;
    double layers = reach->layer + (shape_is_moe(shape, reach->layer) ? (begun + experts) / 2 : begun);
    return rows * layers / shape->n_layers;
}

uint32_t stream_tokens(const struct stream_reach *reach, uint32_t rows, const struct shape *shape)
{
    return (uint32_t)stream_worth(reach, rows, shape);
}

const struct residual *residual_of(const struct shape *shape)
{
    return shape->hyper.n_streams ? &residual_hyper : shape->bank_every ? &residual_bank : &residual_plain;
}

uint64_t stream_group_bytes(const struct shape *shape)
{
    const struct residual *residual = residual_of(shape);
    uint64_t own = residual->group_floats ? residual->group_floats(shape) : 0;
    return sizeof(float) * (2 * (uint64_t)shape->hidden_size + own);
}

uint32_t stream_most_group(const struct shape *shape)
{
    uint64_t together = (stream_group_bytes(shape) + scratch_group_bytes(shape)) / sizeof(float); // as wide as any
    return (uint32_t)(UINT32_MAX / together);
}

int stream_open(const struct stream_options *options, struct stream *stream, struct moe_err *err)
{
    uint64_t bytes = sizeof(float) * options->group * (uint64_t)options->shape->hidden_size;
    struct gpu_error device;
    *stream = (struct stream){.residual = residual_of(options->shape),
                              .group = options->group,
                              .unfused = options->without & MOE_WITHOUT_FUSED};
    stream->hidden = gpu_buf_new(options->gpu, bytes, &device);
    stream->normed = stream->hidden ? gpu_buf_new(options->gpu, bytes, &device) : NULL;
    int code = stream->normed ? MOE_OK : moe_fail_gpu(err, &device);
    if (!code && stream->residual->open)
        code = stream->residual->open(options, stream, err);
    if (code)
        stream_release(stream);
    return code;
}

void stream_release(struct stream *stream)
{
    gpu_buf_free(stream->hidden);
    gpu_buf_free(stream->normed);
    for (int i = 0; i < RESIDUAL_BUFFERS; i++)
        gpu_buf_free(stream->own[i]);
    *stream = (struct stream){0};
}

static struct rows rows_of(const struct pass *pass, gpu_buf *buf)
{
    uint32_t hidden = pass->shape->hidden_size;
    return (struct rows){buf, hidden, pass->first * hidden};
}

void stream_begin(const struct pass *pass)
{
    struct args_embed args = {.table = pass->weights->embed.at, .n_rows = pass->rows};
    pass->stream->head_is_normed = false;
    pass->stream->reach = (struct stream_reach){0};
    gpu_op_embed(pass->gpu, &args, pass->weights->embed.buf, pass->scratch->buf[SCRATCH_IDS], pass->stream->hidden);
}

bool stream_is_simple(const struct pass *pass)
{
    return !pass->stream->unfused && pass->stream->residual == &residual_plain;
}

static const struct vector *norm_of(const struct pass *pass, uint32_t layer, enum site site)
{
    if (site == SITE_HEAD)
        return &pass->weights->norm;
    const struct layer_weights *w = &pass->weights->layers[layer];
    return site == SITE_MIXER ? &w->input_layernorm : &w->post_attention_layernorm;
}

static struct normalisation norm_into(const struct pass *pass, const struct vector *weight, struct rows from,
                                      struct rows to)
{
    return (struct normalisation){weight, from, to, pass->shape->hidden_size, pass->shape->rms_norm_eps};
}

struct rows stream_in(const struct pass *pass, uint32_t layer, enum site site)
{
    struct rows normed = rows_of(pass, pass->stream->normed);
    if (site == SITE_HEAD && pass->stream->head_is_normed)
        return normed;
    struct rows x = pass->stream->residual->read(pass, layer, site);
    struct normalisation norm = norm_into(pass, norm_of(pass, layer, site), x, normed);
    pass_norm(pass, &norm);
    return normed;
}

struct rows stream_project(const struct pass *pass, uint32_t layer, enum site site,
                           const struct projection *projections, uint32_t n)
{
    struct rows normed = rows_of(pass, pass->stream->normed);
    struct rows x = pass->stream->residual->read(pass, layer, site);
    struct normalisation norm = norm_into(pass, norm_of(pass, layer, site), x, normed);
    struct projection of[MOST_BESIDE];
    for (uint32_t k = 0; k < n; k++) {
        of[k] = projections[k];
        of[k].from = normed;
    }
    pass_norm_project(pass, &norm, of, n);
    return normed;
}

struct rows stream_read_last(const struct pass *pass)
{
    return rows_of(pass, pass->stream->normed);
}

void stream_peek(const struct pass *pass, uint32_t layer, struct rows to)
{
    struct rows x = pass->stream->residual->peek(pass, layer);
    struct normalisation norm = norm_into(pass, norm_of(pass, layer, SITE_FFN), x, to);
    pass_norm(pass, &norm);
}

void stream_add(const struct pass *pass, const struct matrix *matrix, struct rows from)
{
    pass_project(pass, &(struct projection){matrix, from, rows_of(pass, pass->stream->hidden), true});
}

void stream_add_ranked(const struct pass *pass, uint32_t layer, uint32_t first_weight)
{
    const struct shape *s = pass->shape;
    gpu_buf *partial = pass->scratch->buf[SCRATCH_EXPERT_OUT], *weight = pass->scratch->buf[SCRATCH_ROUTER_WEIGHTS];
    if (!stream_is_simple(pass) || layer + 1 < s->n_layers) {
        struct args_combine args = {.n_partials = s->top_k, .dim = s->hidden_size, .first_weight = first_weight};
        gpu_op_combine(pass->gpu, &args, partial, weight, pass->stream->hidden);
        return;
    }
    pass->stream->head_is_normed = true;
    const struct vector *norm = norm_of(pass, s->n_layers, SITE_HEAD);
    struct args_combine_norm args = {.norm = norm->offset,
                                     .n_partials = s->top_k,
                                     .dim = s->hidden_size,
                                     .first_weight = first_weight,
                                     .eps = s->rms_norm_eps};
    struct gpu_combine_bufs bufs = {partial, weight, pass->stream->hidden, norm->buf, pass->stream->normed};
    gpu_op_combine_norm(pass->gpu, &args, &bufs);
}

void stream_add_experts(const struct pass *pass, const struct args_add_experts *args, const struct gpu_experts_bufs *of)
{
    gpu_buf *const *buf = pass->scratch->buf;
    struct gpu_add_experts_bufs bufs = {*of, buf[SCRATCH_ROUTER_WEIGHTS], buf[SCRATCH_EXPERT_OUT],
                                        pass->stream->hidden};
    gpu_op_add_experts(pass->gpu, args, &bufs);
}

void stream_add_rows(const struct pass *pass, const struct args_gather *args)
{
    gpu_buf *const *buf = pass->scratch->buf;
    struct gpu_scatter_bufs bufs = {buf[SCRATCH_EXPERT_OUT], buf[SCRATCH_EXPERT_INDEX], buf[SCRATCH_EXPERT_WEIGHT],
                                    buf[SCRATCH_EXPERT_CHAIN], pass->stream->hidden};
    gpu_op_scatter_add(pass->gpu, args, &bufs);
}

int stream_read(const struct pass *pass, float *rows, struct moe_err *err)
{
    struct gpu_error device;
    uint64_t bytes = sizeof *rows * pass->rows * pass->shape->hidden_size;
    const struct stream *stream = pass->stream;
    gpu_buf *shown = stream->residual->show ? stream->residual->show(pass).buf : stream->hidden;
    return gpu_read(pass->gpu, shown, 0, rows, bytes, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
}

static struct rows read_plain(const struct pass *pass, uint32_t layer, enum site site)
{
    (void)layer, (void)site; // all get the same
    return rows_of(pass, pass->stream->hidden);
}

static struct rows peek_plain(const struct pass *pass, uint32_t layer)
{
    return read_plain(pass, layer, SITE_FFN);
}

const struct residual residual_plain = {.read = read_plain, .peek = peek_plain};
