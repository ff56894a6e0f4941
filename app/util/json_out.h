// SPDX-License-Identifier: GPL-3.0-or-later
// JSON objects on standard output, valid whatever the model said.
#ifndef MOECHAT_APP_UTIL_JSON_OUT_H
#define MOECHAT_APP_UTIL_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/util/files.h"

// An object that is written from its front to its end; what found no memory is remembered, and then none of it comes
// out. Begin with {0}, and open '{' without a key.
struct json_out {
    struct bytes text;
    bool lost;    // something found no memory
    bool follows; // something stands before what comes next
};
// '{' or '['; key is NULL in an array, here and below.
void json_out_open(struct json_out *out, const char *key, char bracket);
void json_out_close(struct json_out *out, char bracket); // '}' or ']'
// Adds `text`, whose every byte that is not part of a UTF-8 character becomes U+FFFD, with everything escaped that
// could act on a terminal. If there is any such byte, the text's exact bytes are added as lower-case hex under
// "<key>_hex".
void json_out_text(struct json_out *out, const char *key, const char *text, size_t length);
void json_out_string(struct json_out *out, const char *key, const char *text);
void json_out_whole(struct json_out *out, const char *key, uint64_t value);
void json_out_hex(struct json_out *out, const char *key, uint64_t value); // a string of 16 digits
void json_out_number(struct json_out *out, const char *key, int64_t value);
void json_out_float(struct json_out *out, const char *key, float value); // as few digits as say which it is
void json_out_real(struct json_out *out, const char *key, double value); // null when it is not finite
void json_out_flag(struct json_out *out, const char *key, bool value);
void json_out_null(struct json_out *out, const char *key);
void json_out_part(struct json_out *out, const char *key, struct json_out *part); // written by itself; takes it over
void json_out_release(struct json_out *out);
double json_out_rate(uint64_t count, uint64_t ns); // a second; 0 when nothing was measured

// These release it. Appends it as one line. False: no memory, now or before.
bool json_out_render(struct json_out *out, struct bytes *line);
// Prints it as one line. 0 or an errno.
int json_out_print(struct json_out *out);
// As json_out_print; says what went wrong and returns the exit status.
int json_out_finish(struct json_out *out);

#endif
