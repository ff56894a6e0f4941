// SPDX-License-Identifier: GPL-3.0-or-later
// What is typed and not sent yet, in a file beside the history, for the case that the chat is killed: each chat has one
// of its own (draft-XXXXXX, 0600), which it holds a lock on and removes when it ends and the history has the text. One
// without a lock is what a killed chat left; the next chat takes it over. Where that folder has no room, or there is
// none, it is in $TMPDIR (moechat-draft-XXXXXX). It is a net below the history; its owner says where it is. Untrusted:
// links and what is no file are left alone. It may be several texts, the newest first, with a zero byte between two.
// While an editor has the draft its file stands there, too, with the same letters (edit-XXXXXX): it is a killed chat's
// once no lock is held on the draft's, as is what editors leave beside it where they are killed: Emacs edit-XXXXXX~ and
// #edit-XXXXXX#, nano edit-XXXXXX.save. What vim leaves (.edit-XXXXXX.swp) only vim can read: it stays, and is told
// while it has something.
#ifndef MOECHAT_APP_STORE_DRAFT_FILE_H
#define MOECHAT_APP_STORE_DRAFT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "app/store/history.h"
#include "app/util/files.h"

enum { DRAFT_FILE_LIMIT = HISTORY_FILE_LIMIT }; // bytes
struct draft_file {
    char *folder;   // NULL: there is no place
    char *path;     // NULL until there was something to keep
    bool elsewhere; // it is in $TMPDIR
    int why;        // an errno: why the folder did not take the last that it was given; 0: it did, or there is none
    int fd;
    struct bytes texts; // what it holds, unless
    bool stale;         // it holds what was there before, or nothing: the disk had no room
};

// Of the folder that the history is in; history_path may be NULL. No file is made yet.
void draft_file_begin(struct draft_file *file, const char *history_path);
struct draft_taker {
    bool (*take)(void *context, const char *text);  // false: the text is not safe elsewhere
    void (*stays)(void *context, const char *path); // a file that is not taken over; NULL: nobody is told
    void *context;
};
// Takes over what killed chats left: each text goes to `take`, the newest of a file last, and its file goes unless that
// returns false. What an editor had comes behind its chat's draft, unless it is the same. A file with a text that is
// longer than the history takes stays as it is. Returns how many chats were taken over.
size_t draft_file_adopt(const struct draft_file *file, const struct draft_taker *to);
void draft_file_find_elsewhere(const struct draft_taker *to); // tells of those that draft_file_edit_elsewhere made
bool draft_file_holds(const struct draft_file *file, const struct bytes *texts); // those very texts
// Is one of the texts longer than the history takes, so that their file stays?
bool draft_file_stays(const struct bytes *texts);
bool draft_file_is_elsewhere(const char *path); // a draft's file in $TMPDIR, by its name
// Makes it hold those texts, if they are no more than its limit, else nothing.
void draft_file_keep(struct draft_file *file, const struct bytes *texts);
// Makes a file for an editor, with nothing in it, which its owner removes; its name goes to `path`. -1: there is no
// place for it.
int draft_file_edit(struct draft_file *file, char *path, size_t size);
// The same in $TMPDIR (moechat-XXXXXX), where there is none; it is in use while this is open. -1 with errno.
int draft_file_edit_elsewhere(char *path, size_t size);
// The file goes if its texts are `safe` elsewhere or there are none, else it stays for the next chat. True: it does,
// and holds what it was to hold last.
bool draft_file_end(struct draft_file *file, bool safe);

#endif
