// SPDX-License-Identifier: GPL-3.0-or-later
// Settings of a model -> options of the engine.
#include "app/driver/model_settings.h"

#include "app/util/files.h"
#include "app/util/report.h"

const char *const model_settings_helper[] = {"/proc/self/exe", "kernels", "--job", NULL};

struct moe_model_options model_settings_open(const struct model_settings *settings, char **kernel_cache)
{
    *kernel_cache = files_kernel_cache(settings->kernel_cache);
    return (struct moe_model_options){
        .device = settings->device,
        .kernel_cache_dir = *kernel_cache,
        .kernel_helper = model_settings_helper,
        .expert_cache_bytes = settings->expert_cache,
        .host_cache_bytes = settings->host_cache,
        .context = settings->context,
        .kv_type = settings->kv,
        .io = settings->io,
        .ring = settings->ring,
        .readers = settings->readers,
        .trace_file = settings->trace,
        .profile = settings->profile,
        .nice_value = settings->nice_value,
    };
}

const char *model_settings_pipe(const struct model_settings *settings, size_t which)
{
    const char *written[MODEL_SETTINGS_WRITTEN] = {settings->trace, settings->predict_log};
    return written[which] && files_waits_as_pipe(written[which]) ? written[which] : NULL;
}

void model_settings_say_pipe(const struct model_settings *settings)
{
    for (size_t i = 0; i < MODEL_SETTINGS_WRITTEN; i++) {
        const char *pipe = model_settings_pipe(settings, i);
        if (pipe)
            report(FILES_PIPE_WAITS, pipe);
    }
}

struct moe_session_options model_settings_session(const struct model_settings *settings)
{
    return (struct moe_session_options){
        .max_context = settings->context,
        .kv_type = settings->kv,
        .prefill_chunk = settings->chunk,
        .prefill_group = settings->group,
        .ring = settings->ring,
        .prefetch = settings->prefetch,
    };
}
