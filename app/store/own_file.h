// SPDX-License-Identifier: GPL-3.0-or-later
// A file as an open session left it, to be told from what another program put in its place or made of it since. It is
// held open, so that its number (inode) stays its own; nothing is read.
#ifndef MOECHAT_APP_STORE_OWN_FILE_H
#define MOECHAT_APP_STORE_OWN_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum own_file_state { OWN_FILE_UNKNOWN, OWN_FILE_ABSENT, OWN_FILE_THERE };
// Zero-initialise; to be released.
struct own_file {
    enum own_file_state state;
    int fd; // of OWN_FILE_THERE
    uint64_t size;
};
void own_file_release(struct own_file *file);
// Takes down how the file is now. What can't be looked at is not known.
void own_file_note(struct own_file *file, const char *path);
// What became of it, such as "is shorter than it was". NULL: it is as it was, or that can't be told.
const char *own_file_changed(const struct own_file *file, const char *path);

#endif
