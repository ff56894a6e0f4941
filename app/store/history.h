// SPDX-License-Identifier: GPL-3.0-or-later
// What was typed before, in a file of our own: one line an entry in UTF-8, newlines, tabs and backslashes escaped (\n,
// \r, \t, \\ and so on), and so are bytes of other control characters and of what is no UTF-8 (\x1b). Appended to
// under a lock, 0600, several programs at once. A line that is not such an entry is skipped. No readline.
#ifndef MOECHAT_APP_STORE_HISTORY_H
#define MOECHAT_APP_STORE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "app/util/files.h"

// Of entries longer than HISTORY_LONG, as pastes are, the last few are kept: they are not to push out all others.
enum {
    HISTORY_ENTRIES = 1000,
    HISTORY_ENTRY_LIMIT = 4 << 20,
    HISTORY_LONG = 1 << 16,
    HISTORY_LONG_ONES = 8,
    HISTORY_FILE_LIMIT = 64 << 20
};

// Zero-initialise. The oldest first; no two are the same.
struct history {
    char **entries;
    size_t count;
    bool held; // its file was locked by another all the time that was waited for it: the next wait is none
};
void history_release(struct history *history);

// Why a text of that length is not kept, for people; NULL: it is, unless there is nothing in it to see.
const char *history_refusal(size_t length);
// Appends the line of a text with its newline. False: no memory, or it is no text that is kept (empty, only spaces,
// over the limit, with a zero byte); then the line is unchanged.
bool history_encode(const char *text, size_t length, struct bytes *line);
// Appends the text of a line without its newline. False as above.
bool history_decode(const char *line, size_t length, struct bytes *text);

// Of what history_load and history_add return, for people.
const char *history_reason(int code);
// 0 or an errno: EAGAIN where another process holds the file's lock for over two seconds (an editor, a chat that is
// suspended). Loading a file that is not there is fine; one that has grown to twice the entries, or long ones, is
// written anew.
int history_load(struct history *history, const char *path);
// To the memory and, unless path is NULL, the file: what the file did not take is in neither, and may be tried again. A
// text that is there already moves to the end.
int history_add(struct history *history, const char *path, const char *text, size_t length);
// $XDG_STATE_HOME/moechat/history; its folder is made. malloc'd; NULL: there is no place.
char *history_path(void);

#endif
