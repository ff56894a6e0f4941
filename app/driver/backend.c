// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/driver/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/util/files.h"

int backend_fail(struct moe_err *err, enum moe_code code, const char *format, ...)
{
    *err = (struct moe_err){.code = code, .layer = -1, .expert = -1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return (int)code;
}

bool backend_new(struct backend *backend, const struct options *options, struct moe_err *err)
{
    static const char fake[] = "fake:";
    if (!options->engine)
        return backend_moe_new(backend, options, err);
    if (strncmp(options->engine, fake, sizeof fake - 1) == 0)
        return backend_fake_new(backend, options->engine + sizeof fake - 1, err);
    backend_fail(err, MOE_BAD_ARGUMENT, "--engine takes fake:FILE");
    return false;
}

struct moe_model_options backend_model_options(const struct options *options, char **kernel_cache)
{
    *kernel_cache = files_kernel_cache(options->kernel_cache);
    return (struct moe_model_options){
        .device = options->device,
        .kernel_cache_dir = *kernel_cache,
        .expert_cache_bytes = options->expert_cache,
        .host_cache_bytes = options->host_cache,
        .io = (enum moe_io)options->io,
        .ring = options->ring,
        .readers = options->readers,
        .trace_file = options->trace,
        .profile = options->profile,
        .nice_value = options->command == COMMAND_CHAT ? BACKEND_CHAT_NICE : 0,
    };
}
