// SPDX-License-Identifier: GPL-3.0-or-later
// Names in commands that people paste into a shell.
#ifndef MOECHAT_APP_UTIL_QUOTE_H
#define MOECHAT_APP_UTIL_QUOTE_H

#include "app/util/files.h"

// Appends the text as one word of a POSIX shell, in characters that are safe to show: as it is, 'in quotes', or with
// bytes that a terminal would act on or hide as $'\033'. A first - becomes ./-, so that it is no option. False: no
// memory.
bool quote_shell(struct bytes *out, const char *text);
// Appends what calls this program again, for a command that is shown: its path as it was typed (`argv0`; NULL: not
// known), else its name, which the shell then found by itself. False: no memory.
bool quote_program(struct bytes *out, const char *argv0);

#endif
