// SPDX-License-Identifier: GPL-3.0-or-later
// How many tokens of conversation there is room for when nobody says. Numbers only.
//
// The rows take an eighth of the memory that is free beside the weights, and never more than half of what the expert
// cache leaves; where every expert has a slot, half of what is left then. They are allocated as a conversation grows,
// so what is chosen here is a promise, not a use.
#ifndef MOECHAT_ENGINE_MODEL_CONTEXT_PLAN_H
#define MOECHAT_ENGINE_MODEL_CONTEXT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct context_question {
    uint64_t free_bytes;  // of the device's memory, beside the weights; the expert cache is of these
    uint64_t cache_bytes; // the device's expert cache
    bool all_cached;      // every expert has a slot
    uint64_t row_bytes;   // of a token, all that grows with the conversation; at least 1
    uint64_t array_bytes; // of a token, in the widest array
    uint64_t alloc_bytes; // the largest array that the device gives
    uint32_t limit;       // the model's own
};

enum { CONTEXT_MODEST = 8192, CONTEXT_LEAST = 1024 };

// Tokens: a multiple of 1024, or the limit. Should the share hold fewer than CONTEXT_MODEST, those, as far as all that
// the cache leaves holds them; CONTEXT_LEAST at the least, but never more than the limit.
uint32_t context_choose(const struct context_question *question);

#endif
