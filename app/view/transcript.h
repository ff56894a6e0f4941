// SPDX-License-Identifier: GPL-3.0-or-later
// What the chat pane shows: entries of sanitised text, a window of rows onto them, and the search in it. Text is
// sanitised once, when it is appended, and wrapped when it comes into view; rows are kept by blocks of lines, so a
// screen costs what a screen holds, however long the talk is. Pure, as far as cells.h is. One thread.
#ifndef MOECHAT_APP_VIEW_TRANSCRIPT_H
#define MOECHAT_APP_VIEW_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/view/cells.h"

enum entry_kind { ENTRY_USER, ENTRY_ASSISTANT, ENTRY_THINKING, ENTRY_NOTICE, ENTRY_ERROR };

// Of one entry; what is beyond it is left out, and the entry says so.
enum { ENTRY_LIMIT = 64 << 20 };
// Rows that a folded entry shows of its end.
enum { ENTRY_PREVIEW = 3 };

struct transcript;

struct transcript *transcript_new(bool ascii); // NULL: no memory
void transcript_free(struct transcript *transcript);
void transcript_clear(struct transcript *transcript);

// One that is read from its beginning: as long as that is where it stands, it does so after a resize, too.
void transcript_begins(struct transcript *transcript);

// All that add: false: no memory. An entry takes text until it is finished or the next one begins; a notice or an error
// that is added meanwhile stands behind an answer, or thinking, which goes on.
bool transcript_begin(struct transcript *transcript, enum entry_kind kind);
bool transcript_append(struct transcript *transcript, const char *bytes, size_t length); // untrusted, cut anywhere
bool transcript_finish(struct transcript *transcript);
// Does an entry still take text, behind which something was said?
bool transcript_goes_on_beside(const struct transcript *transcript);
bool transcript_add(struct transcript *transcript, enum entry_kind kind, const char *bytes, size_t length); // all three
// Styles the numbers before "%" in the last entry, of tokens: how likely they were. False: no memory.
bool transcript_style_likely(struct transcript *transcript);
// The last entry, which is finished, is a table (table.h) from now on: it is cut for the columns that there are,
// whatever they were when it came. second 0: it is none. False: no memory.
bool transcript_make_table(struct transcript *transcript, int second, int least);
// What the last thinking entry came to: "thought 214 tokens, 31 s".
void transcript_thought(struct transcript *transcript, uint32_t tokens, double seconds);
size_t transcript_entries(const struct transcript *transcript);
void transcript_cut(struct transcript *transcript, size_t entries); // forgets all but the first
// The last entry is true for now alone, and those that are so go. Only what stands behind them has another place then.
void transcript_pass(struct transcript *transcript);
void transcript_drop_passing(struct transcript *transcript);

// Thinking: folded shows its head and its last rows, hidden its head alone, open all of it.
enum thinking_view { THINKING_FOLDED, THINKING_HIDDEN, THINKING_OPEN };
void transcript_show_thinking(struct transcript *transcript, enum thinking_view view);
enum thinking_view transcript_thinking(const struct transcript *transcript);

// The window. After a resize the text that stood in the top row still does; one that followed the end follows it.
void transcript_resize(struct transcript *transcript, int rows, int columns);
void transcript_draw(struct transcript *transcript, struct cells *cells); // rows x columns as resized; all are written
void transcript_scroll(struct transcript *transcript, long rows); // > 0: towards the end, which is followed there
void transcript_to_begin(struct transcript *transcript);
void transcript_follow(struct transcript *transcript); // to the end, and along with it
bool transcript_following(const struct transcript *transcript);
bool transcript_shows_end(struct transcript *transcript); // also where it does not follow it, as a resize made room
// Rows that were added below since the window was moved off the end.
size_t transcript_new_rows(struct transcript *transcript);
// Where the window's top is, in per cent of the text; 100 when following.
int transcript_percent(const struct transcript *transcript);

// The search ignores case and sees what is shown. It begins at the window's end, backward (n) or, from the last match
// on, either way; it moves the window so that the match is in it. False: nothing is found, and nothing moved.
bool transcript_search(struct transcript *transcript, const char *words, size_t length, bool backward);
bool transcript_search_next(struct transcript *transcript, bool backward);
void transcript_search_end(struct transcript *transcript); // no highlights any more
// "3 of 17" for people: the match the search stands on, counted from the start, and how many there are.
struct transcript_matches {
    size_t now, count;
};
struct transcript_matches transcript_matches(const struct transcript *transcript);

// All text that is shown, unwrapped, with its labels: for the bare view.
void transcript_print(const struct transcript *transcript, FILE *out);

#endif
