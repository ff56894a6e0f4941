// SPDX-License-Identifier: GPL-3.0-or-later
// Standard error while the screen is drawn on: what drivers and libraries say there goes to a file. UI thread.
#ifndef MOECHAT_APP_TERM_TUI_LOG_H
#define MOECHAT_APP_TERM_TUI_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct tui_log {
    int before; // standard error as it was; -1: not begun
    off_t start;
    char path[PATH_MAX]; // "": nowhere, it is thrown away
};

void tui_log_begin(struct tui_log *log);
// Gives standard error back and repeats there the end of what went to the file.
void tui_log_end(struct tui_log *log);
// The end of the file as lines, with where it is.
void tui_log_print(const struct tui_log *log, FILE *out);

#endif
