// SPDX-License-Identifier: GPL-3.0-or-later
// A conversation under way: what was said, the worker that answers, the session it is saved in, and the commands. Knows
// no terminal: what there is to see goes to a face. UI thread.
#ifndef MOECHAT_APP_TALK_TALK_H
#define MOECHAT_APP_TALK_TALK_H

#include "app/talk/chat.h"
#include "app/talk/face.h"
#include "app/options/options.h"
#include "app/talk/sessions.h"

// What follows a command as a string, cut where no name or number reaches.
struct talk_argument {
    char text[160];
};

enum talk_state {
    TALK_LOADING,
    TALK_IDLE,
    TALK_ANSWERING,
    TALK_BUSY, // until the worker has done what a command asked
    TALK_LEAVING,
};

// What /edit put into the draft, and was not sent yet.
enum talk_editing {
    EDIT_NONE,
    EDIT_UNSENT, // a message that is no part of the conversation
    EDIT_SAID,   // one that was taken back, with what came behind it, and the conversation is there still
};

// All but the first three is talk's own to write.
struct talk {
    const struct face_ops *face;
    void *self;                    // the face's
    bool scripted;                 // nobody watches: what fails first, turn or command, makes the exit status
    struct talk_settings settings; // as they are now
    struct talk_settings began;    // as they were asked for, or as the model's maker suggests
    const struct model_settings *model;
    const char *program;    // as it was typed
    struct backend backend; // until the worker takes it over
    struct worker *worker;
    struct chat chat;
    struct backend_info info;
    enum talk_state state;
    int status;
    bool left; // the worker, still opening its model (worker_abandon)
    // The answer under way.
    struct bytes answer;               // as it came
    bool begun;                        // the face knows
    uint64_t asked_seed;               // its seed
    uint64_t turn_seed;                // of the last turn of this conversation, if
    bool turn_seeded;                  // there was one
    int64_t figures_of;                // number of the answer or stopped message whose figures there are, PART_NONE
    unsigned n_sent;                   // turns that were kept, and the one under way: seeds count them,
    bool seeded_again;                 // but not one that takes the seed of the answer that it gives again
    bool seed_is_new;                  // no turn began since it was set
    bool going;                        // elsewhere in the conversation, or to another; the worker follows
    enum talk_editing editing;         // in the draft
    struct chat_place edited_from;     // EDIT_SAID: the conversation before it
    bool edit_sent;                    // by the request under way, which goes back there where it has no room
    struct bytes edited;               // the draft that it made
    uint32_t told_habits;              // what does here what a message does elsewhere, a bit for each of habits.h
    struct talk_argument key_asked;    // what began with a key and a command; the same at once is sent
    struct bytes export_asked;         // what /export did not replace; the same once more does
    struct talk_argument delete_asked; // the session that /delete asked about; the same at once deletes it,
    struct store_seen delete_seen;     // as it was then
    // Sessions.
    struct store store;
    struct sessions_choice choice; // to be opened when the model is there
    bool saving, opening;
    bool untold;                   // what became of the last turn on the disk; the worker's news will say
    struct bytes held;             // a command that waits for those news, or for a save, as it was typed
    bool tried;                    // that save has come: what is not saved now can't be
    bool part_read;                // something of the message that was sent last, which was stopped
    bool blank;                    // it goes with what is opened next, as nothing was said in it, or nothing kept
    bool lost;                     // something that was to be saved is not
    bool unsaved;                  // the disk does not have all that was said
    const char *warned;            // the command that would lose it, and said so; NULL: none yet
    bool hole;                     // and its session never will
    char session[STORE_NAME_SIZE]; // "" until it has a name
    bool system_waits;             // to be saved with the next message
    bool system_follows;           // to be saved once the conversation is open that it goes along to
};

// Gets ready what the options ask for, which must outlive the talk; nothing is opened yet and no thread started. 0, or
// the exit status: then it is said on standard error why, and talk holds nothing.
int talk_prepare(struct talk *talk, const struct options *options);
bool talk_start(struct talk *talk); // the worker; false: errno says why
void talk_greet(struct talk *talk); // what is being done, once the face can show it
// Waits until all is saved and says under which name; then releases everything. The exit status stays in status.
void talk_finish(struct talk *talk);

void talk_take_events(struct talk *talk); // all that wait, when worker_fd is readable
// A line that was typed, in the state TALK_IDLE: a message or a command.
void talk_line(struct talk *talk, const char *text, size_t length);
// The same in any state. False: it has to wait for the answer under way.
bool talk_line_meanwhile(struct talk *talk, const char *text, size_t length);
// Would this line put something into the draft? Then it is not for later, when something else is being typed there.
bool talk_fills_draft(const char *text, size_t length);
// Tokens of the context that are used now, but for a message that waits for its answer, of which more or less may have
// been read; during an answer as the worker's figures have it.
uint32_t talk_context_used(const struct talk *talk, const struct figures *figures);
// The worker's figures and tokens are of an answer, or of a message that was stopped, that is not in the conversation:
// it was taken back, or left for another.
bool talk_left_figures(const struct talk *talk);
// Stops the answer, or what a command asked for. False: nothing was under way.
bool talk_stop(struct talk *talk);
void talk_leave(struct talk *talk, int status);
// Somebody wants to leave: once what became of the last turn on the disk is told, and the second time if something
// would be lost that can't be saved now, either, which was said. A pipe's lines mean what they say.
void talk_ask_leave(struct talk *talk);
// After /edit: the conversation is as before it, and a message that is no part of it still is what /edit means. False:
// nothing is being edited, or the worker is busy. A face that keeps what stands above says TALK_EDIT_LEFT.
#define TALK_EDIT_LEFT "The edit was given up; the conversation is as it was before."
bool talk_leave_edit(struct talk *talk);
// What /edit made the draft, while it is being edited; NULL: nothing is. As it was it is nobody's loss.
const char *talk_edited(const struct talk *talk);
bool talk_has_saved(const struct talk *talk); // all that was said, and nothing is under way
// A message that came back and is in no session, while nothing is under way; NULL: there is none.
const char *talk_unsent(const struct talk *talk);
// Goes to the branch beside this one, where the conversation last could have gone otherwise; in the state TALK_IDLE.
// NULL, or why not.
const char *talk_beside(struct talk *talk, int step);

#endif
