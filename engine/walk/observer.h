// SPDX-License-Identifier: GPL-3.0-or-later
// Whoever looks at tokens on their way through the model: the record of the step, a prompt's pace and progress, hidden
// states, a cancel. The walk says where it is and which expert it uses; what that is to whom is known here alone, and
// changes no number.
#ifndef MOECHAT_ENGINE_WALK_OBSERVER_H
#define MOECHAT_ENGINE_WALK_OBSERVER_H

#include <stdatomic.h>

#include "engine/walk/pace.h"
#include "engine/walk/telemetry.h"

struct pass;

// From now on the pass is at this. What the device is given belongs to the stage in which it is given.
enum stage {
    STAGE_ATTENTION, // a layer's first half; the embedding before the first
    STAGE_ROUTER,    // its second: the norm and the router,
    STAGE_MLP,       // a dense or shared MLP,
    STAGE_ASK,       // the store is asked for routed experts,
    STAGE_COPY,      // copies of theirs are waited for, by the device,
    STAGE_EXPERTS,   // which are put to work
    STAGE_HEAD,      // the last norm and the head
    STAGE_WAIT,      // the host waits for all that the device was given
    STAGE_HOST,      // and does something of its own
    STAGE_CHUNK,     // no stage, but an end: a chunk's layer is given to the device, all but the routed experts
};

struct observer {
    gpu *gpu;
    const struct shape *shape;
    expert_store *store;
    const atomic_bool *cancel;
    struct telemetry telemetry;
    struct pace pace;
    uint8_t *tiers;    // [n_moe_layers * n_routed_experts], for the pace
    uint32_t *missing; // [n_layers], the pace's
    // The feed under way.
    struct moe_feed feed;
    bool paced;            // somebody wants to know how long it takes
    uint64_t bytes_before; // that the store had read when it began
    // Its step.
    enum moe_interval given; // what the device was given last and nobody waited for; MOE_ON_HOST: there is no such
    bool in_layer;           // between STAGE_ASK and the end of the layer's routed experts
    uint32_t layer;          // this one
};

struct observer_options {
    gpu *gpu;
    const struct shape *shape;
    expert_store *store;
    const atomic_bool *cancel; // looked at, never changed
    unsigned without;          // of MOE_WITHOUT_: MOE_WITHOUT_MARKS
};
int observer_open(const struct observer_options *options, struct observer *observer, struct moe_err *err);
void observer_release(struct observer *observer);

// A feed begins. The copies of *feed are not used after its end.
struct observer_feed {
    const struct moe_feed *feed;
    bool decode;
    struct pace_groups groups;
    uint32_t ahead; // as of a pace_plan
};
void observer_begin(struct observer *observer, const struct observer_feed *about);
// So many of its tokens are done.
void observer_progress(const struct observer *observer, uint64_t tokens);
// The record of the step under way as it is now, with all of its tokens as rows; see telemetry_so_far.
const struct moe_telemetry *observer_so_far(struct observer *observer);
// The cancel flag, as the store asks for it; `observer` is one.
bool observer_cancelled(void *observer);

// ---- What a pass says of itself. A step is a group's way, from pass_begin to pass_end, whatever came of it.
// `begins`: else it goes on where the stream was left.
void pass_begin(const struct pass *pass, bool begins);
void pass_end(const struct pass *pass, int code);
void pass_stage(const struct pass *pass, enum stage stage, uint32_t layer);
// The step's layers hardly wait for the device.
void pass_runs_ahead(const struct pass *pass);
// A routed expert is put to work, or, in a prefill, was: once for each, in the stage that follows STAGE_ASK.
void pass_used(const struct pass *pass, const struct telemetry_use *use);
// What a decoded token's experts weighed, once the host knows.
void pass_weighed(const struct pass *pass, const float *weights);
// MOE_CANCELLED when somebody wants it to stop.
int pass_goes_on(const struct pass *pass, struct moe_err *err);
// Shows the residual stream to whoever asked for it: stage as of a moe_hidden_fn.
int pass_show(const struct pass *pass, uint32_t stage, struct moe_err *err);

#endif
