// SPDX-License-Identifier: GPL-3.0-or-later
// The kernels that PoCL keeps are libraries, which it loads into this process without asking whose they are.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/device.h"

// Where PoCL (3 to 7) keeps them: the folder itself, and the one that it makes it in, if it makes that, too.
static bool find_folders(char folder[PATH_MAX], char outer[PATH_MAX])
{
    const char *own = getenv("POCL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    *outer = 0;
    if (own && access(own, W_OK) == 0)
        return snprintf(folder, PATH_MAX, "%s", own) < PATH_MAX;
    if (cache && *cache)
        length = snprintf(outer, PATH_MAX, "%s/pocl", cache);
    else if (home && *home)
        length = snprintf(outer, PATH_MAX, "%s/.cache/pocl", home);
    return length > 0 && length < PATH_MAX && snprintf(folder, PATH_MAX, "%s/kcache", outer) < PATH_MAX;
}

bool driver_cache_folder(char folder[PATH_MAX])
{
    char outer[PATH_MAX];
    return find_folders(folder, outer);
}

static bool is_others(const struct stat *about)
{
    return about->st_uid != geteuid() && about->st_uid != 0;
}

bool cache_is_private(const struct stat *about)
{
    return !is_others(about) && !(about->st_mode & (S_IWGRP | S_IWOTH));
}

bool driver_cache_is_ours(struct gpu_error *err)
{
    char folders[2][PATH_MAX];
    if (!find_folders(folders[0], folders[1]))
        return true;
    for (int i = 0; i < 2; i++) {
        struct stat about;
        if (!*folders[i] || stat(folders[i], &about) != 0 || cache_is_private(&about))
            continue;
        bool others = is_others(&about);
        gpu_error_set(err, GPU_NO_DEVICE, 0,
                      "%.110s: %s, and PoCL would run the kernels in there: %s, or set POCL_CACHE_DIR", folders[i],
                      others ? "belongs to another user" : "can be written to by others",
                      others ? "remove it" : "chmod go-w");
        return false;
    }
    return true;
}
