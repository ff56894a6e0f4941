// SPDX-License-Identifier: GPL-3.0-or-later
// What vim keeps beside a file that it edits: where vim is killed it has what was not written, which vim alone can
// read. Untrusted: links and what is no file are left alone.
#ifndef MOECHAT_APP_STORE_SWAP_FILE_H
#define MOECHAT_APP_STORE_SWAP_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { SWAP_FILE_END = 4 };          // letters behind the name of the file: .swp, .swo where that was there, and on
bool swap_file_is(const char *path); // by its name
// The name of the first that vim makes beside the file at `path`. False: no room for it.
bool swap_file_path(char *out, size_t size, const char *path);
// Has it something that was not written, by an editor that has gone? One that such an editor left with nothing is
// removed; nothing else is touched. `folder` is open; or AT_FDCWD.
bool swap_file_holds(int folder, const char *name);

#endif
