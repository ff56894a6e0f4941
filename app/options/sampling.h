// SPDX-License-Identifier: GPL-3.0-or-later
// Options -> how to sample.
#ifndef MOECHAT_APP_OPTIONS_SAMPLING_H
#define MOECHAT_APP_OPTIONS_SAMPLING_H

#include "app/options/options.h"

uint64_t sampling_random_seed(void); // short enough to be typed again
struct moe_sampling sampling_from(const struct options *options, uint64_t seed);

#endif
