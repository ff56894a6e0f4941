// SPDX-License-Identifier: GPL-3.0-or-later
// One JSON object on standard output, valid whatever the model said.
#ifndef MOECHAT_APP_UTIL_JSON_OUT_H
#define MOECHAT_APP_UTIL_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "app/util/files.h"

// Appends text to `clean`, with every byte that is not part of a UTF-8 character as U+FFFD; *whole says whether there
// was none. False: no memory.
bool json_out_clean(struct bytes *clean, const char *text, size_t length, bool *whole);
// Adds `text`, whose every byte that is not part of a UTF-8 character becomes U+FFFD. If there is any such byte, the
// text's exact bytes are added as lower-case hex under "<key>_hex".
void json_out_text(struct json_object *object, const char *key, const char *text, size_t length);
void json_out_string(struct json_object *object, const char *key, const char *text);
void json_out_whole(struct json_object *object, const char *key, uint64_t value);
void json_out_float(struct json_object *object, const char *key, float value); // as few digits as say which it is
void json_out_real(struct json_object *object, const char *key, double value); // null when it is not finite
double json_out_rate(uint64_t count, uint64_t ns);                             // a second; 0 when nothing was measured

// Appends the object on one line, with everything escaped that could act on a terminal. False: no memory.
bool json_out_render(struct json_object *object, struct bytes *line);
// Prints the object on one line, with everything escaped that could act on a terminal, and frees it. 0 or an errno.
int json_out_print(struct json_object *object);
// As json_out_print; says what went wrong and returns the exit status.
int json_out_finish(struct json_object *object);

#endif
