// SPDX-License-Identifier: GPL-3.0-or-later
// What completes moechat's command lines in a shell, written from the option table.
#ifndef MOECHAT_APP_OPTIONS_COMPLETION_H
#define MOECHAT_APP_OPTIONS_COMPLETION_H

#include <stdio.h>

#include "app/options/command_settings.h"

void completion_print(FILE *out, enum shell shell); // of a shell

#endif
