// SPDX-License-Identifier: GPL-3.0-or-later
// Lines of two columns, a word and what it means, for a screen that may be narrow. Sanitised text; widths are those of
// cells.h.
#ifndef MOECHAT_APP_VIEW_TABLE_H
#define MOECHAT_APP_VIEW_TABLE_H

#include <stdio.h>

struct table {
    int columns; // of the screen; 0: lines stay as they are
    int second;  // where the second column begins
    int least; // columns that it must have to be continued below itself; with fewer, a little further in than the first
};
// Writes the lines cut between words.
void table_fold(FILE *out, const char *text, const struct table *table);

#endif
