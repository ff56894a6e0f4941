// SPDX-License-Identifier: GPL-3.0-or-later
// Finds and wraps help texts.
#include "app/util/words.h"

#include <ctype.h>
#include <string.h>

bool words_about(const char *text, const char *wanted)
{
    size_t length = strlen(wanted), i;
    for (; strlen(text) >= length; text++) {
        for (i = 0; i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)wanted[i]); i++)
            ;
        if (i == length)
            return true;
    }
    return false;
}

void words_print(FILE *out, const char *text, int indent, int column)
{
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length >= 80)
            column = fprintf(out, "\n%*s", indent, "") - 1;
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", length, text);
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}
