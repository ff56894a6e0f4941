// SPDX-License-Identifier: GPL-3.0-or-later
// Writes to standard error: sentences with escapes made visible, progress on one line.
#include "app/util/report.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "app/util/sanitize.h"

void report_text(FILE *out, const char *text, size_t length)
{
    struct sanitize state = {0};
    char shown[SANITIZE_ROOM(256)];
    for (size_t at = 0; at < length; at += 256) {
        size_t part = length - at < 256 ? length - at : 256;
        fwrite(shown, 1, sanitize_push(&state, text + at, part, shown), out);
    }
    fwrite(shown, 1, sanitize_flush(&state, shown), out);
}

void report(const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    fputs("moechat: ", stderr);
    report_text(stderr, text, strlen(text));
    fputc('\n', stderr);
}

int report_flush(int status)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != STATUS_DONE)
        return status;
    if (errno == EPIPE)
        return STATUS_EPIPE;
    report("cannot write to standard output: %s", strerror(errno));
    return STATUS_FAILED;
}
