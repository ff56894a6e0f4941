// SPDX-License-Identifier: GPL-3.0-or-later
// The chat as lines.
#include "app/term/plain.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/term/keys.h"
#include "app/term/prompt.h"
#include "app/util/progress.h"
#include "app/util/sanitize.h"
#include "app/talk/talk.h"
#include "app/term/term.h"

enum { LINE_LIMIT = 4 << 20 }; // bytes of a piped line; more than any context holds

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
    struct bytes input; // of a pipe
    bool input_ended;
};

// Writes what is buffered; a reader that has gone, or a full disk, ends the chat.
static void flush(struct plain *plain)
{
    if (plain->broken || (fflush(stdout) == 0 && !ferror(stdout)))
        return;
    plain->broken = true;
    bool gone = errno == EPIPE;
    if (!gone)
        report("cannot write the answer: %s", strerror(errno));
    int status = plain->talk.status;
    talk_leave(&plain->talk, status != STATUS_DONE ? status : gone ? STATUS_EPIPE : STATUS_FAILED);
}

// Our own words, cut between them where a line of the terminal ends.
static void put_paragraph(struct plain *plain, const char *text)
{
    int columns = plain->from_terminal ? term_columns() : INT_MAX, column = 0;
    fputs(plain->color ? "\033[2m" : "", stdout);
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column && column + 1 + (int)length > columns) {
            fputc('\n', stdout);
            column = 0;
        }
        fputs(column ? " " : "", stdout);
        report_text(stdout, text, length);
        column += (int)length + (column > 0);
        text += length + (text[length] == ' ');
    }
    fputs(plain->color ? "\033[0m\n" : "\n", stdout);
}

static bool prompt_stands(const struct plain *plain)
{
    return plain->from_terminal && prompt_is_shown();
}

// What is said while the prompt stands begins on a line of its own, and the prompt follows.
static void face_say(void *self, const char *text)
{
    struct plain *plain = self;
    bool stands = prompt_stands(plain);
    if (stands)
        fputc('\n', stdout);
    put_paragraph(plain, text);
    if (stands)
        prompt_refresh();
}

static void face_show(void *self, const char *text, size_t length)
{
    (void)self;
    report_text(stdout, text, length);
}

static void face_fail(void *self, const char *text)
{
    flush(self);
    report("%s", text);
}

static void face_message(void *self, const struct face_message *message)
{
    (void)self;
    if (message->typed)
        return; // it stands there
    static const char *const labels[] = {"System: ", "You: ", "Assistant: "};
    fputs(message->thinking ? "Thinking: " : labels[message->role], stdout);
    report_text(stdout, message->text, message->length);
    fputc('\n', stdout);
}

static void face_begin_answer(void *self)
{
    struct plain *plain = self;
    plain->labelled = plain->thinking = false;
}

// Ends a line that was begun.
static void end_part(struct plain *plain)
{
    char shown[SANITIZE_ROOM(0)];
    size_t size = sanitize_flush(&plain->sanitize, shown);
    fwrite(shown, 1, size, stdout);
    if (size || plain->last_shown != '\n')
        fputc('\n', stdout);
}

static void begin_part(struct plain *plain, bool thinking)
{
    if (plain->labelled && plain->thinking == thinking)
        return;
    if (plain->labelled)
        end_part(plain);
    const char *label = thinking ? "Thinking:" : "Assistant:";
    printf(plain->color ? "\033[1;36m%s\033[0m " : "%s ", label);
    plain->labelled = true;
    plain->thinking = thinking;
    plain->last_shown = ' ';
}

static void face_text(void *self, const struct face_text *text)
{
    struct plain *plain = self;
    char shown[SANITIZE_ROOM(256)];
    begin_part(plain, text->thinking);
    for (size_t at = 0, part; at < text->length; at += part) {
        part = text->length - at < 256 ? text->length - at : 256;
        size_t size = sanitize_push(&plain->sanitize, text->bytes + at, part, shown);
        fwrite(shown, 1, size, stdout);
        if (size)
            plain->last_shown = shown[size - 1];
    }
}

static void face_end_answer(void *self, const struct turn_result *result)
{
    struct plain *plain = self;
    if (result->kept)
        begin_part(plain, plain->thinking && plain->labelled);
    if (plain->labelled)
        end_part(plain);
}

static void face_cut(void *self, size_t messages)
{
    (void)self; // what stands above stays
    (void)messages;
}

static void face_progress(void *self, const struct moe_progress *at)
{
    struct plain *plain = self;
    if (at)
        progress_show(&plain->progress, at);
    else
        progress_clear(&plain->progress);
}

static void face_cleared(void *self)
{
    (void)self; // what stands above stays
}

static void face_changed(void *self)
{
    struct plain *plain = self;
    if (plain->talk.state == TALK_IDLE && plain->from_terminal && !prompt_is_shown())
        prompt_show();
}

static void face_page(void *self, enum face_page page, const char *text, size_t length)
{
    (void)page;
    face_show(self, text, length);
}

static bool complete(void *context, struct candidates *found, const char *line, size_t point)
{
    struct plain *plain = context;
    return sessions_complete(&plain->talk.store, found, line, point);
}

static void not_kept(void *context, const char *why)
{
    char text[160];
    snprintf(text, sizeof text, "Later chats will not have this message in their history: %s.", why);
    put_paragraph(context, text);
}

static void on_typed(void *context, char *typed)
{
    struct plain *plain = context;
    if (typed)
        talk_line(&plain->talk, typed, strlen(typed));
    else
        talk_leave(&plain->talk, plain->talk.status);
    free(typed);
}

static bool input_waits(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

// Signals overtake the keys that were typed before them.
static void read_keys(struct plain *plain)
{
    while (plain->talk.state == TALK_IDLE && plain->from_terminal && input_waits())
        prompt_feed();
}

static void interrupt(struct plain *plain)
{
    struct talk *talk = &plain->talk;
    read_keys(plain);
    if (talk->state == TALK_LEAVING)
        return;
    if (talk->state == TALK_LOADING || !plain->from_terminal) {
        talk_leave(talk, STATUS_INTERRUPTED);
    } else if (!talk_stop(talk)) {
        if (!prompt_interrupt())
            put_paragraph(plain, "Ctrl-D or /quit leaves.");
        prompt_refresh();
    }
}

static void take_signals(struct plain *plain)
{
    term_drain();
    if (term_signal_came(SIGTERM))
        talk_leave(&plain->talk, STATUS_TERMINATED);
    if (term_signal_came(SIGHUP))
        talk_leave(&plain->talk, term_exit_status(SIGHUP));
    if (term_signal_came(SIGINT))
        interrupt(plain);
    if (term_signal_came(SIGTSTP)) {
        read_keys(plain);
        term_suspend();
    }
    bool shown = plain->talk.state == TALK_IDLE && prompt_is_shown();
    if (term_signal_came(SIGWINCH) && shown)
        prompt_resize();
    if (term_signal_came(SIGCONT) && shown)
        prompt_refresh();
}

// Takes in what a pipe has to give.
static void read_pipe(struct plain *plain)
{
    char block[4096];
    ssize_t got = read(STDIN_FILENO, block, sizeof block);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    plain->input_ended = got <= 0;
    const char *wrong = NULL;
    if (got < 0)
        wrong = strerror(errno);
    else if (!bytes_append(&plain->input, block, (size_t)got))
        wrong = "no memory for the message";
    else if (plain->input.length > LINE_LIMIT && !memchr(plain->input.data, '\n', plain->input.length))
        wrong = "a line is longer than 4 MiB; moechat run --prompt-file takes long texts";
    if (!wrong)
        return;
    report("cannot read standard input: %s", wrong);
    talk_leave(&plain->talk, STATUS_FAILED);
}

// Takes the next line of a pipe, when there is a whole one.
static void take_piped_line(struct plain *plain)
{
    struct bytes *input = &plain->input;
    char *newline = input->length ? memchr(input->data, '\n', input->length) : NULL;
    if (!newline && !plain->input_ended) {
        read_pipe(plain);
        return;
    }
    if (!newline && input->length == 0) {
        talk_leave(&plain->talk, plain->talk.status);
        return;
    }
    size_t length = newline ? (size_t)(newline - input->data) : input->length, taken = length + (newline != NULL);
    input->data[length] = 0;
    talk_line(&plain->talk, input->data, length);
    memmove(input->data, input->data + taken, input->length - taken);
    input->length -= taken;
}

static void loop(struct plain *plain, int signals)
{
    struct talk *talk = &plain->talk;
    while (talk->state != TALK_LEAVING) {
        bool idle = talk->state == TALK_IDLE;
        bool at_once = idle && !plain->from_terminal && (plain->input.length || plain->input_ended);
        struct pollfd fds[] = {
            {.fd = signals, .events = POLLIN},
            {.fd = worker_fd(talk->worker), .events = POLLIN},
            {.fd = idle ? STDIN_FILENO : -1, .events = POLLIN},
        };
        if (poll(fds, 3, at_once ? 0 : -1) < 0 && errno != EINTR)
            break;
        take_signals(plain);
        talk_take_events(talk);
        // Asked anew: what was there may have been read with a signal.
        if (idle && talk->state == TALK_IDLE && (at_once || input_waits())) {
            if (plain->from_terminal)
                prompt_feed();
            else
                take_piped_line(plain);
        }
        flush(plain);
    }
}

static bool open_prompt(struct plain *plain)
{
    return prompt_open(&(struct prompt_face){.context = plain,
                                             .label = plain->color ? "\001\033[1m\002You:\001\033[0m\002 " : "You: ",
                                             .line = on_typed,
                                             .complete = complete,
                                             .not_kept = not_kept});
}

int plain_chat(const struct options *options)
{
    static const struct face_ops face = {
        .say = face_say,
        .show = face_show,
        .fail = face_fail,
        .message = face_message,
        .begin_answer = face_begin_answer,
        .text = face_text,
        .end_answer = face_end_answer,
        .progress = face_progress,
        .cut = face_cut,
        .cleared = face_cleared,
        .changed = face_changed,
        .page = face_page,
        .keys = keys_of_lines,
    };
    struct plain plain = {.from_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    struct talk *talk = &plain.talk;
    if (!plain.from_terminal && !options->talk.face.plain) {
        report("a chat needs a terminal; moechat run answers in pipes, and --plain reads a message a line");
        return STATUS_USAGE;
    }
    *talk = (struct talk){.face = &face, .self = &plain, .scripted = !plain.from_terminal};
    plain.color = term_wants_color(options->talk.face.color);
    plain.progress.out = plain.from_terminal ? stdout : isatty(STDERR_FILENO) ? stderr : NULL;
    plain.progress.plain = term_is_dumb();
    int status = talk_prepare(talk, options);
    if (status)
        return status;
    int signals = term_catch_signals(true);
    bool fine = signals >= 0 && talk_start(talk);
    if (fine && plain.from_terminal)
        fine = open_prompt(&plain);
    if (fine) {
        loop(&plain, signals);
    } else {
        report("cannot start: %s", strerror(errno));
        talk_leave(talk, STATUS_FAILED);
    }
    if (plain.from_terminal) {
        if (talk->status == STATUS_TERMINATED || talk->status == STATUS_INTERRUPTED)
            fputc('\n', stdout);
        prompt_close();
    }
    flush(&plain);
    term_release_signals(); // a second one need not wait
    talk_finish(talk);
    flush(&plain);
    bytes_release(&plain.input);
    return talk->status;
}
