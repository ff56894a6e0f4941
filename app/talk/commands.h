// SPDX-License-Identifier: GPL-3.0-or-later
// The commands of the chat: one table (commands.def) that reads them, explains them and says what does them. Pure but
// for what the handlers do.
#ifndef MOECHAT_APP_TALK_COMMANDS_H
#define MOECHAT_APP_TALK_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/util/files.h"

struct talk;

enum line_kind {
    LINE_EMPTY,   // nothing but spaces
    LINE_MESSAGE, // to be sent: text
    LINE_COMMAND, // row, with text behind it
    LINE_SPACED,  // a command but for the spaces before it: neither done nor sent; text is its name
    LINE_UNKNOWN, // begins like a command, but there is none of that name: text is the name
};

struct command_row;
struct line {
    enum line_kind kind;
    const struct command_row *row; // of LINE_COMMAND
    const char *text;              // part of what was parsed
    size_t length;
    bool lines; // a command's text begins on, or reaches to, another line than the command
};

// What follows a command, beside the words that its row names.
enum command_takes { TAKES_NOTHING, TAKES_TEXT, TAKES_SESSION, TAKES_SETTING, TAKES_COMMAND, TAKES_PATH };
struct command_row {
    const char *name, *aliases; // "a|b"; "": none
    const char *argument;       // for people
    enum command_takes takes;
    const char *words; // "a|b": one of them comes first; "": none
    // The words with which it shows beside the conversation and so need not wait for the answer under way; "*": with
    // all that may follow; "+": the same, but within the conversation when no answer is; "": with none.
    const char *meanwhile;
    bool told;  // it speaks of what is saved, so it waits until the last turn's save is told of
    bool lines; // what follows it may have several; else it is taken for a message that was pasted
    const char *help;
    void (*run)(struct talk *talk, const struct line *line);
};
#define COMMAND(id, ...) void talk_do_##id(struct talk *talk, const struct line *line);
#include "app/talk/commands.def"
#undef COMMAND
const struct command_row *commands_row(size_t index); // in the order of /help; NULL: there are no more
const struct command_row *commands_find(const char *name, size_t length); // by name or alias, NULL: none

// A message of several lines, as other programs have it: between """ and """. Is it open still?
bool commands_is_open(const char *typed, size_t length);
// What stands between three quotes is a message, without a newline next to them.
// A line that begins with / is a command, with // a message that begins with /; what has spaces before // is sent as it
// is, as a comment of a program that is further in. A \ before what would be something else than a message, or before a
// \ before such a thing, is no part of it. Newlines at a message's end are no part of it.
// typed[length] is 0; zeros before that are the message's.
struct line commands_parse(const char *typed, size_t length);
// A line that begins with !, which the full screen has the shell run. Of several lines it is a message.
bool commands_is_shell(const char *typed, size_t length);
// Appends what is typed to send that very text, where nobody typed it. text[length] is 0. False: no memory.
bool commands_quote(struct bytes *typed, const char *text, size_t length);
// Writes all commands, or those whose name or explanation contains `wanted`. Returns how many.
size_t commands_help(FILE *out, const char *wanted);
void commands_dump(FILE *out); // for moechat(1)
// What an unknown name may be a slip for. NULL: nothing is near.
const char *commands_near(const char *name, size_t length);
bool commands_meanwhile(const struct line *line); // see struct command_row
// "PATH WORDS" or "\"A PATH\" WORDS": the path, and what is behind it. False: there is no path.
bool commands_file(const struct line *line, struct line *path, struct line *words);
// A count from 1 on, as in /undo 2; `otherwise` for "". False: not a count.
bool commands_count(const char *text, size_t otherwise, size_t *count);

#endif
