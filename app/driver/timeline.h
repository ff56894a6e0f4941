// SPDX-License-Identifier: GPL-3.0-or-later
// The tokens of a conversation as the engine has them, and those that belong behind them and are still to be fed: what
// the last answer left open, or what was restored without its rows. The engine's thread alone; codes are moe_codes.
#ifndef MOECHAT_APP_DRIVER_TIMELINE_H
#define MOECHAT_APP_DRIVER_TIMELINE_H

#include "app/driver/backend.h"
#include "app/driver/steps.h"

// Zero-initialise but for the first two.
struct timeline {
    const struct backend *backend;
    struct steps *steps;    // notes all that is fed
    struct tok_ids fed;     // what the engine has
    struct tok_ids pending; // fed before anything else
    size_t unread;          // of those the first, whose rows are to be made as a prompt's are
    uint32_t reread;        // of what was unread, so many were read since
    bool for_states;        // they are unread because no states were kept behind them, where rows are
    uint32_t new_from;      // those from here on were never read before; UINT32_MAX: all were
    bool reading_unread;    // now,
    bool reading_again;     // and some of them were read before, or were when they were read last
    // Behind all that: what was read of a prompt that was stopped and is no part of the conversation.
    struct tok_ids part;
    uint32_t part_at, part_from; // where that prompt begins, and what was read of it for it
};
void timeline_release(struct timeline *timeline);

uint32_t timeline_length(const struct timeline *timeline); // with what is pending
// Of those that the engine must read before anything else, a prompt's way: restored without their rows, or behind the
// last place where an engine could stand whose layers have states.
uint32_t timeline_unread(const struct timeline *timeline);
bool timeline_unread_for_states(const struct timeline *timeline); // are there such, for want of states alone?
// Behind all that is fed, whatever is pending.
int timeline_decode(struct timeline *timeline, int32_t id, struct moe_err *err);
int timeline_prefill(struct timeline *timeline, const int32_t *ids, size_t count, const uint32_t *borders,
                     struct moe_err *err);

// One more id that is to be fed, as the answers' are.
int timeline_add(struct timeline *timeline, int32_t id, struct moe_err *err);
// `ids`, of which the engine has the first `fed`, are the timeline; the rest is read as a prompt is, for_states:
// because no states were kept there. Takes them over.
void timeline_restore(struct timeline *timeline, struct tok_ids *ids, uint32_t fed, bool for_states);
// Of what is unread, the last `count` tokens were never read: a message that nobody answered.
void timeline_note_new(struct timeline *timeline, uint32_t count);
// How many of the first of `ids` it has, pending ones too.
uint32_t timeline_same(const struct timeline *timeline, const struct tok_ids *ids);
// Of what timeline_unread said first, what was read since: earlier tries that were stopped have left it.
uint32_t timeline_reread(const struct timeline *timeline);
// Feeds what is pending. What answers left open always goes through decode, so that the rows do not depend on when.
// After an error the rest is still pending.
int timeline_settle(struct timeline *timeline, struct moe_err *err);
// The reading of a prompt at `position` was stopped, which had begun at `from`: what the engine has of it stays,
// uncounted, until the next cut, which may spare it. Without memory it goes. What was there before `from` belongs to
// it, too, even if nothing more was read to the end: what the engine holds of a group is good behind those alone.
void timeline_keep_part(struct timeline *timeline, uint32_t position, uint32_t from, const struct tok_ids *prompt);
// Back to the first `position` tokens, behind which what was restored was being read again and was stopped: what the
// engine has of it stays as such a part. False: it is not so, or there is no memory; nothing has changed.
bool timeline_part_from_unread(struct timeline *timeline, uint32_t position);
// And on again to `ids`, which have the part's behind those: they are the timeline, the rest of them unread. Takes them
// over. False: they have not, and nothing has changed.
bool timeline_unread_from_part(struct timeline *timeline, struct tok_ids *ids);
bool timeline_has_part(const struct timeline *timeline); // stays such a one?
// Of those, what the engine has read of it.
uint32_t timeline_part_length(const struct timeline *timeline);
// Is there such a part, behind those tokens and no others?
bool timeline_part_follows(const struct timeline *timeline, const struct tok_ids *ids);
// Where the reading of the prompt at `position` began that was stopped; UINT32_MAX: none was.
uint32_t timeline_part_from(const struct timeline *timeline, uint32_t position);
// Ids that the engine has of a prompt at `position`, given those that are `known` to be there: at most all but one.
uint32_t timeline_has(const struct timeline *timeline, uint32_t position, const struct tok_ids *known,
                      const struct tok_ids *prompt);
// Back to `position` tokens, those of a part included. Where the engine can only be cut further back, what is missing
// up to there is unread.
int timeline_cut(struct timeline *timeline, uint32_t position, struct moe_err *err);
// The last id is fed again, the prompt's way, so that its logits are there.
int timeline_repeat(struct timeline *timeline, int32_t last_id, struct moe_err *err);

#endif
