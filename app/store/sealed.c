// SPDX-License-Identifier: GPL-3.0-or-later
// JSON lines with a checksum in front, and strict reading of their fields.
#include "app/store/sealed.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char head[] = "{\"sum\":\"";
enum { HEAD = sizeof head - 1, DIGITS = 16, BODY = HEAD + DIGITS + 2, DEPTH = 8, RESERVE = 1 << 16, PER_BYTE = 64 };

static bool parse_hex(const char *text, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < DIGITS; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return false;
        *value = *value << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

bool sealed_line(const char *object, size_t length, struct bytes *out)
{
    size_t begin = out->length;
    char sum[DIGITS + 3];
    snprintf(sum, sizeof sum, "%016" PRIx64 "\",", (uint64_t)XXH3_64bits(object + 1, length - 1));
    if (bytes_append(out, head, HEAD) && bytes_append(out, sum, DIGITS + 2) &&
        bytes_append(out, object + 1, length - 1) && bytes_append(out, "\n", 1))
        return true;
    if (out->data) {
        out->length = begin;
        out->data[begin] = 0;
    }
    return false;
}

bool sealed_render(struct json_out *json, struct bytes *out)
{
    bool fine = !json->lost && sealed_line(json->text.data, json->text.length, out);
    json_out_release(json);
    return fine;
}

// What of a line has to be in its object. json-c leaves out what it is refused memory for, and says nothing of it.
struct content {
    size_t marks; // its colons and commas
    size_t bytes; // of names and strings
    size_t nulls;
    size_t containers; // objects and arrays
};

// The code of an escape with its four digits, which json-c has seen to; -1: there is none.
static long escaped(const char *at, const char *end)
{
    char digits[5] = "";
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    memcpy(digits, at + 2, 4);
    return strtol(digits, NULL, 16);
}

// A string behind its first quote; returns its last one, or the line's end.
static const char *weigh_string(const char *at, const char *end, struct content *content)
{
    enum { PAIR = 0x36, PAIRED = 0x37 }; // the first six bits of a character beyond 16 bits, in two escapes
    for (; at < end && *at != '"'; at++, content->bytes++) {
        long code = escaped(at, end);
        if (code >= 0) {
            at += 5;
            content->bytes += code >= 0x800 ? 2 : code >= 0x80 ? 1 : 0;
            if (code >> 10 == PAIR && escaped(at + 1, end) >> 10 == PAIRED) {
                at += 6;
                content->bytes++;
            }
        } else if (*at == '\\' && end - at > 1) {
            at++;
        }
    }
    return at;
}

static struct content content_of_line(const char *line, size_t length)
{
    struct content content = {0};
    for (const char *at = line, *end = line + length; at < end; at++) {
        if (*at == '"')
            at = weigh_string(at + 1, end, &content);
        content.marks += at < end && (*at == ',' || *at == ':');
        content.nulls += at < end && *at == 'n';
        content.containers += at < end && (*at == '{' || *at == '[');
    }
    return content;
}

static void add_content(struct json_object *value, struct content *content)
{
    size_t members = 0;
    if (json_object_is_type(value, json_type_object)) {
        json_object_object_foreach(value, name, member)
        {
            content->bytes += strlen(name);
            content->marks += members++ ? 2 : 1;
            add_content(member, content);
        }
    } else if (json_object_is_type(value, json_type_array)) {
        size_t n = json_object_array_length(value);
        content->marks += n ? n - 1 : 0;
        for (size_t i = 0; i < n; i++)
            add_content(json_object_array_get_idx(value, i), content);
    } else if (json_object_is_type(value, json_type_string)) {
        content->bytes += (size_t)json_object_get_string_len(value);
    } else {
        content->nulls += !value;
    }
}

static bool has_all(struct json_object *object, const struct content *want)
{
    struct content got = {0};
    add_content(object, &got);
    return got.marks == want->marks && got.bytes == want->bytes && got.nulls == want->nulls;
}

// json-c 0.18 takes all letters beyond ASCII for control characters where it is strict.
static int parser_flags(void)
{
    return JSON_TOKENER_VALIDATE_UTF8 | (json_c_version_num() == 18 << 8 ? 0 : JSON_TOKENER_STRICT);
}

// NULL as sealed_parse says.
static struct json_object *parse_line(const char *line, size_t length)
{
    // An object is some 750 bytes to json-c, also an empty one of three. Ours have about 90 each.
    enum { SMALLEST = 32, FEW = 64 };
    struct content content = content_of_line(line, length);
    if (content.containers > length / SMALLEST + FEW)
        return NULL;
    // json-c falls over memory that it is refused: what a line of numbers can need must be there before it begins.
    void *reserve = malloc(RESERVE + PER_BYTE * length);
    if (!reserve)
        return NULL;
    free(reserve);
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH);
    if (!tokener)
        return NULL;
    json_tokener_set_flags(tokener, parser_flags());
    struct json_object *object = json_tokener_parse_ex(tokener, line, (int)length);
    bool whole = json_tokener_get_error(tokener) == json_tokener_success &&
                 json_tokener_get_parse_end(tokener) == length && json_object_is_type(object, json_type_object) &&
                 has_all(object, &content);
    json_tokener_free(tokener);
    if (whole)
        return object;
    json_object_put(object);
    return NULL;
}

struct json_object *sealed_parse(const char *line, size_t length, uint64_t *sum)
{
    errno = 0;
    if (length <= BODY || length > INT_MAX || memcmp(line, head, HEAD) != 0 || !parse_hex(line + HEAD, sum) ||
        memcmp(line + HEAD + DIGITS, "\",", 2) != 0 || XXH3_64bits(line + BODY, length - BODY) != *sum)
        return NULL;
    return parse_line(line, length);
}

struct json_object *sealed_parse_broken(const char *line, size_t length)
{
    errno = 0;
    return length <= BODY || length > INT_MAX ? NULL : parse_line(line, length);
}

uint64_t sealed_sum(const char *line, size_t length)
{
    uint64_t sum = 0;
    if (length > BODY)
        parse_hex(line + HEAD, &sum);
    return sum;
}

bool sealed_whole(struct json_object *object, const char *key, uint64_t most, uint64_t *value)
{
    struct json_object *field;
    if (!json_object_object_get_ex(object, key, &field) || !json_object_is_type(field, json_type_int) ||
        json_object_get_int64(field) < 0)
        return false;
    *value = json_object_get_uint64(field);
    return *value <= most;
}

bool sealed_real(struct json_object *object, const char *key, double *value)
{
    struct json_object *field;
    if (!json_object_object_get_ex(object, key, &field) ||
        !(json_object_is_type(field, json_type_double) || json_object_is_type(field, json_type_int)))
        return false;
    *value = json_object_get_double(field);
    return isfinite(*value);
}

bool sealed_string(struct json_object *object, const char *key, char *value, size_t size)
{
    struct json_object *field;
    if (!json_object_object_get_ex(object, key, &field) || !json_object_is_type(field, json_type_string))
        return false;
    const char *text = json_object_get_string(field);
    size_t length = (size_t)json_object_get_string_len(field);
    if (length >= size)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    memcpy(value, text, length + 1);
    return true;
}

bool sealed_label(struct json_object *object, const char *key, char *value, size_t size)
{
    struct json_object *field;
    if (!json_object_object_get_ex(object, key, &field) || !json_object_is_type(field, json_type_string))
        return false;
    const char *text = json_object_get_string(field);
    size_t length = strlen(text);
    if (length >= size)
        for (length = size - 1; length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80;)
            length--;
    memcpy(value, text, length);
    value[length] = 0;
    return true;
}

bool sealed_hex(struct json_object *object, const char *key, uint64_t *value)
{
    char text[DIGITS + 1];
    return sealed_string(object, key, text, sizeof text) && strlen(text) == DIGITS && parse_hex(text, value);
}

struct json_object *sealed_array(struct json_object *object, const char *key, size_t most)
{
    struct json_object *field;
    if (!json_object_object_get_ex(object, key, &field) || !json_object_is_type(field, json_type_array) ||
        json_object_array_length(field) > most)
        return NULL;
    return field;
}
