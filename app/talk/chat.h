// SPDX-License-Identifier: GPL-3.0-or-later
// A conversation: its turns with their text and token ids, and those of its other branches: what was taken back,
// answered again or said otherwise. It is the truth; the engine's timeline follows it, and chat_request says what has
// to be fed for that. Pure: no thread, no terminal.
#ifndef MOECHAT_APP_TALK_CHAT_H
#define MOECHAT_APP_TALK_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/util/files.h"
#include "app/store/saved.h"
#include "tokenizer/tok.h"
#include "app/driver/worker.h"

// What people were told of an answer when it came, to be told the same when it is shown again.
struct chat_told {
    bool known; // false: it came in an earlier chat
    uint64_t tokens;
    double speed; // tokens a second, 0: not measured
};

struct chat_turn {
    enum tok_role role;
    struct bytes text;  // as typed, or as the model said it, byte for byte
    struct tok_ids ids; // as it was last fed, markers included
    uint32_t end;       // tokens of the timeline up to here; 0: not fed, and so are all turns after it
    int64_t number;     // of its part on the disk; PART_NONE: it was never fed
    int64_t after;      // that of the turn before it when it was fed
    int64_t said;       // that as which it was fed first: what is fed otherwise later was said once all the same
    struct part_made made;
    struct chat_told told;
};

// Where the conversation stands when something is taken back for the request that follows.
struct chat_place {
    bool noted;
    int64_t last;   // the turn that ends it
    bool undid;     // as below
    int64_t undone; // as below
};

// Zero-initialise.
struct chat {
    struct chat_turn *turns;    // the first may be the system's, then user and assistant alternate
    size_t n_turns, turns_room; // of that many
    struct chat_turn *others;   // of other branches, ascending by number, each after one that is there
    size_t n_others, others_room;
    uint32_t next_number; // of the next part
    uint32_t asked;       // the first of the request under way
    bool system_set;      // since a message was last kept, which feeds it: wherever one goes, it goes along
    bool undid;           // since something was last said
    int64_t undone;       // where the last undos began, those one after the other being one; if there was one
    struct bytes unsent;  // the last message, if its turn was refused or stopped before it was noted; data NULL: no
    bool refused;         // that had no room in the context, so only /edit means it
    bool again;           // the request under way is chat_again's
    bool resends;         // what was sent before is sent again: chat_take_last
    // The last one that was noted and came to nothing: so many parts from that number on, which end with it.
    struct turn_parts tried;
    int64_t tried_unfed; // the first turn on the way to it that is not fed: it may have come with an earlier try
    // As the model's template has it, and the face's to set: what becomes of thinking in turns that follow.
    struct tok_template_about about;
    enum think think;     // the next answer's
    enum think fed_think; // and that of what was fed last
    // Before the request under way, which may leave all as it was: so many turns fed, and how; and one more than the
    // number of a last message without an answer, whose place it takes: 0: there was none.
    size_t was_fed;
    size_t held; // as was_fed, but for another way of thinking, for which all is fed anew
    enum think was_think;
    int64_t left;
    struct chat_place back; // where it stands again if that has no room
};

void chat_release(struct chat *chat);
void chat_clear(struct chat *chat); // all but the system message
// Ends the conversation after so many turns; what was fed stays as a branch.
void chat_cut(struct chat *chat, size_t n_turns);
void chat_count_anew(struct chat *chat); // a cleared one: its turns' numbers begin again
void chat_prune(struct chat *chat);      // forgets all other branches
// Sets or, with length 0, removes the system message; the whole conversation is fed again with the next turn.
bool chat_set_system(struct chat *chat, const char *text, size_t length);
const struct chat_turn *chat_system(const struct chat *chat); // NULL: there is none
// Is that the system message? With length 0: is there none?
bool chat_system_is(const struct chat *chat, const char *text, size_t length);
// The same as chat_set_system, but where the conversation was said behind that one it is as fed as it was then:
// chat_position says so.
bool chat_change_system(struct chat *chat, const char *text, size_t length);
// Was it set or removed behind what is there, so that only the next message has it saved? Not where it came to the
// same.
bool chat_system_waits(const struct chat *chat);
// Those of the conversation as it was said: a system message that was neither saved nor sent is none yet, and one that
// it replaces still is.
size_t chat_messages(const struct chat *chat);
// Of a conversation in which a system message waits: the turns and the others as they were said, borrowed, for
// chat_forget_said. False: no memory.
bool chat_as_said(const struct chat *chat, struct chat *said);
void chat_forget_said(struct chat *said);
// Where nothing was said yet: the number under which the system message, set then, is to be saved. One it replaces, and
// that no branch begins with, is forgotten.
uint32_t chat_number_system(struct chat *chat, uint64_t time);
// Forgets system messages that no branch begins with any more, as what is saved does wherever one goes (branches_go).
void chat_drop_unused(struct chat *chat);
size_t chat_exchanges(const struct chat *chat);  // messages of the user
uint32_t chat_position(const struct chat *chat); // tokens of the timeline that are the conversation's
uint32_t chat_tokens(const struct chat *chat);   // the same with those of a last message that waits
uint32_t chat_answered(const struct chat *chat); // and without those of a last one that has no answer, read or not
// The last message was stopped while it was read, or its turn failed: it is there without an answer, and not fed.
bool chat_waits(const struct chat *chat);
void chat_leave_unanswered(struct chat *chat); // of a last message without an answer: it stays as a branch

// Would an answer that is made so have all of the conversation fed anew, as its beginning says whether answers think
// first and says otherwise now? What is fed says it itself, whoever fed it: another branch, or another chat.
bool chat_begins_anew(const struct chat *chat, enum think think);
struct chat_place chat_place(const struct chat *chat);
// Adds the user's message, in the place of a last one without an answer, and returns the turn that feeds it and
// whatever else was not fed. Where the last answer's thinking is to be left out now, that is its exchange, too, and
// where words stand in the place of an answer that is lost, its message; of these the engine keeps what stays the same.
// The caller fills in sampling and limits and sends it. NULL: no memory; the conversation is as before.
struct turn *chat_request(struct chat *chat, const char *text, size_t length);
// The turn that answers the last message once more, or for the first time; an answer that was there is taken back. What
// is fed stays so, but for a message that was read again as an earlier one: no answer can follow that as it is. NULL:
// the last message is not fed, or no memory.
struct turn *chat_again(struct chat *chat);
bool chat_has_unsent(const struct chat *chat);  // a message that is to be sent again and is no part of this
void chat_forget_refused(struct chat *chat);    // an unsent one that had no room, where one goes elsewhere
bool chat_last_is_fed(const struct chat *chat); // the last turn is; a message that is stays when its turn fails
// What the last message was answered with, now or else last of all, in another branch; NULL: it never was.
const struct chat_turn *chat_last_answer(const struct chat *chat);
// Takes in what became of that turn: ids and the answer's text, or, when the turn was not kept, the message stays as
// the last one if it was noted or is still fed; else it goes to unsent, and where it did not fit the one without an
// answer whose place it was to take is the last again. Where a place was noted to go back to (chat->back), what does
// not fit leaves all as it was there, and what was unsent. False: no memory.
bool chat_accept(struct chat *chat, const struct turn_result *result, const struct bytes *answer);
// Takes back the last n messages with their answers; returns how many there were to take. chat_redo knows where they
// are. Who has the engine follow takes chat_undo, by which all that is left counts as fed that has ids.
size_t chat_take_back(struct chat *chat, size_t n);
size_t chat_undo(struct chat *chat, size_t n);
// Moves the message to send again to *text: the unsent one, if chat_has_unsent, else the last one, which is taken back
// with its answer. False: there is none.
bool chat_take_last(struct chat *chat, struct bytes *text);

// What else was said in a turn's place: how many such turns there are with it, and which of them it is, from 0 on, in
// the order in which they were made. Of a system message there is one.
struct chat_rank {
    size_t count, index;
};
struct chat_rank chat_rank(const struct chat *chat, size_t turn);
struct chat_rank chat_rank_of(const struct chat *chat, int64_t number); // of any branch; count 0: there is none
// The last turn of the conversation in whose place something else was said, too. False: there is none.
bool chat_last_choice(const struct chat *chat, size_t *turn);
// Is it the first that is there of the parts as which the same was fed?
bool chat_is_first(const struct chat *chat, const struct chat_turn *turn);
// The number of the turn that stands `step` after or, negative, before that one among those. PART_NONE: there is none.
int64_t chat_beside(const struct chat *chat, size_t turn, int step);
// The number of the newest turn that follows that one, however it was fed, by any way; by that to where the last undo
// began, if there is one; the turn itself if nothing follows it.
int64_t chat_end_of(const struct chat *chat, int64_t number);
// The turn that ends the n-th exchange of those that follow the conversation, on the way of chat_end_of; *n becomes how
// many there were. PART_NONE: none.
int64_t chat_redo(const struct chat *chat, size_t *n);
// Of the conversation or another branch; NULL: there is no such turn.
const struct chat_turn *chat_find(const struct chat *chat, int64_t number);
// Counts as fed all turns up to the first that part_is_unfed, or that is to be fed with a last message that came to
// nothing when this is sent again.
void chat_count_fed(struct chat *chat);
// Makes the branch that ends with that turn the conversation; a system message that was set or removed and is not fed
// yet stays so, and all is fed again. False: there is none, or no memory; then nothing is lost.
bool chat_go(struct chat *chat, int64_t number);
int64_t chat_last(const struct chat *chat); // the number of the last turn that has one, PART_NONE

// Is there thinking in this answer?
bool chat_has_thinking(const struct bytes *answer);
// Appends what is thought and what is said in an answer's text. False: no memory.
bool chat_part_answer(const struct bytes *answer, struct bytes *thought, struct bytes *said);
// Do their roles follow each other as a conversation's do?
bool chat_follows(const struct part *parts, size_t n_parts);
// Puts saved parts in the place of all turns, as fed up to the first that part_is_unfed. False: no memory, or they are
// no conversation.
bool chat_restore(struct chat *chat, const struct part *parts, size_t n_parts);
// Adds those of its other branches; ids of another language than this are of no use. False: no memory.
bool chat_restore_others(struct chat *chat, const struct part *parts, size_t n_parts,
                         const struct part_language *language);
void chat_feed_anew(struct chat *chat); // nothing counts as fed any more
// Appends the ids of what is fed. False: no memory.
bool chat_timeline(const struct chat *chat, struct tok_ids *ids);
// Appends the conversation and all other branches to a session that holds nothing; of one that is fed otherwise now,
// behind a system message that was set or removed, what is fed. False: no memory.
bool chat_save(const struct chat *chat, struct saved *saved, const struct part_language *language);

#endif
