// SPDX-License-Identifier: GPL-3.0-or-later
#include "plain_parts.h"

#include <stdio.h>
#include <string.h>

#include "prompt.h"
#include "term.h"

void plain_say_message(const char *who, const struct bytes *text)
{
    fputs(who, stdout);
    report_text(stdout, text->data, text->length);
    fputc('\n', stdout);
}

static void say_store_error(struct plain *plain, const struct store_error *error)
{
    plain_flush(plain);
    report("%s", error->text);
}

// False: said that there is no place for sessions.
static bool has_store(struct plain *plain)
{
    if (*plain->store.root || store_init(&plain->store, NULL)) {
        plain->store.kv_cap = plain->options->kv_cap;
        return true;
    }
    struct store_error error;
    store_no_place(&error);
    say_store_error(plain, &error);
    return false;
}

void plain_open_session(struct plain *plain, uint32_t keep, bool save)
{
    struct worker_session session = {.saved = plain->choice.saved, .keep = keep, .save = save};
    bool fine = keep || chat_timeline(&plain->chat, &session.ids);
    fine = fine && (!keep || chat_save(&plain->chat, session.saved, &plain->info.origin.language));
    plain->choice.saved = NULL;
    saved_content_release(&plain->choice.content);
    if (!fine) {
        report("no memory for the session");
        saved_close(session.saved);
        tok_ids_release(&session.ids);
        return;
    }
    plain->saving = true;
    plain->opening = !keep;
    plain->state = BUSY;
    *plain->session = 0;
    worker_open_session(plain->worker, session);
}

// What was said last, so that people know where they are.
static void say_last(struct plain *plain)
{
    const struct chat *chat = &plain->chat;
    size_t first = chat->n_turns > 2 ? chat->n_turns - 2 : 0;
    while (first < chat->n_turns && chat->turns[first].role != TOK_USER)
        first++;
    for (size_t i = first; i < chat->n_turns; i++)
        plain_say_message(chat->turns[i].role == TOK_USER ? "You: " : "Assistant: ", &chat->turns[i].text);
    if (chat->n_turns && chat->turns[chat->n_turns - 1].role == TOK_USER)
        plain_say(plain, "This message has no answer yet: /retry answers it; another message takes its place.");
}

static void on_opened(struct plain *plain, const struct session_news *news)
{
    char line[1400];
    plain->opening = false;
    if (*plain->choice.note) {
        snprintf(line, sizeof line, "%s%s%s%s", plain->choice.note, *news->text ? " But " : "", news->text,
                 *news->text    ? "."
                 : news->cached ? " Nothing has to be read again."
                                : "");
        plain_say(plain, line);
    }
    *plain->choice.note = 0;
    if (news->stale)
        chat_feed_anew(&plain->chat);
    if (plain->chat.n_turns)
        say_last(plain);
    const char *system = plain->options->system;
    const struct chat_turn *now = chat_system(&plain->chat);
    bool same =
        system && now && now->text.length == strlen(system) && !memcmp(now->text.data, system, now->text.length);
    if (system && !plain->chat.n_turns)
        chat_set_system(&plain->chat, system, strlen(system));
    else if (system && !same)
        plain_say(plain, "The session keeps its own system message; /system changes it.");
}

void plain_on_session(struct plain *plain, const struct session_news *news)
{
    bool was_shown = plain->state == IDLE && plain->from_terminal && prompt_is_shown();
    progress_clear(&plain->progress);
    snprintf(plain->session, sizeof plain->session, "%s", news->name);
    if (plain->opening && !news->of_turn) {
        on_opened(plain, news);
    } else if (*news->text) {
        if (was_shown)
            fputc('\n', stdout);
        plain_say(plain, news->text);
        if (was_shown)
            prompt_refresh();
    } else if (plain->state == BUSY && !news->of_turn && *plain->choice.note) {
        char line[STORE_NAME_SIZE + 80];
        snprintf(line, sizeof line, "%.60s \"%s\".", plain->choice.note, news->name);
        plain_say(plain, line);
    }
    if (news->of_turn)
        return;
    *plain->choice.note = 0;
    if (plain->state == BUSY)
        plain_ask(plain);
}

void plain_new(struct plain *plain)
{
    struct store_error error;
    chat_clear(&plain->chat);
    plain_say(plain,
              plain->saving && *plain->session ? "A new conversation; the old one is kept." : "A new conversation.");
    if (!plain->saving)
        return;
    if (saved_new(&plain->store, "", &plain->choice.saved, &error))
        say_store_error(plain, &error);
    else
        plain_open_session(plain, chat_position(&plain->chat), false);
}

void plain_save(struct plain *plain, const char *name)
{
    struct store_error error;
    if (*name && !store_name_valid(name)) {
        store_bad_name(name, &error);
        say_store_error(plain, &error);
    } else if (plain->saving && *name) {
        snprintf(plain->choice.note, sizeof plain->choice.note, "Each turn is saved as");
        plain->state = BUSY;
        worker_rename_session(plain->worker, name);
    } else if (plain->saving) {
        char line[STORE_NAME_SIZE + 80];
        snprintf(line, sizeof line, "Each turn is saved as \"%s\".", plain->session);
        plain_say(plain, *plain->session ? line : "There is nothing to save yet; each turn will be.");
    } else if (!chat_position(&plain->chat)) {
        plain_say(plain, "There is nothing to save yet.");
    } else if (!has_store(plain)) {
        return;
    } else if (saved_new(&plain->store, name, &plain->choice.saved, &error)) {
        say_store_error(plain, &error);
    } else {
        snprintf(plain->choice.note, sizeof plain->choice.note, "From here on each turn is saved as");
        plain_open_session(plain, chat_position(&plain->chat), true);
    }
}

void plain_rename(struct plain *plain, const char *name)
{
    if (*name && plain->saving)
        plain_save(plain, name);
    else
        plain_say(plain, *name ? "This conversation is not saved; /save saves it." : "/rename takes a name.");
}

void plain_load(struct plain *plain, const char *name)
{
    struct store_error error;
    struct chat chat = {0};
    if (!has_store(plain))
        return;
    if (!*name) {
        plain_say(plain, "/load takes the name of a session:");
        sessions_print(stdout, &plain->store, &error);
    } else if (strcmp(name, plain->session) == 0) {
        plain_say(plain, "That is the conversation you are in.");
    } else if (!sessions_load(&plain->store, name, &chat, &plain->choice, &error)) {
        say_store_error(plain, &error);
    } else {
        chat_release(&plain->chat);
        plain->chat = chat;
        plain_open_session(plain, 0, false);
    }
}

void plain_list_sessions(struct plain *plain)
{
    struct store_error error;
    if (has_store(plain) && !sessions_print(stdout, &plain->store, &error))
        say_store_error(plain, &error);
}

void plain_delete(struct plain *plain, const char *name)
{
    struct store_error error;
    if (!has_store(plain))
        return;
    if (*name && strcmp(name, plain->session) == 0)
        plain_say(plain, "That is the conversation you are in; /new first.");
    else if (store_remove(&plain->store, name, &error))
        say_store_error(plain, &error);
    else
        plain_say(plain, "Deleted.");
}

void plain_finish_session(struct plain *plain)
{
    struct session_news news;
    term_release_signals(); // a second one need not wait
    if (!plain->saving || !worker_finish_session(plain->worker, &news))
        return;
    if (*news.text)
        report("%s", news.text);
    if (*news.name)
        snprintf(plain->session, sizeof plain->session, "%s", news.name);
    if (*plain->session && !news.failed && chat_exchanges(&plain->chat)) {
        char line[2 * STORE_NAME_SIZE + 80];
        snprintf(line, sizeof line, "Saved as \"%s\"; moechat --session %s goes on with it.", plain->session,
                 plain->session);
        plain_say(plain, line);
    }
}
