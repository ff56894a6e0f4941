// SPDX-License-Identifier: GPL-3.0-or-later
// A matrix of a checkpoint, whatever it is stored as: its rows as float32, or its quantised parts as they are.
#ifndef MOECHAT_ENGINE_FILES_SOURCE_H
#define MOECHAT_ENGINE_FILES_SOURCE_H

#include "engine/files/checkpoint.h"
#include "engine/files/quantise.h"

enum source_kind {
    SOURCE_FLOAT, // bf16, f16 or float32
    SOURCE_FP8,   // e4m3, weight_scale_inv for each block of 128 x 128; their product is rounded to bf16, as DeepSeek's
                  // own conversion does
    SOURCE_AFFINE, // MLX: weight, scales, biases
    SOURCE_INT4,   // compressed-tensors: weight_packed, 8 more than the number; weight_scale
    SOURCE_MXFP4,  // the same of bytes: e2m1, a byte of scale for each 32 inputs, as MLX's mxfp4 has them
};

struct source_matrix {
    const struct checkpoint *from;
    enum source_kind kind;
    const struct checkpoint_tensor *weight, *scales, *biases;
    uint64_t first_row; // in the tensor: of an expert among those stacked
    uint32_t rows, cols;
    struct quantisation stored; // bits 0: not quantised in groups
    bool exact;                 // its groups can be copied: scales are bf16, bits and groups ours
};

// The matrix `stem` of [rows, cols], or of [n, rows / n, cols] when it has three dimensions. Names what is missing or
// has another shape.
struct source_request {
    const char *stem;
    uint32_t rows, cols;
};
int source_find(const struct checkpoint *from, const struct source_request *request, struct source_matrix *matrix,
                struct moe_err *err);
// The same of expert `index` of a stack of `count`: stem.weight is [count, rows, cols].
int source_find_stacked(const struct checkpoint *from, const struct source_request *request, uint32_t index,
                        uint32_t count, struct source_matrix *matrix, struct moe_err *err);

// Rows [row, row + n) as float32, out[n * cols].
struct source_rows {
    uint32_t row, n;
};
int source_read(const struct source_matrix *matrix, struct source_rows rows, float *out, struct moe_err *err);
// Rows of one part of an `exact` matrix, as they are stored (an int4's biases are -8 times its scales). Scales and
// biases that are not finite are refused. An mxfp4 has no biases: nothing is written.
enum source_part { PART_WORDS, PART_SCALES, PART_BIASES };
int source_copy(const struct source_matrix *matrix, enum source_part part, struct source_rows rows, void *out,
                struct moe_err *err);
// Numbers of a float dtype that are neither infinite nor no numbers; other dtypes have no such. And how to say it.
bool source_is_finite(enum tensor_dtype dtype, const void *raw, uint64_t count);
int source_not_finite(const struct checkpoint *from, const struct checkpoint_tensor *tensor, struct moe_err *err);
uint32_t source_width(enum tensor_dtype dtype); // bytes of a number of a dtype that weights have
// Bytes of a row of a part in `how`.
uint64_t source_part_bytes(enum source_part part, uint32_t cols, struct quantisation how);

#endif
