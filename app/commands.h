// SPDX-License-Identifier: GPL-3.0-or-later
// The commands of the chat: one table that reads them and explains them. Pure.
#ifndef MOECHAT_COMMANDS_H
#define MOECHAT_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum action {
    ACTION_HELP,
    ACTION_KEYS,
    ACTION_NEW,
    ACTION_RETRY,
    ACTION_UNDO,
    ACTION_SAVE,
    ACTION_LOAD,
    ACTION_SESSIONS,
    ACTION_RENAME,
    ACTION_DELETE,
    ACTION_SYSTEM,
    ACTION_SET,
    ACTION_STATS,
    ACTION_QUIT,
};

enum line_kind {
    LINE_EMPTY,   // nothing but spaces
    LINE_MESSAGE, // to be sent: text
    LINE_COMMAND, // action, with text behind it
    LINE_UNKNOWN, // begins like a command, but there is none of that name: text is the name
};

struct line {
    enum line_kind kind;
    enum action action;
    const char *text; // part of what was parsed
    size_t length;
};

// A line that begins with / (after spaces) is a command, with // a message that begins with /.
// typed[length] is 0; zeros before that are the message's.
struct line commands_parse(const char *typed, size_t length);
// Writes all commands, or those whose name or explanation contains `wanted`. Returns how many.
size_t commands_help(FILE *out, const char *wanted);
void commands_keys(FILE *out);
// A count from 1 on, as in /undo 2; `otherwise` for "". False: not a count.
bool commands_count(const char *text, size_t otherwise, size_t *count);

#endif
