// SPDX-License-Identifier: GPL-3.0-or-later
// Tokens on their way through the model, and the two ops that every part of a layer is made of.
#ifndef MOECHAT_ENGINE_WALK_PASS_H
#define MOECHAT_ENGINE_WALK_PASS_H

#include "engine/walk/memory.h"
#include "engine/walk/observer.h"
#include "engine/walk/routed.h"
#include "engine/walk/scratch.h"
#include "engine/walk/stream.h"
#include "engine/walk/weights.h"

// A position within the group at which the states are copied to the host as they pass it: a chunk ends there.
struct pass_border {
    uint32_t position; // 0: none
    char *states;      // as memory_state_offset lays them out
};

// A group of tokens, or one of its chunks. Nothing in it is owned: the first four are the model's, the next five the
// session's. The ids are in scratch already.
struct pass {
    gpu *gpu;
    const struct package *package;
    const struct shape *shape;
    const struct weights *weights;
    struct memory *memory;
    struct scratch *scratch;
    struct stream *stream;
    struct routed *routed;
    struct observer *observer;
    uint32_t position; // of the first token
    uint32_t first;    // its row in the group
    uint32_t rows;
    bool decode;                             // one token, through the decode kernels
    struct pass_border borders[MOE_BORDERS]; // in any order
};

// A layer's rows, element 0 of row 0 at the start; written from pass->position on.
static inline gpu_buf *pass_rows(const struct pass *pass, uint32_t layer, unsigned stream)
{
    return pass->memory->layers[layer].rows[stream];
}

// A layer's state before the pass's tokens, and where it goes that they leave behind. The two may be one buffer.
static inline struct state_halves pass_state(const struct pass *pass, uint32_t layer, unsigned which)
{
    return memory_state(pass->memory, layer, which, pass->first > 0);
}

// y = W x, or y += W x with add, for the pass's rows; by matvec in a decode pass, by matmul otherwise.
struct projection {
    const struct matrix *matrix;
    struct rows from;
    struct rows to;
    bool add;
};
void pass_project(const struct pass *pass, const struct projection *projection);
// RMSNorm of `dim` elements of each row.
struct normalisation {
    const struct vector *weight;
    struct rows from;
    struct rows to;
    uint32_t dim;
    float eps; // the shape's rms_norm_eps, or latent_norm_eps for q_a_layernorm and kv_a_layernorm
};
void pass_norm(const struct pass *pass, const struct normalisation *norm);
// The norm and n <= MOST_BESIDE projections of what comes of it, whose `from` is therefore norm->to: in a decode pass
// one launch, where the norm isn't in place.
void pass_norm_project(const struct pass *pass, const struct normalisation *norm, const struct projection *projections,
                       uint32_t n);

#endif
