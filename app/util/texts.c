// SPDX-License-Identifier: GPL-3.0-or-later
// Takes lists of texts apart.
#include "app/util/texts.h"

#include <stdbool.h>
#include <string.h>

// The character at *rest, which goes on behind it.
static char next_character(const char **rest)
{
    static const char names[] = "nt,\\", meanings[] = "\n\t,\\";
    const char *name = **rest == '\\' && (*rest)[1] ? strchr(names, (*rest)[1]) : NULL;
    char c = name ? meanings[name - names] : **rest;
    *rest += name ? 2 : 1;
    return c;
}

// Its whole length, of which as much as fits is in `text`; *more: a comma follows it.
static size_t take(const char **rest, char text[TEXTS_EACH], bool *more)
{
    size_t length = 0;
    while (**rest && **rest != ',') {
        char c = next_character(rest);
        if (length < TEXTS_EACH - 1)
            text[length] = c;
        length++;
    }
    text[length < TEXTS_EACH - 1 ? length : TEXTS_EACH - 1] = 0;
    *more = **rest == ',';
    *rest += *more;
    return length;
}

size_t texts_next(const char **rest, char text[TEXTS_EACH])
{
    size_t length = 0;
    bool more;
    while (**rest && !length)
        length = take(rest, text, &more);
    return length < TEXTS_EACH - 1 ? length : TEXTS_EACH - 1;
}

// The line as texts_print writes it, to `out` unless that is NULL. Returns its length.
static size_t write_out(FILE *out, const char *line)
{
    size_t length = 0;
    for (const char *c = line; *c;) {
        const char *begin = c;
        char meant = next_character(&c);
        size_t bytes = (size_t)(c - begin);
        if (bytes == 1 && (meant == '\n' || meant == '\t')) {
            begin = meant == '\n' ? "\\n" : "\\t";
            bytes = 2;
        } else if (bytes == 1 && meant == '\\' && (*c == '\n' || *c == '\t')) {
            begin = "\\\\"; // or it would be part of what is written for the next
            bytes = 2;
        }
        if (out)
            fwrite(begin, 1, bytes, out);
        length += bytes;
    }
    return length;
}

const char *texts_check(const char *line)
{
    char text[TEXTS_EACH];
    if (write_out(NULL, line) >= TEXTS_SIZE) // what is printed can be read again
        return "is longer than 511 bytes";
    int count = 0;
    for (bool more = *line; more; count++) {
        size_t length = take(&line, text, &more);
        if (length >= TEXTS_EACH)
            return "has a text of more than 127 bytes";
        if (!length)
            return "has an empty text beside a comma; \\, is a comma that is meant";
    }
    return count > TEXTS_MOST ? "has more than 32 texts" : NULL;
}

void texts_print(FILE *out, const struct texts *texts)
{
    fputs(*texts->line ? "" : "none", out);
    write_out(out, texts->line);
}
