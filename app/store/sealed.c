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

#include "app/util/json_out.h"

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

void sealed_begin(struct sealed_line *line, struct bytes *out)
{
    *line = (struct sealed_line){.out = out, .begin = out->length};
    line->failed = !bytes_append(out, head, HEAD) || !bytes_append(out, "0000000000000000\",", DIGITS + 2);
}

static void put(struct sealed_line *line, const char *text, size_t length)
{
    line->failed = line->failed || !bytes_append(line->out, text, length);
}

static void put_quoted(struct sealed_line *line, const char *text, size_t length)
{
    static const char escapes[] = "\"\"\\\\\bb\nn\rr\tt\ff";
    put(line, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        char escaped[8];
        size_t begin = i;
        while (i < length && (unsigned char)text[i] >= ' ' && text[i] != '"' && text[i] != '\\')
            i++;
        put(line, text + begin, i - begin);
        if (i == length)
            break;
        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)text[i]);
        for (const char *e = escapes; *e; e += 2)
            if (*e == text[i])
                snprintf(escaped, sizeof escaped, "\\%c", e[1]);
        put(line, escaped, strlen(escaped));
    }
    put(line, "\"", 1);
}

// What stands before a value.
static void put_key(struct sealed_line *line, const char *key)
{
    char last = line->failed ? 0 : line->out->data[line->out->length - 1];
    if (last != '{' && last != '[' && last != ',')
        put(line, ",", 1);
    if (key) {
        put_quoted(line, key, strlen(key));
        put(line, ":", 1);
    }
}

static void put_word(struct sealed_line *line, const char *key, const char *word)
{
    put_key(line, key);
    put(line, word, strlen(word));
}

void sealed_put_whole(struct sealed_line *line, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    put_word(line, key, digits);
}

void sealed_put_real(struct sealed_line *line, const char *key, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.12g", value);
    put_word(line, key, isfinite(value) ? digits : "null");
}

void sealed_put_hex(struct sealed_line *line, const char *key, uint64_t value)
{
    char text[DIGITS + 1];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    sealed_put_string(line, key, text);
}

void sealed_put_flag(struct sealed_line *line, const char *key, bool value)
{
    put_word(line, key, value ? "true" : "false");
}

void sealed_put_null(struct sealed_line *line, const char *key)
{
    put_word(line, key, "null");
}

void sealed_put_string(struct sealed_line *line, const char *key, const char *value)
{
    sealed_put_text(line, key, value, strlen(value));
}

void sealed_put_text(struct sealed_line *line, const char *key, const char *text, size_t length)
{
    struct bytes clean = {0};
    bool whole = true;
    if (!json_out_clean(&clean, text, length, &whole))
        line->failed = true;
    put_key(line, key);
    put_quoted(line, clean.data, line->failed ? 0 : clean.length);
    bytes_release(&clean);
    if (whole)
        return;
    char name[64];
    snprintf(name, sizeof name, "%s_hex", key);
    put_key(line, name);
    put(line, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        char pair[3];
        snprintf(pair, sizeof pair, "%02x", (unsigned)(unsigned char)text[i]);
        put(line, pair, 2);
    }
    put(line, "\"", 1);
}

void sealed_open(struct sealed_line *line, const char *key, char bracket)
{
    put_key(line, key);
    put(line, &bracket, 1);
}

void sealed_close(struct sealed_line *line, char bracket)
{
    put(line, &bracket, 1);
}

bool sealed_end(struct sealed_line *line)
{
    char sum[DIGITS + 1];
    put(line, "}", 1);
    if (!line->failed) {
        char *body = line->out->data + line->begin + BODY;
        snprintf(sum, sizeof sum, "%016" PRIx64, (uint64_t)XXH3_64bits(body, line->out->length - line->begin - BODY));
        memcpy(line->out->data + line->begin + HEAD, sum, DIGITS);
    }
    put(line, "\n", 1);
    if (line->failed && line->out->data) {
        line->out->length = line->begin;
        line->out->data[line->begin] = 0;
    }
    return !line->failed;
}

// NULL as sealed_parse says.
static struct json_object *parse_line(const char *line, size_t length)
{
    // json-c falls over memory that it is refused: what a line of numbers can need must be there before it begins.
    void *reserve = malloc(RESERVE + PER_BYTE * length);
    if (!reserve)
        return NULL;
    free(reserve);
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH);
    if (!tokener)
        return NULL;
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *object = json_tokener_parse_ex(tokener, line, (int)length);
    bool whole = json_tokener_get_error(tokener) == json_tokener_success &&
                 json_tokener_get_parse_end(tokener) == length && json_object_is_type(object, json_type_object);
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
