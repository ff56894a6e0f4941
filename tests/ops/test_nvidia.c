// SPDX-License-Identifier: GPL-3.0-or-later
// What is compiled for NVIDIA's GPUs alone, with its tensor cores, is correct C: clang reads both programs, and that of
// the kinds once for each kind, as PoCL never does. Without clang nothing is tried, and it says so.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/device.h"
#include "kernels/source.h"
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

// Pairs that have most in common, or least: macros of one kind must not reach the other.
static void several_kinds(struct harness *t)
{
    static const uint32_t pairs[][2] = {{KIND_Q4_0, KIND_Q8_0}, {KIND_Q4_K, KIND_Q6_K},     {KIND_Q5_0, KIND_Q5_K},
                                        {KIND_Q2_K, KIND_Q3_K}, {KIND_IQ4_NL, KIND_IQ4_XS}, {KIND_MXFP4, KIND_Q4_1},
                                        {KIND_Q5_1, KIND_Q5_1}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *text = source_token_text(UINT64_C(1) << pairs[i][0] | UINT64_C(1) << pairs[i][1]);
        if (CHECK(t, text != NULL))
            CHECK(t, reads(text, strlen(text), "-DTOKEN_PROGRAM"));
        free(text);
    }
}

// What is told to NVIDIA's compiler of each kernel, whether its groups' size is or not.
static void groups_of_a_unit(struct harness *t)
{
    char *ptx = ptx_of_two_groups(".entry mla_in(\n.param .u64 n\n)\n.reqntid 256, 1, 1\n{\n}\n.entry mla_inner()\n{ }"
                                  ".entry moe_token()\n{ mul(); }\n");
    if (CHECK(t, ptx != NULL))
        CHECK(t, strcmp(ptx, ".entry mla_in(\n.param .u64 n\n)\n.minnctapersm 2\n.reqntid 256, 1, 1\n{\n}\n"
                             ".entry mla_inner()\n{ }"
                             ".entry moe_token()\n.minnctapersm 2\n.maxntid 256, 1, 1\n{ mul(); }\n") == 0);
    free(ptx);
    ptx = ptx_of_two_groups("nothing");
    CHECK(t, ptx && strcmp(ptx, "nothing") == 0);
    free(ptx);
}

// Pointers into the device's memory become numbers, and nothing else does.
static void addresses(struct harness *t)
{
    char *ptx = ptx_with_addresses(".param .align 8 .b8 a_0[64],\n.param .u64 .ptr .global .align 16 a_1,\n"
                                   ".param .u64 .ptr .shared .align 4 a_2\n.param .u64 .ptr .global .align 1 b_0");
    if (CHECK(t, ptx != NULL))
        CHECK(t, strcmp(ptx, ".param .align 8 .b8 a_0[64],\n.param .u64 a_1,\n"
                             ".param .u64 .ptr .shared .align 4 a_2\n.param .u64 b_0") == 0);
    free(ptx);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(all_ops), TEST(each_kind), TEST(several_kinds),
                                                TEST(groups_of_a_unit), TEST(addresses)};
    if (system("command -v clang >/dev/null") != 0) {
        printf("SKIP no clang to read what is NVIDIA's (Debian: apt install clang)\n");
        return 0;
    }
    return HARNESS_RUN(tests, argc, argv);
}
