// SPDX-License-Identifier: GPL-3.0-or-later
// What /stats prints: the plan of the caches, what was asked of them and where the time went, what caches of other
// sizes would have had, and how prefetch did. Pure.
#ifndef MOECHAT_APP_VIEW_STATS_H
#define MOECHAT_APP_VIEW_STATS_H

#include <stdio.h>

#include "app/driver/backend.h"
#include "app/figures/tally.h"

enum { STATS_ROOMS = 6 };

enum { STATS_SECOND = 19 }; // columns before what a line tells

struct stats {
    const struct backend_info *info;
    struct tally conversation, program; // since it was begun or loaded, and since the model was opened
    const struct moe_telemetry *sum;    // of the conversation's steps; NULL: none yet
    // Room for so many experts, and the share of the answers' experts that it would have found, 0 to 1; below 0: not
    // known.
    struct stats_room {
        uint64_t experts;
        double share;
        bool here; // that is what the caches have
    } rooms[STATS_ROOMS];
    int n_rooms;
    uint32_t context_used, context_then; // now, and with a message that waits for its answer
    size_t messages;
    bool to_read_anew;            // all of them, so nothing of the context counts as used
    struct process_reads process; // until now
    uint64_t seed;
    bool seed_was_used; // in the last turn
};
// The rooms to fill in the shares of: parts of all experts, and what the caches have.
void stats_rooms(struct stats *stats);
void stats_print(FILE *out, const struct stats *stats);

#endif
