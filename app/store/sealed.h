// SPDX-License-Identifier: GPL-3.0-or-later
// A JSON object on a line of its own that carries its checksum: {"sum":"16 hex digits",...}. The sum is XXH3 of 64 bits
// over what follows its comma, up to the newline. Pure.
#ifndef MOECHAT_APP_STORE_SEALED_H
#define MOECHAT_APP_STORE_SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "app/util/files.h"

// Appends the object, which must not be empty, with sum and newline. False: no memory.
bool sealed_render(struct json_object *object, struct bytes *line);
// The object of a line without its newline; NULL when it is no such line or its sum is wrong. The caller frees it.
struct json_object *sealed_parse(const char *line, size_t length, uint64_t *sum);
uint64_t sealed_sum(const char *line, size_t length); // of a line that sealed_render made

// Fields, strictly: false when it is missing, of another type or out of range, or a string is not all printable ASCII.
bool sealed_whole(struct json_object *object, const char *key, uint64_t most, uint64_t *value);
bool sealed_real(struct json_object *object, const char *key, double *value);
bool sealed_string(struct json_object *object, const char *key, char *value, size_t size);
// The same for text that is only shown: what is too long for `size` is cut between characters.
bool sealed_label(struct json_object *object, const char *key, char *value, size_t size);
void sealed_add_hex(struct json_object *object, const char *key, uint64_t value);
bool sealed_hex(struct json_object *object, const char *key, uint64_t *value);
struct json_object *sealed_array(struct json_object *object, const char *key, size_t most); // NULL: none

#endif
