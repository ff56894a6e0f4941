// SPDX-License-Identifier: GPL-3.0-or-later
// Writes model.json.
#include "engine/convert/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/document.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/file_hash.h"
#include "kernels/kinds.h"

void manifest_layer_file(uint32_t layer, char file[64])
{
    snprintf(file, 64, "layer-%03" PRIu32 ".experts", layer);
}

struct writer {
    const struct manifest_facts *facts;
    struct document document;
};

// What is not known yet takes as much room as this.
static const char no_hash[] = "0000000000000000000000000000000000000000000000000000000000000000";

// file, bytes and checksum of a file that the journal has; `planned` stands for its bytes before.
static struct json_object *record(struct writer *w, const char *file, uint64_t planned)
{
    struct json_object *object = document_object(&w->document);
    const struct journal_file *entry = w->facts->journal ? journal_find(w->facts->journal, file) : NULL;
    document_add_text(&w->document, object, "file", file);
    document_add_number(&w->document, object, "bytes", entry ? entry->bytes : planned);
    document_add_text(&w->document, object, "sha256", entry ? entry->sha256 : no_hash);
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

static void add_part(struct writer *w, struct json_object *parts, const struct expert_part *part)
{
    static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const suffixes[] = {"weight", "scales", "biases", "factor"};
    const struct args_matrix *m = part->matrix;
    bool largest = part->array == ARRAY_FACTOR && m->factor == FACTOR_OF_LARGEST;
    uint64_t rows = part->array == ARRAY_FACTOR ? 1 : m->out_dim;
    uint32_t width;
    const char *dtype = dtype_of(part, &width);
    struct json_object *object = document_object(&w->document);
    struct json_object *shape = document_array(&w->document);
    char name[32];
    snprintf(name, sizeof name, "%s.%s", projections[part->projection],
             largest ? "global_scale" : suffixes[part->array]);
    document_add_text(&w->document, object, "name", name);
    if (part->array == ARRAY_WEIGHT && kind_info(m->kind)->scales != SCALES_AFFINE)
        document_add_text(&w->document, object, "kind", kind_name(m->kind));
    document_add_text(&w->document, object, "dtype", dtype);
    document_append_number(&w->document, shape, rows);
    document_append_number(&w->document, shape, part->bytes / rows / width);
    document_add(&w->document, object, "shape", shape);
    document_add_number(&w->document, object, "offset", part->offset);
    document_add_number(&w->document, object, "bytes", part->bytes);
    document_append(&w->document, parts, object);
}

static void add_layout(struct writer *w, struct json_object *to, const struct expert_layout *experts)
{
    struct json_object *parts = document_array(&w->document);
    struct expert_part list[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(experts, list);
    for (uint32_t i = 0; i < n; i++)
        add_part(w, parts, &list[i]);
    document_add_number(&w->document, to, "blob_bytes", experts->blob_bytes);
    document_add(&w->document, to, "parts", parts);
}

static struct json_object *experts_of(struct writer *w)
{
    const struct shape *s = w->facts->job->shape;
    const struct job_layer *layers = w->facts->job->layers;
    struct json_object *experts = document_object(&w->document);
    struct json_object *list = document_array(&w->document);
    const struct expert_layout *common = &layers[s->first_k_dense_replace].experts;
    document_add_number(&w->document, experts, "alignment", 4096);
    document_add_number(&w->document, experts, "count", s->n_routed_experts);
    add_layout(w, experts, common);
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++) {
        char file[64];
        manifest_layer_file(i, file);
        struct json_object *entry = record(w, file, layers[i].experts.blob_bytes * s->n_routed_experts);
        document_add_number(&w->document, entry, "layer", i);
        if (memcmp(common, &layers[i].experts, sizeof *common) != 0)
            add_layout(w, entry, &layers[i].experts);
        document_append(&w->document, list, entry);
    }
    document_add(&w->document, experts, "layers", list);
    return experts;
}

static bool fingerprint(const struct manifest_facts *facts, char hex[65])
{
    const struct shape *s = facts->job->shape;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(hash, journal_find(facts->journal, facts->job->resident_file)->sha256, 64) == 1;
    for (uint32_t i = s->first_k_dense_replace; good && i < s->n_layers; i++) {
        char file[64];
        manifest_layer_file(i, file);
        good = EVP_DigestUpdate(hash, journal_find(facts->journal, file)->sha256, 64) == 1;
    }
    good = good && file_hash_hex(hash, hex);
    EVP_MD_CTX_free(hash);
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
    bool good = fputs(text, file) >= 0 && fflush(file) == 0 && file_sync(fileno(file)) == 0;
    int code = good ? MOE_OK : moe_fail_file(err, MOE_IO, path, errno, "cannot be written");
    if (fclose(file) && !code)
        code = moe_fail_file(err, MOE_IO, path, errno, "cannot be written");
    return code;
}

static struct json_object *manifest_of(struct writer *w, const char *hex)
{
    const struct manifest_facts *facts = w->facts;
    struct json_object *root = document_object(&w->document);
    document_add_text(&w->document, root, "format", "moechat-model");
    document_add_number(&w->document, root, "version", facts->job->version);
    document_add_text(&w->document, root, "name", facts->name);
    document_add(&w->document, root, "config", json_object_get(facts->job->from->config));
    struct json_object *resident = record(w, facts->job->resident_file, facts->job->resident_bytes);
    if (facts->job->from->gguf)
        document_add_text(&w->document, resident, "format", "gguf");
    document_add(&w->document, root, "resident", resident);
    document_add(&w->document, root, "experts", experts_of(w));
    if (facts->tokenizer_type[0]) {
        struct json_object *tokenizer = record(w, facts->tokenizer_file, facts->tokenizer_bytes);
        document_add_text(&w->document, tokenizer, "type", facts->tokenizer_type);
        document_add(&w->document, root, "tokenizer", tokenizer);
    }
    if (facts->template_name && facts->template_name[0])
        document_add_text(&w->document, root, "template", facts->template_name);
    document_add_text(&w->document, root, "weights_fingerprint", hex);
    return root;
}

static const char *text_of(const struct writer *w, struct json_object *root)
{
    return document_text(&w->document, root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
}

struct manifest_facts manifest_facts_of(const struct package *from, const struct job *job, const char *name)
{
    const char *tokenizer = from->tokenizer.path;
    return (struct manifest_facts){.name = name,
                                   .template_name = from->template_name,
                                   .job = job,
                                   .tokenizer_type = from->tokenizer_type,
                                   .tokenizer_file = tokenizer ? file_base_name(tokenizer) : "",
                                   .tokenizer_bytes = tokenizer ? from->tokenizer.bytes : 0};
}

int manifest_bytes(const struct manifest_facts *facts, uint64_t *bytes, struct moe_err *err)
{
    struct writer w = {.facts = facts};
    struct json_object *root = manifest_of(&w, no_hash);
    const char *text = text_of(&w, root);
    *bytes = text ? strlen(text) : 0;
    json_object_put(root);
    return text ? MOE_OK : moe_fail(err, MOE_NO_MEMORY, "%.64s: no memory to plan its model.json", facts->name);
}

int manifest_write(const char *folder, const struct manifest_facts *facts, struct moe_err *err)
{
    char path[4300];
    char hex[65];
    snprintf(path, sizeof path, "%.4200s/model.json", folder);
    if (!fingerprint(facts, hex))
        return moe_fail_file(err, MOE_NO_MEMORY, path, 0, "libcrypto could not compute the fingerprint");
    struct writer w = {.facts = facts};
    struct json_object *root = manifest_of(&w, hex);
    const char *text = text_of(&w, root);
    int code =
        text ? write_text(path, text, err) : moe_fail_file(err, MOE_NO_MEMORY, path, 0, "no memory for its text");
    json_object_put(root);
    return code;
}
