// SPDX-License-Identifier: GPL-3.0-or-later
#include "commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct command_row {
    const char *name, *alias, *argument, *help;
    enum action action;
} table[] = {
    {"help", NULL, "[WORD]", "list the commands, or those about WORD", ACTION_HELP},
    {"keys", NULL, "", "list the keys", ACTION_KEYS},
    {"new", "clear", "", "begin a new conversation and keep this one; settings and system message stay", ACTION_NEW},
    {"save", NULL, "[NAME]", "save the conversation, under NAME if given; each turn is saved anyway", ACTION_SAVE},
    {"load", "resume", "NAME", "go on with a saved conversation", ACTION_LOAD},
    {"switch", NULL, "NAME", "go on with a saved conversation", ACTION_LOAD},
    {"sessions", NULL, "", "list the saved conversations", ACTION_SESSIONS},
    {"rename", NULL, "NAME", "give the conversation another name", ACTION_RENAME},
    {"delete", NULL, "NAME", "delete a saved conversation", ACTION_DELETE},
    {"retry", NULL, "", "answer the last message again", ACTION_RETRY},
    {"undo", NULL, "[N]", "take back the last message and its answer, or the last N", ACTION_UNDO},
    {"system", NULL, "[TEXT]", "show the system message, or set it; /system - removes it", ACTION_SYSTEM},
    {"set", NULL, "[KEY VALUE]", "show the settings, or change one: /set temp 0.2", ACTION_SET},
    {"stats", NULL, "", "figures of this conversation: tokens, experts, context, seed", ACTION_STATS},
    {"quit", "exit", "", "save and leave", ACTION_QUIT},
    {"bye", NULL, "", "save and leave", ACTION_QUIT},
};
enum { N_ROWS = sizeof table / sizeof table[0] };

static const struct {
    const char *key, *help;
} keys[] = {
    {"Enter", "send the message"},
    {"Alt-Enter, Ctrl-J", "a new line within the message"},
    {"Ctrl-C", "while it answers: stop and keep what is there; else put the draft into the history"},
    {"Ctrl-D", "on an empty line: save and leave"},
    {"Up, Down", "earlier and later messages"},
    {"Ctrl-R", "search earlier messages"},
    {"Ctrl-Z", "suspend; fg returns"},
    {"Ctrl-L", "clear the screen"},
};

static bool names(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && strncmp(name, text, length) == 0;
}

// Messages end where their last line does: a paste brings its newline along.
static struct line message(const char *text, size_t length)
{
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    return (struct line){.kind = LINE_MESSAGE, .text = text, .length = length};
}

struct line commands_parse(const char *typed, size_t typed_length)
{
    const char *start = typed + strspn(typed, " \t\r\n"), *end = typed + typed_length;
    if (start == end)
        return (struct line){.kind = LINE_EMPTY, .text = start};
    if (*start != '/')
        return message(typed, typed_length);
    start++;
    if (*start == '/')
        return message(start, (size_t)(end - start));
    size_t length = strcspn(start, " \t\r\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        if (!names(table[i].name, start, length) && !names(table[i].alias, start, length))
            continue;
        const char *rest = start + length;
        rest += strspn(rest, " \t\r\n");
        size_t left = (size_t)(end - rest);
        while (left > 0 && isspace((unsigned char)rest[left - 1]))
            left--;
        return (struct line){.kind = LINE_COMMAND, .action = table[i].action, .text = rest, .length = left};
    }
    return (struct line){.kind = LINE_UNKNOWN, .text = start, .length = length};
}

size_t commands_help(FILE *out, const char *wanted)
{
    size_t shown = 0;
    wanted += *wanted == '/';
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct command_row *row = &table[i];
        bool about =
            strstr(row->name, wanted) || strstr(row->help, wanted) || (row->alias && strstr(row->alias, wanted));
        if (!about)
            continue;
        int column = fprintf(out, "  /%s%s%s", row->name, *row->argument ? " " : "", row->argument);
        if (row->alias)
            column += fprintf(out, ", /%s", row->alias);
        fprintf(out, "%*s%s\n", column < 24 ? 24 - column : 1, "", row->help);
        shown++;
    }
    return shown;
}

void commands_keys(FILE *out)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        fprintf(out, "  %-20s  %s\n", keys[i].key, keys[i].help);
}

bool commands_count(const char *text, size_t otherwise, size_t *count)
{
    *count = otherwise;
    if (!*text)
        return true;
    char *end;
    errno = 0;
    unsigned long number = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
    if (number == 0 || errno || end[strspn(end, " \t\r\n")])
        return false;
    *count = number;
    return true;
}
