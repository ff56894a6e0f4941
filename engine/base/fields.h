// SPDX-License-Identifier: GPL-3.0-or-later
// JSON as hostile input: a text parsed strictly, then its fields read by name, type and range, with errors that name
// file and field.
#ifndef MOECHAT_ENGINE_BASE_FIELDS_H
#define MOECHAT_ENGINE_BASE_FIELDS_H

#include "engine/moe.h"

struct json_object;

// Refuses what is not one JSON object in UTF-8, nesting beyond 31, a member given twice, control characters in strings
// (so every string and name is a C string), and more nearly empty objects than files have: to json-c each is 800 bytes,
// also one of three. Without them a text takes up to 70 times its length. The caller puts *root. `file` is for
// messages.
int fields_parse(const char *text, size_t length, const char *file, struct json_object **root, struct moe_err *err);
// The same of what is neither downloaded nor converted.
struct fields_source {
    const char *file, *remedy; // for messages
};
int fields_parse_from(const struct fields_source *source, const char *text, size_t length, struct json_object **root,
                      struct moe_err *err);

// Reads a file of at most max_bytes and parses it so. MOE_NOT_FOUND when it is not there.
int fields_read(const char *path, size_t max_bytes, struct json_object **root, struct moe_err *err);

// One object whose fields are being read. The first failure fills *err and stays in `failed`; later calls do nothing
// and return a value in range, so that a reader may take many fields and look at `failed` before it uses them.
struct fields {
    struct json_object *object;
    const char *file;   // for messages
    const char *prefix; // of the names in messages: "config."
    struct moe_err *err;
    int failed; // MOE_OK or the code of the first failure
};

// "FILE: PREFIXkey: MESSAGE". Returns the code.
__attribute__((format(printf, 4, 5))) int fields_fail(struct fields *fields, enum moe_code code, const char *key,
                                                      const char *format, ...);

struct integer_range {
    uint64_t min, max;
};
struct number_range {
    double min, max;
};

bool fields_has(const struct fields *fields, const char *key); // there, and not null
uint64_t fields_integer(struct fields *fields, const char *key, struct integer_range range);
double fields_number(struct fields *fields, const char *key, struct number_range range); // finite
bool fields_flag(struct fields *fields, const char *key);
// The same of fields that may be missing: `fallback` where they are. null is refused, but for a number, where it is as
// good as missing.
uint64_t fields_integer_or(struct fields *fields, const char *key, struct integer_range range, uint64_t fallback);
double fields_number_or(struct fields *fields, const char *key, struct number_range range, double fallback);
bool fields_flag_or(struct fields *fields, const char *key, bool fallback);
// Of 1 to size - 1 bytes, without control characters; `out` always becomes a string.
void fields_text(struct fields *fields, const char *key, char *out, size_t size);
void fields_sha256(struct fields *fields, const char *key, char out[65]); // 64 lower-case hex digits
struct json_object *fields_object(struct fields *fields, const char *key);
// An array of min to max elements.
struct json_object *fields_array(struct fields *fields, const char *key, struct integer_range length);
// Element i of the array at key, as an integer in range.
uint64_t fields_element(struct fields *fields, const char *key, size_t i, struct integer_range range);

#endif
