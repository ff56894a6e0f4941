// SPDX-License-Identifier: GPL-3.0-or-later
// Filling struct moe_err. Nothing is printed; `err` may be NULL everywhere.
#ifndef MOECHAT_ENGINE_BASE_ERR_H
#define MOECHAT_ENGINE_BASE_ERR_H

#include "engine/moe.h"

struct gpu_error;

// Sets code and text (printf), clears the place; returns code, so that `return moe_fail(err, MOE_FORMAT, "...")` works.
__attribute__((format(printf, 3, 4))) int moe_fail(struct moe_err *err, enum moe_code code, const char *format, ...);
// As moe_fail, for a file that could not be opened or read: adds the path and errno's text.
int moe_fail_file(struct moe_err *err, enum moe_code code, const char *file, int sys_errno, const char *what);
// After either: why, for whoever decides by it. Returns its code.
int moe_fail_for(struct moe_err *err, enum moe_cause cause, int code);
// MOE_DEVICE, MOE_NO_MEMORY or MOE_BAD_ARGUMENT with the device's own sentence.
int moe_fail_gpu(struct moe_err *err, const struct gpu_error *device);

#endif
