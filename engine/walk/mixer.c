// SPDX-License-Identifier: GPL-3.0-or-later
// The table of mixers.
#include "engine/walk/mixer.h"

static const struct mixer *const mixers[LAYER_KINDS] = {[LAYER_MLA] = &mixer_mla};

const struct mixer *mixer_of(const struct shape *shape, uint32_t layer)
{
    return mixers[shape_layer_kind(shape, layer)];
}

struct mixer_needs mixer_needs(const struct shape *shape)
{
    struct mixer_needs most = {0};
    for (uint32_t layer = 0; layer < shape->n_layers; layer++) {
        struct mixer_needs needs = {0};
        mixer_of(shape, layer)->memory(shape, &needs);
        most.row_width = needs.row_width > most.row_width ? needs.row_width : most.row_width;
        for (int i = 0; i < MIXER_BUFFERS; i++)
            most.chunk[i] = needs.chunk[i] > most.chunk[i] ? needs.chunk[i] : most.chunk[i];
    }
    return most;
}
