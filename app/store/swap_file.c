// SPDX-License-Identifier: GPL-3.0-or-later
// The first block of a swap file, as vim writes it, and nano where it locks what it edits.
#include "app/store/swap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { EDITOR = 2, PROCESS = 24, HOST = 68, HOST_SIZE = 40, CHANGED = 1007, IS_CHANGED = 0x55, HEAD = 1024 };

bool swap_file_is(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    const char *end = length > SWAP_FILE_END ? name + length - SWAP_FILE_END : "";
    return name[0] == '.' && strncmp(end, ".sw", 3) == 0 && end[3] >= 'a' && end[3] <= 'p';
}

bool swap_file_path(char *out, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    return snprintf(out, size, "%.*s.%s.swp", folder, path, path + folder) < (int)size;
}

// Has it ended without anybody who took note? Its number is taken for as long, where the first process, as in many a
// container, takes no note of those that nobody waits for: an editor whose shell was killed with it.
static bool is_defunct(pid_t process)
{
    char path[40], text[128]; // a name has 15 bytes at most, between parentheses
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end && strncmp(end, ") Z", 3) == 0;
}

// Another machine's, or container's, whose processes we don't know. "": it does not say. Of a longer name it has as
// much as there is room for; gethostname would fail then.
static bool is_foreign(const unsigned char *head)
{
    char there[HOST_SIZE] = "";
    struct utsname here;
    memcpy(there, head + HOST, sizeof there - 1);
    return *there && (uname(&here) < 0 || strncmp(here.nodename, there, sizeof there - 1) != 0);
}

// The number of its process is written with the lowest byte first.
static bool lives(const unsigned char *head)
{
    if (is_foreign(head))
        return true;
    uint32_t process = 0;
    for (int i = 3; i >= 0; i--)
        process = process << 8 | head[PROCESS + i];
    bool there = process > 0 && process <= INT32_MAX && (kill((pid_t)process, 0) == 0 || errno != ESRCH);
    return there && !is_defunct((pid_t)process);
}

bool swap_file_holds(int folder, const char *name)
{
    struct stat about;
    unsigned char head[HEAD] = {0};
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ours = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid();
    ssize_t got = ours ? pread(fd, head, sizeof head, 0) : -1;
    close(fd);
    bool known = got == HEAD && head[0] == 'b', left = got == 0 || (known && !lives(head));
    bool holds = left && head[CHANGED] == IS_CHANGED && memcmp(head + EDITOR, "VIM", 3) == 0;
    if (left && !holds)
        unlinkat(folder, name, 0);
    return holds;
}
