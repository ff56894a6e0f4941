// SPDX-License-Identifier: GPL-3.0-or-later
// What the worker does for its session on disk: saves what was fed and said, and brings it back. The engine's thread
// alone.
#ifndef MOECHAT_APP_DRIVER_KEEPER_H
#define MOECHAT_APP_DRIVER_KEEPER_H

#include "app/driver/backend.h"
#include "app/store/saved.h"

struct turn;
struct turn_result;

// What became of a session, for its people.
struct session_news {
    bool of_turn;               // it came after a turn, and answers nothing else
    bool open;                  // a session is open
    bool stale;                 // opened, but its ids mean nothing to this model: the text must be fed anew
    bool failed;                // text says what could not be done
    uint32_t max_context;       // opened: room for tokens
    bool full;                  // opened: the conversation's leave none for an answer
    bool unsaved;               // the disk does not have all that was said
    bool hole;                  // nor will it: of what came before something could not even be noted
    uint32_t cached, missing;   // opened: tokens whose rows are there, and that are computed with the next turn
    bool blank;                 // it goes when another one is opened: nothing was said in it (saved_is_blank), or kept
    bool unanswered;            // closed: the last message is saved, and has no answer
    char name[STORE_NAME_SIZE]; // "" until its first turn is saved
    char text[STORE_TEXT_SIZE]; // one line for people; "": nothing to say
};

// The last of the conversation's parts on the disk, when it is a message that has no answer yet: of the turn under way,
// or of one that came to nothing, which is still to be sent again or to be replaced. What was fed anew before it stays
// the conversation's, for whatever message comes in its place.
struct keeper_unanswered {
    bool there;
    uint32_t position; // of the timeline, where it begins
};

// Zero-initialise but for the first three.
struct keeper {
    const struct backend *backend;
    moe_progress_fn *progress; // while rows are read back
    void *progress_context;
    struct saved *saved;        // NULL: turns are not saved
    struct session_news news;   // to be sent next
    char told[STORE_TEXT_SIZE]; // of this turn, by keeper_tell
    // Of the news' text: what the last save with rows said of those that it left out.
    char of_rows[STORE_TEXT_SIZE];
    enum think think; // the next answer's
    bool unsaved;     // the last commit failed
    bool hole;        // something that was said could not even be noted
    struct keeper_unanswered unanswered;
    bool short_of_states; // of what keeper_load found all rows were there, and states only further back
    bool waits;           // the message that is answered anew was the end of what is saved
};

// Tokens of the conversation that are there without their rows.
struct keeper_unread {
    size_t tokens;       // of the conversation
    size_t missing;      // of those, without rows
    uint32_t unanswered; // of those, a last message's that has no answer; at most `missing`
    bool forgets;        // fewer may have to be read, where thinking is left out then
};
enum { KEEPER_UNREAD_SIZE = 160 };
// What the next message reads of those, and /retry.
void keeper_say_unread(char *out, size_t size, const struct keeper_unread *unread);

// Saves what is missing on the disk; what there is to say goes to the news.
void keeper_commit(struct keeper *keeper);
void keeper_save_text(struct keeper *keeper); // the same without rows
// Before the prompt is read, which may take minutes: its messages, so that whatever happens they are there. They stay
// when the turn comes to nothing, as people who leave don't send them again; when another turn begins or the
// conversation goes elsewhere they are left as a branch. Forgets turn->instead.
void keeper_save_message(struct keeper *keeper, const struct turn *turn, const struct turn_result *result);
// Behind that: why it failed, to be told at once, or NULL. It is taken out of the news.
const char *keeper_tell(struct keeper *keeper);
// Before the turn's news are sent: they don't say again what was told, but that it is over where all is saved now.
void keeper_end_turn(struct keeper *keeper);
void keeper_leave_message(struct keeper *keeper);
// After the prompt was read: its rows, and the logits that the answer begins with; with borders, also the states
// after so many tokens ([MOE_BORDERS], 0: none).
void keeper_save_prompt(struct keeper *keeper, const struct turn *turn, const uint32_t *borders);
// Before another answer to the message that ends at token `position`: cuts the saved conversation back to there.
void keeper_leave_answer(struct keeper *keeper, uint32_t position);
// The text before what ends the turn, and before anybody is told of it, such as that the other answer did not come.
// Should it fail, the next keeper_save_text or commit tries again, and says so.
void keeper_save_text_first(struct keeper *keeper);
// As keeper_save_prompt, of a message that was on the disk without its rows and now was read. Not where it was answered
// before: that answer is the conversation's until the new one is there.
void keeper_save_read(struct keeper *keeper);
// Of a conversation in which nothing was said yet: its system message, under that number, and when it was set; with no
// text it has none.
void keeper_save_system(struct keeper *keeper, const struct bytes *text, uint32_t number, uint64_t time);
// When the answer is there: its text and ids, so that they are on the disk before anybody is told that it has ended.
// Its rows come with the next keeper_commit, once its end has been fed. False: nothing was saved, now or before.
bool keeper_save_answer(struct keeper *keeper, const struct turn *turn, const struct turn_result *result);
// Takes the logits at the timeline's end from the session, if they were saved.
bool keeper_logits(struct keeper *keeper);
// Reads the rows of keeper->saved into the empty timeline, as far as they are good. `fed` is how many of its tokens are
// known: behind a part that is lost the text is to be read anew. Returns how many tokens are there;
// news say what is missing and why. Rows of other weights stay as they are: keeper->saved is a new session then, of
// another name, or NULL where none could be made.
uint32_t keeper_load(struct keeper *keeper, uint32_t fed);
// Appends to the timeline, which holds what the conversation begins with, rows that are saved, up to `most` tokens, as
// far as there is room and they are good. NULL, or why not all: err->text or a word of its own.
const char *keeper_restore(struct keeper *keeper, uint32_t most, struct moe_err *err);
// Is there room for an answer behind so many tokens? False: the news say what to do.
bool keeper_has_room(struct keeper *keeper, size_t tokens);
bool keeper_has_more(const struct keeper *keeper); // rows are saved that the timeline does not have
void keeper_lose(struct keeper *keeper);           // what was gone to is not on the disk: says so
// Gives the session a name, unless "", and saves what is not on the disk yet: of a damaged one all that could be read.
void keeper_save_as(struct keeper *keeper, const char *name);
void keeper_close(struct keeper *keeper); // tries once more what could not be saved
void keeper_leave(struct keeper *keeper); // the same for another session, which a blank one does not outlive

#endif
