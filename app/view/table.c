// SPDX-License-Identifier: GPL-3.0-or-later
// Cuts the lines of a table between words.
#include "app/view/table.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "app/view/cells.h"

// A space between a number and its unit or its %: "23.8 MB".
static bool is_within_figure(const char *text, size_t length, size_t space)
{
    static const char *const units[] = {"%", "B", "KB", "MB", "GB", "TB", "s", "ms"};
    const char *unit = text + space + 1;
    size_t left = length - space - 1, end = 0;
    if (space == 0 || !isdigit((unsigned char)text[space - 1]))
        return false;
    while (end < left && (isalpha((unsigned char)unit[end]) || unit[end] == '%'))
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == end && memcmp(unit, units[i], end) == 0)
            return true;
    return false;
}

// How many bytes of a line go into so many columns, up to a space behind `least` bytes; 0: none do.
static size_t cut_of(const char *text, size_t length, int columns, size_t least)
{
    size_t cut = cells_fitting(text, length, columns);
    while (cut > least && (text[cut] != ' ' || is_within_figure(text, length, cut)))
        cut--;
    return cut > least ? cut : 0;
}

void table_fold(FILE *out, const char *text, const struct table *table)
{
    enum { FURTHER = 4 };
    bool beside = table->columns >= table->second + table->least;
    int indent = beside ? table->second : FURTHER;
    while (*text) {
        size_t length = strcspn(text, "\n"), cut;
        int room = table->columns;
        size_t least = strspn(text, " ");
        if (!beside && least > FURTHER && table->columns > 2 * FURTHER) { // it was put below the second column
            text += least - FURTHER;
            length -= least - FURTHER;
            least = FURTHER;
        }
        if (beside && least < (size_t)indent)
            least = length < (size_t)indent ? length : (size_t)indent;
        while (table->columns > 2 * FURTHER && cells_width(text, length) > room &&
               (cut = cut_of(text, length, room, least)) > 0) {
            size_t end = cut; // between the columns it may be a row of spaces
            while (end > least && text[end - 1] == ' ')
                end--;
            fprintf(out, "%.*s\n%*s", (int)end, text, indent, "");
            cut += strspn(text + cut, " ");
            text += cut;
            length -= cut;
            room = table->columns - indent;
            least = 0;
        }
        fprintf(out, "%.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}
