// SPDX-License-Identifier: GPL-3.0-or-later
// Kernels' texts as NVIDIA's compiler gets them, with tensor cores, given to clang in its place.
#ifndef MOECHAT_TESTS_NVIDIA_CLANG_H
#define MOECHAT_TESTS_NVIDIA_CLANG_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kinds.h"
#include "kernels/source.h"

extern const char kernels_text[], kind_text[]; // by embed.sh
extern const size_t kernels_text_bytes, kind_text_bytes;

static const char nvidia_declarations[] =
    "float __attribute__((overloadable)) vload_half(size_t, const __global half *);\n"
    "float4 __attribute__((overloadable)) vload_half4(size_t, const __global half *);\n"
    "float8 __attribute__((overloadable)) vload_half8(size_t, const __global half *);\n"
    "float16 __attribute__((overloadable)) vload_half16(size_t, const __global half *);\n"
    "void __attribute__((overloadable)) vstore_half_rte(float, size_t, __global half *);\n";

static inline bool nvidia_put(int fd, const char *text, size_t length)
{
    return write(fd, text, length) == (ssize_t)length;
}

// Does clang find nothing wrong with the text? With a path it writes PTX there.
static inline bool nvidia_clang(const char *text, size_t length, const char *options, const char *ptx)
{
    char path[] = "/tmp/test-nvidia-XXXXXX", command[1536], how[256] = "-fsyntax-only";
    int fd = mkstemp(path);
    bool wrote =
        fd >= 0 && nvidia_put(fd, nvidia_declarations, sizeof nvidia_declarations - 1) && nvidia_put(fd, text, length);
    close(fd);
    if (ptx)
        snprintf(how, sizeof how,
                 "-S -O3 -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 -o %s", ptx);
    snprintf(command, sizeof command,
             "clang -x cl -target nvptx64--nvidiacl %s -cl-std=CL1.2 -Xclang -fdeclare-opencl-builtins "
             "-Xclang -finclude-default-header -D__OPENCL_VERSION__=120 -Dasm=__asm__ -DSHAPE_CPU=0 -DNVIDIA_MMA=1 "
             "-w -ferror-limit=3 %s %s",
             how, options, path);
    int status = wrote ? system(command) : -1;
    unlink(path);
    return status == 0;
}

// What kind_text is told of a kind. False: it is none of its.
static inline bool nvidia_kind_options(uint32_t kind, char options[256])
{
    const struct kind_info *info = kind_info(kind);
    char name[32];
    if (!info || kind == KIND_F32 || kind == KIND_BF16) // the program of all ops knows them
        return false;
    if (info->scales == SCALES_AFFINE)
        snprintf(name, sizeof name, "AFFINE=%u", info->quantum_bits);
    else
        snprintf(name, sizeof name, "%s", info->name);
    snprintf(options, 256,
             "-DKIND=%u -DKIND_IS_%s -DBLOCK_INPUTS=%u -DBLOCK_BYTES=%u -DPIECES=%d -DSCALE_TYPE=1 -DUSES=31"
             " -DAT_HAND=%u",
             kind, name, info->block_inputs, info->block_bytes, info->by_pieces, source_inputs_at_hand(kind));
    return true;
}

#endif
