// SPDX-License-Identifier: GPL-3.0-or-later
// The GGUF files of one model: one, or a set that was split: PREFIX-00001-of-00009.gguf and so on, side by side. Any
// part stands for the set. The first part says what the model is; tensors are in any of them, each whole and once.
#ifndef MOECHAT_ENGINE_FILES_GGUF_SET_H
#define MOECHAT_ENGINE_FILES_GGUF_SET_H

#include "engine/files/gguf.h"

struct gguf_set {
    struct gguf head;          // of the first part; its tensors are in files[0]
    struct tensor_file *files; // [n_files]
    uint32_t n_files;
    bool head_only; // the other files are not here: what its tensors are is not known (foresee.c)
};

// A file, a part, or a folder with one of either (a vision tower's mmproj file beside it does not count). Refused:
// parts that are missing, by name; that say they are another part, or of another number; a sum of tensors other than
// the parts say; folders with more than one model; pieces of a file that was cut. On failure nothing is left open.
int gguf_set_open(const char *path, struct gguf_set *set, struct moe_err *err);
void gguf_set_release(struct gguf_set *set);

enum { GGUF_SET_PATH = 4200 };
// The file that a path stands for, any part of a split one: the path itself, or in a folder the one model's.
int gguf_set_file(const char *path, char file[GGUF_SET_PATH], struct moe_err *err);

// Whether the path is a regular file, is named as a GGUF file or a piece of one, or is a folder that holds such and no
// safetensors.
bool gguf_set_is_one(const char *path);

// "PREFIX-00002-of-00009.gguf", or .GGUF, as all parts then are: true, with number 2, count 9 and the prefix's length.
// 1 <= number <= count <= 2048.
struct gguf_part {
    size_t prefix;
    uint32_t number, count;
};
bool gguf_part_parse(const char *name, struct gguf_part *part);
// The path of the part with that number, beside the one that `file` is and `part` was parsed of.
void gguf_part_path(const char *file, const struct gguf_part *part, char *path, size_t size);

#endif
