// SPDX-License-Identifier: GPL-3.0-or-later
// How fast experts come from disk: whole experts from random places of their files, by the pool that will read them.
#ifndef MOECHAT_ENGINE_EXPERTS_DISK_PROBE_H
#define MOECHAT_ENGINE_EXPERTS_DISK_PROBE_H

#include "engine/experts/flights.h"

enum { PROBE_TARGETS = 16 };

struct disk_probe {
    void *targets[PROBE_TARGETS]; // memory to read into, of a slot each
    uint32_t n_targets;           // reads at once
    uint64_t seed;                // other experts than another seed's
};

struct disk_probed {
    uint64_t bytes_per_s;      // 0: a read failed
    uint64_t bytes, cached;    // read; and of those, from the page cache
    uint64_t first_half, rest; // bytes a second in the first half of the time, and after it; 0: too few reads
};
// Reads for about a twentieth of a second, at least n_targets experts. Nothing may be under way in `flights`.
struct disk_probed disk_probe(struct flights *flights, const struct disk_probe *probe);
// NULL: that is the disk's speed, of files that have so many bytes of experts: not too few for any reads, hardly any of
// it came from the page cache, no more was read than half of what there is (else some of it twice, from whatever cache
// there is below us), and it went on as it began. Else why it is not, in a few words.
const char *disk_probe_doubt(const struct disk_probed *probed, uint64_t all_bytes);

#endif
