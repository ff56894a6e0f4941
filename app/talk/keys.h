// SPDX-License-Identifier: GPL-3.0-or-later
// The keys of the chat: one table that binds them and explains them. Each is a function of readline's by name, so that
// an inputrc can bind it to other keys. Pure.
#ifndef MOECHAT_APP_TALK_KEYS_H
#define MOECHAT_APP_TALK_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum key {
    KEY_NEWLINE,
    KEY_COMPLETE,
    KEY_UP,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_LINE_UP,
    KEY_LINE_DOWN,
    KEY_TO_BEGIN,
    KEY_TO_END,
    KEY_SEARCH,
    KEY_STATS,
    KEY_ZOOM,
    KEY_FOLD,
    KEY_BARE,
    KEY_COPY,
    KEY_EDITOR,
    KEY_REDRAW,
    KEY_HELP,
    KEY_COUNT,
};

enum { KEY_SEQUENCES = 6 };

struct key_row {
    const char *function;                 // its name for inputrc: "moechat-newline"
    const char *sequences[KEY_SEQUENCES]; // that it is bound to, ends with NULL when fewer
    bool plain;                           // without the full screen too
};
const struct key_row *keys_row(enum key key);

// Writes the keys, or those whose names or explanation contain `wanted`: all, or those of the plain face. Returns how
// many.
size_t keys_help(FILE *out, const char *wanted, bool plain);
void keys_dump(FILE *out); // for moechat(1)

#endif
