// SPDX-License-Identifier: GPL-3.0-or-later
// Attention residuals, as Kimi K3 has them: whoever reads gets a mixture of the residual stream and of a bank of what
// it was at earlier layers, by a softmax over all of them. At every bank_every-th layer the stream joins the bank once
// it was read, and begins anew with what that layer's mixer says. No class of transformers has it; the formulas are
// those of the makers' own code, as described in docs/models.md.
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/walk/loader.h"
#include "engine/walk/pass.h"

enum { BANK_READ, BANK_ENTRIES }; // [group, hidden_size], what was mixed last; [group, entries, hidden_size]

// Entries once all layers before this one have read.
static uint32_t entries_before(const struct shape *s, uint32_t layer)
{
    return (layer + s->bank_every - 1) / s->bank_every;
}

static uint64_t group_floats(const struct shape *s)
{
    return s->hidden_size * (UINT64_C(1) + entries_before(s, s->n_layers));
}

static int open_bank(const struct stream_options *options, struct stream *stream, struct moe_err *err)
{
    const struct shape *s = options->shape;
    uint64_t bytes = sizeof(float) * options->group * (uint64_t)s->hidden_size;
    struct gpu_error device;
    stream->own[BANK_READ] = gpu_buf_new(options->gpu, bytes, &device);
    if (stream->own[BANK_READ])
        stream->own[BANK_ENTRIES] = gpu_buf_new(options->gpu, bytes * entries_before(s, s->n_layers), &device);
    return stream->own[BANK_ENTRIES] ? MOE_OK : moe_fail_gpu(err, &device);
}

// A mixture's weights, by what their names begin with: norm and proj, which may be stored as one row, or, as GGUF files
// have them, score, which is their product.
static void want_pair(struct loader *l, struct bank_weights *w, const char *stem)
{
    uint32_t hidden = l->shape->hidden_size;
    char norm[64], project[64], score[64];
    const char *proj = project;
    snprintf(norm, sizeof norm, "%s_norm.weight", stem);
    snprintf(project, sizeof project, "%s_proj.weight", stem);
    snprintf(score, sizeof score, "%s_score.weight", stem);
    if (loader_has_tensor(l, score)) {
        loader_ones(l, &w->norm, score, hidden);
        loader_vector(l, &w->proj, score, hidden);
        return;
    }
    loader_vector(l, &w->norm, norm, hidden);
    loader_numbers(l, &w->proj, &(struct want_numbers){&proj, 1, 1, hidden, false});
}

static void want(struct loader *l, struct layer_weights *w)
{
    want_pair(l, &w->bank[SITE_MIXER], "self_attention_res");
    want_pair(l, &w->bank[SITE_FFN], "mlp_res");
}

static void want_head(struct loader *l, struct weights *w)
{
    want_pair(l, &w->bank, "model.output_attn_res");
}

static struct rows rows_read(const struct pass *pass)
{
    uint32_t hidden = pass->shape->hidden_size;
    return (struct rows){pass->stream->own[BANK_READ], hidden, pass->first * hidden};
}

static struct rows mix(const struct pass *pass, const struct bank_weights *w, uint32_t n, bool appends)
{
    const struct shape *s = pass->shape;
    struct args_bank_mix args = {
        .norm = w->norm.offset,
        .proj = w->proj.offset,
        .n_rows = pass->rows,
        .dim = s->hidden_size,
        .first = pass->first,
        .to = pass->first,
        .n = n,
        .most = entries_before(s, s->n_layers),
        .appends = appends,
        .eps = s->rms_norm_eps,
    };
    gpu_buf *const *own = pass->stream->own;
    struct gpu_bank_bufs bufs = {w->norm.buf, w->proj.buf, pass->stream->hidden, own[BANK_ENTRIES], own[BANK_READ]};
    gpu_op_bank_mix(pass->gpu, &args, &bufs);
    return rows_read(pass);
}

static struct rows read_bank(const struct pass *pass, uint32_t layer, enum site site)
{
    const struct shape *s = pass->shape;
    if (site == SITE_HEAD)
        return mix(pass, &pass->weights->bank, entries_before(s, s->n_layers), false);
    const struct bank_weights *w = &pass->weights->layers[layer].bank[site];
    bool mixer = site == SITE_MIXER;
    return mix(pass, w, entries_before(s, mixer ? layer : layer + 1), mixer && layer % s->bank_every == 0);
}

// The last mixture, of this token, has been read.
static struct rows peek_bank(const struct pass *pass, uint32_t layer)
{
    const struct shape *s = pass->shape;
    return mix(pass, &pass->weights->layers[layer].bank[SITE_FFN], entries_before(s, layer), false);
}

const struct residual residual_bank = {.want = want,
                                       .want_head = want_head,
                                       .open = open_bank,
                                       .group_floats = group_floats,
                                       .read = read_bank,
                                       .peek = peek_bank};
