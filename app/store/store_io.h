// SPDX-License-Identifier: GPL-3.0-or-later
// How the session store reaches the disk: a table of calls, so that a test can fail or kill at each of them. All
// behave as the system calls of their names (-1 and errno), reads and writes at an offset. store_io_posix follows no
// link in the last name of a path, nor in that of the folder it stands in (a folder's link: ENOTDIR, a file's: ELOOP),
// and opens nothing but regular files and, with O_DIRECTORY, folders (ENOTSUP).
#ifndef MOECHAT_APP_STORE_STORE_IO_H
#define MOECHAT_APP_STORE_STORE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "app/util/files.h"

struct store_io {
    int (*open)(void *context, const char *path, int flags);
    int (*close)(void *context, int fd);
    ptrdiff_t (*read)(void *context, int fd, void *target, size_t length, uint64_t offset);
    ptrdiff_t (*write)(void *context, int fd, const void *source, size_t length, uint64_t offset);
    int (*sync)(void *context, int fd);
    int (*truncate)(void *context, int fd, uint64_t length);
    int (*rename)(void *context, const char *from, const char *to);
    int (*unlink)(void *context, const char *path);
    int (*mkdir)(void *context, const char *path);
    int (*rmdir)(void *context, const char *path);
    void *context;
};

extern const struct store_io store_io_posix; // files 0600, folders 0700

// 0 or an errno, all of them. Short reads and writes and EINTR are resumed.
int store_io_write(const struct store_io *io, int fd, const void *data, size_t length, uint64_t offset);
// Reads a whole file, at most `limit` bytes (EFBIG).
int store_io_read(const struct store_io *io, const char *path, size_t limit, struct bytes *bytes);
int store_io_sync_folder(const struct store_io *io, const char *path);
// A new, empty file of ours: what stands there is no longer that name's, such as a file that has others. -1 with errno.
int store_io_create(const struct store_io *io, const char *path, int how);
// Puts a whole file in the place of `folder`/`name`: written beside it, synced, renamed, the folder synced. *switched
// says whether the new one may stand there already, whatever failed.
struct store_io_file {
    const char *folder, *name;
    const void *data;
    size_t length;
};
int store_io_replace(const struct store_io *io, const struct store_io_file *file, bool *switched);

#endif
