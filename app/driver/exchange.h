// SPDX-License-Identifier: GPL-3.0-or-later
// A message and its answer, one turn: the prompt is placed in the timeline, saved, read and answered, so that what was
// shown is on the disk before anybody is told that it has ended, and so that a turn that comes to nothing leaves all as
// it was. The engine's thread alone, but for the answer's `cancelled`.
#ifndef MOECHAT_APP_DRIVER_EXCHANGE_H
#define MOECHAT_APP_DRIVER_EXCHANGE_H

#include "app/driver/answer.h"
#include "app/driver/keeper.h"

// Zero-initialise but for the first four and what the answer wants.
struct exchange {
    const struct backend *backend;
    struct timeline *timeline;
    struct steps *steps;
    struct keeper *keeper;
    struct answer answer;
    uint32_t read_before; // of the prompt under way, by earlier tries
};
void exchange_release(struct exchange *exchange);
// Its result goes with EVENT_DONE; where turns are saved the keeper has news of it then.
void exchange_take(struct exchange *exchange, struct turn *turn);

#endif
