// SPDX-License-Identifier: GPL-3.0-or-later
// How long a prefill will still take. What there is to do is known before it begins: multiplications by kind, and bytes
// of experts to be read. What each costs is learned on the way, and kept for the session's next prompt; until then the
// kinds are taken for equally fast, and the disk for as fast as it was when the model was opened. Knows no clock: each
// step brings the time with it.
//
// A layer's experts take the longer of their compute and of their reads; everything else adds up. The host runs ahead
// of the device, so compute is measured between the steps at which the device is known to have done all.
#ifndef MOECHAT_ENGINE_WALK_PACE_H
#define MOECHAT_ENGINE_WALK_PACE_H

#include "engine/files/shape.h"

enum pace_kind {
    PACE_DENSE,     // projections, MLPs, router, head
    PACE_ATTENTION, // with all the rows before: grows with the position
    PACE_EXPERTS,
    PACE_KINDS
};

// Cumulative, all three from any beginning.
struct pace_clock {
    uint64_t now_ns;
    uint64_t wait_ns; // that the host stood still for experts
    uint64_t bytes_read;
};

// How many tokens go through the layers together, of those that are left: the groups of a prompt are alike.
struct pace_groups {
    uint32_t chunk, largest; // rows; `largest` is a multiple of `chunk`
};
uint32_t pace_group(struct pace_groups groups, uint32_t left);

struct pace_plan {
    const struct shape *shape;
    struct pace_groups groups;
    uint32_t position, tokens;
    bool all_logits;         // of every token
    const uint8_t *tiers;    // [n_moe_layers * n_routed_experts] of enum moe_tier, as they are now; not kept
    uint32_t *missing;       // [n_layers], for the pace to fill
    uint64_t slots;          // that keep experts from group to group
    uint64_t expert_bytes;   // of one
    double disk_bytes_per_s; // 0: not known
    uint32_t ahead;          // experts of the next MoE layer that are read while it begins
};

// What was learned: normal equations of ns by kind of work, and reads.
struct pace_learned {
    double squares[PACE_KINDS][PACE_KINDS], products[PACE_KINDS];
    double ratios[PACE_KINDS]; // what a kind's work cost against PACE_DENSE's in the prompt before; 0: there was none
    double read_ns, read_bytes;
    bool warm[PACE_KINDS]; // such work was measured
};

struct pace {
    struct pace_plan plan;
    double all; // work of the prompt, roughly
    // Work: not known to be done; of that, given to the device; known to be done since `since`.
    double rest[PACE_KINDS], queued[PACE_KINDS], seen[PACE_KINDS];
    struct pace_clock since, last; // when the device was known to have done all; the last step
    uint32_t position, left, rows; // of this group, tokens after it, and of it
    bool swept;                    // it is not the first
    uint32_t layer;                // whose experts are under way, or come next
    bool in_layer;
    double layer_work, layer_done, layer_behind; // all of it, given to the device, and an expert's on average
    double layer_bytes;                          // to be read for it when it began
    struct pace_clock layer_began;
    struct pace_learned learned;
    double ns[PACE_KINDS], read_ns; // of a unit of work, of a byte; 0: not known yet
};

// What an earlier prompt has taught stays in *pace; zeros at first.
void pace_begin(struct pace *pace, const struct pace_plan *plan, const struct pace_clock *at);
void pace_begin_group(struct pace *pace, uint32_t rows);
// The first group goes on where another feed was stopped: the layers before this one are done, and of this one the
// beginning of so many rows.
void pace_skip(struct pace *pace, uint32_t layer, uint32_t rows);
// The device has done a chunk's beginning in a layer: all but the experts, the shared ones included.
struct pace_chunk {
    uint32_t layer, position, rows;
};
void pace_chunk(struct pace *pace, const struct pace_chunk *chunk, const struct pace_clock *at);
// The layer's routed experts begin: so many are busy.
void pace_layer(struct pace *pace, uint32_t layer, uint32_t busy, const struct pace_clock *at);
// One of them was given to the device, which is `behind` of them behind at most.
void pace_expert(struct pace *pace, uint32_t rows, uint32_t behind, const struct pace_clock *at);
// So was the head of so many rows, with all_logits.
void pace_logits(struct pace *pace, uint32_t rows);

// What the rest will take; 0: that can't be told yet.
double pace_seconds_left(const struct pace *pace);
// Bytes of experts that the rest will read, by what is in memory and if all experts are chosen alike, once the store
// has read so many in all.
double pace_bytes_left(const struct pace *pace, uint64_t bytes_read);

#endif
