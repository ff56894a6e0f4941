// SPDX-License-Identifier: GPL-3.0-or-later
// A disk that loses its power: a store_io that does what it is told in a real folder and remembers what was synced and
// what was not. At the call of that number, or when it is told to, it writes what is on the disk then into another
// folder and ends the process: what was synced, and of the rest nothing, all, or pieces chosen by chance in any order:
// sectors of writes, truncations, and entries of folders. POSIX promises no more.
#ifndef MOECHAT_POWER_RIG_H
#define MOECHAT_POWER_RIG_H

#include "tests/store_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum power_loss { POWER_DROPS, POWER_KEEPS, POWER_TEARS_512, POWER_TEARS_4096, POWER_LOSSES };
enum { POWER_NODES = 256, POWER_CHANGES = 1024, POWER_FDS = 256, POWER_NAME = 80, POWER_CUT = 9 };

enum power_kind { POWER_WRITE, POWER_TRUNCATE, POWER_LINK, POWER_UNLINK };

// A change that is not on the disk yet: of a file's bytes, or of an entry of a folder.
struct power_change {
    enum power_kind kind;
    int node;      // the file, or the folder
    size_t offset; // also a truncation's length
    char *data;
    size_t length;
    char name[POWER_NAME];
    int target; // of a link
    int group;  // both entries of a renaming are there or neither
};

struct power_entry {
    int folder, node;
    char name[POWER_NAME];
};

struct power {
    enum power_loss loss;
    unsigned random;
    int calls, at; // so far; the one at which the power goes, -1: none
    char root[128], image[128];
    struct bytes disk[POWER_NODES]; // what is synced of each file
    bool is_folder[POWER_NODES];
    int n_nodes;
    struct power_entry now[POWER_NODES], synced[POWER_NODES];
    int n_now, n_synced;
    struct power_change changes[POWER_CHANGES];
    int n_changes, n_groups;
    int fds[POWER_FDS];
};

static inline int power_fail(const char *what)
{
    printf("    the disk of power_rig.h: %s\n", what);
    fflush(stdout);
    abort();
}

static inline int power_find(const struct power_entry *entries, int count, int folder, const char *name)
{
    for (int i = 0; i < count; i++)
        if (entries[i].folder == folder && strcmp(entries[i].name, name) == 0)
            return i;
    return -1;
}

static inline void power_set(struct power_entry *entries, int *count, int folder, const char *name, int node)
{
    int i = power_find(entries, *count, folder, name);
    if (node < 0 && i >= 0)
        entries[i] = entries[--*count];
    if (node < 0)
        return;
    if (i < 0)
        i = (*count)++;
    if (i == POWER_NODES)
        power_fail("too many entries");
    entries[i].folder = folder;
    entries[i].node = node;
    snprintf(entries[i].name, sizeof entries[i].name, "%.*s", POWER_NAME - 1, name);
}

static inline int power_node(struct power *power, bool is_folder)
{
    if (power->n_nodes == POWER_NODES)
        power_fail("too many files");
    power->is_folder[power->n_nodes] = is_folder;
    return power->n_nodes++;
}

// The folder that a path's last name stands in, and that name. -1: there is none.
static inline int power_walk(const struct power *power, const char *path, char name[POWER_NAME])
{
    size_t skip = strlen(power->root);
    int folder = 0;
    if (strncmp(path, power->root, skip) != 0 || path[skip] != '/')
        return -1; // above it
    for (const char *at = path + skip + 1;;) {
        size_t length = strcspn(at, "/");
        snprintf(name, POWER_NAME, "%.*s", (int)length, at);
        if (!at[length])
            return folder;
        int i = power_find(power->now, power->n_now, folder, name);
        if (i < 0)
            return -1;
        folder = power->now[i].node;
        at += length + 1;
    }
}

static inline bool power_chance(struct power *power)
{
    power->random = power->random * 1664525u + 1013904223u;
    return power->random >> 16 & 1;
}

static inline void power_put(struct bytes *bytes, size_t offset, const char *data, size_t length)
{
    static const char zeros[4096];
    while (bytes->length < offset + length)
        bytes_append(bytes, zeros,
                     offset + length - bytes->length < sizeof zeros ? offset + length - bytes->length : sizeof zeros);
    if (length)
        memcpy(bytes->data + offset, data, length);
}

static inline void power_cut_bytes(struct bytes *bytes, size_t length)
{
    power_put(bytes, length, "", 0);
    bytes->length = length;
}

static inline void power_apply_bytes(const struct power_change *change, struct bytes *bytes)
{
    if (change->kind == POWER_WRITE)
        power_put(bytes, change->offset, change->data, change->length);
    else
        power_cut_bytes(bytes, change->offset);
}

// As the disk may have done it, when nobody asked for it.
static inline void power_apply_part(struct power *power, const struct power_change *change, struct bytes *bytes)
{
    size_t sector = power->loss == POWER_TEARS_512 ? 512 : 4096;
    if (power->loss == POWER_DROPS)
        return;
    if (power->loss == POWER_KEEPS || change->kind == POWER_TRUNCATE) {
        if (power->loss == POWER_KEEPS || power_chance(power))
            power_apply_bytes(change, bytes);
        return;
    }
    for (size_t at = change->offset, end = change->offset + change->length; at < end;) {
        size_t next = at - at % sector + sector < end ? at - at % sector + sector : end;
        if (power_chance(power))
            power_put(bytes, at, change->data + (at - change->offset), next - at);
        at = next;
    }
}

static inline void power_write_image(struct power *power, const struct power_entry *entries, int count, int folder,
                                     const char *path)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        power_fail("no folder for what is left");
    for (int i = 0; i < count; i++) {
        char below[512];
        if (entries[i].folder != folder)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, entries[i].name);
        if (power->is_folder[entries[i].node]) {
            power_write_image(power, entries, count, entries[i].node, below);
            continue;
        }
        struct bytes bytes = {0};
        const struct bytes *disk = &power->disk[entries[i].node];
        power_put(&bytes, 0, disk->data, disk->length);
        for (int k = 0; k < power->n_changes; k++)
            if (power->changes[k].kind <= POWER_TRUNCATE && power->changes[k].node == entries[i].node)
                power_apply_part(power, &power->changes[k], &bytes);
        FILE *file = fopen(below, "wb");
        if (!file || fwrite(bytes.data ? bytes.data : "", 1, bytes.length, file) != bytes.length || fclose(file))
            power_fail("no file for what is left");
        bytes_release(&bytes);
    }
}

// The power goes: what is left is in power->image.
static inline void power_lose(struct power *power)
{
    struct power_entry left[POWER_NODES];
    int count = power->n_synced, group = -1;
    bool keeps = false;
    memcpy(left, power->synced, sizeof left);
    for (int i = 0; i < power->n_changes; i++) {
        const struct power_change *change = &power->changes[i];
        if (change->kind < POWER_LINK)
            continue;
        if (change->group != group)
            keeps = power->loss != POWER_DROPS && (power->loss == POWER_KEEPS || power_chance(power));
        group = change->group;
        if (keeps)
            power_set(left, &count, change->node, change->name, change->kind == POWER_LINK ? change->target : -1);
    }
    power_write_image(power, left, count, 0, power->image);
}

static inline void power_call(struct power *power)
{
    if (power->calls++ != power->at)
        return;
    power_lose(power);
    _exit(POWER_CUT);
}

static inline struct power_change *power_change(struct power *power, enum power_kind kind, int node)
{
    if (power->n_changes == POWER_CHANGES)
        power_fail("too many changes");
    struct power_change *change = &power->changes[power->n_changes++];
    *change = (struct power_change){.node = node};
    change->kind = kind;
    return change;
}

static inline void power_change_entry(struct power *power, int folder, const char *name, int target)
{
    struct power_change *change = power_change(power, target < 0 ? POWER_UNLINK : POWER_LINK, folder);
    snprintf(change->name, sizeof change->name, "%s", name);
    change->target = target;
    change->group = power->n_groups;
    power_set(power->now, &power->n_now, folder, name, target);
}

static inline int power_open(void *context, const char *path, int flags)
{
    struct power *power = context;
    char name[POWER_NAME];
    if (flags & O_CREAT)
        power_call(power);
    int fd = store_io_posix.open(NULL, path, flags);
    if (fd < 0)
        return fd;
    if (fd >= POWER_FDS)
        power_fail("too many open files");
    int folder = power_walk(power, path, name);
    int i = folder < 0 ? -1 : power_find(power->now, power->n_now, folder, name),
        node = i < 0 ? -1 : power->now[i].node;
    if (folder < 0 && !(flags & O_DIRECTORY))
        power_fail("a file outside of it");
    if (folder < 0)
        node = 0; // the root itself or what is above it
    power->n_groups++;
    if (node < 0) {
        node = power_node(power, false);
        power_change_entry(power, folder, name, node);
    } else if (flags & O_TRUNC) {
        power_change(power, POWER_TRUNCATE, node);
    }
    power->fds[fd] = node;
    return fd;
}

static inline ptrdiff_t power_write(void *context, int fd, const void *source, size_t length, uint64_t offset)
{
    struct power *power = context;
    power_call(power);
    ptrdiff_t wrote = store_io_posix.write(NULL, fd, source, length, offset);
    if (wrote <= 0)
        return wrote;
    struct power_change *change = power_change(power, POWER_WRITE, power->fds[fd]);
    change->data = malloc((size_t)wrote);
    if (!change->data)
        abort();
    memcpy(change->data, source, (size_t)wrote);
    change->length = (size_t)wrote;
    change->offset = (size_t)offset;
    return wrote;
}

static inline int power_truncate(void *context, int fd, uint64_t length)
{
    struct power *power = context;
    power_call(power);
    power_change(power, POWER_TRUNCATE, power->fds[fd])->offset = (size_t)length;
    return store_io_posix.truncate(NULL, fd, length);
}

// All of the node's changes are on the disk now.
static inline int power_sync(void *context, int fd)
{
    struct power *power = context;
    int node = power->fds[fd], kept = 0;
    power_call(power);
    for (int i = 0; i < power->n_changes; i++) {
        struct power_change *change = &power->changes[i];
        if (change->node != node) {
            power->changes[kept++] = *change;
        } else if (change->kind >= POWER_LINK) {
            power_set(power->synced, &power->n_synced, node, change->name,
                      change->kind == POWER_LINK ? change->target : -1);
        } else {
            power_apply_bytes(change, &power->disk[node]);
            free(change->data);
        }
    }
    power->n_changes = kept;
    return 0;
}

static inline int power_rename(void *context, const char *from, const char *to)
{
    struct power *power = context;
    char old[POWER_NAME], new[POWER_NAME];
    power_call(power);
    int folder = power_walk(power, from, old), other = power_walk(power, to, new);
    if (store_io_posix.rename(NULL, from, to))
        return -1;
    int i = power_find(power->now, power->n_now, folder, old);
    if (folder != other || i < 0)
        power_fail("a renaming out of a folder");
    int node = power->now[i].node;
    power->n_groups++;
    power_change_entry(power, folder, old, -1);
    power_change_entry(power, folder, new, node);
    return 0;
}

// One entry of a folder, by one call on a path: what it names then (-1: nothing), or a new folder.
static inline int power_entry(struct power *power, const char *path, int (*call)(void *context, const char *path),
                              bool makes)
{
    char name[POWER_NAME];
    power_call(power);
    int folder = power_walk(power, path, name), result = call(NULL, path);
    power->n_groups++;
    if (result == 0)
        power_change_entry(power, folder, name, makes ? power_node(power, true) : -1);
    return result;
}

static inline int power_unlink(void *context, const char *path)
{
    return power_entry(context, path, store_io_posix.unlink, false);
}

static inline int power_mkdir(void *context, const char *path)
{
    return power_entry(context, path, store_io_posix.mkdir, true);
}

static inline int power_rmdir(void *context, const char *path)
{
    return power_entry(context, path, store_io_posix.rmdir, false);
}

// What is in a real folder is on the disk from the beginning.
static inline void power_take(struct power *power, int folder, const char *path)
{
    DIR *real = opendir(path);
    for (struct dirent *found; real && (found = readdir(real));) {
        char below[512];
        struct stat about;
        snprintf(below, sizeof below, "%s/%s", path, found->d_name);
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0 || stat(below, &about))
            continue;
        int node = power_node(power, S_ISDIR(about.st_mode));
        power_set(power->now, &power->n_now, folder, found->d_name, node);
        if (power->is_folder[node])
            power_take(power, node, below);
        else if (files_read(below, 1 << 24, &power->disk[node]))
            power_fail("a file cannot be read");
    }
    if (real)
        closedir(real);
}

// A disk that has what is in `root`; what is left of it comes to `image`, which is not there yet.
static inline struct power *power_new(const char *root, const char *image)
{
    struct power *power = calloc(1, sizeof *power);
    if (!power)
        abort();
    snprintf(power->root, sizeof power->root, "%s", root);
    snprintf(power->image, sizeof power->image, "%s", image);
    power->at = -1;
    power_node(power, true);
    power_take(power, 0, root);
    memcpy(power->synced, power->now, sizeof power->synced);
    power->n_synced = power->n_now;
    return power;
}

static inline struct store_io power_io(struct power *power)
{
    return (struct store_io){.open = power_open,
                             .close = store_io_posix.close,
                             .read = store_io_posix.read,
                             .write = power_write,
                             .sync = power_sync,
                             .truncate = power_truncate,
                             .rename = power_rename,
                             .unlink = power_unlink,
                             .mkdir = power_mkdir,
                             .rmdir = power_rmdir,
                             .context = power};
}

#endif
