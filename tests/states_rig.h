// SPDX-License-Identifier: GPL-3.0-or-later
// A session whose layers have rows of several widths and states, made by hand: no model, no pass. What a pass would
// leave behind is written as numbers that say where they belong.
#ifndef MOECHAT_STATES_RIG_H
#define MOECHAT_STATES_RIG_H

#include <stdlib.h>

#include "tests/harness.h"
#include "engine/session/session.h"

enum { RIG_LAYERS = 3, RIG_ROWS = 100, RIG_VOCAB = 11, RIG_MOST = 5000 };

// Rows alone, states alone, both.
struct rig {
    struct moe_model model;
    struct moe_session session;
    struct layer_memory layers[RIG_LAYERS];
    float logits[RIG_VOCAB];
};

static const struct mixer_needs rig_needs[RIG_LAYERS] = {
    {.rows = {4, 2}}, {.states = {5000, 7}}, {.rows = {3}, .states = {0, 33}}};

static void rig_open_with(struct harness *t, struct rig *rig, uint32_t most, const struct mixer_needs *needs)
{
    struct gpu_error err;
    *rig = (struct rig){.model.gpu = gpu_open(&(struct gpu_options){.selector = "ref"}, &err)};
    CHECK(t, rig->model.gpu != NULL);
    memset(rig->model.package.fingerprint, '7', 64);
    rig->model.package.shape.vocab_size = RIG_VOCAB;
    rig->session.model = &rig->model;
    rig->session.scratch.last_rows[0] = rig->logits;
    rig->session.memory = (struct memory){.layers = rig->layers, .n_layers = RIG_LAYERS, .max_rows = RIG_ROWS};
    rig->session.snapshots = (struct snapshots){.most = most};
    for (int i = 0; i < RIG_LAYERS; i++) {
        rig->layers[i].needs = needs[i];
        for (int k = 0; k < MIXER_STREAMS; k++)
            if (needs[i].rows[k])
                rig->layers[i].rows[k] = gpu_buf_new(rig->model.gpu, RIG_ROWS * 4 * needs[i].rows[k], &err);
        for (int k = 0; k < MIXER_STATES; k++)
            for (int half = 0; half < 2 && needs[i].states[k]; half++)
                rig->layers[i].states[half][k] = gpu_buf_new(rig->model.gpu, needs[i].states[k] * 4, &err);
        rig->session.snapshots.bytes += 4 * (needs[i].states[0] + needs[i].states[1]);
    }
    memory_clear(rig->model.gpu, &rig->session.memory);
    memory_commit(&rig->session.memory);
}

static inline void rig_open(struct harness *t, struct rig *rig, uint32_t most)
{
    rig_open_with(t, rig, most, rig_needs);
}

static inline void rig_close(struct rig *rig)
{
    snapshots_release(&rig->session.snapshots);
    if (rig->session.staging)
        gpu_host_free(rig->model.gpu, rig->session.staging);
    for (int i = 0; i < RIG_LAYERS; i++) {
        for (int k = 0; k < MIXER_STREAMS; k++)
            gpu_buf_free(rig->layers[i].rows[k]);
        for (int k = 0; k < 2 * MIXER_STATES; k++)
            gpu_buf_free(rig->layers[i].states[k % 2][k / 2]);
    }
    gpu_close(rig->model.gpu);
}

static inline float rig_value(uint32_t layer, uint32_t which, uint32_t i, uint32_t position)
{
    return position ? (float)(layer * 1000000 + which * 100000 + i * 10) + (float)position : 0;
}

// What a pass does: writes the half that is not committed, all of it.
static inline void rig_write(struct rig *rig, uint32_t position)
{
    static float values[RIG_MOST];
    for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
        for (uint32_t k = 0; k < MIXER_STATES; k++) {
            uint32_t n = (uint32_t)rig->layers[layer].needs.states[k];
            for (uint32_t i = 0; i < n; i++)
                values[i] = rig_value(layer, k, i, position);
            if (n)
                gpu_write(rig->model.gpu, memory_state(&rig->session.memory, layer, k, false).to, 0, values, 4 * n);
        }
}

// And what makes it count; with the rows up to there.
static inline void rig_step(struct rig *rig, uint32_t position)
{
    rig_write(rig, position);
    for (uint32_t row = rig->session.length; row < position; row++)
        for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
            for (uint32_t k = 0; k < MIXER_STREAMS; k++)
                for (uint32_t i = 0; i < rig->layers[layer].needs.rows[k]; i++) {
                    float value = rig_value(layer, k, i, row + 1);
                    uint64_t at = 4 * ((uint64_t)row * rig->layers[layer].needs.rows[k] + i);
                    gpu_write(rig->model.gpu, rig->layers[layer].rows[k], at, &value, sizeof value);
                }
    memory_commit(&rig->session.memory);
    rig->session.length = rig->session.stands = position;
}

static inline int rig_cut(moe_session *session, uint32_t length, struct moe_err *err)
{
    int code = session_cut_states(session, length, err);
    session->length = code ? session->length : length;
    return code;
}

static inline void rig_check_states(struct harness *t, struct rig *rig, uint32_t position)
{
    static float values[RIG_MOST];
    struct gpu_error err;
    CHECK_EQ(t, rig->session.stands, position);
    for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
        for (uint32_t k = 0; k < MIXER_STATES; k++) {
            uint32_t n = (uint32_t)rig->layers[layer].needs.states[k], wrong = 0;
            if (n)
                CHECK_EQ(t,
                         gpu_read(rig->model.gpu, memory_state(&rig->session.memory, layer, k, false).from, 0, values,
                                  4 * n, &err),
                         0);
            for (uint32_t i = 0; i < n; i++)
                wrong += values[i] != rig_value(layer, k, i, position);
            CHECK_EQ(t, wrong, 0);
        }
}

static inline void rig_check_rows(struct harness *t, struct rig *rig)
{
    struct gpu_error err;
    uint32_t wrong = 0;
    for (uint32_t row = 0; row < rig->session.length; row++)
        for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
            for (uint32_t k = 0; k < MIXER_STREAMS; k++)
                for (uint32_t i = 0; i < rig->layers[layer].needs.rows[k]; i++) {
                    float value = 0;
                    uint64_t at = 4 * ((uint64_t)row * rig->layers[layer].needs.rows[k] + i);
                    wrong += gpu_read(rig->model.gpu, rig->layers[layer].rows[k], at, &value, sizeof value, &err) ||
                             value != rig_value(layer, k, i, row + 1);
                }
    CHECK_EQ(t, wrong, 0);
}

#endif
