// SPDX-License-Identifier: GPL-3.0-or-later
// Allocates a session's KV cache.
#include "engine/walk/kv.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/walk/mixer.h"

int kv_open(gpu *g, const struct kv_layout *layout, struct kv *kv, struct moe_err *err)
{
    const struct shape *shape = layout->shape;
    memset(kv, 0, sizeof *kv);
    kv->max_rows = layout->max_rows;
    kv->row_width = mixer_needs(shape).row_width;
    kv->type = layout->type == MOE_KV_F16 ? KV_F16 : KV_F32;
    uint64_t bytes = (uint64_t)kv->max_rows * kv->row_width * (kv->type == KV_F16 ? 2 : 4);
    uint64_t limit = gpu_describe(g)->max_alloc_bytes;
    if (bytes > limit)
        return moe_fail(
            err, MOE_NO_MEMORY,
            "a context of %u tokens needs %llu MiB a layer, and this device gives at most %llu MiB at once; "
            "ask for a smaller --context or --kv f16",
            kv->max_rows, (unsigned long long)(bytes >> 20), (unsigned long long)(limit >> 20));
    kv->layers = calloc(shape->n_layers, sizeof *kv->layers);
    if (!kv->layers)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the cache of %u layers", shape->n_layers);
    for (; kv->n_layers < shape->n_layers; kv->n_layers++) {
        struct gpu_error device;
        kv->layers[kv->n_layers] = gpu_buf_new(g, bytes, &device);
        if (!kv->layers[kv->n_layers]) {
            kv_release(kv);
            return moe_fail_gpu(err, &device);
        }
    }
    return MOE_OK;
}

void kv_release(struct kv *kv)
{
    for (uint32_t i = 0; i < kv->n_layers; i++)
        gpu_buf_free(kv->layers[i]);
    free(kv->layers);
    memset(kv, 0, sizeof *kv);
}
