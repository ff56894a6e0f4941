// SPDX-License-Identifier: GPL-3.0-or-later
// What store.c and store_list.c share; nobody else looks in.
#ifndef MOECHAT_APP_STORE_STORE_PARTS_H
#define MOECHAT_APP_STORE_STORE_PARTS_H

#include <time.h>

#include "app/store/store.h"

enum store_code store_succeed(struct store_error *error);
enum store_code store_fail_denied(const char *path, int folder, int code, struct store_error *error);
// Of a file that is there; *modified (NULL: not asked) is left as it was where it is not.
uint64_t store_file_bytes(const struct store *store, const char *name, const char *file, struct timespec *modified);
bool store_is_folder(const struct store *store, const char *name); // false and errno ENOTDIR: something else is there
bool store_is_gone(const char *name);                              // a folder on its way out
// Empties and removes such a one. Of a link, the link: what it leads to is none of ours. 0, or an errno where something
// is left.
int store_sweep_away(const struct store *store, const char *name);

#endif
