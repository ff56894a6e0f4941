// SPDX-License-Identifier: GPL-3.0-or-later
// Several residual streams, mixed by hyper-connections: whoever reads gets a weighted sum of them, and what it says
// goes into all of them, when the next one reads; the head gets their mean. The weights follow from the streams
// themselves. transformers: Glm5NextTextHyperConnection, Glm5NextTextHyperHead.
#include <assert.h>

#include "engine/base/err.h"
#include "engine/walk/loader.h"
#include "engine/walk/pass.h"

// Buffers of a group, and behind it one row more of each, for looking ahead.
enum {
    HYPER_ROWS,    // [group + 1, HYPER_STREAMS * hidden_size]: the streams
    HYPER_READ,    // [group + 1, hidden_size]: what is read of them
    HYPER_WEIGHED, // [group + 1, HYPER_LOGITS]
    HYPER_MIXED,   // [group + 1, HYPER_PARTS]: how the last reader's answer goes into them
    HYPER_BUFFERS
};
static_assert((int)HYPER_BUFFERS <= (int)RESIDUAL_BUFFERS, "each has its place");

static uint64_t floats_of(const struct shape *s, int buffer)
{
    uint64_t hidden = s->hidden_size;
    return buffer == HYPER_ROWS      ? HYPER_STREAMS * hidden
           : buffer == HYPER_READ    ? hidden
           : buffer == HYPER_WEIGHED ? HYPER_LOGITS
                                     : HYPER_PARTS;
}

static uint64_t group_floats(const struct shape *s)
{
    uint64_t all = 0;
    for (int i = 0; i < HYPER_BUFFERS; i++)
        all += floats_of(s, i);
    return all;
}

static int open_streams(const struct stream_options *options, struct stream *stream, struct moe_err *err)
{
    for (int i = 0; i < HYPER_BUFFERS; i++) {
        struct gpu_error device;
        uint64_t bytes = sizeof(float) * (options->group + UINT64_C(1)) * floats_of(options->shape, i);
        stream->own[i] = gpu_buf_new(options->gpu, bytes, &device);
        if (!stream->own[i])
            return moe_fail_gpu(err, &device);
    }
    return MOE_OK;
}

static void want(struct loader *l, struct layer_weights *w)
{
    static const struct {
        const char *fn, *base, *scale;
    } names[2] = {{"hc_attn_fn", "hc_attn_base", "hc_attn_scale"}, {"hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale"}};
    for (int site = 0; site < 2; site++) {
        struct hyper_weights *own = &w->hyper[site];
        loader_matrix(l, &own->fn, names[site].fn, HYPER_LOGITS, HYPER_STREAMS * l->shape->hidden_size);
        loader_vector(l, &own->base, names[site].base, HYPER_LOGITS);
        loader_vector(l, &own->scale, names[site].scale, HYPER_SCALES);
    }
}

// The buffer's rows from the nth of the group on.
static struct rows rows_from(const struct pass *pass, int buffer, uint32_t first)
{
    uint32_t stride = (uint32_t)floats_of(pass->shape, buffer);
    return (struct rows){pass->stream->own[buffer], stride, first * stride};
}

// What was said since the last reader, into the streams; rows go to `to` and what follows. Before the first reader they
// are what was said: the embeddings.
static struct args_hyper_spread spread_of(const struct pass *pass, uint32_t to, bool begins)
{
    return (struct args_hyper_spread){.n_rows = pass->rows,
                                      .dim = pass->shape->hidden_size,
                                      .first = pass->first,
                                      .to = to,
                                      .begins = begins,
                                      .keep = to != pass->first};
}

// A reader's sum of the streams in rows `first` and what follows.
static struct rows mix(const struct pass *pass, const struct hyper_weights *w, uint32_t first)
{
    const struct shape *s = pass->shape;
    gpu_buf *const *own = pass->stream->own;
    pass_project(pass, &(struct projection){&w->fn, rows_from(pass, HYPER_ROWS, first),
                                            rows_from(pass, HYPER_WEIGHED, first), false});
    struct args_hyper_mix args = {
        .base = w->base.offset,
        .scale = w->scale.offset,
        .n_rows = pass->rows,
        .dim = s->hidden_size,
        .first = first,
        .steps = s->hyper.iterations - 1,
        .norm_eps = s->rms_norm_eps,
        .eps = s->hyper.eps,
    };
    struct gpu_hyper_mix_bufs bufs = {w->base.buf,        w->scale.buf,     own[HYPER_ROWS],
                                      own[HYPER_WEIGHED], own[HYPER_MIXED], own[HYPER_READ]};
    gpu_op_hyper_mix(pass->gpu, &args, &bufs);
    return rows_from(pass, HYPER_READ, first);
}

static struct gpu_hyper_spread_bufs bufs_of(const struct pass *pass, int to)
{
    gpu_buf *const *own = pass->stream->own;
    return (struct gpu_hyper_spread_bufs){own[HYPER_MIXED], pass->stream->hidden, own[HYPER_ROWS], own[to]};
}

static struct rows mean(const struct pass *pass, bool begins)
{
    struct args_hyper_spread args = spread_of(pass, pass->first, begins);
    struct gpu_hyper_spread_bufs bufs = bufs_of(pass, HYPER_READ);
    gpu_op_hyper_mean(pass->gpu, &args, &bufs);
    return rows_from(pass, HYPER_READ, pass->first);
}

static struct rows read_streams(const struct pass *pass, uint32_t layer, enum site site)
{
    if (site == SITE_HEAD)
        return mean(pass, false);
    struct args_hyper_spread args = spread_of(pass, pass->first, layer == 0 && site == SITE_MIXER);
    struct gpu_hyper_spread_bufs bufs = bufs_of(pass, HYPER_ROWS);
    gpu_op_hyper_spread(pass->gpu, &args, &bufs);
    return mix(pass, &pass->weights->layers[layer].hyper[site], pass->first);
}

// In the row behind the group's.
static struct rows peek(const struct pass *pass, uint32_t layer)
{
    uint32_t behind = pass->stream->group;
    struct args_hyper_spread args = spread_of(pass, behind, false);
    struct gpu_hyper_spread_bufs bufs = bufs_of(pass, HYPER_ROWS);
    gpu_op_hyper_spread(pass->gpu, &args, &bufs);
    return mix(pass, &pass->weights->layers[layer].hyper[SITE_FFN], behind);
}

static struct rows show(const struct pass *pass)
{
    const struct stream_reach *reach = &pass->stream->reach;
    return mean(pass, reach->layer == 0 && reach->rows == 0);
}

const struct residual residual_hyper = {
    .want = want, .open = open_streams, .group_floats = group_floats, .read = read_streams, .peek = peek, .show = show};
