// SPDX-License-Identifier: GPL-3.0-or-later
// Candidates in the array of matches that readline completes by.
#include "app/term/matches.h"

#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

char **matches_of(struct candidates *found, const char *word)
{
    char **matches = found->count ? calloc(found->count + 2, sizeof *matches) : NULL;
    if (!matches) {
        candidates_release(found);
        return NULL;
    }
    size_t common = strlen(found->words[0]);
    for (size_t i = 0; i < found->count; i++) {
        matches[i + 1] = found->words[i];
        size_t same = 0;
        while (same < common && found->words[i][same] == found->words[0][same])
            same++;
        common = same;
    }
    while (common && ((unsigned char)found->words[0][common] & 0xC0) == 0x80) // whole characters
        common--;
    // What has nothing in common but what was typed, somewhere, leaves that as it is. Quotes may come before it.
    size_t typed = strlen(word), quotes = *found->words[0] == '"' && *word != '"' && common > typed;
    bool begins = strncmp(found->words[0] + quotes, word, typed) == 0;
    matches[0] = found->count == 1 || begins ? strndup(found->words[0], common) : strdup(word);
    rl_completion_append_character = common && found->words[0][common - 1] == '/' ? '\0' : ' ';
    if (found->count == 1) { // alone it stands in the first place
        free(matches[1]);
        matches[1] = NULL;
    }
    free(found->words);
    return matches;
}
