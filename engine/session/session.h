// SPDX-License-Identifier: GPL-3.0-or-later
// What is behind a moe_session, for session.c and session_record.c.
#ifndef MOECHAT_ENGINE_SESSION_SESSION_H
#define MOECHAT_ENGINE_SESSION_SESSION_H

#include <stdatomic.h>

#include "engine/model/model.h"
#include "engine/walk/pass.h"

struct moe_session {
    moe_model *model;
    struct memory memory;
    struct scratch scratch;
    struct stream stream;
    struct routed routed;
    struct observer observer;
    uint32_t length;
    uint32_t chunk, group;
    bool has_logits;
    float *logits; // [vocab_size], after token length - 1
    atomic_bool cancel;
    struct moe_stats stats;
    // Of the feed under way: when it began (0: there is none), and the model's counters then.
    uint64_t began_ns;
    struct expert_counts experts;
    struct gpu_counts device;
    char *staging; // page-locked, for records; NULL until there is one
    size_t staging_bytes;
};

// Gives back the staging memory.
void session_record_release(moe_session *session);

#endif
