// SPDX-License-Identifier: GPL-3.0-or-later
// The commands that go to and fro in the conversation: /undo, /redo, /edit, /tree; and /fork.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/talk/talk_parts.h"
#include "app/talk/tree.h"

enum { REDO_WORDS = 64 };

static bool is_message(const struct talk *talk, size_t turn)
{
    return talk->chat.turns[turn].role == TOK_USER;
}

void talk_say_choice(struct talk *talk, size_t turn)
{
    struct chat_rank rank = chat_rank(&talk->chat, turn);
    if (rank.count > 1)
        talk_say(talk, "(%s %zu of %zu%s%s.)", is_message(talk, turn) ? "Version" : "Answer", rank.index + 1,
                 rank.count, is_message(talk, turn) ? " of this message" : "",
                 talk->face->whole ? "" : "; /tree lists them");
}

// The turn that a step leads to, PART_NONE: none; *from becomes the one in whose place it stands: the last that has
// one on this side, so who goes back and forth is where they were.
static int64_t beside(const struct chat *chat, int step, size_t *from)
{
    int64_t number = PART_NONE;
    for (*from = chat->n_turns; *from > 0 && number == PART_NONE;)
        number = chat_beside(chat, --*from, step);
    return number;
}

// Where a key leads: "Alt-Left shows answer 1 of 3", or "version 1 of 3 of an earlier answer"; "" nowhere.
struct way {
    char words[80];
    size_t from; // the turn in whose place something else is shown
    bool message, earlier;
};

static struct way way_of(const struct chat *chat, int step)
{
    struct way way = {.words = ""};
    size_t last = chat->n_turns;
    int64_t number = beside(chat, step, &way.from);
    if (number == PART_NONE)
        return way;
    while (last > 0 && chat->turns[last - 1].role != TOK_USER)
        last--;
    struct chat_rank rank = chat_rank_of(chat, number);
    way.message = chat->turns[way.from].role == TOK_USER;
    way.earlier = way.from + 1 < last;
    snprintf(way.words, sizeof way.words, "%s shows %s %zu of %zu", step < 0 ? "Alt-Left" : "Alt-Right",
             way.message || way.earlier ? "version" : "answer", rank.index + 1, rank.count);
    return way;
}

// What it shows a version of, where that is not the last one; told behind another way or NULL.
static const char *way_place(const struct way *way, const struct way *told)
{
    if (!way->earlier)
        return "";
    if (!told || !told->earlier || told->message != way->message)
        return way->message ? " of an earlier message" : " of an earlier answer";
    return way->from == told->from ? " of it" : way->from < told->from ? " of one before that" : " of one after that";
}

void talk_say_ways(struct talk *talk)
{
    if (!talk->face->whole)
        return;
    struct way back = way_of(&talk->chat, -1), on = way_of(&talk->chat, 1);
    bool both = *back.words && *on.words;
    if (*back.words || *on.words)
        talk_say_for_now(talk, "%s%s%s%s%s.", back.words, way_place(&back, NULL), both ? ", " : "", on.words,
                         way_place(&on, both ? &back : NULL));
}

// "/redo brings it back", "/redo 2 brings them back".
static const char *redo_words(char out[REDO_WORDS], size_t n)
{
    if (n == 1)
        snprintf(out, REDO_WORDS, "/redo brings it back");
    else
        snprintf(out, REDO_WORDS, "/redo %zu brings them back", n);
    return out;
}

void talk_do_undo(struct talk *talk, const struct line *line)
{
    size_t count;
    char redo[REDO_WORDS];
    if (!commands_count(talk_argument(line).text, 1, &count)) {
        talk_refuse(talk, "/undo takes a number of messages.");
        return;
    }
    size_t taken = chat_undo(&talk->chat, count), left = chat_exchanges(&talk->chat);
    if (!taken) {
        talk_refuse(talk, "No message to take back.");
        return;
    }
    talk->face->cut(talk->self, left);
    char rest[40] = "there were no more";
    if (taken == count)
        snprintf(rest, sizeof rest, "%zu remain%s", left, left == 1 ? "s" : "");
    talk_say_for_now(talk, "Took back %zu of your messages; %s, context %" PRIu32 " of %" PRIu32 ". %s.", taken, rest,
                     chat_tokens(&talk->chat), talk->info.max_context, redo_words(redo, taken));
    talk_follow(talk);
}

void talk_show_from(struct talk *talk, size_t first)
{
    const struct chat *chat = &talk->chat;
    size_t messages = 0;
    while (first > 0 && first < chat->n_turns && chat->turns[first].role == TOK_ASSISTANT)
        first--;
    for (size_t i = 0; i < first; i++)
        messages += chat->turns[i].role == TOK_USER;
    talk->face->cut(talk->self, messages);
    for (size_t i = first; i < chat->n_turns; i++)
        if (chat->turns[i].role != TOK_SYSTEM)
            talk_show_turn(talk, i);
}

// Where the branch does not end here.
static void say_more(struct talk *talk)
{
    char redo[REDO_WORDS];
    size_t more = SIZE_MAX;
    if (chat_redo(&talk->chat, &more) != PART_NONE && more)
        talk_say_for_now(talk, "%zu more follow%s; %s.", more, more == 1 ? "s" : "", redo_words(redo, more));
}

void talk_do_redo(struct talk *talk, const struct line *line)
{
    size_t count, first = talk->chat.n_turns;
    if (!commands_count(talk_argument(line).text, 1, &count)) {
        talk_refuse(talk, "/redo takes a number of messages.");
        return;
    }
    size_t wanted = count;
    int64_t number = chat_redo(&talk->chat, &count);
    if (number == PART_NONE) {
        talk_refuse(talk, "Nothing to bring back.");
    } else if (!chat_go(&talk->chat, number)) {
        talk_fail(talk, "out of memory");
    } else {
        talk_show_from(talk, first);
        if (count < wanted)
            talk_say_for_now(talk, "Brought back %zu; no more was taken back here.", count);
        say_more(talk);
        talk_follow(talk);
    }
}

// "2 TEXT", "TEXT" or nothing: which message, and where its new text begins.
static bool parse_edit(const struct line *line, size_t *n, struct line *text)
{
    size_t digits = 0;
    char number[24] = "";
    while (digits < line->length && isdigit((unsigned char)line->text[digits]))
        digits++;
    bool counted = digits && (digits == line->length || line->text[digits] == ' ');
    *n = 1;
    if (counted)
        snprintf(number, sizeof number, "%.*s", digits < 20 ? (int)digits : 20, line->text);
    if (!commands_count(number, 1, n))
        return false;
    size_t at = counted ? digits : 0;
    while (at < line->length && line->text[at] == ' ')
        at++;
    *text = (struct line){.text = line->text + at, .length = line->length - at};
    return true;
}

static const struct chat_turn *nth_last_message(const struct chat *chat, size_t n)
{
    size_t at = chat->n_turns;
    while (at > 0 && n > 0)
        n -= chat->turns[--at].role == TOK_USER;
    return n ? NULL : &chat->turns[at];
}

// Takes messages back, the first of which is then typed anew.
static void edit_said(struct talk *talk, size_t n)
{
    char redo[REDO_WORDS];
    talk->edited_from = chat_place(&talk->chat);
    chat_undo(&talk->chat, n);
    talk->face->cut(talk->self, chat_exchanges(&talk->chat));
    talk_say_for_now(talk, "Took back %zu of your messages; change this one and send it. %s.", n,
                     !talk->face->whole ? redo_words(redo, n)
                     : n == 1           ? "Esc brings it back"
                                        : "Esc brings them back");
    talk_follow_for_now(talk);
    talk->editing = EDIT_SAID;
}

// Of one that was never part of the conversation; what was taken back before stays so.
static void edit_unsent(struct talk *talk)
{
    talk->face->cut(talk->self, chat_exchanges(&talk->chat));
    talk_say_for_now(talk, "Change the message and send it.");
    if (!talk->editing)
        talk->editing = EDIT_UNSENT;
}

// Of the nth last message; 0: the one that was not sent.
static void begin_edit(struct talk *talk, const struct bytes *message, size_t n)
{
    struct bytes draft = {0}, text = {0};
    bool fine = bytes_append(&text, message->data, message->length), nul = fine && bytes_without_zeros(&text);
    fine = fine && commands_quote(&draft, text.data, text.length);
    bytes_release(&text);
    if (!fine) {
        talk_fail(talk, "out of memory");
    } else if (!talk->face->draft || !talk->face->draft(talk->self, draft.data)) {
        talk_refuse(talk, "/edit takes the new text here: /edit %zu TEXT.", n + (talk->chat.unsent.data != NULL));
    } else {
        bytes_release(&talk->edited);
        talk->edited = draft;
        draft = (struct bytes){0};
        if (nul)
            talk_say_for_now(talk, "Its NUL bytes became newlines.");
        if (n)
            edit_said(talk, n);
        else
            edit_unsent(talk);
    }
    bytes_release(&draft);
}

bool talk_fills_draft(const char *typed, size_t length)
{
    struct line line = commands_parse(typed, length), text;
    size_t n;
    return line.kind == LINE_COMMAND && line.row->run == talk_do_edit && parse_edit(&line, &n, &text) && !text.length;
}

void talk_do_edit(struct talk *talk, const struct line *line)
{
    size_t n;
    struct line text;
    bool counted = parse_edit(line, &n, &text), unsent = counted && n == 1 && talk->chat.unsent.data;
    n -= counted && talk->chat.unsent.data; // the last one, which is no part of the conversation
    const struct chat_turn *message = counted && !unsent ? nth_last_message(&talk->chat, n) : NULL;
    if (unsent && !text.length) {
        begin_edit(talk, &talk->chat.unsent, 0);
    } else if (!message && !unsent) {
        talk_refuse(talk, "No such message to edit; /edit takes its number from the end and the new text.");
    } else if (!text.length) {
        begin_edit(talk, &message->text, n);
    } else {
        if (message) {
            talk->chat.back = chat_place(&talk->chat);
            chat_take_back(&talk->chat, n); // the engine follows with the message that is sent
        }
        talk->face->cut(talk->self, chat_exchanges(&talk->chat));
        talk->face->message(talk->self,
                            &(struct face_message){.role = TOK_USER, .text = text.text, .length = text.length});
        talk_send(talk, chat_request(&talk->chat, text.text, text.length));
    }
}

// To where a turn is the last; shows what is another way there.
static bool go_to(struct talk *talk, int64_t number, bool show)
{
    struct chat *chat = &talk->chat;
    size_t same = 0, n = chat->n_turns;
    int64_t *was = calloc(n + 1, sizeof *was);
    for (size_t i = 0; was && i < n; i++)
        was[i] = chat->turns[i].number;
    bool fine = was && chat_go(chat, number);
    while (fine && same < n && same < chat->n_turns && chat->turns[same].number == was[same])
        same++;
    free(was);
    if (!fine) {
        talk_fail(talk, "out of memory");
        return false;
    }
    if (show)
        talk_show_from(talk, same);
    say_more(talk);
    talk_follow(talk);
    return true;
}

bool talk_leave_edit(struct talk *talk)
{
    if (!talk->editing || talk->state != TALK_IDLE)
        return false;
    if (talk->editing == EDIT_SAID)
        return go_to(talk, talk->edited_from.last, talk->face->whole); // elsewhere all of it still stands above
    talk->face->cut(talk->self, chat_exchanges(&talk->chat));          // what is said of it goes
    talk->editing = EDIT_NONE;
    return true;
}

const char *talk_edited(const struct talk *talk)
{
    return talk->editing && talk->edited.data ? talk->edited.data : NULL;
}

const char *talk_beside(struct talk *talk, int step)
{
    if (!chat_exchanges(&talk->chat))
        return talk->chat.n_others ? "nothing here; /redo brings back what was taken back" : "nothing was said yet";
    size_t from;
    int64_t number = beside(&talk->chat, step, &from);
    bool any = number != PART_NONE || chat_last_choice(&talk->chat, &from);
    if (number != PART_NONE)
        go_to(talk, chat_end_of(&talk->chat, number), true); // of the branch that it is in
    return number != PART_NONE ? NULL
           : !any              ? "no other answers; /retry makes one"
           : step < 0          ? "this is the first one"
                               : "this is the last one";
}

static void do_tree(struct talk *talk, const struct line *line, const struct chat *said)
{
    struct talk_lines lines;
    size_t n;
    bool counted = commands_count(talk_argument(line).text, 0, &n);
    int64_t number = counted ? tree_turn(&talk->chat, n) : PART_NONE;
    const struct chat_turn *turn = chat_find(&talk->chat, number);
    bool own = false;
    for (size_t i = 0; i < said->n_turns; i++)
        own = own || (turn && turn->said == said->turns[i].said);
    if (line->length == 0 && tree_turn(&talk->chat, 1) == PART_NONE) {
        talk_say(talk, "Nothing was said yet.");
    } else if (line->length == 0 && talk_lines_begin(talk, &lines)) {
        tree_print(lines.out, said, talk->face->columns(talk->self));
        talk_lines_show(talk, &lines);
        if (talk->chat.n_others)
            talk_say(talk, "* is the conversation; /tree N goes to the branch of message N.");
    } else if (line->length && !turn) {
        talk_refuse(talk, "No such message; /tree lists them with their numbers.");
    } else if (line->length && own) {
        talk_say(talk, "That message is in the conversation as it is; /undo goes back.");
    } else if (line->length) {
        go_to(talk, chat_end_of(&talk->chat, number), true);
    }
}

// As it is saved: a system message that waits is none of it yet, and the one before it still is.
void talk_do_tree(struct talk *talk, const struct line *line)
{
    struct chat said;
    if (!chat_system_waits(&talk->chat)) {
        do_tree(talk, line, &talk->chat);
    } else if (!chat_as_said(&talk->chat, &said)) {
        talk_fail(talk, "out of memory");
    } else {
        do_tree(talk, line, &said);
        chat_forget_said(&said);
    }
}

void talk_do_fork(struct talk *talk, const struct line *line)
{
    struct talk_argument name = talk_argument(line);
    struct store_error error;
    char *note = talk->choice.note;
    if (!talk->saving) {
        talk_refuse(talk, "This conversation is not saved; /save saves it.");
    } else if (!chat_position(&talk->chat)) {
        talk_say_unread(talk, "fork");
    } else if (saved_new(&talk->store, name.text, &talk->choice.saved, &error)) {
        talk_fail(talk, "%s", error.text);
    } else {
        bool there = !talk->unsaved && !talk->blank && store_find(&talk->store, talk->session, &error) == STORE_OK;
        if (there) // else the other branches may be nowhere but here
            chat_prune(&talk->chat);
        if (talk->editing) // what is said of that goes
            talk->face->cut(talk->self, chat_exchanges(&talk->chat));
        talk->editing = EDIT_NONE;
        snprintf(note, sizeof talk->choice.note, "%s%s%sEach turn is now saved as", there ? "\"" : "",
                 there ? talk->session : "", there ? "\" stays as it is, /load returns to it. " : "");
        talk_open_session(talk, chat_position(&talk->chat), true);
    }
}
