// SPDX-License-Identifier: GPL-3.0-or-later
// The pane of figures: a table of the MoE layers with totals of the turn and since the start, the expert cache, and
// where the time went. Of each layer: experts found on the device, in host memory, prefetched in time (ahead) or not
// quite (late), or on disk (missed); those prefetched in vain (wasted); bytes read and copied; the time waited. Columns
// that do not fit are left out, and late ones are among the missed then; ~ stands before estimates. Everything is
// moe.h's telemetry record, as `--jsonl` prints it. Pure.
#ifndef MOECHAT_APP_VIEW_PANE_H
#define MOECHAT_APP_VIEW_PANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/figures/tally.h"
#include "app/view/cells.h"

struct pane_figures {
    const struct moe_telemetry *now;          // the last step or, when it is over, the turn; NULL: no step yet
    bool under_way;                           // that step has not ended
    const struct moe_telemetry *turn;         // its sums by layer, NULL: none
    const struct tally *totals, *since_start; // of the turn, and of all
    uint64_t cache_used_bytes, cache_bytes;   // memory for experts
    uint64_t row_bytes, state_bytes;          // of the conversation; shown where layers have states
    bool zoomed;                              // it has the screen to itself
    bool by_wait;                             // the layers that waited longest first
    int scroll;                               // first layer row shown; drawn as far as it can be
    bool ascii;
};
// Draws over all of the cells.
void pane_draw(struct cells *cells, const struct pane_figures *figures);
int pane_scroll_limit(const struct cells *cells, const struct pane_figures *figures); // the largest scroll

#endif
