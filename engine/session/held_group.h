// SPDX-License-Identifier: GPL-3.0-or-later
// A group of a prompt whose feed was cancelled on its way through the layers. Its rows and states beyond the session's
// length, its residual stream and its routers' choices stay as they are, so that a feed of the same tokens goes on
// there; whatever else writes any of them lets go of it first.
#ifndef MOECHAT_ENGINE_SESSION_HELD_GROUP_H
#define MOECHAT_ENGINE_SESSION_HELD_GROUP_H

#include "engine/session/snapshots.h"
#include "engine/walk/pass.h"

// Zero-initialise.
struct held_group {
    int32_t *ids;                            // [rows]
    uint32_t position, rows;                 // rows 0: nothing is held
    uint32_t counted;                        // of those, what counters have already, for the work that is done
    struct pass_border borders[MOE_BORDERS]; // that its first layers have copied
};
// Takes the borders over, in any case. Without memory for the ids nothing is held.
void held_group_keep(struct held_group *held, const struct pass *pass, const int32_t *ids, struct snapshots *snapshots);
void held_group_forget(struct held_group *held, struct snapshots *snapshots);
// Rows of the held group that begin the feed as well: all of them, or, where layers have no states, half of them or all
// of the feed; 0: it has to be forgotten.
uint32_t held_group_same(const struct held_group *held, const struct moe_feed *feed, bool states);

#endif
