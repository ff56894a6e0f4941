// SPDX-License-Identifier: GPL-3.0-or-later
// Sealed lines with one thing changed and the sum made right again, for test_manifest, test_part and test_store.
#ifndef MOECHAT_SEALED_RIG_H
#define MOECHAT_SEALED_RIG_H

#include "app/store/sealed.h"
#include "tests/harness.h"

struct sealed_change {
    const char *from, *to; // the former stands in the body once
    bool fine;             // what comes of it can be read
};

// A line with its newline, of a body without its last brace.
static inline void seal(const char *body, size_t length, struct bytes *line)
{
    struct bytes object = {0};
    line->length = 0;
    if (bytes_append(&object, "{", 1) && bytes_append(&object, body, length) && bytes_append(&object, "}", 1))
        sealed_line(object.data, object.length, line);
    bytes_release(&object);
}

// False: the body has no such place, or several.
static inline bool seal_changed(struct harness *t, const char *body, const struct sealed_change *change,
                                struct bytes *line)
{
    struct bytes text = {0};
    const char *at = strstr(body, change->from);
    bool once = CHECK(t, at && !strstr(at + 1, change->from));
    if (once) {
        bytes_append(&text, body, (size_t)(at - body));
        bytes_append(&text, change->to, strlen(change->to));
        at += strlen(change->from);
        bytes_append(&text, at, strlen(at));
        seal(text.data, text.length, line);
    } else {
        printf("    %s\n", change->from);
    }
    bytes_release(&text);
    return once;
}

#endif
