// SPDX-License-Identifier: GPL-3.0-or-later
// Parts a terminal's bytes into keys, pastes and turns of the wheel.
#include "app/term/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/term/typed.h"

unsigned input_escape_ms(void)
{
    enum { ESCAPE_MS = 30, ESCAPE_REMOTE_MS = 100 };
    return getenv("SSH_CONNECTION") ? ESCAPE_REMOTE_MS : ESCAPE_MS;
}

static const char paste_begin[] = "\033[200~", paste_end[] = "\033[201~";

static void give(const struct input *input, enum input_kind kind, const char *bytes, size_t length)
{
    input->take(input->context, &(struct input_item){.kind = kind, .bytes = bytes, .length = length});
}

static void end_paste(struct input *input, enum input_kind kind, bool unended)
{
    struct bytes text = input->paste;
    input->left_out += typed_drop_controls(&text, 0);
    struct input_item item = {.kind = kind,
                              .bytes = text.length ? text.data : "",
                              .length = text.length,
                              .left_out = input->left_out,
                              .unended = unended,
                              .cut = input->cut};
    input->paste = (struct bytes){0};
    input->pasting = input->cut = input->after_return = false;
    input->n_held = input->left_out = 0;
    if (item.length || item.left_out || item.cut)
        input->take(input->context, &item);
    bytes_release(&text);
}

// One byte of pasted text.
static void add_pasted(struct input *input, char byte)
{
    bool after_return = input->after_return;
    input->after_return = byte == '\r';
    if (byte == '\n' && after_return)
        return;
    if (byte == '\r')
        byte = '\n';
    if (((unsigned char)byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
        input->left_out++;
        return;
    }
    if (input->paste.length == INPUT_PASTE_LIMIT || !bytes_append(&input->paste, &byte, 1))
        input->cut = true;
}

static void push_pasted(struct input *input, char byte)
{
    if (byte == paste_end[input->n_held]) {
        input->held[input->n_held++] = byte;
        if (input->n_held == sizeof paste_end - 1)
            end_paste(input, INPUT_PASTE, false);
        return;
    }
    size_t count = input->n_held;
    input->n_held = 0;
    for (size_t i = 0; i < count; i++) // no end after all
        add_pasted(input, input->held[i]);
    if (byte == paste_end[0])
        input->held[input->n_held++] = byte;
    else
        add_pasted(input, byte);
}

// A wheel's turn in the form ESC [ < button ; column ; row M. Other buttons mean nothing.
static void mouse(const struct input *input)
{
    unsigned button = 0;
    if (sscanf(input->held + 3, "%u", &button) == 1 && (button & 0x42) == 0x40)
        give(input, button & 1 ? INPUT_WHEEL_DOWN : INPUT_WHEEL_UP, "", 0);
}

// A whole sequence ESC [ ... is held.
static void end_sequence(struct input *input)
{
    char kind = input->held[2];
    size_t length = input->n_held;
    input->held[length] = 0;
    input->n_held = 0;
    if (strcmp(input->held, paste_begin) == 0)
        input->pasting = true;
    else if (kind == '<')
        mouse(input);
    else if (kind != '?' && kind != '>' && strcmp(input->held, paste_end) != 0) // else a late answer of the terminal
        give(input, INPUT_KEYS, input->held, length);
}

// Bytes of the UTF-8 character that begins with this one; 1 for any other byte.
static size_t character_bytes(char first)
{
    unsigned char byte = (unsigned char)first;
    return byte >= 0xF0 && byte < 0xF5 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
}

// Takes a byte of a character that is held, Alt's Esc before it or not. False: none is held, or it ends unfinished.
static bool push_character(struct input *input, char byte)
{
    size_t begin = input->n_held && input->held[0] == '\033';
    if (input->n_held <= begin || character_bytes(input->held[begin]) == 1)
        return false;
    bool goes_on = ((unsigned char)byte & 0xC0) == 0x80;
    if (goes_on)
        input->held[input->n_held++] = byte;
    if (goes_on && input->n_held < begin + character_bytes(input->held[begin]))
        return true;
    size_t length = input->n_held;
    input->n_held = 0;
    give(input, INPUT_KEYS, input->held, length);
    return goes_on;
}

// The start of an answer, or a key with Alt: what comes next tells, or the clock.
static bool is_answer_held(const struct input *input)
{
    static const char introducers[] = "]P_^X";
    return input->n_held == 2 && memchr(introducers, input->held[1], sizeof introducers - 1);
}

// Takes a byte of a terminal's answer that is under way, or begins with it. False: it is none of it.
static bool push_answer(struct input *input, char byte)
{
    if (is_answer_held(input) && typed_begins_answer(input->held[1], byte))
        input->n_held = 0;
    else if (!input->answer)
        return false;
    bool escaped = input->answer_ends;
    bool ends = byte == '\a' || (escaped && byte == '\\') || input->answer == INPUT_ANSWER_MOST;
    bool other = !ends && (escaped || ((unsigned char)byte < 0x20 && byte != '\033'));
    input->answer_ends = !ends && !other && byte == '\033';
    input->answer = ends || other ? 0 : input->answer + 1;
    if (other && escaped) // a key that Esc has begun
        input->held[input->n_held++] = '\033';
    return !other;
}

static void push_key(struct input *input, char byte)
{
    if (push_answer(input, byte))
        return;
    if (is_answer_held(input)) { // no answer after all
        input->n_held = 0;
        give(input, INPUT_KEYS, input->held, 2);
    }
    if (push_character(input, byte))
        return;
    if (input->n_held == 0 && byte != '\033' && character_bytes(byte) == 1) {
        give(input, INPUT_KEYS, &byte, 1);
        return;
    }
    if (input->n_held == 1 && byte == '\033') { // the first one stands alone
        give(input, INPUT_ESCAPE, "", 0);
        return;
    }
    input->held[input->n_held++] = byte;
    bool introduced = input->n_held == 2 && (byte == '[' || byte == 'O');
    if (input->n_held == 1 || introduced || is_answer_held(input) || (input->n_held == 2 && character_bytes(byte) > 1))
        return;
    bool sequence = input->held[1] == '[';
    if (sequence && byte >= 0x40 && byte <= 0x7E) {
        end_sequence(input);
        return;
    }
    bool broken = (unsigned char)byte < 0x20 || (unsigned char)byte > 0x7E || input->n_held + 1 == sizeof input->held;
    if (sequence && !broken)
        return;
    size_t length = input->n_held;
    input->n_held = 0;
    give(input, INPUT_KEYS, input->held, length);
}

static bool is_newline(char byte)
{
    return byte == '\r' || byte == '\n';
}

// How many of the bytes belong to the key that begins with Esc, of which `held` came before. It may be cut off.
static size_t rest_of_key(const struct input *input, size_t held, const char *bytes, size_t length)
{
    size_t at = 0;
    for (size_t key = held; at < length; at++, key++) {
        char introducer = key < 2 ? 0 : held > 1 ? input->held[1] : bytes[1 - held];
        if (key == 1 && bytes[at] != '[' && bytes[at] != 'O')
            return at + 1;
        if (key > 1 && (introducer != '[' || ((unsigned char)bytes[at] >= 0x40 && (unsigned char)bytes[at] <= 0x7E)))
            return at + 1;
    }
    return at;
}

static bool is_marked(const struct input *input, size_t held, const char *bytes, size_t length)
{
    size_t size = sizeof paste_begin - 1;
    return held < size && length >= size - held && memcmp(input->held, paste_begin, held) == 0 &&
           memcmp(bytes, paste_begin + held, size - held) == 0;
}

// Does a command of the shell stand among lines that come at once? A terminal that doesn't mark pastes sends them so; a
// line alone, with its end, may be typed by a program. What stands behind a key may begin the line, as the key may have
// removed or left what was before it: so may what is behind any control character that is pasted, such as colours. And
// a command may begin with the last byte that came.
static bool is_pasted(struct input *input, const char *bytes, size_t length, uint64_t now_ms)
{
    bool goes_on = input->since_ms + INPUT_BURST_MS >= now_ms;
    bool lines = goes_on && input->burst.lines, begins = !goes_on || input->burst.begins, ended = false;
    bool pasted = goes_on && input->burst.pasted, command = false;
    for (size_t i = 0; i < length;) {
        size_t held = i == 0 ? input->n_held : 0;
        if (held || bytes[i] == '\033') {
            if (is_marked(input, held, bytes + i, length - i))
                return input->burst.lines = input->burst.begins = input->burst.pasted = false;
            i += rest_of_key(input, held, bytes + i, length - i);
            begins = true;
            continue;
        }
        bool newline = is_newline(bytes[i]), control = (unsigned char)bytes[i] < ' ' || bytes[i] == 0x7F;
        lines = lines || (ended && !newline);
        command = command || (begins && bytes[i] == '!' && (i + 1 == length || !is_newline(bytes[i + 1])));
        begins = control;
        ended = ended || newline;
        i++;
    }
    pasted = pasted || (command && lines);
    input->burst.lines = lines || ended;
    input->burst.begins = begins;
    input->burst.pasted = pasted;
    return pasted;
}

void input_push(struct input *input, const char *bytes, size_t length, uint64_t now_ms)
{
    input_tick(input, now_ms);
    if (length && !input->pasting && is_pasted(input, bytes, length, now_ms)) {
        for (size_t i = 0; i < input->n_held; i++)
            add_pasted(input, input->held[i]);
        input->n_held = 0;
        for (size_t i = 0; i < length; i++)
            add_pasted(input, bytes[i]);
        end_paste(input, INPUT_BURST, false);
        input->since_ms = now_ms;
        return;
    }
    for (size_t i = 0; i < length; i++) {
        if (input->pasting)
            push_pasted(input, bytes[i]);
        else
            push_key(input, bytes[i]);
    }
    if (length)
        input->since_ms = now_ms;
}

static unsigned patience_ms(const struct input *input)
{
    bool escape = (input->n_held == 1 && input->held[0] == '\033') || is_answer_held(input);
    return input->pasting ? INPUT_PASTE_MS : escape ? input->escape_ms : INPUT_KEY_MS;
}

int input_wait_ms(const struct input *input, uint64_t now_ms)
{
    if (!input->pasting && !input->n_held && !input->answer)
        return -1;
    uint64_t until = input->since_ms + patience_ms(input);
    return until > now_ms ? (int)(until - now_ms) : 0;
}

void input_tick(struct input *input, uint64_t now_ms)
{
    if (input_wait_ms(input, now_ms) != 0)
        return;
    size_t length = input->n_held;
    if (input->pasting) {
        end_paste(input, INPUT_PASTE, true);
        return;
    }
    input->n_held = input->answer = 0;
    input->answer_ends = false;
    if (length == 1 && input->held[0] == '\033')
        give(input, INPUT_ESCAPE, "", 0);
    else if (length)
        give(input, INPUT_KEYS, input->held, length);
}

bool input_is_alone(const struct input *input, size_t length, uint64_t now_ms)
{
    return length == 1 && now_ms >= input->since_ms + INPUT_ALONE_MS;
}

void input_end_paste(struct input *input)
{
    if (input->pasting)
        end_paste(input, INPUT_PASTE, true);
}

void input_drop(struct input *input)
{
    input->n_held = input->left_out = input->answer = 0;
    input->answer_ends = false;
    input->pasting = input->cut = input->after_return = false;
    bytes_release(&input->paste);
}

void input_release(struct input *input)
{
    bytes_release(&input->paste);
}
