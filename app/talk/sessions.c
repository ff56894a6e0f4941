// SPDX-License-Identifier: GPL-3.0-or-later
// Chooses, describes and lists saved conversations.
#include "app/talk/sessions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/util/format.h"
#include "app/store/branches.h"
#include "app/talk/tree.h"
#include "app/util/report.h"
#include "app/view/cells.h"

static char *age(char *out, size_t size, uint64_t then)
{
    uint64_t now = format_unix_time(), seconds = now > then ? now - then : 0;
    if (!then)
        snprintf(out, size, "at an unknown time");
    else if (seconds < 60)
        snprintf(out, size, "just now");
    else if (seconds < 2 * 86400)
        snprintf(out, size, "%" PRIu64 " %s ago", seconds < 3600 ? seconds / 60 : seconds / 3600,
                 seconds < 3600 ? "min" : "h");
    else
        snprintf(out, size, "%" PRIu64 " days ago", seconds / 86400);
    return out;
}

static const char *model_of(const struct manifest *manifest)
{
    return *manifest->origin.model_name ? manifest->origin.model_name : "unknown";
}

bool sessions_chat(const struct saved_content *content, struct chat *chat)
{
    return chat_restore(chat, content->parts, content->n_parts) &&
           chat_restore_others(chat, content->others, content->n_others, &content->manifest.origin.language);
}

enum { MESSAGES_SIZE = 120 };

// "2 messages, the last unanswered, 4 taken back (/redo), 3 branches", without what there is none of.
static const char *messages_words(char out[MESSAGES_SIZE], const struct manifest *manifest)
{
    size_t messages = manifest_messages(manifest), back, n = branches_count(manifest);
    size_t at = (size_t)snprintf(out, MESSAGES_SIZE, "%zu message%s%s", messages, format_s(messages),
                                 manifest_unanswered(manifest) ? ", the last unanswered" : "");
    if (branches_ahead(manifest, &back) != PART_NONE)
        at += (size_t)snprintf(out + at, MESSAGES_SIZE - at, ", %zu taken back (/redo)", back);
    if (n > 1)
        snprintf(out + at, MESSAGES_SIZE - at, ", %zu branches", n);
    return out;
}

void sessions_describe(char *out, size_t size, const char *name, const struct manifest *manifest)
{
    char used[40], messages[MESSAGES_SIZE], tokens[FORMAT_SIZE];
    snprintf(out, size, "Session \"%s\": %s, %s, used %s, model %s.", name, messages_words(messages, manifest),
             format_tokens(tokens, sizeof tokens, manifest_tokens(manifest), 0),
             age(used, sizeof used, manifest->updated), model_of(manifest));
}

static bool fill_chat(const char *name, struct chat *chat, struct sessions_choice *choice, struct store_error *error)
{
    const struct saved_content *content = &choice->content;
    if (*content->damage)
        snprintf(choice->note, sizeof choice->note,
                 "Session \"%s\" is left as it is: %s. What could be read continues as \"%s\".", name, content->damage,
                 saved_name(choice->saved));
    else if (saved_manifest(choice->saved)->next_part) // else nobody has ever said anything in it
        sessions_describe(choice->note, sizeof choice->note, name, saved_manifest(choice->saved));
    else
        snprintf(choice->note, sizeof choice->note, "New session \"%s\".", name);
    const struct manifest *manifest = saved_manifest(choice->saved);
    if (chat_restore(chat, content->parts, content->n_parts) &&
        chat_restore_others(chat, content->others, content->n_others, &manifest->origin.language)) {
        chat->next_number = manifest->next_part;
        chat->undid = manifest->undone > 0;
        chat->undone = (int64_t)manifest->undone - 1;
        return true;
    }
    store_fail(error, STORE_DAMAGED,
               "session \"%s\" can't be resumed as a conversation; see moechat sessions export %s", name, name);
    saved_close(choice->saved);
    choice->saved = NULL;
    saved_content_release(&choice->content);
    return false;
}

int sessions_status(const struct store_error *error)
{
    return error->code == STORE_NAME ? STATUS_USAGE : error->code == STORE_NEWER ? STATUS_NEWER : STATUS_FAILED;
}

bool sessions_load(const struct store *store, const char *name, struct chat *chat, struct sessions_choice *choice,
                   struct store_error *error)
{
    *choice = (struct sessions_choice){0};
    return saved_open(store, name, &choice->saved, &choice->content, error) == STORE_OK &&
           fill_chat(name, chat, choice, error);
}

bool sessions_find_model(const struct talk_settings *settings, struct sessions_model *found)
{
    struct store store;
    struct store_list list;
    struct store_error error;
    bool last = settings->go_on && !settings->session;
    *found = (struct sessions_model){0};
    if ((!settings->session && !last) || settings->no_session || !store_init(&store, NULL) ||
        store_list(&store, &list, &error))
        return false; // whoever opens the session says why
    for (size_t i = 0; i < list.n_entries && !*found->session; i++) {
        const struct store_entry *entry = &list.entries[i];
        if (!last && strcmp(entry->name, settings->session) != 0)
            continue;
        snprintf(found->session, sizeof found->session, "%s", entry->name);
        found->origin = entry->manifest.origin;
    }
    store_list_release(&list);
    return *found->origin.weights && *found->origin.model_path;
}

// The session that was used last; "" when there is none.
static bool find_last(const struct store *store, char name[STORE_NAME_SIZE], struct store_error *error)
{
    struct store_list list;
    if (store_list(store, &list, error))
        return false;
    snprintf(name, STORE_NAME_SIZE, "%s", list.n_entries ? list.entries[0].name : "");
    store_list_release(&list);
    return true;
}

bool sessions_choose(struct store *store, const struct talk_settings *settings, bool otherwise, struct chat *chat,
                     struct sessions_choice *choice, struct store_error *error)
{
    char name[STORE_NAME_SIZE] = "";
    *choice = (struct sessions_choice){0};
    *error = (struct store_error){0};
    bool asked = settings->session || settings->go_on;
    if (settings->no_session || (!asked && !otherwise))
        return true;
    if (!store_init(store, NULL)) {
        store_no_place(error);
        if (!asked)
            snprintf(choice->note, sizeof choice->note, "This conversation is not saved: %.400s.", error->text);
        return !asked;
    }
    store->kv_cap = settings->kv_cap;
    if (settings->session && !store_name_valid(settings->session))
        return store_bad_name(settings->session, error), false;
    if (settings->session)
        snprintf(name, sizeof name, "%s", settings->session);
    else if (settings->go_on && !find_last(store, name, error))
        return false;
    if (settings->go_on && !*name)
        snprintf(choice->note, sizeof choice->note, "No session yet; this starts one.");
    if (*name) {
        if (sessions_load(store, name, chat, choice, error))
            return true;
        if (error->code != STORE_NOT_FOUND)
            return false;
        snprintf(choice->note, sizeof choice->note, "New session \"%s\".", name);
    }
    return saved_new(store, name, &choice->saved, error) == STORE_OK;
}

// All but the name. Returns out.
static char *print_details(char *out, size_t size, const struct store_entry *entry)
{
    char used[40], rows[FORMAT_SIZE], bytes[FORMAT_SIZE], states[40] = "", messages[MESSAGES_SIZE], tokens[FORMAT_SIZE],
                                                          lacks[128] = "";
    if (entry->state_bytes)
        snprintf(states, sizeof states, ", states %s", format_bytes(bytes, sizeof bytes, entry->state_bytes));
    age(used, sizeof used, entry->updated);
    if (*entry->lacks)
        snprintf(lacks, sizeof lacks, entry->closed ? "can't be opened (%s), " : "damaged (%s), ", entry->lacks);
    else if (entry->saving)
        snprintf(lacks, sizeof lacks, "being saved, ");
    if (entry->damaged && entry->closed)
        snprintf(out, size, "%s, can't be opened (%s)", used, entry->lacks);
    else if (entry->damaged)
        snprintf(out, size, "%s, damaged; /load or --session offers what can be read", used);
    else
        snprintf(
            out, size, "%s, %s%s, %s, KV cache %s%s, model %s", used, lacks, messages_words(messages, &entry->manifest),
            format_tokens(tokens, sizeof tokens, manifest_tokens(&entry->manifest), 0),
            format_bytes(rows, sizeof rows, entry->kv_bytes - entry->state_bytes), states, model_of(&entry->manifest));
    return out;
}

bool sessions_preview(const struct store *store, const struct store_entry *entry, struct bytes *line)
{
    const struct manifest *manifest = &entry->manifest;
    const struct manifest_part *last = NULL;
    struct part part;
    size_t back;
    for (size_t i = 0; i < manifest->n_parts; i++)
        if (manifest->parts[i].role == TOK_USER)
            last = &manifest->parts[i];
    if (!last) // all was taken back
        last = manifest_find(manifest, branches_ahead(manifest, &back));
    while (last && last->role != TOK_USER)
        last = manifest_find(manifest, last->after);
    if (!last || !saved_read_part(store, entry->name, last, &part))
        return false;
    bool fine = tree_words(line, &part.text, TREE_WORDS);
    part_release(&part);
    return fine;
}

static void print_preview(FILE *out, const struct store *store, const struct store_entry *entry, int columns)
{
    struct bytes line = {0};
    if (sessions_preview(store, entry, &line)) {
        fputs("    ", out);
        tree_print_words(out, &line, columns > 4 ? columns - 4 : 1);
    }
    bytes_release(&line);
}

bool sessions_print(FILE *out, const struct store *store, int columns, const char *open, struct store_error *error)
{
    struct store_list list;
    char details[512];
    if (store_list(store, &list, error))
        return false;
    if (!list.n_entries)
        fputs("No saved sessions.\n", out);
    for (size_t i = 0; i < list.n_entries; i++) {
        const struct store_entry *entry = &list.entries[i];
        print_details(details, sizeof details, entry);
        const char *mark = strcmp(entry->name, open) == 0 ? " (open)" : "";
        int width = cells_width(entry->name, strlen(entry->name)) + (int)strlen(mark) + 2 +
                    cells_width(details, strlen(details));
        fprintf(out, "%s%s%s", entry->name, mark, columns && width > columns ? "\n    " : "  ");
        report_text(out, details, strlen(details));
        fputc('\n', out);
        if (columns)
            print_preview(out, store, entry, columns);
    }
    store_list_release(&list);
    return true;
}

bool sessions_complete(struct store *store, struct candidates *found, const char *line, size_t point)
{
    struct store_list list = {0};
    struct store_error error;
    const char **names = NULL;
    size_t count = 0;
    if ((*store->root || store_init(store, NULL)) && store_list(store, &list, &error) == STORE_OK)
        names = calloc(list.n_entries + 1, sizeof *names);
    for (; names && count < list.n_entries; count++)
        names[count] = list.entries[count].name;
    bool fine = candidates_find(found, line, point, &(struct candidate_names){.names = names, .count = count});
    free(names);
    store_list_release(&list);
    return fine;
}
