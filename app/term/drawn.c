// SPDX-License-Identifier: GPL-3.0-or-later
// Has readline draw another line than the one that it edits.
#include "app/term/drawn.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <readline/readline.h>

#include "app/util/sanitize.h"
#include "tokenizer/tok.h"

static bool is_of_emoji(uint32_t code)
{
    return code == 0x200D || code == 0xFE0E || code == 0xFE0F || (code >= 0x1F3FB && code <= 0x1F3FF);
}

// Takes the character at `at`, or bytes that are none, and says what is shown of it. readline shows ASCII itself. Where
// one without width begins a line, readline 8.2 counts a column less than none, and compares memory without end.
static size_t take(const char *line, size_t at, size_t length, uint32_t *shown)
{
    enum { REPLACEMENT = 0xFFFD };
    const char *bytes = line + at;
    size_t left = length - at;
    uint32_t code;
    int found = tok_utf8(bytes, left, &code);
    if (found <= 0) {
        *shown = REPLACEMENT;
        return found ? (size_t)-found : left;
    }
    *shown = code < 0x80 || is_of_emoji(code) ? code : sanitize_visible(code);
    if (code >= 0x80 && (!at || line[at - 1] == '\n') && wcwidth((wchar_t)*shown) <= 0)
        *shown = REPLACEMENT;
    return (size_t)found;
}

static bool is_drawn_as_it_is(const char *line, size_t length)
{
    char out[4];
    for (size_t at = 0, n; at < length; at += n) {
        uint32_t shown;
        n = take(line, at, length, &shown);
        if (sanitize_write_utf8(shown, out) != n || memcmp(out, line + at, n) != 0)
            return false;
    }
    return true;
}

void drawn_line(void)
{
    enum { MOST = 3 }; // bytes of what is shown, for one of the line
    char *line = rl_line_buffer;
    size_t length = (size_t)rl_end, n = 0;
    int end = rl_end, point = rl_point, mark = rl_mark;
    if (MB_CUR_MAX == 1 || is_drawn_as_it_is(line, length)) { // else readline shows octal numbers
        rl_redisplay();
        return;
    }
    char *drawn = malloc(MOST * length + 1);
    if (!drawn)
        return;
    for (size_t at = 0; at < length;) {
        uint32_t shown;
        at += take(line, at, length, &shown);
        n += sanitize_write_utf8(shown, drawn + n);
        rl_point = at <= (size_t)point ? (int)n : rl_point;
        rl_mark = at <= (size_t)mark ? (int)n : rl_mark;
    }
    drawn[n] = 0;
    rl_line_buffer = drawn;
    rl_end = (int)n;
    rl_redisplay();
    rl_line_buffer = line;
    rl_end = end;
    rl_point = point;
    rl_mark = mark;
    free(drawn);
}
