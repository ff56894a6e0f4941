// SPDX-License-Identifier: GPL-3.0-or-later
// moechat kernels: builds a device's kernels ahead of time; and, as a helper, those that a job names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/subcommands/cmd.h"
#include "app/util/progress.h"
#include "app/util/report.h"
#include "kernels/gpu.h"

static void on_progress(void *context, const char *kernel, unsigned done, unsigned total)
{
    struct moe_progress at = {.what = "building kernels", .unit = "steps", .done = done, .total = total};
    (void)kernel;
    progress_show(context, &at);
}

static int build(const struct options *options, const char *folder)
{
    struct progress progress = {.out = isatty(STDERR_FILENO) ? stderr : NULL};
    struct gpu_error err;
    struct gpu_options how = {.selector = options->model.device,
                              .cache_dir = folder,
                              .progress = on_progress,
                              .progress_context = &progress,
                              .helper = model_settings_helper};
    gpu *g = gpu_open(&how, &err);
    progress_clear(&progress);
    if (!g) {
        report("%s", err.text);
        return STATUS_MODEL;
    }
    if (*gpu_notice(g))
        report("%s", gpu_notice(g));
    fputs("Kernels are ready for ", stdout);
    report_text(stdout, gpu_describe(g)->name, strlen(gpu_describe(g)->name));
    puts(".");
    gpu_close(g);
    return STATUS_DONE;
}

int cmd_kernels(const struct options *options)
{
    if (options->asked.job) {
        struct gpu_error err;
        if (gpu_build(options->asked.job, &err) == GPU_OK)
            return STATUS_DONE;
        report("%s", err.text);
        return STATUS_MODEL;
    }
    char *folder = files_kernel_cache(options->model.kernel_cache);
    int status = build(options, folder);
    free(folder);
    return status;
}
