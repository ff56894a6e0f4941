// SPDX-License-Identifier: GPL-3.0-or-later
// What a model will be whose weights are not here yet: from its config.json, or the beginning of its GGUF file.
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/files/gguf_config.h"
#include "engine/files/gguf_set.h"
#include "engine/files/package.h"
#include "engine/model/foresee_bits.h"
#include "engine/model/missing.h"
#include "engine/model/model.h"

enum { MAX_CONFIG = 8 << 20, MAX_INDEX = 64 << 20, PATH_BYTES = 4300 };

// Weights by where they will be.
struct counts {
    uint64_t experts, embedding, delicate, rest;
};

// Of the matrices that convert leaves as they are: routers, and what makes gates, decays and the mixing of streams.
static uint64_t delicate_weights(const struct shape *s)
{
    const struct linear_dims *d = &s->linear;
    uint64_t hidden = s->hidden_size, keys = (uint64_t)d->n_key_heads * d->key_head_dim;
    uint64_t count = (s->n_layers - s->first_k_dense_replace) * hidden * (s->n_routed_experts + s->has_shared_gate);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        enum layer_kind kind = shape_layer_kind(s, i);
        if (kind == LAYER_GDN)
            count += hidden * 2 * d->n_value_heads;
        if (kind == LAYER_KDA)
            count += hidden * d->n_value_heads + d->key_head_dim * (hidden + keys);
        if (kind == LAYER_DSA)
            count += hidden * (s->indexer.n_heads + (s->indexer.pool > 1 ? s->indexer.head_dim : 0));
        if (s->hyper.n_streams)
            count += 2 * HYPER_LOGITS * HYPER_STREAMS * hidden;
    }
    return count;
}

static struct counts count_weights(const struct shape *s)
{
    uint64_t n_layers = s->n_layers - s->first_k_dense_replace;
    struct counts counts = {
        .experts = n_layers * s->n_routed_experts * 3 * shape_expert_size(s) * s->moe_intermediate_size,
        .embedding = (uint64_t)s->vocab_size * s->hidden_size * (s->tie_word_embeddings ? 1 : 2),
    };
    counts.delicate = delicate_weights(s);
    uint64_t all = shape_parameters(s).total, known = counts.experts + counts.embedding + counts.delicate;
    counts.rest = all > known ? all - known : 0;
    return counts;
}

static uint64_t in_bytes(uint64_t weights, double bits)
{
    return (uint64_t)((double)weights * bits / 8);
}

// Sizes at so many bits a weight.
static void foresee_sizes(const struct shape *s, const struct foreseen_bits *bits, struct moe_description *d)
{
    struct counts counts = count_weights(s);
    uint64_t n = (uint64_t)(s->n_layers - s->first_k_dense_replace) * s->n_routed_experts;
    d->foreseen_bits = bits->experts;
    d->foreseen_guess = bits->guessed;
    snprintf(d->foreseen_from, sizeof d->foreseen_from, "%s", bits->from);
    d->all_experts_bytes = in_bytes(counts.experts, bits->experts);
    d->expert_bytes = n ? d->all_experts_bytes / n : 0;
    d->resident_bytes = in_bytes(counts.rest, bits->rest) + in_bytes(counts.embedding, bits->embedding) +
                        in_bytes(counts.delicate, bits->delicate);
    d->package_bytes = d->all_experts_bytes + d->resident_bytes;
}

// ---- config.json

// "total_size" of the index beside it, 0 without one: what the download's tensors take.
static uint64_t declared_bytes(const char *directory)
{
    char path[PATH_BYTES];
    struct json_object *root, *metadata, *size;
    struct moe_err ignored;
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%.4000s/model.safetensors.index.json", directory);
    if (fields_read(path, MAX_INDEX, &root, &ignored))
        return 0;
    if (json_object_object_get_ex(root, "metadata", &metadata) &&
        json_object_object_get_ex(metadata, "total_size", &size) && json_object_is_type(size, json_type_int) &&
        json_object_get_int64(size) > 0)
        bytes = (uint64_t)json_object_get_int64(size);
    json_object_put(root);
    return bytes;
}

// The last part of a folder's path.
static void name_after(const char *directory, char name[64])
{
    const char *end = directory + strlen(directory);
    while (end > directory + 1 && end[-1] == '/')
        end--;
    const char *begin = end;
    while (begin > directory && begin[-1] != '/')
        begin--;
    snprintf(name, 64, "%.*s", (int)(end - begin < 63 ? end - begin : 63), begin);
}

// Of a config.json its folder's; of one that was saved under another name, that.
static void name_of_config(const char *config_path, const char *directory, char name[64])
{
    const char *base = file_base_name(config_path);
    size_t length = strlen(base);
    if (strcmp(base, "config.json") == 0 || length <= 5 || strcmp(base + length - 5, ".json") != 0)
        name_after(directory, name);
    else
        snprintf(name, 64, "%.*s", (int)(length - 5 < 63 ? length - 5 : 63), base);
}

static int foresee_config(const char *config_path, const char *directory, struct moe_description *d,
                          struct shape *shape, struct moe_err *err)
{
    struct json_object *config;
    struct foreseen_bits bits;
    int code = fields_read(config_path, MAX_CONFIG, &config, err);
    if (code)
        return code;
    code = shape_read(config, config_path, shape, err);
    if (!code)
        code = foresee_bits_config(config, config_path, shape, &bits, err);
    json_object_put(config);
    if (code)
        return code;
    description_of_shape(shape, d);
    name_of_config(config_path, directory, d->name);
    snprintf(d->layout, sizeof d->layout, "config.json alone");
    foresee_sizes(shape, &bits, d);
    d->declared_bytes = declared_bytes(directory);
    return MOE_OK;
}

// ---- The beginning of a GGUF

// Which part of a split one it is: by its name, or, where it has lost that, by what it says itself. False: of none.
static bool find_part(const struct gguf_set *set, const char *name, struct gguf_part *part)
{
    uint64_t number, count;
    const struct gguf_value *no = gguf_find(&set->head, "split.no"), *of = gguf_find(&set->head, "split.count");
    *part = (struct gguf_part){.count = 1};
    if (gguf_part_parse(name, part))
        return true;
    if (!no || !of || no->array || of->array || !gguf_integer_at(no, 0, &number) || !gguf_integer_at(of, 0, &count))
        return false;
    if (count < 2 || count > UINT32_MAX || number >= count)
        return false;
    *part = (struct gguf_part){.number = (uint32_t)number + 1, .count = (uint32_t)count};
    return true;
}

static int describe_head(struct gguf_set *set, struct moe_description *d, struct shape *shape, struct moe_err *err)
{
    struct json_object *config;
    struct gguf_part part;
    const char *name = file_base_name(set->files[0].path);
    bool split = find_part(set, name, &part);
    if (split && part.number != 1)
        return moe_fail_file(err, MOE_NOT_FOUND, set->files[0].path, 0,
                             "is not the first part, which says what the model is");
    set->head_only = split && part.count > 1;
    int code = gguf_config_read(set, &config, shape, err);
    if (code)
        return code;
    json_object_put(config);
    description_of_shape(shape, d);
    snprintf(d->name, sizeof d->name, "%.63s", name);
    struct foreseen_bits bits;
    foresee_bits_gguf(set, name, &bits);
    foresee_sizes(shape, &bits, d);
    struct missing missing;
    missing_of_gguf(set->files[0].path, &missing);
    snprintf(d->missing, sizeof d->missing, "%s", missing.text);
    if (split && part.count > 1) {
        if (missing.n_whole > 1)
            snprintf(d->layout, sizeof d->layout, "GGUF, %" PRIu32 " of %" PRIu32 " parts", missing.n_whole,
                     part.count);
        else
            snprintf(d->layout, sizeof d->layout, "GGUF, part 1 of %" PRIu32, part.count);
        return MOE_OK;
    }
    snprintf(d->layout, sizeof d->layout, "GGUF, its beginning"); // which lists all tensors
    d->all_experts_bytes = d->resident_bytes = 0;
    for (size_t i = 0; i < set->files[0].count; i++) {
        const struct tensor *tensor = &set->files[0].tensors[i];
        uint64_t end = tensor->offset + tensor->bytes;
        *(strstr(tensor->name, "_exps.") ? &d->all_experts_bytes : &d->resident_bytes) += tensor->bytes;
        d->declared_bytes = end > d->declared_bytes ? end : d->declared_bytes; // what stands before the first, too
    }
    if (!d->all_experts_bytes)
        return moe_fail_file(err, MOE_NO_TENSOR, set->files[0].path, 0, "lists no experts");
    d->package_bytes = d->all_experts_bytes + d->resident_bytes;
    return MOE_OK;
}

static int foresee_gguf(const char *path, struct moe_description *d, struct shape *shape, struct moe_err *err)
{
    struct gguf_set set = {.files = calloc(1, sizeof *set.files)};
    if (!set.files)
        return moe_fail_file(err, MOE_NO_MEMORY, path, 0, "no memory to look into it");
    int code = gguf_open_beginning(path, &set.head, err);
    if (!code) {
        set.files[set.n_files++] = set.head.file;
        set.head.file = (struct tensor_file){.fd = -1};
        code = describe_head(&set, d, shape, err);
        gguf_set_release(&set);
    } else {
        free(set.files);
    }
    return code;
}

// Whatever part of a split one is named: the first, which says what the model is, where it is here.
static int foresee_set(const char *path, struct moe_description *d, struct shape *shape, struct moe_err *err)
{
    char file[GGUF_SET_PATH], first[GGUF_SET_PATH];
    struct gguf_part part;
    int code = gguf_set_file(path, file, err);
    if (code)
        return code;
    if (gguf_part_parse(file_base_name(file), &part) && part.number != 1) {
        part.number = 1;
        gguf_part_path(file, &part, first, sizeof first);
        if (access(first, F_OK) == 0)
            return foresee_gguf(first, d, shape, err);
    }
    return foresee_gguf(file, d, shape, err);
}

static int foresee_folder(const char *folder, struct moe_description *d, struct shape *shape, struct moe_err *err)
{
    char config[PATH_BYTES];
    struct missing missing;
    snprintf(config, sizeof config, "%s/config.json", folder);
    int code = foresee_config(config, folder, d, shape, err);
    if (code)
        return code;
    missing_of_folder(folder, &missing);
    snprintf(d->missing, sizeof d->missing, "%s", missing.text);
    if (missing.n_here)
        snprintf(d->layout, sizeof d->layout, "%" PRIu32 " of %" PRIu32 " safetensors files", missing.n_whole,
                 missing.n_files);
    return MOE_OK;
}

int foresee_shape(const char *path, struct moe_description *d, struct shape *shape, struct moe_err *err)
{
    struct stat status;
    char directory[PATH_BYTES];
    size_t length = strlen(path);
    memset(d, 0, sizeof *d);
    if (length == 0 || length > 4000)
        return moe_fail(err, MOE_BAD_ARGUMENT, "the model's path must have 1 to 4000 bytes");
    bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    if (folder && package_is_one(path)) // its resident.gguf is no beginning of a model
        return moe_fail_file(err, MOE_NOT_FOUND, path, 0, "is a package, which is no download");
    if (folder && !gguf_set_is_one(path))
        return foresee_folder(path, d, shape, err);
    if (folder || length < 5 || strcmp(path + length - 5, ".json") != 0)
        return foresee_set(path, d, shape, err);
    file_folder(path, directory, sizeof directory);
    return foresee_config(path, directory, d, shape, err);
}

int moe_foresee(const char *path, struct moe_description *d, struct moe_err *err)
{
    struct shape shape;
    return foresee_shape(path, d, &shape, err);
}
