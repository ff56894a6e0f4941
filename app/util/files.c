// SPDX-License-Identifier: GPL-3.0-or-later
// Reads files whole, replaces them whole, and knows the folders of the XDG specification.
#include "app/util/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/util/report.h"

#ifndef MOECHAT_DATADIR
#error "MOECHAT_DATADIR is where the installed demo model's folder lies, such as /usr/local/share/moechat"
#endif

void bytes_release(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

bool bytes_without_zeros(struct bytes *bytes)
{
    bool had = false;
    for (size_t i = 0; i < bytes->length; i++)
        if (!bytes->data[i]) {
            bytes->data[i] = '\n';
            had = true;
        }
    return had;
}

bool bytes_have_text(const struct bytes *bytes, const char *text)
{
    for (size_t at = 0; at < bytes->length; at += strlen(bytes->data + at) + 1)
        if (strcmp(bytes->data + at, text) == 0)
            return true;
    return false;
}

bool bytes_append(struct bytes *bytes, const void *data, size_t length)
{
    if (length >= bytes->capacity - bytes->length) {
        size_t capacity = bytes->capacity + bytes->capacity / 2;
        if (capacity < bytes->length + length + 1)
            capacity = bytes->length + length + 64;
        char *grown = realloc(bytes->data, capacity);
        if (!grown)
            return false;
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    if (length)
        memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
    bytes->data[bytes->length] = 0;
    return true;
}

int files_read_fd(int fd, size_t limit, struct bytes *bytes)
{
    char block[16384];
    if (!bytes_append(bytes, "", 0))
        return ENOMEM;
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            return 0;
        if ((size_t)got > limit - bytes->length)
            return EFBIG;
        if (!bytes_append(bytes, block, (size_t)got))
            return ENOMEM;
    }
}

bool files_may_open(unsigned count, unsigned *most)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count)
        return true;
    *most = (unsigned)limit.rlim_cur;
    limit.rlim_cur = count;
    return limit.rlim_max >= count && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool files_is_pipe(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISFIFO(about.st_mode);
}

bool files_waits_as_pipe(const char *path)
{
    static const char *const open_here[] = {"/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/self/fd/"};
    bool here = false;
    if (!files_is_pipe(path))
        return false;
    for (size_t i = 0; i < sizeof open_here / sizeof *open_here; i++)
        here = here || strncmp(path, open_here[i], strlen(open_here[i])) == 0;
    int fd = here ? open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

int files_read(const char *path, size_t limit, struct bytes *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int code = files_read_fd(fd, limit, bytes);
    close(fd);
    return code;
}

int files_read_regular(const char *path, size_t limit, struct bytes *bytes)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENXIO ? ESPIPE : errno; // a socket
    int code = fstat(fd, &about) != 0 ? errno : S_ISDIR(about.st_mode) ? EISDIR : S_ISREG(about.st_mode) ? 0 : ESPIPE;
    if (code == 0)
        code = files_read_fd(fd, limit, bytes);
    close(fd);
    return code;
}

ssize_t files_write_some(int fd, const void *data, size_t length)
{
    ssize_t wrote;
    while ((wrote = write(fd, data, length)) < 0 && errno == EAGAIN) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        poll(&ready, 1, -1);
    }
    return wrote;
}

int files_write(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length > 0) {
        ssize_t wrote = files_write_some(fd, at, length);
        if (wrote < 0 && errno != EINTR)
            return errno;
        if (wrote > 0) {
            at += wrote;
            length -= (size_t)wrote;
        }
    }
    return 0;
}

// A pipe or device, to be written to. -1 and errno; ENXIO: a pipe that nobody reads.
static int open_special(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

// Where a file of that name is to be, through links. malloc'd; NULL with errno.
static char *real_path(const char *path)
{
    struct stat about;
    bool link = lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
    return link ? realpath(path, NULL) : strdup(path);
}

int files_create(struct new_file *file, const char *path)
{
    struct stat there;
    bool is_there = stat(path, &there) == 0, special = is_there && !S_ISREG(there.st_mode);
    *file = (struct new_file){.fd = -1, .path = special ? strdup(path) : real_path(path)};
    int code = errno;
    if (!file->path)
        goto discard;
    code = ENOENT;
    if (!*path)
        goto discard;
    if (special) { // a pipe or device is written to, never replaced
        file->fd = open_special(path);
        code = errno;
        if (file->fd < 0)
            goto discard;
        return 0;
    }
    size_t size = strlen(file->path) + 16;
    code = ENOMEM;
    file->temporary = malloc(size);
    if (!file->temporary)
        goto discard;
    snprintf(file->temporary, size, "%s.XXXXXX", file->path);
    file->fd = mkstemp(file->temporary);
    code = errno;
    if (file->fd < 0)
        goto discard;
    mode_t mask = umask(0);
    umask(mask);
    if (is_there && fchown(file->fd, (uid_t)-1, there.st_gid) != 0)
        there.st_mode &= ~(mode_t)S_IRWXG; // not ours to give: what its group may do is not another's
    fchmod(file->fd, is_there ? there.st_mode & 0777 : 0666 & ~mask); // as a shell's > would, not mkstemp's 0600
    fcntl(file->fd, F_SETFD, FD_CLOEXEC);
    return 0;
discard:
    files_discard(file);
    return code;
}

int files_write_at(struct new_file *file, const void *data, size_t length, uint64_t offset)
{
    if (!file->temporary)
        return files_write(file->fd, data, length);
    const char *at = data;
    while (length > 0) {
        ssize_t wrote = pwrite(file->fd, at, length, (off_t)offset);
        if (wrote < 0 && errno != EINTR)
            return errno;
        if (wrote > 0) {
            at += wrote;
            offset += (uint64_t)wrote;
            length -= (size_t)wrote;
        }
    }
    return 0;
}

int files_commit(struct new_file *file)
{
    int code = file->temporary && fsync(file->fd) != 0 ? errno : 0;
    if (close(file->fd) != 0 && code == 0)
        code = errno;
    file->fd = -1;
    if (code == 0 && file->temporary && rename(file->temporary, file->path) != 0)
        code = errno;
    if (code == 0) {
        free(file->temporary);
        file->temporary = NULL;
    }
    files_discard(file);
    return code;
}

void files_discard(struct new_file *file)
{
    if (file->path && file->fd >= 0)
        close(file->fd);
    if (file->temporary)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct new_file){.fd = -1};
}

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 1;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s", folder, name);
    return path;
}

char *files_model(const char *named)
{
    if (named)
        return join(named, "");
    // Beside the program in a source tree; then the folder of an installation, which may have been moved as a whole.
    static const char *const places[] = {"/models/demo", "/../share/moechat/models/demo"};
    char *program = realpath("/proc/self/exe", NULL);
    char *slash = program ? strrchr(program, '/') : NULL, *found = NULL;
    if (slash)
        *slash = 0;
    for (size_t i = 0; slash && !found && i < sizeof places / sizeof places[0]; i++) {
        char *folder = join(program, places[i]);
        char *manifest = folder ? join(folder, "/model.json") : NULL;
        if (manifest && access(manifest, F_OK) == 0)
            found = folder;
        else
            free(folder);
        free(manifest);
    }
    free(program);
    return found ? found : join(MOECHAT_DATADIR, "/models/demo");
}

// Makes a folder and those above it; ours are private, as the XDG specification asks.
static bool make_folders(char *path)
{
    for (char *c = path + (*path != 0); *c; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        int failed = mkdir(path, 0700);
        *c = '/';
        if (failed && errno != EEXIST && errno != EROFS && errno != EACCES)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

char *files_place(const struct files_place *place)
{
    const char *folder = getenv(place->variable), *home = getenv("HOME"), *between = "";
    if (!folder || folder[0] != '/') { // the specification says to ignore others
        folder = home;
        between = place->otherwise;
    }
    errno = ENOENT;
    if (!folder || folder[0] != '/')
        return NULL;
    size_t size = strlen(folder) + strlen(between) + strlen(place->name) + sizeof "//moechat/";
    char *path = malloc(size);
    if (!path)
        return NULL;
    snprintf(path, size, "%s%s%s/moechat", folder, *between ? "/" : "", between);
    if (place->make && !make_folders(path)) {
        free(path);
        return NULL;
    }
    size_t length = strlen(path);
    snprintf(path + length, size - length, "/%s", place->name);
    return path;
}

char *files_kernel_cache(const char *wanted)
{
    if (wanted && strcmp(wanted, "none") == 0)
        return NULL;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (wanted)
        path = join(wanted, "");
    else if (cache && cache[0] == '/') // the specification says to ignore others
        path = join(cache, "/moechat/kernels");
    else if (home && home[0] == '/')
        path = join(home, "/.cache/moechat/kernels");
    const char *why = !path || make_folders(path) ? NULL : strerror(errno);
    struct stat about;
    if (path && !why && stat(path, &about) == 0) { // the kernels' room refuses these: what is in there will be run
        if (about.st_uid != geteuid() && about.st_uid != 0)
            why = "it belongs to another user";
        else if (about.st_mode & (S_IWGRP | S_IWOTH))
            why = "others may write to it (chmod go-w)";
    }
    if (!why)
        return path;
    report("cannot cache kernels in \"%s\": %s; every start will rebuild them (--kernel-cache sets another folder)",
           path, why);
    free(path);
    return NULL;
}
