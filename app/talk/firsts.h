// SPDX-License-Identifier: GPL-3.0-or-later
// Of each kind of things that are alike, the first: a balanced tree, so that no file, however it was made up, has it
// compare more than some log2 n times for each of n things. What is alike is the owner's to say.
#ifndef MOECHAT_APP_TALK_FIRSTS_H
#define MOECHAT_APP_TALK_FIRSTS_H

#include <stdbool.h>
#include <stddef.h>

struct firsts {
    int (*compare)(const void *context, size_t a, size_t b); // things by their number: < 0, 0 where alike, > 0
    const void *context;
    struct first *firsts;
    size_t n, root;  // as they are counted from 1 on; 0: none
    size_t compared; // how often, so far
};
// With `compare` and `context` set, all else zero: room for so many kinds. False: no memory.
bool firsts_begin(struct firsts *firsts, size_t most);
void firsts_release(struct firsts *firsts);
// The first thing that was given and is like this one: this one itself where there was none.
size_t firsts_of(struct firsts *firsts, size_t thing);

#endif
