// SPDX-License-Identifier: GPL-3.0-or-later
// Any line that is typed: what the parsers point at lies within it, a known command is never a message, any text can be
// typed as one, and what Tab offers begins with what is there, or is a session's name that holds it.
#include <stdlib.h>
#include <string.h>

#include "app/talk/candidates.h"
#include "app/talk/commands.h"
#include "app/talk/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"trip", "zoe"};

static bool is_right(const char *word, const char *typed, size_t length)
{
    bool right = strncmp(word, typed, length) == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t at = 0; strcmp(word, names[i]) == 0 && at + length <= strlen(names[i]); at++)
            right = right || memcmp(names[i] + at, typed, length) == 0;
    return right;
}

static void check_candidates(const char *line, size_t point)
{
    struct candidates found;
    if (candidates_find(&found, line, point, &(struct candidate_names){names, 2})) {
        if (found.start > point || found.count == 0)
            abort();
        for (size_t i = 0; i < found.count; i++)
            if (!is_right(found.words[i], line + found.start, point - found.start))
                abort();
    }
    candidates_release(&found);
}

// What nobody typed is sent as that very text, but for newlines at its end, if there is something to send.
static void check_quoted(const char *text, size_t length)
{
    struct bytes typed = {0};
    if (!commands_quote(&typed, text, length) || commands_is_shell(typed.data, typed.length))
        abort();
    struct line back = commands_parse(typed.data, typed.length);
    bool blank = strspn(text, " \t\r\n") == length;
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    if (back.kind != (blank ? LINE_EMPTY : LINE_MESSAGE) ||
        (!blank && (back.length != length || memcmp(back.text, text, length) != 0)))
        abort();
    bytes_release(&typed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);
    memcpy(line, data, size);
    line[size] = 0;
    struct line parsed = commands_parse(line, size);
    if (parsed.text < line || parsed.text + parsed.length > line + size)
        abort();
    if (parsed.kind == LINE_MESSAGE && line[0] == '/' && line[1] != '/')
        abort();
    if (parsed.kind == LINE_COMMAND && (!parsed.row || !parsed.row->run))
        abort();
    struct export_request request = export_parse(parsed.text, parsed.length);
    if (request.path < parsed.text || request.path + request.path_length > parsed.text + parsed.length)
        abort();
    struct line path, words;
    if (commands_file(&parsed, &path, &words) && (path.text < parsed.text || words.text < path.text + path.length ||
                                                  words.text + words.length > parsed.text + parsed.length))
        abort();
    if (size)
        check_quoted(line, size);
    size_t count;
    commands_count(line, 1, &count);
    if (strncmp(line, "/export", 7) != 0 && strncmp(line, "/file", 5) != 0) // which reads folders
        for (size_t point = 0; point <= strlen(line) && point < 40; point++)
            check_candidates(line, point);
    free(line);
    return 0;
}
