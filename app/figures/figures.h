// SPDX-License-Identifier: GPL-3.0-or-later
// What the engine's records of its steps add up to: copies that outlive the step, for the face, --jsonl and /stats.
#ifndef MOECHAT_APP_FIGURES_FIGURES_H
#define MOECHAT_APP_FIGURES_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/figures/tally.h"

const char *figures_interval_name(enum moe_interval interval);      // "disk", "copy", "attention" ...
const char *figures_policy_name(const struct moe_cache_plan *plan); // of the expert caches
const char *figures_interval_word(enum moe_interval interval);      // for people: a read need not be the disk's
// What is spent on it is an estimate, in a step or in some of a sum that are shared_out: see moe_telemetry.
bool figures_is_estimate(bool shared_out, enum moe_interval interval);
const char *figures_origin_name(enum moe_origin origin); // "device", "host", "prefetch", "late", "disk"
const char *figures_origin_word(enum moe_origin origin); // as the pane says it: "device", "ahead", "read"

// A record with all that it points to in one block, which free releases. NULL: no memory.
struct moe_telemetry *figures_clone(const struct moe_telemetry *record);
size_t figures_bytes(const struct moe_telemetry *record); // of a clone

// Of what the sums are. Work between two turns, such as feeding an answer's end, is the next turn's, and counts nowhere
// before that begins: so what is told of a turn stays, and turns add up to their conversation.
enum figures_of { FIGURES_TURN, FIGURES_CONVERSATION, FIGURES_PROGRAM, FIGURES_NEXT, FIGURES_SUMS };

// Adds a step to *sum, which is made by the first (NULL before it; a block as of figures_clone, without choices); takes
// what another sum has away from it. False: no memory, nothing changed.
bool figures_add(struct moe_telemetry **sum, const struct moe_telemetry *step);
void figures_take_away(struct moe_telemetry *sum, const struct moe_telemetry *part);

// Zero-initialise. All records are clones and have the same dimensions; all are NULL before the first step is taken or
// looked at, which not every backend has. The tallies are what people and scripts are told.
struct figures {
    struct moe_telemetry *last; // step
    bool last_is_now;           // it is of the turn, not of one before or between two
    bool last_is_under_way;     // it has not ended; of copies
    // The step under way, as it was looked at last, and whether that is between turns. Copies have it in their sums.
    struct moe_telemetry *under_way;
    bool is_under_way, is_between;
    // Sums by layer, without choices; `step` counts the steps and `rows` the tokens; shared_out: of one of them.
    struct moe_telemetry *sums[FIGURES_SUMS];
    struct tally tallies[FIGURES_SUMS];
    uint32_t turn;       // how many were asked for, up to the one at hand: begun, or refused
    uint32_t context;    // tokens of it that are used, that of the last token of an answer included
    uint32_t *heat;      // [n_moe_layers * n_routed_experts], uses in the turn
    uint32_t *heat_next; // as many, uses between turns: the next one's
    uint8_t *tiers;      // as many enum moe_tier: where the experts were when somebody looked last
};
void figures_release(struct figures *figures);
// The step becomes the last one and part of the sums, `between` turns or of one; `heat` is the turn's so far, or the
// next one's. False: no memory, nothing changed.
bool figures_take(struct figures *figures, const struct moe_telemetry *step, bool between, const uint32_t *heat);
// What was read after the steps' records were made, in a record of no step: part of the same sums. Not the last one.
void figures_settle(struct figures *figures, const struct moe_telemetry *rest, bool between);
// What was counted beside the steps: tokens, their time, experts read ahead.
void figures_count(struct figures *figures, const struct tally *more, bool between);
// What the step under way is so far: until it is taken, or given up, it counts in copies. False: no memory.
bool figures_look(struct figures *figures, const struct moe_telemetry *so_far, bool between);
void figures_give_up(struct figures *figures);
// While a step is under way: what `heat` is meanwhile. Nothing before the first step was looked at.
void figures_take_heat(struct figures *figures, const uint32_t *heat, bool between);
// Also of a copy, while nobody has come to the turn that was asked for.
void figures_begin_turn(struct figures *figures);
void figures_begin_conversation(struct figures *figures);  // no turn of it has been yet
uint64_t figures_on_device(const struct figures *figures); // how many experts are there
// Overwrites *to, reusing its memory, and has the step under way as the last one and in its sums. False: there was no
// step yet, or no memory: then it has tallies alone.
bool figures_copy(struct figures *to, const struct figures *from);

#endif
