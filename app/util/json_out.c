// SPDX-License-Identifier: GPL-3.0-or-later
// Builds and prints a command's JSON object.
#include "app/util/json_out.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/util/files.h"
#include "app/util/report.h"
#include "app/util/sanitize.h"

// The length of the UTF-8 character at `text` and its code point, 0 when there is none.
static size_t character(const char *text, size_t length, uint32_t *code)
{
    unsigned char first = (unsigned char)text[0];
    size_t size = first < 0x80                    ? 1
                  : first >= 0xC2 && first < 0xE0 ? 2
                  : (first & 0xF0) == 0xE0        ? 3
                  : first >= 0xF0 && first < 0xF5 ? 4
                                                  : 0;
    if (size == 0 || size > length)
        return 0;
    static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    *code = first & masks[size];
    for (size_t i = 1; i < size; i++) {
        if (((unsigned char)text[i] & 0xC0) != 0x80)
            return 0;
        *code = *code << 6 | ((unsigned char)text[i] & 0x3F);
    }
    bool overlong = (size == 3 && *code < 0x800) || (size == 4 && *code < 0x10000);
    bool surrogate = *code >= 0xD800 && *code < 0xE000;
    return overlong || surrogate || *code > 0x10FFFF ? 0 : size;
}

bool json_out_clean(struct bytes *clean, const char *text, size_t length, bool *whole)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    bool fine = bytes_append(clean, "", 0);
    *whole = true;
    for (size_t at = 0; at < length && fine;) {
        uint32_t code;
        size_t size = character(text + at, length - at, &code);
        fine = size ? bytes_append(clean, text + at, size) : bytes_append(clean, replacement, 3);
        *whole = *whole && size;
        at += size ? size : 1;
    }
    return fine;
}

void json_out_text(struct json_object *object, const char *key, const char *text, size_t length)
{
    struct bytes clean = {0}, hex = {0};
    bool whole, fine = json_out_clean(&clean, text, length, &whole);
    if (fine)
        json_object_object_add(object, key, json_object_new_string_len(clean.data, (int)clean.length));
    for (size_t at = 0; at < length && fine && !whole; at++) {
        char pair[3];
        snprintf(pair, sizeof pair, "%02x", (unsigned char)text[at]);
        fine = bytes_append(&hex, pair, 2);
    }
    if (fine && !whole) {
        char name[64];
        snprintf(name, sizeof name, "%s_hex", key);
        json_object_object_add(object, name, json_object_new_string_len(hex.data, (int)hex.length));
    }
    bytes_release(&clean);
    bytes_release(&hex);
}

void json_out_string(struct json_object *object, const char *key, const char *text)
{
    json_out_text(object, key, text, strlen(text));
}

void json_out_whole(struct json_object *object, const char *key, uint64_t value)
{
    json_object_object_add(object, key, json_object_new_uint64(value));
}

void json_out_real(struct json_object *object, const char *key, double value)
{
    char digits[32]; // json-c's own 17 would show 0.1 as 0.10000000000000001
    snprintf(digits, sizeof digits, "%.12g", value);
    json_object_object_add(object, key, isfinite(value) ? json_object_new_double_s(value, digits) : NULL);
}

void json_out_float(struct json_object *object, const char *key, float value)
{
    char digits[32];
    for (int n = 6; n <= 9; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, (double)value);
        if (strtof(digits, NULL) == value)
            break;
    }
    json_object_object_add(object, key, isfinite(value) ? json_object_new_double_s((double)value, digits) : NULL);
}

double json_out_rate(uint64_t count, uint64_t ns)
{
    return ns ? (double)count * 1e9 / (double)ns : 0;
}

// Characters that a terminal acts on or does not show, and that json-c leaves as they are.
static bool acts(uint32_t code)
{
    return code >= 0x7F && sanitize_visible(code) != code;
}

bool json_out_render(struct json_object *object, struct bytes *line)
{
    const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    bool fine = text != NULL;
    while (fine && *text) {
        uint32_t code = 0;
        size_t size = character(text, strnlen(text, 4), &code);
        char escaped[16];
        if (size && acts(code)) {
            if (code > 0xFFFF)
                snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (code >> 10)),
                         (unsigned)(0xDC00 + (code & 0x3FF)));
            else
                snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)code);
            fine = bytes_append(line, escaped, strlen(escaped));
        } else {
            size = size ? size : 1;
            fine = bytes_append(line, text, size);
        }
        text += size;
    }
    return fine && bytes_append(line, "\n", 1);
}

int json_out_print(struct json_object *object)
{
    struct bytes line = {0};
    int code = json_out_render(object, &line) ? files_write(STDOUT_FILENO, line.data, line.length) : ENOMEM;
    bytes_release(&line);
    json_object_put(object);
    return code;
}

int json_out_finish(struct json_object *object)
{
    int code = json_out_print(object);
    if (code && code != EPIPE)
        report("cannot write the result: %s", strerror(code));
    return code == EPIPE ? STATUS_EPIPE : code ? STATUS_FAILED : STATUS_DONE;
}
