// SPDX-License-Identifier: GPL-3.0-or-later
// generation_config.json beside a model: what its maker suggests for sampling. Of its fields temperature, top_k, top_p
// and min_p count; null is not there, a top_k of -1 is no limit, and with do_sample false nothing is suggested.
// Source of the fields: transformers' GenerationConfig.
#ifndef MOECHAT_ENGINE_FILES_SUGGESTION_H
#define MOECHAT_ENGINE_FILES_SUGGESTION_H

#include "engine/moe.h"

struct json_object;

// Without the file nothing is given. MOE_FORMAT names the field that is no number or out of range.
int suggestion_read(const char *directory, struct moe_suggestion *suggestion, struct moe_err *err);
// The same from what is parsed already. `file` is for messages.
int suggestion_take(struct json_object *root, const char *file, struct moe_suggestion *suggestion, struct moe_err *err);

#endif
