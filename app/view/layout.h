// SPDX-License-Identifier: GPL-3.0-or-later
// Where things go on a screen of any size. Pure.
#ifndef MOECHAT_APP_VIEW_LAYOUT_H
#define MOECHAT_APP_VIEW_LAYOUT_H

#include <stdbool.h>

struct rectangle {
    int row, column, rows, columns; // rows or columns 0: not shown
};

enum stats_view { STATS_ROW, STATS_PANE, STATS_HEAT, STATS_OFF }; // in the order of Alt-s

struct layout_wishes {
    enum stats_view stats;
    int input_rows;   // of the draft; it gets at most half of the screen
    int popup_rows;   // completion or help; 0: none. It lies over the chat, right above the status row
    bool status;      // also where the figures are off
    bool zoom;        // the stats pane takes the chat's place
    int heat_columns; // that show a layer's experts in a row; 0: not known
};

struct layout {
    struct rectangle chat, stats, status, input, popup;
    bool rule; // one column or row between chat and stats is free for a line
};

// From 20 x 6 (columns x rows) on everything; below only chat and input, and what lies over the chat; a screen of
// one row is input alone.
struct layout layout_of(int rows, int columns, const struct layout_wishes *wishes);

#endif
