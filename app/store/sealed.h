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
#include "app/util/json_out.h"

// Appends such a line of an object that begins in `json` with '{' and is closed; releases it. False: no memory, now or
// before; out is as it was.
bool sealed_render(struct json_out *json, struct bytes *out);
// The same of an object that is text already, from its { to its }, and not empty.
bool sealed_line(const char *object, size_t length, struct bytes *out);
// The object of a line without its newline; NULL when it is no such line, names a field twice or has a wrong sum, or,
// with errno ENOMEM (else 0), when there is no memory. The caller frees it.
struct json_object *sealed_parse(const char *line, size_t length, uint64_t *sum);
// The same where the sum is wrong, for who can tell by other sums what of it is true.
struct json_object *sealed_parse_broken(const char *line, size_t length);
uint64_t sealed_sum(const char *line, size_t length); // of a line that sealed_line made

// Fields, strictly: false when it is missing, of another type or out of range, or a string is not all printable ASCII.
bool sealed_whole(struct json_object *object, const char *key, uint64_t most, uint64_t *value);
bool sealed_real(struct json_object *object, const char *key, double *value);
bool sealed_string(struct json_object *object, const char *key, char *value, size_t size);
// The same for text that is only shown: what is too long for `size` is cut between characters.
bool sealed_label(struct json_object *object, const char *key, char *value, size_t size);
bool sealed_hex(struct json_object *object, const char *key, uint64_t *value);
struct json_object *sealed_array(struct json_object *object, const char *key, size_t most); // NULL: none

#endif
