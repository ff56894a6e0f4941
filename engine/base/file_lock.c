// SPDX-License-Identifier: GPL-3.0-or-later
// flock, and who has it.
#define _GNU_SOURCE
#include "engine/base/file_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "engine/base/err.h"

struct holder {
    long process; // 0: unknown, as where another one's is hidden or the file system hides its device
    bool reads;
    char name[16]; // of its program, "" where that is unknown or nothing to show
};

static void find_name(struct holder *holder)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%ld/comm", holder->process);
    FILE *comm = fopen(path, "re");
    if (comm && fgets(holder->name, sizeof holder->name, comm))
        holder->name[strcspn(holder->name, "\n")] = 0;
    if (comm)
        fclose(comm);
    for (const char *c = holder->name; *c; c++)
        if (*c < ' ' || *c > '~') { // it names itself
            *holder->name = 0;
            return;
        }
}

// By the system's list: "1: FLOCK  ADVISORY  WRITE 4711 fe:01:123456 0 EOF".
static struct holder find_holder(int fd)
{
    struct holder holder = {0};
    struct stat file;
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    if (locks && fstat(fd, &file) == 0)
        while (!holder.process && fgets(line, sizeof line, locks)) {
            char mode[8];
            long process;
            unsigned major_number, minor_number;
            uint64_t inode;
            if (sscanf(line, "%*d: FLOCK ADVISORY %7s %ld %x:%x:%" SCNu64, mode, &process, &major_number, &minor_number,
                       &inode) == 5 &&
                inode == file.st_ino && makedev(major_number, minor_number) == file.st_dev && process > 0)
                holder = (struct holder){.process = process, .reads = strcmp(mode, "READ") == 0};
        }
    if (locks)
        fclose(locks);
    if (holder.process)
        find_name(&holder);
    return holder;
}

static int lock(int fd, int how)
{
    int code;
    do
        code = flock(fd, how | LOCK_NB);
    while (code && errno == EINTR);
    return code ? errno : 0;
}

// Whoever holds it and calls itself otherwise (a backup, flock(1)) is no conversion of ours.
static bool consumes(const struct holder *holder)
{
    return !holder->reads && (!*holder->name || strcmp(holder->name, "moechat") == 0);
}

static int refuse(const struct holder *holder, const char *path, const char *remedy, struct moe_err *err)
{
    char who[64] = "another process", what[256];
    if (*holder->name && !consumes(holder))
        snprintf(who, sizeof who, "process %ld (%s)", holder->process, holder->name);
    else if (holder->process)
        snprintf(who, sizeof who, "process %ld", holder->process);
    snprintf(what, sizeof what, "is being %s by %s%s",
             holder->reads      ? "read"
             : consumes(holder) ? "consumed"
                                : "kept locked",
             who, remedy);
    return moe_fail_file(err, MOE_BAD_ARGUMENT, path, 0, what);
}

int file_lock_shared(int fd, const char *path, struct moe_err *err)
{
    if (lock(fd, LOCK_SH) != EWOULDBLOCK)
        return MOE_OK;
    struct holder holder = find_holder(fd);
    if (!consumes(&holder))
        return refuse(&holder, path, ": wait for it, or end it", err);
    int code = refuse(&holder, path,
                      " (moechat convert --consume), so its weights are going: wait for it, and use its package", err);
    return moe_fail_for(err, MOE_CAUSE_CONSUMED, code);
}

int file_lock_alone(int fd, const char *path, struct moe_err *err)
{
    int failed = lock(fd, LOCK_EX);
    struct holder holder = failed == EWOULDBLOCK ? find_holder(fd) : (struct holder){0};
    if (failed == EWOULDBLOCK)
        return refuse(&holder, path, ", which would lose its weights: end it first", err);
    return failed ? moe_fail_file(err, MOE_IO, path, failed, "cannot be locked") : MOE_OK;
}
