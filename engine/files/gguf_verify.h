// SPDX-License-Identifier: GPL-3.0-or-later
// Whether the numbers of a GGUF's tensors are numbers: the scales of blocks, and floats themselves. A damaged or a
// badly made file has infinite ones or none, and one of them makes every token nonsense.
#ifndef MOECHAT_ENGINE_FILES_GGUF_VERIFY_H
#define MOECHAT_ENGINE_FILES_GGUF_VERIFY_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"

// Of whole blocks: their halves are finite, an MXFP4's exponent is not 255 (which stands for no number).
bool gguf_blocks_are_finite(uint32_t ggml_type, const void *blocks, uint64_t bytes);
bool blocks_are_finite(uint32_t kind, const void *blocks, uint64_t bytes); // of a kind (kinds.h)
// The same of an expert's array, whatever its kind: its scales, or its blocks. And whether what it is scaled by is zero
// throughout: no model's expert is, but a hole in a file reads so.
bool part_is_finite(const struct expert_part *part, const void *bytes);
bool part_is_zero(const struct expert_part *part, const void *bytes);
int gguf_not_finite(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, struct moe_err *err);

// Reads every tensor of the files that the model uses. MOE_FORMAT names the first that is not sound.
struct gguf_verification {
    const struct checkpoint *checkpoint;
    moe_progress_fn *progress; // may be NULL
    void *context;
};
int gguf_verify(const struct gguf_verification *how, struct moe_err *err);

#endif
