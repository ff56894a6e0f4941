// SPDX-License-Identifier: GPL-3.0-or-later
#include "weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "file.h"
#include "safetensors.h"

enum { TENSOR_ALIGNMENT = 64, SLAB_BYTES = 256 << 20, PIECE_BYTES = 8 << 20, NAME_BYTES = 160 };

// Where a tensor of the file goes.
struct piece {
    const struct tensor *tensor;
    gpu_buf *buf;
    uint64_t offset;
};

// First every tensor is found, checked and given a place (the first failure stays in `failed`), then all are read.
struct loader {
    gpu *g;
    const struct shape *shape;
    struct safetensors file;
    struct weights *weights;
    struct moe_err *err;
    int failed;
    bool *known; // [file.count]: tensors that the model has asked for
    struct piece *pieces;
    size_t n_pieces;
    uint64_t unplaced;           // aligned bytes of tensors that have no place yet
    uint64_t slab_used;          // of the last slab
    const char *in;              // "model.layers.N." in front of the names asked for
    char prefix[NAME_BYTES / 2]; // storage for it
};

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
}

// Finds tensor in + stem + suffix and marks it as known; NULL after failing.
static const struct tensor *find(struct loader *l, const char *stem, const char *suffix, enum tensor_dtype dtype)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s%s", l->in, stem, suffix);
    const struct tensor *tensor = l->failed ? NULL : safetensors_find(&l->file, name);
    if (l->failed)
        return NULL;
    if (!tensor) {
        l->failed = moe_fail(l->err, MOE_NO_TENSOR, "%.280s: tensor %s is missing; convert the model again",
                             l->file.path, name);
        return NULL;
    }
    l->known[tensor - l->file.tensors] = true;
    if (tensor->dtype == dtype)
        return tensor;
    l->failed =
        moe_fail(l->err, MOE_FORMAT, "%.280s: tensor %s has another dtype than packages have", l->file.path, name);
    return NULL;
}

static void refuse_shape(struct loader *l, const struct tensor *tensor, const char *want)
{
    char dims[100] = "";
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        size_t used = strlen(dims);
        snprintf(dims + used, sizeof dims - used, "%s%" PRIu64, i ? ", " : "", tensor->dims[i]);
    }
    l->failed = moe_fail(l->err, MOE_FORMAT, "%.240s: tensor %.100s is [%s]; model.json's config makes it %s",
                         l->file.path, tensor->name, dims, want);
}

// Reserves `bytes` in one buffer: the last slab, or a new one.
static gpu_buf *reserve(struct loader *l, uint64_t bytes, uint64_t *offset)
{
    struct weights *w = l->weights;
    uint64_t most = gpu_describe(l->g)->max_alloc_bytes / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
    gpu_buf *last = w->n_slabs ? w->slabs[w->n_slabs - 1] : NULL;
    if (!last || gpu_buf_bytes(last) - l->slab_used < bytes) {
        uint64_t size = l->unplaced < SLAB_BYTES ? l->unplaced : SLAB_BYTES;
        size = size < most ? size : most;
        size = size > bytes ? size : bytes;
        if (size > most) {
            l->failed = moe_fail(l->err, MOE_NO_MEMORY,
                                 "%s: a matrix of %" PRIu64 " bytes is more than the device gives at once (%" PRIu64
                                 "); choose another device",
                                 gpu_describe(l->g)->name, bytes, most);
            return NULL;
        }
        struct gpu_error gpu_err;
        last = gpu_buf_new(l->g, size, &gpu_err);
        if (!last) {
            l->failed = moe_fail_gpu(l->err, &gpu_err);
            return NULL;
        }
        w->slabs[w->n_slabs++] = last; // room for one slab a tensor
        w->bytes += size;
        l->slab_used = 0;
    }
    *offset = l->slab_used;
    l->slab_used += bytes;
    l->unplaced -= bytes;
    return last;
}

static uint64_t place(struct loader *l, const struct tensor *tensor, gpu_buf *buf, uint64_t *offset)
{
    uint64_t at = *offset;
    l->pieces[l->n_pieces++] = (struct piece){tensor, buf, at};
    *offset += aligned(tensor->bytes);
    return at;
}

static void add_vector(struct loader *l, struct vector *vector, const char *name, enum tensor_dtype dtype, uint32_t dim)
{
    const struct tensor *tensor = find(l, name, "", dtype);
    if (!tensor)
        return;
    if (tensor->n_dims != 1 || tensor->dims[0] != dim) {
        char want[32];
        snprintf(want, sizeof want, "[%" PRIu32 "]", dim);
        refuse_shape(l, tensor, want);
        return;
    }
    uint64_t offset;
    vector->buf = reserve(l, aligned(tensor->bytes), &offset);
    if (!l->failed)
        vector->offset = place(l, tensor, vector->buf, &offset);
}

// A matrix that the model asks for, and the file's tensors for it.
struct want {
    struct matrix *matrix;
    const char *stem;
    uint32_t out_dim, in_dim;
    const struct tensor *parts[3]; // words, scales, biases
};

static void find_matrix(struct loader *l, struct want *want)
{
    static const char *const suffixes[] = {".weight", ".scales", ".biases"};
    struct args_matrix *at = &want->matrix->at;
    at->in_dim = want->in_dim;
    at->out_dim = want->out_dim;
    for (int i = 0; i < 3; i++) {
        const struct tensor *part = find(l, want->stem, suffixes[i], i ? DTYPE_BF16 : DTYPE_U32);
        want->parts[i] = part;
        char text[64];
        snprintf(text, sizeof text, "[%" PRIu32 ", %s]", want->out_dim, i ? "inputs/group" : "inputs*bits/32");
        if (part && (part->n_dims != 2 || part->dims[0] != want->out_dim))
            refuse_shape(l, part, text);
        if (l->failed)
            return;
    }
    uint64_t groups = want->parts[1]->dims[1];
    if (!package_quantisation(at, want->parts[0]->dims[1], groups) || want->parts[2]->dims[1] != groups) {
        char text[96];
        snprintf(text, sizeof text, "%" PRIu32 " inputs of 4 or 8 bits in groups of 32, 64 or 128", want->in_dim);
        refuse_shape(l, want->parts[0], text);
    }
}

// One or two matrices, all in one buffer.
static void add_matrices(struct loader *l, struct want *wants, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        find_matrix(l, &wants[i]);
        for (int part = 0; !l->failed && part < 3; part++)
            bytes += aligned(wants[i].parts[part]->bytes);
    }
    if (l->failed)
        return;
    const struct args_matrix *first = &wants[0].matrix->at;
    const struct args_matrix *last = &wants[n - 1].matrix->at;
    if (first->bits != last->bits || first->group_size != last->group_size) {
        l->failed =
            moe_fail(l->err, MOE_FORMAT, "%.280s: %s%s and %s are quantised differently; convert the model again",
                     l->file.path, l->in, wants[0].stem, wants[n - 1].stem);
        return;
    }
    uint64_t offset;
    gpu_buf *buf = reserve(l, bytes, &offset);
    for (size_t i = 0; !l->failed && i < n; i++) {
        wants[i].matrix->buf = buf;
        wants[i].matrix->at.weight = place(l, wants[i].parts[0], buf, &offset);
        wants[i].matrix->at.scales = place(l, wants[i].parts[1], buf, &offset);
        wants[i].matrix->at.biases = place(l, wants[i].parts[2], buf, &offset);
    }
}

static void add_matrix(struct loader *l, struct matrix *matrix, const char *stem, uint32_t out_dim, uint32_t in_dim)
{
    add_matrices(l, &(struct want){.matrix = matrix, .stem = stem, .out_dim = out_dim, .in_dim = in_dim}, 1);
}

static void add_attention(struct loader *l, struct layer_weights *w)
{
    const struct shape *s = l->shape;
    uint32_t hidden = s->hidden_size;
    uint32_t q_out = s->n_heads * (s->qk_nope_head_dim + s->qk_rope_head_dim);
    add_vector(l, &w->input_layernorm, "input_layernorm.weight", DTYPE_BF16, hidden);
    if (s->q_lora_rank) {
        add_matrix(l, &w->q_a, "self_attn.q_a_proj", s->q_lora_rank, hidden);
        add_vector(l, &w->q_a_layernorm, "self_attn.q_a_layernorm.weight", DTYPE_BF16, s->q_lora_rank);
        add_matrix(l, &w->q_b, "self_attn.q_b_proj", q_out, s->q_lora_rank);
    } else {
        add_matrix(l, &w->q, "self_attn.q_proj", q_out, hidden);
    }
    add_matrix(l, &w->kv_a, "self_attn.kv_a_proj_with_mqa", s->kv_lora_rank + s->qk_rope_head_dim, hidden);
    add_vector(l, &w->kv_a_layernorm, "self_attn.kv_a_layernorm.weight", DTYPE_BF16, s->kv_lora_rank);
    add_matrix(l, &w->kv_b, "self_attn.kv_b_proj", s->n_heads * (s->qk_nope_head_dim + s->v_head_dim), s->kv_lora_rank);
    add_matrix(l, &w->o, "self_attn.o_proj", hidden, s->n_heads * s->v_head_dim);
    add_vector(l, &w->post_attention_layernorm, "post_attention_layernorm.weight", DTYPE_BF16, hidden);
}

static void add_ffn(struct loader *l, struct layer_weights *w, bool moe)
{
    const struct shape *s = l->shape;
    uint32_t hidden = s->hidden_size;
    uint32_t inner = moe ? s->moe_intermediate_size * s->n_shared_experts : s->intermediate_size;
    struct want pair[2] = {
        {.matrix = &w->gate, .out_dim = inner, .in_dim = hidden},
        {.matrix = &w->up, .out_dim = inner, .in_dim = hidden},
    };
    pair[0].stem = moe ? "mlp.shared_experts.gate_proj" : "mlp.gate_proj";
    pair[1].stem = moe ? "mlp.shared_experts.up_proj" : "mlp.up_proj";
    if (inner) {
        add_matrices(l, pair, 2);
        add_matrix(l, &w->down, moe ? "mlp.shared_experts.down_proj" : "mlp.down_proj", hidden, inner);
    }
    if (moe)
        add_matrix(l, &w->router, "mlp.gate", s->n_routed_experts, hidden);
    if (moe && s->has_correction_bias)
        add_vector(l, &w->router_bias, "mlp.gate.e_score_correction_bias", DTYPE_F32, s->n_routed_experts);
}

static void add_all(struct loader *l)
{
    const struct shape *s = l->shape;
    struct weights *w = l->weights;
    l->in = "";
    add_matrix(l, &w->embed, "model.embed_tokens", s->vocab_size, s->hidden_size);
    for (uint32_t i = 0; i < s->n_layers && !l->failed; i++) {
        snprintf(l->prefix, sizeof l->prefix, "model.layers.%" PRIu32 ".", i);
        l->in = l->prefix;
        add_attention(l, &w->layers[i]);
        add_ffn(l, &w->layers[i], shape_is_moe(s, i));
    }
    l->in = "";
    add_vector(l, &w->norm, "model.norm.weight", DTYPE_BF16, s->hidden_size);
    if (s->tie_word_embeddings)
        w->head = w->embed;
    else
        add_matrix(l, &w->head, "lm_head", s->vocab_size, s->hidden_size);
    for (size_t i = 0; i < l->file.count && !l->failed; i++)
        if (!l->known[i])
            l->failed = moe_fail(l->err, MOE_FORMAT,
                                 "%.280s: tensor %.120s has no place in this model; convert the model again",
                                 l->file.path, l->file.tensors[i].name);
}

static int by_file_offset(const void *a, const void *b)
{
    const struct tensor *x = ((const struct piece *)a)->tensor;
    const struct tensor *y = ((const struct piece *)b)->tensor;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Reads every piece in the file's order: straight into memory that the device shares, else through page-locked memory.
static int read_pieces(struct loader *l, const struct weights_source *source)
{
    struct moe_progress progress = {"reading weights", "bytes", 0, 0};
    struct gpu_error gpu_err;
    bool shared = gpu_describe(l->g)->shares_host_memory;
    char *staging = shared ? NULL : gpu_host_alloc(l->g, PIECE_BYTES, &gpu_err);
    if (!shared && !staging)
        return moe_fail_gpu(l->err, &gpu_err);
    int code = MOE_OK;
    for (size_t i = 0; i < l->n_pieces; i++)
        progress.total += l->pieces[i].tensor->bytes;
    qsort(l->pieces, l->n_pieces, sizeof *l->pieces, by_file_offset);
    for (size_t i = 0; i < l->n_pieces; i++) {
        const struct piece *piece = &l->pieces[i];
        uint64_t bytes = piece->tensor->bytes;
        for (uint64_t done = 0; done < bytes && !code;) {
            size_t part = bytes - done < PIECE_BYTES ? (size_t)(bytes - done) : PIECE_BYTES;
            const struct file_range range = {l->file.fd, l->file.path, piece->tensor->offset + done, part};
            uint64_t target = piece->offset + done;
            code = file_read(&range, shared ? (char *)gpu_buf_host(piece->buf) + target : staging, l->err);
            if (!code && !shared)
                gpu_write(l->g, piece->buf, target, staging, part);
            done += part;
            progress.done += part;
            if (!code && source->progress)
                source->progress(source->progress_context, &progress);
        }
    }
    if (staging)
        gpu_host_free(l->g, staging);
    return code;
}

static int add_inv_freq(struct loader *l)
{
    uint64_t bytes = l->shape->qk_rope_head_dim / 2 * sizeof(float);
    struct gpu_error gpu_err;
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
    size_t count = l->file.count + 1;
    l->known = calloc(count, sizeof *l->known);
    l->pieces = calloc(count, sizeof *l->pieces);
    l->weights->slabs = calloc(count, sizeof(gpu_buf *));
    l->weights->layers = calloc(l->shape->n_layers, sizeof *l->weights->layers);
    if (!l->known || !l->pieces || !l->weights->slabs || !l->weights->layers)
        return moe_fail(l->err, MOE_NO_MEMORY, "no memory for the list of tensors");
    for (size_t i = 0; i < l->file.count; i++)
        l->unplaced += aligned(l->file.tensors[i].bytes);
    add_all(l);
    int code = l->failed ? l->failed : read_pieces(l, source);
    return code ? code : add_inv_freq(l);
}

int weights_load(gpu *g, const struct weights_source *source, struct weights *weights, struct moe_err *err)
{
    const struct package *package = source->package;
    struct loader l = {.g = g, .shape = &package->shape, .weights = weights, .err = err};
    memset(weights, 0, sizeof *weights);
    int code = safetensors_open(package->resident.path, &l.file, err);
    if (code)
        return code;
    code = load(&l, source);
    safetensors_release(&l.file);
    free(l.known);
    free(l.pieces);
    if (code)
        weights_release(weights);
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
