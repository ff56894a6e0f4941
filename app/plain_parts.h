// SPDX-License-Identifier: GPL-3.0-or-later
// What plain.c and plain_session.c share: the face's state and its ways to say something. For these two files alone.
#ifndef MOECHAT_PLAIN_PARTS_H
#define MOECHAT_PLAIN_PARTS_H

#include "chat.h"
#include "files.h"
#include "report.h"
#include "sanitize.h"
#include "sessions.h"
#include "worker.h"

enum plain_state { LOADING, IDLE, ANSWERING, BUSY, LEAVING }; // BUSY: until the worker has done what a command asked

struct plain {
    struct options *options;
    struct worker *worker;
    struct chat chat;
    struct backend_info info;
    enum plain_state state;
    int status;
    bool from_terminal; // else messages are lines of a pipe
    bool color;
    struct progress progress;
    // The answer under way: as it came, and its way to the screen.
    struct bytes answer;
    struct sanitize sanitize;
    bool begun; // its label is out
    char last_shown;
    uint64_t seed, turn_seed; // of the chat; of the last turn
    unsigned n_sent;
    struct bytes input; // of a pipe
    bool input_ended;
    // Sessions.
    struct store store;
    struct sessions_choice choice; // to be opened when the model is there
    bool saving, opening;
    char session[STORE_NAME_SIZE]; // "" until it has a name
};

void plain_say(struct plain *plain, const char *text); // our own words, wrapped
void plain_say_message(const char *who, const struct bytes *text);
void plain_flush(struct plain *plain);
void plain_ask(struct plain *plain);

// The commands about sessions. Those that the worker has to do leave the face BUSY until its news come.
// Hands the chosen session to the worker, which reads its rows; `keep` tokens are in the engine already.
void plain_open_session(struct plain *plain, uint32_t keep, bool save);
void plain_on_session(struct plain *plain, const struct session_news *news);
void plain_new(struct plain *plain);
void plain_save(struct plain *plain, const char *name);
void plain_rename(struct plain *plain, const char *name);
void plain_load(struct plain *plain, const char *name);
void plain_list_sessions(struct plain *plain);
void plain_delete(struct plain *plain, const char *name);
void plain_finish_session(struct plain *plain); // waits until all is saved, and says under which name

#endif
