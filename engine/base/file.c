// SPDX-License-Identifier: GPL-3.0-or-later
// Opens regular files and reads ranges of them whole.
#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"

// A few lines of text, in the place of a file that was not fetched: its version, checksum and size.
static bool is_lfs_pointer(int fd, uint64_t bytes)
{
    static const char head[] = "version https://git-lfs.github.com/spec/";
    char read[sizeof head - 1];
    return bytes >= sizeof read && bytes < 1024 && pread(fd, read, sizeof read, 0) == (ssize_t)sizeof read &&
           memcmp(read, head, sizeof read) == 0;
}

const char *file_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void file_folder(const char *path, char *folder, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    else
        snprintf(folder, size, ".");
}

int file_open(const char *path, int *fd, uint64_t *bytes, struct moe_err *err)
{
    // O_NONBLOCK: opening a pipe must not wait for its writer before we refuse it.
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        bool missing = errno == ENOENT || errno == ENOTDIR;
        return moe_fail_file(err, missing ? MOE_NOT_FOUND : MOE_IO, path, errno, "cannot be opened");
    }
    struct stat status;
    if (fstat(*fd, &status) == 0 && S_ISREG(status.st_mode)) {
        *bytes = (uint64_t)status.st_size;
        if (!is_lfs_pointer(*fd, *bytes))
            return MOE_OK;
        close(*fd);
        *fd = -1;
        int code =
            moe_fail_file(err, MOE_NOT_FOUND, path, 0,
                          "is a Git LFS pointer, the file itself was not fetched; run git lfs pull in its folder");
        return moe_fail_for(err, MOE_CAUSE_POINTER, code);
    }
    close(*fd);
    *fd = -1;
    return moe_fail_file(err, MOE_FORMAT, path, 0, "is not a regular file (links to files are fine)");
}

int file_read(const struct file_range *range, void *target, struct moe_err *err)
{
    size_t done = 0;
    while (done < range->bytes) {
        ssize_t got =
            pread(range->fd, (char *)target + done, range->bytes - done, (off_t)(range->offset + (uint64_t)done));
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        int sys_errno = got < 0 ? errno : 0;
        moe_fail_file(err, MOE_IO, range->path, sys_errno,
                      got < 0 ? "cannot be read" : "is too short; download it again");
        if (err)
            err->offset = range->offset + (uint64_t)done;
        return MOE_IO;
    }
    return MOE_OK;
}

int file_sync(int fd)
{
    int code;
    do
        code = fsync(fd);
    while (code && errno == EINTR);
    return code;
}

int file_make_durable(const char *directory, struct moe_err *err)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return moe_fail_file(err, MOE_IO, directory, errno, "cannot be opened");
    int code =
        file_sync(fd) && errno != EINVAL ? moe_fail_file(err, MOE_IO, directory, errno, "cannot be synced to disk") : 0;
    close(fd);
    return code;
}
