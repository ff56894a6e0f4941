// SPDX-License-Identifier: GPL-3.0-or-later
// The heat map: layers down, experts across, how often each was used in this turn. Ten steps, each with a glyph of its
// own, so it is legible without colour. A map larger than its pane is summed: a cell stands for some layers and
// experts, and the title says for how many. Pure.
#ifndef MOECHAT_HEAT_H
#define MOECHAT_HEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cells.h"

enum { HEAT_STEPS = 10 };
extern const char heat_glyphs[HEAT_STEPS + 1]; // " .:-=+*#%@"

struct moe_choice;

struct heat_figures {
    const uint32_t *uses; // [n_layers * n_experts]
    uint32_t n_layers, n_experts;
    uint32_t first_layer; // number of the first in the model
    // The experts of the last token [n_layers * top_k], NULL: none. They are drawn bold, by a letter where they came
    // from when a cell is one expert: d device, h host, p prefetched, l late, r read from disk.
    const struct moe_choice *choices;
    uint32_t top_k;
    bool marks; // draw them
};
void heat_draw(struct cells *cells, const struct heat_figures *figures);
// The step of a cell whose uses sum to `uses` when the most used one has `most`: 0 only for 0, the last only for most;
// those between go by ratios, because a few experts are used far more often than the others.
int heat_step(uint64_t uses, uint64_t most);

#endif
