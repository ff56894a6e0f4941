// SPDX-License-Identifier: GPL-3.0-or-later
// A program of OpenCL C as a shared library of this machine, by clang.
#ifndef MOECHAT_EMULATE_PROGRAM_H
#define MOECHAT_EMULATE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/emulate/group.h"

struct bytes {
    unsigned char *data; // of malloc
    size_t n;
};

// Compiles the text; what clang says comes in *log (malloc). No data: it does not build.
struct bytes program_compile(const char *text, size_t n, const char *options, char **log);

// Loads what program_compile made; NULL, and the reason in *log, when it does not.
void *program_load(const struct bytes *library, char **log);

enum { MOST_ARRAYS = 16 };
struct loaded_kernel {
    kernel_function *function; // NULL: there is none of this name
    struct local_array arrays[MOST_ARRAYS];
    size_t n_arrays, local_bytes;
};
struct loaded_kernel program_kernel(void *loaded, const char *name);

#endif
