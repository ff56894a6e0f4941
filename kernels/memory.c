// SPDX-License-Identifier: GPL-3.0-or-later
// How much memory this process may still take. A driver's own figure is far from it (PoCL says a quarter).
#include "kernels/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The first number behind `key` in a file, e.g. of "MemAvailable:"; an empty key takes the file's first word.
static bool number_in_file(const char *path, const char *key, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        unsigned long long number;
        found = strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &number) == 1;
        if (found)
            *value = number;
    }
    fclose(file);
    return found;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// What a cgroup folder leaves of `bytes`, in the files of version 2 or 1. Its use counts the page cache, of which the
// inactive part is given up before anything is killed.
static uint64_t cgroup_leaves(const char *folder, uint64_t bytes)
{
    static const struct {
        const char *limit, *used, *inactive;
    } versions[2] = {{"memory.max", "memory.current", "inactive_file "},
                     {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "}};
    for (int v = 0; v < 2; v++) {
        char path[800];
        uint64_t limit;
        uint64_t used;
        uint64_t inactive = 0;
        snprintf(path, sizeof path, "%s/%s", folder, versions[v].limit);
        if (!number_in_file(path, "", &limit))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, versions[v].used);
        if (!number_in_file(path, "", &used))
            continue;
        snprintf(path, sizeof path, "%s/memory.stat", folder);
        number_in_file(path, versions[v].inactive, &inactive);
        used -= smaller(used, inactive);
        bytes = smaller(bytes, limit > used ? limit - used : 0);
    }
    return bytes;
}

// A group's folder and those above it: a parent may be stricter than its child.
static uint64_t cgroups_leave(const char *mount, char *path, uint64_t bytes)
{
    for (;;) {
        char folder[700];
        snprintf(folder, sizeof folder, "%s%s", mount, path);
        bytes = cgroup_leaves(folder, bytes);
        char *slash = strrchr(path, '/');
        if (!slash || !path[0])
            return bytes;
        *slash = 0;
    }
}

uint64_t memory_left(const char *root)
{
    char name[256];
    uint64_t bytes = 0;
    snprintf(name, sizeof name, "%s/proc/meminfo", root);
    if (number_in_file(name, "MemAvailable:", &bytes))
        bytes *= 1024;
    else
        bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    char line[256];
    // Lines "0::/path" (version 2) and "4:memory:/path", "4:cpu,memory:/path" (version 1).
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (controllers[1] && !strstr(controllers + 1, "memory"))
            continue;
        char mount[300];
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, controllers[1] ? "/memory" : "");
        bytes = cgroups_leave(mount, path, bytes);
    }
    if (file)
        fclose(file);
    return bytes;
}

uint64_t gpu_host_memory_left(const gpu *g)
{
    (void)g; // all devices share the one host
    return memory_left("");
}
