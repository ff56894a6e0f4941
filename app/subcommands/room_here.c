// SPDX-License-Identifier: GPL-3.0-or-later
// Looks at the disk and the memory that there are, and compares.
#include "app/subcommands/room_here.h"

#include <stdio.h>
#include <sys/statvfs.h>

#include "app/util/format.h"
#include "engine/moe.h"

struct room_here room_here_look(void)
{
    struct statvfs disk;
    struct room_here here = {.memory = moe_memory_left()};
    here.disk_known = statvfs(".", &disk) == 0;
    if (here.disk_known)
        here.disk = (uint64_t)disk.f_bavail * disk.f_frsize;
    return here;
}

bool room_here_on_disk(const struct room_here *here, const struct room_needed *needed)
{
    return !here->disk_known || needed->bytes <= here->disk;
}

// What is asked for beside the weights; with auto half of what they leave, which need not hold a token's experts.
static uint64_t budget_of(const struct room_here *here, const struct room_needed *needed, uint64_t budget)
{
    uint64_t left = here->memory > needed->resident_bytes ? here->memory - needed->resident_bytes : 0;
    if (budget == MOE_CACHE_AUTO)
        return left / 2;
    if (budget > MOE_CACHE_SHARE(0) && budget <= MOE_CACHE_SHARE(1000))
        return left / 1000 * (budget - MOE_CACHE_SHARE(0));
    return budget;
}

// The smallest cache holds a token's experts of two layers. One that was asked for may have all that the weights leave.
bool room_here_in_memory(const struct room_here *here, const struct room_needed *needed, uint64_t budget)
{
    enum { PROGRAM = 300000000 };
    uint64_t least = needed->n_moe_layers ? 2 * needed->cold_bytes / needed->n_moe_layers : 0;
    uint64_t cache = budget_of(here, needed, budget);
    cache = cache < needed->experts_bytes ? cache : needed->experts_bytes;
    return needed->resident_bytes + least + PROGRAM <= here->memory && needed->resident_bytes + cache <= here->memory;
}

double room_here_cached(const struct room_here *here, const struct room_needed *needed, uint64_t budget)
{
    uint64_t cache = budget_of(here, needed, budget);
    if (needed->experts_bytes == 0 || cache >= needed->experts_bytes)
        return 1;
    return (double)cache / (double)needed->experts_bytes;
}

// Computing takes longer than reading does when this many tokens could be read a second.
static const double plenty = 50;

char *room_here_speeds(char *out, size_t size, uint64_t cold_bytes, double cached)
{
    double bytes = (double)cold_bytes * (1 - cached);
    if (bytes < 1)
        snprintf(out, size, "no reads");
    else if (ROOM_SLOW_DISK / bytes > plenty)
        snprintf(out, size, "over %.0f", plenty);
    else if (ROOM_FAST_DISK / bytes > plenty)
        snprintf(out, size, "%.2g-%.0f+", ROOM_SLOW_DISK / bytes, plenty);
    else
        snprintf(out, size, "%.2g-%.2g", ROOM_SLOW_DISK / bytes, ROOM_FAST_DISK / bytes);
    return out;
}

// Those of the disk that was measured. Experts are not used evenly, so a full cache has more of them than its share.
static void speed_of(char out[FORMAT_SIZE], const struct room_speed *speed, double cached)
{
    double bytes = (double)speed->cold_bytes * (1 - cached);
    if (bytes < 1)
        snprintf(out, FORMAT_SIZE, "no reads");
    else if (speed->disk_bytes_per_s / bytes > plenty)
        snprintf(out, FORMAT_SIZE, "over %.0f", plenty);
    else
        snprintf(out, FORMAT_SIZE, "%.2g%s", speed->disk_bytes_per_s / bytes, cached > 0 ? " or more" : "");
}

char *room_here_speed(char out[ROOM_SPEED_SIZE], const struct room_speed *speed)
{
    char cold[FORMAT_SIZE], full[FORMAT_SIZE], disk[FORMAT_SIZE], of[2 * FORMAT_SIZE] = "a disk of 1 to 7 GB/s";
    if (speed->disk_bytes_per_s > 0) {
        speed_of(cold, speed, 0);
        speed_of(full, speed, speed->cached);
        format_bytes(disk, sizeof disk, (uint64_t)speed->disk_bytes_per_s);
        snprintf(of, sizeof of, "this disk, %s/s", disk);
    } else {
        room_here_speeds(cold, sizeof cold, speed->cold_bytes, 0);
        room_here_speeds(full, sizeof full, speed->cold_bytes, speed->cached);
    }
    char why[96] = "";
    if (speed->here && speed->disk_bytes_per_s <= 0)
        snprintf(why, sizeof why, " (this one could not be measured%s%.40s)", speed->disk_doubt ? ": " : "",
                 speed->disk_doubt ? speed->disk_doubt : "");
    snprintf(out, ROOM_SPEED_SIZE,
             "%s tokens/s with nothing cached, %s with the cache full: of %s%s, without the time to compute", cold,
             full, of, why);
    return out;
}
