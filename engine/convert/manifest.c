// SPDX-License-Identifier: GPL-3.0-or-later
// Writes model.json.
#include "engine/convert/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "kernels/kinds.h"

void manifest_layer_file(uint32_t layer, char file[64])
{
    snprintf(file, 64, "layer-%03" PRIu32 ".experts", layer);
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, json_object_new_string(text));
}

static void add_number(struct json_object *object, const char *key, uint64_t number)
{
    json_object_object_add(object, key, json_object_new_uint64(number));
}

// What is not known yet takes as much room as this.
static const char no_hash[] = "0000000000000000000000000000000000000000000000000000000000000000";

// file, bytes and checksum of a file that the journal has; `planned` stands for its bytes before.
static struct json_object *record(const struct manifest_facts *facts, const char *file, uint64_t planned)
{
    struct json_object *object = json_object_new_object();
    const struct journal_file *entry = facts->journal ? journal_find(facts->journal, file) : NULL;
    add_text(object, "file", file);
    add_number(object, "bytes", entry ? entry->bytes : planned);
    add_text(object, "sha256", entry ? entry->sha256 : no_hash);
    return object;
}

static const char *dtype_of(const struct expert_part *part, uint32_t *width)
{
    static const char *const scale_types[] = {[SCALE_BF16] = "BF16", [SCALE_F16] = "F16", [SCALE_F32] = "F32"};
    const struct args_matrix *m = part->matrix;
    bool affine = kind_info(m->kind)->scales == SCALES_AFFINE;
    if (part->array == ARRAY_FACTOR) {
        *width = 4;
        return "F32";
    }
    *width = !affine ? 1 : part->array == ARRAY_WEIGHT || m->scale_type == SCALE_F32 ? 4 : 2;
    return !affine ? "U8" : part->array == ARRAY_WEIGHT ? "U32" : scale_types[m->scale_type];
}

static void add_part(struct json_object *parts, const struct expert_part *part)
{
    static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const suffixes[] = {"weight", "scales", "biases", "factor"};
    const struct args_matrix *m = part->matrix;
    bool largest = part->array == ARRAY_FACTOR && m->factor == FACTOR_OF_LARGEST;
    uint64_t rows = part->array == ARRAY_FACTOR ? 1 : m->out_dim;
    uint32_t width;
    const char *dtype = dtype_of(part, &width);
    struct json_object *object = json_object_new_object();
    struct json_object *shape = json_object_new_array();
    char name[32];
    snprintf(name, sizeof name, "%s.%s", projections[part->projection],
             largest ? "global_scale" : suffixes[part->array]);
    add_text(object, "name", name);
    if (part->array == ARRAY_WEIGHT && kind_info(m->kind)->scales != SCALES_AFFINE)
        add_text(object, "kind", kind_name(m->kind));
    add_text(object, "dtype", dtype);
    json_object_array_add(shape, json_object_new_uint64(rows));
    json_object_array_add(shape, json_object_new_uint64(part->bytes / rows / width));
    json_object_object_add(object, "shape", shape);
    add_number(object, "offset", part->offset);
    add_number(object, "bytes", part->bytes);
    json_object_array_add(parts, object);
}

static void add_layout(struct json_object *to, const struct expert_layout *experts)
{
    struct json_object *parts = json_object_new_array();
    struct expert_part list[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(experts, list);
    for (uint32_t i = 0; i < n; i++)
        add_part(parts, &list[i]);
    add_number(to, "blob_bytes", experts->blob_bytes);
    json_object_object_add(to, "parts", parts);
}

static struct json_object *experts_of(const struct manifest_facts *facts)
{
    const struct shape *s = facts->job->shape;
    const struct job_layer *layers = facts->job->layers;
    struct json_object *experts = json_object_new_object();
    struct json_object *list = json_object_new_array();
    const struct expert_layout *common = &layers[s->first_k_dense_replace].experts;
    add_number(experts, "alignment", 4096);
    add_number(experts, "count", s->n_routed_experts);
    add_layout(experts, common);
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++) {
        char file[64];
        manifest_layer_file(i, file);
        struct json_object *entry = record(facts, file, layers[i].experts.blob_bytes * s->n_routed_experts);
        add_number(entry, "layer", i);
        if (memcmp(common, &layers[i].experts, sizeof *common) != 0)
            add_layout(entry, &layers[i].experts);
        json_object_array_add(list, entry);
    }
    json_object_object_add(experts, "layers", list);
    return experts;
}

static bool fingerprint(const struct manifest_facts *facts, char hex[65])
{
    const struct shape *s = facts->job->shape;
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(hash, journal_find(facts->journal, facts->job->resident_file)->sha256, 64) == 1;
    for (uint32_t i = s->first_k_dense_replace; good && i < s->n_layers; i++) {
        char file[64];
        manifest_layer_file(i, file);
        good = EVP_DigestUpdate(hash, journal_find(facts->journal, file)->sha256, 64) == 1;
    }
    good = good && EVP_DigestFinal_ex(hash, digest, NULL) == 1;
    EVP_MD_CTX_free(hash);
    for (size_t i = 0; good && i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return good;
}

static int write_text(const char *path, const char *text, struct moe_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file) {
        int code = moe_fail_file(err, MOE_IO, path, errno, "cannot be created");
        if (fd >= 0)
            close(fd);
        return code;
    }
    bool good = fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    int code = good ? MOE_OK : moe_fail_file(err, MOE_IO, path, errno, "cannot be written");
    if (fclose(file) && !code)
        code = moe_fail_file(err, MOE_IO, path, errno, "cannot be written");
    return code;
}

static struct json_object *manifest_of(const struct manifest_facts *facts, const char *hex)
{
    struct json_object *root = json_object_new_object();
    add_text(root, "format", "moechat-model");
    add_number(root, "version", facts->job->version);
    add_text(root, "name", facts->name);
    json_object_object_add(root, "config", json_object_get(facts->job->from->config));
    struct json_object *resident = record(facts, facts->job->resident_file, facts->job->resident_bytes);
    if (facts->job->from->gguf)
        add_text(resident, "format", "gguf");
    json_object_object_add(root, "resident", resident);
    json_object_object_add(root, "experts", experts_of(facts));
    if (facts->tokenizer_type[0]) {
        struct json_object *tokenizer = record(facts, facts->tokenizer_file, facts->tokenizer_bytes);
        add_text(tokenizer, "type", facts->tokenizer_type);
        json_object_object_add(root, "tokenizer", tokenizer);
    }
    if (facts->template_name && facts->template_name[0])
        add_text(root, "template", facts->template_name);
    add_text(root, "weights_fingerprint", hex);
    return root;
}

static const char *text_of(struct json_object *root)
{
    return json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
}

uint64_t manifest_bytes(const struct manifest_facts *facts)
{
    struct json_object *root = manifest_of(facts, no_hash);
    uint64_t bytes = strlen(text_of(root));
    json_object_put(root);
    return bytes;
}

int manifest_write(const char *folder, const struct manifest_facts *facts, struct moe_err *err)
{
    char path[4300];
    char hex[65];
    snprintf(path, sizeof path, "%.4200s/model.json", folder);
    if (!fingerprint(facts, hex))
        return moe_fail_file(err, MOE_NO_MEMORY, path, 0, "libcrypto could not compute the fingerprint");
    struct json_object *root = manifest_of(facts, hex);
    int code = write_text(path, text_of(root), err);
    json_object_put(root);
    return code;
}
