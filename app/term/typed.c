// SPDX-License-Identifier: GPL-3.0-or-later
// A queue of bytes, and what they say.
#include "app/term/typed.h"

#include <poll.h>
#include <unistd.h>

void typed_release(struct typed *typed)
{
    bytes_release(&typed->bytes);
    *typed = (struct typed){0};
}

size_t typed_left(const struct typed *typed)
{
    return typed->bytes.length - typed->taken;
}

bool typed_add(struct typed *typed, const char *bytes, size_t length)
{
    if (!typed_left(typed))
        typed->bytes.length = typed->taken = 0;
    return bytes_append(&typed->bytes, bytes, length);
}

int typed_take(struct typed *typed)
{
    return typed_left(typed) ? (unsigned char)typed->bytes.data[typed->taken++] : -1;
}

void typed_read(struct typed *typed, int terminal)
{
    struct pollfd input = {.fd = terminal, .events = POLLIN};
    char block[4096];
    ssize_t got;
    while (poll(&input, 1, 0) > 0 && (got = read(terminal, block, sizeof block)) > 0)
        if (!typed_add(typed, block, (size_t)got))
            return;
}

// The length of the key that begins with Esc at `at`: up to its last letter, or with the key behind it.
static size_t escape_length(const char *at, size_t length)
{
    size_t n = length < 2 ? length : 2;
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
