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

// Writes such a line, field by field; what memory was too short for is known at its end.
struct sealed_line {
    struct bytes *out;
    size_t begin;
    bool failed;
};
void sealed_begin(struct sealed_line *line, struct bytes *out);
// With a key NULL, elements of a list.
void sealed_put_whole(struct sealed_line *line, const char *key, uint64_t value);
void sealed_put_real(struct sealed_line *line, const char *key, double value); // finite, in 12 digits
void sealed_put_hex(struct sealed_line *line, const char *key, uint64_t value);
void sealed_put_string(struct sealed_line *line, const char *key, const char *value);
void sealed_put_flag(struct sealed_line *line, const char *key, bool value);
void sealed_put_null(struct sealed_line *line, const char *key);
// Where the text is not all UTF-8, "<key>_hex" has its exact bytes.
void sealed_put_text(struct sealed_line *line, const char *key, const char *text, size_t length);
void sealed_open(struct sealed_line *line, const char *key, char bracket); // { or [
void sealed_close(struct sealed_line *line, char bracket);                 // } or ]
// The sum, and the newline. False: no memory; out is as it was.
bool sealed_end(struct sealed_line *line);
// The object of a line without its newline; NULL when it is no such line or its sum is wrong, or, with errno ENOMEM
// (else 0), when there is no memory. The caller frees it.
struct json_object *sealed_parse(const char *line, size_t length, uint64_t *sum);
// The same where the sum is wrong, for who can tell by other sums what of it is true.
struct json_object *sealed_parse_broken(const char *line, size_t length);
uint64_t sealed_sum(const char *line, size_t length); // of a line that sealed_end made

// Fields, strictly: false when it is missing, of another type or out of range, or a string is not all printable ASCII.
bool sealed_whole(struct json_object *object, const char *key, uint64_t most, uint64_t *value);
bool sealed_real(struct json_object *object, const char *key, double *value);
bool sealed_string(struct json_object *object, const char *key, char *value, size_t size);
// The same for text that is only shown: what is too long for `size` is cut between characters.
bool sealed_label(struct json_object *object, const char *key, char *value, size_t size);
bool sealed_hex(struct json_object *object, const char *key, uint64_t *value);
struct json_object *sealed_array(struct json_object *object, const char *key, size_t most); // NULL: none

#endif
