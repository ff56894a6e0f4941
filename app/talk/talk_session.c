// SPDX-License-Identifier: GPL-3.0-or-later
// The commands about sessions, and what becomes of the one that is open.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/talk/talk_parts.h"
#include "app/util/format.h"
#include "app/util/quote.h"
#include "app/view/cells.h"
#include "app/view/plan_words.h"

// Of a session that was to be made with its first message.
#define NOT_ADDED "Nothing was added, and nothing saved as \"%s\"."

// False: said that there is no place for sessions.
static bool has_store(struct talk *talk)
{
    if (*talk->store.root || store_init(&talk->store, NULL)) {
        talk->store.kv_cap = talk->settings.kv_cap;
        return true;
    }
    struct store_error error;
    store_no_place(&error);
    talk_fail(talk, "%s", error.text);
    return false;
}

void talk_open_session(struct talk *talk, uint32_t keep, bool save)
{
    struct worker_session session = {
        .saved = talk->choice.saved, .keep = keep, .save = save, .think = talk->chat.think};
    bool fine = keep || chat_timeline(&talk->chat, &session.ids);
    fine = fine && (!keep || chat_save(&talk->chat, session.saved, &talk->info.origin.language));
    talk->choice.saved = NULL;
    saved_content_release(&talk->choice.content);
    if (!fine) {
        talk_fail(talk, "%s", saved_refused(session.saved));
        saved_close(session.saved);
        tok_ids_release(&session.ids);
        return;
    }
    talk->saving = true;
    talk->opening = talk->going = !keep;
    *talk->session = 0;
    talk_enter(talk, TALK_BUSY);
    worker_open_session(talk->worker, session);
}

void talk_save_system(struct talk *talk)
{
    uint64_t now = format_unix_time();
    uint32_t number = chat_number_system(&talk->chat, now);
    const struct chat_turn *system = chat_system(&talk->chat);
    struct bytes text = {0};
    talk->system_follows = false;
    if (system && !bytes_append(&text, system->text.data, system->text.length)) {
        talk_fail(talk, "out of memory");
        return;
    }
    talk_enter(talk, TALK_BUSY);
    worker_save_system(talk->worker, text, number, now);
}

// What the next message has read, where it changes how the conversation begins; "" else.
static const char *begins_anew(const struct talk *talk)
{
    enum think think = talk->chat.think;
    if (!chat_begins_anew(&talk->chat, think))
        return "";
    return chat_begins_anew(&talk->chat, THINK_ON)
               ? "Its answers came at once: to think first changes how the conversation begins, so all of it will be "
                 "read again; /think off keeps it as it is."
               : "Its answers thought first: to answer at once changes how the conversation begins, so all of it will "
                 "be read again; /think on keeps it as it is.";
}

static void follow(struct talk *talk, enum worker_going going)
{
    chat_drop_unused(&talk->chat);
    struct worker_place place = {.going = going,
                                 .last = chat_last(&talk->chat),
                                 .undone = talk->chat.undid ? talk->chat.undone : PART_NONE,
                                 .think = talk->chat.think,
                                 .anew = *begins_anew(talk)};
    if (!chat_timeline(&talk->chat, &place.ids)) {
        talk_fail(talk, "out of memory");
        tok_ids_release(&place.ids);
        return;
    }
    const struct chat_turn *last = talk->chat.n_turns ? &talk->chat.turns[talk->chat.n_turns - 1] : NULL;
    talk->editing = EDIT_NONE;
    chat_forget_refused(&talk->chat);
    place.unanswered = last && last->role == TOK_USER && last->end ? (uint32_t)last->ids.count : 0;
    talk->going = true;
    talk->system_waits = talk->saving && chat_system_waits(&talk->chat);
    talk_enter(talk, TALK_BUSY);
    worker_go(talk->worker, place);
}

void talk_follow(struct talk *talk)
{
    follow(talk, GOING_TO_STAY);
}

void talk_follow_for_now(struct talk *talk)
{
    follow(talk, GOING_FOR_NOW);
}

// What was said, or the last of it, so that people know where they are.
static void show_turns(struct talk *talk, bool full)
{
    const struct chat *chat = &talk->chat;
    size_t first = chat->n_turns > 2 && !talk->face->whole ? chat->n_turns - 2 : 0;
    while (first < chat->n_turns && chat->turns[first].role != TOK_USER)
        first++;
    for (size_t i = first; i < chat->n_turns; i++)
        talk_show_turn(talk, i);
    if (chat->n_turns && chat->turns[chat->n_turns - 1].role == TOK_USER)
        talk_say(talk, full ? "No answer to this message yet, and no room for one; a new message replaces it."
                            : "No answer to this message yet: /retry answers it, a new message replaces it.");
}

static void on_opened(struct talk *talk, const struct session_news *news)
{
    talk->opening = false;
    talk->lost = talk->lost || news->failed;
    const char *anew = news->stale ? "" : begins_anew(talk);
    if (*talk->choice.note)
        talk_say(talk, "%s%s%s%s", talk->choice.note, *news->text ? " But " : "", news->text,
                 *news->text              ? "."
                 : news->cached && !*anew ? " Nothing needs to be read again."
                                          : "");
    if (*anew)
        talk_say(talk, "%s", anew);
    *talk->choice.note = 0;
    if (news->max_context > talk->info.max_context) {
        char words[PLAN_WORDS_SIZE];
        talk->info.max_context = news->max_context;
        talk_say(talk, "It is a long one, and gets more: %s.", talk_context(words, sizeof words, talk));
    }
    if (news->stale)
        chat_feed_anew(&talk->chat);
    if (talk->chat.n_turns)
        show_turns(talk, news->full);
    const char *system = talk->settings.system;
    bool same = system && chat_system_is(&talk->chat, system, strlen(system));
    if (system && !talk->chat.n_turns)
        chat_set_system(&talk->chat, system, strlen(system));
    else if (system && !same)
        talk_say(talk, "The session keeps its own system message; /system changes it.");
}

bool talk_hold(struct talk *talk, const struct line *line, const char *text, size_t length)
{
    if (!talk->untold || line->kind != LINE_COMMAND || !line->row->told)
        return false;
    bool fine = bytes_append(&talk->held, text, length);
    if (!fine)
        talk_fail(talk, "out of memory");
    talk_enter(talk, fine ? TALK_BUSY : TALK_IDLE);
    return true;
}

bool talk_drop_held(struct talk *talk)
{
    if (!talk->held.length)
        return false;
    talk_refuse(talk, "Stopped; %s is not done.", talk->held.data);
    bytes_release(&talk->held);
    talk_enter(talk, TALK_IDLE);
    return true;
}

// tried: by a save that began when the command was there; else the disk may have room again.
static void do_held(struct talk *talk, bool tried)
{
    struct bytes line = talk->held;
    if (!line.length || talk->state != TALK_BUSY)
        return;
    talk->held = (struct bytes){0};
    talk->state = TALK_IDLE; // the face sees it when the command is done
    talk->tried = tried;
    talk_line(talk, line.data, line.length);
    talk->tried = false;
    bytes_release(&line);
}

// What there is to say of a save, and then what the command that asked for it has done: /fork did, whatever the cap
// took, and where the disk took nothing, too: then the conversation is another session's all the same, or this one has
// another name than `before`.
static void say_saved(struct talk *talk, const struct session_news *news, const char *before)
{
    bool another = !*before && *news->name, renamed = *before && strcmp(before, news->name) != 0 && *news->name;
    bool failed = *news->text && news->failed && !news->of_turn;
    if (failed)
        talk_fail(talk, "%s", news->text);
    else if (*news->text && talk->going && !news->of_turn) // of the next message
        talk_say_for_now(talk, "%s", news->text);
    else if (*news->text)
        talk_say(talk, "%s", news->text);
    if (talk->going && !news->of_turn && *begins_anew(talk)) // as another branch was fed
        talk_say_for_now(talk, "%s", begins_anew(talk));
    if (failed && another)
        talk_say(talk, "The conversation goes on as \"%s\"; the next turn tries again to save it.", news->name);
    else if (failed && renamed)
        talk_say(talk, "It was renamed to \"%s\" all the same%s.", news->name,
                 news->hole ? "" : "; the next turn tries again to save what is missing");
    else if (!failed && talk->state == TALK_BUSY && !news->of_turn && *talk->choice.note)
        talk_say(talk, "%s \"%s\".", talk->choice.note, news->name);
}

void talk_on_session(struct talk *talk, const struct session_news *news)
{
    talk->face->progress(talk->self, NULL);
    char before[sizeof talk->session];
    memcpy(before, talk->session, sizeof before);
    snprintf(talk->session, sizeof talk->session, "%s", news->name);
    talk->unsaved = news->unsaved;
    talk->hole = news->hole;
    talk->blank = news->blank;
    talk->warned = NULL;
    if (talk->opening && !news->of_turn)
        on_opened(talk, news);
    else
        say_saved(talk, news, before);
    talk->untold = talk->untold && !news->of_turn;
    if (news->of_turn || talk->held.length) {
        do_held(talk, !news->of_turn);
        return;
    }
    *talk->choice.note = 0;
    if (talk->going)
        talk_say_ways(talk);
    talk->going = false;
    if (talk->state != TALK_BUSY)
        return;
    if (talk->system_follows)   // the news of that are these words' end: each of the worker's calls is answered before
        talk_save_system(talk); // the next
    else
        talk_enter(talk, TALK_IDLE);
}

// The disk may have room again. True: what is not saved is tried once more, and the command then.
static bool tries_again(struct talk *talk, const char *command, const char *argument)
{
    struct bytes *held = &talk->held;
    if (talk->tried || talk->hole || talk->scripted || talk->state != TALK_IDLE)
        return false;
    if (!bytes_append(held, command, strlen(command)) || !bytes_append(held, " ", *argument != 0) ||
        !bytes_append(held, argument, strlen(argument))) {
        bytes_release(held);
        return false;
    }
    talk_enter(talk, TALK_BUSY);
    worker_save_session(talk->worker, "");
    return true;
}

const char *talk_unsent(const struct talk *talk)
{
    return talk->state == TALK_IDLE ? talk->chat.unsent.data : NULL;
}

bool talk_has_saved(const struct talk *talk)
{
    return talk->state == TALK_IDLE && talk->saving && !talk->untold && !talk->unsaved && !talk->chat.unsent.data;
}

// What could not be saved is lost with the conversation, so the first time it stays, for each of these commands by
// itself; `as` is what it is called. True: it did, and that was said, or is tried.
static bool holds_unsaved(struct talk *talk, const char *as, const char *command, const char *argument)
{
    if (!talk->saving || !talk->unsaved || (talk->warned && strcmp(talk->warned, as) == 0))
        return false;
    if (tries_again(talk, command, argument))
        return true;
    talk->warned = as;
    talk_refuse(talk, "The last messages are not saved, and would be lost: %s; %s once more drops them.",
                talk->hole ? "/fork NAME saves all of the conversation" : "/save tries again", as);
    return true;
}

void talk_ask_leave(struct talk *talk)
{
    static const char quit[] = "/quit";
    if (!talk->scripted && talk->held.length && strcmp(talk->held.data, quit) == 0)
        return; // it waits already
    if (!talk->scripted && talk->state == TALK_IDLE && talk->untold && bytes_append(&talk->held, quit, strlen(quit)))
        talk_enter(talk, TALK_BUSY);
    else if (talk->scripted || !holds_unsaved(talk, "/quit or Ctrl-D", quit, ""))
        talk_leave(talk, talk->status);
}

// Where the conversation that was just left, in which something was said or not, is found; `before` is what stands
// before that.
static void say_left(struct talk *talk, const char *before, bool said)
{
    const char *space = *before ? " " : "", *name = talk->saving ? talk->session : "";
    talk->lost = talk->lost || (*name && talk->unsaved);
    if (*name && talk->unsaved)
        talk_say(talk, "%s%sThe last messages of \"%s\" were not saved.", before, space, name);
    else if (*name && !talk->blank)
        talk_say(talk, "%s%sThe old one is kept as \"%s\"; /load %s returns to it.", before, space, name, name);
    else if (*name && said)
        talk_say(talk, "%s%s" NOT_ADDED, before, space, name);
    else if (*before)
        talk_say(talk, "%s", before);
}

void talk_do_new(struct talk *talk, const struct line *line)
{
    (void)line;
    struct store_error error;
    if (holds_unsaved(talk, "/new", "/new", ""))
        return;
    bool said = chat_exchanges(&talk->chat);
    bool nowhere = chat_system(&talk->chat) && (talk->blank || chat_system_waits(&talk->chat)); // it goes along
    chat_clear(&talk->chat);
    talk_begin_conversation(talk);
    say_left(talk, "New conversation.", said);
    if (talk->saving && talk->settings.no_session)
        talk_say(talk, "It is saved, too: /save and /load end --no-session.");
    if (talk->saving && saved_new(&talk->store, "", &talk->choice.saved, &error)) {
        talk_fail(talk, "%s", error.text);
        return;
    }
    chat_count_anew(&talk->chat);
    if (talk->saving)
        talk_open_session(talk, chat_position(&talk->chat), false);
    // One that was fed is of what was opened already.
    talk->system_follows = talk->opening && nowhere && !chat_position(&talk->chat);
}

void talk_say_unread(struct talk *talk, const char *command)
{
    const struct chat *chat = &talk->chat;
    bool unanswered = chat_exchanges(chat) == 1 && chat->turns[chat->n_turns - 1].role == TOK_USER;
    if (!chat_exchanges(chat))
        talk_refuse(talk, "Nothing to %s yet.", command);
    else if (unanswered) // of what is read next it need not be a part
        talk_refuse(talk,
                    "Nothing to %s yet: your message has no answer; /retry answers it, a new message replaces it.",
                    command);
    else
        talk_refuse(talk, "Not yet: %s; your next message has it read, then /%s.",
                    chat_system_waits(chat) ? "the system message changed, and with it the whole conversation"
                                            : "all of this conversation is still to be read here",
                    command);
}

static void save(struct talk *talk, const char *name)
{
    struct store_error error;
    if (*name && !store_name_valid(name)) {
        store_bad_name(name, &error);
        talk_fail(talk, "%s", error.text);
    } else if (talk->saving && (*name || *talk->session || chat_position(&talk->chat))) {
        bool renames = *name && *talk->session && strcmp(name, talk->session) != 0;
        snprintf(talk->choice.note, sizeof talk->choice.note, "%s%s%sEach turn is saved as", renames ? "It was \"" : "",
                 renames ? talk->session : "", renames ? "\" before. " : "");
        talk_enter(talk, TALK_BUSY);
        worker_save_session(talk->worker, name);
    } else if (talk->saving) {
        talk_refuse(talk, "Nothing to save yet; each turn will be saved.");
    } else if (!chat_position(&talk->chat)) {
        talk_say_unread(talk, "save");
    } else if (!has_store(talk)) {
        return;
    } else if (saved_new(&talk->store, name, &talk->choice.saved, &error)) {
        talk_fail(talk, "%s", error.text);
    } else {
        snprintf(talk->choice.note, sizeof talk->choice.note, "Each turn is now saved as");
        talk_open_session(talk, chat_position(&talk->chat), true);
    }
}

void talk_do_save(struct talk *talk, const struct line *line)
{
    save(talk, talk_argument(line).text);
}

void talk_do_rename(struct talk *talk, const struct line *line)
{
    struct talk_argument name = talk_argument(line);
    if (*name.text && talk->saving)
        save(talk, name.text);
    else
        talk_refuse(talk, "%s",
                    *name.text ? "This conversation is not saved; /save saves it." : "/rename takes a name.");
}

// What is lost when the conversation is left now; "": nothing.
static const char *lost_system(const struct talk *talk)
{
    return !talk->system_waits || !chat_system_waits(&talk->chat) ? ""
           : chat_system(&talk->chat) ? "The system message that you set is not saved: no message followed it."
                                      : "That the system message was removed is not saved: no message followed it.";
}

static void fail_session(struct talk *talk, const char *name, const struct store_error *error)
{
    if (error->code == STORE_NOT_FOUND)
        talk_fail(talk, "no session \"%.64s\"; /sessions lists them", name);
    else
        talk_fail(talk, "%s", error->text);
}

static void list_sessions(struct talk *talk)
{
    struct store_error error;
    struct talk_lines lines;
    if (!has_store(talk) || !talk_lines_begin(talk, &lines))
        return;
    bool fine = sessions_print(lines.out, &talk->store, talk->face->columns(talk->self), talk->session, &error);
    talk_lines_show(talk, &lines);
    if (!fine)
        talk_fail(talk, "%s", error.text);
}

void talk_do_sessions(struct talk *talk, const struct line *line)
{
    (void)line;
    list_sessions(talk);
}

void talk_do_load(struct talk *talk, const struct line *line)
{
    struct talk_argument argument = talk_argument(line);
    const char *name = argument.text;
    struct store_error error;
    struct chat chat = {.about = talk->chat.about, .think = talk->chat.think, .fed_think = talk->chat.think};
    if (!has_store(talk))
        return;
    if (!*name) {
        talk_refuse(talk, "/load takes the name of a session:");
        list_sessions(talk);
    } else if (strcmp(name, talk->session) == 0) {
        talk_say(talk, "That is the conversation you are in.");
    } else if (holds_unsaved(talk, "/load", "/load", name)) {
        return;
    } else if (!sessions_load(&talk->store, name, &chat, &talk->choice, &error)) {
        fail_session(talk, name, &error);
    } else {
        const char *lost = lost_system(talk);
        bool said = chat_exchanges(&talk->chat);
        chat_release(&talk->chat);
        talk->chat = chat;
        talk_begin_conversation(talk);
        say_left(talk, "", said);
        if (*lost)
            talk_say(talk, "%s", lost);
        talk_open_session(talk, 0, false);
    }
}

void talk_forget_delete(struct talk *talk)
{
    *talk->delete_asked.text = 0;
    store_seen_release(&talk->delete_seen);
}

// What would be gone, for people who are asked whether they mean it.
static bool asks_to_delete(struct talk *talk, const struct talk_argument *name)
{
    struct store_list list;
    struct store_error error;
    bool asked = false;
    store_see(&talk->store, name->text, &talk->delete_seen); // first: what is told may be newer, never older
    if (store_list(&talk->store, &list, &error))
        return false; // who removes it says what is wrong
    for (size_t i = 0; i < list.n_entries && !asked; i++) {
        char words[400];
        const struct store_entry *entry = &list.entries[i];
        if (strcmp(entry->name, name->text) != 0 || store_is_locked(&talk->store, entry->name))
            continue;
        struct saved_content content;
        enum store_code unread = saved_read(&talk->store, entry->name, &content, &error);
        bool damaged = *content.damage;
        saved_content_release(&content);
        if (unread)
            snprintf(words, sizeof words, "Session \"%s\" can't be read.", entry->name);
        else if (damaged)
            snprintf(words, sizeof words, "Session \"%s\" is damaged.", entry->name);
        else
            sessions_describe(words, sizeof words, entry->name, &entry->manifest);
        talk_say(talk, "%s /delete %s once more deletes it for good.", words, entry->name);
        talk->delete_asked = *name;
        asked = true;
    }
    store_list_release(&list);
    return asked;
}

// A pipe's lines mean what they say. False: the session was told of, to be asked for once more.
static bool delete_session(struct talk *talk, const struct talk_argument *argument)
{
    const char *name = argument->text;
    struct store_error error;
    bool told = talk->scripted || strcmp(talk->delete_asked.text, name) == 0;
    if (!told && asks_to_delete(talk, argument))
        return false;
    enum store_code code = store_remove_seen(&talk->store, name, talk->scripted ? NULL : &talk->delete_seen, &error);
    if (code == STORE_CHANGED) {
        talk_say(talk, "Not deleted: session \"%s\" has changed meanwhile.", name);
        if (asks_to_delete(talk, argument))
            return false;
    } else if (code) {
        fail_session(talk, name, &error);
    } else {
        talk_say(talk, "Deleted.");
    }
    return true;
}

void talk_do_delete(struct talk *talk, const struct line *line)
{
    struct talk_argument argument = talk_argument(line);
    const char *name = argument.text;
    if (!has_store(talk))
        return;
    if (!*name)
        talk_refuse(talk, "/delete takes the name of a session; /sessions lists them.");
    else if (strcmp(name, talk->session) == 0)
        talk_refuse(talk, "That is the conversation you are in; /new first.");
    else if (!delete_session(talk, &argument))
        return;
    talk_forget_delete(talk);
}

// On its own line where a terminal would cut the command.
static void say_resume(struct talk *talk)
{
    static const char option[] = " --session ";
    struct bytes command = {0};
    bool fine = quote_program(&command, talk->program) && bytes_append(&command, option, strlen(option)) &&
                bytes_append(&command, talk->session, strlen(talk->session));
    const char *shown = fine ? command.data : "moechat --continue"; // no memory
    int width = cells_width(shown, strlen(shown)) + cells_width(talk->session, strlen(talk->session));
    if (talk->scripted || width + (int)strlen("Saved as \"\";  resumes it.") <= talk->face->columns(talk->self)) {
        talk_say(talk, "Saved as \"%s\"; %s resumes it.", talk->session, shown);
    } else {
        talk_say(talk, "Saved as \"%s\"; this resumes it:", talk->session);
        talk_say(talk, "%s", shown);
    }
    bytes_release(&command);
}

void talk_finish_session(struct talk *talk)
{
    struct session_news news;
    if (talk->held.length)
        talk_refuse(talk, "%s was not done.", talk->held.data);
    if (talk->editing == EDIT_SAID && talk->saving && chat_go(&talk->chat, talk->edited_from.last)) {
        talk_say(talk, TALK_EDIT_LEFT);
        follow(talk, GOING_TO_LEAVE);
    }
    if (talk->saving && talk->system_follows)
        talk_save_system(talk);
    if (!talk->saving || !worker_finish_session(talk->worker, &news))
        return;
    talk->lost = talk->lost || news.failed;
    if (*news.text) // no failure where the KV cache alone is lost
        talk->face->fail(talk->self, news.text);
    if (*news.name)
        snprintf(talk->session, sizeof talk->session, "%s", news.name);
    if (news.unanswered)
        talk_say(talk, "Your last message is saved without an answer; /retry answers it.%s",
                 talk->part_read ? " What was read of it is read again then." : "");
    if (*lost_system(talk))
        talk_say(talk, "%s", lost_system(talk));
    const struct chat_turn *system = chat_system(&talk->chat);
    bool said = news.unanswered || chat_exchanges(&talk->chat) || (system && system->number != PART_NONE);
    said = said || !(news.open ? news.blank : talk->blank); // all was taken back, and is kept
    struct store_error error;
    bool there = *talk->session && store_find(&talk->store, talk->session, &error) == STORE_OK;
    if (*talk->session && !news.failed && said && !there)
        talk_say(talk, NOT_ADDED, talk->session);
    else if (*talk->session && !news.failed && said)
        say_resume(talk);
}
