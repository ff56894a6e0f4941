// SPDX-License-Identifier: GPL-3.0-or-later
// Whether a model that is not here yet would fit here, and how fast a disk lets a model answer.
#ifndef MOECHAT_APP_SUBCOMMANDS_ROOM_HERE_H
#define MOECHAT_APP_SUBCOMMANDS_ROOM_HERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct room_here {
    uint64_t disk, memory; // free: of the current folder's file system; that the system has left for us
    bool disk_known;
};
struct room_here room_here_look(void);

struct room_needed {
    uint64_t bytes;          // on disk
    uint64_t resident_bytes; // in memory for good, with what a conversation takes that was asked for
    uint64_t experts_bytes;  // of all routed experts
    uint64_t cold_bytes;     // of experts that a token reads when none is cached
    uint32_t n_moe_layers;   // that share them
};
bool room_here_on_disk(const struct room_here *here, const struct room_needed *needed);
bool room_here_in_memory(const struct room_here *here, const struct room_needed *needed, uint64_t budget); // as below
// The share of all experts, 0 to 1, that the cache would hold with this --expert-cache (moe_model_options): with auto,
// half of what is free beside the weights, or all of them where those fit in that.
double room_here_cached(const struct room_here *here, const struct room_needed *needed, uint64_t budget);

// The disks that speeds are told for, as this one cannot be measured by a model that is not on it: bytes a second.
#define ROOM_SLOW_DISK 1e9
#define ROOM_FAST_DISK 7e9
// "0.081-0.57": tokens a second that the slow and the fast disk allow, where this share of experts is cached; "no
// reads" where all are, "over 50" where computing takes longer than that. Returns `out`.
char *room_here_speeds(char *out, size_t size, uint64_t cold_bytes, double cached);

struct room_speed {
    uint64_t cold_bytes;     // as in room_needed
    double cached;           // the share of experts that a full cache has
    bool here;               // the model is here: its disk was measured
    double disk_bytes_per_s; // what came of that; 0: nothing that can be relied on,
    const char *disk_doubt;  // as why says; NULL: nobody knows
};
// "0.61 tokens/s with nothing cached, 1.3 or more with the cache full: of this disk, 7.00 GB/s, without the time to
// compute"; of the disks above where this one's speed is not known. Returns `out`.
enum { ROOM_SPEED_SIZE = 512 };
char *room_here_speed(char out[ROOM_SPEED_SIZE], const struct room_speed *speed);

#endif
