// SPDX-License-Identifier: GPL-3.0-or-later
// What a chat_template (Jinja) says in words: sentences of its own in a prompt, such as a system prompt for who has
// given none.
#ifndef MOECHAT_TOKENIZER_PROSE_H
#define MOECHAT_TOKENIZER_PROSE_H

#include <stdbool.h>
#include <stddef.h>

// Whether it says anything but `known`, letter by letter: two words with a blank between, or one in a script without
// blanks, in its text or in a string of its tags. What is for tools, a format of answers or messages of a developer,
// none of which a chat of ours has, and what is for errors is left out, as conditions, macros and variables are named.
bool prose_has_other(const char *text, size_t length, const char *const *known, size_t n_known);

#endif
