// SPDX-License-Identifier: GPL-3.0-or-later
// What was typed at a terminal and waits: for readline, or, during an answer, for the next prompt. Bytes as the
// terminal sent them, and what stands next among them: a key, or pasted text, which is taken in one piece when it has
// come whole or comes no further. Times are the caller's clock; the owner is one thread.
#ifndef MOECHAT_APP_TERM_TYPED_H
#define MOECHAT_APP_TERM_TYPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/util/files.h"

// Begin with {0}.
struct typed {
    struct bytes bytes;
    size_t taken;     // of them
    size_t looked;    // before it no end of a paste begins
    bool unended;     // a paste was taken without its end; the caller's to say and to make false
    size_t left_out;  // control characters of what was pasted; the caller's to say and to make 0
    bool pasting;     // what waits begins with pasted text, behind its mark
    uint64_t came_ms; // the last of that; the caller's who reads more
    bool skipping;    // it begins with the rest of a key that nothing is bound to
    int played;       // macros, since nothing waited
};
void typed_release(struct typed *typed);
char *typed_left_out_words(char *out, size_t size, size_t count); // of a paste; returns `out`

// Takes the control characters of two bytes (U+0080 to U+009F) out of a text, from `begin` on. Returns how many.
size_t typed_drop_controls(struct bytes *text, size_t begin);

size_t typed_left(const struct typed *typed);                          // bytes that wait
bool typed_add(struct typed *typed, const char *bytes, size_t length); // false: no memory, as if not typed
int typed_take(struct typed *typed);                                   // the next byte; -1: none waits
bool typed_put(struct typed *typed, const char *bytes, size_t length); // as typed_add, before what waits
bool typed_put_macro(struct typed *typed, const char *text);           // the same; false: also one that calls itself
// Adds what a terminal has to give at once, some thousand bytes at most; what finds no memory is as if it had not been
// typed. False: it has nothing.
bool typed_read(struct typed *typed, int terminal);

enum typed_kind {
    TYPED_KEY,          // the caller takes its bytes
    TYPED_PASTE_BEGINS, // here: the terminal's mark was taken
    TYPED_PASTE,        // typed_take_paste takes it
    TYPED_NO_KEY,       // the rest of one that is skipped, or what a terminal answers: it was taken
};
// May something be taken now? Not while a paste is under way.
bool typed_is_ready(struct typed *typed, uint64_t now_ms);
enum typed_kind typed_next(struct typed *typed, uint64_t now_ms); // where something is ready
void typed_begin_paste(struct typed *typed, uint64_t now_ms);     // whose mark a key was bound to
// Until a paste that comes no further is ready without its end, in milliseconds; -1: there is none.
int typed_paste_ms(const struct typed *typed, uint64_t now_ms);
// Takes what was pasted, up to that mark or as far as it came, and appends it with newlines as \n and no other control
// characters but tabs. False: no memory; it is taken all the same.
bool typed_take_paste(struct typed *typed, struct bytes *text);
bool typed_pasted(const struct typed *typed, struct bytes *text); // appends what has come of a paste, which stays

// Does a string that a terminal answers with (OSC, DCS, APC, PM, SOS) begin with Esc and these two? Where they come at
// once, as nobody types Alt-] and a digit.
bool typed_begins_answer(char introducer, char next);
bool typed_skip_answers(struct typed *typed); // takes those that stand next and are whole; false: none does
// Appends what waits as it would stand at a prompt, with Backspace heeded and other keys left out, a newline after each
// line. False: no memory.
bool typed_text(const struct typed *typed, struct bytes *text);

#endif
