// SPDX-License-Identifier: GPL-3.0-or-later
// What is behind a moe_session, for session.c and snapshot.c.
#ifndef MOECHAT_SESSION_H
#define MOECHAT_SESSION_H

#include <stdatomic.h>

#include "kv.h"
#include "model.h"
#include "scratch.h"
#include "telemetry.h"

struct moe_session {
    moe_model *model;
    struct kv kv;
    struct scratch scratch;
    struct telemetry telemetry;
    uint32_t length;
    uint32_t chunk;
    bool has_logits;
    float *logits; // [vocab_size], after token length - 1
    atomic_bool cancel;
    struct moe_stats stats;
    char *staging; // page-locked, for records; NULL until there is one
    size_t staging_bytes;
};

// Gives back the staging memory.
void snapshot_release(moe_session *session);

#endif
