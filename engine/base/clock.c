// SPDX-License-Identifier: GPL-3.0-or-later
// The process's one clock. It is state of the process, as the signals that stop it are.
#include "engine/base/clock.h"

#include <stdatomic.h>
#include <time.h>

#include "engine/moe.h"

static struct {
    atomic_uint changes;      // odd: it stands
    _Atomic uint64_t left_ns; // that it stood, all in all
    _Atomic uint64_t at_ns;   // what it shows while it stands; 0: that is just being looked up
} process;

static uint64_t system_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_ns(void)
{
    for (;;) {
        unsigned before = atomic_load(&process.changes);
        uint64_t shown = before % 2 ? atomic_load(&process.at_ns) : system_ns() - atomic_load(&process.left_ns);
        if (shown && atomic_load(&process.changes) == before)
            return shown;
    }
}

uint64_t moe_clock_ns(void)
{
    return clock_ns();
}

void moe_clock_stop(void)
{
    if (atomic_load(&process.changes) % 2)
        return;
    atomic_store(&process.at_ns, 0);
    // First: nobody may have been shown a later time than that at which it stands.
    atomic_fetch_add(&process.changes, 1);
    atomic_store(&process.at_ns, system_ns() - atomic_load(&process.left_ns));
}

void moe_clock_go_on(void)
{
    if (atomic_load(&process.changes) % 2 == 0)
        return;
    atomic_store(&process.left_ns, system_ns() - atomic_load(&process.at_ns));
    atomic_fetch_add(&process.changes, 1);
}
