// SPDX-License-Identifier: GPL-3.0-or-later
// Time for counters: nanoseconds of a clock that only goes forward.
#ifndef MOECHAT_ENGINE_BASE_CLOCK_H
#define MOECHAT_ENGINE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
