// SPDX-License-Identifier: GPL-3.0-or-later
// The chat as lines of a pipe: one message each, but between quotes.
#include "app/term/plain_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/term/term.h"

enum { LINE_LIMIT = 4 << 20 }; // bytes; more than any context holds

static bool listens(void *self)
{
    const struct plain *plain = self;
    return plain->talk.state == TALK_IDLE && !plain->pipe.whole_line;
}

// Takes in what a pipe has to give.
static void read_pipe(void *self)
{
    struct plain *plain = self;
    char block[4096];
    ssize_t got = read(STDIN_FILENO, block, sizeof block);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    plain->pipe.ended = got <= 0;
    plain->pipe.whole_line = got <= 0 || memchr(block, '\n', (size_t)got);
    const char *wrong = NULL;
    if (got < 0)
        wrong = strerror(errno);
    else if (!bytes_append(&plain->pipe.bytes, block, (size_t)got))
        wrong = "out of memory";
    else if (plain->pipe.bytes.length > LINE_LIMIT && !plain->pipe.whole_line)
        wrong = "a line is longer than 4 MiB; moechat run --prompt-file takes long texts";
    if (!wrong)
        return;
    report("cannot read standard input: %s", wrong);
    talk_leave(&plain->talk, STATUS_FAILED);
}

// A line of a pipe, the last of which may have no end.
static void send_line(struct plain *plain)
{
    struct bytes *input = &plain->pipe.bytes;
    char *newline = input->length ? memchr(input->data, '\n', input->length) : NULL;
    if (!newline && input->length == 0) {
        bool open = plain->quoted.length;
        if (open)
            report("not sent: the message after \"\"\" has no end; the same quotes end it");
        talk_leave(&plain->talk, open && plain->talk.status == STATUS_DONE ? STATUS_USAGE : plain->talk.status);
        return;
    }
    size_t length = newline ? (size_t)(newline - input->data) : input->length, taken = length + (newline != NULL);
    input->data[length] = 0;
    if (plain->quoted.length > LINE_LIMIT) {
        report("cannot read standard input: a message between quotes is longer than 4 MiB");
        talk_leave(&plain->talk, STATUS_FAILED);
        return;
    }
    plain_take_line(plain, input->data, length);
    memmove(input->data, input->data + taken, input->length - taken);
    input->length -= taken;
    plain->pipe.whole_line = plain->pipe.ended || (input->length && memchr(input->data, '\n', input->length));
}

static bool line_waits(const struct plain *plain)
{
    return plain->talk.state == TALK_IDLE && plain->pipe.whole_line;
}

static int patience(void *self)
{
    return line_waits(self) ? 0 : -1;
}

static void finish_round(void *self)
{
    if (line_waits(self))
        send_line(self);
    plain_flush(self);
}

static void interrupt(void *self)
{
    struct plain *plain = self;
    talk_leave(&plain->talk, STATUS_INTERRUPTED);
}

static void suspend(void *self)
{
    (void)self;
    term_suspend();
}

static bool open_nothing(void *self)
{
    (void)self;
    return true;
}

static void stay(void *self)
{
    (void)self; // there is nothing to draw
}

// Lines of a pipe behind the one that left, or that a signal came before: also those of a message that is not whole.
static void report_unread(struct plain *plain)
{
    struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
    struct bytes *unread = &plain->quoted;
    const struct bytes *input = &plain->pipe.bytes;
    int status = plain->talk.status;
    if (!unread->length && !input->length && !plain->pipe.ended && poll(&more, 1, 0) > 0)
        read_pipe(plain);
    if (!plain->left)
        plain->talk.status = status; // the signal's, whatever comes of reading
    if ((unread->length && !bytes_append(unread, "\n", 1)) ||
        (input->length && !bytes_append(unread, input->data, input->length)))
        report("not all that was not sent can be told: out of memory");
    size_t begin = 0, end = unread->length;
    while (begin < end && strchr(" \t\r\n", unread->data[begin]))
        begin++;
    while (end > begin && strchr(" \t\r\n", unread->data[end - 1]))
        end--;
    size_t shown = end - begin < 60 ? end - begin : 60, whole = shown;
    while (whole && begin + whole < end && ((unsigned char)unread->data[begin + whole] & 0xC0) == 0x80)
        whole--;
    shown = shown - whole <= 3 ? whole : shown; // whole characters, if these are any
    if (shown)
        report(plain->left ? "not sent: what follows the line that left, from \"%.*s\" on"
                           : "not sent: the lines from \"%.*s\" on",
               (int)shown, unread->data + begin);
}

static void close_pipe(void *self)
{
    struct plain *plain = self;
    if (plain->labelled) // an answer is under way
        plain_end_part(plain);
    plain_flush(plain);
    bool full = plain->broken && plain->talk.status == STATUS_FAILED; // else the reader went away, and nobody is told
    if (plain->left || plain_left_by_signal(plain) || full)
        report_unread(plain);
}

const struct loop_face plain_pipe_loop = {
    .open = open_nothing,
    .begin = open_nothing,
    .close = close_pipe,
    .listens = listens,
    .read = read_pipe,
    .patience = patience,
    .round = finish_round,
    .interrupt = interrupt,
    .suspend = suspend,
    .resize = stay,
    .resume = stay,
};
