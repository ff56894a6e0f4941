// SPDX-License-Identifier: GPL-3.0-or-later
// session.json, parsed and rendered.
#include "app/store/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "app/util/json_out.h"
#include "app/store/sealed.h"

static const char *const kv_types[] = {[MOE_KV_F32] = "f32", [MOE_KV_F16] = "f16"};
static const char *const kv_files[] = {"kv.bin", "kv.2.bin"};

void manifest_release(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_parts; i++)
        bytes_release(&manifest->parts[i].line);
    free(manifest->parts);
    free(manifest->records);
    *manifest = (struct manifest){0};
}

static void *grow(void *list, size_t n, size_t size)
{
    return n & (n - 1) ? list : realloc(list, (n ? 2 * n : 1) * size); // full at each power of two
}

bool manifest_add_part(struct manifest *manifest, const struct manifest_part *part)
{
    struct manifest_part *grown = grow(manifest->parts, manifest->n_parts, sizeof *grown);
    if (!grown)
        return false;
    manifest->parts = grown;
    grown[manifest->n_parts++] = *part;
    return true;
}

bool manifest_add_record(struct manifest *manifest, const struct moe_record *record)
{
    struct moe_record *grown = grow(manifest->records, manifest->n_records, sizeof *grown);
    if (!grown)
        return false;
    manifest->records = grown;
    grown[manifest->n_records++] = *record;
    return true;
}

uint32_t manifest_tokens(const struct manifest *manifest)
{
    uint32_t tokens = 0;
    for (size_t i = 0; i < manifest->n_parts; i++)
        tokens += manifest->parts[i].tokens;
    return tokens;
}

uint32_t manifest_rows(const struct manifest *manifest)
{
    const struct moe_record *last = manifest->n_records ? &manifest->records[manifest->n_records - 1] : NULL;
    return last ? last->first + last->count : 0;
}

size_t manifest_turns(const struct manifest *manifest)
{
    size_t turns = 0;
    for (size_t i = 0; i < manifest->n_parts; i++)
        turns += manifest->parts[i].role == TOK_USER;
    return turns;
}

uint64_t manifest_transcript_end(const struct manifest *manifest)
{
    uint64_t end = 0;
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        if (!part->line.length && part->offset + part->length > end)
            end = part->offset + part->length;
    }
    return end;
}

uint64_t manifest_kv_end(const struct manifest *manifest)
{
    uint64_t end = 0;
    for (size_t i = 0; i < manifest->n_records; i++)
        if (manifest->records[i].offset + manifest->records[i].bytes > end)
            end = manifest->records[i].offset + manifest->records[i].bytes;
    return end;
}

const char *manifest_kv_name(unsigned kv_file)
{
    return kv_files[kv_file];
}

static struct json_object *render_records(const struct manifest *manifest)
{
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < manifest->n_records; i++) {
        const struct moe_record *record = &manifest->records[i];
        struct json_object *entry = json_object_new_object();
        json_out_whole(entry, "offset", record->offset);
        json_out_whole(entry, "bytes", record->bytes);
        sealed_add_hex(entry, "sum", record->checksum);
        json_out_whole(entry, "first", record->first);
        json_out_whole(entry, "tokens", record->count);
        json_object_object_add(entry, "logits", json_object_new_boolean(record->has_logits));
        json_object_array_add(list, entry);
    }
    return list;
}

static struct json_object *render_parts(const struct manifest *manifest)
{
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct manifest_part *part = &manifest->parts[i];
        struct json_object *entry = json_object_new_object();
        json_out_whole(entry, "part", part->number);
        json_out_string(entry, "role", part_role_name(part->role));
        json_out_whole(entry, "offset", part->offset);
        json_out_whole(entry, "bytes", part->length);
        sealed_add_hex(entry, "sum", part->sum);
        json_out_whole(entry, "tokens", part->tokens);
        json_object_array_add(list, entry);
    }
    return list;
}

bool manifest_render(const struct manifest *manifest, struct bytes *file)
{
    const struct origin *origin = &manifest->origin;
    struct json_object *object = json_object_new_object();
    struct json_object *model = json_object_new_object();
    struct json_object *kv = json_object_new_object();
    json_out_whole(object, "format", MANIFEST_FORMAT);
    json_out_whole(object, "created", manifest->created);
    json_out_whole(object, "updated", manifest->updated);
    json_out_string(model, "name", origin->model_name);
    json_out_string(model, "path", origin->model_path);
    json_out_string(model, "weights", origin->weights);
    json_out_string(model, "tokenizer", origin->language.tokenizer);
    json_out_string(model, "template", origin->language.template_name);
    json_object_object_add(object, "model", model);
    json_out_whole(object, "next_part", manifest->next_part);
    json_object_object_add(object, "parts", render_parts(manifest));
    json_out_string(kv, "file", kv_files[manifest->kv_file]);
    json_out_string(kv, "type", kv_types[origin->kv_type]);
    json_out_whole(kv, "layers", origin->n_layers);
    json_out_whole(kv, "row_width", origin->row_width);
    json_object_object_add(kv, "records", render_records(manifest));
    json_object_object_add(object, "kv", kv);
    bool fine = sealed_render(object, file);
    json_object_put(object);
    return fine;
}

static bool read_choice(struct json_object *object, const char *key, const char *const choices[2], uint32_t *chosen)
{
    char text[16];
    if (!sealed_string(object, key, text, sizeof text))
        return false;
    for (*chosen = 0; *chosen < 2; ++*chosen)
        if (strcmp(choices[*chosen], text) == 0)
            return true;
    return false;
}

static bool read_record(struct json_object *entry, uint32_t rows, uint32_t tokens, struct moe_record *record)
{
    uint64_t first, count;
    struct json_object *logits;
    if (!json_object_is_type(entry, json_type_object) ||
        !sealed_whole(entry, "offset", INT64_MAX / 2, &record->offset) ||
        !sealed_whole(entry, "bytes", INT64_MAX / 2, &record->bytes) || !sealed_hex(entry, "sum", &record->checksum) ||
        !sealed_whole(entry, "first", UINT32_MAX, &first) || !sealed_whole(entry, "tokens", UINT32_MAX, &count) ||
        !json_object_object_get_ex(entry, "logits", &logits) || !json_object_is_type(logits, json_type_boolean))
        return false;
    record->first = (uint32_t)first;
    record->count = (uint32_t)count;
    record->has_logits = json_object_get_boolean(logits);
    return first == rows && count > 0 && first + count <= tokens;
}

static bool read_kv(struct json_object *object, struct manifest *manifest)
{
    struct json_object *kv;
    uint32_t file;
    uint64_t layers, width;
    if (!json_object_object_get_ex(object, "kv", &kv) || !json_object_is_type(kv, json_type_object) ||
        !read_choice(kv, "file", kv_files, &file) || !read_choice(kv, "type", kv_types, &manifest->origin.kv_type) ||
        !sealed_whole(kv, "layers", UINT32_MAX, &layers) || !sealed_whole(kv, "row_width", UINT32_MAX, &width))
        return false;
    manifest->kv_file = file;
    manifest->origin.n_layers = (uint32_t)layers;
    manifest->origin.row_width = (uint32_t)width;
    struct json_object *list = sealed_array(kv, "records", PARTS_LIMIT);
    uint32_t tokens = manifest_tokens(manifest);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct moe_record record;
        if (!read_record(json_object_array_get_idx(list, i), manifest_rows(manifest), tokens, &record) ||
            !manifest_add_record(manifest, &record))
            return false;
    }
    return list != NULL;
}

static bool read_entry(struct json_object *entry, const struct manifest *manifest, struct manifest_part *part)
{
    char role[16];
    uint64_t number, tokens;
    *part = (struct manifest_part){0};
    if (!json_object_is_type(entry, json_type_object) || !sealed_whole(entry, "part", UINT32_MAX - 1, &number) ||
        !sealed_string(entry, "role", role, sizeof role) || !part_role_find(role, &part->role) ||
        !sealed_whole(entry, "offset", INT64_MAX / 2, &part->offset) ||
        !sealed_whole(entry, "bytes", INT64_MAX / 2, &part->length) || !sealed_hex(entry, "sum", &part->sum) ||
        !sealed_whole(entry, "tokens", PART_IDS_LIMIT, &tokens))
        return false;
    part->number = (uint32_t)number;
    part->tokens = (uint32_t)tokens;
    bool ascends = !manifest->n_parts || number > manifest->parts[manifest->n_parts - 1].number;
    return ascends && number < manifest->next_part;
}

static bool read_parts(struct json_object *object, struct manifest *manifest)
{
    struct json_object *list = sealed_array(object, "parts", PARTS_LIMIT);
    uint64_t tokens = 0;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct manifest_part part;
        if (!read_entry(json_object_array_get_idx(list, i), manifest, &part) || (tokens += part.tokens) > UINT32_MAX ||
            !manifest_add_part(manifest, &part))
            return false;
    }
    return list != NULL;
}

static bool read_all(struct json_object *object, struct manifest *manifest)
{
    struct origin *origin = &manifest->origin;
    struct json_object *model;
    uint64_t next;
    if (!sealed_whole(object, "created", INT64_MAX, &manifest->created) ||
        !sealed_whole(object, "updated", INT64_MAX, &manifest->updated) ||
        !sealed_whole(object, "next_part", UINT32_MAX - 1, &next) ||
        !json_object_object_get_ex(object, "model", &model) || !json_object_is_type(model, json_type_object) ||
        !sealed_label(model, "name", origin->model_name, sizeof origin->model_name) ||
        !sealed_label(model, "path", origin->model_path, sizeof origin->model_path) ||
        !sealed_string(model, "weights", origin->weights, sizeof origin->weights) ||
        !sealed_string(model, "tokenizer", origin->language.tokenizer, sizeof origin->language.tokenizer) ||
        !sealed_string(model, "template", origin->language.template_name, sizeof origin->language.template_name))
        return false;
    manifest->next_part = (uint32_t)next;
    return read_parts(object, manifest) && read_kv(object, manifest);
}

const char *manifest_parse(const char *data, size_t length, struct manifest *manifest)
{
    uint64_t format, sum;
    *manifest = (struct manifest){0};
    struct json_object *object = length && data[length - 1] == '\n' ? sealed_parse(data, length - 1, &sum) : NULL;
    if (!object)
        return "it is damaged";
    const char *wrong = NULL;
    if (!sealed_whole(object, "format", UINT32_MAX, &format))
        wrong = "it has no format number";
    else if (format != MANIFEST_FORMAT)
        wrong = format > MANIFEST_FORMAT ? "its format is too new for this moechat" : "its format is too old";
    else if (!read_all(object, manifest))
        wrong = "a field is missing or out of range";
    json_object_put(object);
    if (wrong)
        manifest_release(manifest);
    return wrong;
}

// Adds a line's part, and what it says of the language that the ids before it are in.
static bool adopt_line(const struct bytes *file, const struct part_line *line, struct manifest *manifest)
{
    struct part part;
    struct part_language *language = &manifest->origin.language;
    uint64_t sum;
    if (!part_parse(file->data + line->offset, line->length - 1, &part, &sum))
        return false;
    if (!manifest->n_parts)
        *language = part.language;
    else if (strcmp(language->tokenizer, part.language.tokenizer) != 0 ||
             strcmp(language->template_name, part.language.template_name) != 0)
        *language = (struct part_language){{0}, {0}};
    if (!manifest->n_parts)
        manifest->created = part.time;
    manifest->updated = part.time;
    struct manifest_part entry = {.offset = line->offset,
                                  .length = line->length,
                                  .sum = sum,
                                  .number = part.number,
                                  .tokens = (uint32_t)part.ids.count,
                                  .role = part.role};
    part_release(&part);
    return manifest_add_part(manifest, &entry);
}

static const char *adopt_lines(const struct bytes *file, const struct part_lines *transcript, struct manifest *manifest)
{
    const struct part_line *line = transcript->n_lines ? &transcript->lines[transcript->n_lines - 1] : NULL;
    const struct part_line **chain = calloc(transcript->n_lines + 1, sizeof *chain);
    const char *wrong = chain ? NULL : "no memory for it";
    size_t n_chain = 0;
    if (!wrong && !part_lines_clean(file, transcript))
        wrong = "it is missing, and a line of the transcript is damaged";
    if (line)
        manifest->next_part = line->number + 1;
    while (line && !wrong) {
        chain[n_chain++] = line;
        if (line->after == PART_NONE)
            break;
        line = part_lines_find(transcript, (size_t)(line - transcript->lines), (uint32_t)line->after);
        if (!line)
            wrong = "it is missing, and lines of the transcript are, too";
    }
    for (size_t i = n_chain; i > 0 && !wrong; i--)
        if (!adopt_line(file, chain[i - 1], manifest))
            wrong = "no memory for it";
    free(chain);
    return wrong;
}

const char *manifest_adopt(const struct bytes *file, struct manifest *manifest)
{
    struct part_lines transcript = {0};
    *manifest = (struct manifest){0};
    const char *wrong =
        part_lines_scan(file, &transcript) ? adopt_lines(file, &transcript, manifest) : "no memory for it";
    part_lines_release(&transcript);
    if (wrong)
        manifest_release(manifest);
    return wrong;
}
