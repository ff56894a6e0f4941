// SPDX-License-Identifier: GPL-3.0-or-later
// Weights as named tensors, wherever they lie: a package's one file of resident tensors, a folder from the hub with its
// shards and their index, or GGUF files. Const after opening.
#ifndef MOECHAT_ENGINE_FILES_CHECKPOINT_H
#define MOECHAT_ENGINE_FILES_CHECKPOINT_H

#include "engine/files/safetensors.h"
#include "engine/files/shape.h"

struct json_object;
struct gguf;

struct checkpoint_tensor {
    const char *name; // the engine's: folder_names.h, gguf_names.h
    const struct tensor *at;
    uint32_t shard;
};

// Tensors that the model has no use for, counted when the folder was opened. `example` is the first one's name.
struct left_out {
    uint32_t count;
    uint64_t bytes;
    char example[128];
};

struct checkpoint {
    struct tensor_file *shards; // [n_shards]
    uint32_t n_shards;
    struct checkpoint_tensor *tensors; // [count], sorted by name
    size_t count;
    // Of a folder and of GGUF files only.
    char directory[4096];       // or the first file's path
    struct json_object *config; // config.json, or what is as good
    struct shape shape;
    struct left_out vision, mtp, buffers, spare; // buffers: what older files keep of the rope
    char *names;                                 // of tensors, where they are not the shards' own; owned
    struct gguf *gguf;                           // the first file's keys, its tensors in shards[0]; owned
};

// One file. On failure nothing is left open or allocated; also below.
int checkpoint_open_file(const char *path, struct checkpoint *checkpoint, struct moe_err *err);
// A folder: config.json, and model.safetensors.index.json with the shards that it names, or else every *.safetensors.
// The index and the shards must say the same: each tensor once, in the shard that the index names, none missing.
int checkpoint_open_folder(const char *directory, struct checkpoint *checkpoint, struct moe_err *err);
void checkpoint_release(struct checkpoint *checkpoint);

// Puts the tensors in their order and refuses a name that is there twice: for those who fill a checkpoint.
int checkpoint_sort(struct checkpoint *checkpoint, struct moe_err *err);
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name); // NULL: none
// Bytes [offset, offset + bytes) of a tensor.
struct checkpoint_range {
    const struct checkpoint_tensor *tensor;
    uint64_t offset;
    size_t bytes;
};
int checkpoint_read(const struct checkpoint *checkpoint, const struct checkpoint_range *range, void *target,
                    struct moe_err *err);
bool checkpoint_is_routed(const struct checkpoint_tensor *tensor); // of a routed expert
const char *checkpoint_place(const struct checkpoint *checkpoint); // the folder, or the one file
const char *checkpoint_path(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor);

// The names of shards in an index's text, sorted, each once: the fuzz target's way in. The caller frees each and the
// list; `file` is for messages.
struct index_names {
    char **names;
    uint32_t count;
};
int checkpoint_parse_index(struct json_object *index, const char *file, struct index_names *names, struct moe_err *err);
void checkpoint_release_names(struct index_names *names);

#endif
