// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's thread and the door to it. It opens the model, takes one turn at a time and reports through a bounded
// queue of events. It keeps the timeline of tokens between turns, so a turn feeds only what is new. All calls belong to
// one thread, the face's; none waits for the engine but worker_free.
#ifndef MOECHAT_APP_DRIVER_WORKER_H
#define MOECHAT_APP_DRIVER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/driver/backend.h"
#include "app/figures/figures.h"
#include "app/driver/keeper.h"
#include "app/driver/sampling.h"
#include "app/driver/steps.h"
#include "app/driver/turn.h"

struct worker;

enum event_kind {
    EVENT_PROGRESS,
    EVENT_READY,  // the model is open
    EVENT_FAILED, // it could not be opened; nothing else follows
    EVENT_TEXT,
    EVENT_TOKEN,
    EVENT_DONE,
    EVENT_UNSAVED, // of a turn whose message the disk did not take, before any of it is read
    EVENT_SESSION, // an answer to each of the calls about sessions, and after each turn of one
};

struct event {
    enum event_kind kind;
    union {
        struct moe_progress progress;
        struct backend_info ready;
        struct moe_err failed;
        struct {
            uint32_t length;
            uint32_t tokens; // ids that came since the event before: some have no text, others that of many events
            bool thinking;   // what the model thinks, not what it answers; the marks between them are no text
            char bytes[248]; // whole characters as far as the model's bytes are any, and as they came: not sanitised
        } text;
        struct {
            int32_t id;
            double seconds;     // since the turn began
            struct tally tally; // the turn's so far
            uint32_t length;
            char bytes[128];            // the beginning of what the id stands for
            struct moe_telemetry *step; // that led to it, sampling it included; a figures_clone, NULL: none
        } token;
        struct session_news session;
        char unsaved[STORE_TEXT_SIZE]; // why, one line for people; the turn's news don't say it again
        struct turn_result *result;
    };
};
// Frees what an EVENT_DONE or EVENT_TOKEN brought.
void event_release(struct event *event);

// Takes the backend over. nice_value is the thread's. NULL with errno: no memory, file descriptor or thread; the
// backend is closed then, too.
struct worker *worker_new(const struct backend *backend, int nice_value);
// Cancels what is under way, waits for the thread and closes the model. False: as the backend's close. NULL is fine.
bool worker_free(struct worker *worker);
// Like worker_free, but leaves thread and model to the end of the process when the model is still being opened, which
// nothing can cut short; *left says so. Then the process ends by term_leave: what exit() destroys is still in use.
bool worker_abandon(struct worker *worker, bool *left);

// After EVENT_READY and when no turn is under way. Takes the turn over.
void worker_send(struct worker *worker, struct turn *turn);
// The turn under way ends soon with STOP_CANCELLED; nothing happens when there is none.
void worker_cancel(struct worker *worker);

// Sessions: each turn is saved from now on, the message before it is read and the answer when it is there. `ids` is
// the timeline that `saved` holds, of which the engine already has the first `keep`. Takes saved and ids over. With
// save, what `saved` was given is committed at once.
struct worker_session {
    struct saved *saved;
    struct tok_ids ids;
    uint32_t keep;
    bool save;
    enum think think; // the next answer's
};
void worker_open_session(struct worker *worker, struct worker_session session);
// Goes to another place in the conversation: of its parts to the one numbered `last` (PART_NONE: before the first),
// whose ids, as far as they are fed, are `ids`, which are taken over. What the engine has of them stays, what was saved
// of the rest is read back, and what then is missing comes with the next turn; the news say how many tokens that is.
// While a message is edited the disk keeps the conversation as it was; who leaves then finds it so.
enum worker_going {
    GOING_TO_STAY,
    GOING_FOR_NOW,  // nothing is saved of it before something is said there
    GOING_TO_LEAVE, // of the session alone; the engine has nothing to follow for
};
struct worker_place {
    enum worker_going going;
    int64_t last, undone; // undone: see saved_set_undone
    uint32_t unanswered;  // of ids, those of a last message without an answer
    enum think think;     // the next answer's
    struct tok_ids ids;
    bool anew; // the next message has all of it read again, which is the caller's to say
};
void worker_go(struct worker *worker, struct worker_place place);
// A conversation in which nothing was said yet begins with this system message, or with none, saved under that
// number as set then (Unix time). Takes the text over.
void worker_save_system(struct worker *worker, struct bytes text, uint32_t number, uint64_t time);
void worker_save_session(struct worker *worker, const char *name); // see keeper_save_as
void worker_close_session(struct worker *worker);
// Stops the turn under way and waits until what there is has been saved and closed; events are thrown away. *news says
// what became of it; failed: not all of it was saved. False: the model is not open, and nothing was waited for.
bool worker_finish_session(struct worker *worker, struct session_news *news);

int worker_fd(const struct worker *worker);                    // readable while events wait
bool worker_event(struct worker *worker, struct event *event); // false: none waits
// Another conversation begins, when no turn is under way: the turn and the conversation before are told of no more.
void worker_begin_conversation(struct worker *worker);
// Sums and records as of the last step, see figures_copy. A turn begins when it is sent, whatever is done before
// it.
bool worker_figures(struct worker *worker, struct figures *figures);
// Token n of the last turn, see steps_token.
bool worker_inspect(struct worker *worker, uint32_t n, struct step_token *token, uint32_t *count);
void worker_usual(struct worker *worker, struct usual *usual, uint32_t slowest[STEPS_SLOWEST]); // see steps_usual
double worker_hits_with(struct worker *worker, uint64_t room);                                  // see steps_hits_with
size_t worker_bytes(const struct worker *worker, int32_t id, const char **bytes);               // after EVENT_READY

#endif
