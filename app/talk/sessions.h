// SPDX-License-Identifier: GPL-3.0-or-later
// Saved conversations for people: which one the options mean, and how they are told of.
#ifndef MOECHAT_APP_TALK_SESSIONS_H
#define MOECHAT_APP_TALK_SESSIONS_H

#include <stdio.h>

#include "app/talk/candidates.h"
#include "app/talk/chat.h"
#include "app/options/talk_settings.h"
#include "app/store/saved.h"

// What the session that the settings ask for was saved with. False: they ask for none, or it does not say.
struct sessions_model {
    char session[STORE_NAME_SIZE];
    struct origin origin;
};
bool sessions_find_model(const struct talk_settings *settings, struct sessions_model *found);

// What a command begins with. Zero-initialise; saved is handed on, the rest is released.
struct sessions_choice {
    struct saved *saved; // NULL: nothing is saved
    struct saved_content content;
    char note[640]; // one line for people; "": nothing to say
};
// Opens the session that the settings ask for; without --session and --continue a new one when `otherwise`, else none.
// Fills the chat. False: error->text says why.
bool sessions_choose(struct store *store, const struct talk_settings *settings, bool otherwise, struct chat *chat,
                     struct sessions_choice *choice, struct store_error *error);
int sessions_status(const struct store_error *error); // the exit status that goes with it
// The same for a session by its name.
bool sessions_load(const struct store *store, const char *name, struct chat *chat, struct sessions_choice *choice,
                   struct store_error *error);

// The conversation with its branches, for reading. False: no memory, or it is no conversation.
bool sessions_chat(const struct saved_content *content, struct chat *chat);
// "Session "zoe": 3 messages, 120 tokens, used 2 h ago, model demo."
void sessions_describe(char *out, size_t size, const char *name, const struct manifest *manifest);
// Appends the last message of the user, also where all was taken back, its first words on one line. False: there is
// none, or no memory.
bool sessions_preview(const struct store *store, const struct store_entry *entry, struct bytes *line);
// `open` is the one under way, "" without. With columns a few lines a session, the last message's first words the last
// of them; with 0 one. False: *error says why.
bool sessions_print(FILE *out, const struct store *store, int columns, const char *open, struct store_error *error);

// What Tab offers for a line of the chat, names of sessions included. False: nothing.
bool sessions_complete(struct store *store, struct candidates *found, const char *line, size_t point);

#endif
