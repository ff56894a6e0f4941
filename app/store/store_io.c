// SPDX-License-Identifier: GPL-3.0-or-later
// Calls to the disk behind a table, so that tests can make each of them fail.
#define _GNU_SOURCE // O_PATH
#include "app/store/store_io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The folder in which a path's last name stands; it may not be a link itself: a planted one would lead us to files of
// somebody else's. -1 and errno; to be closed.
static int open_parent(const char *path, const char **name)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof folder || !*path) {
        errno = *path ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    *name = slash ? slash + 1 : path;
    memcpy(folder, path, length);
    folder[length] = 0;
    const char *opened = length ? folder : slash ? "/" : ".";
    return open(opened, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// After a call that may have failed, whose errno stays.
static int close_parent(int folder, int result)
{
    int kept = errno;
    if (folder >= 0)
        close(folder);
    errno = kept;
    return result;
}

static int posix_open(void *context, const char *path, int flags)
{
    (void)context;
    const char *name;
    int folder = open_parent(path, &name);
    if (folder < 0)
        return -1;
    // O_NONBLOCK: a pipe in a file's place must not make us wait.
    int fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat about;
    if (fd >= 0 && !(flags & O_DIRECTORY) && fstat(fd, &about) == 0 && !S_ISREG(about.st_mode)) {
        close(fd);
        fd = -1;
        errno = ENOTSUP;
    }
    return close_parent(folder, fd);
}

static int posix_close(void *context, int fd)
{
    (void)context;
    return close(fd);
}

static ptrdiff_t posix_read(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    (void)context;
    return pread(fd, target, length, (off_t)offset);
}

static ptrdiff_t posix_write(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    (void)context;
    return pwrite(fd, source, length, (off_t)offset);
}

static int posix_sync(void *context, int fd)
{
    (void)context;
    return fsync(fd);
}

static int posix_truncate(void *context, int fd, uint64_t length)
{
    (void)context;
    return ftruncate(fd, (off_t)length);
}

static int posix_rename(void *context, const char *from, const char *to)
{
    (void)context;
    const char *old, *new;
    int source = open_parent(from, &old), target = source >= 0 ? open_parent(to, &new) : -1;
    int result = target >= 0 ? renameat(source, old, target, new) : -1;
    return close_parent(source, close_parent(target, result));
}

static int posix_unlink(void *context, const char *path)
{
    (void)context;
    const char *name;
    int folder = open_parent(path, &name);
    return close_parent(folder, folder >= 0 ? unlinkat(folder, name, 0) : -1);
}

static int posix_mkdir(void *context, const char *path)
{
    (void)context;
    return mkdir(path, 0700);
}

static int posix_rmdir(void *context, const char *path)
{
    (void)context;
    return rmdir(path);
}

const struct store_io store_io_posix = {
    .open = posix_open,
    .close = posix_close,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .truncate = posix_truncate,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .rmdir = posix_rmdir,
};

int store_io_write(const struct store_io *io, int fd, const void *data, size_t length, uint64_t offset)
{
    const char *at = data;
    while (length > 0) {
        ptrdiff_t wrote = io->write(io->context, fd, at, length, offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return wrote < 0 ? errno : EIO;
        at += wrote;
        offset += (uint64_t)wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

int store_io_read(const struct store_io *io, const char *path, size_t limit, struct bytes *bytes)
{
    char block[16384];
    int fd = io->open(io->context, path, O_RDONLY);
    if (fd < 0)
        return errno;
    int code = bytes_append(bytes, "", 0) ? 0 : ENOMEM;
    while (code == 0) {
        ptrdiff_t got = io->read(io->context, fd, block, sizeof block, bytes->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            code = got < 0 ? errno : 0;
            break;
        }
        if ((size_t)got > limit - bytes->length)
            code = EFBIG;
        else if (!bytes_append(bytes, block, (size_t)got))
            code = ENOMEM;
    }
    io->close(io->context, fd);
    return code;
}

int store_io_sync_folder(const struct store_io *io, const char *path)
{
    int fd = io->open(io->context, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return errno;
    int code = io->sync(io->context, fd) ? errno : 0;
    io->close(io->context, fd);
    return code;
}

int store_io_create(const struct store_io *io, const char *path, int how)
{
    io->unlink(io->context, path); // where that fails the file is as it was
    return io->open(io->context, path, how | O_CREAT | O_TRUNC);
}

int store_io_replace(const struct store_io *io, const struct store_io_file *file, bool *switched)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    *switched = false;
    if (snprintf(path, sizeof path, "%s/%s", file->folder, file->name) >= (int)sizeof path ||
        snprintf(temporary, sizeof temporary, "%s/%s.new", file->folder, file->name) >= (int)sizeof temporary)
        return ENAMETOOLONG;
    int fd = store_io_create(io, temporary, O_WRONLY);
    if (fd < 0)
        return errno;
    int code = store_io_write(io, fd, file->data, file->length, 0);
    if (code == 0 && io->sync(io->context, fd))
        code = errno;
    if (io->close(io->context, fd) && code == 0)
        code = errno;
    if (code == 0 && io->rename(io->context, temporary, path))
        code = errno;
    if (code) {
        io->unlink(io->context, temporary);
        return code;
    }
    *switched = true;
    return store_io_sync_folder(io, file->folder);
}
