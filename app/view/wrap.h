// SPDX-License-Identifier: GPL-3.0-or-later
// Cuts one line of sanitised text into rows of cells. Only for looking at: what is copied or saved is the line. Rows
// end after spaces, between wide characters (but not before their closing punctuation), and anywhere in a word that is
// wider than a row. A mark stays with its character. Spaces that a row ends with hang over its end, unseen. Pure, as
// far as cells.h is.
//
// The rows before the last of a line never change when text is appended to it: begin again at the last row's start.
#ifndef MOECHAT_APP_VIEW_WRAP_H
#define MOECHAT_APP_VIEW_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wrap_row {
    size_t start, length; // bytes of the line
    uint32_t column;      // of its first character in the line as if never cut: where tabs stand
    uint16_t indent;      // cells to leave free before it
};

struct wrap {
    const char *text; // one line, without its newline
    size_t length;
    int columns;   // at least 1
    int first;     // cells taken at the start of the first row
    int hang;      // cells that later rows are indented by
    bool anywhere; // rows end where they are full, as code wants it
    // Where the next row begins; zero-initialise.
    size_t at;
    uint32_t column;
    bool begun;
};
// The next row; false when there is none left. An empty line has one empty row.
bool wrap_next(struct wrap *wrap, struct wrap_row *row);
// How far rows after the first of this line are indented: under the text of a list item or of an indented line.
int wrap_hang(const char *line, size_t length, int columns);

#endif
