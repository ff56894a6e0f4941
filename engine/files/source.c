// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a matrix of any layout as float32 rows or as quantised parts.
#include "engine/files/source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "kernels/kinds.h"
#include "kernels/numbers.h"

enum { BLOCK = 128, STEM_BYTES = 200 };

static const struct checkpoint_tensor *with(const struct checkpoint *from, const char *stem, const char *suffix)
{
    char name[STEM_BYTES];
    snprintf(name, sizeof name, "%s%s", stem, suffix);
    return checkpoint_find(from, name);
}

// The rows of all stacked matrices, and the last dimension; false when the tensor has another number of them.
static bool has_shape(const struct checkpoint_tensor *tensor, uint64_t rows, uint64_t cols)
{
    uint64_t product = 1;
    const struct tensor *at = tensor->at;
    if (at->n_dims < 2)
        return false;
    for (uint32_t i = 0; i + 1 < at->n_dims; i++)
        product *= at->dims[i]; // the tensor lies in its file: no overflow
    return product == rows && at->dims[at->n_dims - 1] == cols;
}

static int refuse(const struct source_matrix *m, const struct checkpoint_tensor *tensor, const char *what,
                  struct moe_err *err)
{
    return moe_fail(err, MOE_FORMAT, "%.240s: tensor %.120s %s (the model's config makes it %" PRIu32 " x %" PRIu32 ")",
                    checkpoint_path(m->from, tensor), tensor->name, what, m->rows, m->cols);
}

static int missing(const struct source_matrix *m, const char *stem, const char *suffix, struct moe_err *err)
{
    return moe_fail(err, MOE_NO_TENSOR, "%.280s: tensor %s%s is missing; download the folder again",
                    checkpoint_place(m->from), stem, suffix);
}

static bool good_group(uint64_t group)
{
    return group == 32 || group == 64 || group == 128;
}

// Two numbers a byte, the lower four bits first.
static int find_mxfp4(struct source_matrix *m, uint64_t all_rows, struct moe_err *err)
{
    m->kind = SOURCE_MXFP4;
    m->stored = (struct quantisation){4, 32};
    if (m->cols % 32 || !has_shape(m->weight, all_rows, m->cols / 2))
        return refuse(m, m->weight, "is not packed mxfp4 of its shape", err);
    if (m->scales->at->dtype != DTYPE_U8 || !has_shape(m->scales, all_rows, m->cols / 32))
        return refuse(m, m->scales, "is not a byte for each group of 32", err);
    m->exact = true;
    return MOE_OK;
}

static int find_int4(struct source_matrix *m, const char *stem, uint64_t all_rows, struct moe_err *err)
{
    m->kind = SOURCE_INT4;
    m->scales = with(m->from, stem, ".weight_scale");
    if (!m->scales)
        return missing(m, stem, ".weight_scale", err);
    if (with(m->from, stem, ".weight_zero_point") || with(m->from, stem, ".weight_g_idx"))
        return refuse(m, m->weight, "is not symmetric or is reordered, which moechat does not read", err);
    enum tensor_dtype dtype = m->weight->at->dtype;
    if (dtype == DTYPE_U8)
        return find_mxfp4(m, all_rows, err);
    uint64_t groups = m->scales->at->n_dims ? m->scales->at->dims[m->scales->at->n_dims - 1] : 0;
    if ((dtype != DTYPE_I32 && dtype != DTYPE_U32) || !has_shape(m->weight, all_rows, m->cols / 8) || m->cols % 8)
        return refuse(m, m->weight, "is not packed int4 of its shape", err);
    if (!groups || m->cols % groups || !good_group(m->cols / groups) || !dtype_is_float(m->scales->at->dtype) ||
        !has_shape(m->scales, all_rows, groups))
        return refuse(m, m->scales, "is not a scale for each group of 32, 64 or 128", err);
    m->stored = (struct quantisation){4, (uint32_t)(m->cols / groups)};
    m->exact = m->scales->at->dtype == DTYPE_BF16;
    return MOE_OK;
}

static int find_affine(struct source_matrix *m, const char *stem, uint64_t all_rows, struct moe_err *err)
{
    m->kind = SOURCE_AFFINE;
    m->scales = with(m->from, stem, ".scales");
    m->biases = with(m->from, stem, ".biases");
    if (m->scales && m->scales->at->dtype == DTYPE_U8)
        return refuse(m, m->scales, "is of mxfp4, nvfp4 or mxfp8, which are copied and not quantised again", err);
    if (!m->scales || !m->biases)
        return missing(m, stem, m->scales ? ".biases" : ".scales", err);
    uint64_t groups = m->scales->at->n_dims ? m->scales->at->dims[m->scales->at->n_dims - 1] : 0;
    if (!groups || m->cols % groups || !good_group(m->cols / groups) || !dtype_is_float(m->scales->at->dtype) ||
        m->biases->at->dtype != m->scales->at->dtype || !has_shape(m->scales, all_rows, groups) ||
        !has_shape(m->biases, all_rows, groups))
        return refuse(m, m->scales, "and its biases are not one for each group of 32, 64 or 128", err);
    uint64_t words = m->weight->at->n_dims ? m->weight->at->dims[m->weight->at->n_dims - 1] : 0;
    m->stored = (struct quantisation){(uint32_t)(words * 32 / m->cols), (uint32_t)(m->cols / groups)};
    if (m->cols % 32 || !kind_affine(m->stored.bits) ||
        !has_shape(m->weight, all_rows, (uint64_t)m->cols * m->stored.bits / 32))
        return refuse(m, m->weight, "is not of 2 to 8 bits and of its shape", err);
    m->exact = m->scales->at->dtype == DTYPE_BF16;
    return MOE_OK;
}

static int find_fp8(struct source_matrix *m, const char *stem, uint64_t all_rows, struct moe_err *err)
{
    m->kind = SOURCE_FP8;
    m->scales = with(m->from, stem, ".weight_scale_inv");
    if (!m->scales)
        return missing(m, stem, ".weight_scale_inv", err);
    if (!has_shape(m->weight, all_rows, m->cols))
        return refuse(m, m->weight, "has another shape", err);
    if (m->scales->at->dtype != DTYPE_F32 ||
        !has_shape(m->scales, (all_rows + BLOCK - 1) / BLOCK, (m->cols + BLOCK - 1) / BLOCK))
        return refuse(m, m->scales, "is not a float32 for each block of 128 x 128", err);
    return MOE_OK;
}

static int find_matrix(struct source_matrix *m, const char *stem, uint64_t all_rows, struct moe_err *err)
{
    m->weight = with(m->from, stem, ".weight_packed");
    if (m->weight)
        return find_int4(m, stem, all_rows, err);
    m->weight = with(m->from, stem, ".weight");
    if (!m->weight)
        return missing(m, stem, ".weight", err);
    if (m->weight->at->dtype == DTYPE_U32)
        return find_affine(m, stem, all_rows, err);
    if (m->weight->at->dtype == DTYPE_F8_E4M3)
        return find_fp8(m, stem, all_rows, err);
    m->kind = SOURCE_FLOAT;
    if (!dtype_is_float(m->weight->at->dtype))
        return refuse(m, m->weight, "has a dtype that moechat does not read as weights", err);
    return has_shape(m->weight, all_rows, m->cols) ? MOE_OK : refuse(m, m->weight, "has another shape", err);
}

int source_find(const struct checkpoint *from, const struct source_request *request, struct source_matrix *m,
                struct moe_err *err)
{
    *m = (struct source_matrix){.from = from, .rows = request->rows, .cols = request->cols};
    return find_matrix(m, request->stem, request->rows, err);
}

int source_find_stacked(const struct checkpoint *from, const struct source_request *request, uint32_t index,
                        uint32_t count, struct source_matrix *m, struct moe_err *err)
{
    *m = (struct source_matrix){.from = from, .rows = request->rows, .cols = request->cols};
    m->first_row = (uint64_t)index * request->rows;
    int code = find_matrix(m, request->stem, (uint64_t)count * request->rows, err);
    if (!code && m->kind == SOURCE_FP8)
        return refuse(m, m->weight, "is fp8, and of stacked experts", err); // blocks would reach over experts
    return code;
}

// ---- Rows as float32

uint32_t source_width(enum tensor_dtype dtype)
{
    return dtype == DTYPE_F8_E4M3 || dtype == DTYPE_U8 ? 1 : dtype == DTYPE_BF16 || dtype == DTYPE_F16 ? 2 : 4;
}

// Rows of a tensor with `cols` elements a row, as they are stored.
static int read_rows(const struct source_matrix *m, const struct checkpoint_tensor *tensor, uint64_t row, uint64_t n,
                     void *out, struct moe_err *err)
{
    uint64_t bytes = tensor->at->dims[tensor->at->n_dims - 1] * source_width(tensor->at->dtype);
    const struct checkpoint_range range = {tensor, row * bytes, (size_t)(n * bytes)};
    return checkpoint_read(m->from, &range, out, err);
}

static float number_at(enum tensor_dtype dtype, const void *raw, uint64_t i)
{
    switch (dtype) {
    case DTYPE_F32:
        return ((const float *)raw)[i];
    case DTYPE_BF16:
        return number_from_bf16(((const uint16_t *)raw)[i]);
    case DTYPE_F16:
        return number_from_half(((const uint16_t *)raw)[i]);
    default:
        return number_from_fp8(((const uint8_t *)raw)[i]);
    }
}

static void widen(enum tensor_dtype dtype, const void *raw, uint64_t count, float *out)
{
    if (dtype == DTYPE_BF16) // the common one, in a loop of its own
        for (uint64_t i = 0; i < count; i++)
            out[i] = number_from_bf16(((const uint16_t *)raw)[i]);
    else
        for (uint64_t i = 0; i < count; i++)
            out[i] = number_at(dtype, raw, i);
}

static float round_to_bf16(float value)
{
    return number_from_bf16(number_to_bf16(value));
}

static void scale_blocks(const struct source_matrix *m, const float *scales, struct source_rows rows, float *out)
{
    uint64_t blocks = (m->cols + BLOCK - 1) / BLOCK;
    for (uint32_t r = 0; r < rows.n; r++) {
        const float *scale = scales + ((rows.row + r) / BLOCK - rows.row / BLOCK) * blocks;
        for (uint32_t i = 0; i < m->cols; i++)
            out[(uint64_t)r * m->cols + i] = round_to_bf16(out[(uint64_t)r * m->cols + i] * scale[i / BLOCK]);
    }
}

static void dequantise(const struct source_matrix *m, const uint32_t *words, const void *scales, const void *biases,
                       struct source_rows rows, float *out)
{
    uint32_t bits = m->stored.bits;
    uint32_t mask = (1u << bits) - 1u;
    enum tensor_dtype dtype = m->scales->at->dtype;
    for (uint64_t i = 0; i < (uint64_t)rows.n * m->cols; i++) { // rows are whole words
        uint64_t bit = i * bits;
        uint32_t q = words[bit / 32] >> bit % 32;
        if (bit % 32 + bits > 32) // goes on in the next word
            q |= words[bit / 32 + 1] << (32 - bit % 32);
        float scale = number_at(dtype, scales, i / m->stored.group_size);
        float bias = m->biases ? number_at(dtype, biases, i / m->stored.group_size) : -8 * scale;
        out[i] = (float)(q & mask) * scale + bias;
    }
}

static const uint8_t mxfp4_no_number = 255; // of a scale

static bool mxfp4_is_finite(const uint8_t *scales, uint64_t count)
{
    uint64_t i = 0;
    while (i < count && scales[i] != mxfp4_no_number)
        i++;
    return i == count;
}

static int read_mxfp4(const struct source_matrix *m, struct source_rows rows, void *raw, float *out,
                      struct moe_err *err)
{
    static const float numbers[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    uint64_t count = (uint64_t)rows.n * m->cols, row = m->first_row + rows.row;
    uint8_t *scales = malloc(count / 32 + 1);
    if (!scales)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the scales of %.120s", m->weight->name);
    int code = read_rows(m, m->weight, row, rows.n, raw, err);
    if (!code)
        code = read_rows(m, m->scales, row, rows.n, scales, err);
    if (!code && !mxfp4_is_finite(scales, count / 32))
        code = source_not_finite(m->from, m->scales, err);
    for (uint64_t i = 0; i < count && !code; i++) {
        uint32_t four = ((const uint8_t *)raw)[i / 2] >> i % 2 * 4 & 15;
        float number = ldexpf(numbers[four & 7], scales[i / 32] - 127);
        out[i] = four & 8 ? -number : number;
    }
    free(scales);
    return code;
}

static int read_groups(const struct source_matrix *m, struct source_rows rows, void *raw, float *out,
                       struct moe_err *err)
{
    uint64_t count = (uint64_t)rows.n * (m->cols / m->stored.group_size);
    uint64_t row = m->first_row + rows.row;
    void *scales = malloc(8 * count + 1);
    if (!scales)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the scales of %.120s", m->weight->name);
    void *biases = (char *)scales + 4 * count;
    int code = read_rows(m, m->weight, row, rows.n, raw, err);
    if (!code)
        code = read_rows(m, m->scales, row, rows.n, scales, err);
    if (!code && m->biases)
        code = read_rows(m, m->biases, row, rows.n, biases, err);
    if (!code)
        dequantise(m, raw, scales, biases, rows, out);
    free(scales);
    return code;
}

static int read_fp8(const struct source_matrix *m, struct source_rows rows, void *raw, float *out, struct moe_err *err)
{
    uint64_t blocks = (m->cols + BLOCK - 1) / BLOCK;
    uint64_t first = rows.row / BLOCK;
    uint64_t last = (rows.row + rows.n - 1) / BLOCK;
    float *scales = malloc((last - first + 1) * blocks * sizeof *scales);
    if (!scales)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the scales of %.120s", m->weight->name);
    int code = read_rows(m, m->weight, rows.row, rows.n, raw, err);
    if (!code)
        code = read_rows(m, m->scales, first, last - first + 1, scales, err);
    if (!code) {
        widen(DTYPE_F8_E4M3, raw, (uint64_t)rows.n * m->cols, out);
        scale_blocks(m, scales, rows, out);
    }
    free(scales);
    return code;
}

int source_read(const struct source_matrix *m, struct source_rows rows, float *out, struct moe_err *err)
{
    uint64_t count = (uint64_t)rows.n * m->cols;
    void *raw = malloc(count * 4 + 1); // as wide as any
    if (!raw)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for rows of %.120s", m->weight->name);
    int code;
    if (m->kind == SOURCE_FLOAT) {
        code = read_rows(m, m->weight, m->first_row + rows.row, rows.n, raw, err);
        if (!code)
            widen(m->weight->at->dtype, raw, count, out);
    } else {
        code = (m->kind == SOURCE_FP8     ? read_fp8
                : m->kind == SOURCE_MXFP4 ? read_mxfp4
                                          : read_groups)(m, rows, raw, out, err);
    }
    free(raw);
    return code;
}

// ---- Parts as they are

uint64_t source_part_bytes(enum source_part part, uint32_t cols, struct quantisation how)
{
    return part == PART_WORDS ? (uint64_t)cols * how.bits / 8 : (uint64_t)cols / how.group_size * 2;
}

bool source_is_finite(enum tensor_dtype dtype, const void *raw, uint64_t count)
{
    const uint16_t *halves = raw;
    const uint32_t *words = raw;
    uint32_t wrong = 0; // an exponent of ones all through
    if (dtype == DTYPE_F32)
        for (uint64_t i = 0; i < count; i++)
            wrong |= (words[i] & 0x7f800000U) == 0x7f800000U;
    else if (dtype == DTYPE_BF16)
        for (uint64_t i = 0; i < count; i++)
            wrong |= (halves[i] & 0x7f80U) == 0x7f80U;
    else if (dtype == DTYPE_F16)
        for (uint64_t i = 0; i < count; i++)
            wrong |= (halves[i] & 0x7c00U) == 0x7c00U;
    return !wrong;
}

int source_not_finite(const struct checkpoint *from, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    return moe_fail(err, MOE_BAD_NUMBERS,
                    "%.280s: tensor %.120s has numbers that are not finite, or too large for bf16; download it again",
                    checkpoint_path(from, tensor), tensor->name);
}

int source_copy(const struct source_matrix *m, enum source_part part, struct source_rows rows, void *out,
                struct moe_err *err)
{
    const struct checkpoint_tensor *const tensors[] = {m->weight, m->scales, m->biases ? m->biases : m->scales};
    const struct checkpoint_tensor *tensor = tensors[part];
    if (m->kind == SOURCE_MXFP4 && part == PART_BIASES)
        return MOE_OK;
    int code = read_rows(m, tensor, m->first_row + rows.row, rows.n, out, err);
    if (code || part == PART_WORDS)
        return code;
    if (m->kind == SOURCE_MXFP4)
        return mxfp4_is_finite(out, (uint64_t)rows.n * (m->cols / 32)) ? MOE_OK
                                                                       : source_not_finite(m->from, tensor, err);
    uint16_t *numbers = out;
    uint64_t count = (uint64_t)rows.n * (m->cols / m->stored.group_size);
    for (uint64_t i = 0; part == PART_BIASES && !m->biases && i < count; i++)
        numbers[i] = number_to_bf16(-8 * number_from_bf16(numbers[i]));
    return source_is_finite(DTYPE_BF16, numbers, count) ? MOE_OK : source_not_finite(m->from, tensor, err);
}
