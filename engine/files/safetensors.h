// SPDX-License-Identifier: GPL-3.0-or-later
// A safetensors file: its header parsed as hostile input, its tensors found by name and read.
// Refused: header lengths beyond the file or 32 MiB, data ranges that overlap, leave holes, lie outside the file or do
// not match dtype and shape, duplicate names or names that are not printable ASCII, unknown dtypes.
#ifndef MOECHAT_ENGINE_FILES_SAFETENSORS_H
#define MOECHAT_ENGINE_FILES_SAFETENSORS_H

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
    DTYPE_F8_E4M3
};

static inline bool dtype_is_float(enum tensor_dtype dtype) // that weights are computed with as they are
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype == DTYPE_F32;
}

struct tensor {
    char *name;
    enum tensor_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[4];
    uint64_t offset; // in the file
    uint64_t bytes;
};

struct safetensors {
    char path[4200];
    int fd;
    struct tensor *tensors; // sorted by name
    size_t count;
};

// On failure nothing is left open or allocated.
int safetensors_open(const char *path, struct safetensors *file, struct moe_err *err);
void safetensors_release(struct safetensors *file);
const struct tensor *safetensors_find(const struct safetensors *file, const char *name); // NULL: not there
// Reads a whole tensor into target (tensor->bytes), resuming short reads.
int safetensors_read(const struct safetensors *file, const struct tensor *tensor, void *target, struct moe_err *err);
// The header's JSON alone against a file of file_bytes (data_start = where tensors begin): the fuzz target's way in.
// file->path, for messages, and file->fd are the caller's.
int safetensors_parse(const char *json, size_t length, uint64_t data_start, uint64_t file_bytes,
                      struct safetensors *file, struct moe_err *err);

#endif
