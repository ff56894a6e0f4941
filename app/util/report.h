// SPDX-License-Identifier: GPL-3.0-or-later
// What is said on standard error: sentences, and progress when it is a terminal. Text of files and models may be part
// of it, so it is sanitised.
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
    STATUS_INTERRUPTED = 130,
    STATUS_EPIPE = 141,
    STATUS_TERMINATED = 143,
};

// "moechat: ..." and a newline.
__attribute__((format(printf, 1, 2))) void report(const char *format, ...);
// Writes text with everything made visible that could act on a terminal.
void report_text(FILE *out, const char *text, size_t length);

// One line that is rewritten in place: "Reading weights: 12.3 of 20.1 MB, 4 s left". Zero-initialise; out is NULL or
// not a terminal: nothing is shown.
struct progress {
    FILE *out;
    bool plain; // no rewriting: one line each time the subject changes
    uint64_t began_ns, shown_ns;
    int columns; // of the line that stands there now
    char what[48];
};

struct progress_figures {
    const char *what, *unit;
    uint64_t done, total;
    uint64_t bytes_read; // from disk meanwhile; 0: not said
    double seconds_left; // 0: as `done` and `seconds` say
    double seconds;      // since the subject began; progress_show_figures knows itself
};
void progress_show_figures(struct progress *progress, const struct progress_figures *figures);
void progress_show(struct progress *progress, const char *what, const char *unit, uint64_t done, uint64_t total);
void progress_clear(struct progress *progress);
// The words alone. Returns out.
char *progress_words(char *out, size_t size, const struct progress_figures *figures);

#endif
