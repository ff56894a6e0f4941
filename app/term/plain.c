// SPDX-License-Identifier: GPL-3.0-or-later
// The chat as lines: what is said, and what is sent.
#include "app/term/plain.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/talk/export.h"
#include "app/term/keys.h"
#include "app/term/plain_parts.h"
#include "app/term/prompt.h"
#include "app/term/term.h"
#include "app/term/typed.h"
#include "app/view/cells.h"

enum { WORD_MS = 200 }; // that a word is waited for to be whole

void plain_flush(struct plain *plain)
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

// Where what is no answer goes: in a pipe beside the answers, which are flushed first, in case both go to one file.
static FILE *aside(struct plain *plain)
{
    if (plain->from_terminal)
        return stdout;
    plain_flush(plain);
    return stderr;
}

// Words cut between them where a line of so many columns ends; the first stands behind those that are there already.
static void put_words(FILE *out, int columns, int column, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, " \n");
        if (column && column + 1 + (int)length > columns) {
            fputc('\n', out);
            column = 0;
        }
        fputs(column ? " " : "", out);
        report_text(out, text, length);
        column += (int)length + (column > 0);
        text += length + (text[length] != 0);
    }
}

void plain_put_paragraph(struct plain *plain, const char *text)
{
    FILE *out = aside(plain);
    bool dim = plain->color && plain->from_terminal;
    fputs(dim ? "\033[2m" : "", out);
    put_words(out, plain->from_terminal ? term_columns() : INT_MAX, 0, text);
    fputs(dim ? "\033[0m\n" : "\n", out);
}

static bool prompt_stands(const struct plain *plain)
{
    return plain->from_terminal && prompt_is_shown();
}

// What is said while the prompt stands begins on a line of its own, and the prompt follows.
void plain_say(void *self, const char *text)
{
    struct plain *plain = self;
    bool stands = prompt_stands(plain);
    if (stands)
        fputc('\n', stdout);
    plain_put_paragraph(plain, text);
    if (stands)
        prompt_refresh();
}

// Lines that on a terminal are cut between words, too, and continued a little further in.
static void put_lines(const struct plain *plain, FILE *out, const char *text, size_t length, int column)
{
    enum { FURTHER = 2 };
    const char *end = text + length;
    int columns = plain->from_terminal ? term_columns() : INT_MAX;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text)), *line_end = newline ? newline : end;
        int indent = FURTHER;
        for (const char *c = text; c < line_end && *c == ' '; c++)
            indent++;
        while (text < line_end) {
            size_t left = (size_t)(line_end - text), part = left;
            if (columns > indent && cells_width(text, left) > columns - column) {
                part = cells_fitting(text, left, columns - column);
                while (part > 0 && text[part] != ' ')
                    part--;
                if ((int)part <= (column ? 0 : indent - FURTHER)) // one long word
                    part = left;
            }
            report_text(out, text, part);
            text += part;
            column = 0;
            if (text < line_end) {
                fprintf(out, "\n%*s", indent, "");
                column = indent;
                text++;
            }
        }
        if (newline)
            fputc('\n', out);
        text = line_end + (newline != NULL);
        column = 0;
    }
}

// What a command was asked for is an answer, too; what there is to be seen at the start is none.
static void face_show(void *self, const char *text, size_t length)
{
    struct plain *plain = self;
    put_lines(plain, plain->talk.state == TALK_LOADING ? aside(plain) : stdout, text, length, 0);
}

static int face_columns(void *self)
{
    const struct plain *plain = self;
    return plain->from_terminal ? term_columns() : 80;
}

static void face_fail(void *self, const char *text)
{
    static const char name[] = "moechat:";
    const struct plain *plain = self;
    plain_flush(self);
    fputs(name, stderr);
    bool seen = plain->from_terminal && isatty(STDERR_FILENO);
    put_words(stderr, seen ? term_columns() : INT_MAX, (int)sizeof name - 1, text);
    fputc('\n', stderr);
}

static void face_message(void *self, const struct face_message *message)
{
    if (message->typed)
        return; // it stands there
    const char *label = message->thinking ? "Thinking" : export_speaker(message->role);
    FILE *out = aside(self); // it was said before
    fprintf(out, "%s: ", label);
    put_lines(self, out, message->text, message->length, (int)strlen(label) + 2);
    fputc('\n', out);
}

static void face_begin_answer(void *self)
{
    struct plain *plain = self;
    plain->labelled = plain->thinking = false;
}

// Pipes get the text as it is.
static int edge(const struct plain *plain)
{
    return plain->from_terminal ? term_columns() : 0;
}

void plain_end_part(struct plain *plain)
{
    char shown[SANITIZE_ROOM(0)];
    size_t size = sanitize_flush(&plain->sanitize, shown);
    flow_push(&plain->flow, stdout, edge(plain), shown, size);
    flow_flush(&plain->flow, stdout, edge(plain));
    if (size || plain->last_shown != '\n')
        fputc('\n', stdout);
}

int plain_word_ms(const struct plain *plain)
{
    return plain->flow.word.length ? WORD_MS : -1;
}

void plain_show_word(struct plain *plain)
{
    if (plain->flow.word.length && term_clock_ms() - plain->came_ms >= WORD_MS)
        flow_flush(&plain->flow, stdout, edge(plain));
}

static void begin_part(struct plain *plain, bool thinking)
{
    if (plain->labelled && plain->thinking == thinking)
        return;
    if (plain->labelled)
        plain_end_part(plain);
    const char *label = thinking ? "Thinking" : export_speaker(TOK_ASSISTANT);
    printf(plain->color ? "\033[1;36m%s:\033[0m " : "%s: ", label);
    plain->labelled = true;
    plain->thinking = thinking;
    plain->last_shown = ' ';
    plain->flow.column = (int)strlen(label) + 2;
}

static void face_text(void *self, const struct face_text *text)
{
    struct plain *plain = self;
    char shown[SANITIZE_ROOM(256)];
    begin_part(plain, text->thinking);
    for (size_t at = 0, part; at < text->length; at += part) {
        part = text->length - at < 256 ? text->length - at : 256;
        size_t size = sanitize_push(&plain->sanitize, text->bytes + at, part, shown);
        flow_push(&plain->flow, stdout, edge(plain), shown, size);
        if (size)
            plain->last_shown = shown[size - 1];
    }
    plain->came_ms = term_clock_ms();
}

static void face_end_answer(void *self, const struct turn_result *result)
{
    struct plain *plain = self;
    if (result->kept)
        begin_part(plain, plain->thinking && plain->labelled);
    if (plain->labelled)
        plain_end_part(plain);
    plain->labelled = false;
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
        prompt_show(plain->draft ? plain->draft : "");
    if (plain->from_terminal && plain->talk.state == TALK_IDLE) {
        free(plain->draft);
        plain->draft = NULL;
    }
}

static bool face_draft(void *self, const char *text)
{
    struct plain *plain = self;
    struct pollfd typed = {.fd = STDIN_FILENO, .events = POLLIN};
    bool behind = typed_left(prompt_typed()) > 0 || poll(&typed, 1, 0) > 0; // it was typed to stand by itself
    char *draft = plain->from_terminal && !behind ? strdup(text) : NULL;
    if (draft) {
        free(plain->draft);
        plain->draft = draft;
    }
    return draft;
}

static void face_page(void *self, enum face_page page, const struct face_lines *lines)
{
    (void)page;
    face_show(self, lines->text, lines->length);
}

// ---- What is sent ----

static bool is_blank(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && strchr(" \t\r", text[i]) && text[i])
        i++;
    return i == length;
}

bool plain_remember(const char *line, bool *keeps)
{
    struct bytes quoted = {0};
    bool is_shell = commands_is_shell(line, strlen(line)) && commands_quote(&quoted, line, strlen(line));
    bool kept = prompt_remember(is_shell ? quoted.data : line);
    if (keeps)
        *keeps = prompt_keeps(is_shell ? quoted.data : line);
    bytes_release(&quoted);
    return kept;
}

// As one line of the history, however many it has.
static void remember(struct plain *plain, const char *text)
{
    bool kept = !plain->from_terminal || plain_remember(text, NULL);
    if (!kept && commands_parse(text, strlen(text)).kind == LINE_MESSAGE)
        prompt_sent(text);
}

const char *plain_quoted(const struct plain *plain)
{
    return plain->quoted.length ? plain->quoted.data : "";
}

bool plain_take_line(struct plain *plain, const char *text, size_t length)
{
    struct bytes *quoted = &plain->quoted;
    bool goes_on = quoted->length && is_blank(text, length); // what was open stays so, however many follow
    bool whole = (!quoted->length || bytes_append(quoted, "\n", 1)) && bytes_append(quoted, text, length);
    if (!whole) {
        remember(plain, quoted->data ? quoted->data : "");
        remember(plain, text);
        quoted->length = 0;
        face_fail(plain, "not sent: no memory for what was typed");
    }
    if (quoted->length && (goes_on || commands_is_open(quoted->data, quoted->length)))
        return false;
    struct bytes line = *quoted;
    *quoted = (struct bytes){0};
    remember(plain, line.data ? line.data : "");
    talk_line(&plain->talk, line.data ? line.data : "", line.length);
    plain->left = plain->talk.state == TALK_LEAVING;
    bytes_release(&line);
    return true;
}

bool plain_left_by_signal(const struct plain *plain)
{
    for (size_t i = 0; i < TERM_STOPS; i++)
        if (plain->talk.status == term_exit_status(term_stops[i]))
            return true;
    return false;
}

int plain_chat(const struct options *options)
{
    static const struct face_ops face = {
        .say = plain_say,
        .show = face_show,
        .columns = face_columns,
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
        .draft = face_draft,
        .keys = keys_of_lines,
    };
    struct plain plain = {.from_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    struct talk *talk = &plain.talk;
    if (!plain.from_terminal && !options->talk.face.plain) {
        report("chat needs a terminal; use moechat run in pipes, or --plain to read one message a line");
        return STATUS_USAGE;
    }
    *talk = (struct talk){.face = &face, .self = &plain, .scripted = !plain.from_terminal};
    plain.color = term_wants_color(options->talk.face.color);
    plain.progress.out = plain.from_terminal ? stdout : isatty(STDERR_FILENO) ? stderr : NULL;
    plain.progress.plain = term_is_dumb();
    plain.keep_ms = -1;
    struct loop_face loop = plain.from_terminal ? plain_typed_loop : plain_pipe_loop;
    loop.self = &plain;
    loop.talk = talk;
    loop_chat(&loop, options);
    plain_flush(&plain);
    bytes_release(&plain.pipe.bytes);
    bytes_release(&plain.quoted);
    flow_release(&plain.flow);
    free(plain.draft);
    free(plain.apart);
    loop_leave(talk);
    return talk->status;
}
