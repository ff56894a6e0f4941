// SPDX-License-Identifier: GPL-3.0-or-later
// Regular files that are only read: opened with their size, read whole ranges at a time.
#ifndef MOECHAT_ENGINE_BASE_FILE_H
#define MOECHAT_ENGINE_BASE_FILE_H

#include "engine/moe.h"

// Opens a regular file (a symlink to one is fine) and tells its size. The caller closes *fd. MOE_NOT_FOUND when it is
// not there, or is what Git LFS has left in its place; MOE_IO when it cannot be opened, MOE_FORMAT when it is a folder,
// a pipe or a device.
int file_open(const char *path, int *fd, uint64_t *bytes, struct moe_err *err);

const char *file_base_name(const char *path); // behind its last slash
// The folder that it is in: what stands before its last slash, "/" in the root, "." where it has none. Cut to size.
void file_folder(const char *path, char *folder, size_t size);

// Syncs a file; a signal that comes meanwhile is no error. As fsync.
int file_sync(int fd);
// Syncs a directory, so that the names in it last.
int file_make_durable(const char *directory, struct moe_err *err);

// A range of an open file; `path` is for messages.
struct file_range {
    int fd;
    const char *path;
    uint64_t offset;
    size_t bytes;
};
// Reads all of the range into target, resuming short reads. MOE_IO with file, offset and errno.
int file_read(const struct file_range *range, void *target, struct moe_err *err);

#endif
