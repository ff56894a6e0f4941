// SPDX-License-Identifier: GPL-3.0-or-later
// Finds tensors by name over the shards of a folder, the index checked against them.
#include "engine/files/checkpoint.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/files/folder_names.h"
#include "engine/files/gguf.h"
#include "engine/files/safetensors.h"

enum { MAX_SHARDS = 2048, MAX_CONFIG = 16 << 20, MAX_INDEX = 128 << 20, MAX_DIRECTORY = 3900, MAX_NAME = 256 };

static const char index_name[] = "model.safetensors.index.json";

static int no_memory(struct moe_err *err, const char *path)
{
    return moe_fail_file(err, MOE_NO_MEMORY, path, 0, "no memory for its list of tensors");
}

// ---- Names

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool ends(const char *name, const char *with)
{
    size_t length = strlen(name);
    size_t tail = strlen(with);
    return length >= tail && strcmp(name + length - tail, with) == 0;
}

static bool is_vision(const char *name)
{
    static const char *const prefixes[] = {"vision_tower.",         "vision_model.", "visual.",
                                           "model.visual.",         "model.vision",  "mm_projector.",
                                           "multi_modal_projector."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (starts(name, prefixes[i]))
            return true;
    return false;
}

// Layers after the last are the ones that predict several tokens at once.
static bool is_mtp(const char *name, uint32_t n_layers)
{
    static const char layers[] = "model.layers.";
    if (!starts(name, layers) || !isdigit((unsigned char)name[sizeof layers - 1]))
        return starts(name, "mtp.") || starts(name, "model.mtp.");
    return strtoul(name + sizeof layers - 1, NULL, 10) >= n_layers;
}

// Some files have indexers in layers that share another's.
static bool is_spare(const char *name, const struct shape *s)
{
    static const char layers[] = "model.layers.";
    char *rest;
    if (!starts(name, layers) || !isdigit((unsigned char)name[sizeof layers - 1]))
        return false;
    unsigned long layer = strtoul(name + sizeof layers - 1, &rest, 10);
    return layer < s->n_layers && s->layer_kinds[layer] == LAYER_DSA_SHARED && starts(rest, ".self_attn.indexer.");
}

static struct left_out *left_out(struct checkpoint *c, const char *name)
{
    if (is_vision(name))
        return &c->vision;
    if (is_mtp(name, c->shape.n_layers))
        return &c->mtp;
    if (is_spare(name, &c->shape))
        return &c->spare;
    return ends(name, ".rotary_emb.inv_freq") ? &c->buffers : NULL;
}

// ---- The list of tensors

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct checkpoint_tensor *)a)->name, ((const struct checkpoint_tensor *)b)->name);
}

int checkpoint_sort(struct checkpoint *c, struct moe_err *err)
{
    if (c->count)
        qsort(c->tensors, c->count, sizeof *c->tensors, by_name);
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(c->tensors[i].name, c->tensors[i - 1].name) == 0)
            return moe_fail(err, MOE_FORMAT, "%.240s: tensor %.100s is in %.100s as well; download the model again",
                            checkpoint_path(c, &c->tensors[i]), c->tensors[i].at->name,
                            checkpoint_path(c, &c->tensors[i - 1]));
    return MOE_OK;
}

// From the open shards; `folder`: names and tensors are as the hub has them.
static int list_tensors(struct checkpoint *c, bool folder, struct moe_err *err)
{
    size_t most = 1, bytes = 1;
    for (uint32_t i = 0; i < c->n_shards; i++)
        most += c->shards[i].count;
    for (uint32_t i = 0; folder && i < c->n_shards; i++)
        for (size_t k = 0; k < c->shards[i].count; k++)
            bytes += strlen(c->shards[i].tensors[k].name) + FOLDER_NAME_GROWTH + 1;
    c->tensors = calloc(most, sizeof *c->tensors);
    c->names = malloc(bytes);
    char *ours = c->names;
    if (!c->tensors || !c->names)
        return no_memory(err, c->n_shards ? c->shards[0].path : c->directory);
    for (uint32_t i = 0; i < c->n_shards; i++)
        for (size_t k = 0; k < c->shards[i].count; k++) {
            const struct tensor *tensor = &c->shards[i].tensors[k];
            const char *name = folder ? ours : tensor->name;
            if (folder)
                ours = folder_name(tensor->name, ours);
            struct left_out *out = folder ? left_out(c, name) : NULL;
            if (!out) {
                c->tensors[c->count++] = (struct checkpoint_tensor){name, tensor, i};
                continue;
            }
            if (!out->count++)
                snprintf(out->example, sizeof out->example, "%.127s", name);
            out->bytes += tensor->bytes;
        }
    return checkpoint_sort(c, err);
}

int checkpoint_open_file(const char *path, struct checkpoint *c, struct moe_err *err)
{
    memset(c, 0, sizeof *c);
    c->shards = calloc(1, sizeof *c->shards);
    if (!c->shards)
        return no_memory(err, path);
    int code = safetensors_open(path, &c->shards[0], err);
    c->n_shards = !code;
    if (!code)
        code = list_tensors(c, false, err);
    if (code)
        checkpoint_release(c);
    return code;
}

// ---- The index

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct index_names *names)
{
    if (names->count)
        qsort(names->names, names->count, sizeof *names->names, by_text);
}

// Whether the list has the name; searched from the end, for shards follow each other.
static bool listed(const struct index_names *names, const char *name)
{
    for (uint32_t i = names->count; i-- > 0;)
        if (strcmp(names->names[i], name) == 0)
            return true;
    return false;
}

static int add_name(struct index_names *names, const char *name, const char *file, struct moe_err *err)
{
    if (listed(names, name))
        return MOE_OK;
    if (names->count == MAX_SHARDS)
        return moe_fail_file(err, MOE_UNSUPPORTED, file, 0, "there are more than 2048 shards");
    if (!names->names)
        names->names = calloc(MAX_SHARDS, sizeof *names->names);
    char *copy = names->names ? strdup(name) : NULL;
    if (!copy)
        return no_memory(err, file);
    names->names[names->count++] = copy;
    return MOE_OK;
}

// A plain name of a file in the folder, printable.
static bool good_shard(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (name[i] < 0x20 || name[i] > 0x7e || name[i] == '/')
            return false;
    return length < MAX_NAME && name[0] != '.' && ends(name, ".safetensors");
}

int checkpoint_parse_index(struct json_object *index, const char *file, struct index_names *names, struct moe_err *err)
{
    struct fields f = {.object = index, .file = file, .prefix = "", .err = err};
    memset(names, 0, sizeof *names);
    struct json_object *map = fields_object(&f, "weight_map");
    if (f.failed)
        return f.failed;
    int code = MOE_OK;
    struct json_object_iter member;
    json_object_object_foreachC(map, member)
    {
        const char *shard = json_object_is_type(member.val, json_type_string) ? json_object_get_string(member.val) : "";
        if (!code && !good_shard(shard))
            code = moe_fail_file(err, MOE_FORMAT, file, 0,
                                 "its weight_map names something else than a *.safetensors file of the folder");
        if (!code)
            code = add_name(names, shard, file, err);
    }
    if (!code && !names->count)
        code = moe_fail_file(err, MOE_FORMAT, file, 0, "its weight_map is empty");
    sort(names);
    if (code)
        checkpoint_release_names(names);
    return code;
}

void checkpoint_release_names(struct index_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    memset(names, 0, sizeof *names);
}

// What the index says against what the shards have.
static int compare_index(const struct checkpoint *c, struct json_object *index, const struct index_names *names,
                         struct moe_err *err)
{
    struct json_object *map = json_object_object_get(index, "weight_map");
    size_t count = 0;
    for (uint32_t i = 0; i < c->n_shards; i++)
        for (size_t k = 0; k < c->shards[i].count; k++, count++) {
            const char *name = c->shards[i].tensors[k].name;
            struct json_object *shard;
            if (!json_object_object_get_ex(map, name, &shard))
                return moe_fail(err, MOE_FORMAT, "%.280s: tensor %.120s is not in %s; download the folder again",
                                c->shards[i].path, name, index_name);
            if (strcmp(json_object_get_string(shard), names->names[i]) != 0)
                return moe_fail(err, MOE_FORMAT, "%.280s: tensor %.120s is here, but %s says %.80s; download it again",
                                c->shards[i].path, name, index_name, json_object_get_string(shard));
        }
    if (count == (size_t)json_object_object_length(map))
        return MOE_OK;
    struct json_object_iter member;
    json_object_object_foreachC(map, member)
    {
        char *const *shard = NULL;
        const char *wanted = json_object_get_string(member.val);
        shard = bsearch(&wanted, names->names, names->count, sizeof *names->names, by_text);
        if (!shard || !tensor_file_find(&c->shards[shard - names->names], member.key))
            return moe_fail(err, MOE_NO_TENSOR, "%.200s/%.80s: tensor %.120s is missing, though %s names it",
                            c->directory, wanted, member.key, index_name);
    }
    return MOE_OK;
}

// ---- Opening a folder

static void folder_path(const struct checkpoint *c, const char *name, char path[4200])
{
    snprintf(path, 4200, "%s/%s", c->directory, name);
}

static int read_config(struct checkpoint *c, struct moe_err *err)
{
    char path[4200];
    folder_path(c, "config.json", path);
    int code = fields_read(path, MAX_CONFIG, &c->config, err);
    return code ? code : shape_read(c->config, path, &c->shape, err);
}

// Every *.safetensors of a folder without an index.
static int find_shards(const struct checkpoint *c, struct index_names *names, struct moe_err *err)
{
    DIR *folder = opendir(c->directory);
    if (!folder)
        return moe_fail_file(err, MOE_IO, c->directory, errno, "cannot be listed");
    int code = MOE_OK;
    struct dirent *entry;
    while (errno = 0, !code && (entry = readdir(folder)))
        if (good_shard(entry->d_name))
            code = add_name(names, entry->d_name, c->directory, err);
    if (!code && errno) // readdir has not come to the end
        code = moe_fail_file(err, MOE_IO, c->directory, errno, "cannot be listed");
    closedir(folder);
    if (!code && !names->count)
        code = moe_fail_file(err, MOE_NOT_FOUND, c->directory, 0, "there is no *.safetensors file in it");
    sort(names);
    return code;
}

static int open_shards(struct checkpoint *c, const struct index_names *names, struct moe_err *err)
{
    c->shards = calloc(names->count, sizeof *c->shards);
    if (!c->shards)
        return no_memory(err, c->directory);
    for (uint32_t i = 0; i < names->count; i++) {
        char path[4200];
        folder_path(c, names->names[i], path);
        int code = safetensors_open(path, &c->shards[i], err);
        if (code == MOE_NOT_FOUND && err && err->sys_errno) // else it is a pointer to it, which was said
            return moe_fail_file(err, MOE_NOT_FOUND, path, 0, "is not there: the download is not complete");
        if (code)
            return code;
        c->n_shards++;
    }
    return MOE_OK;
}

static int open_folder(struct checkpoint *c, struct index_names *names, struct moe_err *err)
{
    char path[4200];
    struct json_object *index = NULL;
    int code = read_config(c, err);
    if (code)
        return code;
    folder_path(c, index_name, path);
    code = fields_read(path, MAX_INDEX, &index, err);
    bool without = code == MOE_NOT_FOUND;
    if (without)
        code = find_shards(c, names, err);
    else if (!code)
        code = checkpoint_parse_index(index, path, names, err);
    if (!code)
        code = open_shards(c, names, err);
    if (!code && !without)
        code = compare_index(c, index, names, err);
    json_object_put(index);
    return code ? code : list_tensors(c, true, err);
}

int checkpoint_open_folder(const char *directory, struct checkpoint *c, struct moe_err *err)
{
    struct index_names names = {0};
    memset(c, 0, sizeof *c);
    if (strlen(directory) == 0 || strlen(directory) > MAX_DIRECTORY)
        return moe_fail(err, MOE_BAD_ARGUMENT, "the folder's path must have 1 to %d bytes", MAX_DIRECTORY);
    snprintf(c->directory, sizeof c->directory, "%s", directory);
    int code = open_folder(c, &names, err);
    checkpoint_release_names(&names);
    if (code)
        checkpoint_release(c);
    return code;
}

void checkpoint_release(struct checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_shards; i++)
        tensor_file_release(&c->shards[i]);
    free(c->shards);
    free(c->tensors);
    free(c->names);
    if (c->gguf)
        gguf_release(c->gguf);
    free(c->gguf);
    json_object_put(c->config);
    memset(c, 0, sizeof *c);
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c, const char *name)
{
    struct checkpoint_tensor key = {.name = name};
    return c->count ? bsearch(&key, c->tensors, c->count, sizeof *c->tensors, by_name) : NULL;
}

bool checkpoint_is_routed(const struct checkpoint_tensor *tensor)
{
    const char *mlp = starts(tensor->name, "model.layers.") ? strstr(tensor->name, ".mlp.") : NULL;
    return mlp && (starts(mlp, ".mlp.experts.") || starts(mlp, ".mlp.switch_mlp."));
}

const char *checkpoint_place(const struct checkpoint *c)
{
    return c->directory[0] ? c->directory : c->shards[0].path;
}

const char *checkpoint_path(const struct checkpoint *c, const struct checkpoint_tensor *tensor)
{
    return c->shards[tensor->shard].path;
}

int checkpoint_read(const struct checkpoint *c, const struct checkpoint_range *range, void *target, struct moe_err *err)
{
    const struct tensor_file *shard = &c->shards[range->tensor->shard];
    return file_read(
        &(struct file_range){shard->fd, shard->path, range->tensor->at->offset + range->offset, range->bytes}, target,
        err);
}
