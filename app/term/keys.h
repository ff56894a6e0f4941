// SPDX-License-Identifier: GPL-3.0-or-later
// The keys of the chat, by one table (keys.def). bindings.c binds them.
#ifndef MOECHAT_APP_TERM_KEYS_H
#define MOECHAT_APP_TERM_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// What a key does on the full screen. False: it means nothing there now.
struct tui;
#define EDIT_KEY(...)
#define SCREEN_KEY(id, ...) bool tui_key_##id(struct tui *tui);
#define OTHER_KEY(...)
#include "app/term/keys.def"
#undef EDIT_KEY
#undef SCREEN_KEY
#undef OTHER_KEY

// Writes the keys of a face, or those whose names or explanation contain `wanted`. Returns how many.
size_t keys_of_screen(FILE *out, const char *wanted);
size_t keys_of_lines(FILE *out, const char *wanted);
void keys_dump(FILE *out); // of both, for moechat(1)

#endif
