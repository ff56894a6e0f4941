// SPDX-License-Identifier: GPL-3.0-or-later
// Byte-level byte-pair encoding, as the tokenizers and tiktoken libraries do it: text is cut by patterns into words, a
// word's bytes are merged by rank. Made by bpe_huggingface.c, bpe_tiktoken.c or bpe_pieces.c, const
// afterwards.
#ifndef MOECHAT_BPE_H
#define MOECHAT_BPE_H

#include "tokenizer/lexicon.h"
#include "tokenizer/merges.h"
#include "tokenizer/pattern.h"

enum { BPE_STEPS = 16, BPE_IDS = 1 << 21, BPE_WORD_BYTES = 4 << 20, BPE_LENGTHS = 64 };
// Of a token as its file spells it. What is looked for in text takes steps for each of its bytes at each place, and
// what a model says is held back and shown whole.
enum { BPE_TOKEN_BYTES = 1024 };

// Added tokens that are plain text, found in text before it is cut.
struct bpe_added {
    struct lexicon lexicon;
    bool begins[256];              // some token begins with this byte
    uint32_t lengths[BPE_LENGTHS]; // of tokens, descending
    size_t n_lengths;
};

struct bpe {
    struct vocab vocab;
    struct lexicon lexicon; // of what merges make
    struct merges merges;
    struct pattern *steps[BPE_STEPS]; // each cuts what the one before left
    size_t n_steps;
    struct bpe_added added[2]; // those found first, then those found in what is normalised text
    bool whole_words;          // a word that is a piece is that piece, whatever the merges say
    bool composes;             // text is cut in normalization form C
};

// Reads `length` bytes of tokenizer.json. What it asks for and we don't do is refused by name.
int bpe_huggingface(const char *file, size_t length, const char *path, struct bpe **bpe, struct tok_err *err);
// Reads a tiktoken.model and the tokenizer_config.json that names its control symbols, for Kimi's pattern.
struct bpe_tiktoken_files {
    const char *ranks, *config;
    size_t ranks_length, config_length;
    const char *ranks_path, *config_path;
};
int bpe_tiktoken(const struct bpe_tiktoken_files *files, struct bpe **bpe, struct tok_err *err);
// From the arrays of a GGUF; see tok_open_pieces.
int bpe_pieces(const struct tok_pieces *pieces, struct bpe **bpe, struct tok_err *err);
void bpe_free(struct bpe *bpe); // NULL is fine

// For those three. bpe_finish_vocab makes the lexicon and the added tokens of the filled vocabulary, and refuses one
// that has not all bytes of UTF-8.
int bpe_finish_vocab(struct bpe *bpe, const char *path, struct tok_err *err);
// Every way to make a piece of two others is a merge, its rank the piece's id: done in that order it is what tiktoken
// does.
int bpe_merge_ranks(struct bpe *bpe, struct tok_err *err);
int bpe_add_step(struct bpe *bpe, const struct pattern_source *source, struct tok_err *err);
// Is an added token of this spelling plain text? Else it is a mark: what people type never becomes it.
bool bpe_is_plain(const char *content, size_t length);

// Appends the ids of UTF-8 text. Any thread.
int bpe_encode(const struct bpe *bpe, const struct pattern_stop *stop, const char *text, size_t length,
               struct tok_ids *list, struct tok_err *err);

#endif
