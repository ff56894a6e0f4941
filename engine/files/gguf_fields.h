// SPDX-License-Identifier: GPL-3.0-or-later
// The values of a GGUF file read by key, type and range, with errors that name file and key; as fields.h does for JSON.
#ifndef MOECHAT_ENGINE_FILES_GGUF_FIELDS_H
#define MOECHAT_ENGINE_FILES_GGUF_FIELDS_H

#include "engine/base/fields.h"
#include "engine/files/gguf.h"

// The first failure fills *err and stays in `failed`; later calls do nothing and return a value in range.
struct gguf_fields {
    const struct gguf *from;
    const char *path;         // for messages
    const char *architecture; // in front of keys that begin with a dot; "" until it is known
    struct moe_err *err;
    int failed;
};

// "FILE: KEY: MESSAGE". Returns the code.
__attribute__((format(printf, 4, 5))) int gguf_fields_fail(struct gguf_fields *fields, enum moe_code code,
                                                           const char *key, const char *format, ...);
const struct gguf_value *gguf_fields_find(const struct gguf_fields *fields, const char *key); // NULL: not there
// Of any type of integer; an array must say the same in each element.
uint64_t gguf_fields_integer(struct gguf_fields *fields, const char *key, struct integer_range range);
// Finite. A float32 as the shortest decimal that it is the nearest of: 1e-06, not 9.99999997e-07.
double gguf_fields_number(struct gguf_fields *fields, const char *key, struct number_range range);
bool gguf_fields_flag(struct gguf_fields *fields, const char *key);
// Of 1 to size - 1 bytes without control characters; `out` always becomes a string.
void gguf_fields_text(struct gguf_fields *fields, const char *key, char *out, size_t size);

#endif
