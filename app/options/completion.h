// SPDX-License-Identifier: GPL-3.0-or-later
// What completes moechat's command lines in a shell, written from the option table.
#ifndef MOECHAT_APP_OPTIONS_COMPLETION_H
#define MOECHAT_APP_OPTIONS_COMPLETION_H

#include <stdio.h>

enum shell { SHELL_BASH, SHELL_ZSH, SHELL_FISH };
void completion_print(FILE *out, enum shell shell);

#endif
