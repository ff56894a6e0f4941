// SPDX-License-Identifier: GPL-3.0-or-later
// Folders as the hub has them, for tests: tensors in memory, written as shards with an index; and a package turned back
// into the MLX folder that it could have come from.
#ifndef MOECHAT_FOLDER_RIG_H
#define MOECHAT_FOLDER_RIG_H

#include <dirent.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/checkpoint.h"
#include "engine/files/package.h"
#include "kernels/kinds.h"

struct made_tensor {
    char name[160];
    char dtype[8];
    uint32_t n_dims;
    uint64_t dims[4];
    unsigned char *data; // owned
    uint64_t bytes;
};

struct made_folder {
    struct made_tensor tensors[2000];
    size_t count;
};

static inline void *made_memory(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    if (!memory)
        exit(70);
    return memory;
}

// Adds a tensor whose bytes (zeroed) the caller fills.
static inline struct made_tensor *made_add(struct made_folder *folder, const char *name, const char *dtype,
                                           uint32_t n_dims, const uint64_t *dims)
{
    struct made_tensor *tensor = &folder->tensors[folder->count++];
    if (folder->count > sizeof folder->tensors / sizeof *folder->tensors)
        exit(70);
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    snprintf(tensor->dtype, sizeof tensor->dtype, "%s", dtype);
    tensor->n_dims = n_dims;
    tensor->bytes = strstr("U32 F32 I32", dtype) ? 4 : strstr("BF16 F16", dtype) ? 2 : strcmp(dtype, "I64") ? 1 : 8;
    for (uint32_t i = 0; i < n_dims; i++) {
        tensor->dims[i] = dims[i];
        tensor->bytes *= dims[i];
    }
    tensor->data = made_memory(tensor->bytes);
    return tensor;
}

static inline struct made_tensor *made_find(struct made_folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->count; i++)
        if (strcmp(folder->tensors[i].name, name) == 0)
            return &folder->tensors[i];
    fprintf(stderr, "no tensor %s\n", name);
    exit(70);
}

static inline void made_release(struct made_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        free(folder->tensors[i].data);
    folder->count = 0;
}

static inline void made_text(const char *directory, const char *name, const char *text)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file))
        exit(70);
}

static inline void made_shard_name(char name[64], uint32_t shard, uint32_t n_shards)
{
    if (n_shards == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05u-of-%05u.safetensors", shard + 1, n_shards);
}

// Tensor i goes to shard i % n_shards.
static inline void made_write_shard(const struct made_folder *folder, const char *directory, uint32_t shard,
                                    uint32_t n_shards)
{
    struct json_object *header = json_object_new_object();
    uint64_t offset = 0;
    for (size_t i = shard; i < folder->count; i += n_shards) {
        const struct made_tensor *tensor = &folder->tensors[i];
        struct json_object *entry = json_object_new_object();
        struct json_object *dims = json_object_new_array();
        struct json_object *range = json_object_new_array();
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            json_object_array_add(dims, json_object_new_uint64(tensor->dims[d]));
        json_object_array_add(range, json_object_new_uint64(offset));
        json_object_array_add(range, json_object_new_uint64(offset += tensor->bytes));
        json_object_object_add(entry, "dtype", json_object_new_string(tensor->dtype));
        json_object_object_add(entry, "shape", dims);
        json_object_object_add(entry, "data_offsets", range);
        json_object_object_add(header, tensor->name, entry);
    }
    const char *text = json_object_to_json_string_ext(header, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    uint64_t length = strlen(text);
    char name[64];
    char path[4400];
    made_shard_name(name, shard, n_shards);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(&length, 8, 1, file) != 1 || fwrite(text, 1, length, file) != length)
        exit(70);
    for (size_t i = shard; i < folder->count; i += n_shards)
        if (fwrite(folder->tensors[i].data, 1, folder->tensors[i].bytes, file) != folder->tensors[i].bytes)
            exit(70);
    if (fclose(file))
        exit(70);
    json_object_put(header);
}

// Shards, and an index when there are several. config.json is the caller's.
static inline void made_write(const struct made_folder *folder, const char *directory, uint32_t n_shards)
{
    struct json_object *index = json_object_new_object();
    struct json_object *map = json_object_new_object();
    mkdir(directory, 0700);
    for (uint32_t i = 0; i < n_shards; i++)
        made_write_shard(folder, directory, i, n_shards);
    for (size_t i = 0; i < folder->count; i++) {
        char name[64];
        made_shard_name(name, (uint32_t)(i % n_shards), n_shards);
        json_object_object_add(map, folder->tensors[i].name, json_object_new_string(name));
    }
    json_object_object_add(index, "weight_map", map);
    if (n_shards > 1)
        made_text(directory, "model.safetensors.index.json", json_object_to_json_string(index));
    json_object_put(index);
}

static inline void made_read(const char *path, uint64_t offset, void *target, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseeko(file, (off_t)offset, SEEK_SET) || fread(target, 1, bytes, file) != bytes)
        exit(70);
    fclose(file);
}

static inline void made_stack(struct made_folder *folder, const struct package *p, uint32_t layer, uint32_t which)
{
    static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const parts[] = {"weight", "scales", "biases"};
    const struct expert_layout *experts = package_experts(p, layer);
    const struct args_matrix *m = &(&experts->gate)[which / 3];
    const uint64_t offsets[] = {m->weight, m->scales, m->biases};
    uint64_t dims[] = {p->shape.n_routed_experts, m->out_dim,
                       which % 3 ? m->in_dim / m->group_size : matrix_row_bytes(m) / 4};
    char name[160];
    snprintf(name, sizeof name, "model.layers.%" PRIu32 ".mlp.switch_mlp.%s.%s", layer, projections[which / 3],
             parts[which % 3]);
    struct made_tensor *tensor = made_add(folder, name, which % 3 ? "BF16" : "U32", 3, dims);
    uint64_t bytes = tensor->bytes / dims[0];
    for (uint32_t e = 0; e < dims[0]; e++) {
        struct expert_span span[MAX_EXPERT_SPANS];
        package_spans(p, layer, e, span);
        made_read(p->files[span[0].file].path, span[0].offset + offsets[which % 3], tensor->data + e * bytes, bytes);
    }
}

// The package's tensors as MLX names and stacks them. Tensors of the layers alternate, as shards of the hub do not.
static inline void made_from_package(struct made_folder *folder, const char *directory, struct json_object **config)
{
    struct package p;
    struct checkpoint resident;
    struct moe_err err = {.text = ""};
    if (package_open(directory, &p, &err) || checkpoint_open_file(p.resident.path, &resident, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(70);
    }
    static const char *const dtypes[] = {[DTYPE_BF16] = "BF16", [DTYPE_F32] = "F32", [DTYPE_U32] = "U32"};
    for (size_t i = 0; i < resident.count; i++) {
        const struct checkpoint_tensor *from = &resident.tensors[i];
        struct made_tensor *to =
            made_add(folder, from->name, dtypes[from->at->dtype], from->at->n_dims, from->at->dims);
        if (checkpoint_read(&resident, &(struct checkpoint_range){from, 0, (size_t)to->bytes}, to->data, &err))
            exit(70);
    }
    for (uint32_t layer = p.shape.first_k_dense_replace; layer < p.shape.n_layers; layer++)
        for (uint32_t which = 0; which < 9; which++)
            made_stack(folder, &p, layer, which);
    char path[4400];
    snprintf(path, sizeof path, "%s/model.json", directory);
    struct json_object *root = json_object_from_file(path);
    *config = json_object_get(json_object_object_get(root, "config"));
    json_object_put(root);
    checkpoint_release(&resident);
    package_release(&p);
}

static inline void made_write_config(const char *directory, struct json_object *config)
{
    mkdir(directory, 0700);
    made_text(directory, "config.json", json_object_to_json_string(config));
}

// Removes a folder and the files in it.
static inline void made_remove(const char *directory)
{
    DIR *folder = opendir(directory);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (folder)
        closedir(folder);
    rmdir(directory);
}

#endif
