// SPDX-License-Identifier: GPL-3.0-or-later
// How a tokenizer cuts text into words, by the names that GGUF files have for it (tokenizer.ggml.pre). The patterns are
// those of the models' own tokenizer.json, or of tokenization_kimi.py, not the ones that other programs made of them.
#ifndef MOECHAT_PRE_H
#define MOECHAT_PRE_H

#include "tokenizer/bpe.h"

enum { PRE_STEPS = 6 };

struct pre {
    const char *names[3];
    const char *steps[PRE_STEPS]; // each cuts what the one before left
    bool whole_words;             // a word that is a piece is that piece
    bool composes;                // text is composed (NFC) before
    bool ranks;                   // an id is a rank: merges are what bpe_merge_ranks makes
};

const struct pre *pre_find(const char *name, size_t length); // NULL: not known
// The names, with a comma between them, for messages; cut where `room` ends.
void pre_list(char *out, size_t room);
int pre_apply(const struct pre *pre, struct bpe *bpe, const char *where, struct tok_err *err);

#endif
