// SPDX-License-Identifier: GPL-3.0-or-later
// What chat.c and chat_branches.c share.
#ifndef MOECHAT_APP_TALK_CHAT_PARTS_H
#define MOECHAT_APP_TALK_CHAT_PARTS_H

#include "app/talk/chat.h"

// Takes a turn over for the other branches, which have room for one more. One that was fed under no number is
// forgotten.
void chat_put_aside(struct chat *chat, struct chat_turn *turn);

#endif
