// SPDX-License-Identifier: GPL-3.0-or-later
// readline's prompt for the plain face, driven by callbacks. With term.c the only state of the process. UI thread only.
#ifndef MOECHAT_PROMPT_H
#define MOECHAT_PROMPT_H

#include <stdbool.h>

// A line was sent; it is the callee's to free. NULL: Ctrl-D on an empty line, or the terminal is gone.
typedef void prompt_line_fn(void *context, char *line);

// Sets readline up and the terminal to raw mode. label may hold colours between \001 and \002. False: no terminal.
bool prompt_open(const char *label, prompt_line_fn *on_line, void *context);
void prompt_close(void);
void prompt_show(void); // begins a line; after on_line the prompt is hidden
bool prompt_is_shown(void);
void prompt_feed(void); // standard input is readable
// Ctrl-C: a draft goes to the history and the line is cleared. False: there was no draft.
bool prompt_interrupt(void);
void prompt_refresh(void); // draws it on a new line, after other output
void prompt_resize(void);  // the terminal has another size now

#endif
