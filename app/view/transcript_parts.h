// SPDX-License-Identifier: GPL-3.0-or-later
// What transcript.c (text and rows), transcript_view.c (the window) and transcript_search.c share; no one else's.
#ifndef MOECHAT_APP_VIEW_TRANSCRIPT_PARTS_H
#define MOECHAT_APP_VIEW_TRANSCRIPT_PARTS_H

#include "app/util/files.h"
#include "app/view/markdown.h"
#include "app/util/sanitize.h"
#include "app/view/transcript.h"
#include "app/view/wrap.h"

// Whole lines of an entry, of BLOCK_BYTES or up to the end of the line that reaches them: what is wrapped at once.
enum { BLOCK_BYTES = 8192, NEEDLE_CODES = 256 };
struct block {
    size_t start, length;  // bytes of the entry
    struct wrap_row *rows; // starts count from the entry's begin
    size_t n_rows, capacity;
    int columns;    // that they were wrapped for, 0: not yet
    size_t wrapped; // bytes of the block
    size_t line;    // where the last wrapped line begins in the entry
};

struct entry {
    enum entry_kind kind;
    bool finished, full, passing;
    struct bytes text;      // sanitised
    struct style_runs runs; // of an answer
    struct block *blocks;   // at least one
    size_t n_blocks, blocks_capacity;
    struct bytes table; // the lines of a table before they were cut; data NULL: it is none
    int second, least;  // of that
    uint32_t thought_tokens;
    double thought_seconds; // < 0: not told
};

// A row: a block's, or with block LEAD one of those before the text.
enum { LEAD = -1 };
struct place {
    size_t entry;
    long block;
    size_t row;
};
// The same in words that no wrapping changes.
struct anchor {
    size_t entry;
    bool lead;
    size_t at; // byte, or with lead the row
};

struct needle {
    uint32_t codes[NEEDLE_CODES]; // folded; count 0: no search
    size_t count;
    bool found;
    size_t entry, at; // the match it stands on
    struct transcript_matches matches;
    size_t counted; // what they were counted in, see transcript_search.c
};

struct transcript {
    struct entry *entries;
    size_t n_entries, capacity;
    struct sanitize sanitize; // of the entry that is not finished
    struct markdown markdown;
    enum thinking_view thinking;
    bool ascii;
    int rows, columns;
    bool following, begins;
    struct anchor top;  // of the window when not following
    struct anchor mark; // the last byte when it stopped following
    struct needle needle;
};

// What stands before an entry's text, "" for nothing; in a row only if it leaves half of it.
// Is it the next row behind the entry before it? Notices are, and what brings an empty row of its own.
bool entry_joins(const struct transcript *transcript, size_t index);
const char *entry_label(const struct transcript *transcript, const struct entry *entry);
const char *entry_row_label(const struct transcript *transcript, const struct entry *entry);
// "thought 214 tokens, 31 s"; room for 96.
void entry_thought_words(const struct entry *entry, char *out, size_t size);
// Makes the block's rows good for the transcript's columns. Without memory rows are missing.
void transcript_wrap(const struct transcript *transcript, struct entry *entry, struct block *block);
void entry_fold(const struct transcript *transcript, struct entry *entry); // of a table: anew, for these columns
size_t entry_block_at(const struct entry *entry, size_t byte);             // the block that holds a byte, or the last

struct place transcript_locate(struct transcript *transcript, struct anchor anchor);
void transcript_show(struct transcript *transcript, struct anchor anchor);    // moves the window if it is not in it
size_t transcript_window_begin(struct transcript *transcript, size_t *entry); // the first byte that is in the window
size_t transcript_window_end(struct transcript *transcript, size_t *entry);   // the byte after the last that is in it

// Bytes of the match that begins at text[at], 0: none.
size_t needle_match(const struct needle *needle, const char *text, size_t length, size_t at);

#endif
