// SPDX-License-Identifier: GPL-3.0-or-later
// A chat from its beginning to its end, the same for both faces: a loop over standard input, the worker's events and
// signals, of which a face says what they do to it. UI thread.
#ifndef MOECHAT_APP_TERM_LOOP_H
#define MOECHAT_APP_TERM_LOOP_H

#include <stdbool.h>

#include "app/talk/talk.h"

struct loop_face {
    void *self;
    struct talk *talk; // its face and self are set
    bool typed;        // input is typed at a terminal: what was typed before a signal belongs before it
    // The terminal becomes the face's: first what brings handlers of signals along, then what must not be without ours.
    // False: errno says why.
    bool (*open)(void *self);
    bool (*begin)(void *self);
    void (*close)(void *self);     // the terminal as it was, however far it came
    bool (*listens)(void *self);   // does it take input now?
    void (*read)(void *self);      // standard input is readable: takes what is there
    int (*patience)(void *self);   // in ms, after which `round` has something to do though nothing came; -1: never
    void (*round)(void *self);     // after all that came: shows it
    void (*interrupt)(void *self); // Ctrl-C
    void (*suspend)(void *self);   // Ctrl-Z; returns when the process goes on
    void (*resize)(void *self);    // the terminal has another size now
    void (*resume)(void *self);    // the process goes on, perhaps without having been suspended here
};
// An exit status, which stands in talk->status, too.
int loop_chat(const struct loop_face *face, const struct options *options);

// Ends the process when its model was still being opened; after all is given back that must be.
void loop_leave(const struct talk *talk);

#endif
