// SPDX-License-Identifier: GPL-3.0-or-later
// What the talk shows on the full screen, and its beginning and end.
#include "app/term/tui_face.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/util/format.h"
#include "app/util/sanitize.h"
#include "app/talk/tree.h"
#include "app/term/loop.h"
#include "app/term/recall.h"
#include "app/term/term.h"
#include "app/term/tui_parts.h"

enum { BELL_S = 10, FRAME_MS = 33, NOTICE_MS = 4000, TICK_MS = 1000, BLOCK = 65536 };

void tui_safe(char *out, size_t size, const char *text)
{
    struct sanitize state = {0};
    char shown[SANITIZE_ROOM(1)];
    size_t used = 0;
    for (bool more = true; more;) {
        more = *text;
        size_t length = more ? sanitize_push(&state, text++, 1, shown) : sanitize_flush(&state, shown);
        if (used + length >= size)
            break;
        memcpy(out + used, shown, length);
        used += length;
    }
    out[used] = 0;
}

void tui_notice(struct tui *tui, const char *format, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tui_safe(tui->notice, sizeof tui->notice, text);
    tui->notice_until_ms = term_clock_ms() + NOTICE_MS;
    tui->notice_of_work = tui->talk.state != TALK_IDLE;
    tui->notice_of_room = false;
    tui->dirty = true;
}

// What is being written as a message, also while something is searched for.
static const char *written(const struct tui *tui)
{
    return tui->mode == MODE_WRITE ? prompt_draft().text : tui->kept ? tui->kept : "";
}

// The same with what has come of a paste, which may take long; `whole` is for that. Words to search for are none of it.
static const char *written_so_far(const struct tui *tui, struct bytes *whole)
{
    const char *text = written(tui);
    size_t point = tui->mode == MODE_WRITE ? prompt_draft().point : tui->kept_point;
    return tui->mode == MODE_SEARCH
               ? text
               : prompt_with_paste(&(struct prompt_draft){.text = text, .length = strlen(text), .point = point},
                                   &tui->input.paste, whole);
}

void tui_keep_draft(struct tui *tui)
{
    struct bytes whole = {0};
    prompt_keep_draft_now(written_so_far(tui, &whole));
    tui->keep_ms = -1;
    bytes_release(&whole);
}

void tui_leave(struct tui *tui)
{
    tui_keep_draft(tui);
    screen_leave(tui->screen);
}

void tui_return(struct tui *tui)
{
    screen_return(tui->screen);
    tui->dirty = true;
}

// ---- what the talk has to show ----

static void add(struct tui *tui, enum entry_kind kind, const char *text, size_t length)
{
    tui_echo(tui);
    transcript_add(tui->chat, kind, text, length); // without memory it is not seen; the talk itself says so
    tui->dirty = true;
}

static void face_say(void *self, const char *text)
{
    struct tui *tui = self;
    struct bytes apart = {0};
    if (tui->screen) {
        if (tui->said_beside && bytes_append(&apart, "\n", 1) && bytes_append(&apart, text, strlen(text)))
            text = apart.data;
        add(tui, ENTRY_NOTICE, text, strlen(text));
        tui->said_beside = false;
        bytes_release(&apart);
        return;
    }
    report_text(stdout, text, strlen(text));
    fputc('\n', stdout);
}

static void face_say_for_now(void *self, const char *text)
{
    struct tui *tui = self;
    face_say(self, text);
    if (tui->screen)
        transcript_pass(tui->chat);
}

static void face_show(void *self, const char *text, size_t length)
{
    add(self, ENTRY_NOTICE, text, length);
}

static void face_table(void *self, const struct face_lines *lines)
{
    struct tui *tui = self;
    add(tui, ENTRY_NOTICE, lines->text, lines->length);
    transcript_make_table(tui->chat, lines->second, lines->least); // without memory its lines are cut as any
}

static int face_columns(void *self)
{
    const struct tui *tui = self;
    if (tui->layout.chat.columns > 0)
        return tui->layout.chat.columns;
    return tui->screen ? screen_columns(tui->screen) : 80; // last words, behind a screen that had no room for a chat
}

static void face_tokens(void *self, const char *text, size_t length)
{
    struct tui *tui = self;
    add(tui, ENTRY_NOTICE, text, length);
    transcript_style_likely(tui->chat); // without memory they have no colours
}

static void face_fail(void *self, const char *text)
{
    struct tui *tui = self;
    if (tui->screen)
        add(tui, ENTRY_ERROR, text, strlen(text));
    else
        report("%s", text);
    if (tui->talk.state == TALK_LOADING) // it ends the chat
        snprintf(tui->last_words, sizeof tui->last_words, "%s", text);
}

// Notes where a message of the user begins, so that it can be taken back.
static void note_message(struct tui *tui)
{
    size_t before = chat_exchanges(&tui->talk.chat);
    tui->replaced = tui->n_entries > before ? tui->entries[before] + 1 : 0;
    if (tui->n_entries > before)
        tui->n_entries = before;
    if (tui->n_entries == tui->entries_capacity) {
        size_t capacity = tui->entries_capacity ? 2 * tui->entries_capacity : 64;
        size_t *grown = realloc(tui->entries, capacity * sizeof *grown);
        if (!grown)
            return;
        tui->entries = grown;
        tui->entries_capacity = capacity;
    }
    tui->entries[tui->n_entries++] = transcript_entries(tui->chat);
}

static void face_message(void *self, const struct face_message *message)
{
    struct tui *tui = self;
    transcript_drop_passing(tui->chat);
    if (message->role == TOK_USER)
        note_message(tui);
    enum entry_kind kind = message->thinking                ? ENTRY_THINKING
                           : message->role == TOK_USER      ? ENTRY_USER
                           : message->role == TOK_ASSISTANT ? ENTRY_ASSISTANT
                                                            : ENTRY_NOTICE;
    add(tui, kind, message->text, message->length);
    if (message->role == TOK_ASSISTANT)
        tui->last_answer.length = 0;
    if (message->role == TOK_ASSISTANT && !message->thinking)
        bytes_append(&tui->last_answer, message->text, message->length);
}

static void face_begin_answer(void *self)
{
    struct tui *tui = self;
    tui->last_answer.length = 0;
    tui->thinking = false;
    tui->begun_entry = tui->said_beside = false;
    tui->answer_tokens = 0;
}

static void end_thought(struct tui *tui)
{
    if (tui->thinking)
        transcript_thought(tui->chat, tui->thought_tokens, (double)(format_clock_ns() - tui->thought_since_ns) / 1e9);
    tui->thinking = false;
}

static void face_text(void *self, const struct face_text *text)
{
    struct tui *tui = self;
    if (!tui->begun_entry || tui->thinking != text->thinking) {
        transcript_finish(tui->chat);
        end_thought(tui);
        transcript_begin(tui->chat, text->thinking ? ENTRY_THINKING : ENTRY_ASSISTANT);
        tui->begun_entry = true;
        tui->thinking = text->thinking;
        tui->thought_tokens = 0;
        tui->thought_since_ns = format_clock_ns();
    }
    tui->thought_tokens += text->tokens;
    tui->answer_tokens += text->tokens;
    transcript_append(tui->chat, text->bytes, text->length);
    if (!text->thinking)
        bytes_append(&tui->last_answer, text->bytes, text->length);
    tui->dirty = true;
}

static void face_end_answer(void *self, const struct turn_result *result)
{
    struct tui *tui = self;
    if (result->kept && !tui->begun_entry)
        transcript_begin(tui->chat, ENTRY_ASSISTANT);
    tui->said_beside = transcript_goes_on_beside(tui->chat);
    transcript_finish(tui->chat);
    if (tui->thinking && result->generated_tokens > tui->answer_tokens) // the last of them had no text
        tui->thought_tokens += result->generated_tokens - tui->answer_tokens;
    end_thought(tui);
    if (tui->talk.settings.face.bell && (result->seconds >= BELL_S || !transcript_following(tui->chat)))
        screen_send(tui->screen, "\a", 1);
    tui->dirty = true;
}

static void begin_progress(struct tui *tui)
{
    tui->progress_since_ns = format_clock_ns();
    tui->eta.known = false;
}

static void face_progress(void *self, const struct moe_progress *at)
{
    struct tui *tui = self;
    tui->dirty = true;
    if (!at) {
        tui->progress.total = 0;
        return;
    }
    if (!tui->progress.total || strcmp(tui->progress.what, at->what) != 0)
        begin_progress(tui);
    tui->progress = *at;
}

static void face_cut(void *self, size_t messages)
{
    struct tui *tui = self;
    if (tui->echo && tui->echo == transcript_entries(tui->chat)) // the command is seen by what becomes of these
        transcript_cut(tui->chat, tui->echo - 1);
    transcript_drop_passing(tui->chat);
    tui->dirty = true;
    if (messages == tui->n_entries + 1 && tui->replaced) { // it is a message again, where it stands
        tui->entries[tui->n_entries++] = tui->replaced - 1;
        tui->replaced = 0;
    }
    if (messages >= tui->n_entries)
        return;
    transcript_cut(tui->chat, tui->entries[messages]);
    tui->n_entries = messages;
}

static void face_cleared(void *self)
{
    struct tui *tui = self;
    transcript_clear(tui->chat);
    tui->n_entries = tui->replaced = 0;
    tui->dirty = true;
}

static void face_changed(void *self)
{
    struct tui *tui = self;
    tui->dirty = true;
    if (tui->talk.state == TALK_IDLE && tui->notice_of_work)
        *tui->notice = 0;
    if (tui->talk.state != TALK_ANSWERING)
        return;
    tui->stopping = false;
    tui->speed_from = (struct tally){0};
    tui->speed_known = false;
}

static void face_copy(void *self, const char *text, size_t length)
{
    tui_copy(self, text, length);
}

static void face_heat(void *self)
{
    tui_show_stats(self, STATS_HEAT);
}

static bool face_draft(void *self, const char *text)
{
    struct tui *tui = self;
    tui_end_search(tui);
    tui_put_draft_away(tui);
    tui_replace_draft(tui, text);
    tui->dirty = true;
    return true;
}

static void face_show_thinking(void *self, enum thinking_view view)
{
    struct tui *tui = self;
    transcript_show_thinking(tui->chat, view);
    tui->dirty = true;
}

// ---- what the loop asks for ----

static bool listens(void *self)
{
    (void)self;
    return true;
}

static void interrupt(void *self)
{
    struct tui *tui = self;
    tui->dirty = true;
    tui_interrupt(tui);
}

static void suspend(void *self)
{
    tui_leave(self);
    term_suspend();
    tui_return(self);
}

// Keys in their order, those among them that would be signals. What is pasted is text, whatever it holds; Ctrl-C that
// comes alone ends a paste which has no end.
static void take_keys(struct tui *tui, const char *bytes, size_t length)
{
    uint64_t now = term_clock_ms();
    size_t first = 0;
    for (size_t i = 0; i < length && tui->talk.state != TALK_LEAVING; i++) {
        int number = term_signal_of(bytes[i]);
        if (!number)
            continue;
        input_push(&tui->input, bytes + first, i - first, now);
        first = i;
        bool pasting = tui->input.pasting, ends = number == SIGINT && input_is_alone(&tui->input, length, now);
        if ((pasting && !ends) || tui->talk.state == TALK_LEAVING)
            continue;
        first = i + 1;
        if (pasting)
            input_end_paste(&tui->input);
        else if (number == SIGINT)
            interrupt(tui);
        else if (number == SIGTSTP)
            suspend(tui);
        else
            raise(number);
    }
    input_push(&tui->input, bytes + first, length - first, now);
}

// Our own time between is none of the pause: what came meanwhile has waited for us. Over a network a piece may come in
// parts, as a key's bytes do.
static void end_burst(struct tui *tui, uint64_t now_ms)
{
    if (!tui->burst.read && now_ms > tui->burst.done_ms + tui->input.escape_ms)
        tui->burst.of_line = false;
}

static void read_keys(void *self)
{
    struct tui *tui = self;
    char block[BLOCK];
    end_burst(tui, term_clock_ms());
    tui->burst.read = true;
    ssize_t got = term_read(STDIN_FILENO, block, sizeof block);
    if (got > 0) {
        take_keys(tui, block, (size_t)got);
        while (tui->held.length) {
            struct bytes held = tui->held;
            tui->held = (struct bytes){0};
            take_keys(tui, held.data, held.length);
            bytes_release(&held);
        }
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        talk_leave(&tui->talk, term_exit_status(SIGHUP)); // the terminal has gone
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

// While something goes on the seconds are shown as they pass.
static bool ticks(const struct tui *tui)
{
    return tui->talk.state == TALK_ANSWERING || tui->talk.state == TALK_LOADING;
}

static int patience(void *self)
{
    const struct tui *tui = self;
    uint64_t now = term_clock_ms();
    int wait = sooner(input_wait_ms(&tui->input, now), tui->keep_ms);
    if (tui->dirty)
        wait = sooner(wait, now - tui->drawn_ms >= FRAME_MS ? 0 : (int)(FRAME_MS - (now - tui->drawn_ms)));
    if (*tui->notice)
        wait = sooner(wait, tui->notice_until_ms > now ? (int)(tui->notice_until_ms - now) : 0);
    return ticks(tui) ? sooner(wait, TICK_MS) : wait;
}

static void finish_round(void *self)
{
    struct tui *tui = self;
    uint64_t now = term_clock_ms();
    struct bytes whole = {0};
    end_burst(tui, now);
    input_tick(&tui->input, now);
    if (talk_unsent(&tui->talk))
        prompt_sent_came_back(talk_unsent(&tui->talk));
    tui_send_queued(tui);
    if (talk_has_saved(&tui->talk) && !tui->n_queue)
        prompt_sent_is_safe();
    tui->keep_ms = prompt_draft_wait(now);
    if (!tui->keep_ms)
        tui->keep_ms = prompt_keep_draft(written_so_far(tui, &whole), now);
    bytes_release(&whole);
    tui->kept_back = tui->kept_back && *written(tui);
    if (*tui->notice && now >= tui->notice_until_ms) {
        *tui->notice = 0;
        tui->dirty = true;
    }
    if ((tui->dirty && now - tui->drawn_ms >= FRAME_MS) || (ticks(tui) && now - tui->drawn_ms >= TICK_MS))
        tui_draw(tui);
    if (tui->burst.read)
        tui->burst.done_ms = term_clock_ms();
    tui->burst.read = false;
}

static void resize(void *self)
{
    struct tui *tui = self;
    screen_resize(tui->screen);
    tui_resized(tui);
    tui->dirty = true;
}

const char *tui_refusal(const struct face_settings *settings)
{
    const char *accessible = getenv("ACCESSIBLE");
    if (settings->plain)
        return "--plain is given";
    if (accessible && *accessible && strcmp(accessible, "0") != 0)
        return "ACCESSIBLE is set";
    if (term_is_dumb())
        return "this terminal is dumb";
    return term_is_vast() ? "this terminal says that it is larger than any screen" : NULL;
}

static void release(struct tui *tui)
{
    tui_forget_words(tui);
    for (size_t i = 0; i < tui->n_queue; i++)
        bytes_release(&tui->queue[i]);
    transcript_free(tui->chat);
    transcript_free(tui->help);
    cells_release(&tui->cells);
    cells_release(&tui->part);
    draft_release(&tui->draft);
    input_release(&tui->input);
    bytes_release(&tui->last_answer);
    bytes_release(&tui->held);
    bytes_release(&tui->unkept);
    bytes_release(&tui->typed.text);
    bytes_release(&tui->behind);
    bytes_release(&tui->stays);
    figures_release(&tui->figures);
    free(tui->entries);
    free(tui->kept);
    free(tui->sought);
    free(tui);
}

static void not_kept(void *context, const char *why)
{
    tui_notice(context, "not kept in the history of later chats: %s", why);
}

static void keep(void *context)
{
    tui_keep_draft(context);
}

static void stays(void *context, const char *path)
{
    char words[RECALL_STAYS_SIZE];
    face_say(context, recall_stays_words(words, sizeof words, path));
}

static void apart(void *context, const char *path, const char *why)
{
    char words[RECALL_APART_SIZE];
    face_say(context, recall_apart_words(words, sizeof words, path, why));
}

static void adopted(void *context, size_t count)
{
    char words[160];
    face_say(context, recall_adopted_words(words, sizeof words, count));
}

static bool open_prompt(void *self)
{
    struct tui *tui = self;
    return prompt_open(&(struct prompt_face){.context = tui,
                                             .screen = tui,
                                             .line = tui_on_line,
                                             .complete = tui_complete,
                                             .offer = tui_offer,
                                             .not_kept = not_kept,
                                             .adopted = adopted,
                                             .stays = stays,
                                             .apart = apart,
                                             .keep = keep});
}

// From here on the screen is ours until close_screen.
static bool open_screen(void *self)
{
    struct tui *tui = self;
    const struct face_settings *settings = &tui->talk.settings.face;
    tui->screen =
        screen_open(&(struct screen_wishes){.color = term_wants_color(settings->color), .mouse = settings->mouse});
    if (tui->screen)
        tui_log_begin(&tui->log);
    return tui->screen;
}

// A row of the chat as it stands; "" while there is none.
static void draw_row(struct tui *tui, int row, char *out, size_t size)
{
    const struct rectangle *chat = &tui->layout.chat;
    *out = 0;
    if (row == 0 && (!cells_resize(&tui->part, chat->rows, chat->columns)))
        return;
    if (row == 0) {
        transcript_follow(tui->chat);
        transcript_draw(tui->chat, &tui->part);
    }
    if (row < tui->part.rows)
        cells_text(&tui->part, row, out, size);
}

// Of what waits, that which `leaves` says goes.
static void cut_queue(struct tui *tui, bool (*leaves)(void *context, const char *text), void *context)
{
    size_t n_left = 0;
    for (size_t i = 0; i < tui->n_queue; i++)
        if (leaves(context, tui->queue[i].data))
            bytes_release(&tui->queue[i]);
        else
            tui->queue[n_left++] = tui->queue[i];
    tui->n_queue = n_left;
}

struct losses {
    struct bytes *lost;
    bool told; // it has all that is
};

// What waited was put into the history when it was typed; where that failed and does again, it is lost, unless the
// draft's file takes it.
static bool finds_no_room(void *context, const char *text)
{
    struct losses *losses = context;
    if (prompt_keeps(text) || recall_lose(losses->lost, text))
        return false;
    losses->told = false;
    return true;
}

static bool is_lost(void *context, const char *text)
{
    return bytes_have_text(context, text);
}

// What was typed and not sent is found in the history of the next chat, or goes to `lost`, and is told with that.
// False: there is more of that.
static bool close_prompt(struct tui *tui, struct bytes *lost)
{
    struct losses losses = {.lost = lost, .told = true};
    input_end_paste(&tui->input);
    for (size_t at = 0; at < tui->unkept.length; at += strlen(tui->unkept.data + at) + 1)
        finds_no_room(&losses, tui->unkept.data + at);
    cut_queue(tui, finds_no_room, &losses);
    if (tui->mode == MODE_WRITE)
        prompt_cancel(); // a search gives back what it stands in the place of
    struct bytes *behind = &tui->behind;
    while (behind->length && strchr(" \t\n", behind->data[behind->length - 1]))
        behind->data[--behind->length] = 0;
    struct recall_end end =
        prompt_close(written(tui), behind->length ? behind->data + strspn(behind->data, " \t\n") : "", lost);
    cut_queue(tui, is_lost, lost);
    if (end.stays)
        recall_lose(&tui->stays, end.stays); // without memory the next chat tells it
    free(end.stays);
    if (!end.behind)
        behind->length = 0;
    return end.told && losses.told;
}

static void say_line(const struct bytes *text)
{
    enum { INDENT = 4 };
    struct bytes line = {0};
    printf("%*s", INDENT, "");
    if (tree_words(&line, text, TREE_WORDS))
        tree_print_words(stdout, &line, term_columns() > INDENT ? term_columns() - INDENT : 1);
    else
        putchar('\n');
    bytes_release(&line);
}

static void say_not_sent(struct tui *tui)
{
    if (tui->n_queue)
        printf("Not sent, as %s still waiting; the history of the next chat has %s (Up, more than once):\n",
               tui->n_queue == 1 ? "it was" : "they were", tui->n_queue == 1 ? "it" : "them");
    for (size_t i = 0; i < tui->n_queue; i++)
        say_line(&tui->queue[i]);
    if (tui->behind.length)
        puts("Not sent, as it came behind the line that left; the history of the next chat has it (Up):");
    if (tui->behind.length)
        say_line(&tui->behind);
}

static void close_screen(void *self)
{
    struct tui *tui = self;
    const struct rectangle *chat = &tui->layout.chat;
    char row[CELLS_TEXT_ROOM(1024)];
    struct bytes lost = {0};
    bool told = close_prompt(tui, &lost);
    if (tui->screen && tui->zoom) { // what stays behind is the chat
        tui->zoom = false;
        tui_arrange(tui);
    }
    screen_close(tui->screen);
    tui->screen = NULL;
    for (int i = 0; tui->talk.settings.face.last_screen && i < chat->rows && chat->columns <= 1024; i++) {
        draw_row(tui, i, row, sizeof row);
        puts(row);
    }
    say_not_sent(tui);
    for (size_t at = 0; at < tui->stays.length; at += strlen(tui->stays.data + at) + 1)
        if (access(tui->stays.data + at, F_OK) == 0)
            stays(tui, tui->stays.data + at);
    tui_log_end(&tui->log);
    recall_tell_lost(&lost, told);
    bytes_release(&lost);
    if (*tui->last_words)
        report("%s", tui->last_words);
}

static const struct face_ops face = {
    .whole = true,
    .brief = true,
    .say = face_say,
    .say_for_now = face_say_for_now,
    .show = face_show,
    .table = face_table,
    .columns = face_columns,
    .tokens = face_tokens,
    .fail = face_fail,
    .message = face_message,
    .begin_answer = face_begin_answer,
    .text = face_text,
    .end_answer = face_end_answer,
    .progress = face_progress,
    .cut = face_cut,
    .cleared = face_cleared,
    .changed = face_changed,
    .copy = face_copy,
    .page = tui_page,
    .keys = keys_of_screen,
    .heat = face_heat,
    .log = tui_log_lines,
    .draft = face_draft,
    .show_thinking = face_show_thinking,
};

// Everything that must be there before the terminal is touched. NULL: no memory.
static struct tui *make(const struct face_settings *settings)
{
    struct tui *tui = calloc(1, sizeof *tui);
    if (!tui)
        return NULL;
    tui->talk = (struct talk){.face = &face, .self = tui};
    tui->log.before = -1;
    tui->keep_ms = -1;
    tui->ascii = settings->ascii;
    tui->draft.columns = 80;
    tui->draft.label = tui->label;
    tui->input = (struct input){.take = tui_take_input, .context = tui, .escape_ms = input_escape_ms()};
    tui->chat = transcript_new(settings->ascii);
    tui->help = transcript_new(settings->ascii);
    if (tui->help)
        transcript_begins(tui->help);
    if (tui->chat && tui->help)
        return tui;
    release(tui);
    return NULL;
}

int tui_chat(const struct options *options)
{
    if (!term_places_cursor())
        return -1;
    struct tui *tui = make(&options->talk.face);
    if (!tui) {
        report("out of memory");
        return STATUS_FAILED;
    }
    int status = loop_chat(
        &(struct loop_face){
            .self = tui,
            .talk = &tui->talk,
            .typed = true,
            .open = open_screen,
            .begin = open_prompt,
            .close = close_screen,
            .listens = listens,
            .read = read_keys,
            .patience = patience,
            .round = finish_round,
            .interrupt = interrupt,
            .suspend = suspend,
            .resize = resize,
            .resume = resize,
        },
        options);
    loop_leave(&tui->talk);
    release(tui);
    return status;
}
