// SPDX-License-Identifier: GPL-3.0-or-later
// What makes two conversions the same one: the source's files as they are now, and all that its job says.
#ifndef MOECHAT_ENGINE_CONVERT_JOB_KEY_H
#define MOECHAT_ENGINE_CONVERT_JOB_KEY_H

#include "engine/convert/job.h"

// SHA-256 in hex.
// `consumed`: the source's files are written to meanwhile, so their times say nothing.
int job_key(const struct job *job, bool consumed, char key[65], struct moe_err *err);

#endif
