// SPDX-License-Identifier: GPL-3.0-or-later
// JSON that is put together, with json-c. It says in each return value what found no memory, and takes null for an
// object: here that is remembered instead, so that a document is whole or is none.
#ifndef MOECHAT_ENGINE_BASE_DOCUMENT_H
#define MOECHAT_ENGINE_BASE_DOCUMENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

struct document {
    bool lost; // something found no memory
};

struct json_object *document_object(struct document *d);
struct json_object *document_array(struct document *d);

// These take value, whatever happens; `to` and value may be NULL, of something lost before. Returns value, which is
// `to`'s now; NULL: it is lost.
struct json_object *document_add(struct document *d, struct json_object *to, const char *key,
                                 struct json_object *value);
void document_append(struct document *d, struct json_object *to, struct json_object *value);
void document_add_text(struct document *d, struct json_object *to, const char *key, const char *text);
void document_add_number(struct document *d, struct json_object *to, const char *key, uint64_t number);
void document_add_null(struct document *d, struct json_object *to, const char *key);
void document_append_number(struct document *d, struct json_object *to, uint64_t number);
void document_append_text(struct document *d, struct json_object *to, const char *text);

// The text, root's own, with json-c's flags; NULL: no memory, now or before.
const char *document_text(const struct document *d, struct json_object *root, int flags);

#endif
