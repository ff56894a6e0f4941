// SPDX-License-Identifier: GPL-3.0-or-later
// Writes model.json.
#include "engine/convert/manifest.h"

#include <errno.h>
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

// file, bytes and checksum of a file that the journal has.
static struct json_object *record(const struct manifest_facts *facts, const char *file)
{
    struct json_object *object = json_object_new_object();
    const struct journal_file *entry = journal_find(facts->journal, file);
    add_text(object, "file", file);
    add_number(object, "bytes", entry ? entry->bytes : 0);
    add_text(object, "sha256", entry ? entry->sha256 : "");
    return object;
}

static void add_part(struct json_object *parts, const char *projection, enum source_part part,
                     const struct args_matrix *m)
{
    static const char *const suffixes[] = {"weight", "scales", "biases"};
    const uint64_t offsets[] = {m->weight, m->scales, m->biases};
    struct quantisation how = {kind_bits(m->kind), m->group_size};
    uint64_t row = source_part_bytes(part, m->in_dim, how);
    struct json_object *object = json_object_new_object();
    struct json_object *shape = json_object_new_array();
    char name[32];
    snprintf(name, sizeof name, "%s.%s", projection, suffixes[part]);
    add_text(object, "name", name);
    add_text(object, "dtype", part == PART_WORDS ? "U32" : "BF16");
    json_object_array_add(shape, json_object_new_uint64(m->out_dim));
    json_object_array_add(shape, json_object_new_uint64(row / (part == PART_WORDS ? 4 : 2)));
    json_object_object_add(object, "shape", shape);
    add_number(object, "offset", offsets[part]);
    add_number(object, "bytes", row * m->out_dim);
    json_object_array_add(parts, object);
}

static void add_layout(struct json_object *to, const struct expert_layout *experts)
{
    struct json_object *parts = json_object_new_array();
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    const struct args_matrix *const matrices[] = {&experts->gate, &experts->up, &experts->down};
    for (int i = 0; i < 9; i++)
        add_part(parts, names[i / 3], (enum source_part)(i % 3), matrices[i / 3]);
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
        struct json_object *entry = record(facts, file);
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
                EVP_DigestUpdate(hash, journal_find(facts->journal, "resident.safetensors")->sha256, 64) == 1;
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
    FILE *file = fopen(path, "wb");
    if (!file)
        return moe_fail_file(err, MOE_IO, path, errno, "cannot be created");
    bool good = fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    int code = good ? MOE_OK : moe_fail_file(err, MOE_IO, path, errno, "cannot be written");
    if (fclose(file) && !code)
        code = moe_fail_file(err, MOE_IO, path, errno, "cannot be written");
    return code;
}

int manifest_write(const char *folder, const struct manifest_facts *facts, struct moe_err *err)
{
    char path[4300];
    char hex[65];
    snprintf(path, sizeof path, "%.4200s/model.json", folder);
    if (!fingerprint(facts, hex))
        return moe_fail_file(err, MOE_NO_MEMORY, path, 0, "libcrypto could not compute the fingerprint");
    struct json_object *root = json_object_new_object();
    add_text(root, "format", "moechat-model");
    add_number(root, "version", 1);
    add_text(root, "name", facts->name);
    json_object_object_add(root, "config", json_object_get(facts->job->from->config));
    json_object_object_add(root, "resident", record(facts, "resident.safetensors"));
    json_object_object_add(root, "experts", experts_of(facts));
    if (facts->tokenizer_type[0]) {
        struct json_object *tokenizer = record(facts, facts->tokenizer_file);
        add_text(tokenizer, "type", facts->tokenizer_type);
        json_object_object_add(root, "tokenizer", tokenizer);
    }
    if (facts->template_name && facts->template_name[0])
        add_text(root, "template", facts->template_name);
    add_text(root, "weights_fingerprint", hex);
    int code = write_text(
        path, json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE), err);
    json_object_put(root);
    return code;
}
