// SPDX-License-Identifier: GPL-3.0-or-later
// Copies of a session's states in host memory, each with the number of tokens that they are of: where a session whose
// layers have states can be cut back to. Made at borders, between turns, and within long prompts. When there is room
// for no more, those within prompts go first, the oldest first; then of the borders the one whose neighbours are
// closest together, which is every second one when turns are alike. The two newest borders stay. No device here.
#ifndef MOECHAT_ENGINE_SESSION_SNAPSHOTS_H
#define MOECHAT_ENGINE_SESSION_SNAPSHOTS_H

#include <stdbool.h>
#include <stdint.h>

enum { SNAPSHOTS_LEAST = 2 };

struct snapshot {
    uint32_t position;
    bool border;
    char *bytes; // owned
};

// Zero-initialise but for the first two; with bytes 0 nothing else is called but release.
struct snapshots {
    uint64_t bytes;        // of each
    uint32_t most;         // at least SNAPSHOTS_LEAST
    struct snapshot *kept; // [n], by ascending position
    uint32_t n;
    uint32_t rooms; // given, and neither kept nor given back yet
    char *spare;    // what was dropped last, for the next; not beside `most` others
};
void snapshots_release(struct snapshots *snapshots);

// Room for one more, to be filled and given to snapshots_keep or snapshots_give_back; another one goes for it where
// there are `most`, but never the last. NULL: that one would have to go, or the two newest borders for one that is
// none; or there is no memory.
char *snapshots_room(struct snapshots *snapshots, bool border);
void snapshots_give_back(struct snapshots *snapshots, char *room);
// Takes `room` over. One at that position is replaced, and stays a border if it was one.
void snapshots_keep(struct snapshots *snapshots, char *room, uint32_t position, bool border);
// The one at `position`, or the last one before; NULL: there is none.
const struct snapshot *snapshots_find(const struct snapshots *snapshots, uint32_t position);
// Makes the one at that position a border. False: there is none.
bool snapshots_mark(struct snapshots *snapshots, uint32_t position);
// Forgets those after `position`.
void snapshots_cut(struct snapshots *snapshots, uint32_t position);

#endif
