// SPDX-License-Identifier: GPL-3.0-or-later
// Names of sessions, which are names of folders, too. Pure.
#ifndef MOECHAT_APP_STORE_STORE_NAME_H
#define MOECHAT_APP_STORE_STORE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STORE_NAME_SIZE = 65 };

// 1 to 64 bytes of letters and digits of any script, - and _, not beginning with - or a combining mark. So no name
// leads out of a folder, hides what it is or acts on a terminal.
bool store_name_valid(const char *name);
// A name for a talk that begins with `text`: "2026-11-20-2012-what-is-the-time"; room for STORE_NAME_SIZE.
void store_name_make(char *name, uint64_t time, const char *text, size_t length);
// "talk" becomes "talk-2": `base` with a number, cut to fit; room for STORE_NAME_SIZE.
void store_name_count(char *name, const char *base, unsigned number);
// Cuts a name to at most so many bytes, between characters.
void store_name_cut(char *name, size_t most);

#endif
