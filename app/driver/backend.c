// SPDX-License-Identifier: GPL-3.0-or-later
// Chooses between the two kinds of backends.
#include "app/driver/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int backend_fail(struct moe_err *err, enum moe_code code, const char *format, ...)
{
    *err = (struct moe_err){.code = code, .layer = -1, .expert = -1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return (int)code;
}

bool backend_new(struct backend *backend, const struct model_settings *settings, struct moe_err *err)
{
    static const char fake[] = "fake:";
    if (!settings->engine)
        return backend_moe_new(backend, settings, err);
    if (strncmp(settings->engine, fake, sizeof fake - 1) == 0)
        return backend_fake_new(backend, settings->engine + sizeof fake - 1, err);
    backend_fail(err, MOE_BAD_ARGUMENT, "--engine takes fake:FILE");
    return false;
}
