// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers drawn at random for measurements: which expert is read next. No answer depends on one.
#ifndef MOECHAT_ENGINE_BASE_DRAWS_H
#define MOECHAT_ENGINE_BASE_DRAWS_H

#include <stdint.h>

// Of 0 .. limit - 1, by a linear congruential generator; any *state is a seed.
static inline uint32_t draw_below(uint64_t *state, uint32_t limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % limit);
}

#endif
