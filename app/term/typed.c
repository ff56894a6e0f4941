// SPDX-License-Identifier: GPL-3.0-or-later
// A queue of bytes, and what they say.
#include "app/term/typed.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/term/input.h"
#include "app/term/term.h"
#include "app/util/format.h"

static const char paste_begin[] = "\033[200~", paste_end[] = "\033[201~";
enum { MARK = sizeof paste_begin - 1 };

char *typed_left_out_words(char *out, size_t size, size_t count)
{
    snprintf(out, size, "%zu control character%s left out", count, format_s(count));
    return out;
}

size_t typed_drop_controls(struct bytes *text, size_t begin)
{
    size_t left = begin, dropped = 0;
    for (size_t at = begin; at < text->length; at++) {
        unsigned char byte = (unsigned char)text->data[at];
        bool control = byte >= 0x80 && byte < 0xA0 && left > begin && (unsigned char)text->data[left - 1] == 0xC2;
        if (control)
            left--;
        else
            text->data[left++] = (char)byte;
        dropped += control;
    }
    if (text->data)
        text->data[left] = 0;
    text->length = left;
    return dropped;
}

void typed_release(struct typed *typed)
{
    bytes_release(&typed->bytes);
    *typed = (struct typed){0};
}

size_t typed_left(const struct typed *typed)
{
    return typed->bytes.length - typed->taken;
}

static bool append(struct typed *typed, const char *bytes, size_t length)
{
    if (!typed_left(typed))
        typed->bytes.length = typed->taken = typed->looked = 0;
    return bytes_append(&typed->bytes, bytes, length);
}

bool typed_add(struct typed *typed, const char *bytes, size_t length)
{
    if (!typed_left(typed))
        typed->played = 0;
    return append(typed, bytes, length);
}

int typed_take(struct typed *typed)
{
    return typed_left(typed) ? (unsigned char)typed->bytes.data[typed->taken++] : -1;
}

bool typed_put(struct typed *typed, const char *bytes, size_t length)
{
    size_t left = typed_left(typed);
    if (!append(typed, bytes, length)) // room for it
        return false;
    char *next = typed->bytes.data + typed->taken;
    memmove(next + length, next, left);
    memcpy(next, bytes, length);
    typed->looked = typed->taken;
    return true;
}

bool typed_put_macro(struct typed *typed, const char *text)
{
    enum { MOST = 64 };
    return ++typed->played <= MOST && typed_put(typed, text, strlen(text));
}

bool typed_read(struct typed *typed, int terminal)
{
    struct pollfd input = {.fd = terminal, .events = POLLIN};
    char block[4096];
    ssize_t got = poll(&input, 1, 0) > 0 ? term_read(terminal, block, sizeof block) : 0;
    return got > 0 && typed_add(typed, block, (size_t)got);
}

static bool take_paste_begin(struct typed *typed)
{
    if (typed_left(typed) < MARK || memcmp(typed->bytes.data + typed->taken, paste_begin, MARK) != 0)
        return false;
    typed->taken += MARK;
    return true;
}

static bool has_paste_end(struct typed *typed)
{
    if (typed->looked < typed->taken)
        typed->looked = typed->taken;
    for (; typed->looked + MARK <= typed->bytes.length; typed->looked++)
        if (memcmp(typed->bytes.data + typed->looked, paste_end, MARK) == 0)
            return true;
    return false;
}

bool typed_take_paste(struct typed *typed, struct bytes *text)
{
    bool whole = has_paste_end(typed), fine = true;
    size_t begin = text->length;
    size_t end = whole ? typed->looked : typed->bytes.length;
    for (size_t at = typed->taken; fine && at < end; at++) {
        unsigned char byte = (unsigned char)typed->bytes.data[at];
        bool second = byte == '\n' && at > typed->taken && typed->bytes.data[at - 1] == '\r';
        if (byte == '\r' || (byte == '\n' && !second))
            fine = bytes_append(text, "\n", 1);
        else if (byte == '\t' || (byte >= ' ' && byte != 0x7F))
            fine = bytes_append(text, &byte, 1);
        else if (!second)
            typed->left_out++;
    }
    typed->left_out += typed_drop_controls(text, begin);
    typed->taken = end + (whole ? MARK : 0);
    typed->unended = typed->unended || !whole;
    typed->pasting = false;
    return fine;
}

bool typed_pasted(const struct typed *typed, struct bytes *text)
{
    struct typed look = *typed;
    return !typed->pasting || typed_take_paste(&look, text);
}

void typed_begin_paste(struct typed *typed, uint64_t now_ms)
{
    typed->pasting = true;
    typed->came_ms = now_ms;
}

int typed_paste_ms(const struct typed *typed, uint64_t now_ms)
{
    uint64_t until = typed->came_ms + INPUT_PASTE_MS;
    return !typed->pasting ? -1 : until > now_ms ? (int)(until - now_ms) : 0;
}

bool typed_is_ready(struct typed *typed, uint64_t now_ms)
{
    return typed->pasting ? has_paste_end(typed) || typed_paste_ms(typed, now_ms) == 0 : typed_left(typed) > 0;
}

enum typed_kind typed_next(struct typed *typed, uint64_t now_ms)
{
    if (typed->pasting)
        return TYPED_PASTE;
    if (typed->skipping) {
        int byte = typed_take(typed);
        typed->skipping = byte >= 0x20 && byte < 0x40;
        return TYPED_NO_KEY;
    }
    if (typed_skip_answers(typed))
        return TYPED_NO_KEY;
    if (!take_paste_begin(typed))
        return TYPED_KEY;
    typed_begin_paste(typed, now_ms);
    return TYPED_PASTE_BEGINS;
}

bool typed_begins_answer(char introducer, char next)
{
    bool digit = next >= '0' && next <= '9';
    switch (introducer) {
    case ']':
        return digit || next == 'l' || next == 'L';
    case 'P':
        return digit || next == '>' || next == '!' || next == '$' || next == '+';
    case '_':
        return next == 'G';
    case '^':
    case 'X':
        return next >= ' ' && next <= '~';
    }
    return false;
}

// The length of the answer that begins here, its end included; 0: none does, or it is not whole.
static size_t answer_length(const char *at, size_t length)
{
    if (length < 4 || at[0] != '\033' || !typed_begins_answer(at[1], at[2]))
        return 0;
    for (size_t n = 3; n < length; n++) {
        if (at[n] == '\a')
            return n + 1;
        if (at[n] == '\033')
            return n + 1 < length && at[n + 1] == '\\' ? n + 2 : 0;
        if ((unsigned char)at[n] < ' ')
            return 0;
    }
    return 0;
}

bool typed_skip_answers(struct typed *typed)
{
    size_t before = typed->taken, length = 1;
    while (length && typed_left(typed)) {
        length = answer_length(typed->bytes.data + typed->taken, typed_left(typed));
        typed->taken += length;
    }
    return typed->taken > before;
}

// The length of the key that begins with Esc at `at`: up to its last letter, or with the key behind it.
static size_t escape_length(const char *at, size_t length)
{
    size_t n = length < 2 ? length : 2, answer = answer_length(at, length);
    if (answer)
        return answer;
    if (n == 2 && (at[1] == '[' || at[1] == 'O')) {
        while (n < length && !(at[n] >= 0x40 && at[n] <= 0x7E))
            n++;
        n += n < length;
    }
    return n;
}

bool typed_text(const struct typed *typed, struct bytes *text)
{
    const char *bytes = typed->bytes.data;
    size_t begin = text->length;
    bool fine = true;
    for (size_t at = typed->taken; fine && at < typed->bytes.length; at++) {
        unsigned char key = (unsigned char)bytes[at];
        if (key == '\033')
            at += escape_length(bytes + at, typed->bytes.length - at) - 1;
        else if (key == '\r' || key == '\n')
            fine = bytes_append(text, "\n", 1);
        else if (key == 0x7F || key == '\b')
            while (text->length > begin && text->data[text->length - 1] != '\n')
                if (((unsigned char)text->data[--text->length] & 0xC0) != 0x80)
                    break;
        if (text->data)
            text->data[text->length] = 0;
        if (key >= 0x20 && key != 0x7F)
            fine = bytes_append(text, bytes + at, 1);
    }
    return fine;
}
