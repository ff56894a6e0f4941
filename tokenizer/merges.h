// SPDX-License-Identifier: GPL-3.0-or-later
// The merges of a byte-pair encoding: which two ids become which third, and which merge comes first. const once filled.
#ifndef MOECHAT_MERGES_H
#define MOECHAT_MERGES_H

#include "tokenizer/tok.h"

struct merge {
    uint32_t left, right;
    uint32_t rank; // the lowest is done first; of equals the leftmost
    uint32_t id;
};
struct merges {
    struct merge *slots; // a hash table, empty where id is UINT32_MAX
    size_t mask, count;
};

int merges_init(struct merges *merges, size_t most, struct tok_err *err); // room for `most` of them
void merges_release(struct merges *merges);
void merges_add(struct merges *merges, const struct merge *merge); // the first of a pair counts
// Merges the ids of one word, 1 or more, as far as they go; returns how many are left. Takes n log n steps. < 0: no
// memory.
ptrdiff_t merges_apply(const struct merges *merges, int32_t *ids, size_t count);

#endif
