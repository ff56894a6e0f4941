// SPDX-License-Identifier: GPL-3.0-or-later
// What is compiled for NVIDIA's GPUs alone, with its tensor cores, is correct C: clang reads both programs, and that of
// the kinds once for each kind, as PoCL never does. Without clang nothing is tried, and it says so.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kinds.h"
#include "tests/harness.h"

extern const char kernels_text[], kind_text[]; // by embed.sh
extern const size_t kernels_text_bytes, kind_text_bytes;

static const char declarations[] =
    "float __attribute__((overloadable)) vload_half(size_t, const __global half *);\n"
    "float4 __attribute__((overloadable)) vload_half4(size_t, const __global half *);\n"
    "float8 __attribute__((overloadable)) vload_half8(size_t, const __global half *);\n"
    "float16 __attribute__((overloadable)) vload_half16(size_t, const __global half *);\n"
    "void __attribute__((overloadable)) vstore_half_rte(float, size_t, __global half *);\n";

static bool put(int fd, const char *text, size_t length)
{
    return write(fd, text, length) == (ssize_t)length;
}

// Does clang find nothing wrong with the text?
static bool reads(const char *text, size_t length, const char *options)
{
    char path[] = "/tmp/test-nvidia-XXXXXX", command[1024];
    int fd = mkstemp(path);
    bool wrote = fd >= 0 && put(fd, declarations, sizeof declarations - 1) && put(fd, text, length);
    close(fd);
    snprintf(command, sizeof command,
             "clang -x cl -target nvptx64--nvidiacl -fsyntax-only -cl-std=CL1.2 -Xclang -fdeclare-opencl-builtins "
             "-Xclang -finclude-default-header -D__OPENCL_VERSION__=120 -Dasm=__asm__ -DSHAPE_CPU=0 -DNVIDIA_MMA=1 "
             "-w -ferror-limit=3 %s %s",
             options, path);
    int status = wrote ? system(command) : -1;
    unlink(path);
    return status == 0;
}

static void all_ops(struct harness *t)
{
    CHECK(t, reads(kernels_text, kernels_text_bytes, ""));
    CHECK(t, !reads("void f(void) { g(1); }", 22, "")); // it would say so
}

static void each_kind(struct harness *t)
{
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        const struct kind_info *info = kind_info(kind);
        char name[32], options[256];
        if (!info || kind == KIND_F32 || kind == KIND_BF16) // the program of all ops knows them
            continue;
        if (info->scales == SCALES_AFFINE)
            snprintf(name, sizeof name, "AFFINE=%u", info->quantum_bits);
        else
            snprintf(name, sizeof name, "%s", info->name);
        snprintf(options, sizeof options,
                 "-DKIND=%u -DKIND_IS_%s -DBLOCK_INPUTS=%u -DBLOCK_BYTES=%u -DPIECES=%d -DSCALE_TYPE=1 -DUSES=31", kind,
                 name, info->block_inputs, info->block_bytes, info->by_pieces);
        CHECK(t, reads(kind_text, kind_text_bytes, options));
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(all_ops), TEST(each_kind)};
    if (system("command -v clang >/dev/null") != 0) {
        printf("SKIP no clang to read what is NVIDIA's (Debian: apt install clang)\n");
        return 0;
    }
    return HARNESS_RUN(tests, argc, argv);
}
