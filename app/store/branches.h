// SPDX-License-Identifier: GPL-3.0-or-later
// The branches of a saved conversation: what was said and then taken back, answered or edited again is kept beside what
// is under way, with its rows, and can be gone back to. A branch is a part and those it follows; what branches share is
// there once. Changes a manifest in memory; pure.
#ifndef MOECHAT_APP_STORE_BRANCHES_H
#define MOECHAT_APP_STORE_BRANCHES_H

#include "app/store/manifest.h"

// Ends the conversation after so many parts, if it has more; the others and their rows become a branch. Takes no
// memory, so that nothing that was said depends on it.
void branches_cut(struct manifest *manifest, size_t n_parts);
// Makes the branch that ends with that part the conversation, with those of its rows that are there; PART_NONE: nothing
// was said. A system message that nothing follows is left behind for good. False: there is no such part, and nothing
// has changed. Takes no memory.
bool branches_go(struct manifest *manifest, int64_t last);
// Forgets a part that is not of the conversation, with its rows. False: it is, or others follow it.
bool branches_drop(struct manifest *manifest, int64_t number);
// Forgets all that is not of the conversation.
void branches_prune(struct manifest *manifest);
// How many there are: the conversation is one, and each message or answer of another that nothing follows ends one
// more. So after an undo there are two, though one begins the other.
size_t branches_count(const struct manifest *manifest);
// What /redo would bring back: the newest part that follows what was taken back last, or its last part, if that follows
// the conversation's end; else the newest part that does; where nothing was said all do. *n_parts of them lead to it.
// PART_NONE: there is nothing.
int64_t branches_ahead(const struct manifest *manifest, size_t *n_parts);
uint64_t branches_bytes(const struct manifest *manifest); // of the lines and rows that are not the conversation's

#endif
