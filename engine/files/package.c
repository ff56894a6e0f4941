// SPDX-License-Identifier: GPL-3.0-or-later
// Opens a package: model.json read, its files checked against it.
#include "engine/files/package.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/checkpoint.h"
#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/files/file_hash.h"
#include "engine/files/folder.h"
#include "engine/files/gguf_model.h"
#include "engine/files/gguf_set.h"
#include "engine/files/package_facts.h"
#include "engine/files/suggestion.h"
#include "kernels/kinds.h"

enum { ALIGNMENT = 4096, PART_ALIGNMENT = 64, MAX_MANIFEST = 16 << 20, MAX_DIRECTORY = 4000 };

static const struct integer_range file_sizes = {1, INT64_MAX};

// A plain name of a file inside the package: what it links to is the owner's business, a path is not.
static void read_file_name(struct fields *f, const char *key, char name[64])
{
    fields_text(f, key, name, 64);
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        fields_fail(f, MOE_FORMAT, key, "is \"%s\"; it must be a plain file name in the package", name);
}

static void read_record(struct fields *f, const struct package *package, struct package_file *record,
                        struct integer_range bytes)
{
    char name[64];
    read_file_name(f, "file", name);
    record->bytes = fields_integer(f, "bytes", bytes);
    fields_sha256(f, "sha256", record->sha256);
    if (f->failed)
        return;
    size_t size = strlen(package->directory) + strlen(name) + 2;
    record->path = malloc(size);
    if (record->path)
        snprintf(record->path, size, "%s/%s", package->directory, name);
    else
        fields_fail(f, MOE_NO_MEMORY, "file", "no memory for its path");
}

// The fields of the object at `key` of parent; on a missing one, a reader that has already failed.
static struct fields inside(struct fields *parent, const char *key, const char *prefix)
{
    struct fields child = *parent;
    child.object = fields_object(parent, key);
    child.failed = parent->failed;
    child.prefix = prefix;
    return child;
}

bool package_scale_type(enum tensor_dtype dtype, uint32_t *scale_type)
{
    *scale_type = dtype == DTYPE_F32 ? SCALE_F32 : dtype == DTYPE_F16 ? SCALE_F16 : SCALE_BF16;
    return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

bool package_quantisation(struct args_matrix *matrix, uint64_t word_cols, uint64_t scale_cols)
{
    uint64_t in_dim = matrix->in_dim;
    if (word_cols == 0 || scale_cols == 0 || in_dim % scale_cols || word_cols > in_dim || word_cols * 32 % in_dim)
        return false;
    matrix->kind = kind_affine((uint32_t)(word_cols * 32 / in_dim)); // KIND_NONE is not shaped
    matrix->group_size = (uint32_t)(in_dim / scale_cols);
    return matrix_is_shaped(matrix) && word_cols * 4 == matrix_row_bytes(matrix);
}

bool package_fp_quantisation(struct args_matrix *matrix, uint64_t word_cols, uint64_t scale_cols)
{
    static const struct {
        enum matrix_kind kind;
        uint32_t bits, group;
    } modes[] = {{KIND_MLX_MXFP4, 4, 32}, {KIND_MLX_NVFP4, 4, 16}, {KIND_MLX_MXFP8, 8, 32}};
    matrix->kind = KIND_NONE;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (word_cols * 32 == (uint64_t)matrix->in_dim * modes[i].bits && scale_cols * modes[i].group == matrix->in_dim)
            matrix->kind = modes[i].kind;
    return matrix_is_shaped(matrix);
}

// The parts of a blob, read in order.
struct parts {
    struct fields *experts;
    struct json_object *list;
    size_t next;
    uint64_t end; // of the part before
    uint64_t blob_bytes;
};

struct part {
    const char *projection, *suffix;
    const char *dtype; // NULL: one that scales may have
    uint32_t rows, max_cols, element_bytes;
    uint64_t cols, offset; // as read
    uint32_t scale_type;   // of dtype NULL
};

// The object that comes next; a reader that has failed, where there is none.
static struct fields next_part(struct parts *parts, char prefix[64])
{
    snprintf(prefix, 64, "%.40sparts[%zu].", parts->experts->prefix, parts->next);
    struct fields f = *parts->experts;
    f.object = parts->next < json_object_array_length(parts->list) ? json_object_array_get_idx(parts->list, parts->next)
                                                                   : NULL;
    f.prefix = prefix;
    if (!f.failed && !json_object_is_type(f.object, json_type_object))
        fields_fail(&f, MOE_FORMAT, "name", "is missing; the parts are those of gate_proj, up_proj and down_proj");
    return f;
}

static bool good_dtype(struct part *part, const char *dtype)
{
    if (part->dtype)
        return strcmp(dtype, part->dtype) == 0;
    bool wide = strcmp(dtype, "F32") == 0;
    part->scale_type = wide ? SCALE_F32 : strcmp(dtype, "F16") == 0 ? SCALE_F16 : SCALE_BF16;
    part->element_bytes = wide ? 4 : 2;
    return part->scale_type != SCALE_BF16 || strcmp(dtype, "BF16") == 0;
}

static void read_part(struct parts *parts, struct part *part)
{
    char prefix[64];
    char want[32];
    char name[32];
    char dtype[8];
    snprintf(want, sizeof want, "%s.%s", part->projection, part->suffix);
    struct fields f = next_part(parts, prefix);
    parts->next++;
    fields_text(&f, "name", name, sizeof name);
    fields_text(&f, "dtype", dtype, sizeof dtype);
    if (!f.failed && (strcmp(name, want) != 0 || !good_dtype(part, dtype)))
        fields_fail(&f, MOE_FORMAT, "name", "and dtype are \"%s\" and \"%s\"; here they must be \"%s\" and \"%s\"",
                    name, dtype, want, part->dtype ? part->dtype : "BF16");
    fields_array(&f, "shape", (struct integer_range){2, 2});
    fields_element(&f, "shape", 0, (struct integer_range){part->rows, part->rows});
    part->cols = fields_element(&f, "shape", 1, (struct integer_range){1, part->max_cols});
    part->offset = fields_integer(&f, "offset", (struct integer_range){parts->end, parts->blob_bytes});
    if (part->offset % PART_ALIGNMENT)
        fields_fail(&f, MOE_FORMAT, "offset", "is %" PRIu64 "; it must be a multiple of %d", part->offset,
                    PART_ALIGNMENT);
    uint64_t bytes = part->rows * part->cols * part->element_bytes; // below 2^42
    fields_integer(&f, "bytes", (struct integer_range){bytes, bytes});
    if (!f.failed && bytes > parts->blob_bytes - part->offset)
        fields_fail(&f, MOE_FORMAT, "bytes", "reach beyond the blob's %" PRIu64, parts->blob_bytes);
    parts->end = part->offset + bytes;
    parts->experts->failed = f.failed;
}

// What all of a matrix is multiplied with, if that comes next: one number, itself or the largest weight.
static void read_factor(struct parts *parts, const char *projection, struct args_matrix *m)
{
    static const char *const suffixes[] = {[FACTOR_ITSELF] = "factor", [FACTOR_OF_LARGEST] = "global_scale"};
    size_t length = json_object_array_length(parts->list);
    struct json_object *next = parts->next < length ? json_object_array_get_idx(parts->list, parts->next) : NULL;
    struct json_object *name = NULL;
    if (json_object_is_type(next, json_type_object))
        json_object_object_get_ex(next, "name", &name);
    for (uint32_t how = FACTOR_ITSELF; how <= FACTOR_OF_LARGEST && !m->factor && !parts->experts->failed; how++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "%s.%s", projection, suffixes[how]);
        if (!json_object_is_type(name, json_type_string) || strcmp(json_object_get_string(name), wanted) != 0)
            continue;
        struct part factor = {projection, suffixes[how], "F32", 1, 1, 4, 0, 0, 0};
        read_part(parts, &factor);
        m->factor = how;
        m->biases = factor.offset;
    }
}

static void read_byte_scales(struct parts *parts, const char *kind, struct args_matrix *m, const char *projection)
{
    uint64_t bytes = matrix_scale_bytes(m);
    struct part scales = {projection, "scales", "U8", m->out_dim, (uint32_t)bytes, 1, 0, 0, 0};
    read_part(parts, &scales);
    m->scales = scales.offset;
    if (!parts->experts->failed && scales.cols != bytes)
        fields_fail(parts->experts, MOE_FORMAT, "parts", "%s has %" PRIu64 " scales a row; %s makes them %" PRIu64,
                    projection, scales.cols, kind, bytes);
}

// A matrix of a kind that is named: its rows as bytes, and, of some kinds, scales of a byte.
static struct args_matrix read_named(struct parts *parts, const char *name, struct part *words, uint32_t in_dim)
{
    struct args_matrix m = {.in_dim = in_dim, .out_dim = words->rows, .kind = kind_named(name)};
    const struct kind_info *info = kind_info(m.kind);
    if (!info || !matrix_is_shaped(&m)) {
        fields_fail(parts->experts, MOE_UNSUPPORTED, "parts",
                    "%s.kind: is \"%s\"; moechat has no such rows of %u inputs", words->projection, name, in_dim);
        return m;
    }
    uint64_t bytes = matrix_row_bytes(&m);
    words->dtype = "U8";
    words->element_bytes = 1;
    words->max_cols = (uint32_t)bytes; // at most 4 bytes a weight, of fewer than 2^29
    read_part(parts, words);
    m.weight = words->offset;
    if (!parts->experts->failed && words->cols != bytes)
        fields_fail(parts->experts, MOE_FORMAT, "parts", "%s has rows of %" PRIu64 " bytes; %s makes them %" PRIu64,
                    words->projection, words->cols, name, bytes);
    if (info->scales == SCALES_BYTES)
        read_byte_scales(parts, name, &m, words->projection);
    if (kind_takes_factor(m.kind))
        read_factor(parts, words->projection, &m);
    return m;
}

static struct args_matrix read_matrix(struct parts *parts, const char *projection, uint32_t out_dim, uint32_t in_dim)
{
    struct args_matrix m = {.in_dim = in_dim, .out_dim = out_dim};
    struct part words = {projection, "weight", "U32", out_dim, in_dim / 4, 4, 0, 0, 0};
    struct part scales = {projection, "scales", NULL, out_dim, in_dim / 32, 2, 0, 0, 0};
    struct part biases = {projection, "biases", NULL, out_dim, in_dim / 32, 2, 0, 0, 0};
    char prefix[64];
    struct fields f = next_part(parts, prefix);
    if (!f.failed && fields_has(&f, "kind")) {
        char name[32];
        fields_text(&f, "kind", name, sizeof name);
        parts->experts->failed = f.failed;
        return f.failed ? m : read_named(parts, name, &words, in_dim);
    }
    parts->experts->failed = f.failed;
    read_part(parts, &words);
    read_part(parts, &scales);
    read_part(parts, &biases);
    m.scale_type = scales.scale_type;
    if (!package_quantisation(&m, words.cols, scales.cols) || biases.cols != scales.cols ||
        biases.scale_type != scales.scale_type)
        fields_fail(parts->experts, MOE_FORMAT, "parts",
                    "%s of %" PRIu64 ", %" PRIu64 " and %" PRIu64
                    " columns is not 2 to 8 bits in groups of 32, 64 or 128 of %u inputs",
                    projection, words.cols, scales.cols, biases.cols, in_dim);
    m.weight = words.offset;
    m.scales = scales.offset;
    m.biases = biases.offset;
    return m;
}

static void read_parts(struct fields *f, const struct shape *s, struct expert_layout *experts)
{
    experts->blob_bytes = fields_integer(f, "blob_bytes", (struct integer_range){ALIGNMENT, (uint64_t)1 << 44});
    if (experts->blob_bytes % ALIGNMENT)
        fields_fail(f, MOE_FORMAT, "blob_bytes", "is %" PRIu64 "; it must be a multiple of %d", experts->blob_bytes,
                    ALIGNMENT);
    struct parts parts = {f, fields_array(f, "parts", (struct integer_range){3, MAX_EXPERT_PARTS}), 0, 0,
                          experts->blob_bytes};
    if (f->failed)
        return;
    experts->gate = read_matrix(&parts, "gate_proj", s->moe_intermediate_size, shape_expert_size(s));
    experts->up = read_matrix(&parts, "up_proj", s->moe_intermediate_size, shape_expert_size(s));
    experts->down = read_matrix(&parts, "down_proj", shape_expert_size(s), s->moe_intermediate_size);
    size_t length = json_object_array_length(parts.list);
    if (parts.next != length)
        fields_fail(f, MOE_FORMAT, "parts", "are %zu; the three matrices have %zu", length, parts.next);
}

// One file a MoE layer, experts one after another.
static void read_layers(struct fields *f, struct package *package, const struct expert_layout *experts)
{
    const struct shape *s = &package->shape;
    uint32_t n_moe = s->n_layers - s->first_k_dense_replace;
    struct json_object *list = fields_array(f, "layers", (struct integer_range){n_moe, n_moe});
    if (f->failed)
        return;
    package->layers = calloc(s->n_layers, sizeof *package->layers);
    package->files = calloc(n_moe, sizeof *package->files);
    if (!package->layers || !package->files) {
        fields_fail(f, MOE_NO_MEMORY, "layers", "no memory for the list");
        return;
    }
    package->n_files = n_moe;
    for (uint32_t i = 0; i < n_moe && !f->failed; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "experts.layers[%u].", i);
        struct fields entry = *f;
        entry.object = json_object_array_get_idx(list, i);
        entry.prefix = prefix;
        uint64_t layer =
            fields_integer(&entry, "layer", (struct integer_range){s->first_k_dense_replace, s->n_layers - 1});
        uint32_t file = (uint32_t)layer - s->first_k_dense_replace;
        if (package->layers[layer].n_spans)
            fields_fail(&entry, MOE_FORMAT, "layer", "is %" PRIu64 " a second time", layer);
        struct expert_layout own = *experts;
        if (fields_has(&entry, "parts")) // a layer that is quantised otherwise than the first
            read_parts(&entry, s, &own);
        uint64_t bytes = own.blob_bytes * s->n_routed_experts;
        read_record(&entry, package, &package->files[file], (struct integer_range){bytes, bytes});
        package->layers[layer] = (struct package_layer){own, 1, {{file, 0, own.blob_bytes, 0, true}}};
        f->failed = entry.failed;
    }
}

static void read_tokenizer(struct fields *root, struct package *package)
{
    if (!fields_has(root, "tokenizer"))
        return;
    struct fields f = inside(root, "tokenizer", "tokenizer.");
    fields_text(&f, "type", package->tokenizer_type, sizeof package->tokenizer_type);
    read_record(&f, package, &package->tokenizer, file_sizes);
    root->failed = f.failed;
}

// Conversations are bound to it, so it must be that of the checksums above it.
static void read_fingerprint(struct fields *f, struct package *package)
{
    fields_sha256(f, "weights_fingerprint", package->fingerprint);
    if (f->failed)
        return;
    char hex[65];
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(hash, package->resident.sha256, 64) == 1;
    for (uint32_t i = 0; good && i < package->n_files; i++)
        good = EVP_DigestUpdate(hash, package->files[i].sha256, 64) == 1;
    good = good && file_hash_hex(hash, hex);
    EVP_MD_CTX_free(hash);
    if (!good)
        fields_fail(f, MOE_NO_MEMORY, "weights_fingerprint", "libcrypto could not compute it");
    else if (strcmp(hex, package->fingerprint) != 0)
        fields_fail(f, MOE_FORMAT, "weights_fingerprint",
                    "is not that of the checksums; the manifest was changed, get the package again");
}

static void read_resident(struct fields *f, struct package *package)
{
    char format[32] = "safetensors";
    read_record(f, package, &package->resident, file_sizes);
    if (fields_has(f, "format"))
        fields_text(f, "format", format, sizeof format);
    package->resident_is_gguf = strcmp(format, "gguf") == 0;
    if (!package->resident_is_gguf && strcmp(format, "safetensors") != 0)
        fields_fail(f, MOE_UNSUPPORTED, "format", "is \"%s\"; it must be \"safetensors\" or \"gguf\"", format);
}

static void read_manifest(struct fields *f, struct package *package)
{
    char format[32];
    fields_text(f, "format", format, sizeof format);
    if (!f->failed && strcmp(format, "moechat-model") != 0)
        fields_fail(f, MOE_FORMAT, "format", "is \"%s\"; it must be \"moechat-model\"", format);
    fields_integer(f, "version", (struct integer_range){1, 2}); // 2: what moechat-model(5) says is of 2
    fields_text(f, "name", package->name, sizeof package->name);
    if (fields_has(f, "template"))
        fields_text(f, "template", package->template_name, sizeof package->template_name);
    struct json_object *config = fields_object(f, "config");
    if (!f->failed)
        f->failed = shape_read(config, f->file, &package->shape, f->err);
    struct fields resident = inside(f, "resident", "resident.");
    read_resident(&resident, package);
    f->failed = resident.failed;
    struct expert_layout layout = {0};
    struct fields experts = inside(f, "experts", "experts.");
    fields_integer(&experts, "alignment", (struct integer_range){ALIGNMENT, ALIGNMENT});
    uint32_t count = package->shape.n_routed_experts;
    fields_integer(&experts, "count", (struct integer_range){count, count});
    read_parts(&experts, &package->shape, &layout);
    read_layers(&experts, package, &layout);
    f->failed = experts.failed;
    read_tokenizer(f, package);
    read_fingerprint(f, package);
}

static void manifest_path(const struct package *package, char path[4200])
{
    snprintf(path, 4200, "%s/model.json", package->directory);
}

static int read_package(struct json_object *root, const char *path, struct package *package, struct moe_err *err)
{
    struct fields fields = {.object = root, .file = path, .prefix = "", .err = err};
    read_manifest(&fields, package);
    if (fields.failed)
        package_release(package);
    return fields.failed;
}

int package_parse(const char *text, size_t length, struct package *package, struct moe_err *err)
{
    char path[4200];
    struct package blank = {0};
    memcpy(blank.directory, package->directory, sizeof blank.directory);
    *package = blank;
    manifest_path(package, path);
    struct json_object *root;
    int code = fields_parse(text, length, path, &root, err);
    if (code)
        return code;
    code = read_package(root, path, package, err);
    json_object_put(root);
    return code;
}

static int check_size(const struct package_file *file, struct moe_err *err)
{
    int fd;
    uint64_t bytes;
    struct moe_err own = {.text = ""};
    int code = file_open(file->path, &fd, &bytes, &own);
    if (code == MOE_NOT_FOUND && own.sys_errno) // else it is a pointer to it
        return moe_fail_file(err, MOE_NOT_FOUND, file->path, 0, "is missing from the package; get the package again");
    if (code && err)
        *err = own;
    if (code)
        return code;
    close(fd);
    if (bytes == file->bytes)
        return MOE_OK;
    char what[120];
    snprintf(what, sizeof what, "is %" PRIu64 " bytes, model.json says %" PRIu64 "; get the package again", bytes,
             file->bytes);
    return moe_fail_file(err, MOE_FORMAT, file->path, 0, what);
}

static int check_files(const struct package *package, struct moe_err *err)
{
    int code = check_size(&package->resident, err);
    for (uint32_t i = 0; !code && i < package->n_files; i++)
        code = check_size(&package->files[i], err);
    if (!code && package->tokenizer.path)
        code = check_size(&package->tokenizer, err);
    return code;
}

static bool has(const char *directory, const char *name)
{
    char path[MAX_DIRECTORY + 32];
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path && access(path, F_OK) == 0;
}

// A folder that convert was stopped in: its journal is there, and the manifest, which comes last, is not.
static bool is_unfinished(const char *directory)
{
    return has(directory, "convert.journal");
}

// What convert writes, whose manifest is gone: resident.gguf alone would be taken for a model of one file.
static bool lacks_manifest(const char *directory)
{
    bool found = false;
    struct dirent *entry;
    DIR *folder = has(directory, "resident.gguf") || has(directory, "resident.safetensors") ? opendir(directory) : NULL;
    while (folder && !found && (entry = readdir(folder))) {
        const char *end = strrchr(entry->d_name, '.');
        found = strncmp(entry->d_name, "layer-", 6) == 0 && end && strcmp(end, ".experts") == 0;
    }
    if (folder)
        closedir(folder);
    return found && !has(directory, "model.json");
}

bool package_is_one(const char *directory)
{
    return has(directory, "model.json") || is_unfinished(directory) || lacks_manifest(directory);
}

static int open_directory(const char *directory, struct package *package, struct moe_err *err)
{
    char path[4200];
    struct json_object *root;
    memset(package, 0, sizeof *package);
    if (strlen(directory) == 0 || strlen(directory) > MAX_DIRECTORY)
        return moe_fail(err, MOE_BAD_ARGUMENT, "the model's path must have 1 to %d bytes", MAX_DIRECTORY);
    snprintf(package->directory, sizeof package->directory, "%s", directory);
    manifest_path(package, path);
    int code = fields_read(path, MAX_MANIFEST, &root, err);
    if (code == MOE_NOT_FOUND && is_unfinished(directory))
        return moe_fail_file(err, MOE_NOT_FOUND, directory, 0,
                             "is an unfinished convert; the same moechat convert command goes on with it");
    if (code == MOE_NOT_FOUND && lacks_manifest(directory))
        return moe_fail_file(err, MOE_NOT_FOUND, path, 0, "is missing from the package; get the package again");
    if (code == MOE_NOT_FOUND && gguf_set_is_one(directory))
        return gguf_model_open(package, err);
    if (code == MOE_NOT_FOUND && folder_is_one(directory))
        return folder_open(package, err);
    if (code == MOE_NOT_FOUND && faccessat(AT_FDCWD, directory, R_OK, AT_EACCESS) &&
        errno == EACCES) // who knows what is in it
        return moe_fail_file(err, MOE_IO, directory, EACCES, "cannot be listed");
    if (code == MOE_NOT_FOUND && faccessat(AT_FDCWD, directory, F_OK, AT_EACCESS))
        return moe_fail_file(err, MOE_NOT_FOUND, directory, errno, "cannot be opened");
    if (code == MOE_NOT_FOUND)
        return moe_fail_file(err, MOE_NOT_FOUND, directory, 0,
                             "no model here; name a GGUF file, or the folder of a package or of a download");
    if (code)
        return code;
    code = read_package(root, path, package, err);
    json_object_put(root);
    if (!code)
        code = check_files(package, err);
    if (!code)
        code = package_bind_settings(package, err);
    if (code)
        package_release(package);
    return code;
}

int package_open(const char *directory, struct package *package, struct moe_err *err)
{
    int code = open_directory(directory, package, err);
    if (code)
        return code;
    if (package->kind == PACKAGE && package->resident_is_gguf)
        code = gguf_model_read_suggestion(package, err);
    if (!code && !package->suggestion.given) // a GGUF's own goes before what lies beside it
        code = suggestion_read(directory, &package->suggestion, err);
    if (code)
        package_release(package);
    return code;
}

void package_release(struct package *package)
{
    for (uint32_t i = 0; i < package->n_files; i++)
        free(package->files[i].path);
    free(package->files);
    free(package->layers);
    free(package->resident.path);
    free(package->tokenizer.path);
    if (package->checkpoint)
        checkpoint_release(package->checkpoint);
    free(package->checkpoint);
    memset(package, 0, sizeof *package);
}

int package_open_resident(const struct package *package, struct checkpoint *checkpoint, struct moe_err *err)
{
    return package->resident_is_gguf ? gguf_model_open_resident(package, checkpoint, err)
                                     : checkpoint_open_file(package->resident.path, checkpoint, err);
}

uint32_t package_parts(const struct expert_layout *experts, struct expert_part parts[MAX_EXPERT_PARTS])
{
    const struct args_matrix *const matrices[] = {&experts->gate, &experts->up, &experts->down};
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const struct args_matrix *m = matrices[i];
        const uint64_t offsets[] = {m->weight, m->scales, m->biases};
        const uint64_t rows[] = {matrix_row_bytes(m), matrix_scale_bytes(m), matrix_bias_bytes(m)};
        for (uint32_t array = 0; array < 3; array++)
            if (rows[array])
                parts[n++] =
                    (struct expert_part){m, i, (enum expert_array)array, offsets[array], m->out_dim * rows[array]};
        if (m->factor)
            parts[n++] = (struct expert_part){m, i, ARRAY_FACTOR, m->biases, matrix_factor_bytes(m)};
    }
    return n;
}

const struct expert_layout *package_experts(const struct package *package, uint32_t layer)
{
    return &package->layers[layer].experts;
}

uint64_t package_slot_bytes(const struct package *package)
{
    uint64_t most = 0;
    for (uint32_t i = package->shape.first_k_dense_replace; package->layers && i < package->shape.n_layers; i++)
        if (package->layers[i].experts.blob_bytes > most)
            most = package->layers[i].experts.blob_bytes;
    return most;
}

uint32_t package_spans(const struct package *package, uint32_t layer, uint32_t expert,
                       struct expert_span spans[MAX_EXPERT_SPANS])
{
    const struct package_layer *from = &package->layers[layer];
    for (uint32_t i = 0; i < from->n_spans; i++) {
        spans[i] = from->spans[i];
        spans[i].offset += expert * spans[i].bytes;
    }
    return from->n_spans;
}
