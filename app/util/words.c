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

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Changes of a letter that make one of the other, two that change places being one (Damerau 1964).
static int distance(const char *a, int a_length, const char *b, int b_length)
{
    enum { LONGEST = 32 };
    int rows[LONGEST + 1][LONGEST + 1];
    if (a_length > LONGEST || b_length > LONGEST)
        return LONGEST;
    for (int i = 0; i <= a_length; i++) {
        for (int k = 0; k <= b_length; k++) {
            if (!i || !k) {
                rows[i][k] = i + k;
                continue;
            }
            bool same = a[i - 1] == b[k - 1];
            rows[i][k] = least(rows[i - 1][k - 1] + !same, least(rows[i - 1][k], rows[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                rows[i][k] = least(rows[i][k], rows[i - 2][k - 2] + 1);
        }
    }
    return rows[a_length][b_length];
}

int words_slip(const char *typed, size_t length, const char *word)
{
    enum { MOST = 100 };
    size_t word_length = strlen(word);
    if (length > MOST || word_length > MOST)
        return 0;
    int changes = distance(typed, (int)length, word, (int)word_length);
    if (length > 1 && length < word_length && strncmp(typed, word, length) == 0)
        return 1;
    // A short word with two letters changed is another word.
    return changes <= (length > 4 ? 2 : 1) && length > 2 ? changes : 0;
}

bool words_next(const char **list, char *word, size_t size)
{
    size_t length = strcspn(*list, "|");
    if (!length)
        return false;
    snprintf(word, size, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == '|');
    return true;
}

bool words_are(const char *list, const char *text, size_t length)
{
    char word[32];
    while (words_next(&list, word, sizeof word))
        if (strlen(word) == length && strncmp(word, text, length) == 0)
            return true;
    return false;
}
