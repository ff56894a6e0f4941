// SPDX-License-Identifier: GPL-3.0-or-later
// The full screen of the chat: the conversation above, figures beside or below it, a status row, the draft.
#ifndef MOECHAT_APP_TERM_TUI_FACE_H
#define MOECHAT_APP_TERM_TUI_FACE_H

#include "app/options/options.h"

// Why this chat has no full screen, in words for "plain lines because ..."; NULL: it may have one.
const char *tui_refusal(const struct face_settings *settings);
// An exit status; -1: this terminal can't, and nothing was done.
int tui_chat(const struct options *options);

#endif
