// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's records of its steps, taken in by the engine's thread and shown to the face's. A step lasts until the
// next one begins, with the sampling and the sending of what it led to, so that the steps of a turn cover its time.
#ifndef MOECHAT_APP_DRIVER_STEPS_H
#define MOECHAT_APP_DRIVER_STEPS_H

#include <pthread.h>

#include "app/driver/backend.h"
#include "app/figures/figures.h"
#include "app/figures/hit_curve.h"
#include "app/figures/why.h"

enum { STEPS_CANDIDATES = 10, STEPS_KEPT = 4096, STEPS_KEPT_BYTES = 32 << 20 };
enum { STEPS_LOOK_NS = 100000000 }; // between two looks at where all experts are, which would cost too much each step

// A token of the last turn: what was to choose from, and the step that led to it.
struct step_token {
    int32_t id;
    float probability; // as the candidates'; below 0: not known
    uint32_t n_candidates;
    struct moe_candidate candidates[STEPS_CANDIDATES];
    struct moe_telemetry *step; // owned; NULL: not known
};

// What is being fed. Between turns is what the end of an answer leaves to be fed; it counts to the next.
enum steps_phase { STEPS_READING, STEPS_ANSWERING, STEPS_BETWEEN };

struct steps {
    const struct backend *backend;
    pthread_mutex_t mutex;
    struct figures figures;    // under the mutex, as
    struct hit_curve curve;    // of the answers' tokens, and
    struct step_token *tokens; // [n_tokens], those from first_token on
    size_t n_tokens;
    uint32_t first_token;
    size_t tokens_bytes;
    // The rest is the engine's thread's.
    struct step_token next;
    struct moe_telemetry *held;         // the last step, until it has ended: a figures_clone
    uint64_t ended_ns;                  // when the one before it had, or the turn began
    uint64_t computed_ns;               // when its logits were there
    uint64_t sampling_ns;               // since then
    uint64_t saving_ns, saving_began;   // since the last step was ended
    bool token_came;                    // one of the answer under way
    uint64_t token_ns;                  // when the last one had
    uint64_t token_passes_ns;           // that the backend had counted then
    uint64_t token_held_up_ns;          // since then
    uint64_t seen;                      // its number
    uint64_t looked_ns;                 // when the experts' tiers were looked up last
    enum steps_phase phase, held_phase; // of now, and of the held step
    struct moe_stats counted;           // by the backend, and added to the tallies
};
void steps_open(struct steps *steps, const struct backend *backend);
void steps_release(struct steps *steps);

// A turn that began at that time of format_clock_ns. The phase is then STEPS_READING.
void steps_begin_turn(struct steps *steps, uint64_t began_ns);
// Another one is over without: the figures stay the last one's. Returns its own: nothing was done for it, and which
// policy of prefetch there is.
struct tally steps_refuse_turn(struct steps *steps);
// From now on something else is being fed.
void steps_turn_to(struct steps *steps, enum steps_phase phase);
// Another conversation: nothing of the one before is told any more. Any thread; the engine's own also clears the
// backend's heat.
void steps_forget(struct steps *steps);
void steps_begin_conversation(struct steps *steps);
// Between these two calls the conversation is saved: the step that it delays says so.
void steps_begin_saving(struct steps *steps);
void steps_end_saving(struct steps *steps);
// After a call to the backend that may have been a step. A step that is held has ended before that one began.
void steps_note(struct steps *steps);
int32_t steps_sample(struct steps *steps, const int32_t *recent, size_t n_recent); // the backend's
// The face took nothing for so long, and the answer had to wait: no part of its speed.
void steps_were_held_up(struct steps *steps, uint64_t ns);
// The step's token is part of the turn, as the next one, and has come now. Takes the step over, which may be NULL.
void steps_keep(struct steps *steps, struct moe_telemetry *step);
// The step has ended. Returns it, for the caller to free; NULL: there is none.
struct moe_telemetry *steps_end(struct steps *steps);

// The last step of what was asked has ended: afterwards the figures are those of now, and `context` tokens are used.
void steps_end_turn(struct steps *steps, uint32_t context);
// Of this turn so far. Any thread.
struct tally steps_tally(struct steps *steps);

// Any thread: see figures_copy.
bool steps_figures(struct steps *steps, struct figures *figures);
// Any thread: token n of the last turn, from 1 on. False: there is none, or it is too long ago. The caller frees
// token->step. *count: how many tokens the turn has so far.
bool steps_token(struct steps *steps, uint32_t n, struct step_token *token, uint32_t *count);
// Any thread: medians of the last turn's decoded tokens, those that are kept; and the numbers of the slowest, 0 for
// none.
enum { STEPS_SLOWEST = 3 };
void steps_usual(struct steps *steps, struct usual *usual, uint32_t slowest[STEPS_SLOWEST]);
// Any thread: the share of the answers' tokens' experts that room for so many would have found, see hit_curve_share.
double steps_hits_with(struct steps *steps, uint64_t room);

#endif
