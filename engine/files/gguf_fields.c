// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a GGUF's keys by name, type and range.
#include "engine/files/gguf_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

enum { KEY_BYTES = 300 };

static const char *full_key(const struct gguf_fields *f, const char *key, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s%s", key[0] == '.' ? f->architecture : "", key);
    return out;
}

int gguf_fields_fail(struct gguf_fields *f, enum moe_code code, const char *key, const char *format, ...)
{
    char text[256];
    char full[KEY_BYTES];
    if (f->failed)
        return f->failed;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    f->failed = moe_fail(f->err, code, "%.240s: %s: %s", f->path, full_key(f, key, full), text);
    return f->failed;
}

const struct gguf_value *gguf_fields_find(const struct gguf_fields *f, const char *key)
{
    char full[KEY_BYTES];
    return gguf_find(f->from, full_key(f, key, full));
}

// NULL after failing.
static const struct gguf_value *need(struct gguf_fields *f, const char *key)
{
    const struct gguf_value *value = f->failed ? NULL : gguf_fields_find(f, key);
    if (!value)
        gguf_fields_fail(f, MOE_FORMAT, key, "is missing; get a newer file of the model");
    return value;
}

uint64_t gguf_fields_integer(struct gguf_fields *f, const char *key, struct integer_range range)
{
    const struct gguf_value *value = need(f, key);
    uint64_t number = 0;
    uint64_t other = 0;
    if (!value)
        return range.min;
    if (value->count == 0 || !gguf_integer_at(value, 0, &number)) {
        gguf_fields_fail(f, MOE_FORMAT, key, "is no whole number; download the file again");
        return range.min;
    }
    for (uint64_t i = 1; i < value->count && !f->failed; i++)
        if (!gguf_integer_at(value, i, &other) || other != number)
            gguf_fields_fail(f, MOE_UNSUPPORTED, key, "differs from layer to layer, which moechat does not compute");
    if (number < range.min || number > range.max)
        gguf_fields_fail(f, MOE_FORMAT, key, "is %" PRIu64 "; it must be %" PRIu64 " to %" PRIu64, number, range.min,
                         range.max);
    return f->failed ? range.min : number;
}

static double shortest(double number)
{
    char text[32];
    if ((double)(float)number != number) // a float64 is taken as it is
        return number;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if ((double)strtof(text, NULL) == number)
            break;
    }
    return strtod(text, NULL);
}

double gguf_fields_number(struct gguf_fields *f, const char *key, struct number_range range)
{
    const struct gguf_value *value = need(f, key);
    double number = 0;
    if (!value)
        return range.min;
    if (value->array || !gguf_number_at(value, 0, &number))
        gguf_fields_fail(f, MOE_FORMAT, key, "is no number; download the file again");
    if (!(number >= range.min && number <= range.max))
        gguf_fields_fail(f, MOE_FORMAT, key, "is %g; it must be %g to %g", number, range.min, range.max);
    return f->failed ? range.min : shortest(number);
}

bool gguf_fields_flag(struct gguf_fields *f, const char *key)
{
    const struct gguf_value *value = need(f, key);
    if (value && (value->array || value->type != GGUF_BOOL))
        gguf_fields_fail(f, MOE_FORMAT, key, "is neither true nor false; download the file again");
    return !f->failed && value->at[0];
}

void gguf_fields_text(struct gguf_fields *f, const char *key, char *out, size_t size)
{
    const struct gguf_value *value = need(f, key);
    out[0] = '\0';
    if (!value)
        return;
    if (value->array || value->type != GGUF_STRING) {
        gguf_fields_fail(f, MOE_FORMAT, key, "is no text; download the file again");
        return;
    }
    const unsigned char *at = value->at;
    struct gguf_string string = gguf_next_string(&at);
    bool good = string.length > 0 && string.length < size;
    for (size_t i = 0; good && i < string.length; i++)
        good = (unsigned char)string.text[i] >= 0x20 && string.text[i] != 0x7f;
    if (good) {
        memcpy(out, string.text, string.length);
        out[string.length] = '\0';
    } else {
        gguf_fields_fail(f, MOE_FORMAT, key, "is no text of 1 to %zu printable bytes; download the file again",
                         size - 1);
    }
}
