// SPDX-License-Identifier: GPL-3.0-or-later
// Whether the numbers of a model's tensors are numbers: the scales of blocks, and floats themselves. A damaged or a
// badly made file has infinite ones or none, and one of them makes every token nonsense; a file that was not downloaded
// to its end has zeroes, which look like an answer.
#ifndef MOECHAT_ENGINE_FILES_VERIFY_H
#define MOECHAT_ENGINE_FILES_VERIFY_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"

// Of whole blocks: their halves are finite, an MXFP4's exponent is not 255 (which stands for no number).
bool gguf_blocks_are_finite(uint32_t ggml_type, const void *blocks, uint64_t bytes);
bool blocks_are_finite(uint32_t kind, const void *blocks, uint64_t bytes); // of a kind (kinds.h)
// The same of an expert's array, whatever its kind: its scales, or its blocks. And whether what it is scaled by is zero
// throughout: no model's expert is, but a hole in a file reads so.
bool part_is_finite(const struct expert_part *part, const void *bytes);
bool part_is_zero(const struct expert_part *part, const void *bytes);
bool bytes_are_zero(const void *bytes, uint64_t n);
int gguf_not_finite(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, struct moe_err *err);

// Reads every tensor that the model uses, of GGUF files or an MLX folder. MOE_FORMAT names the first that is not sound:
// numbers that are not finite, a matrix or an expert that is zero throughout.
struct verification {
    const struct package *package;
    moe_progress_fn *progress; // may be NULL
    void *context;
};
int verify_weights(const struct verification *how, struct moe_err *err);
// A few bytes of each layer's experts: refuses a layer whose are all zero, by its file. Packages, too; takes
// milliseconds.
int verify_no_holes(const struct package *package, struct moe_err *err);
// All other matrices of any checkpoint, each up to its first byte that is not zero: refuses, as verify_weights does,
// one that has none. Takes milliseconds where none is a hole.
int verify_no_zeroes(const struct checkpoint *checkpoint, struct moe_err *err);

#endif
