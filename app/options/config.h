// SPDX-License-Identifier: GPL-3.0-or-later
// The configuration file, moechat(5): a line "key = value" for each setting, # begins a comment line. The keys are the
// options that have an environment variable, but for config; they are for all commands, each takes what it knows. Flag
// and environment win over it. A file with a mistake is refused as a whole, by file and line.
#ifndef MOECHAT_APP_OPTIONS_CONFIG_H
#define MOECHAT_APP_OPTIONS_CONFIG_H

#include <stdio.h>

#include "app/util/files.h"
#include "app/options/options.h"

enum { CONFIG_LIMIT = 1 << 16 };

// Reads --config's file, else the one in the XDG folder if it is there. *text must live as long as options.
bool config_load(struct options *options, struct bytes *text, struct options_error *error);
// The same from bytes, which are changed. `path` is for messages.
bool config_parse(struct options *options, const char *path, struct bytes *text, struct options_error *error);
// All settings as such a file; those that are as they are by default are comments.
void config_print(FILE *out, const struct options *options);

#endif
