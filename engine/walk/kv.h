// SPDX-License-Identifier: GPL-3.0-or-later
// The cache of one session: per layer a device array of max_rows rows, float32 or half, each what the layer's mixer
// keeps of a token. MLA: the normed latent (kv_lora_rank), then the rotated key part (qk_rope_head_dim). Rows beyond
// the session's length mean nothing.
#ifndef MOECHAT_ENGINE_WALK_KV_H
#define MOECHAT_ENGINE_WALK_KV_H

#include "kernels/gpu.h"
#include "engine/files/shape.h"

struct kv {
    gpu_buf **layers; // [n_layers], owned
    uint32_t n_layers;
    uint32_t max_rows;
    uint32_t row_width; // elements
    uint32_t type;      // KV_F32 or KV_F16
};

struct kv_layout {
    const struct shape *shape;
    uint32_t max_rows;
    enum moe_kv_type type;
};
int kv_open(gpu *g, const struct kv_layout *layout, struct kv *kv, struct moe_err *err);
void kv_release(struct kv *kv);

#endif
