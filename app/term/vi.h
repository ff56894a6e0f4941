// SPDX-License-Identifier: GPL-3.0-or-later
// What is different in readline's vi mode. UI thread only; readline is initialised.
#ifndef MOECHAT_APP_TERM_VI_H
#define MOECHAT_APP_TERM_VI_H

#include "app/term/typed.h"

const char *vi_mode_words(void); // as show-mode-in-prompt asks for them; "" without
// After Ctrl-G has ended a key that had begun: insertion knows no such key, and puts it in as any letter.
void vi_take_bell_out(void);
// Insertion asks at once whether Esc stands alone: where one was typed last, the rest of a key may be on its way.
void vi_await_key(struct typed *typed);

#endif
