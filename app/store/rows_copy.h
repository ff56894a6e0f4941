// SPDX-License-Identifier: GPL-3.0-or-later
// Rows of a session without the dead bytes between them: copied to the other one of its two files, so that the old one
// stays until a manifest names the new one.
#ifndef MOECHAT_APP_STORE_ROWS_COPY_H
#define MOECHAT_APP_STORE_ROWS_COPY_H

#include "app/store/store.h"

// The rows of a manifest, in lists of its own, to be released. False: no memory.
bool rows_copy_lists(const struct manifest *manifest, struct manifest *copy);
// Copies the records that are named to the other file, of that session; *manifest gets their new places. 0 or errno.
int rows_copy(const struct store *store, const char *name, struct manifest *manifest);
// Exchanges the rows that two manifests name.
void rows_swap(struct manifest *a, struct manifest *b);

#endif
