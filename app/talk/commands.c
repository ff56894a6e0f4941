// SPDX-License-Identifier: GPL-3.0-or-later
// Reads what is typed, and explains the commands.
#include "app/talk/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/words.h"
#include "app/talk/habits.h"
#include "app/talk/help.h"

static const struct command_row table[] = {
#define COMMAND(id, aliases, argument, takes, words, meanwhile, told, lines, help)                                     \
    {#id, aliases, argument, takes, words, meanwhile, told, lines, help, talk_do_##id},
#include "app/talk/commands.def"
#undef COMMAND
};
enum { N_ROWS = sizeof table / sizeof table[0] };

const struct command_row *commands_row(size_t index)
{
    return index < N_ROWS ? &table[index] : NULL;
}

const struct command_row *commands_find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (words_are(table[i].name, name, length) || words_are(table[i].aliases, name, length))
            return &table[i];
    return NULL;
}

const char *commands_near(const char *name, size_t length)
{
    const char *near = NULL;
    int nearest = 0;
    const char *ours = habits_our_command(name, length);
    if (ours)
        return ours;
    for (size_t i = 0; i < N_ROWS; i++) {
        int slip = length == 1 && *name == *table[i].name ? 1 : words_slip(name, length, table[i].name);
        if (slip && (!nearest || slip < nearest)) {
            near = table[i].name;
            nearest = slip;
        }
    }
    return near;
}

bool commands_meanwhile(const struct line *line)
{
    return strcmp(line->row->meanwhile, "*") == 0 || strcmp(line->row->meanwhile, "+") == 0 ||
           words_are(line->row->meanwhile, line->text, line->length);
}

// Messages end where their last line does: a paste brings its newline along.
static struct line message(const char *text, size_t length)
{
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    return (struct line){.kind = LINE_MESSAGE, .text = text, .length = length};
}

// What stands between quotes, a message; LINE_EMPTY: white space alone. LINE_UNKNOWN: there are none, or, *open, the
// end is missing.
static struct line quoted(const char *typed, size_t length, bool *open)
{
    enum { QUOTES = 3 };
    static const char quotes[] = "\"\"\"";
    const char *start = typed + QUOTES, *end = typed + length;
    struct line line = {.kind = LINE_UNKNOWN, .text = typed};
    *open = false;
    if (length < QUOTES || memcmp(typed, quotes, QUOTES) != 0)
        return line;
    while (end > start && isspace((unsigned char)end[-1]))
        end--;
    *open = end - start < QUOTES || memcmp(end - QUOTES, quotes, QUOTES) != 0;
    if (*open)
        return line;
    end -= QUOTES;
    start += start < end && *start == '\n';
    end -= end > start && end[-1] == '\n';
    const char *said = start;
    while (said < end && isspace((unsigned char)*said))
        said++;
    return (struct line){
        .kind = said < end ? LINE_MESSAGE : LINE_EMPTY, .text = start, .length = (size_t)(end - start)};
}

bool commands_is_open(const char *typed, size_t length)
{
    bool open;
    quoted(typed, length, &open);
    return open;
}

bool commands_is_shell(const char *typed, size_t length)
{
    return length > 1 && typed[0] == '!' && !memchr(typed, '\n', length);
}

// Is it something else than a message as it stands, or once other lines of it are gone?
static bool is_special(const char *typed, size_t length)
{
    bool open;
    while (*typed == '\\') {
        typed++;
        length--;
    }
    return (length > 1 && *typed == '!') || quoted(typed, length, &open).kind != LINE_UNKNOWN || open ||
           typed[strspn(typed, " \t\r\n")] == '/';
}

bool commands_quote(struct bytes *typed, const char *text, size_t length)
{
    bool slash = *text == '/', special = !slash && is_special(text, length);
    return bytes_append(typed, slash ? "/" : "\\", slash || special) && bytes_append(typed, text, length);
}

struct line commands_parse(const char *typed, size_t typed_length)
{
    bool open;
    if (*typed == '\\' && is_special(typed, typed_length))
        return message(typed + 1, typed_length - 1);
    struct line between = quoted(typed, typed_length, &open);
    if (between.kind != LINE_UNKNOWN)
        return between;
    const char *start = typed + strspn(typed, " \t\r\n"), *end = typed + typed_length;
    if (start == end)
        return (struct line){.kind = LINE_EMPTY, .text = start};
    if (*start != '/')
        return message(typed, typed_length);
    start++;
    if (*start == '/')
        return start - 1 > typed ? message(typed, typed_length) : message(start, (size_t)(end - start));
    size_t length = strcspn(start, " \t\r\n");
    const struct command_row *row = commands_find(start, length);
    if (!row || start - 1 > typed)
        return (struct line){.kind = row ? LINE_SPACED : LINE_UNKNOWN, .text = start, .length = length};
    const char *rest = start + length;
    rest += strspn(rest, " \t\r\n");
    size_t left = (size_t)(end - rest);
    while (left > 0 && isspace((unsigned char)rest[left - 1]))
        left--;
    bool lines = left && memchr(start + length, '\n', (size_t)(rest - start) - length + left);
    return (struct line){.kind = LINE_COMMAND, .row = row, .text = rest, .length = left, .lines = lines};
}

size_t commands_help(FILE *out, const char *wanted)
{
    size_t shown = 0;
    wanted += *wanted == '/';
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct command_row *row = &table[i];
        bool about =
            words_about(row->name, wanted) || words_about(row->help, wanted) || words_about(row->aliases, wanted);
        if (!about)
            continue;
        int column = fprintf(out, "  /%s%s%s", row->name, *row->argument ? " " : "", row->argument);
        char alias[32];
        for (const char *rest = row->aliases; words_next(&rest, alias, sizeof alias);)
            column += fprintf(out, ", /%s", alias);
        if (column > HELP_SECOND - 2) {
            fputc('\n', out);
            column = 0;
        }
        fprintf(out, "%*s%s\n", HELP_SECOND - column, "", row->help);
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
                fputs(" Oo Ar ", out); // not Op, which would take in the aliases
            else if (*c == ']')
                fputs(" Oc", out);
            else if (*c != ' ' || c[1] != '[')
                fputc(*c, out);
        }
        char alias[32];
        for (const char *rest = row->aliases; words_next(&rest, alias, sizeof alias);)
            fprintf(out, " , Ic /%s", alias);
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
