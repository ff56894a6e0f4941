// SPDX-License-Identifier: GPL-3.0-or-later
// GGUF files as an opened source of weights: a checkpoint whose tensors have the names that the engine asks for, and
// experts that are read where they lie, two or three spans each.
#ifndef MOECHAT_ENGINE_FILES_GGUF_MODEL_H
#define MOECHAT_ENGINE_FILES_GGUF_MODEL_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"

// Opens package->directory (zeroed otherwise), a path as gguf_set.h takes it. On failure nothing is left allocated.
int gguf_model_open(struct package *package, struct moe_err *err);

// The resident tensors of a package that was made of GGUF files: a GGUF without experts. The keys stay in
// checkpoint->gguf; what is computed with them is the package's config. On failure nothing is left open.
int gguf_model_open_resident(const struct package *package, struct checkpoint *checkpoint, struct moe_err *err);
// What the keys of such a package suggest, into package->suggestion.
int gguf_model_read_suggestion(struct package *package, struct moe_err *err);

// MOE_UNSUPPORTED names the type of a tensor that moechat has no kernels for.
int gguf_check_kind(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, struct moe_err *err);

#endif
