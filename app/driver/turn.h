// SPDX-License-Identifier: GPL-3.0-or-later
// A turn, as a face asks the worker for it, and what became of it.
#ifndef MOECHAT_APP_DRIVER_TURN_H
#define MOECHAT_APP_DRIVER_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/driver/backend.h"
#include "app/driver/sampling.h"
#include "app/figures/tally.h"

enum stop_reason {
    STOP_END,          // the model ended its answer
    STOP_MAX_TOKENS,   // the turn's own limit
    STOP_CONTEXT_FULL, // no room left, perhaps not even for the prompt
    STOP_CANCELLED,
    STOP_ERROR,
    STOP_TEXT, // a stop string
};
const char *stop_reason_name(enum stop_reason reason); // "end", "max_tokens", ...

// Parts of the disk, one after the other.
struct turn_parts {
    uint32_t first, count;
};
// Is that number the last one's?
static inline bool turn_parts_end_with(const struct turn_parts *parts, int64_t number)
{
    return parts->count && number == (int64_t)parts->first + parts->count - 1;
}

// The first turns of a request that have parts on the disk already, one after the other, whether the engine has them or
// not: what is fed as they were stays there once.
struct turn_noted {
    struct tok_ids ids;
    uint32_t *ends; // how many of those reach to the end of each turn
    size_t n;
};

// A turn to answer. Made by turn_new and turn_add (which copies), owned by the worker once it is sent.
struct turn {
    uint32_t position;  // the timeline is cut back to here first; 0 begins anew
    bool behind_system; // where the system message ends, not an answer
    bool raw;           // no template
    bool only;          // no other turn follows, so the end of the answer need not be fed
    bool again;         // another answer at `position`, where the message ends whose last id is last_id; turn_reopen
    int32_t last_id;
    uint32_t unanswered; // of that message's tokens, where nobody has answered it: to read them is not to do so again
    enum think think;
    struct tok_ids known; // ids of the timeline from `position` on: as far as the turns come to the same, they stay
    // Turns before the message come with it that were not fed, such as words in the place of what is lost: to read them
    // is not to read again.
    bool fills;
    struct turn_noted noted;
    uint32_t number; // of its first part on the disk; those of its other turns and of the answer follow
    uint32_t *left;  // parts that are fed otherwise now, each after the one that it follows: forgotten, unless
    size_t n_left;   // others follow them
    // Parts of an earlier try of this message: forgotten once this one is noted, unless others follow them.
    struct turn_parts instead;
    bool tokens; // EVENT_TOKEN for each
    struct sampling sampling;
    uint32_t max_tokens; // 0: none
    struct tok_turn *turns;
    struct part_made *made; // how each came to be, if it was there before
    size_t n_turns;
    struct turn_result *result; // to be filled: so that whatever fails can be told
};
struct turn *turn_new(void);                                                           // NULL: no memory
bool turn_add(struct turn *turn, enum tok_role role, const char *text, size_t length); // false: no memory
void turn_was_made(struct turn *turn, const struct part_made *made);                   // of the one that was added last
// The turn that was added last, and so each before it, has a part on the disk, with those ids. False: no memory.
bool turn_was_noted(struct turn *turn, const struct tok_ids *ids);
bool turn_leaves(struct turn *turn, uint32_t part); // adds to `left`; false: no memory
void turn_free(struct turn *turn);

// What became of a turn. When nothing was generated, or the answer could not be gone on with, the timeline stands where
// the turn found it; else it holds the prompt and the answer, closed: also after STOP_ERROR if a step failed, as what
// was said by then stays.
struct turn_result {
    enum stop_reason reason;
    bool begun;                // the worker's figures and tokens are this turn's; false: it was refused
    bool kept;                 // the timeline holds the turn
    bool news_follow;          // of the session it is saved in
    bool noted;                // its messages were, on the disk where that is asked for: kept or not, they stay
    struct turn_parts instead; // of the turn
    bool shorter_fits;         // after STOP_CONTEXT_FULL that refused the message: one of a letter has room
    struct moe_err err;        // for STOP_ERROR, and the sentence for STOP_CONTEXT_FULL
    struct tally tally;        // what the turn took
    uint32_t generated_tokens;
    double seconds; // the whole turn
    uint32_t context_used, context_total;
    uint32_t cached_tokens;   // not computed for this turn
    uint32_t reread_tokens;   // of the answer before: computed again, because its thinking is left out now
    uint32_t replayed_tokens; // before all that: computed again, because states were kept further back only
    bool for_states;          // what was computed again was for want of states
    uint32_t again_tokens;    // of the conversation before the message, or up to its end: all that was read, those too
    // When it was stopped, as progress counts them, whatever earlier tries have left included:
    bool rereading;        // of the conversation itself, whose tokens were not there
    uint32_t to_read;      // those, or the tokens of the prompt behind the conversation
    uint32_t read_tokens;  // of those: they need not be computed again
    uint32_t held_tokens;  // beyond those: so many tokens' worth of the others' work need not be done again
    size_t answer_room;    // see turn_answer_room
    struct tok_ids prompt; // as fed; the first prompt_ends[i] of them reach to the end of turn i
    size_t *prompt_ends;
    size_t n_prompt_ends;
    size_t n_same;         // the first of the turns that come to what was noted, and whose parts stay as they are
    struct tok_ids answer; // with the id that closes it
    uint64_t asked;        // when the turn began, in seconds since 1970
    struct part_made made; // the answer's
    struct bytes text;     // what the answer says, thinking and its marks included: what a conversation keeps
};
void turn_note_answer(const struct turn *turn, struct turn_result *result); // how it came to be, now that it is there
void turn_result_free(struct turn_result *result);                          // NULL is fine

// Another answer, whose turn is the message itself at `position` with what of it is known: where that ends as the
// template has a message that is to be answered, the answer follows it. One that was read again as an earlier one does
// not; then it is fed once more. Returns 0 or a code with *err.
int turn_reopen(struct turn *turn, const struct backend *backend, struct moe_err *err);
// How many tokens close an answer that ends where its sections stand. In some templates none does: the next message's
// mark is the end.
size_t turn_closing(const struct backend *backend, bool raw, const struct tok_sections *sections);
// Tokens of the shortest answer that would begin so: one that it says, and those that close it.
size_t turn_answer_room(const struct backend *backend, bool raw, enum think think);
// As the worker goes through a turn. Fills result->prompt and its ends. Returns 0 or a code with result->err.
int turn_encode(const struct turn *turn, const struct backend *backend, struct turn_result *result);
// After that, of one that is stopped: its messages have no ids, as if they had never been encoded.
void turn_stay_unfed(const struct turn *turn, struct turn_result *result);
// The first of the turns that come to the same as what was noted of them and is on the disk (NULL: none) still: their
// parts stay.
size_t turn_same(const struct turn *turn, const struct saved *saved, const struct turn_result *result);
// How many of the prompt's ids from `there` on stay what they are when a template leaves this answer's thinking out of
// the next turn: those before what opens it. 0: no other number than all.
size_t turn_unchanged(const struct turn *turn, const struct backend *backend, const struct turn_result *result,
                      size_t there);
// Is there room for the prompt, and an answer of a token?
bool turn_has_room(const struct turn *turn, const struct turn_result *result);
// There is none: the sentence, and whether a shorter message has room. Where turns before the message are fed with it,
// what was used is no help. Returns a code with result->err.
int turn_does_not_fit(const struct turn *turn, const struct backend *backend, struct turn_result *result);
// Of what was read, what is no part of a new message: one count for whatever made it necessary.
uint32_t turn_count_again(const struct turn *turn, const struct turn_result *result);

#endif
