// SPDX-License-Identifier: GPL-3.0-or-later
// What is said on standard error: sentences. Text of files and models may be part of them, so it is sanitised.
#ifndef MOECHAT_APP_UTIL_REPORT_H
#define MOECHAT_APP_UTIL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Exit statuses of every command.
enum status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_MODEL = 3, // the model or device could not be opened
    STATUS_CONTEXT_FULL = 4,
    STATUS_NEWER = 5, // the session is of a newer moechat
    STATUS_INTERRUPTED = 130,
    STATUS_EPIPE = 141,
    STATUS_TERMINATED = 143,
};

// "moechat: ..." and a newline.
__attribute__((format(printf, 1, 2))) void report(const char *format, ...);
// Writes text with everything made visible that could act on a terminal.
void report_text(FILE *out, const char *text, size_t length);

// Writes what standard output still holds. The status, or when output was lost what becomes of STATUS_DONE, said why.
int report_flush(int status);

#endif
