// SPDX-License-Identifier: GPL-3.0-or-later
// By what a source that is being consumed is known again, whose times change and whose experts go: samples of the
// tensors that stay, noted in the journal.
#ifndef MOECHAT_ENGINE_CONVERT_LIKENESS_H
#define MOECHAT_ENGINE_CONVERT_LIKENESS_H

#include "engine/convert/job.h"
#include "engine/convert/journal.h"

// MOE_BAD_ARGUMENT: what stays of the source was packed already, of another one. Until then, and where the journal does
// not know it, it is told: what was damaged may be mended. The job's layers are all copied as they are.
int likeness_check(const struct job *job, struct journal *journal, struct moe_err *err);

#endif
