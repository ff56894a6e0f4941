// SPDX-License-Identifier: GPL-3.0-or-later
// Goes to another place in the conversation that is under way, or to another one. The engine's thread alone.
#ifndef MOECHAT_APP_DRIVER_MOVE_H
#define MOECHAT_APP_DRIVER_MOVE_H

#include "app/driver/keeper.h"
#include "app/driver/timeline.h"

struct worker_place;
struct worker_session;

// See worker_go: brings the timeline to the ids of the place, which are released, and the session on the disk there,
// too. What must be read again or is lost goes to the keeper's news.
void move_conversation(struct keeper *keeper, struct timeline *timeline, struct worker_place *place);
// See worker_open_session: leaves the session that was open, and reads back what the other one has.
void move_to_session(struct keeper *keeper, struct timeline *timeline, struct worker_session *session);

#endif
