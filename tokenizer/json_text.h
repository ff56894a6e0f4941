// SPDX-License-Identifier: GPL-3.0-or-later
// JSON from outside: parsed whole, as strictly as json-c can without refusing what is right, and in memory that its
// length bounds.
#ifndef MOECHAT_TOK_JSON_TEXT_H
#define MOECHAT_TOK_JSON_TEXT_H

#include <json-c/json.h>

#include "tokenizer/tok.h"

// Refuses what is not one JSON object in UTF-8, nesting beyond 31, and more nearly empty objects than files have: to
// json-c each is 800 bytes, also one of three. Without them a text takes up to 70 times its length. A name that stands
// twice has its last value. The caller puts *root; `path` is for messages.
int json_text_parse(const char *text, size_t length, const char *path, struct json_object **root, struct tok_err *err);

#endif
