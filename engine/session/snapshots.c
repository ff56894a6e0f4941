// SPDX-License-Identifier: GPL-3.0-or-later
// Which copies of states stay.
#include "engine/session/snapshots.h"

#include <stdlib.h>
#include <string.h>

void snapshots_release(struct snapshots *snapshots)
{
    for (uint32_t i = 0; i < snapshots->n; i++)
        free(snapshots->kept[i].bytes);
    free(snapshots->kept);
    free(snapshots->spare);
    snapshots->kept = NULL;
    snapshots->spare = NULL;
    snapshots->n = 0;
}

// Its memory is for the next.
static void put_by(struct snapshots *snapshots, char *bytes)
{
    if (snapshots->spare)
        free(bytes);
    else
        snapshots->spare = bytes;
}

static void drop(struct snapshots *snapshots, uint32_t i)
{
    put_by(snapshots, snapshots->kept[i].bytes);
    snapshots->n--;
    memmove(snapshots->kept + i, snapshots->kept + i + 1, (snapshots->n - i) * sizeof *snapshots->kept);
}

// The one to go.
static uint32_t choose(const struct snapshots *snapshots)
{
    uint32_t closest = 0, distance = UINT32_MAX;
    for (uint32_t i = 0; i < snapshots->n; i++)
        if (!snapshots->kept[i].border)
            return i;
    for (uint32_t i = 0; i + 2 < snapshots->n; i++) { // before the first one is position 0
        uint32_t apart = snapshots->kept[i + 1].position - (i ? snapshots->kept[i - 1].position : 0);
        if (apart < distance) {
            distance = apart;
            closest = i;
        }
    }
    return closest;
}

char *snapshots_room(struct snapshots *snapshots, bool border)
{
    if (!snapshots->kept)
        snapshots->kept = calloc(snapshots->most, sizeof *snapshots->kept);
    if (!snapshots->kept)
        return NULL;
    if (snapshots->n + snapshots->rooms >= snapshots->most) {
        uint32_t i = choose(snapshots);
        if (snapshots->n < 2 || (!border && i + 2 >= snapshots->n && snapshots->kept[i].border))
            return NULL;
        drop(snapshots, i);
    }
    char *room = snapshots->spare ? snapshots->spare : malloc(snapshots->bytes);
    snapshots->spare = NULL;
    snapshots->rooms += room != NULL;
    return room;
}

void snapshots_give_back(struct snapshots *snapshots, char *room)
{
    snapshots->rooms--;
    put_by(snapshots, room);
}

// Index of the first one behind `position`.
static uint32_t behind(const struct snapshots *snapshots, uint32_t position)
{
    uint32_t i = snapshots->n;
    while (i && snapshots->kept[i - 1].position > position)
        i--;
    return i;
}

void snapshots_keep(struct snapshots *snapshots, char *room, uint32_t position, bool border)
{
    uint32_t i = behind(snapshots, position);
    snapshots->rooms--;
    if (i && snapshots->kept[i - 1].position == position) {
        struct snapshot *there = &snapshots->kept[i - 1];
        put_by(snapshots, there->bytes);
        there->bytes = room;
        there->border |= border;
        return;
    }
    memmove(snapshots->kept + i + 1, snapshots->kept + i, (snapshots->n - i) * sizeof *snapshots->kept);
    snapshots->kept[i] = (struct snapshot){position, border, room};
    snapshots->n++;
}

const struct snapshot *snapshots_find(const struct snapshots *snapshots, uint32_t position)
{
    uint32_t i = behind(snapshots, position);
    return i ? &snapshots->kept[i - 1] : NULL;
}

bool snapshots_mark(struct snapshots *snapshots, uint32_t position)
{
    uint32_t i = behind(snapshots, position);
    if (!i || snapshots->kept[i - 1].position != position)
        return false;
    snapshots->kept[i - 1].border = true;
    return true;
}

void snapshots_cut(struct snapshots *snapshots, uint32_t position)
{
    while (snapshots->n && snapshots->kept[snapshots->n - 1].position > position)
        drop(snapshots, snapshots->n - 1);
}
