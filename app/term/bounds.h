// SPDX-License-Identifier: GPL-3.0-or-later
// What readline 8.2 does not survive at the edges: of the screen, of the lines that it keeps of what it drew, and of
// the line that is being edited. UI thread only; readline is initialised.
#ifndef MOECHAT_APP_TERM_BOUNDS_H
#define MOECHAT_APP_TERM_BOUNDS_H

#include <stdbool.h>

// Has readline ask for the size of its screen, and corrects what it does not survive: the only way in which it may ask,
// as rl_resize_terminal draws before anybody can correct that. True: it is another size than before.
bool bounds_ask_size(void);
void bounds_grow_lines(void);         // once, before readline draws
void bounds_end_with_character(void); // before a key of vi's command mode

#endif
