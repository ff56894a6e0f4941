// SPDX-License-Identifier: GPL-3.0-or-later
// Routed experts that live in a latent space, as Kimi K3's do: what they read is the layer's normed stream times one
// matrix, and their weighted sum is normed and multiplied with another before the stream gets it. Where the model has
// no such space (shape.latent_size) experts read the normed stream and the sums are the stream's; these functions do
// that then, and latent_begin and latent_end nothing.
#ifndef MOECHAT_ENGINE_WALK_LATENT_H
#define MOECHAT_ENGINE_WALK_LATENT_H

#include "engine/walk/pass.h"

// For a chunk, of its x, before the experts; and for a group, or a decoded token, behind them.
void latent_begin(const struct pass *pass, uint32_t layer, struct rows x);
void latent_end(const struct pass *pass, uint32_t layer);
// What experts read, of the pass's first row.
struct rows latent_read(const struct pass *pass);
// As stream_add_ranked and stream_add_rows.
void latent_add_ranked(const struct pass *pass, uint32_t layer, uint32_t first_weight);
void latent_add_rows(const struct pass *pass, const struct args_gather *args);

#endif
