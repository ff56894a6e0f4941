// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/talk/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/options.h"
#include "app/util/words.h"

static const struct command_row table[] = {
    {"help", NULL, "[WORD]", "list the commands, or those about WORD", ACTION_HELP, TAKES_COMMAND, NULL},
    {"keys", NULL, "", "list the keys", ACTION_KEYS, TAKES_NOTHING, NULL},
    {"new", "clear", "", "begin a new conversation and keep this one; settings and system message stay", ACTION_NEW,
     TAKES_NOTHING, NULL},
    {"save", NULL, "[NAME]", "save the conversation, under NAME if given; each turn is saved anyway", ACTION_SAVE,
     TAKES_SESSION, NULL},
    {"load", "resume", "NAME", "go on with a saved conversation", ACTION_LOAD, TAKES_SESSION, NULL},
    {"switch", NULL, "NAME", "go on with a saved conversation", ACTION_LOAD, TAKES_SESSION, NULL},
    {"sessions", NULL, "", "list the saved conversations", ACTION_SESSIONS, TAKES_NOTHING, NULL},
    {"rename", NULL, "NAME", "give the conversation another name", ACTION_RENAME, TAKES_TEXT, NULL},
    {"delete", NULL, "NAME", "delete a saved conversation", ACTION_DELETE, TAKES_SESSION, NULL},
    {"retry", NULL, "", "answer the last message again", ACTION_RETRY, TAKES_NOTHING, NULL},
    {"undo", NULL, "[N]", "take back the last message and its answer, or the last N", ACTION_UNDO, TAKES_TEXT, NULL},
    {"system", NULL, "[TEXT]", "show the system message, or set it; /system - removes it", ACTION_SYSTEM, TAKES_TEXT,
     NULL},
    {"set", NULL, "[KEY VALUE]", "show the settings, or change one: /set temp 0.2", ACTION_SET, TAKES_SETTING, NULL},
    {"stats", NULL, "", "figures of this conversation: tokens, time, experts, hit curve, plan, seed", ACTION_STATS,
     TAKES_NOTHING, NULL},
    {"heat", NULL, "", "the heat map: how often each expert was used in this turn, and where it is", ACTION_HEAT,
     TAKES_NOTHING, NULL},
    {"inspect", NULL, "[N]", "the last answer's tokens; of token N what else was likely, its experts and its time",
     ACTION_INSPECT, TAKES_TEXT, NULL},
    {"think", NULL, "on|off|show|hide|fold",
     "let it think first or not; show all that it thought, only how long, or its end", ACTION_THINK, TAKES_NOTHING,
     "on|off|show|hide|fold"},
    {"file", NULL, "PATH [WORDS]",
     "send WORDS and the text of a file as a message; a path with spaces in double quotes", ACTION_FILE, TAKES_PATH,
     NULL},
    {"copy", NULL, "[N|code K]", "copy the last answer, the N-th last, or code block K of it (with --clipboard)",
     ACTION_COPY, TAKES_NOTHING, "code"},
    {"export", NULL, "[md|json|txt] [FILE]", "write the conversation to FILE as it was said, byte for byte",
     ACTION_EXPORT, TAKES_PATH, "md|json|txt"},
    {"log", NULL, "", "what drivers and libraries said", ACTION_LOG, TAKES_NOTHING, NULL},
    {"quit", "exit", "", "save and leave", ACTION_QUIT, TAKES_NOTHING, NULL},
    {"bye", NULL, "", "save and leave", ACTION_QUIT, TAKES_NOTHING, NULL},
};
enum { N_ROWS = sizeof table / sizeof table[0] };

static bool names(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && strncmp(name, text, length) == 0;
}

const struct command_row *commands_row(size_t index)
{
    return index < N_ROWS ? &table[index] : NULL;
}

const struct command_row *commands_find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (names(table[i].name, name, length) || names(table[i].alias, name, length))
            return &table[i];
    return NULL;
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
    const struct command_row *row = commands_find(start, length);
    if (!row || start - 1 > typed)
        return (struct line){.kind = row ? LINE_SPACED : LINE_UNKNOWN, .text = start, .length = length};
    const char *rest = start + length;
    rest += strspn(rest, " \t\r\n");
    size_t left = (size_t)(end - rest);
    while (left > 0 && isspace((unsigned char)rest[left - 1]))
        left--;
    return (struct line){.kind = LINE_COMMAND, .action = row->action, .text = rest, .length = left};
}

size_t commands_help(FILE *out, const char *wanted)
{
    size_t shown = 0;
    wanted += *wanted == '/';
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct command_row *row = &table[i];
        bool about = words_about(row->name, wanted) || words_about(row->help, wanted) ||
                     (row->alias && words_about(row->alias, wanted));
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

void commands_dump(FILE *out)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct command_row *row = &table[i];
        fprintf(out, ".It Ic /%s%s", row->name, *row->argument && *row->argument != '[' ? " Ar " : "");
        for (const char *c = row->argument; *c; c++) {
            if (*c == '[')
                fputs(c == row->argument ? " Op Ar " : "Op Ar ", out);
            else if (*c != ']')
                fputc(*c, out);
        }
        if (row->alias)
            fprintf(out, " , Ic /%s", row->alias);
        fputc('\n', out);
        words_print(out, row->help, 0, 0);
    }
}

bool commands_file(const struct line *line, struct line *path, struct line *words)
{
    const char *text = line->text, *end = text + line->length;
    bool quoted = line->length > 0 && text[0] == '"';
    const char *first = text + quoted,
               *last = first < end ? memchr(first, quoted ? '"' : ' ', (size_t)(end - first)) : NULL;
    if (quoted && !last)
        return false;
    last = last ? last : end;
    const char *rest = last < end ? last + 1 : end;
    while (rest < end && isspace((unsigned char)*rest))
        rest++;
    *path = (struct line){.text = first, .length = (size_t)(last - first)};
    *words = (struct line){.text = rest, .length = (size_t)(end - rest)};
    return path->length > 0;
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
