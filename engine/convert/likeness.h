// SPDX-License-Identifier: GPL-3.0-or-later
// By what a source that is being consumed is known again, whose times change and whose experts go: samples of the
// tensors that stay, noted in the journal, and of what should be gone.
#ifndef MOECHAT_ENGINE_CONVERT_LIKENESS_H
#define MOECHAT_ENGINE_CONVERT_LIKENESS_H

#include "engine/convert/job.h"
#include "engine/convert/journal.h"

// MOE_BAD_ARGUMENT: what stays of the source was packed already, of another one; or experts that were removed are there
// again, and not as the package in `folder` has them. Until something was packed, and where the journal does not know
// it, it is told: what was damaged may be mended. The job's layers are all copied as they are.
int likeness_check(const struct job *job, const char *folder, struct journal *journal, struct moe_err *err);

#endif
