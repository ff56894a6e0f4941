// SPDX-License-Identifier: GPL-3.0-or-later
// Writes a command's JSON object.
#include "app/util/json_out.h"

#include <errno.h>
#include <inttypes.h>
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

// Characters that a terminal acts on or does not show.
static bool acts(uint32_t code)
{
    return code >= 0x7F && sanitize_visible(code) != code;
}

static void put(struct json_out *out, const char *bytes, size_t length)
{
    out->lost = out->lost || !bytes_append(&out->text, bytes, length);
}

static void put_escape(struct json_out *out, uint32_t code)
{
    char escaped[16];
    if (code > 0xFFFF)
        snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (code >> 10)),
                 (unsigned)(0xDC00 + (code & 0x3FF)));
    else
        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)code);
    put(out, escaped, strlen(escaped));
}

static void put_character(struct json_out *out, const char *text, size_t size, uint32_t code)
{
    static const char short_ones[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (const char *one = short_ones; *one; one += 2)
        if (code == (unsigned char)*one) {
            put(out, "\\", 1);
            put(out, one + 1, 1);
            return;
        }
    if (code < 0x20 || acts(code))
        put_escape(out, code);
    else
        put(out, text, size);
}

// False: some byte of it is part of no character.
static bool put_quoted(struct json_out *out, const char *text, size_t length)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    bool whole = true;
    put(out, "\"", 1);
    for (size_t at = 0; at < length && !out->lost;) {
        uint32_t code;
        size_t size = character(text + at, length - at, &code);
        if (size)
            put_character(out, text + at, size, code);
        else
            put(out, replacement, 3);
        whole = whole && size;
        at += size ? size : 1;
    }
    put(out, "\"", 1);
    return whole;
}

static void put_key(struct json_out *out, const char *key)
{
    if (out->follows)
        put(out, ",", 1);
    out->follows = true;
    if (key) {
        put_quoted(out, key, strlen(key));
        put(out, ":", 1);
    }
}

// A value as it is in JSON.
static void put_value(struct json_out *out, const char *key, const char *value)
{
    put_key(out, key);
    put(out, value, strlen(value));
}

void json_out_open(struct json_out *out, const char *key, char bracket)
{
    put_key(out, key);
    put(out, &bracket, 1);
    out->follows = false;
}

void json_out_close(struct json_out *out, char bracket)
{
    put(out, &bracket, 1);
    out->follows = true;
}

void json_out_text(struct json_out *out, const char *key, const char *text, size_t length)
{
    put_key(out, key);
    if (put_quoted(out, text, length))
        return;
    char name[64];
    snprintf(name, sizeof name, "%s_hex", key);
    put_key(out, name);
    put(out, "\"", 1);
    for (size_t at = 0; at < length && !out->lost; at++) {
        char pair[3];
        snprintf(pair, sizeof pair, "%02x", (unsigned char)text[at]);
        put(out, pair, 2);
    }
    put(out, "\"", 1);
}

void json_out_string(struct json_out *out, const char *key, const char *text)
{
    json_out_text(out, key, text, strlen(text));
}

void json_out_whole(struct json_out *out, const char *key, uint64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    put_value(out, key, digits);
}

void json_out_hex(struct json_out *out, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "\"%016" PRIx64 "\"", value);
    put_value(out, key, digits);
}

void json_out_number(struct json_out *out, const char *key, int64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    put_value(out, key, digits);
}

void json_out_real(struct json_out *out, const char *key, double value)
{
    char digits[32]; // 17 of them would show 0.1 as 0.10000000000000001
    snprintf(digits, sizeof digits, "%.12g", value);
    put_value(out, key, isfinite(value) ? digits : "null");
}

void json_out_float(struct json_out *out, const char *key, float value)
{
    char digits[32];
    for (int n = 6; n <= 9; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, (double)value);
        if (strtof(digits, NULL) == value)
            break;
    }
    put_value(out, key, isfinite(value) ? digits : "null");
}

void json_out_flag(struct json_out *out, const char *key, bool value)
{
    put_value(out, key, value ? "true" : "false");
}

void json_out_null(struct json_out *out, const char *key)
{
    put_value(out, key, "null");
}

void json_out_part(struct json_out *out, const char *key, struct json_out *part)
{
    put_key(out, key);
    out->lost = out->lost || part->lost;
    put(out, part->text.data ? part->text.data : "", part->text.length);
    json_out_release(part);
}

void json_out_release(struct json_out *out)
{
    bytes_release(&out->text);
    *out = (struct json_out){0};
}

double json_out_rate(uint64_t count, uint64_t ns)
{
    return ns ? (double)count * 1e9 / (double)ns : 0;
}

bool json_out_render(struct json_out *out, struct bytes *line)
{
    bool fine = !out->lost && bytes_append(line, out->text.data, out->text.length) && bytes_append(line, "\n", 1);
    json_out_release(out);
    return fine;
}

int json_out_print(struct json_out *out)
{
    put(out, "\n", 1);
    int code = out->lost ? ENOMEM : files_write(STDOUT_FILENO, out->text.data, out->text.length);
    json_out_release(out);
    return code;
}

int json_out_finish(struct json_out *out)
{
    int code = json_out_print(out);
    if (code && code != EPIPE)
        report("cannot write the result: %s", strerror(code));
    return code == EPIPE ? STATUS_EPIPE : code ? STATUS_FAILED : STATUS_DONE;
}
