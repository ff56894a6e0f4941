// SPDX-License-Identifier: GPL-3.0-or-later
// The terminal's screen through curses: takes it over, shows cells, gives it back. UI thread.
#ifndef MOECHAT_APP_TERM_SCREEN_H
#define MOECHAT_APP_TERM_SCREEN_H

#include <stdbool.h>

#include "app/view/cells.h"

struct screen;

struct screen_wishes {
    bool color, mouse;
};
// NULL: it can't be; the terminal is as it was.
struct screen *screen_open(const struct screen_wishes *wishes);
void screen_close(struct screen *screen); // NULL is fine

// For a while the terminal is as it was before, and back, once we are in its foreground; not at all where we are to end
// before that (term_await): nothing is sent to it then.
void screen_leave(struct screen *screen);
void screen_return(struct screen *screen);

// Asks for the size, as after SIGWINCH, and draws everything anew with the next screen_draw.
void screen_resize(struct screen *screen);
int screen_rows(const struct screen *screen);
int screen_columns(const struct screen *screen);

struct screen_cursor {
    int row, column;
};
// Sends what differs from what is shown. cells: rows x columns of the screen.
void screen_draw(struct screen *screen, const struct cells *cells, struct screen_cursor cursor);
// A sequence that moves nothing, such as for the clipboard.
void screen_send(struct screen *screen, const char *bytes, size_t length);

#endif
