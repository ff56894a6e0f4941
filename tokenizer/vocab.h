// SPDX-License-Identifier: GPL-3.0-or-later
// A vocabulary: what each id stands for. vocab_init reads one from a SentencePiece model file before the library sees
// that: the library trusts the file (its precompiled normaliser tables, its user-defined symbols), so whatever we do
// not need is refused here. Source of the layout: sentencepiece_model.proto (ModelProto, TrainerSpec, NormalizerSpec).
// vocab_fill makes one of pieces that were read elsewhere.
#ifndef MOECHAT_VOCAB_H
#define MOECHAT_VOCAB_H

#include "tokenizer/tok.h"

// The numbers are ModelProto.SentencePiece.Type's, but for the last: a mark is shown when the model says it (<think>),
// and like a control symbol never made by text.
enum vocab_kind { VOCAB_TEXT = 1, VOCAB_UNKNOWN = 2, VOCAB_CONTROL = 3, VOCAB_BYTE = 6, VOCAB_MARK = 7 };
// Of a byte-level BPE: a piece that merges make, or a token added to those, with or without the spaces around it.
enum vocab_flags {
    VOCAB_ADDED = 1,
    VOCAB_NORMALIZED = 2,
    VOCAB_STRIP_LEFT = 4,
    VOCAB_STRIP_RIGHT = 8,
    VOCAB_MERGED = 16,
    VOCAB_ENDS = 32, // the model ends its answer with it
};

struct vocab {
    uint32_t size;
    char *bytes;           // what each id stands for, back to back; a control symbol's spelling
    uint32_t *start;       // [size + 1] offsets into bytes
    unsigned char *kind;   // [size] enum vocab_kind
    unsigned char *flags;  // [size] enum vocab_flags; NULL: none
    int32_t byte_ids[256]; // the id of each byte piece
};

// Reads `length` bytes of a model file; `path` is for the error text. Accepts BPE models with byte fallback whose
// normaliser leaves text alone. On failure nothing is held.
int vocab_init(struct vocab *vocab, const char *file, size_t length, const char *path, struct tok_err *err);
void vocab_release(struct vocab *vocab);

// A piece that was read elsewhere; kind 0: no such id.
struct vocab_piece {
    const char *bytes;
    uint32_t length;
    unsigned char kind, flags;
};
// Copies `size` pieces; byte_ids are set from pieces of one byte, -1 where there is none.
int vocab_fill(struct vocab *vocab, const struct vocab_piece *pieces, uint32_t size, const char *path,
               struct tok_err *err);

const struct vocab *tok_vocab(const tok *tokenizer);

#endif
