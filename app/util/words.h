// SPDX-License-Identifier: GPL-3.0-or-later
// Help texts: found by what they say, printed as paragraphs.
#ifndef MOECHAT_APP_UTIL_WORDS_H
#define MOECHAT_APP_UTIL_WORDS_H

#include <stdbool.h>
#include <stdio.h>

// Does the text contain the words, whatever the case of ASCII letters?
bool words_about(const char *text, const char *wanted);
// Prints words from column `indent` on, where the line stands at `column`, wrapped before column 80; ends the line.
void words_print(FILE *out, const char *text, int indent, int column);

// Of "did you mean": may `typed` be a slip for `word`? It begins it (from two letters on), or a letter or two are
// wrong, missing, too many or changed about. The smaller the result, the nearer; 0: it is too far, or the same.
int words_slip(const char *typed, size_t length, const char *word);

// Takes the next of "a|b|c" off *list. False: there is none.
bool words_next(const char **list, char *word, size_t size);
bool words_are(const char *list, const char *text, size_t length); // is it one of those?

#endif
