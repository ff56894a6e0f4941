// SPDX-License-Identifier: GPL-3.0-or-later
// How far a prefill is, in time: what was done tells what the rest will take. A layer has two parts that cost apart, by
// token and by expert, and which of them costs more depends on the disk, so each part's pace is learned on the way.
#ifndef MOECHAT_PACE_H
#define MOECHAT_PACE_H

#include "shape.h"

enum pace_part {
    PACE_BEGIN,   // attention, router, dense and shared MLPs: counted in tokens of a layer
    PACE_EXPERTS, // counted in layers of a group
    PACE_PARTS
};

struct pace {
    double all[PACE_PARTS], done[PACE_PARTS]; // counts
    double ns[PACE_PARTS];                    // that those done took
    double guess;                             // a group's layer's experts to a token's beginning, until there are some
    uint64_t began_ns, since_ns;
    double share; // 0 to 1, never falling
};

void pace_begin(struct pace *pace, const struct shape *shape, uint64_t tokens, uint64_t groups);
// So much more of a part was done since the last call. Returns the share of the time that is over.
double pace_done(struct pace *pace, enum pace_part part, double amount);

#endif
