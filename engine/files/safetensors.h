// SPDX-License-Identifier: GPL-3.0-or-later
// A safetensors file: its header parsed as hostile input, its tensors found by name and read.
// Refused: header lengths beyond the file or 32 MiB, data ranges that overlap, leave holes, lie outside the file or do
// not match dtype and shape, duplicate names or names that are not printable ASCII, unknown dtypes.
#ifndef MOECHAT_ENGINE_FILES_SAFETENSORS_H
#define MOECHAT_ENGINE_FILES_SAFETENSORS_H

#include "engine/files/tensor_file.h"

// On failure nothing is left open or allocated.
int safetensors_open(const char *path, struct tensor_file *file, struct moe_err *err);
// The header's JSON alone against a file of file_bytes (data_start = where tensors begin): the fuzz target's way in.
// file->path, for messages, and file->fd are the caller's.
int safetensors_parse(const char *json, size_t length, uint64_t data_start, uint64_t file_bytes,
                      struct tensor_file *file, struct moe_err *err);
// The bytes that an open file has when it is whole, by its header; 0: that is not all in the bytes that it has.
uint64_t safetensors_needs(int fd, const char *path, uint64_t has);

#endif
