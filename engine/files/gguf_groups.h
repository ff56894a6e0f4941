// SPDX-License-Identifier: GPL-3.0-or-later
// What a GGUF's tensors are stored as, by their use, for people.
#ifndef MOECHAT_ENGINE_FILES_GGUF_GROUPS_H
#define MOECHAT_ENGINE_FILES_GGUF_GROUPS_H

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"

// `checkpoint` has the tensors of the files, or, of a package that was made of them, the resident ones. groups[0 ..]
// are those that there are, the rest is zero.
void gguf_groups(const struct package *package, const struct checkpoint *checkpoint,
                 struct moe_group groups[MOE_GROUPS]);

#endif
