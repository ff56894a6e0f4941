// SPDX-License-Identifier: GPL-3.0-or-later
// Cuts the lines of a table between words.
#include "app/view/table.h"

#include <stddef.h>
#include <string.h>

#include "app/view/cells.h"

// How many bytes of a line go into so many columns, up to a space behind `least` bytes; 0: none do.
static size_t cut_of(const char *text, size_t length, int columns, size_t least)
{
    size_t cut = cells_fitting(text, length, columns);
    while (cut > least && text[cut] != ' ')
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
        if (beside && least < (size_t)indent)
            least = length < (size_t)indent ? length : (size_t)indent;
        while (table->columns > 2 * FURTHER && cells_width(text, length) > room &&
               (cut = cut_of(text, length, room, least)) > 0) {
            fprintf(out, "%.*s\n%*s", (int)cut, text, indent, "");
            text += cut + 1;
            length -= cut + 1;
            room = table->columns - indent;
            least = 0;
        }
        fprintf(out, "%.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}
