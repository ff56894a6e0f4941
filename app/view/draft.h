// SPDX-License-Identifier: GPL-3.0-or-later
// How a line that is being typed looks: its rows, where the cursor stands, long pastes folded to a mark. Pure, as far
// as cells.h is.
#ifndef MOECHAT_APP_VIEW_DRAFT_H
#define MOECHAT_APP_VIEW_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/view/cells.h"
#include "app/util/files.h"

enum { DRAFT_PASTES = 8, DRAFT_FOLD_LINES = 8, DRAFT_FOLD_BYTES = 2000 };

struct draft_row {
    size_t start, end; // bytes of `shown`
};

// Zero-initialise. All but `columns` and `label` is draft.c's own to write.
struct draft {
    int columns;       // of a row, its indent included; at least 1
    const char *label; // before the first row; others are indented as much. Safe to show; none that takes half of it
    struct bytes shown;
    size_t *map; // [length + 1]: how much of `shown` the first bytes of the line became
    size_t length, point, capacity;
    struct draft_row *rows;
    size_t n_rows, row_capacity;
    size_t cursor_row;
    int cursor_column, indent;
    struct bytes pastes[DRAFT_PASTES]; // that were long; the newest take the place of the oldest
    unsigned n_pastes;
};

void draft_pasted(struct draft *draft, const char *text, size_t length); // folded from now on when it is long
// Looks at the line as it is now. False: no memory; then it shows nothing.
bool draft_update(struct draft *draft, const char *line, size_t length, size_t point);
// Draws rows first to first + place->rows - 1 into `cells` from `row` on.
struct draft_place {
    struct cells *cells;
    int row, rows;
    size_t first;
    enum style style, label_style;
};
void draft_draw(const struct draft *draft, const struct draft_place *place);
// The point one row up (-1) or down (1), about where the cursor stands; SIZE_MAX: there is no such row.
size_t draft_vertical(const struct draft *draft, int direction);
void draft_release(struct draft *draft);

#endif
