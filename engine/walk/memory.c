// SPDX-License-Identifier: GPL-3.0-or-later
// Allocates what a session's layers remember.
#include "engine/walk/memory.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

static uint64_t element_bytes(enum moe_kv_type type)
{
    return type == MOE_KV_F16 ? 2 : 4;
}

uint64_t memory_row_bytes(const struct shape *shape, enum moe_kv_type type)
{
    uint64_t elements = 0;
    for (uint32_t layer = 0; layer < shape->n_layers; layer++) {
        struct mixer_needs needs = mixer_needs(shape, layer);
        for (int i = 0; i < MIXER_STREAMS; i++)
            elements += needs.rows[i];
    }
    return elements * element_bytes(type);
}

uint64_t memory_state_bytes(const struct shape *shape)
{
    uint64_t floats = 0;
    for (uint32_t layer = 0; layer < shape->n_layers; layer++) {
        struct mixer_needs needs = mixer_needs(shape, layer);
        for (int i = 0; i < MIXER_STATES; i++)
            floats += needs.states[i];
    }
    return floats * sizeof(float);
}

uint64_t memory_copies(uint64_t state_bytes, uint64_t memory_left)
{
    enum { SHARE = 16, LEAST = 4, MOST = 64 };
    uint64_t fit = memory_left / SHARE / state_bytes;
    return fit < LEAST ? LEAST : fit > MOST ? MOST : fit;
}

static int allocate(gpu *g, uint64_t bytes, gpu_buf **buf, struct moe_err *err)
{
    struct gpu_error device;
    if (!bytes)
        return MOE_OK;
    *buf = gpu_buf_new(g, bytes, &device);
    return *buf ? MOE_OK : moe_fail_gpu(err, &device);
}

static int open_layer(gpu *g, const struct memory *memory, struct layer_memory *layer, struct moe_err *err)
{
    uint64_t limit = gpu_describe(g)->max_alloc_bytes;
    uint64_t element = element_bytes(memory->type == KV_F16 ? MOE_KV_F16 : MOE_KV_F32);
    int code = MOE_OK;
    for (int i = 0; i < MIXER_STREAMS && !code; i++) {
        uint64_t bytes = (uint64_t)memory->max_rows * layer->needs.rows[i] * element;
        if (bytes > limit)
            return moe_fail(
                err, MOE_NO_MEMORY,
                "a context of %u tokens needs %llu MiB a layer, and this device gives at most %llu MiB at once; "
                "ask for a smaller --context or --kv f16",
                memory->max_rows, (unsigned long long)(bytes >> 20), (unsigned long long)(limit >> 20));
        code = allocate(g, bytes, &layer->rows[i], err);
    }
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < MIXER_STATES && !code; i++)
            code = allocate(g, layer->needs.states[i] * sizeof(float), &layer->states[half][i], err);
    return code;
}

int memory_open(gpu *g, const struct memory_layout *layout, struct memory *memory, struct moe_err *err)
{
    const struct shape *shape = layout->shape;
    memset(memory, 0, sizeof *memory);
    memory->max_rows = layout->max_rows;
    memory->type = layout->type == MOE_KV_F16 ? KV_F16 : KV_F32;
    memory->layers = calloc(shape->n_layers, sizeof *memory->layers);
    if (!memory->layers)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the rows of %u layers", shape->n_layers);
    memory->n_layers = shape->n_layers;
    int code = MOE_OK;
    for (uint32_t i = 0; i < shape->n_layers && !code; i++) {
        memory->layers[i].needs = mixer_needs(shape, i);
        code = open_layer(g, memory, &memory->layers[i], err);
    }
    if (!code) {
        struct gpu_error device;
        memory_clear(g, memory);
        memory_commit(memory);
        code = gpu_check(g, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
    }
    if (code)
        memory_release(memory);
    return code;
}

void memory_release(struct memory *memory)
{
    for (uint32_t layer = 0; layer < memory->n_layers; layer++) {
        for (int i = 0; i < MIXER_STREAMS; i++)
            gpu_buf_free(memory->layers[layer].rows[i]);
        for (int i = 0; i < MIXER_STATES; i++) {
            gpu_buf_free(memory->layers[layer].states[0][i]);
            gpu_buf_free(memory->layers[layer].states[1][i]);
        }
    }
    free(memory->layers);
    memset(memory, 0, sizeof *memory);
}

uint64_t memory_state_offset(const struct memory *memory, uint32_t layer)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < layer; i++)
        for (int k = 0; k < MIXER_STATES; k++)
            floats += memory->layers[i].needs.states[k];
    return floats * sizeof(float);
}

void memory_clear(gpu *g, struct memory *memory)
{
    static const float zeros[1 << 14];
    for (uint32_t layer = 0; layer < memory->n_layers; layer++)
        for (int i = 0; i < MIXER_STATES; i++) {
            uint64_t bytes = memory->layers[layer].needs.states[i] * sizeof(float);
            gpu_buf *to = memory->layers[layer].states[!memory->committed][i];
            for (uint64_t done = 0; done < bytes; done += sizeof zeros) {
                uint64_t left = bytes - done;
                gpu_write(g, to, done, zeros, left < sizeof zeros ? left : sizeof zeros);
            }
        }
}
