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

enum { MIXER_BUFFERS = 9, MIXER_STREAMS = 3, MIXER_STATES = 2 };
// Streams from here on follow from those before them: records leave them out.
enum { MIXER_DERIVED = 2 };

// What one layer needs, 0: no such thing. Its memory is memory.h's, by the same numbers.
struct mixer_needs {
    uint32_t rows[MIXER_STREAMS];  // width: elements that each token leaves in a stream of rows
    uint64_t states[MIXER_STATES]; // floats
    uint64_t chunk[MIXER_BUFFERS]; // floats for each token of a chunk, in scratch; layers take turns with these
    uint64_t group;                // uint32 for each token of a group, which stay for the layers behind
    uint64_t position;             // floats for each position that has room
};

// Multiplications in one such layer.
struct mixer_work {
    double token;  // for each token by itself
    double pair;   // for a token and each position that it looks at, its own included
    double score;  // for a token and each position that it chooses from
    uint32_t most; // positions that it looks at; 0: all
};

struct mixer {
    const char *name;
    // Asks for the tensors of one such layer, into its part of the layer's weights.
    void (*want)(struct loader *loader, struct layer_weights *weights);
    void (*memory)(const struct shape *shape, struct mixer_needs *needs);
    struct mixer_work (*work)(const struct shape *shape);
    // Adds the layer's share to the residual stream; appends the rows of the pass's tokens, and takes the states from
    // before them to after them (pass_rows, pass_state).
    void (*run)(const struct pass *pass, uint32_t layer);
    // Makes the rows that follow from others, of positions that have come back from a record. NULL: there are none.
    void (*derive)(const struct pass *pass, uint32_t layer);
};
extern const struct mixer mixer_mla, mixer_dsa, mixer_dsa_shared; // mla.c
extern const struct mixer mixer_gqa;                              // gqa.c
extern const struct mixer mixer_gdn, mixer_kda;                   // delta.c

const struct mixer *mixer_of(const struct shape *shape, uint32_t layer);
struct mixer_needs mixer_needs(const struct shape *shape, uint32_t layer);

#endif
