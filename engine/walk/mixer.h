// SPDX-License-Identifier: GPL-3.0-or-later
// What mixes the tokens of a layer: one table, a row for each kind of layer (enum layer_kind, a constant of the shape).
// A mixer reads the residual stream at SITE_MIXER and hands it what it has to add. To add a kind: its name in shape.h,
// its row in mixer.c, its file.
#ifndef MOECHAT_ENGINE_WALK_MIXER_H
#define MOECHAT_ENGINE_WALK_MIXER_H

#include "engine/files/shape.h"

struct layer_weights;
struct loader;
struct pass;

enum { MIXER_BUFFERS = 8 };

// Elements of 4 bytes, but for the rows.
struct mixer_needs {
    uint32_t row_width;            // elements of the cache that a token leaves in the layer
    uint64_t chunk[MIXER_BUFFERS]; // for each token of a chunk, in scratch; 0: no such buffer
};

// Multiplications in one such layer.
struct mixer_work {
    double token; // for each token by itself
    double pair;  // for a token and each position that it looks at, its own included
};

struct mixer {
    const char *name;
    // Asks for the tensors of one such layer, into its part of the layer's weights.
    void (*want)(struct loader *loader, struct layer_weights *weights);
    // What one such layer needs. Layers take turns with the buffers, so the largest counts.
    void (*memory)(const struct shape *shape, struct mixer_needs *needs);
    struct mixer_work (*work)(const struct shape *shape);
    // Adds the layer's share to the residual stream, and appends what the cache keeps of the pass's tokens.
    void (*run)(const struct pass *pass, uint32_t layer);
};
extern const struct mixer mixer_mla; // mla.c

const struct mixer *mixer_of(const struct shape *shape, uint32_t layer);
// The most that any layer needs.
struct mixer_needs mixer_needs(const struct shape *shape);

#endif
