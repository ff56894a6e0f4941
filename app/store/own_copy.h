// SPDX-License-Identifier: GPL-3.0-or-later
// A session's files that have other names, as cp -al, rsync --link-dest and programs that join equal files make them:
// they are what another folder says of its conversation, and what is cut or written here would be lost there.
#ifndef MOECHAT_APP_STORE_OWN_COPY_H
#define MOECHAT_APP_STORE_OWN_COPY_H

#include "app/store/store.h"

#define OWN_COPY_NEW "copy.new" // in a session's folder, until it has its name

// Before anything is written into a session that is locked: files of it that have other names are replaced by copies,
// synced before they get the name. On failure the session is as it was.
enum store_code own_copy_all(const struct store *store, const char *name, struct store_error *error);

#endif
