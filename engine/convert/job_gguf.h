// SPDX-License-Identifier: GPL-3.0-or-later
// The resident file of a package that is made of GGUF files: itself a GGUF, with their keys and every tensor that is no
// routed expert's, as it is.
#ifndef MOECHAT_ENGINE_CONVERT_JOB_GGUF_H
#define MOECHAT_ENGINE_CONVERT_JOB_GGUF_H

#include "engine/convert/job.h"

// Plans job->tensors, [n] of them having room, and makes the header. What says which part of a split set a file is,
// split.*, is left out of the keys.
int job_gguf_resident(struct job *job, struct moe_err *err);
// A tensor of the source that is copied as it is; its offset comes later.
void job_add_copy(struct job *job, const struct checkpoint_tensor *from);

#endif
