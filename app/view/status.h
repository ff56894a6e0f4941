// SPDX-License-Identifier: GPL-3.0-or-later
// The status row, in words that need no manual: what goes on, and how well. Pure.
#ifndef MOECHAT_APP_VIEW_STATUS_H
#define MOECHAT_APP_VIEW_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/figures/tally.h"
#include "app/view/cells.h"

enum doing { DOING_LOADING, DOING_IDLE, DOING_READING, DOING_THINKING, DOING_ANSWERING, DOING_STOPPING, DOING_SAVING };

// What a step's time went to, most of all.
enum bound { BOUND_NONE, BOUND_DISK, BOUND_COPY, BOUND_COMPUTE, BOUND_LAUNCHES };
enum bound status_bound(const struct moe_telemetry *step); // NULL: BOUND_NONE
const char *status_bound_name(enum bound bound);           // "reads", "copy", "compute", "launches"; "" for none

// Figures below 0 are not known (yet) and left out.
struct status_figures {
    enum doing doing;
    struct moe_progress progress; // of the work under way; total 0: none
    double seconds_left;          // of it
    const char *model;            // its name
    int64_t context_used, context_total;
    double tokens_now, tokens_mean; // a second
    double hits;                    // share of experts that were in memory, 0 to 1
    bool prefetch;
    int64_t prefetch_used, prefetch_wasted; // of the turn, as hits and bytes are
    double read_bytes, cached_bytes;        // a token; the latter, of those, from the page cache
    enum bound bound;
    uint32_t queued;    // messages that wait
    bool scrolled;      // the window is not at the end of the chat
    int percent;        // then: of the chat that is before it
    size_t new_rows;    // and below it, since it was scrolled
    const char *notice; // behind the state, NULL: none
    bool ascii;
};
// Fills in the mean speed, hits, prefetch and bytes a token of the turn; and the bound of what goes on now, the last
// token or, when it is over, the turn. now NULL: not known.
void status_take(struct status_figures *figures, const struct moe_telemetry *now, const struct tally *turn);
// Writes the row, all of `at`. What does not fit beside the notice is dropped whole, in this order: model, mean speed,
// prefetch, bound, disk, hits, speed, bytes read for what is under way, context, time left, bar, queue, new lines;
// clauses of the notice, from the last on; the state alone is cut.
void status_draw(struct cells_at at, const struct status_figures *figures);

#endif
