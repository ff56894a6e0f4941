// SPDX-License-Identifier: GPL-3.0-or-later
// The record of a step while it is made: a stopwatch that is always on exactly one interval, and what each MoE layer's
// experts cost. One per session; it keeps the last whole record beside the one being written.
//
// The device runs behind the host, so its time is seen where the host waits for it: telemetry_mark says what the work
// enqueued since the one before was for, and telemetry_settle waits for the marks one by one, each wait under its own
// name. The work behind them is enqueued already, so looking makes the device no slower.
//
// A step that hardly ever waits (telemetry_look_rarely) would wait for nothing but the marks: so of those only one in
// TELEMETRY_EVERY has them, and what the others spent on attention, routers, experts, copies and head, all told, is
// shared out as it was in that one.
#ifndef MOECHAT_ENGINE_WALK_TELEMETRY_H
#define MOECHAT_ENGINE_WALK_TELEMETRY_H

#include "engine/experts/expert_store.h"
#include "engine/files/shape.h"

enum { TELEMETRY_EVERY = 64 };

struct telemetry {
    struct moe_telemetry records[2]; // the last whole one is records[shown]
    struct moe_layer_record *layers[2];
    struct moe_choice *choices[2];
    uint32_t *heat; // [n_moe_layers * n_routed_experts]
    unsigned shown;
    uint64_t steps;
    // The step under way.
    enum moe_interval on;
    uint64_t began_ns, switched_ns;
    struct gpu_counts device;         // when it began
    struct expert_layer_counts *seen; // [n_moe_layers], as of the layer's last record: prefetches are read in between
                                      // unless telemetry_pass_over came
    uint64_t waited_ns, copy_ns;      // the store's waits as last looked at: all of them, and those for copies
    uint64_t wait_ns;                 // of the layer so far
    struct telemetry_mark {
        uint64_t fence;
        enum moe_interval of;
    } * marks;
    unsigned n_marks, most_marks;
    bool unmarked;                   // telemetry_mark does nothing
    bool rarely;                     // the step is one of those that are looked at rarely
    unsigned left;                   // of those, how many come before the next that is
    double shares[MOE_INTERVALS];    // of the time shared out, in the last one
    bool under_way;                  // between telemetry_begin and its end
    struct moe_layer_record *so_far; // [n_moe_layers], as telemetry_so_far gave them last
    struct moe_telemetry looked_at;
};

int telemetry_open(const struct shape *shape, const expert_store *store, struct telemetry *telemetry,
                   struct moe_err *err);
void telemetry_release(struct telemetry *telemetry);
// What the store has counted until now belongs to somebody else.
void telemetry_pass_over(struct telemetry *telemetry, const expert_store *store);

// A step begins, on MOE_ON_HOST.
void telemetry_begin(struct telemetry *telemetry, gpu *g, const struct moe_telemetry *about); // position, rows, decode
void telemetry_end(struct telemetry *telemetry, gpu *g);                                      // it becomes the last
// So does one that failed or was cancelled, with what the store has counted of any layer until now.
void telemetry_stop(struct telemetry *telemetry, gpu *g, const expert_store *store);
// Of the last one: of so many tokens it did the work.
void telemetry_set_rows(struct telemetry *telemetry, uint32_t rows);
// What the store has counted of any layer since its last record, as the record of no step: valid until the next begins.
const struct moe_telemetry *telemetry_rest(struct telemetry *telemetry, const expert_store *store);
// The record of the step under way as it is now, with the number that it will have; nothing of the step changes.
// `layer`: whose experts are at work, UINT32_MAX: none's. NULL: no step is under way. Valid until it is asked for
// again.
const struct moe_telemetry *telemetry_so_far(struct telemetry *telemetry, gpu *g, const expert_store *store,
                                             uint32_t layer);
// The step under way waits for the device in its end only, or nearly so.
void telemetry_look_rarely(struct telemetry *telemetry);
// From now on time is `interval`'s. Returns whose it was.
enum moe_interval telemetry_switch(struct telemetry *telemetry, enum moe_interval interval);

void telemetry_mark(struct telemetry *telemetry, gpu *g, enum moe_interval of);
// Afterwards time is `then`'s.
void telemetry_settle(struct telemetry *telemetry, gpu *g, enum moe_interval then);

// The experts of a layer, between these two. What the store counted for the layer since its last record is this one's.
void telemetry_layer_begin(struct telemetry *telemetry, const expert_store *store);
void telemetry_layer_end(struct telemetry *telemetry, uint32_t layer, const expert_store *store);
// After a call that may have waited for the store, for this layer's experts or for those of the next that are asked for
// ahead: that part of the time is MOE_ON_DISK's or MOE_ON_COPY's. Returns it.
uint64_t telemetry_waited(struct telemetry *telemetry, const expert_store *store);
// One of them, for which the store was waited for since the last look. rank: its place in the choice of a decoded
// token; counted alone in a prefill.
struct telemetry_use {
    const struct expert_place *place;
    uint32_t rank, rows;
};
void telemetry_use(struct telemetry *telemetry, const expert_store *store, const struct telemetry_use *use);
// What a decoded token's choices weigh, by layers with experts and ranks in them.
void telemetry_weigh(struct telemetry *telemetry, const float *weights);

#endif
