// SPDX-License-Identifier: GPL-3.0-or-later
// Looks at every scale and float of a GGUF for infinities and what is not a number.
#include "engine/files/gguf_verify.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/floats.h"
#include "engine/files/ggml_types.h"
#include "engine/files/source.h"
#include "kernels/kinds.h"

enum { PIECE_BYTES = 4 << 20 };

// Where a block's halves are: its scale, and what is taken off. Other kinds of blocks have none, or none to fear:
// NVFP4's scales are bytes that are all numbers.
static const struct halves {
    uint8_t kind, count, at[2];
} halves[] = {
    {KIND_Q4_0, 1, {0, 0}},    {KIND_Q4_1, 2, {0, 2}},    {KIND_Q5_0, 1, {0, 0}},   {KIND_Q5_1, 2, {0, 2}},
    {KIND_Q8_0, 1, {0, 0}},    {KIND_Q2_K, 2, {80, 82}},  {KIND_Q3_K, 1, {108, 0}}, {KIND_Q4_K, 2, {0, 2}},
    {KIND_Q5_K, 2, {0, 2}},    {KIND_Q6_K, 1, {208, 0}},  {KIND_IQ4_NL, 1, {0, 0}}, {KIND_IQ4_XS, 1, {0, 0}},
    {KIND_IQ1_S, 1, {0, 0}},   {KIND_IQ2_XXS, 1, {0, 0}}, {KIND_IQ2_XS, 1, {0, 0}}, {KIND_IQ2_S, 1, {0, 0}},
    {KIND_IQ3_XXS, 1, {0, 0}}, {KIND_IQ3_S, 1, {0, 0}},   {KIND_TQ1_0, 1, {52, 0}}, {KIND_TQ2_0, 1, {64, 0}},
    {KIND_F16, 1, {0, 0}},
};

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
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        if (halves[i].kind == kind)
            return half_is_finite(block + halves[i].at[0]) &&
                   (halves[i].count == 1 || half_is_finite(block + halves[i].at[1]));
    return true;
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

static bool is_zero(const unsigned char *bytes, uint64_t n)
{
    return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, (size_t)n - 1) == 0);
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

bool part_is_zero(const struct expert_part *part, const void *bytes)
{
    enum scale_layout layout = kind_info(part->matrix->kind)->scales;
    enum expert_array array = layout == SCALES_AFFINE ? ARRAY_SCALES : ARRAY_WEIGHT; // E8M0's 0 is a scale
    return part->array == array && is_zero(bytes, part->bytes);
}

int gguf_not_finite(const struct checkpoint *c, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    return moe_fail(err, MOE_FORMAT,
                    "%.280s: tensor %.100s has scales that are no finite numbers; download the file again",
                    checkpoint_path(c, tensor), tensor->at->name);
}

static int verify_tensor(const struct gguf_verification *how, const struct checkpoint_tensor *tensor, void *buffer,
                         struct moe_progress *progress, struct moe_err *err)
{
    struct ggml_type type = {.bytes = 1};
    ggml_type_find(tensor->at->ggml_type, &type);
    uint64_t most = PIECE_BYTES / type.bytes * type.bytes;
    int code = MOE_OK;
    for (uint64_t done = 0; done < tensor->at->bytes && !code;) {
        uint64_t left = tensor->at->bytes - done;
        const struct checkpoint_range range = {tensor, done, (size_t)(left < most ? left : most)};
        code = checkpoint_read(how->checkpoint, &range, buffer, err);
        if (!code && !gguf_blocks_are_finite(tensor->at->ggml_type, buffer, range.bytes))
            code = gguf_not_finite(how->checkpoint, tensor, err);
        done += range.bytes;
        progress->done += range.bytes;
        if (!code && how->progress)
            how->progress(how->context, progress);
    }
    return code;
}

int gguf_verify(const struct gguf_verification *how, struct moe_err *err)
{
    const struct checkpoint *c = how->checkpoint;
    struct moe_progress progress = {.what = "reading weights", .unit = "bytes"};
    void *buffer = malloc(PIECE_BYTES);
    if (!buffer)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to read weights");
    for (size_t i = 0; i < c->count; i++)
        progress.total += c->tensors[i].at->bytes;
    int code = MOE_OK;
    for (size_t i = 0; i < c->count && !code; i++)
        code = verify_tensor(how, &c->tensors[i], buffer, &progress, err);
    free(buffer);
    return code;
}
