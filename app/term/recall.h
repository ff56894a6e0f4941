// SPDX-License-Identifier: GPL-3.0-or-later
// What Up and searches bring back: readline's history, which later chats have, too; the draft that was left for a line
// of it; and what was typed and is not sent, in a file for the case that the chat is killed: the draft as it is now,
// the one left aside, and changed lines of the history. UI thread only; readline is initialised.
#ifndef MOECHAT_APP_TERM_RECALL_H
#define MOECHAT_APP_TERM_RECALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/store/draft_file.h"
#include "app/store/history.h"

// Where the draft's file is, the best first.
enum recall_apart { RECALL_BESIDE, RECALL_ELSEWHERE, RECALL_NOWHERE };
// Zero-initialise but for the first four.
struct recall {
    // The first text that the history of later chats will lack, and why.
    void (*not_kept)(void *context, const char *why);
    // A file of an earlier chat with what no history takes; NULL: nobody is told.
    void (*stays)(void *context, const char *path);
    void *context;
    // What is typed is kept in this file elsewhere, NULL: nowhere, and why. NULL: nobody is told.
    void (*apart)(void *context, const char *path, const char *why);
    struct history history;
    char *history_path;
    struct draft_file draft_file;
    uint64_t keep_at_ms; // 0: what it holds is what was typed
    struct bytes owed;   // drafts that were put away and that the disk did not take: with the next that it takes
    struct bytes sent;   // messages that neither the disk took nor a session has
    char *searched_from; // the draft that a search took the place of, NULL
    int no_place;        // an errno: why there is no path
    int where;           // in readline's history, as of the last key
    enum recall_apart apart_told;
    bool told; // that a text is not kept
    bool lost; // one is not, since it was asked for
};

// Loads the history, which may fail in words, and the drafts of chats that were killed. Returns how many these were.
size_t recall_open(struct recall *recall);
char *recall_adopted_words(char *out, size_t size, size_t count); // of drafts of such chats, for people; returns out
enum { RECALL_STAYS_SIZE = 4200 };
char *recall_stays_words(char *out, size_t size, const char *path); // of such a file, for people; returns out
enum { RECALL_APART_SIZE = 4400 };
// Of the draft's file, for people, as recall.apart has it; returns out.
char *recall_apart_words(char *out, size_t size, const char *path, const char *why);
// What of that is lost.
struct recall_end {
    bool told;   // what `lost` has and no more; else there is what is too long for that, or without memory
    bool behind; // the next chat has what came behind the line that left
    // The draft's file, as the history takes no text so long or it is not beside that; its owner tells it and frees it.
    // NULL: none.
    char *stays;
};
// What was typed and not sent goes to the history, with lines of it that were changed, or stays in its file where that
// can't be written; `draft` is the line now, or NULL, `behind` what was typed behind the one that left, or "". `lost`
// has what no history took before, the oldest first; what the file takes of it goes from there, and what neither takes
// goes there. Its owner tells it.
struct recall_end recall_close(struct recall *recall, const char *draft, const char *behind, struct bytes *lost);
bool recall_lose(struct bytes *lost, const char *text); // appends it, a zero byte between two. False: no memory
// Prints them to standard output, so that they can be copied from there; and whether that is the whole of it.
void recall_tell_lost(const struct bytes *lost, bool whole);

// A text that was typed, with the drafts that were left for it, goes to the history. False: later chats lack one.
bool recall_remember(struct recall *recall, const char *text);
// The same for a draft that is not sent; the end tells it where the disk takes it never.
bool recall_put_away(struct recall *recall, const char *draft);
// A message that the history did not take counts as typed: the draft's file has it until a session does.
void recall_sent(struct recall *recall, const char *text);
void recall_sent_is_safe(struct recall *recall); // all of those
void recall_sent_came_back(struct recall *recall,
                           const char *text); // one that was refused counts as a draft from now on
// Does the history of later chats have a text that was typed before, or take it now?
bool recall_keeps(struct recall *recall, const char *text);
// The drafts that were left become lines of the history: the line is being sent.
void recall_remember_left(struct recall *recall);
// Before each key and text: what is typed into a line of the history that was changed before is a change of its own.
// readline would add it to that last one, and keep the line as it was then.
void recall_part_changes(struct recall *recall);
void recall_insert(struct recall *recall, const char *text);
void recall_change_line(const char *text); // in the place of a line of the history
// Around a search that readline does not keep the draft for; it may end in the history, where the draft is aside then,
// as after Up. readline 8.2 itself would let the draft and a line of the history share one list of what can be undone,
// and fall over it at the end of the line.
void recall_begin_search(struct recall *recall);
void recall_end_search(struct recall *recall);
// The draft as it is now: once it has been so for a moment its file has it, and what else is in no history; a line of
// the history that is only shown is not typed. Returns when this is to be called again at
// the latest, in milliseconds; -1: when something else is.
// What is typed may be megabytes that come in pieces: until recall_draft_wait is 0 it need not be put together for
// this.
int recall_draft_wait(const struct recall *recall, uint64_t now_ms); // milliseconds
int recall_keep_draft(struct recall *recall, const char *text, uint64_t now_ms);
void recall_keep_draft_now(struct recall *recall, const char *text); // the same, without that moment
int recall_edit(struct recall *recall, char *path, size_t size);     // as draft_file_edit

#endif
