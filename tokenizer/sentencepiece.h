// SPDX-License-Identifier: GPL-3.0-or-later
// libsentencepiece behind C: exceptions and statuses become tok_err. Give it only files that vocab_init accepted.
#ifndef MOECHAT_SENTENCEPIECE_H
#define MOECHAT_SENTENCEPIECE_H

#include "tokenizer/tok.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pieces;

// Parses a copy of the `length` bytes of a model file; `path` is for the error text.
int sentencepiece_open(const char *file, size_t length, const char *path, struct pieces **pieces, struct tok_err *err);
void sentencepiece_close(struct pieces *pieces); // NULL is fine
uint32_t sentencepiece_vocab_size(const struct pieces *pieces);
// Appends the ids of UTF-8 text. Any thread.
int sentencepiece_encode(const struct pieces *pieces, const char *text, size_t length, struct tok_ids *list,
                         struct tok_err *err);

#ifdef __cplusplus
}
#endif
#endif
