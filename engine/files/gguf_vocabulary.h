// SPDX-License-Identifier: GPL-3.0-or-later
// The keys of a GGUF that are about its tokens, as moe.h shows them.
#ifndef MOECHAT_ENGINE_FILES_GGUF_VOCABULARY_H
#define MOECHAT_ENGINE_FILES_GGUF_VOCABULARY_H

#include "engine/files/gguf.h"

bool gguf_has_vocabulary(const struct gguf *gguf);
// Takes the header out of *gguf, which the texts point into, and keeps it until moe_vocabulary_close. Refused by key:
// arrays of another type, a template of more than 1 MiB, ids that no int32 holds. MOE_NOT_FOUND: there is none.
int gguf_vocabulary_take(struct gguf *gguf, struct moe_vocabulary **vocabulary, struct moe_err *err);

#endif
