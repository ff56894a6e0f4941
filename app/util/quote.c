// SPDX-License-Identifier: GPL-3.0-or-later
// Quotes words for a shell.
#include "app/util/quote.h"

#include <stdio.h>
#include <string.h>

#include "app/util/sanitize.h"

static bool append_text(struct bytes *out, const char *text)
{
    return bytes_append(out, text, strlen(text));
}

// Would a terminal show all of it, and only that?
static bool shows(const char *text)
{
    struct sanitize state = {0};
    char shown[SANITIZE_ROOM(1)], flushed[SANITIZE_ROOM(0)];
    size_t at = 0, length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        size_t n = text[i] == '\n' || text[i] == '\t' ? sizeof shown : sanitize_push(&state, text + i, 1, shown);
        if (n > length - at || memcmp(shown, text + at, n) != 0)
            return false;
        at += n;
    }
    return sanitize_flush(&state, flushed) == 0 && at == length;
}

bool quote_shell(struct bytes *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+,:@%-";
    if (*text == '-' && !append_text(out, "./"))
        return false;
    if (*text && strspn(text, plain) == strlen(text))
        return append_text(out, text);
    bool escapes = !shows(text), fine = append_text(out, escapes ? "$'" : "'");
    for (const char *c = text; *c && fine; c++) {
        char octal[8];
        snprintf(octal, sizeof octal, "\\%03o", (unsigned)(unsigned char)*c);
        if (escapes && (*c < ' ' || *c > '~' || *c == '\\' || *c == '\''))
            fine = append_text(out, octal);
        else
            fine = *c == '\'' ? append_text(out, "'\\''") : bytes_append(out, c, 1);
    }
    return fine && append_text(out, "'");
}

bool quote_program(struct bytes *out, const char *argv0)
{
    return argv0 && strchr(argv0, '/') ? quote_shell(out, argv0) : append_text(out, "moechat");
}
