// SPDX-License-Identifier: GPL-3.0-or-later
// What chat.c and chat_branches.c share.
#ifndef MOECHAT_APP_TALK_CHAT_PARTS_H
#define MOECHAT_APP_TALK_CHAT_PARTS_H

#include "app/talk/chat.h"

// Takes a turn over for the other branches, which have room for one more. One that was fed under no number is
// forgotten.
void chat_put_aside(struct chat *chat, struct chat_turn *turn);

bool chat_is_followed(const struct chat *chat, int64_t number); // by one of another branch

// Finds which parts of a saved conversation are the same, fed otherwise (chat_turn.said). False: no memory.
bool chat_find_same(struct chat *chat);
// chat_end_of behind that very part.
int64_t chat_end_behind(const struct chat *chat, int64_t number);

#endif
