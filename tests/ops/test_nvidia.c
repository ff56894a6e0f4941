// SPDX-License-Identifier: GPL-3.0-or-later
// What is compiled for NVIDIA's GPUs alone, with its tensor cores, is correct C: clang reads both programs, and that of
// the kinds once for each kind, as PoCL never does. Without clang nothing is tried, and it says so.
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/source.h"
#include "tests/harness.h"
#include "tests/nvidia_clang.h"

static void all_ops(struct harness *t)
{
    CHECK(t, nvidia_clang(kernels_text, kernels_text_bytes, "", NULL));
    CHECK(t, !nvidia_clang("void f(void) { g(1); }", 22, "", NULL)); // it would say so
}

static void each_kind(struct harness *t)
{
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        char options[256];
        if (nvidia_kind_options(kind, options))
            CHECK(t, nvidia_clang(kind_text, kind_text_bytes, options, NULL));
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
            CHECK(t, nvidia_clang(text, strlen(text), "-DTOKEN_PROGRAM", NULL));
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
