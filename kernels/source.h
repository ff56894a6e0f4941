// SPDX-License-Identifier: GPL-3.0-or-later
// What a program is made of: text, options, and the name of its binary in the cache.
#ifndef MOECHAT_SOURCE_H
#define MOECHAT_SOURCE_H

#include "kernels/binary_cache.h"
#include "kernels/gpu.h"

// Which program is meant.
struct wish {
    enum { WISH_ALL, WISH_KIND, WISH_TOKEN } of; // all ops, one kind's, or a token's launches of several kinds
    uint32_t parts;                              // PART_ of rows.h; 0: it is built whole
    struct gpu_format format;                    // of a kind
    uint64_t kinds;                              // of a token: bit KIND_X of each
};

struct source {
    const char *text;
    size_t bytes;
    uint32_t uses;  // of a kind's matrices; 0: all ops
    uint32_t parts; // as the wish's
    char *made;     // the text, if it was made for it
    char options[340];
};

// False: no memory. Else source_release is to be called.
bool source_of(const gpu *g, const struct wish *wish, struct source *source);
void source_release(struct source *source);
bool source_key(const gpu *g, const struct source *source, struct digest *key);
// Is its binary in the cache?
bool wish_is_kept(const gpu *g, const struct wish *wish);

// The parts that a model with these mixers (0: any) needs of a wish's program, which has none itself. Returns how many,
// 1 where it is built whole.
enum { MOST_PARTS = 16 };
unsigned source_divide(const gpu *g, const struct wish *wish, uint32_t mixers, struct wish parts[MOST_PARTS]);

// Inputs of one row that a group of tensor cores keeps at hand, as a kind's text is told: what 48 KB leave beside
// blocks on their way and grids.
uint32_t source_inputs_at_hand(uint32_t kind);

// The text of a token's kernels for these kinds, to be freed (NULL: no memory).
char *source_token_text(uint64_t kinds);

#endif
