// SPDX-License-Identifier: GPL-3.0-or-later
// What is behind a moe_session, for the .c files of this room: session.c opens and closes it, feed.c feeds it,
// session_states.c says where it can stand, session_record.c saves and restores it.
#ifndef MOECHAT_ENGINE_SESSION_SESSION_H
#define MOECHAT_ENGINE_SESSION_SESSION_H

#include <stdatomic.h>

#include "engine/model/model.h"
#include "engine/session/held_group.h"
#include "engine/session/snapshots.h"
#include "engine/walk/pass.h"

struct moe_session {
    moe_model *model;
    struct memory memory;
    struct scratch scratch;
    struct stream stream;
    struct routed routed;
    struct observer observer;
    uint32_t length;
    uint32_t stands; // tokens that the committed states are of; the length, but while records are read without them
    struct snapshots snapshots;
    struct held_group held;  // where a cancelled prompt can go on
    uint32_t snapshot_every; // tokens within a prompt
    uint32_t chunk, group;
    bool context_asked; // else it may grow, see moe_session_make_room
    bool has_logits;    // after token length - 1
    unsigned shown;     // which of scratch.last_rows they are
    atomic_bool cancel;
    struct moe_stats stats;
    uint32_t counted;       // tokens of the feed under way, as of count_tokens
    uint64_t counted_at_ns; // when the last of them were; 0: no group of it has ended
    bool reads_prompt;      // what is under way is a prompt
    uint32_t under_way;     // rows of its group that goes through the layers; 0: none does
    // Of the feed under way: when it began (0: there is none), and the model's counters then.
    uint64_t began_ns;
    struct expert_counts experts;
    struct gpu_counts device;
    char *staging; // page-locked, for records; NULL until there is one
    size_t staging_bytes;
};

// States (session_states.c). Without any these do nothing.
//
// A copy of them is kept. MOE_NO_MEMORY only for a border.
int session_remember(moe_session *session, bool border, struct moe_err *err);
// They become those after `position` tokens, which is moe_session_floor's of itself. Unchanged on failure.
int session_stand(moe_session *session, uint32_t position, struct moe_err *err);
// The same for what is to be forgotten behind it, too; MOE_POSITION when it is no floor.
int session_cut_states(moe_session *session, uint32_t length, struct moe_err *err);
// Their bytes, layer after layer: [snapshots.bytes].
int session_copy_states(const moe_session *session, char *copy, struct moe_err *err);

// Between the two what the model's counters say is this session's. Returns the nanoseconds between them.
void session_start_counting(moe_session *session);
uint64_t session_stop_counting(moe_session *session);

// Gives back the staging memory.
void session_record_release(moe_session *session);

#endif
