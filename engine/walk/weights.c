// SPDX-License-Identifier: GPL-3.0-or-later
// What a model wants of its files, but for the routed experts: embeddings, norms, MLPs, routers, head; and whatever
// the layers' mixers want.
#include "engine/walk/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/checkpoint.h"
#include "engine/walk/loader.h"
#include "engine/walk/mixer.h"
#include "engine/walk/stream.h"

static void want_ffn(struct loader *l, struct layer_weights *w, bool moe)
{
    const struct shape *s = l->shape;
    uint32_t hidden = s->hidden_size;
    uint32_t inner = moe ? s->shared_intermediate_size : s->intermediate_size;
    struct want pair[2] = {
        {.matrix = &w->gate, .out_dim = inner, .in_dim = hidden},
        {.matrix = &w->up, .out_dim = inner, .in_dim = hidden},
    };
    static const char *const stems[3][3] = {
        {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
        {"mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"},
        {"mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"},
    };
    const char *const *stem = stems[!moe ? 0 : loader_has(l, stems[2][0]) ? 2 : 1]; // Qwen's own files have one
    pair[0].stem = stem[0];
    pair[1].stem = stem[1];
    if (inner) {
        loader_matrices(l, pair, 2);
        loader_matrix(l, &w->down, stem[2], hidden, inner);
    }
    if (moe && s->latent_size) {
        loader_matrix(l, &w->latent_in, "mlp.routed_expert_down_proj", s->latent_size, hidden);
        loader_vector(l, &w->latent_norm, "mlp.routed_expert_norm.weight", s->latent_size);
        loader_matrix(l, &w->latent_out, "mlp.routed_expert_up_proj", hidden, s->latent_size);
    }
    if (moe && s->has_shared_gate)
        loader_matrix(l, &w->shared_gate, "mlp.shared_expert_gate", 1, hidden);
    if (moe)
        loader_matrix(l, &w->router, "mlp.gate", s->n_routed_experts, hidden);
    if (moe && s->has_correction_bias)
        loader_vector(l, &w->router_bias, "mlp.gate.e_score_correction_bias", s->n_routed_experts);
}

// Do these files hold norms less one? transformers' do, MLX and GGUF add it. Never told by values: by the shape of the
// convolution, whose dimensions MLX exchanged at the same time.
static bool norms_lack_one(const struct loader *l)
{
    const struct shape *s = l->shape;
    for (uint32_t i = 0; s->norms_from_one && !l->from->gguf && i < s->n_layers; i++) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.%" PRIu32 ".linear_attn.conv1d.weight", i);
        const struct checkpoint_tensor *conv = checkpoint_find(l->from, name);
        if (conv)
            return conv->at->n_dims == 3 && conv->at->dims[2] != 1;
    }
    return s->norms_from_one && !l->from->gguf;
}

static int want_all(struct loader *l)
{
    const struct shape *s = l->shape;
    struct weights *w = l->weights;
    const struct residual *residual = residual_of(s);
    l->norms_plus_one = norms_lack_one(l);
    loader_matrix(l, &w->embed, "model.embed_tokens", s->vocab_size, s->hidden_size);
    for (uint32_t i = 0; i < s->n_layers && !l->failed; i++) {
        struct layer_weights *layer = &w->layers[i];
        loader_enter(l, i);
        loader_norm(l, &layer->input_layernorm, "input_layernorm.weight", s->hidden_size);
        mixer_of(s, i)->want(l, layer);
        loader_norm(l, &layer->post_attention_layernorm, "post_attention_layernorm.weight", s->hidden_size);
        want_ffn(l, layer, shape_is_moe(s, i));
        if (residual->want)
            residual->want(l, layer);
    }
    loader_leave(l);
    loader_norm(l, &w->norm, "model.norm.weight", s->hidden_size);
    if (residual->want_head)
        residual->want_head(l, w);
    if (s->tie_word_embeddings)
        w->head = w->embed;
    else
        loader_matrix(l, &w->head, "lm_head", s->vocab_size, s->hidden_size);
    loader_refuse_others(l);
    return l->failed;
}

static int add_inv_freq(struct loader *l)
{
    uint64_t bytes = shape_frequencies(l->shape) * sizeof(float);
    struct gpu_error gpu_err;
    if (!bytes)
        return MOE_OK;
    l->weights->inv_freq = gpu_buf_new(l->g, bytes, &gpu_err);
    if (!l->weights->inv_freq)
        return moe_fail_gpu(l->err, &gpu_err);
    float *values = malloc(bytes);
    if (!values)
        return moe_fail(l->err, MOE_NO_MEMORY, "no memory for the rope's frequencies");
    shape_inv_freq(l->shape, values);
    gpu_write(l->g, l->weights->inv_freq, 0, values, bytes);
    free(values);
    l->weights->bytes += bytes;
    return gpu_check(l->g, &gpu_err) ? moe_fail_gpu(l->err, &gpu_err) : MOE_OK;
}

static int load(struct loader *l, const struct weights_source *source)
{
    l->weights->layers = calloc(l->shape->n_layers, sizeof *l->weights->layers);
    int code = l->weights->layers ? loader_begin(l) : moe_fail(l->err, MOE_NO_MEMORY, "no memory for layers");
    if (!code)
        code = want_all(l);
    if (!code && l->g)
        code = loader_read(l, source->progress, source->progress_context);
    if (!code && l->g)
        code = add_inv_freq(l);
    loader_end(l);
    if (code)
        weights_release(l->weights);
    return code;
}

int weights_check(const struct shape *shape, const struct checkpoint *from, struct moe_err *err)
{
    struct weights weights = {0};
    struct loader l = {
        .shape = shape, .from = from, .remedy = "download the model again", .weights = &weights, .err = err};
    int code = load(&l, NULL);
    weights_release(&weights);
    return code;
}

int weights_open_package(const char *directory, struct package *package, struct moe_err *err)
{
    int code = package_open(directory, package, err);
    if (code || (package->kind != FOLDER_MLX && package->kind != GGUF_FILES))
        return code;
    code = weights_check(&package->shape, package->checkpoint, err);
    if (code)
        package_release(package);
    return code;
}

int weights_load(gpu *g, const struct weights_source *source, struct weights *weights, struct moe_err *err)
{
    const struct package *package = source->package;
    struct loader l = {.g = g, .shape = &package->shape, .weights = weights, .err = err};
    memset(weights, 0, sizeof *weights);
    if (package->checkpoint) {
        l.from = package->checkpoint;
        l.remedy = "download the model again";
        return load(&l, source);
    }
    struct checkpoint file;
    int code = package_open_resident(package, &file, err);
    if (code)
        return code;
    l.from = &file;
    l.remedy = "convert the model again";
    code = load(&l, source);
    checkpoint_release(&file);
    return code;
}

void weights_release(struct weights *weights)
{
    for (size_t i = 0; i < weights->n_slabs; i++)
        gpu_buf_free(weights->slabs[i]);
    gpu_buf_free(weights->inv_freq);
    free(weights->slabs);
    free(weights->layers);
    memset(weights, 0, sizeof *weights);
}
