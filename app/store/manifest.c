// SPDX-License-Identifier: GPL-3.0-or-later
// session.json, parsed and rendered.
#include "app/store/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/store/sealed.h"

bool origin_is_of(const struct origin *saved, const struct origin *open)
{
    return strcmp(saved->weights, open->weights) == 0 ||
           (*open->weights_once && strcmp(saved->weights, open->weights_once) == 0);
}

static const char *const kv_types[] = {[MOE_KV_F32] = "f32", [MOE_KV_F16] = "f16"};
static const char *const kv_files[] = {"kv.bin", "kv.2.bin"};
static const char *const state_files[STATE_FILES] = {
    "state.0.bin", "state.1.bin", "state.2.bin", "state.3.bin",  "state.4.bin",  "state.5.bin", "state.6.bin",
    "state.7.bin", "state.8.bin", "state.9.bin", "state.10.bin", "state.11.bin", "state.12.bin"};

const char manifest_no_memory[] = "no memory for it", manifest_newer[] = "it is of a newer moechat";

void manifest_release(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_parts; i++)
        bytes_release(&manifest->parts[i].line);
    for (size_t i = 0; i < manifest->n_others; i++)
        bytes_release(&manifest->others[i].line);
    free(manifest->parts);
    free(manifest->others);
    free(manifest->records);
    free(manifest->other_records);
    *manifest = (struct manifest){0};
}

// Room in both of two lists for what is in either: what goes over from one to the other takes no memory.
static bool have_room(void **list, size_t size, void **other, size_t other_size, size_t room)
{
    void *grown = realloc(*list, room * size);
    *list = grown ? grown : *list;
    void *other_grown = grown ? realloc(*other, room * other_size) : NULL;
    *other = other_grown ? other_grown : *other;
    return other_grown;
}

static size_t twice(size_t room)
{
    return room ? 2 * room : 4;
}

static bool have_room_for_part(struct manifest *manifest)
{
    size_t room = twice(manifest->parts_room);
    if (manifest->n_parts + manifest->n_others < manifest->parts_room)
        return true;
    void *parts = manifest->parts, *others = manifest->others;
    bool fine = have_room(&parts, sizeof *manifest->parts, &others, sizeof *manifest->others, room);
    manifest->parts = parts;
    manifest->others = others;
    manifest->parts_room = fine ? room : manifest->parts_room;
    return fine;
}

static bool have_room_for_record(struct manifest *manifest)
{
    size_t room = twice(manifest->records_room);
    if (manifest->n_records + manifest->n_other_records < manifest->records_room)
        return true;
    void *records = manifest->records, *others = manifest->other_records;
    bool fine = have_room(&records, sizeof *manifest->records, &others, sizeof *manifest->other_records, room);
    manifest->records = records;
    manifest->other_records = others;
    manifest->records_room = fine ? room : manifest->records_room;
    return fine;
}

bool manifest_add_part(struct manifest *manifest, const struct manifest_part *part)
{
    if (!have_room_for_part(manifest))
        return false;
    manifest->parts[manifest->n_parts++] = *part;
    return true;
}

bool manifest_add_other(struct manifest *manifest, const struct manifest_part *part)
{
    if (!have_room_for_part(manifest))
        return false;
    size_t at = manifest->n_others++;
    for (; at > 0 && manifest->others[at - 1].number > part->number; at--)
        manifest->others[at] = manifest->others[at - 1];
    manifest->others[at] = *part;
    return true;
}

bool manifest_add_other_record(struct manifest *manifest, const struct branch_record *record)
{
    if (!have_room_for_record(manifest))
        return false;
    manifest->other_records[manifest->n_other_records++] = *record;
    return true;
}

// SIZE_MAX: it is not there.
static size_t find_in(const struct manifest_part *parts, size_t n, int64_t number)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (parts[middle].number == number)
            return middle;
        if (parts[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

size_t manifest_find_index(const struct manifest *manifest, int64_t number)
{
    size_t own = find_in(manifest->parts, manifest->n_parts, number);
    size_t other = own == SIZE_MAX ? find_in(manifest->others, manifest->n_others, number) : SIZE_MAX;
    return own != SIZE_MAX || other == SIZE_MAX ? own : manifest->n_parts + other;
}

const struct manifest_part *manifest_find(const struct manifest *manifest, int64_t number)
{
    size_t at = manifest_find_index(manifest, number);
    return at == SIZE_MAX           ? NULL
           : at < manifest->n_parts ? &manifest->parts[at]
                                    : &manifest->others[at - manifest->n_parts];
}

bool manifest_add_record(struct manifest *manifest, const struct moe_record *record)
{
    if (!have_room_for_record(manifest))
        return false;
    manifest->records[manifest->n_records++] = *record;
    manifest->capped = manifest->capped && record->first > 0;
    return true;
}

static bool ends_answer(const struct manifest *manifest, uint32_t position)
{
    uint32_t tokens = 0;
    for (size_t i = 0; i < manifest->n_parts && tokens < position; i++) {
        tokens += manifest->parts[i].tokens;
        if (tokens == position)
            return manifest->parts[i].role == TOK_ASSISTANT;
    }
    return false;
}

void manifest_add_state(struct manifest *manifest, const struct manifest_state *state)
{
    struct manifest_state stay[STATES_KEPT - 1];
    size_t n = 0;
    int answers = 0;
    for (size_t i = manifest->n_states; i > 0 && n < STATES_KEPT - 1; i--) {
        const struct manifest_state *there = &manifest->states[i - 1];
        bool answer = ends_answer(manifest, there->record.first);
        if (answer ? answers++ < ANSWERS_KEPT : !answers)
            stay[n++] = *there;
    }
    for (manifest->n_states = 0; n > 0;)
        manifest->states[manifest->n_states++] = stay[--n];
    manifest->states[manifest->n_states++] = *state;
}

void manifest_forget_rows(struct manifest *manifest, uint32_t rows)
{
    while (manifest_rows(manifest) > rows)
        manifest->n_records--;
    while (manifest->n_states && manifest->states[manifest->n_states - 1].record.first > manifest_rows(manifest))
        manifest->n_states--;
}

void manifest_forget_all_rows(struct manifest *manifest)
{
    manifest_forget_rows(manifest, 0);
    manifest->n_other_records = 0;
}

void manifest_cap(struct manifest *manifest)
{
    manifest_forget_all_rows(manifest);
    manifest->capped = true;
}

uint64_t manifest_row_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->n_records; i++)
        bytes += manifest->records[i].bytes;
    return bytes;
}

uint64_t manifest_other_row_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->n_other_records; i++)
        bytes += manifest->other_records[i].record.bytes;
    return bytes;
}

uint64_t manifest_state_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->n_states; i++)
        bytes += manifest->states[i].record.bytes;
    return bytes;
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

uint32_t manifest_cached(const struct manifest *manifest)
{
    uint32_t rows = manifest_rows(manifest), last = 0;
    if (!manifest->origin.states)
        return rows;
    for (size_t i = 0; i < manifest->n_states && manifest->states[i].record.first <= rows; i++)
        last = manifest->states[i].record.first;
    return last;
}

size_t manifest_messages(const struct manifest *manifest)
{
    size_t n = manifest->n_parts;
    for (size_t i = 1; i < manifest->n_parts; i++) // builds of before had another answer follow one without tokens
        n -= manifest->parts[i].role == TOK_ASSISTANT && manifest->parts[i - 1].role == TOK_ASSISTANT &&
             !manifest->parts[i - 1].tokens;
    return n;
}

const struct manifest_part *manifest_unanswered(const struct manifest *manifest)
{
    const struct manifest_part *last = manifest->n_parts ? &manifest->parts[manifest->n_parts - 1] : NULL;
    return last && last->role == TOK_USER ? last : NULL;
}

static uint64_t lines_end(const struct manifest_part *parts, size_t n)
{
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++)
        if (!parts[i].line.length && parts[i].offset + parts[i].length > end)
            end = parts[i].offset + parts[i].length;
    return end;
}

uint64_t manifest_transcript_end(const struct manifest *manifest)
{
    uint64_t own = lines_end(manifest->parts, manifest->n_parts);
    uint64_t others = lines_end(manifest->others, manifest->n_others);
    return own > others ? own : others;
}

uint64_t manifest_kv_end(const struct manifest *manifest)
{
    uint64_t end = 0;
    for (size_t i = 0; i < manifest->n_records + manifest->n_other_records; i++) {
        const struct moe_record *record =
            i < manifest->n_records ? &manifest->records[i] : &manifest->other_records[i - manifest->n_records].record;
        if (record->offset + record->bytes > end)
            end = record->offset + record->bytes;
    }
    return end;
}

const char *manifest_kv_name(unsigned kv_file)
{
    return kv_files[kv_file];
}

const char *manifest_state_name(unsigned file)
{
    return state_files[file];
}

static void put_record(struct json_out *json, const struct moe_record *record, int64_t part)
{
    json_out_open(json, NULL, '{');
    json_out_whole(json, "offset", record->offset);
    json_out_whole(json, "bytes", record->bytes);
    json_out_hex(json, "sum", record->checksum);
    json_out_whole(json, "first", record->first);
    json_out_whole(json, "tokens", record->count);
    json_out_flag(json, "logits", record->has_logits);
    if (part != PART_NONE)
        json_out_whole(json, "part", (uint64_t)part);
    json_out_close(json, '}');
}

static void put_records(struct json_out *json, const struct manifest *manifest)
{
    json_out_open(json, "records", '[');
    for (size_t i = 0; i < manifest->n_records; i++)
        put_record(json, &manifest->records[i], PART_NONE);
    json_out_close(json, ']');
    if (!manifest->n_other_records)
        return;
    json_out_open(json, "branches", '[');
    for (size_t i = 0; i < manifest->n_other_records; i++)
        put_record(json, &manifest->other_records[i].record, manifest->other_records[i].part);
    json_out_close(json, ']');
}

static void put_part(struct json_out *json, const struct manifest_part *part, bool of_branch)
{
    json_out_open(json, NULL, '{');
    json_out_whole(json, "part", part->number);
    if (of_branch && part->after == PART_NONE)
        json_out_null(json, "after");
    else if (of_branch)
        json_out_whole(json, "after", (uint64_t)part->after);
    json_out_string(json, "role", part_role_name(part->role));
    json_out_whole(json, "offset", part->offset);
    json_out_whole(json, "bytes", part->length);
    json_out_hex(json, "sum", part->sum);
    json_out_whole(json, "tokens", part->tokens);
    json_out_close(json, '}');
}

static void put_parts(struct json_out *json, const struct manifest *manifest)
{
    json_out_open(json, "parts", '[');
    for (size_t i = 0; i < manifest->n_parts; i++)
        put_part(json, &manifest->parts[i], false);
    json_out_close(json, ']');
    if (!manifest->n_others)
        return;
    json_out_open(json, "branches", '[');
    for (size_t i = 0; i < manifest->n_others; i++)
        put_part(json, &manifest->others[i], true);
    json_out_close(json, ']');
}

// Of a model without states the line says nothing of them, of one with them also that there are none now.
static void put_states(struct json_out *json, const struct manifest *manifest)
{
    if (!manifest->n_states && !manifest->origin.states)
        return;
    json_out_open(json, "states", '[');
    for (size_t i = 0; i < manifest->n_states; i++) {
        const struct moe_record *record = &manifest->states[i].record;
        json_out_open(json, NULL, '{');
        json_out_string(json, "file", state_files[manifest->states[i].file]);
        json_out_whole(json, "bytes", record->bytes);
        json_out_hex(json, "sum", record->checksum);
        json_out_whole(json, "after", record->first);
        json_out_close(json, '}');
    }
    json_out_close(json, ']');
}

static bool same_parts(const struct manifest_part *a, const struct manifest_part *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].number != b[i].number || a[i].after != b[i].after || a[i].offset != b[i].offset ||
            a[i].length != b[i].length || a[i].sum != b[i].sum || a[i].tokens != b[i].tokens || a[i].role != b[i].role)
            return false;
    return true;
}

static bool same_record(const struct moe_record *a, const struct moe_record *b)
{
    return a->offset == b->offset && a->bytes == b->bytes && a->checksum == b->checksum && a->first == b->first &&
           a->count == b->count && a->has_logits == b->has_logits;
}

// Do the bytes say the same conversation? What can't be read back is not written.
static bool reads_back(const struct manifest *manifest, const struct bytes *file, size_t begin)
{
    struct manifest back;
    if (manifest_parse(file->data + begin, file->length - begin, &back))
        return false;
    bool same = back.n_parts == manifest->n_parts && back.n_records == manifest->n_records &&
                back.n_others == manifest->n_others && back.n_other_records == manifest->n_other_records &&
                back.next_part == manifest->next_part && (!back.undone || back.undone == manifest->undone) &&
                back.kv_file == manifest->kv_file && back.capped == manifest->capped &&
                back.n_states == manifest->n_states && same_parts(back.parts, manifest->parts, back.n_parts) &&
                same_parts(back.others, manifest->others, back.n_others);
    for (size_t i = 0; same && i < back.n_records; i++)
        same = same_record(&back.records[i], &manifest->records[i]);
    for (size_t i = 0; same && i < back.n_other_records; i++)
        same = back.other_records[i].part == manifest->other_records[i].part &&
               same_record(&back.other_records[i].record, &manifest->other_records[i].record);
    for (size_t i = 0; same && i < back.n_states; i++) {
        const struct moe_record *a = &back.states[i].record, *b = &manifest->states[i].record;
        same = back.states[i].file == manifest->states[i].file && a->bytes == b->bytes && a->checksum == b->checksum &&
               a->first == b->first;
    }
    manifest_release(&back);
    return same;
}

bool manifest_render(const struct manifest *manifest, struct bytes *file)
{
    const struct origin *origin = &manifest->origin;
    struct json_out json = {0};
    size_t begin = file->length;
    json_out_open(&json, NULL, '{');
    json_out_whole(&json, "format", manifest->n_others ? MANIFEST_FORMAT : MANIFEST_FORMAT_ONE_BRANCH);
    json_out_whole(&json, "created", manifest->created);
    json_out_whole(&json, "updated", manifest->updated);
    if (manifest->updated_ns)
        json_out_whole(&json, "updated_ns", manifest->updated_ns);
    json_out_open(&json, "model", '{');
    json_out_string(&json, "name", origin->model_name);
    json_out_string(&json, "path", origin->model_path);
    json_out_string(&json, "weights", origin->weights);
    json_out_string(&json, "tokenizer", origin->language.tokenizer);
    json_out_string(&json, "template", origin->language.template_name);
    json_out_close(&json, '}');
    json_out_whole(&json, "next_part", manifest->next_part);
    if (manifest->undone && manifest->n_others)
        json_out_whole(&json, "undone", manifest->undone - 1);
    put_parts(&json, manifest);
    json_out_open(&json, "kv", '{');
    json_out_string(&json, "file", kv_files[manifest->kv_file]);
    json_out_string(&json, "type", kv_types[origin->kv_type]);
    json_out_whole(&json, "layers", origin->n_layers);
    json_out_whole(&json, "row_width", origin->row_width);
    if (manifest->capped) // older programs pass over it
        json_out_flag(&json, "capped", true);
    put_records(&json, manifest);
    put_states(&json, manifest);
    json_out_close(&json, '}');
    json_out_close(&json, '}');
    return sealed_render(&json, file) && reads_back(manifest, file, begin);
}

struct choices {
    const char *const *names;
    uint32_t n;
};

static bool read_choice(struct json_object *object, const char *key, struct choices choices, uint32_t *chosen)
{
    char text[16];
    if (!sealed_string(object, key, text, sizeof text))
        return false;
    for (*chosen = 0; *chosen < choices.n; ++*chosen)
        if (strcmp(choices.names[*chosen], text) == 0)
            return true;
    return false;
}

static bool read_record(struct json_object *entry, struct moe_record *record)
{
    uint64_t first, count;
    struct json_object *logits;
    *record = (struct moe_record){.has_states = false}; // states have files of their own
    if (!json_object_is_type(entry, json_type_object) ||
        !sealed_whole(entry, "offset", INT64_MAX / 2, &record->offset) ||
        !sealed_whole(entry, "bytes", INT64_MAX / 2, &record->bytes) || !sealed_hex(entry, "sum", &record->checksum) ||
        !sealed_whole(entry, "first", UINT32_MAX, &first) || !sealed_whole(entry, "tokens", UINT32_MAX, &count) ||
        !json_object_object_get_ex(entry, "logits", &logits) || !json_object_is_type(logits, json_type_boolean))
        return false;
    record->first = (uint32_t)first;
    record->count = (uint32_t)count;
    record->has_logits = json_object_get_boolean(logits);
    return count > 0 && first + count <= UINT32_MAX;
}

// How many tokens there are from the first to the end of each part, places as manifest_find_index has them. NULL: no
// memory.
static uint64_t *branch_ends(const struct manifest *manifest)
{
    size_t n = manifest->n_parts + manifest->n_others;
    uint64_t *ends = calloc(n + 1, sizeof *ends);
    for (size_t i = 0; ends && i < n; i++) { // each after the one that it follows
        const struct manifest_part *part =
            i < manifest->n_parts ? &manifest->parts[i] : &manifest->others[i - manifest->n_parts];
        size_t before = manifest_find_index(manifest, part->after);
        ends[i] = part->tokens + (before != SIZE_MAX ? ends[before] : 0);
    }
    return ends;
}

static bool read_branch_records(struct json_object *kv, struct manifest *manifest)
{
    if (!manifest->n_others || !json_object_object_get_ex(kv, "branches", NULL))
        return true;
    struct json_object *list = sealed_array(kv, "branches", PARTS_LIMIT);
    uint64_t *ends = branch_ends(manifest);
    bool fine = list && ends;
    for (size_t i = 0; fine && i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        struct branch_record record;
        uint64_t part = 0;
        fine = json_object_is_type(entry, json_type_object) && read_record(entry, &record.record) &&
               sealed_whole(entry, "part", UINT32_MAX - 1, &part);
        record.part = (uint32_t)part;
        size_t at = manifest_find_index(manifest, (int64_t)part);
        uint64_t end = fine ? (uint64_t)record.record.first + record.record.count : 0;
        fine = fine && at != SIZE_MAX && at >= manifest->n_parts && end <= ends[at] &&
               end > ends[at] - manifest->others[at - manifest->n_parts].tokens &&
               manifest_add_other_record(manifest, &record);
    }
    free(ends);
    return fine;
}

// Ascending, each in a file of its own, none beyond the rows.
static bool read_state(struct json_object *entry, const struct manifest *manifest, struct manifest_state *state)
{
    uint64_t after;
    uint32_t file;
    *state = (struct manifest_state){.record.has_states = true};
    if (!json_object_is_type(entry, json_type_object) ||
        !read_choice(entry, "file", (struct choices){state_files, STATE_FILES}, &file) ||
        !sealed_whole(entry, "bytes", INT64_MAX / 2, &state->record.bytes) ||
        !sealed_hex(entry, "sum", &state->record.checksum) ||
        !sealed_whole(entry, "after", manifest_rows(manifest), &after))
        return false;
    state->file = file;
    state->record.first = (uint32_t)after;
    uint32_t before = manifest->n_states ? manifest->states[manifest->n_states - 1].record.first : 0;
    for (size_t i = 0; i < manifest->n_states; i++)
        if (manifest->states[i].file == file)
            return false;
    return after > before;
}

static bool read_states(struct json_object *kv, struct manifest *manifest)
{
    if (!json_object_object_get_ex(kv, "states", NULL))
        return true;
    manifest->origin.states = true;
    struct json_object *list = sealed_array(kv, "states", STATES_KEPT);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct manifest_state state;
        if (!read_state(json_object_array_get_idx(list, i), manifest, &state))
            return false;
        manifest->states[manifest->n_states++] = state;
    }
    return list != NULL;
}

static bool read_kv(struct json_object *object, struct manifest *manifest)
{
    struct json_object *kv, *capped;
    uint32_t file;
    uint64_t layers, width;
    if (!json_object_object_get_ex(object, "kv", &kv) || !json_object_is_type(kv, json_type_object) ||
        !read_choice(kv, "file", (struct choices){kv_files, 2}, &file) ||
        !read_choice(kv, "type", (struct choices){kv_types, 2}, &manifest->origin.kv_type) ||
        !sealed_whole(kv, "layers", UINT32_MAX, &layers) || !sealed_whole(kv, "row_width", UINT32_MAX, &width))
        return false;
    manifest->kv_file = file;
    manifest->origin.n_layers = (uint32_t)layers;
    manifest->origin.row_width = (uint32_t)width;
    struct json_object *list = sealed_array(kv, "records", PARTS_LIMIT);
    uint32_t tokens = manifest_tokens(manifest);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct moe_record record;
        if (!read_record(json_object_array_get_idx(list, i), &record) || record.first != manifest_rows(manifest) ||
            record.count > tokens - record.first || !manifest_add_record(manifest, &record))
            return false;
    }
    if (json_object_object_get_ex(kv, "capped", &capped))
        manifest->capped = json_object_get_boolean(capped);
    return list != NULL && read_branch_records(kv, manifest) && read_states(kv, manifest);
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
    part->after = manifest->n_parts ? (int64_t)manifest->parts[manifest->n_parts - 1].number : PART_NONE;
    return number < manifest->next_part;
}

// Those of other branches: ascending, and each after one that is there.
static bool read_branches(struct json_object *object, struct manifest *manifest)
{
    struct json_object *list = sealed_array(object, "branches", PARTS_LIMIT), *before;
    uint64_t tokens = manifest_tokens(manifest), after = 0;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        struct manifest_part part;
        if (!read_entry(entry, manifest, &part) || (tokens += part.tokens) > UINT32_MAX ||
            (manifest->n_others && part.number <= manifest->others[manifest->n_others - 1].number) ||
            manifest_find(manifest, part.number) || !json_object_object_get_ex(entry, "after", &before) ||
            (before && (!sealed_whole(entry, "after", part.number, &after) || after == part.number ||
                        !manifest_find(manifest, (int64_t)after))))
            return false;
        part.after = before ? (int64_t)after : PART_NONE;
        if (!manifest_add_other(manifest, &part))
            return false;
    }
    return list != NULL;
}

static bool read_parts(struct json_object *object, struct manifest *manifest)
{
    struct json_object *list = sealed_array(object, "parts", PARTS_LIMIT);
    uint64_t tokens = 0;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct manifest_part part;
        if (!read_entry(json_object_array_get_idx(list, i), manifest, &part) || (tokens += part.tokens) > UINT32_MAX ||
            (int64_t)part.number <= part.after || !manifest_add_part(manifest, &part))
            return false;
    }
    return list != NULL;
}

static bool read_all(struct json_object *object, bool branches, struct manifest *manifest)
{
    struct origin *origin = &manifest->origin;
    struct json_object *model;
    uint64_t next, undone, ns;
    if (!sealed_whole(object, "created", INT64_MAX, &manifest->created) ||
        !sealed_whole(object, "updated", INT64_MAX, &manifest->updated) ||
        !sealed_whole(object, "next_part", PART_NEXT_MOST, &next) ||
        !json_object_object_get_ex(object, "model", &model) || !json_object_is_type(model, json_type_object) ||
        !sealed_label(model, "name", origin->model_name, sizeof origin->model_name) ||
        !sealed_label(model, "path", origin->model_path, sizeof origin->model_path) ||
        !sealed_string(model, "weights", origin->weights, sizeof origin->weights) ||
        !sealed_string(model, "tokenizer", origin->language.tokenizer, sizeof origin->language.tokenizer) ||
        !sealed_string(model, "template", origin->language.template_name, sizeof origin->language.template_name))
        return false;
    manifest->next_part = (uint32_t)next;
    if (sealed_whole(object, "undone", UINT32_MAX - 1, &undone)) // there or not
        manifest->undone = (uint32_t)undone + 1;
    if (sealed_whole(object, "updated_ns", 999999999, &ns)) // the same
        manifest->updated_ns = (uint32_t)ns;
    return read_parts(object, manifest) && (!branches || read_branches(object, manifest)) && read_kv(object, manifest);
}

// Of the line's object, which is put.
static const char *parse_object(struct json_object *object, struct manifest *manifest)
{
    uint64_t format;
    if (!object)
        return errno == ENOMEM ? manifest_no_memory : "it is damaged";
    const char *wrong = NULL;
    if (!sealed_whole(object, "format", UINT32_MAX, &format))
        wrong = "it has no format number";
    else if (format != MANIFEST_FORMAT && format != MANIFEST_FORMAT_ONE_BRANCH)
        wrong = format > MANIFEST_FORMAT ? manifest_newer : "its format is too old";
    else if (!read_all(object, format != MANIFEST_FORMAT_ONE_BRANCH, manifest))
        wrong = errno == ENOMEM ? manifest_no_memory : "a field is missing or out of range";
    json_object_put(object);
    if (wrong)
        manifest_release(manifest);
    if (wrong == manifest_newer)
        manifest->format = (uint32_t)format;
    return wrong;
}

const char *manifest_parse(const char *data, size_t length, struct manifest *manifest)
{
    uint64_t sum;
    *manifest = (struct manifest){0};
    errno = 0;
    return parse_object(length && data[length - 1] == '\n' ? sealed_parse(data, length - 1, &sum) : NULL, manifest);
}

const char *manifest_parse_broken(const char *data, size_t length, struct manifest *manifest)
{
    *manifest = (struct manifest){0};
    errno = 0;
    while (length && data[length - 1] == '\n')
        length--;
    return parse_object(sealed_parse_broken(data, length), manifest);
}

static bool adopt_entry(const struct bytes *file, const struct part_line *line, struct part *part,
                        struct manifest_part *entry)
{
    uint64_t sum;
    if (!part_parse(file->data + line->offset, line->length - 1, part, &sum))
        return false;
    *entry = (struct manifest_part){.offset = line->offset,
                                    .length = line->length,
                                    .sum = sum,
                                    .number = part->number,
                                    .after = part->after,
                                    .tokens = (uint32_t)part->ids.count,
                                    .role = part->role};
    return true;
}

// Adds a line's part. What its ids mean is known to who reads all lines (saved_read).
static bool adopt_line(const struct bytes *file, const struct part_line *line, struct manifest *manifest)
{
    struct part part;
    struct manifest_part entry;
    if (!adopt_entry(file, line, &part, &entry))
        return false;
    if (!manifest->n_parts)
        manifest->created = part.made.time;
    manifest->updated = part.made.time;
    part_release(&part);
    return manifest_add_part(manifest, &entry);
}

// All other lines are of other branches, as far as these are whole.
static bool adopt_others(const struct bytes *file, const struct part_lines *transcript, struct manifest *manifest)
{
    for (size_t i = 0; i < transcript->n_lines && !transcript->by_number; i++) {
        const struct part_line *line = &transcript->lines[i];
        struct part part;
        struct manifest_part entry;
        if (manifest_find(manifest, line->number) ||
            (line->after != PART_NONE && !manifest_find(manifest, line->after)))
            continue;
        if (!adopt_entry(file, line, &part, &entry))
            return false;
        part_release(&part);
        if (!manifest_add_other(manifest, &entry))
            return false;
    }
    return true;
}

static const char *adopt_lines(const struct bytes *file, const struct part_lines *transcript, struct manifest *manifest)
{
    const struct part_line *line = transcript->n_lines ? &transcript->lines[transcript->n_lines - 1] : NULL;
    const struct part_line **chain = calloc(transcript->n_lines + 1, sizeof *chain);
    const char *wrong = chain ? NULL : manifest_no_memory;
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
            wrong = manifest_no_memory;
    if (!wrong && !adopt_others(file, transcript, manifest))
        wrong = manifest_no_memory;
    free(chain);
    return wrong;
}

const char *manifest_adopt(const struct bytes *file, struct manifest *manifest)
{
    struct part_lines transcript = {0};
    *manifest = (struct manifest){0};
    const char *wrong =
        part_lines_scan(file, &transcript) ? adopt_lines(file, &transcript, manifest) : manifest_no_memory;
    part_lines_release(&transcript);
    if (wrong)
        manifest_release(manifest);
    return wrong;
}
