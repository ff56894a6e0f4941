// SPDX-License-Identifier: GPL-3.0-or-later
// What a conversation (talk.h) needs of those who show it: plain.c's lines or tui_face.c's screen. The texts are
// untrusted (the model's, files', the user's): the face makes them safe to show. UI thread.
#ifndef MOECHAT_APP_TALK_FACE_H
#define MOECHAT_APP_TALK_FACE_H

#include "app/talk/commands.h"
#include "app/util/report.h"
#include "app/driver/worker.h"
#include "app/view/transcript.h"

// A message of the conversation, shown whole.
struct face_message {
    enum tok_role role;
    const char *text;
    size_t length;
    bool typed;    // just now, at this face; else it comes from a session or is sent again
    bool thinking; // an answer's, before it
};

struct face_text {
    const char *bytes;
    size_t length;
    uint32_t tokens; // that came since the piece before, with those that have no text
    bool thinking;   // not said but thought
};

// Lines that a face cuts for its columns when it shows them, as table.h says.
struct face_lines {
    const char *text;
    size_t length;
    int second, least; // of a table; 0: lines as any
};

enum face_page { FACE_PAGE_HELP, FACE_PAGE_LOG, FACE_PAGE_STATS };

struct face_ops {
    bool brief; // it shows figures of its own, so a turn's are told in a few words
    bool whole; // a conversation that is opened is shown from its beginning, not its last messages alone
    void (*say)(void *self, const char *text); // our own words: a paragraph, to be wrapped
    // The same, true until the next message or until something is taken back: then it goes. NULL: as say.
    void (*say_for_now)(void *self, const char *text);
    void (*show)(void *self, const char *text, size_t length); // lists and figures: lines, as they are
    // The same of a table, which it cuts anew when its columns change. NULL: it is cut before it comes.
    void (*table)(void *self, const struct face_lines *lines);
    int (*columns)(void *self); // that a line of such has
    // The same of an answer's tokens, with how likely they were in per cent, which it may colour. NULL: as show.
    void (*tokens)(void *self, const char *text, size_t length);
    void (*fail)(void *self, const char *text); // an error: one line
    void (*message)(void *self, const struct face_message *message);
    // An answer as it comes, from the first piece on; what is cut between pieces may be any byte.
    void (*begin_answer)(void *self);
    void (*text)(void *self, const struct face_text *text);
    void (*end_answer)(void *self, const struct turn_result *result);
    void (*progress)(void *self, const struct moe_progress *at); // NULL: it is over
    // The conversation holds this many messages of the user; what came after them is taken back. It may be one more
    // than before: that in whose place the last one was said, which was taken back.
    void (*cut)(void *self, size_t messages);
    void (*cleared)(void *self); // another conversation begins
    void (*changed)(void *self); // talk's state
    // Puts text into the clipboard if it may, and says what became of it; NULL: this face has none.
    void (*copy)(void *self, const char *text, size_t length);
    // Lines that are no part of the conversation, in the place of all that was shown so before.
    void (*page)(void *self, enum face_page page, const struct face_lines *lines);
    size_t (*keys)(FILE *out, const char *wanted); // its keys, as keys_help
    // What not every face has; NULL: not this one.
    void (*heat)(void *self);                    // shows the heat map in its own way
    void (*log)(void *self, FILE *out);          // prints what drivers and libraries said
    bool (*draft)(void *self, const char *text); // puts it where messages are typed; false: nobody types
    void (*show_thinking)(void *self, enum thinking_view view);
};

#endif
