// SPDX-License-Identifier: GPL-3.0-or-later
// What is behind a moe_model: a package on a device. Sessions read it; only its store changes, on the engine's thread.
#ifndef MOECHAT_ENGINE_MODEL_MODEL_H
#define MOECHAT_ENGINE_MODEL_MODEL_H

#include "engine/experts/expert_store.h"
#include "engine/walk/weights.h"

struct moe_model {
    struct package package;
    struct moe_description description;
    gpu *gpu;
    struct weights weights;
    expert_store *store;
    uint64_t state_bytes;       // of a session; 0: no layer has states
    uint32_t snapshots;         // of them that a session keeps
    struct moe_cache_plan plan; // as moe_model_cache says it
    uint32_t ring;              // as moe_model_options, 1 or 2
    unsigned n_sessions;        // open ones, for the check in moe_model_close
    const void *store_used_by;  // the session whose steps it serves; NULL: none's, or measurements'
};

// Rows that a session gets when it asks for none.
uint32_t model_context(const moe_model *model, enum moe_kv_type type);
int model_check_context(const moe_model *model, uint32_t context, struct moe_err *err); // over the model's limit?

// moe_foresee, and the shape that it is told by.
int foresee_shape(const char *path, struct moe_description *description, struct shape *shape, struct moe_err *err);

#endif
