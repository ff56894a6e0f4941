// SPDX-License-Identifier: GPL-3.0-or-later
// The lines of transcript.jsonl, parsed, rendered and found.
#include "app/store/part.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/store/sealed.h"

static const char *const roles[] = {[TOK_SYSTEM] = "system", [TOK_USER] = "user", [TOK_ASSISTANT] = "assistant"};

const char *part_role_name(enum tok_role role)
{
    return roles[role];
}

bool part_role_find(const char *name, enum tok_role *role)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(roles[i], name) == 0) {
            *role = (enum tok_role)i;
            return true;
        }
    }
    return false;
}

void part_release(struct part *part)
{
    bytes_release(&part->text);
    tok_ids_release(&part->ids);
    *part = (struct part){0};
}

bool part_make_lost(struct part *part)
{
    static const char *const words[] = {[TOK_SYSTEM] =
                                            "[This system message is damaged on the disk and can't be read.]",
                                        [TOK_USER] = "[This message is damaged on the disk and can't be read.]",
                                        [TOK_ASSISTANT] = "[This answer is damaged on the disk and can't be read.]"};
    part->lost = true;
    return bytes_append(&part->text, words[part->role], strlen(words[part->role]));
}

// What opens its thinking belongs to the prompt.
static bool says_nothing(const struct bytes *answer)
{
    static const char opened[] = "<think>";
    size_t at = answer->length >= sizeof opened - 1 && memcmp(answer->data, opened, sizeof opened - 1) == 0
                    ? sizeof opened - 1
                    : 0;
    while (at < answer->length && (answer->data[at] == '\n' || answer->data[at] == ' '))
        at++;
    return at == answer->length;
}

bool part_is_unfed(enum tok_role role, const struct bytes *text, size_t n_ids)
{
    return !n_ids && text->length && !(role == TOK_ASSISTANT && says_nothing(text));
}

static void put_settings(struct json_out *json, const struct part_made *made)
{
    const struct moe_sampling *sampling = &made->sampling;
    json_out_open(json, "settings", '{');
    json_out_real(json, "temp", (double)sampling->temperature);
    json_out_whole(json, "top_k", sampling->top_k);
    json_out_real(json, "top_p", (double)sampling->top_p);
    json_out_real(json, "min_p", (double)sampling->min_p);
    json_out_real(json, "repeat_penalty", (double)sampling->repetition_penalty);
    json_out_whole(json, "max_tokens", made->max_tokens);
    json_out_close(json, '}');
    json_out_whole(json, "seed", sampling->seed);
    json_out_string(json, "stop", made->stop);
}

bool part_language_same(const struct part_language *a, const struct part_language *b)
{
    return strcmp(a->tokenizer, b->tokenizer) == 0 && strcmp(a->template_name, b->template_name) == 0;
}

static bool same_part(const struct part *a, const struct part *b)
{
    return a->number == b->number && a->after == b->after && a->role == b->role && a->made.time == b->made.time &&
           a->made.anew == b->made.anew && a->made.before == b->made.before && a->text.length == b->text.length &&
           (!a->text.length || memcmp(a->text.data, b->text.data, a->text.length) == 0) &&
           a->ids.count == b->ids.count &&
           (!a->ids.count || memcmp(a->ids.ids, b->ids.ids, a->ids.count * sizeof *a->ids.ids) == 0) &&
           part_language_same(&a->language, &b->language) &&
           (a->role != TOK_ASSISTANT ||
            (a->made.sampling.seed == b->made.sampling.seed && strcmp(a->made.stop, b->made.stop) == 0));
}

// Is the line that begins at `begin` the part once more? What can't be read back is not written.
static bool reads_back(const struct part *part, const struct bytes *line, size_t begin)
{
    struct part back;
    uint64_t sum;
    if (!part_parse(line->data + begin, line->length - begin - 1, &back, &sum))
        return false;
    bool same = same_part(part, &back);
    part_release(&back);
    return same;
}

const char *part_unfit(const struct part *part)
{
    static_assert(PART_TEXT_LIMIT == 64 << 20 && PART_IDS_LIMIT == 16777216, "as the words have it");
    return part->text.length > PART_TEXT_LIMIT
               ? "a message has more than the 64 MiB that a session holds; send less at once"
           : part->ids.count > PART_IDS_LIMIT
               ? "a message has more than the 16777216 tokens that a session holds; send less at once"
           : part->number == UINT32_MAX ? "the session's part numbers are used up; begin another conversation (/new)"
                                        : NULL;
}

bool part_render(const struct part *part, struct bytes *line)
{
    struct json_out json = {0};
    size_t begin = line->length;
    if (part_unfit(part))
        return false;
    json_out_open(&json, NULL, '{');
    json_out_whole(&json, "part", part->number);
    if (part->after == PART_NONE)
        json_out_null(&json, "after");
    else
        json_out_whole(&json, "after", (uint64_t)part->after);
    json_out_string(&json, "role", roles[part->role]);
    json_out_whole(&json, "time", part->made.time);
    if (part->made.anew)
        json_out_whole(&json, "said", part->made.before);
    json_out_text(&json, "text", part->text.data ? part->text.data : "", part->text.length);
    json_out_open(&json, "ids", '[');
    for (size_t i = 0; i < part->ids.count; i++)
        json_out_whole(&json, NULL, (uint64_t)part->ids.ids[i]);
    json_out_close(&json, ']');
    json_out_string(&json, "tokenizer", part->language.tokenizer);
    json_out_string(&json, "template", part->language.template_name);
    if (part->role == TOK_ASSISTANT)
        put_settings(&json, &part->made);
    json_out_close(&json, '}');
    if (!sealed_render(&json, line))
        return false;
    if (reads_back(part, line, begin))
        return true;
    line->length = begin;
    return false;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The text; where it is not all UTF-8, its hex is what counts.
static bool read_text(struct json_object *object, struct bytes *text)
{
    struct json_object *plain, *hex;
    if (!json_object_object_get_ex(object, "text", &plain) || !json_object_is_type(plain, json_type_string))
        return false;
    if (!json_object_object_get_ex(object, "text_hex", &hex)) {
        size_t length = (size_t)json_object_get_string_len(plain);
        return length <= PART_TEXT_LIMIT && bytes_append(text, json_object_get_string(plain), length);
    }
    size_t length = json_object_is_type(hex, json_type_string) ? (size_t)json_object_get_string_len(hex) : 1;
    const char *digits = json_object_get_string(hex);
    if (length % 2 || length / 2 > PART_TEXT_LIMIT || !bytes_append(text, "", 0))
        return false;
    for (size_t i = 0; i < length; i += 2) {
        int high = hex_digit(digits[i]), low = hex_digit(digits[i + 1]);
        if (high < 0 || low < 0)
            return false;
        char byte = (char)(high << 4 | low);
        if (!bytes_append(text, &byte, 1))
            return false;
    }
    return true;
}

static bool read_ids(struct json_object *object, struct tok_ids *ids)
{
    struct json_object *list = sealed_array(object, "ids", PART_IDS_LIMIT);
    struct tok_err err;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *id = json_object_array_get_idx(list, i);
        int64_t value = json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
        if (value < 0 || value > INT32_MAX || tok_ids_append(ids, (int32_t)value, &err))
            return false;
    }
    return list != NULL;
}

static bool read_settings(struct json_object *object, struct part_made *made)
{
    struct json_object *settings;
    struct moe_sampling *sampling = &made->sampling;
    double temp, top_p, min_p, penalty;
    uint64_t top_k, most;
    if (!json_object_object_get_ex(object, "settings", &settings) || !json_object_is_type(settings, json_type_object) ||
        !sealed_real(settings, "temp", &temp) || !sealed_whole(settings, "top_k", UINT32_MAX, &top_k) ||
        !sealed_real(settings, "top_p", &top_p) || !sealed_real(settings, "min_p", &min_p) ||
        !sealed_real(settings, "repeat_penalty", &penalty) ||
        !sealed_whole(settings, "max_tokens", UINT32_MAX, &most) ||
        !sealed_whole(object, "seed", UINT64_MAX, &sampling->seed) ||
        !sealed_string(object, "stop", made->stop, sizeof made->stop))
        return false;
    const double reals[] = {temp, top_p, min_p, penalty};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (reals[i] < 0 || reals[i] > 1e6)
            return false;
    sampling->temperature = (float)temp;
    sampling->top_k = (uint32_t)top_k;
    sampling->top_p = (float)top_p;
    sampling->min_p = (float)min_p;
    sampling->repetition_penalty = (float)penalty;
    made->max_tokens = (uint32_t)most;
    return true;
}

// A part is said anew only behind the one as which it was said first.
static bool read_before(struct json_object *object, struct part *part)
{
    uint64_t before;
    part->made.anew = json_object_object_get_ex(object, "said", NULL);
    if (!part->made.anew)
        return true;
    if (!sealed_whole(object, "said", UINT32_MAX, &before) || before >= part->number)
        return false;
    part->made.before = (uint32_t)before;
    return true;
}

static bool read_part(struct json_object *object, struct part *part)
{
    char role[16];
    uint64_t number, after = 0;
    struct json_object *before;
    if (!sealed_whole(object, "part", UINT32_MAX - 1, &number) ||
        !json_object_object_get_ex(object, "after", &before) ||
        (before && (!sealed_whole(object, "after", UINT32_MAX, &after) || after >= number)))
        return false;
    part->number = (uint32_t)number;
    if (!read_before(object, part))
        return false;
    part->after = before ? (int64_t)after : PART_NONE;
    return sealed_string(object, "role", role, sizeof role) && part_role_find(role, &part->role) &&
           sealed_whole(object, "time", INT64_MAX, &part->made.time) && read_text(object, &part->text) &&
           read_ids(object, &part->ids) &&
           sealed_string(object, "tokenizer", part->language.tokenizer, sizeof part->language.tokenizer) &&
           sealed_string(object, "template", part->language.template_name, sizeof part->language.template_name) &&
           (part->role != TOK_ASSISTANT || read_settings(object, &part->made));
}

bool part_parse(const char *line, size_t length, struct part *part, uint64_t *sum)
{
    struct json_object *object = sealed_parse(line, length, sum);
    *part = (struct part){0};
    bool fine = object && read_part(object, part);
    int code = errno;
    json_object_put(object);
    if (!fine)
        part_release(part);
    errno = code;
    return fine;
}

void part_lines_release(struct part_lines *transcript)
{
    free(transcript->by_number);
    free(transcript->lines);
    *transcript = (struct part_lines){0};
}

static bool add_line(struct part_lines *transcript, const struct part_line *line)
{
    size_t n = transcript->n_lines;
    if ((n & (n - 1)) == 0) { // full at each power of two
        struct part_line *grown = realloc(transcript->lines, (n ? 2 * n : 1) * sizeof *grown);
        if (!grown)
            return false;
        transcript->lines = grown;
    }
    transcript->lines[transcript->n_lines++] = *line;
    return true;
}

static int by_number(const void *a, const void *b)
{
    const struct part_line *x = *(const struct part_line *const *)a, *y = *(const struct part_line *const *)b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number) : (x > y) - (x < y);
}

// False: no memory.
static bool put_in_order(struct part_lines *transcript)
{
    size_t n = transcript->n_lines, in_order = n != 0;
    while (in_order < n && transcript->lines[in_order].number > transcript->lines[in_order - 1].number)
        in_order++;
    if (in_order == n)
        return true;
    transcript->by_number = calloc(n, sizeof *transcript->by_number);
    for (size_t i = 0; i < n && transcript->by_number; i++)
        transcript->by_number[i] = &transcript->lines[i];
    if (transcript->by_number)
        qsort(transcript->by_number, n, sizeof *transcript->by_number, by_number);
    return transcript->by_number;
}

bool part_lines_scan(const struct bytes *file, struct part_lines *transcript)
{
    for (size_t at = 0; at < file->length;) {
        const char *newline = memchr(file->data + at, '\n', file->length - at);
        size_t length = newline ? (size_t)(newline - file->data) - at : file->length - at;
        struct part part;
        struct part_line line = {.offset = at, .length = length + 1};
        errno = 0;
        if (newline && transcript->n_lines < PARTS_LIMIT && part_parse(file->data + at, length, &part, &line.sum)) {
            line.number = part.number;
            line.after = part.after;
            part_release(&part);
            if (!add_line(transcript, &line))
                return false;
        } else if (newline && errno == ENOMEM) {
            return false;
        } else {
            transcript->n_damaged++;
        }
        at += length + 1;
    }
    return put_in_order(transcript);
}

bool part_lines_clean(const struct bytes *file, const struct part_lines *transcript)
{
    uint64_t end = 0;
    for (size_t i = 0; i < transcript->n_lines; end += transcript->lines[i++].length)
        if (transcript->lines[i].offset != end)
            return false;
    return end == file->length || !memchr(file->data + end, '\n', file->length - end);
}

const struct part_line *part_lines_ascending(const struct part_lines *transcript, size_t i)
{
    return transcript->by_number ? transcript->by_number[i] : &transcript->lines[i];
}

const struct part_line *part_lines_find(const struct part_lines *transcript, size_t end, uint32_t number)
{
    size_t low = 0, high = transcript->n_lines; // the first that comes behind it
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct part_line *line = part_lines_ascending(transcript, middle);
        if (line->number < number || (line->number == number && line < transcript->lines + end))
            low = middle + 1;
        else
            high = middle;
    }
    const struct part_line *found = low ? part_lines_ascending(transcript, low - 1) : NULL;
    return found && found->number == number ? found : NULL;
}
