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
// for how long and how many tokens a second that is, when nothing is cached, or why that is not known. Returns `out`.
char *plan_words(char *out, size_t size, const struct moe_cache_plan *plan);
char *plan_without_speeds(char *out, size_t size, const struct moe_cache_plan *plan); // for who tells them beside it
double plan_cached(const struct moe_cache_plan *plan); // the share of all experts, 0 to 1, that full caches have
// "room for 8192 tokens of conversation (0.58 GB when full; the model's limit is 163840)"; where --kv-cap keeps fewer
// of them on the disk, how many in one turn. Returns `out`.
struct context_figures {
    uint32_t context, limit; // limit 0: unknown
    uint64_t row_bytes;
    uint64_t kv_cap;     // 0: no rows are saved
    uint64_t turn_bytes; // that are saved with a turn's rows: its logits
};
char *plan_context(char *out, size_t size, const struct context_figures *figures);
// "This model takes at most 4096 tokens" where --context can't make more room, else "". Returns `out`.
enum { PLAN_LIMIT_SIZE = 64 };
char *plan_limit(char out[PLAN_LIMIT_SIZE], const struct context_figures *figures);
// What was asked for and is not so, or works badly, in sentences; "" when there is nothing to say.
char *plan_warning(char *out, size_t size, const struct moe_cache_plan *plan, bool host_cache_given);

#endif
