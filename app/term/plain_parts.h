// SPDX-License-Identifier: GPL-3.0-or-later
// What the files of the plain face share. For plain*.c alone.
#ifndef MOECHAT_APP_TERM_PLAIN_PARTS_H
#define MOECHAT_APP_TERM_PLAIN_PARTS_H

#include "app/talk/talk.h"
#include "app/term/loop.h"
#include "app/util/files.h"
#include "app/util/progress.h"
#include "app/util/sanitize.h"
#include "app/view/flow.h"

struct plain {
    struct talk talk;
    bool from_terminal; // else messages are lines of a pipe
    bool color;
    bool broken; // standard output; said so
    struct progress progress;
    // The answer under way.
    struct sanitize sanitize;
    bool thinking, labelled;
    char last_shown;
    struct flow flow; // on a terminal
    uint64_t came_ms; // the last of it
    // What is sent.
    struct bytes quoted; // a message of several lines that is not whole yet
    bool left;           // by a line, not by the input's end
    struct {
        struct bytes bytes;
        bool ended;
        bool whole_line; // in there, or its end
    } pipe;
    // At the prompt.
    char label[40]; // before what is typed
    char *draft;    // that the next prompt begins with, NULL
    char *apart;    // where it is kept, which is not said yet, NULL
    int keep_ms;    // until what is typed is kept
};

// plain.c
void plain_flush(struct plain *plain); // what is buffered; a reader that has gone, or a full disk, ends the chat
void plain_put_paragraph(struct plain *plain, const char *text); // our own words
void plain_say(void *self, const char *text);                    // the same, also while the prompt stands
void plain_end_part(struct plain *plain);                        // ends a line of an answer that was begun
int plain_word_ms(const struct plain *plain); // how long a word is waited for that is not whole; -1: there is none
void plain_show_word(struct plain *plain);    // that was waited for so long
// A line of a message. False: that goes on up to the other quotes.
bool plain_take_line(struct plain *plain, const char *text, size_t length);
const char *plain_quoted(const struct plain *plain); // the lines of a message that is not whole yet; "": there is none
// In the history as the full screen is to read it, too: what begins with ! is a message here. Returns whether it is
// kept, also *keeps (NULL: not asked): in this chat alone, at least.
bool plain_remember(const char *line, bool *keeps);
bool plain_left_by_signal(const struct plain *plain);

// What the loop asks of a face whose messages are lines of a pipe (plain_pipe.c), or typed at the prompt
// (plain_typed.c). Its self and talk are the caller's to set.
extern const struct loop_face plain_pipe_loop, plain_typed_loop;

#endif
