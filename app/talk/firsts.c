// SPDX-License-Identifier: GPL-3.0-or-later
// An AA tree: Andersson's, whose nodes have levels. A left one's is lower than that of what it hangs from, and of two
// that follow each other to the right one's is.
#include "app/talk/firsts.h"

#include <stdlib.h>

struct first {
    size_t thing, less, more; // of what is less and more, counted from 1 on; 0: nothing
    unsigned level;
};

bool firsts_begin(struct firsts *firsts, size_t most)
{
    firsts->firsts = calloc(most + 1, sizeof *firsts->firsts); // nothing is of level 0
    return firsts->firsts;
}

void firsts_release(struct firsts *firsts)
{
    free(firsts->firsts);
    firsts->firsts = NULL;
}

// Two of one level, the upper to the right of the lower.
static size_t skew(struct first *all, size_t at)
{
    size_t less = all[at].less;
    if (!less || all[less].level != all[at].level)
        return at;
    all[at].less = all[less].more;
    all[less].more = at;
    return less;
}

// Of three of one level the middle one goes up.
static size_t split(struct first *all, size_t at)
{
    size_t more = all[at].more;
    if (!more || all[all[more].more].level != all[at].level)
        return at;
    all[at].more = all[more].less;
    all[more].less = at;
    all[more].level++;
    return more;
}

// Puts it below `at`, or finds what it is like. What stands in the place of `at` then.
static size_t put(struct firsts *firsts, size_t at, size_t *thing)
{
    struct first *all = firsts->firsts;
    if (!at) {
        all[++firsts->n] = (struct first){.thing = *thing, .level = 1};
        return firsts->n;
    }
    int order = firsts->compare(firsts->context, *thing, all[at].thing);
    firsts->compared++;
    if (order < 0)
        all[at].less = put(firsts, all[at].less, thing);
    else if (order > 0)
        all[at].more = put(firsts, all[at].more, thing);
    else
        *thing = all[at].thing;
    return split(all, skew(all, at));
}

size_t firsts_of(struct firsts *firsts, size_t thing)
{
    firsts->root = put(firsts, firsts->root, &thing);
    return thing;
}
