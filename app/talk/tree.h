// SPDX-License-Identifier: GPL-3.0-or-later
// All branches of a conversation as lines: a message a line with its number and first words, what follows from the same
// place set in. Pure but for printing.
#ifndef MOECHAT_APP_TALK_TREE_H
#define MOECHAT_APP_TALK_TREE_H

#include <stdio.h>

#include "app/talk/chat.h"

// A * marks what is under way. Without columns (0) a message is whole. False: no memory.
bool tree_print(FILE *out, const struct chat *chat, int columns);
// The turn of that number in the list: people count all that there are, in the order in which they were made, as
// numbers on the disk leave out what came to nothing. PART_NONE: there is no such turn, or no memory.
int64_t tree_turn(const struct chat *chat, size_t number);
// Appends the words of a text with one space between two, of a long one its beginning: `most` bytes, or a character
// less. False: there are none, or no memory.
bool tree_words(struct bytes *line, const struct bytes *text, size_t most);
enum { TREE_WORDS = 800 }; // more than a line of a terminal
// Writes what of them fits, without columns (0) all, made visible, and a newline.
void tree_print_words(FILE *out, const struct bytes *line, int columns);

#endif
