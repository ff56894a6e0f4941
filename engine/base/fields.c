// SPDX-License-Identifier: GPL-3.0-or-later
// Parses JSON strictly and reads its fields by name, type and range.
#include "engine/base/fields.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

// Looks for what json-c would let pass or take too much memory for, and counts the members that the text writes (colons
// outside strings): when the tree has fewer, one replaced another. Returns what is wrong, or NULL.
static const char *scan(const char *text, size_t length, size_t *members)
{
    // The shortest objects that files are full of have 20 bytes and more.
    enum { SMALLEST = 16, FEW = 1024 };
    size_t objects = 0;
    bool inside = false;
    *members = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == 0 || (inside && c < 0x20))
            return "has a control character";
        if (!inside) {
            inside = c == '"';
            *members += c == ':';
            objects += c == '{';
        } else if (c == '"') {
            inside = false;
        } else if (c == '\\') {
            if (length - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
                return "has a NUL in a string";
            i++;
        }
    }
    return objects > length / SMALLEST + FEW ? "is full of empty objects" : NULL;
}

static size_t count_members(struct json_object *node) // as deep as the tokener allows
{
    size_t count = 0;
    if (json_object_is_type(node, json_type_object)) {
        count = (size_t)json_object_object_length(node);
        struct json_object_iter member;
        json_object_object_foreachC(node, member) count += count_members(member.val);
    } else if (json_object_is_type(node, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(node); i++)
            count += count_members(json_object_array_get_idx(node, i));
    }
    return count;
}

static int refuse(struct moe_err *err, const struct fields_source *source, const char *what)
{
    char text[320];
    snprintf(text, sizeof text, "%.100s; %.200s", what, source->remedy);
    return moe_fail_file(err, MOE_FORMAT, source->file, 0, text);
}

// json-c 0.18 takes all letters beyond ASCII for control characters where it is strict.
static int parser_flags(void)
{
    return JSON_TOKENER_VALIDATE_UTF8 | (json_c_version_num() == 18 << 8 ? 0 : JSON_TOKENER_STRICT);
}

// How many members a second parse finds. A member for which json-c had no memory is lost without a word, and errno may
// be another's by then; one that stands twice is found once by each parse.
static size_t members_again(const char *text, size_t length)
{
    struct json_tokener *tokener = json_tokener_new();
    if (!tokener)
        return SIZE_MAX;
    json_tokener_set_flags(tokener, parser_flags());
    struct json_object *tree = json_tokener_parse_ex(tokener, text, (int)length);
    size_t members = tree ? count_members(tree) : SIZE_MAX;
    json_object_put(tree);
    json_tokener_free(tokener);
    return members;
}

int fields_parse_from(const struct fields_source *source, const char *text, size_t length, struct json_object **root,
                      struct moe_err *err)
{
    *root = NULL;
    size_t members;
    if (length == 0 || length > INT_MAX)
        return refuse(err, source, "is not JSON (empty, or too long)");
    const char *wrong = scan(text, length, &members);
    if (wrong)
        return refuse(err, source, wrong);
    errno = 0;
    struct json_tokener *tokener = json_tokener_new();
    if (!tokener)
        return moe_fail_file(err, MOE_NO_MEMORY, source->file, 0, "no memory to parse it");
    json_tokener_set_flags(tokener, parser_flags());
    struct json_object *tree = json_tokener_parse_ex(tokener, text, (int)length);
    enum json_tokener_error code = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    bool no_memory = errno == ENOMEM; // what json-c says of it is that the text is wrong
    size_t found = tree ? count_members(tree) : 0;
    no_memory |= code == json_tokener_success && found != members && members_again(text, length) != found;
    json_tokener_free(tokener);
    char what[96];
    if (no_memory) {
        json_object_put(tree);
        return moe_fail_file(err, MOE_NO_MEMORY, source->file, 0, "no memory to parse it");
    }
    if (code != json_tokener_success)
        snprintf(what, sizeof what, "is not JSON: %s at byte %zu",
                 code == json_tokener_continue ? "unexpected end" : json_tokener_error_desc(code), end);
    else if (!json_object_is_type(tree, json_type_object))
        snprintf(what, sizeof what, "is not a JSON object");
    else if (found != members)
        snprintf(what, sizeof what, "names a field twice in one object");
    else {
        *root = tree;
        return MOE_OK;
    }
    json_object_put(tree);
    return refuse(err, source, what);
}

int fields_parse(const char *text, size_t length, const char *file, struct json_object **root, struct moe_err *err)
{
    return fields_parse_from(&(struct fields_source){file, "download or convert it again"}, text, length, root, err);
}

int fields_read(const char *path, size_t max_bytes, struct json_object **root, struct moe_err *err)
{
    int fd;
    uint64_t bytes;
    *root = NULL;
    int code = file_open(path, &fd, &bytes, err);
    if (code)
        return code;
    char *text = NULL;
    if (bytes > max_bytes)
        code = moe_fail(err, MOE_FORMAT, "%.300s: is too large (%zu MiB at most); download it again", path,
                        max_bytes >> 20);
    else if (!(text = malloc((size_t)bytes + 1)))
        code = moe_fail_file(err, MOE_NO_MEMORY, path, 0, "no memory to read it");
    else
        code = file_read(&(struct file_range){fd, path, 0, (size_t)bytes}, text, err);
    close(fd);
    if (!code)
        code = fields_parse(text, (size_t)bytes, path, root, err);
    free(text);
    return code;
}

int fields_fail(struct fields *fields, enum moe_code code, const char *key, const char *format, ...)
{
    if (fields->failed)
        return fields->failed;
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    fields->failed = moe_fail(fields->err, code, "%.280s: %s%.80s: %s", fields->file, fields->prefix, key, what);
    if (fields->err)
        snprintf(fields->err->file, sizeof fields->err->file, "%s", fields->file);
    return fields->failed;
}

bool fields_has(const struct fields *fields, const char *key)
{
    return json_object_object_get(fields->object, key) != NULL;
}

// A value as it may be shown: one short line of printable ASCII.
static const char *shown(struct json_object *value, char out[48])
{
    enum json_type type = json_object_get_type(value);
    if (type == json_type_object || type == json_type_array)
        return type == json_type_object ? "an object" : "a list";
    snprintf(out, 48, type == json_type_string ? "\"%.40s\"" : "%.40s", value ? json_object_get_string(value) : "null");
    for (char *c = out; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    return out;
}

// The field's value, of the wanted type, or NULL after failing. `wanted` says what it must be, for people.
static struct json_object *field(struct fields *fields, const char *key, enum json_type type, const char *wanted)
{
    struct json_object *value = NULL;
    if (fields->failed)
        return NULL;
    if (!json_object_object_get_ex(fields->object, key, &value)) {
        fields_fail(fields, MOE_FORMAT, key, "is missing; it must be %s", wanted);
        return NULL;
    }
    char out[48];
    if (json_object_is_type(value, type))
        return value;
    fields_fail(fields, MOE_FORMAT, key, "is %s; it must be %s", shown(value, out), wanted);
    return NULL;
}

static uint64_t integer(struct fields *fields, const char *key, struct json_object *value, struct integer_range range)
{
    bool negative = json_object_get_int64(value) < 0;
    uint64_t number = json_object_get_uint64(value);
    if (json_object_is_type(value, json_type_int) && !negative && number >= range.min && number <= range.max)
        return number;
    char out[48];
    fields_fail(fields, MOE_FORMAT, key, "is %s; it must be an integer from %" PRIu64 " to %" PRIu64, shown(value, out),
                range.min, range.max);
    return range.min;
}

uint64_t fields_integer(struct fields *fields, const char *key, struct integer_range range)
{
    struct json_object *value = field(fields, key, json_type_int, "an integer");
    return value ? integer(fields, key, value, range) : range.min;
}

double fields_number(struct fields *fields, const char *key, struct number_range range)
{
    bool whole = json_object_is_type(json_object_object_get(fields->object, key), json_type_int);
    struct json_object *value = field(fields, key, whole ? json_type_int : json_type_double, "a number");
    if (!value)
        return range.min;
    double number = json_object_get_double(value);
    if (isfinite(number) && number >= range.min && number <= range.max)
        return number;
    char out[48];
    fields_fail(fields, MOE_FORMAT, key, "is %s; it must be a number from %g to %g", shown(value, out), range.min,
                range.max);
    return range.min;
}

bool fields_flag(struct fields *fields, const char *key)
{
    return json_object_get_boolean(field(fields, key, json_type_boolean, "true or false"));
}

uint64_t fields_integer_or(struct fields *fields, const char *key, struct integer_range range, uint64_t fallback)
{
    bool given = json_object_object_get_ex(fields->object, key, NULL);
    return given ? fields_integer(fields, key, range) : fallback;
}

double fields_number_or(struct fields *fields, const char *key, struct number_range range, double fallback)
{
    return fields_has(fields, key) ? fields_number(fields, key, range) : fallback;
}

bool fields_flag_or(struct fields *fields, const char *key, bool fallback)
{
    return json_object_object_get_ex(fields->object, key, NULL) ? fields_flag(fields, key) : fallback;
}

void fields_text(struct fields *fields, const char *key, char *out, size_t size)
{
    out[0] = '\0';
    struct json_object *value = field(fields, key, json_type_string, "a text");
    if (!value)
        return;
    const char *text = json_object_get_string(value);
    size_t length = strlen(text);
    bool plain = true;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        plain &= c >= 0x20 && c != 0x7f && !(c == 0xc2 && (unsigned char)text[i + 1] < 0xa0); // C0, DEL, C1
    }
    if (length == 0 || length >= size || !plain)
        fields_fail(fields, MOE_FORMAT, key, "must be a string of 1 to %zu bytes without control characters", size - 1);
    else
        memcpy(out, text, length + 1);
}

void fields_sha256(struct fields *fields, const char *key, char out[65])
{
    fields_text(fields, key, out, 65);
    if (!fields->failed && strspn(out, "0123456789abcdef") != 64)
        fields_fail(fields, MOE_FORMAT, key, "must be a SHA-256 in 64 lower-case hex digits");
}

struct json_object *fields_object(struct fields *fields, const char *key)
{
    return field(fields, key, json_type_object, "an object");
}

struct json_object *fields_array(struct fields *fields, const char *key, struct integer_range length)
{
    struct json_object *value = field(fields, key, json_type_array, "a list");
    if (!value)
        return NULL;
    size_t count = json_object_array_length(value);
    if (count >= length.min && count <= length.max)
        return value;
    fields_fail(fields, MOE_FORMAT, key, "has %zu entries; it must have %" PRIu64 " to %" PRIu64, count, length.min,
                length.max);
    return NULL;
}

uint64_t fields_element(struct fields *fields, const char *key, size_t i, struct integer_range range)
{
    struct json_object *array = field(fields, key, json_type_array, "a list");
    return array ? integer(fields, key, json_object_array_get_idx(array, i), range) : range.min;
}
