// SPDX-License-Identifier: GPL-3.0-or-later
// What keys do at the prompt: readline's keymaps with our functions in them, by the table of keys (keys.def), over that
// what an inputrc changes, and last what readline's callbacks need (keymaps.h). For prompt.c alone.
#ifndef MOECHAT_APP_TERM_BINDINGS_H
#define MOECHAT_APP_TERM_BINDINGS_H

#include <stdbool.h>

#include "app/term/keymaps.h"
#include "app/term/prompt.h"
#include "app/term/recall.h"
#include "app/term/typed.h"

// Zero-initialise but for the first three, which are the caller's and outlive it.
struct bindings {
    const struct prompt_face *face; // whose screen takes keys, and which keeps the draft before a search
    struct recall *recall;
    struct typed *typed; // where macros go
    struct keymaps keymaps;
    bool lent;   // searches are readline's own, as one goes on
    bool within; // a function that readline has called
    bool waits;  // a key for the character behind it, whatever that is
};
// readline calls the functions of keys without a context: this is theirs, in prompt.c.
struct bindings *prompt_bindings(void);

// Before readline reads its inputrc: gives our functions their names for it.
void bindings_name(void);
// After that: binds, with moechat's own inputrc and the settings of readline's that must be so.
void bindings_read(struct bindings *bindings);
enum prompt_key bindings_find(const char *bytes, size_t length); // see prompt_find_key
// Before each byte: a search that is over has its keys taken back.
void bindings_settle(struct bindings *bindings);
// The character that a key waits for won't come.
void bindings_end_wait(struct bindings *bindings);
void bindings_release(struct bindings *bindings);

#endif
