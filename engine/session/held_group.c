// SPDX-License-Identifier: GPL-3.0-or-later
// Remembers what a stopped group is of.
#include "engine/session/held_group.h"

#include <stdlib.h>
#include <string.h>

void held_group_keep(struct held_group *held, const struct pass *pass, const int32_t *ids, struct snapshots *snapshots)
{
    held_group_forget(held, snapshots);
    memcpy(held->borders, pass->borders, sizeof held->borders);
    held->ids = malloc(pass->rows * sizeof *ids);
    if (!held->ids) {
        held_group_forget(held, snapshots);
        return;
    }
    memcpy(held->ids, ids, pass->rows * sizeof *ids);
    held->position = pass->position;
    held->rows = pass->rows;
}

void held_group_forget(struct held_group *held, struct snapshots *snapshots)
{
    for (int i = 0; i < MOE_BORDERS; i++)
        if (held->borders[i].states)
            snapshots_give_back(snapshots, held->borders[i].states);
    free(held->ids);
    *held = (struct held_group){0};
}

uint32_t held_group_same(const struct held_group *held, const struct moe_feed *feed, bool states)
{
    uint32_t same = 0, most = feed->count < held->rows ? (uint32_t)feed->count : held->rows;
    if (feed->position != held->position || feed->on_hidden || feed->on_row)
        return 0;
    while (same < most && held->ids[same] == feed->ids[same])
        same++;
    bool few = same < most && same < held->rows / 2; // a group of their own would read the experts once more for them
    return few || (states && same < held->rows) ? 0 : same;
}
