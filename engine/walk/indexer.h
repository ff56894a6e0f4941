// SPDX-License-Identifier: GPL-3.0-or-later
// The indexer of a layer whose tokens look at some positions only: it keeps a row of its own for each token, scores all
// positions before a token by them and chooses the best, in an ascending list. While there are no more than are chosen
// all are looked at, without a list: that follows from the token's position alone, never from how a prompt is cut.
// Lists stay for the group, so that the layers behind can share them. transformers: DeepseekV32Indexer,
// GlmMoeDsaIndexer.
//
// With pools it chooses whole ones of several positions, of those that are complete, and always adds the positions of
// the open one. It keeps a key and a gate of each token, and beside them a key of each complete pool, which follows
// from those of its positions: so a cut inside a pool leaves all that is needed. transformers: Glm5NextTextIndexer.
#ifndef MOECHAT_ENGINE_WALK_INDEXER_H
#define MOECHAT_ENGINE_WALK_INDEXER_H

#include "engine/walk/mixer.h"
#include "engine/walk/pass.h"

// The buffers of a chunk that are the indexer's, behind those of the attention; the streams of its rows and its pools.
enum {
    INDEXER_KEYS =
        MIXER_BUFFERS - 2,         // [rows, head_dim | head_dim | n_heads]: keys, with pools gates, the heads' weights
    INDEXER_QUERIES,               // [rows, n_heads * head_dim]
    INDEXER_STREAM = 1,            // keys, with pools and their gates
    INDEXER_POOLS = MIXER_DERIVED, // a pool's key is as wide as its positions' shares together
};

void indexer_want(struct loader *loader, struct indexer_weights *weights);
void indexer_memory(const struct shape *shape, struct mixer_needs *needs);
// Into the work of attention that looks at all positions.
void indexer_work(const struct shape *shape, struct mixer_work *work);

// The pass's first tokens, which look at all positions.
uint32_t indexer_dense_rows(const struct pass *pass);
// Numbers of a row's list.
uint32_t indexer_list(const struct shape *shape);
// What it has to know of the stream: so many products more of what the mixer reads.
enum { INDEXER_PRODUCTS = 3 };
uint32_t indexer_products(const struct pass *pass, const struct indexer_weights *weights,
                          struct projection products[INDEXER_PRODUCTS]);
// When these are there: the rows of the pass's tokens, and the lists of those that have one, into scratch. q_lora: as
// it is normed for the queries.
void indexer_choose(const struct pass *pass, uint32_t layer, struct rows q_lora);
// The pools of the pass's positions, from the rows that are there.
void indexer_derive(const struct pass *pass, uint32_t layer);

#endif
