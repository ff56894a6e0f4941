// SPDX-License-Identifier: GPL-3.0-or-later
// Compares a file with what it was.
#define _GNU_SOURCE // O_PATH
#include "app/store/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void own_file_release(struct own_file *file)
{
    if (file->state == OWN_FILE_THERE)
        close(file->fd);
    *file = (struct own_file){0};
}

void own_file_note(struct own_file *file, const char *path)
{
    struct stat about;
    own_file_release(file);
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        file->state = OWN_FILE_ABSENT;
    else if (fd >= 0 && fstat(fd, &about) == 0)
        *file = (struct own_file){OWN_FILE_THERE, fd, (uint64_t)about.st_size};
    else if (fd >= 0)
        close(fd);
}

const char *own_file_changed(const struct own_file *file, const char *path)
{
    struct stat ours, now;
    bool there = lstat(path, &now) == 0;
    if (file->state == OWN_FILE_UNKNOWN || (!there && errno != ENOENT))
        return NULL;
    if (file->state == OWN_FILE_ABSENT)
        return there ? "was not there before" : NULL;
    if (!there)
        return "is gone";
    if (fstat(file->fd, &ours) != 0)
        return NULL;
    uint64_t size = (uint64_t)now.st_size;
    return now.st_ino != ours.st_ino || now.st_dev != ours.st_dev ? "was replaced"
           : size < file->size                                    ? "is shorter than it was"
           : size > file->size                                    ? "is longer than it was"
                                                                  : NULL;
}
