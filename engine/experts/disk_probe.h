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

// Reads for about a twentieth of a second, at least n_targets experts. Bytes a second; 0: a read failed. Nothing may be
// under way in `flights`.
uint64_t disk_probe(struct flights *flights, const struct disk_probe *probe);

#endif
