// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/talk/help.h"

#include <stdlib.h>

#include "app/talk/commands.h"
#include "app/talk/keys.h"
#include "app/options/options.h"

enum part { COMMANDS, KEYS, OPTIONS, PARTS };

static size_t print_part(FILE *out, enum part part, const char *wanted, bool plain)
{
    switch (part) {
    case COMMANDS:
        return commands_help(out, wanted);
    case KEYS:
        return keys_help(out, wanted, plain);
    default:
        return *wanted ? options_search(out, wanted) : 0;
    }
}

void help_print(FILE *out, const char *wanted, bool plain)
{
    static const char *const headings[PARTS] = {"Commands", "Keys", "Options of moechat"};
    int parts = 0;
    wanted += *wanted == '/';
    for (int i = 0; i < PARTS; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *lines = open_memstream(&text, &length);
        size_t found = lines ? print_part(lines, (enum part)i, wanted, plain) : 0;
        if (lines && fclose(lines) == 0 && found)
            fprintf(out, "%s%s\n%s", parts++ ? "\n" : "", headings[i], text);
        free(text);
    }
    if (!parts)
        fputs("Nothing is about that; /help lists all commands and keys.\n", out);
}
