// SPDX-License-Identifier: GPL-3.0-or-later
// The commands of the chat: one table that reads them and explains them. Pure.
#ifndef MOECHAT_APP_TALK_COMMANDS_H
#define MOECHAT_APP_TALK_COMMANDS_H

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
    ACTION_HEAT,
    ACTION_INSPECT,
    ACTION_THINK,
    ACTION_FILE,
    ACTION_COPY,
    ACTION_EXPORT,
    ACTION_LOG,
    ACTION_QUIT,
};

enum line_kind {
    LINE_EMPTY,   // nothing but spaces
    LINE_MESSAGE, // to be sent: text
    LINE_COMMAND, // action, with text behind it
    LINE_SPACED,  // a command but for the spaces before it: neither done nor sent; text is its name
    LINE_UNKNOWN, // begins like a command, but there is none of that name: text is the name
};

struct line {
    enum line_kind kind;
    enum action action;
    const char *text; // part of what was parsed
    size_t length;
};

// What follows a command, beside the words that its row names.
enum command_takes { TAKES_NOTHING, TAKES_TEXT, TAKES_SESSION, TAKES_SETTING, TAKES_COMMAND, TAKES_PATH };
struct command_row {
    const char *name, *alias, *argument, *help;
    enum action action;
    enum command_takes takes;
    const char *words; // "a|b": one of them comes first; NULL: none
};
const struct command_row *commands_row(size_t index); // in the order of /help; NULL: there are no more
const struct command_row *commands_find(const char *name, size_t length); // by name or alias, NULL: none

// A line that begins with / is a command, with // (after spaces, too) a message that begins with /.
// typed[length] is 0; zeros before that are the message's.
struct line commands_parse(const char *typed, size_t length);
// Writes all commands, or those whose name or explanation contains `wanted`. Returns how many.
size_t commands_help(FILE *out, const char *wanted);
void commands_dump(FILE *out); // for moechat(1)
// "PATH WORDS" or "\"A PATH\" WORDS": the path, and what is behind it. False: there is no path.
bool commands_file(const struct line *line, struct line *path, struct line *words);
// A count from 1 on, as in /undo 2; `otherwise` for "". False: not a count.
bool commands_count(const char *text, size_t otherwise, size_t *count);

#endif
