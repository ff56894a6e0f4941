// SPDX-License-Identifier: GPL-3.0-or-later
// The plan of the expert caches in words. Pure.
#ifndef MOECHAT_APP_VIEW_PLAN_WORDS_H
#define MOECHAT_APP_VIEW_PLAN_WORDS_H

#include <stddef.h>

#include "engine/moe.h"

enum { PLAN_WORDS_SIZE = 768 };

// Said of a folder from the hub that runs as it is. How much faster: docs/lab.md.
#define FOLDER_WORDS                                                                                                   \
    "This folder runs as is. moechat convert would make each expert one read instead of nine: 1.0 to 1.3 times as "    \
    "fast where we measured."

// One sentence: resident bytes, how many experts are cached, the smallest budget that works, and what a token reads,
// and for how long, when nothing is cached. Returns `out`.
char *plan_words(char *out, size_t size, const struct moe_cache_plan *plan);
// What was asked for and is not so, or works badly, in sentences; "" when there is nothing to say.
char *plan_warning(char *out, size_t size, const struct moe_cache_plan *plan, bool host_cache_given);

#endif
