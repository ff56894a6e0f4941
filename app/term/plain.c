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
#include "app/term/loop.h"
#include "app/term/prompt.h"
#include "app/term/recall.h"
#include "app/term/typed.h"
#include "app/util/progress.h"
#include "app/util/sanitize.h"
#include "app/talk/export.h"
#include "app/talk/talk.h"
#include "app/term/term.h"
#include "app/view/cells.h"
#include "app/view/flow.h"

enum { WORD_MS = 200 };        // that a word is waited for to be whole
enum { READ_MS = 50 };         // that keys are read before signals are looked at
enum { LINE_LIMIT = 4 << 20 }; // bytes of a piped line; more than any context holds

struct plain {
    struct talk talk;
    bool from_terminal; // else messages are lines of a pipe
    bool color;
    char label[40]; // before what is typed
    bool broken;    // standard output; said so
    struct progress progress;
    // The answer under way.
    struct sanitize sanitize;
    bool thinking, labelled;
    char last_shown;
    struct flow flow;   // on a terminal
    uint64_t came_ms;   // the last of it
    struct bytes input; // of a pipe
    bool input_ended;
    bool left;           // by a line, not by the input's end
    bool whole_line;     // in there, or its end
    struct bytes quoted; // a message of several lines that is not whole yet
    char *draft;         // that the next prompt begins with, NULL
    char *apart;         // where it is kept, which is not said yet, NULL
    int keep_ms;         // until what is typed is kept
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

// Where what is no answer goes: in a pipe beside the answers, which are flushed first, in case both go to one file.
static FILE *aside(struct plain *plain)
{
    if (plain->from_terminal)
        return stdout;
    flush(plain);
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

// Our own words, cut between them where a line of the terminal ends.
static void put_paragraph(struct plain *plain, const char *text)
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
    flush(self);
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

// Ends a line that was begun.
static void end_part(struct plain *plain)
{
    char shown[SANITIZE_ROOM(0)];
    size_t size = sanitize_flush(&plain->sanitize, shown);
    flow_push(&plain->flow, stdout, edge(plain), shown, size);
    flow_flush(&plain->flow, stdout, edge(plain));
    if (size || plain->last_shown != '\n')
        fputc('\n', stdout);
}

static void begin_part(struct plain *plain, bool thinking)
{
    if (plain->labelled && plain->thinking == thinking)
        return;
    if (plain->labelled)
        end_part(plain);
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
        end_part(plain);
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

static bool complete(void *context, struct candidates *found, const char *line, size_t point)
{
    struct plain *plain = context;
    return sessions_complete(&plain->talk.store, found, line, point);
}

static void not_kept(void *context, const char *why)
{
    char text[160];
    snprintf(text, sizeof text, "Not kept in the history of later chats: %s.", why);
    put_paragraph(context, text);
}

static bool is_blank(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && strchr(" \t\r", text[i]) && text[i])
        i++;
    return i == length;
}

// As one line of the history, however many it has.
static void remember(struct plain *plain, const char *text)
{
    bool kept = !plain->from_terminal || prompt_remember(text);
    if (!kept && commands_parse(text, strlen(text)).kind == LINE_MESSAGE)
        prompt_sent(text);
}

// The lines of a message that is not whole yet; "": there is none.
static const char *quoted_so_far(const struct plain *plain)
{
    return plain->quoted.length ? plain->quoted.data : "";
}

// False: the message goes on up to the other quotes.
static bool take_line(struct plain *plain, const char *text, size_t length)
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

// Of a message between quotes that are not closed. False: there is none.
static bool say_quoted(struct plain *plain)
{
    if (plain->quoted.length)
        put_paragraph(plain, "Not sent: the message after \"\"\" has no end; the same quotes end it.");
    return plain->quoted.length;
}

// The history has it then.
static bool drop_quoted(struct plain *plain)
{
    bool open = say_quoted(plain);
    if (open)
        prompt_put_away(plain->quoted.data);
    bytes_release(&plain->quoted);
    return open;
}

static void on_typed(void *context, char *typed)
{
    struct plain *plain = context;
    bool whole = !typed || take_line(plain, typed, strlen(typed));
    if (!typed && !drop_quoted(plain))
        talk_ask_leave(&plain->talk);
    if (!whole || (!typed && plain->talk.state == TALK_IDLE))
        prompt_show("");
    free(typed);
}

// ---- what the loop asks for ----

static bool listens(void *self)
{
    const struct plain *plain = self;
    return plain->from_terminal || (plain->talk.state == TALK_IDLE && !plain->whole_line);
}

static void read_keys(struct plain *plain)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t until = term_clock_ms() + READ_MS;
    if (plain->talk.state != TALK_IDLE && poll(&input, 1, 0) > 0 && input.revents == POLLIN)
        typed_read(prompt_typed(), STDIN_FILENO); // until the prompt is there
    else if (plain->talk.state != TALK_IDLE && input.revents)
        talk_leave(&plain->talk, term_exit_status(SIGHUP));
    while (plain->talk.state == TALK_IDLE && term_clock_ms() <= until && poll(&input, 1, 0) > 0) {
        // Where a draft stands, readline takes the terminal's end for a key, again and again.
        if (input.revents & (POLLHUP | POLLERR | POLLNVAL)) {
            talk_leave(&plain->talk, term_exit_status(SIGHUP));
            return;
        }
        prompt_feed();
    }
    prompt_draw();
}

// Takes in what a pipe has to give.
static void read_pipe(struct plain *plain)
{
    char block[4096];
    ssize_t got = read(STDIN_FILENO, block, sizeof block);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    plain->input_ended = got <= 0;
    plain->whole_line = got <= 0 || memchr(block, '\n', (size_t)got);
    const char *wrong = NULL;
    if (got < 0)
        wrong = strerror(errno);
    else if (!bytes_append(&plain->input, block, (size_t)got))
        wrong = "out of memory";
    else if (plain->input.length > LINE_LIMIT && !plain->whole_line)
        wrong = "a line is longer than 4 MiB; moechat run --prompt-file takes long texts";
    if (!wrong)
        return;
    report("cannot read standard input: %s", wrong);
    talk_leave(&plain->talk, STATUS_FAILED);
}

static void read_input(void *self)
{
    struct plain *plain = self;
    if (plain->from_terminal)
        read_keys(plain);
    else
        read_pipe(plain);
}

// A line of a pipe, the last of which may have no end.
static void take_piped_line(struct plain *plain)
{
    struct bytes *input = &plain->input;
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
    take_line(plain, input->data, length);
    memmove(input->data, input->data + taken, input->length - taken);
    input->length -= taken;
    plain->whole_line = plain->input_ended || (input->length && memchr(input->data, '\n', input->length));
}

static bool line_waits(const struct plain *plain)
{
    return plain->talk.state == TALK_IDLE && plain->whole_line;
}

static bool typed_waits(const struct plain *plain)
{
    return plain->talk.state == TALK_IDLE && prompt_stands(plain) && prompt_can_type();
}

static int patience(void *self)
{
    const struct plain *plain = self;
    if (line_waits(self) || typed_waits(self))
        return 0;
    int wait = plain->flow.word.length ? WORD_MS : plain->keep_ms,
        paste = plain->from_terminal ? typed_paste_ms(prompt_typed(), term_clock_ms()) : -1;
    return wait < 0 || (paste >= 0 && paste < wait) ? paste : wait;
}

// What is typed outlives a chat that is killed, also what is held for the next prompt.
static void keep_typed(struct plain *plain, bool now)
{
    struct bytes held = {0}, paste = {0};
    struct prompt_draft draft = prompt_draft();
    bool shown = prompt_is_shown();
    bool fine =
        shown ? typed_pasted(prompt_typed(), &paste) : typed_text(prompt_typed(), &held) && bytes_append(&held, "", 1);
    const char *text = shown ? prompt_with_paste(&draft, &paste, &held) : held.data;
    struct bytes whole = {0}; // with the lines of its message before it
    if (fine && plain->quoted.length && bytes_append(&whole, plain->quoted.data, plain->quoted.length) &&
        bytes_append(&whole, "\n", *text != 0) && bytes_append(&whole, text, strlen(text)))
        text = whole.data;
    if (fine && now)
        prompt_keep_draft_now(text);
    else if (!now)
        plain->keep_ms = fine ? prompt_keep_draft(text, term_clock_ms()) : -1;
    bytes_release(&whole);
    bytes_release(&paste);
    bytes_release(&held);
}

static void tell_of_paste(struct plain *plain)
{
    size_t *left_out = &prompt_typed()->left_out;
    char count[80], words[96];
    if (prompt_typed()->unended)
        face_say(plain, "(The paste had no end.)");
    prompt_typed()->unended = false;
    if (!*left_out)
        return;
    snprintf(words, sizeof words, "(%s of the paste.)", typed_left_out_words(count, sizeof count, *left_out));
    *left_out = 0;
    face_say(plain, words);
}

// At the prompt, but not within a key, as where a search began with keeping it.
static void say_apart(struct plain *plain)
{
    if (plain->apart && !prompt_is_within_key() && plain->talk.state == TALK_IDLE)
        face_say(plain, plain->apart);
    else
        return;
    free(plain->apart);
    plain->apart = NULL;
}

static void finish_round(void *self)
{
    struct plain *plain = self;
    tell_of_paste(plain);
    if (line_waits(self))
        take_piped_line(self);
    if (typed_waits(self))
        prompt_type_held();
    tell_of_paste(plain); // of one that has waited, too: no other round need follow
    if (plain->flow.word.length && term_clock_ms() - plain->came_ms >= WORD_MS)
        flow_flush(&plain->flow, stdout, edge(plain));
    if (plain->from_terminal && talk_has_saved(&plain->talk))
        prompt_sent_is_safe();
    if (plain->from_terminal) {
        plain->keep_ms = prompt_draft_wait(term_clock_ms());
        if (!plain->keep_ms)
            keep_typed(plain, false);
    }
    say_apart(plain);
    flush(self);
}

static void interrupt(void *self)
{
    struct plain *plain = self;
    struct talk *talk = &plain->talk;
    if (talk->state == TALK_LOADING || !plain->from_terminal) {
        talk_leave(talk, STATUS_INTERRUPTED);
    } else if (talk_stop(talk)) {
        if (talk->state == TALK_ANSWERING && !talk->begun) {
            progress_clear(&plain->progress);
            put_paragraph(plain, "Stopping ...");
        }
    } else {
        bool drafted = prompt_interrupt(quoted_so_far(plain), talk_edited(talk));
        plain->quoted.length = 0;
        if (talk_leave_edit(talk))
            put_paragraph(plain, TALK_EDIT_LEFT);
        else if (!drafted)
            put_paragraph(plain, "Ctrl-D or /quit to leave.");
        prompt_refresh();
    }
}

static void suspend(void *self)
{
    struct plain *plain = self;
    while (plain->from_terminal && plain->talk.state != TALK_IDLE && typed_read(prompt_typed(), STDIN_FILENO))
        ; // else the shell would read it
    if (plain->from_terminal)
        keep_typed(plain, true);
    term_suspend();
}

static void resize(void *self)
{
    const struct plain *plain = self;
    if (plain->talk.state == TALK_IDLE && prompt_is_shown())
        prompt_resize();
}

static void resume(void *self)
{
    const struct plain *plain = self;
    if (plain->talk.state == TALK_IDLE && prompt_is_shown())
        prompt_refresh();
}

static bool open_lines(void *self)
{
    (void)self;
    return true;
}

static void keep(void *context)
{
    keep_typed(context, true);
}

static void stays(void *context, const char *path)
{
    char words[RECALL_STAYS_SIZE];
    put_paragraph(context, recall_stays_words(words, sizeof words, path));
}

static void apart(void *context, const char *path, const char *why)
{
    struct plain *plain = context;
    char words[RECALL_APART_SIZE];
    free(plain->apart);
    plain->apart = strdup(recall_apart_words(words, sizeof words, path, why)); // without memory it is not said
}

static void adopted(void *context, size_t count)
{
    char words[160];
    put_paragraph(context, recall_adopted_words(words, sizeof words, count));
}

static bool open_prompt(void *self)
{
    struct plain *plain = self;
    snprintf(plain->label, sizeof plain->label,
             plain->color ? "\001\033[1m\002%s:\001\033[0m\002 " : "%s: ", export_speaker(TOK_USER));
    return !plain->from_terminal || prompt_open(&(struct prompt_face){.context = plain,
                                                                      .label = plain->label,
                                                                      .line = on_typed,
                                                                      .complete = complete,
                                                                      .not_kept = not_kept,
                                                                      .adopted = adopted,
                                                                      .stays = stays,
                                                                      .apart = apart,
                                                                      .keep = keep});
}

static bool left_by_signal(const struct plain *plain)
{
    for (size_t i = 0; i < TERM_STOPS; i++)
        if (plain->talk.status == term_exit_status(term_stops[i]))
            return true;
    return false;
}

// Lines of a pipe behind the one that left, or that a signal came before: also those of a message that is not whole.
static void report_unread(struct plain *plain)
{
    struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
    struct bytes *unread = &plain->quoted;
    const struct bytes *input = &plain->input;
    int status = plain->talk.status;
    if (!unread->length && !input->length && !plain->input_ended && poll(&more, 1, 0) > 0)
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
    int shown = (int)(end - begin < 60 ? end - begin : 60);
    if (shown)
        report(plain->left ? "not sent: what follows the line that left, from \"%.*s\" on"
                           : "not sent: the lines from \"%.*s\" on",
               shown, unread->data + begin);
}

static void say_not_sent(struct plain *plain, const char *line)
{
    put_paragraph(plain, "Not sent; the history of the next chat has it (Up):");
    put_paragraph(plain, line);
}

// What was typed behind an answer or behind the line that left goes to the history, where the shell would run it, or to
// `lost`. False: there is more of that.
static bool remember_unread(struct plain *plain, struct bytes *lost)
{
    bool told = true;
    struct bytes held = {0};
    while (typed_read(prompt_typed(), STDIN_FILENO))
        ;
    prompt_end_paste();
    bool fine = typed_text(prompt_typed(), &held) && bytes_append(&held, "", 1);
    if (!fine)
        put_paragraph(plain, "What was typed meanwhile is lost: out of memory.");
    for (char *line = fine ? held.data : NULL, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        while (*end && commands_is_open(line, (size_t)(end - line))) // between quotes
            end += 1 + strcspn(end + 1, "\n");
        end += *end ? (*end = 0, 1) : 0;
        if (line[strspn(line, " \t")] == 0)
            continue;
        prompt_remember(line);
        if (prompt_keeps(line))
            say_not_sent(plain, line);
        else
            told = recall_lose(lost, line) && told;
    }
    bytes_release(&held);
    return told;
}

// What is said of leaving begins on a line of its own.
static void end_line(struct plain *plain)
{
    if (plain->labelled) { // an answer is under way
        end_part(plain);
        return;
    }
    if (plain->from_terminal && left_by_signal(plain))
        fputc('\n', stdout); // the prompt stands there
}

static void close_lines(void *self)
{
    struct plain *plain = self;
    end_line(plain);
    if (!plain->from_terminal) {
        flush(plain);
        bool full =
            plain->broken && plain->talk.status == STATUS_FAILED; // else the reader went away, and nobody is told
        if (plain->left || left_by_signal(plain) || full)
            report_unread(plain);
        return;
    }
    say_quoted(plain);
    struct bytes lost = {0}, unread = {0};
    bool told = remember_unread(plain, &lost);
    if (lost.length)
        bytes_append(&unread, lost.data, lost.length);
    struct recall_end end = prompt_close(quoted_so_far(plain), "", &lost);
    told = end.told && told;
    if (end.stays)
        stays(plain, end.stays);
    free(end.stays);
    for (size_t at = 0; at < unread.length; at += strlen(unread.data + at) + 1)
        if (!bytes_have_text(&lost, unread.data + at)) // the draft's file has taken it
            say_not_sent(plain, unread.data + at);
    recall_tell_lost(&lost, told);
    bytes_release(&unread);
    bytes_release(&lost);
    flush(plain);
}

int plain_chat(const struct options *options)
{
    static const struct face_ops face = {
        .say = face_say,
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
    loop_chat(
        &(struct loop_face){
            .self = &plain,
            .talk = talk,
            .typed = plain.from_terminal,
            .open = open_lines,
            .begin = open_prompt,
            .close = close_lines,
            .listens = listens,
            .read = read_input,
            .patience = patience,
            .round = finish_round,
            .interrupt = interrupt,
            .suspend = suspend,
            .resize = resize,
            .resume = resume,
        },
        options);
    flush(&plain);
    bytes_release(&plain.input);
    bytes_release(&plain.quoted);
    flow_release(&plain.flow);
    free(plain.draft);
    free(plain.apart);
    loop_leave(talk);
    return talk->status;
}
