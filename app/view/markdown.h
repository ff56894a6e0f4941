// SPDX-License-Identifier: GPL-3.0-or-later
// Which bytes of an answer are heading, bold, code or a list's mark, told while it streams. Nothing is taken away or
// moved, and what has been told never changes: a style begins where its mark is complete and ends at the latest with
// the line (a fence: with its closing line, or the text). What is no markup that we know stays as it is. Pure.
//
//   # to ###### and a space       heading, to the end of the line
//   ``` or ~~~ at a line's begin   fence; its lines are code up to a line of as many marks
//   - * + 1. 1) and a space       a list's mark
//   **bold**                      bold; not within words
//   `code`, ``code``              code, up to as many backticks
//   \* \` \# \- \_                   the second as it is
#ifndef MOECHAT_APP_VIEW_MARKDOWN_H
#define MOECHAT_APP_VIEW_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/view/style.h"

// Styles of the bytes of a text, in order: each run from the end of the one before it up to its own.
struct style_run {
    uint32_t end;
    uint8_t style; // enum style
};
struct style_runs {
    struct style_run *at;
    size_t count, capacity;
};
void style_runs_release(struct style_runs *runs);
bool style_runs_add(struct style_runs *runs, size_t length, enum style style); // false: no memory
// The style at a byte; STYLE_TEXT beyond the last run. *end: where it ends, SIZE_MAX beyond the last run.
enum style style_runs_at(const struct style_runs *runs, size_t byte, size_t *end);

enum markdown_line { MARKDOWN_BEGIN, MARKDOWN_INFO, MARKDOWN_INLINE };

// Zero-initialise. Text may be cut anywhere between pushes.
struct markdown {
    enum markdown_line line;
    enum style base; // of this line
    // Bytes whose style is not settled: the start of a line, or a run of one mark.
    char prefix[64];
    size_t prefix_length;
    char run; // 0: none
    size_t run_length;
    unsigned char before; // first byte of the character before the run
    size_t code_ticks;    // within code that ends with as many; 0: not within
    bool bold, escaped;
    size_t fence_length; // within a fence of as many marks; 0: not within
    char fence_mark;
    // Of the line of a fence: marks so far, could it still close, did spaces follow the marks.
    size_t closing;
    bool no_closing, closing_ended;
};

// Adds the styles that the text settles to runs (NULL: to nothing). False: no memory.
bool markdown_push(struct markdown *markdown, const char *text, size_t length, struct style_runs *runs);
bool markdown_finish(struct markdown *markdown, struct style_runs *runs); // the end of the text: all is settled

// The n-th (from 1 on) fenced block of a text, byte for byte, without its fences. False: there is none.
bool markdown_code_block(const char *text, size_t length, size_t n, const char **code, size_t *code_length);

#endif
