// SPDX-License-Identifier: GPL-3.0-or-later
// Puts the parts of the help together.
#include "app/talk/help.h"

#include <stdlib.h>
#include <string.h>

#include "app/talk/commands.h"
#include "app/options/options.h"

enum part { COMMANDS, KEYS, OPTIONS, PARTS };

static size_t print_part(FILE *out, enum part part, const char *wanted, help_keys_fn *keys)
{
    switch (part) {
    case COMMANDS:
        return commands_help(out, wanted);
    case KEYS:
        return keys(out, wanted);
    default:
        return *wanted ? options_search(out, wanted, HELP_SECOND) : 0;
    }
}

void help_print(FILE *out, const char *wanted, help_keys_fn *keys)
{
    static const char *const headings[PARTS] = {"Commands", "Keys", "Options of moechat"};
    int parts = 0;
    wanted += *wanted == '/' ? 1 : strncmp(wanted, "--", 2) == 0 ? 2 : 0;
    for (int i = 0; i < PARTS; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *lines = open_memstream(&text, &length);
        size_t found = lines ? print_part(lines, (enum part)i, wanted, keys) : 0;
        if (lines && fclose(lines) == 0 && found)
            fprintf(out, "%s%s\n%s", parts++ ? "\n" : "", headings[i], text);
        free(text);
    }
    if (!parts)
        fputs("Nothing found; /help lists all commands and keys.\n", out);
}

void help_print_keys(FILE *out, const char *wanted, help_keys_fn *keys)
{
    fputs("Keys\n", out);
    if (keys(out, wanted) == 0)
        fputs("  No such key.\n", out);
}
