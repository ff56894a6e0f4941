// SPDX-License-Identifier: GPL-3.0-or-later
// What a GGUF's tensors are stored as, by their use, for people.
#ifndef MOECHAT_ENGINE_FILES_GGUF_GROUPS_H
#define MOECHAT_ENGINE_FILES_GGUF_GROUPS_H

#include "engine/files/checkpoint.h"

// groups[0 ..] are those that there are, the rest is zero.
void gguf_groups(const struct checkpoint *checkpoint, struct moe_group groups[MOE_GROUPS]);

#endif
