// SPDX-License-Identifier: GPL-3.0-or-later
// A file of tensors, whatever its format: which there are, found by name and read. Made by safetensors.h or gguf.h;
// const afterwards.
#ifndef MOECHAT_ENGINE_FILES_TENSOR_FILE_H
#define MOECHAT_ENGINE_FILES_TENSOR_FILE_H

#include "engine/moe.h"

enum tensor_dtype {
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_F32,
    DTYPE_U8,
    DTYPE_I8,
    DTYPE_U32,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_F8_E4M3,
    DTYPE_GGML // a type of GGUF files that is none of the above: `ggml_type` says which
};

static inline bool dtype_is_float(enum tensor_dtype dtype) // that weights are computed with as they are
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype == DTYPE_F32;
}

enum { TENSOR_DIMS = 6 }; // vision towers have five

struct tensor {
    char *name;
    enum tensor_dtype dtype;
    uint32_t ggml_type; // ggml_types.h
    uint32_t n_dims;
    uint64_t dims[TENSOR_DIMS]; // the last is the length of a row
    uint64_t offset;            // in the file
    uint64_t bytes;
};

struct tensor_file {
    char path[4200];
    int fd;
    struct tensor *tensors; // sorted by name
    size_t count;
};

void tensor_file_sort(struct tensor_file *file);   // by name
void tensor_file_forget(struct tensor_file *file); // its tensors, not the descriptor
void tensor_file_release(struct tensor_file *file);
const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name); // NULL: not there
// Reads a whole tensor into target (tensor->bytes), resuming short reads.
int tensor_file_read(const struct tensor_file *file, const struct tensor *tensor, void *target, struct moe_err *err);

#endif
