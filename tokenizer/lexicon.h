// SPDX-License-Identifier: GPL-3.0-or-later
// Bytes -> id, for the pieces of a vocabulary. const once made.
#ifndef MOECHAT_LEXICON_H
#define MOECHAT_LEXICON_H

#include "tokenizer/vocab.h"

struct lexicon {
    const struct vocab *vocab;
    uint32_t *slots; // a hash table of id + 1, 0 for none
    size_t mask;
};

// All ids that have the flags `wanted` of those in `mask`; of two with the same bytes the lower counts. The vocabulary
// must outlive the lexicon.
struct lexicon_filter {
    unsigned mask, wanted; // enum vocab_flags
};
int lexicon_init(struct lexicon *lexicon, const struct vocab *vocab, struct lexicon_filter filter, struct tok_err *err);
void lexicon_release(struct lexicon *lexicon);
int32_t lexicon_find(const struct lexicon *lexicon, const char *bytes, size_t length); // -1: there is none

#endif
