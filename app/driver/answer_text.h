// SPDX-License-Identifier: GPL-3.0-or-later
// An answer on its way from ids to the face: whole characters, parted into what is thought and what is said, up to a
// stop string, which may lie across tokens and is not looked for in what is thought. The engine's thread alone.
#ifndef MOECHAT_APP_DRIVER_ANSWER_TEXT_H
#define MOECHAT_APP_DRIVER_ANSWER_TEXT_H

#include "app/driver/backend.h"
#include "app/driver/queue.h"
#include "app/driver/stops.h"
#include "app/driver/worker.h"

// Zero-initialise but for the first two.
struct answer_text {
    const struct backend *backend;
    struct queue *events;
    struct tok_stream stream;
    struct tok_think think;
    struct stops stops;
    struct bytes *said;      // with the marks around what is thought: the turn's result has it
    bool failed;             // no memory for what may be a stop string
    uint32_t ids;            // that came since text was sent last
    uint64_t came, streamed; // bytes of the ids, and those of them that are whole characters
    struct event *tokens;    // [n_tokens], whose text is not all out
    uint64_t *ends;          // [n_tokens], where it ends, in bytes of the ids
    size_t n_tokens, capacity;
    uint64_t seen; // bytes of tokens whose events have gone
};
void answer_text_release(struct answer_text *text);

struct answer_begins {
    bool has_marks;
    const char *opened; // what of the answer the prompt has
    const struct texts *stop;
};
// False: no memory.
bool answer_text_begin(struct answer_text *text, struct bytes *said, const struct answer_begins *begins);
// What the id stands for. False: no memory.
bool answer_text_push(struct answer_text *text, int32_t id);
// The same of a token that is no text of its own, but a mark, such as "</think>" or "".
bool answer_text_mark(struct answer_text *text, const char *mark);
bool answer_text_stopped(const struct answer_text *text); // a stop string was there
// Bytes of the ids that are said, before a stop string.
uint64_t answer_text_length(const struct answer_text *text);
// Sends the event of the id that was pushed last once its text is out; what a stop string takes away is cut off it.
// Takes the event over.
void answer_text_token(struct answer_text *text, struct event *event);
// Nothing follows. False: no memory.
bool answer_text_end(struct answer_text *text);

#endif
