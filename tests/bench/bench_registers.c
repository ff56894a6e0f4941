// SPDX-License-Identifier: GPL-3.0-or-later
// What each kernel takes of a GPU's unit, as clang and ptxas count it: registers and local memory of a work-group,
// stack and spills of a work-item, as a table in Markdown. `bench_registers [KIND...]`: the program of all ops, or
// those of the kinds named ("Q4_K", "4 bits"). NVIDIA's own compiler of OpenCL C counts otherwise, mostly less: what
// this shows is which kernel is large, and whether a change made it larger. Without clang and ptxas (CUDA's toolkit, or
// Python's package nvidia-cuda-nvcc-cu12) it says so.
#include <stdint.h>

#include "tests/nvidia_clang.h"

enum { LINE = 512, COMMAND = 256 };

struct kernel {
    char name[64];
    unsigned stack, stored, loaded; // bytes of a work-item
};

// A number that stands in front of these words. 0: it is not told.
static unsigned number_before(const char *line, const char *words)
{
    const char *at = strstr(line, words);
    while (at && at > line && (at[-1] == ' ' || (at[-1] >= '0' && at[-1] <= '9')))
        at--;
    return at ? (unsigned)strtoul(at, NULL, 10) : 0;
}

static void take_line(struct kernel *kernel, const char *line)
{
    const char *used = strstr(line, "Used ");
    const char *entry = strstr(line, "entry function '");
    if (entry)
        sscanf(entry, "entry function '%63[^']", kernel->name);
    if (strstr(line, "stack frame")) {
        kernel->stack = number_before(line, " bytes stack frame");
        kernel->stored = number_before(line, " bytes spill stores");
        kernel->loaded = number_before(line, " bytes spill loads");
    }
    if (used && *kernel->name)
        printf("| %s | %lu | %u | %u | %u, %u |\n", kernel->name, strtoul(used + 5, NULL, 10),
               number_before(line, " bytes smem"), kernel->stack, kernel->stored, kernel->loaded);
}

static int print_program(const char *name, const char *text, size_t bytes, const char *options)
{
    char ptx[] = "/tmp/bench-registers-XXXXXX", command[COMMAND], line[LINE];
    struct kernel kernel = {.name = ""};
    int fd = mkstemp(ptx), status = 1;
    if (fd < 0)
        return 1;
    close(fd);
    printf("%s\n\n| kernel | registers | local memory | stack | spilled: stores, loads |\n|---|---|---|---|---|\n",
           name);
    snprintf(command, sizeof command, "ptxas -v -c -arch sm_90 %s -o /dev/null 2>&1", ptx);
    FILE *said = nvidia_clang(text, bytes, options, ptx) ? popen(command, "r") : NULL;
    while (said && fgets(line, sizeof line, said))
        take_line(&kernel, line);
    if (said)
        status = pclose(said);
    if (status)
        fprintf(stderr, "bench_registers: the program of %s was not built\n", name);
    printf("\n");
    unlink(ptx);
    return status != 0;
}

static uint32_t kind_of(const char *name)
{
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        if (kind_info(kind) && strcmp(kind_name(kind), name) == 0)
            return kind;
    return KIND_NONE;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (system("command -v clang >/dev/null && command -v ptxas >/dev/null") != 0) {
        printf("bench_registers: needs clang and ptxas, which comes with CUDA's toolkit; nothing was counted\n");
        return 0;
    }
    if (argc == 1)
        failed = print_program("all ops", kernels_text, kernels_text_bytes, "");
    for (int i = 1; i < argc; i++) {
        char options[256];
        if (!nvidia_kind_options(kind_of(argv[i]), options)) {
            fprintf(stderr, "bench_registers: %s is no kind with a program of its own\n", argv[i]);
            return 2;
        }
        failed |= print_program(argv[i], kind_text, kind_text_bytes, options);
    }
    return failed;
}
