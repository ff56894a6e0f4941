// SPDX-License-Identifier: GPL-3.0-or-later
// What a terminal sends -> keys for readline, pasted text, a bare Esc and turns of the wheel. A terminal cuts its bytes
// anywhere; only the clock tells Esc from the start of a key. Pure: bytes and times in, items out through `take`.
#ifndef MOECHAT_APP_TERM_INPUT_H
#define MOECHAT_APP_TERM_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/util/files.h"

enum input_kind {
    INPUT_KEYS,   // a whole key: a byte, a character or a sequence
    INPUT_ESCAPE, // Esc alone
    INPUT_PASTE,  // newlines as \n, no other control characters but tabs
    INPUT_BURST,  // the same that the terminal has not marked: lines at once, among which is a command of the shell (!)
    INPUT_WHEEL_UP,
    INPUT_WHEEL_DOWN,
};
struct input_item {
    enum input_kind kind;
    const char *bytes;
    size_t length;
    size_t left_out; // control characters of a paste, which may have nothing else
    bool unended;    // a paste had no mark at its end
    bool cut;        // a paste was longer than INPUT_PASTE_LIMIT; the rest is left out, too
};
typedef void input_take_fn(void *context, const struct input_item *item);

enum {
    INPUT_PASTE_LIMIT = 16 << 20,
    INPUT_KEY_MS = 500,          // a key that has begun with more than Esc goes on within
    INPUT_PASTE_MS = 5000,       // a paste without its end is over after this silence
    INPUT_ALONE_MS = 100,        // what comes alone after it is a key, and no part of a paste
    INPUT_ANSWER_MOST = 1 << 16, // bytes of a terminal's answer that go; what follows is keys again
    INPUT_BURST_MS = 20,         // what follows within is of the same burst: nobody types lines so fast
};

// How long Esc waits for the rest of a key: longer where keys come over a network.
unsigned input_escape_ms(void);

// Zero-initialise but for the first three.
struct input {
    input_take_fn *take;
    void *context;
    unsigned escape_ms; // input_escape_ms()
    char held[32];      // the start of a key
    size_t n_held;
    uint64_t since_ms; // the last byte
    size_t answer;     // bytes of an answer that is under way, with the first of its end or not; 0: none is
    bool answer_ends;
    bool pasting, cut, after_return;
    struct bytes paste;
    size_t left_out; // of it
    struct {
        bool lines;  // one has ended in it
        bool begins; // its last byte ended one
        bool pasted; // it is taken as a paste
    } burst;         // that may go on
};

void input_push(struct input *input, const char *bytes, size_t length, uint64_t now_ms);
// How long to wait for more bytes before input_tick: -1: nothing is held.
int input_wait_ms(const struct input *input, uint64_t now_ms);
void input_tick(struct input *input, uint64_t now_ms); // gives out what has waited long enough
// Is what comes now a key that somebody has pressed, also where it would be of a paste? `length` bytes come.
bool input_is_alone(const struct input *input, size_t length, uint64_t now_ms);
void input_end_paste(struct input *input); // without its mark: gives out what has come of it
void input_drop(struct input *input);      // forgets what is held
void input_release(struct input *input);

#endif
