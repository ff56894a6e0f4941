// SPDX-License-Identifier: GPL-3.0-or-later
// A layer's attention over the cache.
#ifndef MOECHAT_ENGINE_WALK_ATTN_H
#define MOECHAT_ENGINE_WALK_ATTN_H

#include <stdint.h>

struct pass;

// Adds the layer's attention to the residual stream, and appends the pass's tokens to the cache.
void attn_layer(const struct pass *pass, uint32_t layer);

#endif
