// SPDX-License-Identifier: GPL-3.0-or-later
// moechat devices: what can compute, as a list or as JSON.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/subcommands/cmd.h"
#include "app/util/format.h"
#include "kernels/gpu.h"
#include "app/util/json_out.h"
#include "app/util/report.h"

static const char *device_kind(enum gpu_kind kind)
{
    return kind == GPU_KIND_GPU ? "GPU" : kind == GPU_KIND_CPU ? "CPU" : "plain C";
}

static void add_device(struct json_out *out, const struct gpu_info *info)
{
    json_out_open(out, NULL, '{');
    json_out_string(out, "selector", info->selector);
    json_out_string(out, "name", info->name);
    json_out_string(out, "kind", info->kind == GPU_KIND_REF ? "ref" : info->kind == GPU_KIND_CPU ? "cpu" : "gpu");
    json_out_string(out, "platform", info->platform);
    json_out_string(out, "driver", info->driver);
    json_out_whole(out, "memory_bytes", info->global_bytes);
    json_out_whole(out, "largest_allocation_bytes", info->max_alloc_bytes);
    json_out_whole(out, "compute_units", info->compute_units);
    json_out_flag(out, "shares_host_memory", info->shares_host_memory || info->maps_host_memory);
    json_out_close(out, '}');
}

static void print_row(const struct gpu_info *info)
{
    char memory[FORMAT_SIZE];
    printf("%-8s  %-7s  %8s  %5u  ", info->selector, device_kind(info->kind),
           format_bytes(memory, sizeof memory, info->global_bytes), (unsigned)info->compute_units);
    report_text(stdout, info->name, strlen(info->name));
    if (*info->platform) {
        fputs(" (", stdout);
        report_text(stdout, info->platform, strlen(info->platform));
        fputs(")", stdout);
    }
    fputc('\n', stdout);
}

int cmd_devices(const struct options *options)
{
    enum { MANY = 64 };
    struct gpu_info *infos = calloc(MANY, sizeof *infos);
    if (!infos) {
        report("no memory");
        return STATUS_FAILED;
    }
    unsigned count = gpu_list(infos, MANY);
    count = count < MANY ? count : MANY;
    int status = STATUS_DONE;
    if (options->asked.json) {
        struct json_out out = {0};
        json_out_open(&out, NULL, '{');
        json_out_open(&out, "devices", '[');
        for (unsigned i = 0; i < count; i++)
            add_device(&out, &infos[i]);
        json_out_close(&out, ']');
        json_out_close(&out, '}');
        status = json_out_finish(&out);
    } else {
        printf("%-8s  %-7s  %8s  %5s  %s\n", "--device", "kind", "memory", "units", "name");
        for (unsigned i = 0; i < count; i++)
            print_row(&infos[i]);
        if (count <= 1)
            puts("No OpenCL device found; install your GPU's driver, or PoCL (pocl-opencl-icd) for the CPU.");
    }
    free(infos);
    return status;
}
