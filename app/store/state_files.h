// SPDX-License-Identifier: GPL-3.0-or-later
// States of a saved conversation on disk, of models whose layers have any: a few, each a record in a file of its own,
// so that old ones go as new ones come. Which of the files are the conversation's the manifest says; a file that a
// manifest on the disk may name is never written to.
#ifndef MOECHAT_APP_STORE_STATE_FILES_H
#define MOECHAT_APP_STORE_STATE_FILES_H

#include "app/store/saved.h"

struct state_files {
    const struct store *store;
    const char *name; // the session's
    unsigned taken;   // bit i: a manifest on the disk may name file i
};

// The files that a manifest names.
unsigned state_files_named(const struct manifest *manifest);
// Saves the states that the engine has after rows->borders and rows->length tokens, and names them; the oldest go where
// there are as many as are kept. Nothing to do when they are there. False: why says why not, and what failed is not
// named.
bool state_files_save(const struct state_files *files, struct manifest *manifest, const struct saved_rows *rows,
                      char *why, size_t size);
// Removes the files that are named and not taken: their manifest did not get to the disk.
void state_files_take_back(const struct state_files *files, const struct manifest *manifest);
// A manifest is safe: what it does not name goes.
void state_files_settle(struct state_files *files, const struct manifest *manifest);

#endif
