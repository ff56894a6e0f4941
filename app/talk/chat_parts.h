// SPDX-License-Identifier: GPL-3.0-or-later
// What the files of a chat share. For chat*.c alone.
#ifndef MOECHAT_APP_TALK_CHAT_PARTS_H
#define MOECHAT_APP_TALK_CHAT_PARTS_H

#include "app/talk/chat.h"

// Takes a turn over for the other branches, which have room for one more. One that was fed under no number is
// forgotten.
void chat_put_aside(struct chat *chat, struct chat_turn *turn);

// The same, with room made. False: without memory it is forgotten here; on the disk it stays.
bool chat_keep_aside(struct chat *chat, struct chat_turn *turn);
void chat_turn_release(struct chat_turn *turn);
// False: no memory.
bool chat_insert_turn(struct chat *chat, size_t at, enum tok_role role, const struct tok_turn *what);
bool chat_copy_ids(struct tok_ids *list, const int32_t *ids, size_t count);
size_t chat_first_unfed(const struct chat *chat);
// Is the first message to be fed behind another beginning than the one that it was said behind?
bool chat_begins_otherwise(const struct chat *chat);

bool chat_is_followed(const struct chat *chat, int64_t number); // by one of another branch

// Finds which parts of a saved conversation are the same, fed otherwise (chat_turn.said). False: no memory.
bool chat_find_same(struct chat *chat);
// chat_end_of behind that very part.
int64_t chat_end_behind(const struct chat *chat, int64_t number);

#endif
