// SPDX-License-Identifier: GPL-3.0-or-later
// Fills struct moe_err.
#include "engine/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/gpu.h"

static void clear(struct moe_err *err, enum moe_code code)
{
    memset(err, 0, sizeof *err);
    err->code = code;
    err->layer = -1;
    err->expert = -1;
}

int moe_fail(struct moe_err *err, enum moe_code code, const char *format, ...)
{
    if (err) {
        clear(err, code);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(err->text, sizeof err->text, format, arguments);
        va_end(arguments);
    }
    return (int)code;
}

int moe_fail_file(struct moe_err *err, enum moe_code code, const char *file, int sys_errno, const char *what)
{
    if (err) {
        clear(err, code);
        err->sys_errno = sys_errno;
        snprintf(err->file, sizeof err->file, "%s", file);
        snprintf(err->text, sizeof err->text, "%.300s: %s%s%s", file, what, sys_errno ? ": " : "",
                 sys_errno ? strerror(sys_errno) : "");
    }
    return (int)code;
}

int moe_fail_for(struct moe_err *err, enum moe_cause cause, int code)
{
    if (err)
        err->cause = cause;
    return code;
}

int moe_fail_gpu(struct moe_err *err, const struct gpu_error *device)
{
    enum moe_code code = device->code == GPU_OUT_OF_MEMORY ? MOE_NO_MEMORY
                         : device->code == GPU_ARGUMENT    ? MOE_BAD_ARGUMENT
                                                           : MOE_DEVICE;
    return moe_fail(err, code, "%s", device->text);
}
