// SPDX-License-Identifier: GPL-3.0-or-later
// What a SentencePiece model file says, read before the library sees it: the library trusts the file (its precompiled
// normaliser tables, its user-defined symbols), so whatever we do not need is refused here.
// Source of the layout: sentencepiece_model.proto (ModelProto, TrainerSpec, NormalizerSpec).
#ifndef MOECHAT_VOCAB_H
#define MOECHAT_VOCAB_H

#include "tok.h"

// The numbers are ModelProto.SentencePiece.Type's.
enum vocab_kind { VOCAB_TEXT = 1, VOCAB_UNKNOWN = 2, VOCAB_CONTROL = 3, VOCAB_BYTE = 6 };

struct vocab {
    uint32_t size;
    char *bytes;           // what each id stands for, back to back; a control symbol's spelling
    uint32_t *start;       // [size + 1] offsets into bytes
    unsigned char *kind;   // [size] enum vocab_kind
    int32_t byte_ids[256]; // the id of each byte piece
};

// Reads `length` bytes of a model file; `path` is for the error text. Accepts BPE models with byte fallback whose
// normaliser leaves text alone. On failure nothing is held.
int vocab_init(struct vocab *vocab, const char *file, size_t length, const char *path, struct tok_err *err);
void vocab_release(struct vocab *vocab);

#endif
