// SPDX-License-Identifier: GPL-3.0-or-later
// Divides the screen among chat, figures, status row, popup and draft.
#include "app/view/layout.h"

enum {
    FULL_ROWS = 6,
    FULL_COLUMNS = 20,
    BESIDE_COLUMNS = 120, // from here on the stats stand beside the chat
    STATS_COLUMNS = 56,
    WIDE_COLUMNS = 160, // from here on with room for all of the pane's columns
    STATS_ALL = 85,
    CHAT_LEAST = 80, // beside figures that want more than their part
    BELOW_ROWS = 16, // from here on below it
    STATS_LEAST = 5,
};

static int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

// Takes the stats pane out of the chat's rectangle.
static void place_stats(struct layout *layout, const struct layout_wishes *wishes, int rows)
{
    struct rectangle *chat = &layout->chat, *stats = &layout->stats;
    bool wanted = wishes->stats == STATS_PANE || wishes->stats == STATS_HEAT;
    *stats = (struct rectangle){0};
    if (!wanted || chat->rows == 0)
        return;
    if (wishes->zoom) {
        *stats = *chat;
        chat->rows = chat->columns = 0;
    } else if (chat->columns >= BESIDE_COLUMNS) {
        int figures =
            chat->columns >= WIDE_COLUMNS ? at_most(STATS_ALL, chat->columns - 1 - CHAT_LEAST) : STATS_COLUMNS;
        int heat = at_most(wishes->heat_columns, chat->columns - 1 - CHAT_LEAST), part = chat->columns * 2 / 5;
        int columns = wishes->stats != STATS_HEAT ? figures : heat > part ? heat : part;
        chat->columns -= columns + 1;
        *stats = (struct rectangle){chat->row, chat->columns + 1, chat->rows, columns};
        layout->rule = true;
    } else if (rows >= BELOW_ROWS && chat->rows > 2 * STATS_LEAST) {
        int below = chat->rows * 2 / 5 > STATS_LEAST ? chat->rows * 2 / 5 : STATS_LEAST;
        chat->rows -= below + 1;
        *stats = (struct rectangle){chat->row + chat->rows + 1, 0, below, chat->columns};
        layout->rule = true;
    }
}

struct layout layout_of(int rows, int columns, const struct layout_wishes *wishes)
{
    struct layout layout = {0};
    rows = rows > 1 ? rows : 1;
    columns = columns > 1 ? columns : 1;
    bool full = rows >= FULL_ROWS && columns >= FULL_COLUMNS,
         status = full && (wishes->stats != STATS_OFF || wishes->status);
    int half = rows / 2 > 1 ? rows / 2 : 1, input = wishes->input_rows > 1 ? wishes->input_rows : 1;
    input = at_most(input, half);
    layout.input = (struct rectangle){rows - input, 0, input, columns};
    int above = rows - input - status;
    if (status)
        layout.status = (struct rectangle){above, 0, 1, columns};
    if (above <= 0)
        return layout;
    layout.chat = (struct rectangle){0, 0, above, columns};
    int popup = wishes->popup_rows > 0 ? at_most(wishes->popup_rows, above) : 0;
    if (popup)
        layout.popup = (struct rectangle){above - popup, 0, popup, columns};
    if (full)
        place_stats(&layout, wishes, rows);
    return layout;
}
