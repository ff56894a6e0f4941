// SPDX-License-Identifier: GPL-3.0-or-later
// The help of a chat, from the tables of commands, keys and options.
#ifndef MOECHAT_APP_TALK_HELP_H
#define MOECHAT_APP_TALK_HELP_H

#include <stdbool.h>
#include <stdio.h>

// Writes the commands, keys and options that are about `wanted`, a / before it left out, under their headings; for ""
// all commands and keys. `plain`: the keys are those of plain lines.
void help_print(FILE *out, const char *wanted, bool plain);

#endif
