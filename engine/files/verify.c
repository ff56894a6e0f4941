// SPDX-License-Identifier: GPL-3.0-or-later
// Looks at scales and floats for infinities and what is not a number, and at experts for zeroes.
#include "engine/files/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/ggml_types.h"
#include "engine/files/source.h"
#include "kernels/kinds.h"
#include "kernels/numbers.h"

enum { PIECE_BYTES = 4 << 20, SAMPLE_BYTES = 256, LOOK_BYTES = 16 << 10 };

static bool half_is_finite(const unsigned char *at)
{
    return (at[1] & 0x7c) != 0x7c;
}

// The scale of IQ1_M lies in four nibbles, the highest of four u16 at 48.
static bool iq1_m_is_finite(const unsigned char *block)
{
    unsigned high = (block[55] & 0xf0U) | (unsigned)(block[53] >> 4);
    return (high & 0x7c) != 0x7c;
}

static bool block_is_finite(uint32_t kind, const unsigned char *block)
{
    if (kind == KIND_MXFP4)
        return block[0] != 255;
    if (kind == KIND_IQ1_M)
        return iq1_m_is_finite(block);
    if (kind == KIND_BF16)
        return (block[1] & 0x7f) != 0x7f || !(block[0] & 0x80);
    if (kind == KIND_F32)
        return (block[3] & 0x7f) != 0x7f || !(block[2] & 0x80);
    const struct kind_info *info = kind_info(kind);
    for (unsigned i = 0; i < info->halves.count; i++)
        if (!half_is_finite(block + info->halves.at[i]))
            return false;
    return true; // NVFP4's scales are bytes that are all numbers
}

bool gguf_blocks_are_finite(uint32_t ggml_type, const void *blocks, uint64_t bytes)
{
    struct ggml_type type;
    return !ggml_type_find(ggml_type, &type) || blocks_are_finite(type.kind, blocks, bytes);
}

bool blocks_are_finite(uint32_t kind, const void *blocks, uint64_t bytes)
{
    const unsigned char *at = blocks;
    const struct kind_info *info = kind_info(kind);
    for (uint64_t i = 0; info && i + info->block_bytes <= bytes; i += info->block_bytes)
        if (!block_is_finite(kind, at + i))
            return false;
    return true;
}

bool bytes_are_zero(const void *bytes, uint64_t n)
{
    const unsigned char *at = bytes;
    return n == 0 || (at[0] == 0 && memcmp(at, at + 1, (size_t)n - 1) == 0);
}

// Of MLX's fp modes: 255 is no E8M0, 0x7f and 0xff are no e4m3. Words of 4 bits are all numbers.
static bool bytes_are_numbers(uint32_t kind, enum expert_array array, const unsigned char *bytes, uint64_t n)
{
    bool e4m3 = kind == (array == ARRAY_WEIGHT ? KIND_MLX_MXFP8 : KIND_MLX_NVFP4);
    bool numbers = true;
    for (uint64_t i = 0; (e4m3 || array == ARRAY_SCALES) && i < n; i++)
        numbers &= e4m3 ? (bytes[i] & 0x7f) != 0x7f : bytes[i] != 255;
    return numbers;
}

bool part_is_finite(const struct expert_part *part, const void *bytes)
{
    static const enum tensor_dtype dtypes[] = {
        [SCALE_BF16] = DTYPE_BF16, [SCALE_F16] = DTYPE_F16, [SCALE_F32] = DTYPE_F32};
    enum scale_layout layout = kind_info(part->matrix->kind)->scales;
    enum tensor_dtype dtype = dtypes[part->matrix->scale_type];
    if (part->array == ARRAY_FACTOR)
        return source_is_finite(DTYPE_F32, bytes, 1);
    if (layout == SCALES_BYTES)
        return bytes_are_numbers(part->matrix->kind, part->array, bytes, part->bytes);
    if (part->array == ARRAY_WEIGHT)
        return blocks_are_finite(part->matrix->kind, bytes, part->bytes);
    return layout != SCALES_AFFINE || source_is_finite(dtype, bytes, part->bytes / source_width(dtype));
}

// Whose zeroes make a matrix zero. E8M0's 0 is a scale like others.
static enum expert_array scaling_array(uint32_t kind)
{
    return kind_info(kind)->scales == SCALES_AFFINE ? ARRAY_SCALES : ARRAY_WEIGHT;
}

bool part_is_zero(const struct expert_part *part, const void *bytes)
{
    return part->array == scaling_array(part->matrix->kind) && bytes_are_zero(bytes, part->bytes);
}

int gguf_not_finite(const struct checkpoint *c, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    return moe_fail(err, MOE_FORMAT,
                    "%.280s: tensor %.100s has scales that are no finite numbers; download the file again",
                    checkpoint_path(c, tensor), tensor->at->name);
}

// ---- One walk over all that the model uses

struct walk {
    const struct verification *how;
    struct moe_progress progress;
    void *buffer; // PIECE_BYTES, or an expert's largest part
    struct moe_err *err;
};

static void advance(struct walk *w, uint64_t bytes)
{
    w->progress.done += bytes;
    if (w->how->progress)
        w->how->progress(w->how->context, &w->progress);
}

static bool are_numbers(const struct tensor *tensor, const void *bytes, uint64_t n)
{
    return tensor->dtype == DTYPE_GGML ? gguf_blocks_are_finite(tensor->ggml_type, bytes, n)
                                       : source_is_finite(tensor->dtype, bytes, n / source_width(tensor->dtype));
}

static int refuse_zeroes(const struct checkpoint *c, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    return moe_fail(err, MOE_FORMAT,
                    "%.280s: tensor %.100s is all zero, as in a file that was not downloaded to its end; download it "
                    "again",
                    checkpoint_path(c, tensor), c->gguf ? tensor->at->name : tensor->name);
}

static int verify_tensor(struct walk *w, const struct checkpoint_tensor *tensor)
{
    const struct checkpoint *c = w->how->package->checkpoint;
    struct ggml_type type = {.bytes = 4};
    if (tensor->at->dtype == DTYPE_GGML)
        ggml_type_find(tensor->at->ggml_type, &type);
    uint64_t most = PIECE_BYTES / type.bytes * type.bytes;
    bool zero = tensor->at->n_dims > 1;
    int code = MOE_OK;
    for (uint64_t done = 0; done < tensor->at->bytes && !code;) {
        uint64_t left = tensor->at->bytes - done;
        const struct checkpoint_range range = {tensor, done, (size_t)(left < most ? left : most)};
        code = checkpoint_read(c, &range, w->buffer, w->err);
        if (!code && !are_numbers(tensor->at, w->buffer, range.bytes))
            code = gguf_not_finite(c, tensor, w->err);
        zero &= bytes_are_zero(w->buffer, range.bytes);
        done += range.bytes;
        if (!code)
            advance(w, range.bytes);
    }
    return code || !zero || !tensor->at->bytes ? code : refuse_zeroes(c, tensor, w->err);
}

// Where a part of an expert is in the source's files.
static struct file_range range_of(const struct package *package, const struct package_layer *layer,
                                  const struct expert_part *part, uint64_t expert)
{
    const struct expert_span *span = layer->spans;
    while (part->offset < span->at || part->offset >= span->at + span->bytes)
        span++;
    uint64_t offset = span->offset + expert * span->bytes + (part->offset - span->at);
    const struct checkpoint *c = package->checkpoint;
    return (struct file_range){c ? c->shards[span->file].fd : -1, package->files[span->file].path, offset,
                               (size_t)part->bytes};
}

// A part of expert `number` of a layer.
struct place {
    uint32_t layer;
    uint64_t number;
    const struct expert_part *part;
};

static int refuse_expert(const char *path, const struct place *at, const char *what, struct moe_err *err)
{
    static const char *const projections[] = {"gate", "up", "down"};
    return moe_fail(err, MOE_FORMAT, "%.280s: layer %" PRIu32 ", expert %" PRIu64 ": its %s %s; download it again",
                    path, at->layer, at->number, projections[at->part->projection], what);
}

static int verify_expert(struct walk *w, uint32_t layer, uint64_t expert)
{
    const struct package *package = w->how->package;
    const struct package_layer *from = &package->layers[layer];
    struct expert_part parts[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(&from->experts, parts);
    int code = MOE_OK;
    for (uint32_t i = 0; i < n && !code; i++) {
        const struct file_range range = range_of(package, from, &parts[i], expert);
        code = file_read(&range, w->buffer, w->err);
        const struct place at = {layer, expert, &parts[i]};
        if (!code && !part_is_finite(&parts[i], w->buffer))
            code = refuse_expert(range.path, &at, "has scales or numbers that are not finite", w->err);
        if (!code && part_is_zero(&parts[i], w->buffer))
            code =
                refuse_expert(range.path, &at, "is all zero, as in a file that was not downloaded to its end", w->err);
        if (!code)
            advance(w, range.bytes);
    }
    return code;
}

static uint64_t largest_part(const struct package *package)
{
    uint64_t most = PIECE_BYTES;
    for (uint32_t i = package->shape.first_k_dense_replace; i < package->shape.n_layers; i++) {
        struct expert_part parts[MAX_EXPERT_PARTS];
        uint32_t n = package_parts(package_experts(package, i), parts);
        for (uint32_t k = 0; k < n; k++)
            most = parts[k].bytes > most ? parts[k].bytes : most;
    }
    return most;
}

static int walk(struct walk *w)
{
    const struct package *package = w->how->package;
    const struct checkpoint *c = package->checkpoint;
    const struct shape *s = &package->shape;
    int code = MOE_OK;
    for (size_t i = 0; i < c->count && !code; i++)
        if (!checkpoint_is_routed(&c->tensors[i]))
            code = verify_tensor(w, &c->tensors[i]);
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++)
        for (uint64_t e = 0; e < s->n_routed_experts && !code; e++)
            code = verify_expert(w, i, e);
    return code;
}

int verify_weights(const struct verification *how, struct moe_err *err)
{
    const struct checkpoint *c = how->package->checkpoint;
    struct walk w = {.how = how, .progress = {.what = "reading weights", .unit = "bytes"}, .err = err};
    w.buffer = malloc(largest_part(how->package));
    if (!w.buffer)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to read weights");
    for (size_t i = 0; i < c->count; i++)
        w.progress.total += c->tensors[i].at->bytes;
    int code = walk(&w);
    free(w.buffer);
    return code;
}

// ---- A look at each layer

// Some bytes of the middle of a part, of three experts, are all zero.
static int looks_zero(const struct package *package, const struct package_layer *layer, const struct expert_part *part,
                      bool *zero, struct moe_err *err)
{
    uint64_t last = package->shape.n_routed_experts - 1;
    const uint64_t experts[] = {last / 2, 0, last};
    int code = MOE_OK;
    *zero = true;
    for (size_t i = 0; i < 3 && *zero && !code; i++) {
        unsigned char sample[SAMPLE_BYTES];
        struct file_range range = range_of(package, layer, part, experts[i]);
        uint64_t size;
        bool own = range.fd < 0; // a package's files are not open
        if (range.bytes > SAMPLE_BYTES) {
            range.offset += (range.bytes - SAMPLE_BYTES) / 2;
            range.bytes = SAMPLE_BYTES;
        }
        code = own ? file_open(range.path, &range.fd, &size, err) : MOE_OK;
        if (code)
            return code;
        code = file_read(&range, sample, err);
        *zero = !code && bytes_are_zero(sample, range.bytes);
        if (own)
            close(range.fd);
    }
    return code;
}

static int fail_zeroes(const char *path, uint32_t layer, struct moe_err *err)
{
    int code = moe_fail(err, MOE_FORMAT,
                        "%.280s: the experts of layer %" PRIu32 " are zeroes: the file was not downloaded to its end, "
                        "or given up by convert --consume; download it again",
                        path, layer);
    return moe_fail_for(err, MOE_CAUSE_CONSUMED, code);
}

int verify_no_holes(const struct package *package, struct moe_err *err)
{
    const struct shape *s = &package->shape;
    int code = MOE_OK;
    for (uint32_t i = s->first_k_dense_replace; package->layers && i < s->n_layers && !code; i++) {
        const struct package_layer *layer = &package->layers[i];
        struct expert_part parts[MAX_EXPERT_PARTS];
        uint32_t n = package_parts(&layer->experts, parts);
        for (uint32_t k = 0; k < n && !code; k++) {
            bool zero = false;
            if (parts[k].array == scaling_array(parts[k].matrix->kind))
                code = looks_zero(package, layer, &parts[k], &zero, err);
            if (!code && zero)
                code = fail_zeroes(range_of(package, layer, &parts[k], 0).path, i, err);
        }
    }
    return code;
}

int verify_no_zeroes(const struct checkpoint *c, struct moe_err *err)
{
    int code = MOE_OK;
    for (size_t i = 0; i < c->count && !code; i++) {
        const struct checkpoint_tensor *tensor = &c->tensors[i];
        uint64_t bytes = tensor->at->bytes;
        bool zero = tensor->at->n_dims > 1 && bytes && !checkpoint_is_routed(tensor);
        for (uint64_t done = 0; zero && done < bytes && !code; done += LOOK_BYTES) {
            unsigned char look[LOOK_BYTES];
            const struct checkpoint_range range = {tensor, done,
                                                   (size_t)(bytes - done < LOOK_BYTES ? bytes - done : LOOK_BYTES)};
            code = checkpoint_read(c, &range, look, err);
            zero = !code && bytes_are_zero(look, range.bytes);
        }
        code = zero ? refuse_zeroes(c, tensor, err) : code;
    }
    return code;
}
