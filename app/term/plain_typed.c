// SPDX-License-Identifier: GPL-3.0-or-later
// The chat as lines that are typed at the prompt.
#include "app/term/plain_parts.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/talk/export.h"
#include "app/term/prompt.h"
#include "app/term/recall.h"
#include "app/term/term.h"
#include "app/term/typed.h"

enum { READ_MS = 50 }; // that keys are read before signals are looked at

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

// ---- What the prompt asks for and says ----

static bool complete(void *context, struct candidates *found, const char *line, size_t point)
{
    struct plain *plain = context;
    return sessions_complete(&plain->talk.store, found, line, point);
}

static void not_kept(void *context, const char *why)
{
    char text[160];
    snprintf(text, sizeof text, "Not kept in the history of later chats: %s.", why);
    plain_put_paragraph(context, text);
}

// Of a message between quotes that are not closed. False: there is none.
static bool say_quoted(struct plain *plain)
{
    if (plain->quoted.length)
        plain_put_paragraph(plain, "Not sent: the message after \"\"\" has no end; the same quotes end it.");
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
    bool whole = !typed || plain_take_line(plain, typed, strlen(typed));
    if (!typed && !drop_quoted(plain))
        talk_ask_leave(&plain->talk);
    if (!whole || (!typed && plain->talk.state == TALK_IDLE))
        prompt_show("");
    free(typed);
}

static void keep(void *context)
{
    keep_typed(context, true);
}

static void stays(void *context, const char *path)
{
    char words[RECALL_STAYS_SIZE];
    plain_put_paragraph(context, recall_stays_words(words, sizeof words, path));
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
    plain_put_paragraph(context, recall_adopted_words(words, sizeof words, count));
}

// ---- What the loop asks for ----

static bool open_lines(void *self)
{
    (void)self;
    return true;
}

static bool open_prompt(void *self)
{
    struct plain *plain = self;
    snprintf(plain->label, sizeof plain->label,
             plain->color ? "\001\033[1m\002%s:\001\033[0m\002 " : "%s: ", export_speaker(TOK_USER));
    return prompt_open(&(struct prompt_face){.context = plain,
                                             .label = plain->label,
                                             .line = on_typed,
                                             .complete = complete,
                                             .not_kept = not_kept,
                                             .adopted = adopted,
                                             .stays = stays,
                                             .apart = apart,
                                             .keep = keep});
}

static bool listens(void *self)
{
    (void)self;
    return true;
}

static void read_keys(void *self)
{
    struct plain *plain = self;
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

static void tell_of_paste(struct plain *plain)
{
    size_t *left_out = &prompt_typed()->left_out;
    char count[80], words[96];
    if (prompt_typed()->unended)
        plain_say(plain, "(The paste had no end.)");
    prompt_typed()->unended = false;
    if (!*left_out)
        return;
    snprintf(words, sizeof words, "(%s of the paste.)", typed_left_out_words(count, sizeof count, *left_out));
    *left_out = 0;
    plain_say(plain, words);
}

// At the prompt, but not within a key, as where a search began with keeping it.
static void say_apart(struct plain *plain)
{
    if (plain->apart && !prompt_is_within_key() && plain->talk.state == TALK_IDLE)
        plain_say(plain, plain->apart);
    else
        return;
    free(plain->apart);
    plain->apart = NULL;
}

static bool typed_waits(const struct plain *plain)
{
    return plain->talk.state == TALK_IDLE && prompt_can_type();
}

static int patience(void *self)
{
    const struct plain *plain = self;
    if (typed_waits(self))
        return 0;
    int word = plain_word_ms(plain), wait = word >= 0 ? word : plain->keep_ms,
        paste = typed_paste_ms(prompt_typed(), term_clock_ms());
    return wait < 0 || (paste >= 0 && paste < wait) ? paste : wait;
}

static void finish_round(void *self)
{
    struct plain *plain = self;
    tell_of_paste(plain);
    if (typed_waits(self))
        prompt_type_held();
    tell_of_paste(plain); // of one that has waited, too: no other round need follow
    plain_show_word(plain);
    if (talk_unsent(&plain->talk))
        prompt_sent_came_back(talk_unsent(&plain->talk));
    if (talk_has_saved(&plain->talk))
        prompt_sent_is_safe();
    plain->keep_ms = prompt_draft_wait(term_clock_ms());
    if (!plain->keep_ms)
        keep_typed(plain, false);
    say_apart(plain);
    plain_flush(self);
}

static void interrupt(void *self)
{
    struct plain *plain = self;
    struct talk *talk = &plain->talk;
    if (talk->state == TALK_LOADING) {
        talk_leave(talk, STATUS_INTERRUPTED);
    } else if (talk_stop(talk)) {
        if (talk->state == TALK_ANSWERING && !talk->begun) {
            progress_clear(&plain->progress);
            plain_put_paragraph(plain, "Stopping ...");
        }
    } else {
        bool drafted = prompt_interrupt(plain_quoted(plain), talk_edited(talk));
        plain->quoted.length = 0;
        if (talk_leave_edit(talk))
            plain_put_paragraph(plain, TALK_EDIT_LEFT);
        else if (!drafted)
            plain_put_paragraph(plain, "Ctrl-D or /quit to leave.");
        prompt_refresh();
    }
}

static void suspend(void *self)
{
    struct plain *plain = self;
    while (plain->talk.state != TALK_IDLE && typed_read(prompt_typed(), STDIN_FILENO))
        ; // else the shell would read it
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

// ---- Leaving ----

static void say_not_sent(struct plain *plain, const char *line)
{
    plain_put_paragraph(plain, "Not sent; the history of the next chat has it (Up):");
    plain_put_paragraph(plain, line);
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
        plain_put_paragraph(plain, "What was typed meanwhile is lost: out of memory.");
    for (char *line = fine ? held.data : NULL, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        while (*end && commands_is_open(line, (size_t)(end - line))) // between quotes
            end += 1 + strcspn(end + 1, "\n");
        end += *end ? (*end = 0, 1) : 0;
        if (line[strspn(line, " \t")] == 0)
            continue;
        bool keeps;
        plain_remember(line, &keeps);
        if (keeps)
            say_not_sent(plain, line);
        else
            told = recall_lose(lost, line) && told;
    }
    bytes_release(&held);
    return told;
}

static void close_lines(void *self)
{
    struct plain *plain = self;
    if (plain->labelled) // an answer is under way
        plain_end_part(plain);
    else if (plain_left_by_signal(plain))
        fputc('\n', stdout); // the prompt stands there
    say_quoted(plain);
    struct bytes lost = {0}, unread = {0};
    bool told = remember_unread(plain, &lost);
    if (lost.length)
        bytes_append(&unread, lost.data, lost.length);
    struct recall_end end = prompt_close(plain_quoted(plain), "", &lost);
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
    plain_flush(plain);
}

const struct loop_face plain_typed_loop = {
    .typed = true,
    .open = open_lines,
    .begin = open_prompt,
    .close = close_lines,
    .listens = listens,
    .read = read_keys,
    .patience = patience,
    .round = finish_round,
    .interrupt = interrupt,
    .suspend = suspend,
    .resize = resize,
    .resume = resume,
};
