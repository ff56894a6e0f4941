// SPDX-License-Identifier: GPL-3.0-or-later
// The help of a chat, from the tables of commands, keys and options.
#ifndef MOECHAT_APP_TALK_HELP_H
#define MOECHAT_APP_TALK_HELP_H

#include <stddef.h>
#include <stdio.h>

enum { HELP_SECOND = 24 };                                  // columns before what a line tells
typedef size_t help_keys_fn(FILE *out, const char *wanted); // writes a face's keys and returns how many

// Writes the commands, keys and options that are about `wanted`, a / or -- before it left out, under their headings;
// for "" all commands and keys.
void help_print(FILE *out, const char *wanted, help_keys_fn *keys);
// The keys alone.
void help_print_keys(FILE *out, const char *wanted, help_keys_fn *keys);

#endif
