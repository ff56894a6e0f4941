// SPDX-License-Identifier: GPL-3.0-or-later
// Time for counters: moe_clock_ns, which see in engine/moe.h.
#ifndef MOECHAT_ENGINE_BASE_CLOCK_H
#define MOECHAT_ENGINE_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);

#endif
