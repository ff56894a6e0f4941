// SPDX-License-Identifier: GPL-3.0-or-later
// moechat sessions [VERB] [NAME]: the saved conversations, for people and scripts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/subcommands/cmd.h"
#include "app/talk/export.h"
#include "app/util/format.h"
#include "app/util/json_out.h"
#include "app/util/report.h"
#include "app/util/words.h"
#include "app/store/branches.h"
#include "app/store/saved_verify.h"
#include "app/talk/sessions.h"
#include "app/talk/tree.h"
#include "app/term/term.h"
#include "app/view/table.h"

struct request {
    const struct options *options;
    struct store store;
    const char *name, *other; // NULL: not given
};

static int fail(const struct store_error *error)
{
    report("%s", error->text);
    return sessions_status(error);
}

static void add_entry(struct json_out *out, const struct store *store, const struct store_entry *entry)
{
    struct bytes preview = {0};
    size_t taken_back;
    branches_ahead(&entry->manifest, &taken_back);
    json_out_open(out, NULL, '{');
    json_out_string(out, "name", entry->name);
    if (entry->damaged || *entry->lacks)
        json_out_flag(out, "damaged", true);
    else
        json_out_null(out, "damaged"); // not known
    if (*entry->lacks)
        json_out_string(out, "damage", entry->lacks);
    if (entry->saving)
        json_out_flag(out, "saving", true);
    json_out_whole(out, "updated", entry->updated);
    json_out_whole(out, "created", entry->manifest.created);
    json_out_whole(out, "message_count", manifest_messages(&entry->manifest));
    json_out_whole(out, "taken_back", taken_back); // of the messages that follow them in another branch
    json_out_whole(out, "tokens", manifest_tokens(&entry->manifest));
    json_out_whole(out, "cached_tokens", manifest_cached(&entry->manifest));
    json_out_whole(out, "branch_count", branches_count(&entry->manifest));
    json_out_whole(out, "branch_bytes", branches_bytes(&entry->manifest)); // of those that are not the conversation
    json_out_whole(out, "kv_bytes", entry->kv_bytes);
    if (entry->state_bytes)
        json_out_whole(out, "state_bytes", entry->state_bytes);
    json_out_whole(out, "transcript_bytes", entry->transcript_bytes);
    if (sessions_preview(store, entry, &preview))
        json_out_text(out, "last_message", preview.data, preview.length);
    bytes_release(&preview);
    json_out_string(out, "model", entry->manifest.origin.model_name);
    json_out_string(out, "model_path", entry->manifest.origin.model_path);
    json_out_string(out, "weights", entry->manifest.origin.weights);
    json_out_close(out, '}');
}

// For people: on a terminal cut between words, as /sessions is.
static int print_list(const struct store *store)
{
    struct store_error error;
    char *text = NULL;
    size_t length;
    bool terminal = isatty(STDOUT_FILENO);
    int columns = terminal ? term_columns() : 0;
    FILE *out = terminal ? open_memstream(&text, &length) : stdout;
    if (!out) {
        report("out of memory");
        return STATUS_FAILED;
    }
    bool fine = sessions_print(out, store, columns, "", &error), whole = !terminal || fclose(out) == 0;
    if (terminal && whole)
        table_fold(stdout, text, &(struct table){.columns = columns, .second = columns + 1});
    if (!whole)
        report("out of memory");
    free(text);
    return !whole ? STATUS_FAILED : fine ? STATUS_DONE : fail(&error);
}

static int list(const struct request *request)
{
    struct store_error error;
    struct store_list found;
    if (!request->options->asked.json)
        return print_list(&request->store);
    if (store_list(&request->store, &found, &error))
        return fail(&error);
    struct json_out out = {0};
    json_out_open(&out, NULL, '{');
    json_out_open(&out, "sessions", '[');
    for (size_t i = 0; i < found.n_entries; i++)
        add_entry(&out, &request->store, &found.entries[i]);
    json_out_close(&out, ']');
    json_out_close(&out, '}');
    store_list_release(&found);
    return json_out_finish(&out);
}

// Reads a session without locking it.
static int read_session(const struct request *request, struct saved_content *content)
{
    struct store_error error;
    *content = (struct saved_content){0};
    if (store_find_saved(&request->store, request->name, &error) ||
        saved_read(&request->store, request->name, content, &error))
        return fail(&error);
    if (*content->damage)
        report("session \"%s\" is damaged: %s", request->name, content->damage);
    return STATUS_DONE;
}

// The bytes as they are; what acts on a terminal is made visible where it goes to one.
static int print_export(const struct saved_content *content, enum export_format format)
{
    struct chat chat = {0};
    struct bytes text = {0};
    bool fine = true, terminal = isatty(STDOUT_FILENO);
    if (chat_follows(content->parts, content->n_parts))
        fine = sessions_chat(content, &chat) && export_chat(&text, format, &(struct export_head){"", ""}, &chat);
    else // no conversation, but there to be read
        for (size_t i = 0; i < content->n_parts + content->n_others && fine; i++) {
            const struct part *part =
                i < content->n_parts ? &content->parts[i] : &content->others[i - content->n_parts];
            fine = export_message(&text, format, i, part->role, &part->text);
        }
    if (fine && text.length)
        terminal ? report_text(stdout, text.data, text.length) : (void)fwrite(text.data, 1, text.length, stdout);
    if (!fine)
        report("out of memory");
    bytes_release(&text);
    chat_release(&chat);
    return fine ? STATUS_DONE : STATUS_FAILED;
}

// show: for people, so sanitised.
static int show(const struct request *request)
{
    struct saved_content content;
    char line[256];
    int status = read_session(request, &content);
    if (status)
        return status;
    if (request->options->asked.json) {
        struct json_out out = {0};
        json_out_open(&out, NULL, '{');
        json_out_string(&out, "name", request->name);
        json_out_string(&out, "model", content.manifest.origin.model_name);
        json_out_whole(&out, "tokens", manifest_tokens(&content.manifest));
        json_out_whole(&out, "cached_tokens", manifest_cached(&content.manifest));
        export_parts(&out, "messages", content.parts, content.n_parts);
        export_parts(&out, "branches", content.others, content.n_others);
        json_out_close(&out, '}');
        status = json_out_finish(&out);
    } else {
        if (!*content.damage) { // else it was said what there is
            sessions_describe(line, sizeof line, request->name, &content.manifest);
            report_text(stdout, line, strlen(line));
            fputc('\n', stdout);
        }
        for (size_t i = 0; i < content.n_parts; i++) {
            const struct part *part = &content.parts[i];
            printf("%s: ", export_speaker(part->role));
            report_text(stdout, part->text.data, part->text.length);
            fputc('\n', stdout);
        }
    }
    saved_content_release(&content);
    return status;
}

static int tree(const struct request *request)
{
    struct saved_content content;
    struct chat chat = {0};
    int status = read_session(request, &content);
    if (status)
        return status;
    bool follows = chat_follows(content.parts, content.n_parts);
    bool fine = follows && sessions_chat(&content, &chat) &&
                tree_print(stdout, &chat, isatty(STDOUT_FILENO) ? term_columns() : 0);
    if (!fine && follows)
        report("out of memory");
    else if (!fine)
        report("session \"%s\" can't be read as a conversation", request->name);
    chat_release(&chat);
    saved_content_release(&content);
    return fine ? STATUS_DONE : STATUS_FAILED;
}

static int export(const struct request *request)
{
    const char *format = request->other ? request->other : "md";
    bool json = strcmp(format, "json") == 0, text = strcmp(format, "txt") == 0;
    struct saved_content content;
    if (!json && !text && strcmp(format, "md") != 0) {
        report("sessions export takes md, json or txt, not \"%.40s\"", format);
        return STATUS_USAGE;
    }
    int status = read_session(request, &content);
    if (status)
        return status;
    bool damaged = *content.damage;
    if (json) {
        struct export_head head = {request->name, content.manifest.origin.model_name};
        struct json_out out = {0};
        export_open(&out, &head);
        export_parts(&out, "messages", content.parts, content.n_parts);
        export_parts(&out, "branches", content.others, content.n_others);
        json_out_close(&out, '}');
        status = json_out_finish(&out);
    } else {
        status = print_export(&content, text ? EXPORT_TEXT : EXPORT_MARKDOWN);
    }
    saved_content_release(&content);
    return status == STATUS_DONE && damaged ? STATUS_FAILED : status;
}

static int verify(const struct request *request)
{
    struct saved_verdict verdict;
    struct store_error error;
    char rows[FORMAT_SIZE], bytes[FORMAT_SIZE], states[80] = "", dead[80] = "";
    if (store_find_saved(&request->store, request->name, &error) ||
        saved_verify(&request->store, request->name, moe_record_verify, &verdict, &error))
        return fail(&error);
    bool fine = !verdict.wrong.length;
    for (size_t at = 0; at < verdict.wrong.length; at += strlen(verdict.wrong.data + at) + 1)
        report("%s", verdict.wrong.data + at);
    if (verdict.n_states)
        snprintf(states, sizeof states, ", %zu state%s, %s", verdict.n_states, format_s(verdict.n_states),
                 format_bytes(bytes, sizeof bytes, verdict.state_bytes));
    if (verdict.dead_bytes)
        snprintf(dead, sizeof dead, "; compact frees %s", format_bytes(bytes, sizeof bytes, verdict.dead_bytes));
    if (fine)
        printf("%s: all checksums match (%zu part%s, %zu record%s, %s%s%s)\n", request->name, verdict.n_parts,
               format_s(verdict.n_parts), verdict.n_records, format_s(verdict.n_records),
               format_bytes(rows, sizeof rows, verdict.row_bytes), states, dead);
    bytes_release(&verdict.wrong);
    return fine ? STATUS_DONE : STATUS_FAILED;
}

// A damaged session is left as it is, which is said. The exit status; 0: it is sound.
static int refuse_damaged(const struct request *request, const char *name)
{
    struct store_error error;
    struct saved_content content;
    if (saved_read(&request->store, name, &content, &error))
        return fail(&error);
    bool damaged = *content.damage;
    if (damaged)
        report("session \"%s\" is damaged and was not compacted: %s", name, content.damage);
    saved_content_release(&content);
    return damaged ? STATUS_FAILED : STATUS_DONE;
}

// Says what compacting left, or pruning took.
static void say_branches(const struct request *request, const struct manifest *manifest, const char *name, bool pruned)
{
    char bytes[FORMAT_SIZE];
    struct bytes typed = {0};
    size_t others = branches_count(manifest) - 1;
    if (!others)
        return;
    format_bytes(bytes, sizeof bytes, branches_bytes(manifest));
    if (pruned)
        printf("%s: removed %zu other branch%s, %s with %s text\n", name, others, others == 1 ? "" : "es", bytes,
               others == 1 ? "its" : "their");
    else
        printf("%s: %zu other branch%s, %s, kept; %s %s removes %s\n", name, others, others == 1 ? "" : "es", bytes,
               cmd_typed(&typed, request->options, " sessions prune") ? typed.data : "moechat sessions prune", name,
               others == 1 ? "it" : "them");
    bytes_release(&typed);
}

// Whoever writes a session says that a conversation is not saved; here all of it was.
static int fail_compact(const struct store_error *error, bool prune)
{
    static const char unsaved[] = "conversation not saved: ";
    size_t length = strlen(unsaved);
    if (strncmp(error->text, unsaved, length) != 0)
        return fail(error);
    report("not %s: %s", prune ? "pruned" : "compacted", error->text + length);
    return sessions_status(error);
}

static int compact_all(const struct request *request, bool prune)
{
    size_t n_wanted = 0;
    struct store_error error;
    struct store_list found;
    int status = STATUS_DONE;
    if (store_list(&request->store, &found, &error))
        return fail(&error);
    for (size_t i = 0; i < found.n_entries; i++) {
        const char *name = found.entries[i].name;
        struct saved *saved;
        struct saved_content content;
        char before[FORMAT_SIZE], after[FORMAT_SIZE];
        if (request->name && strcmp(request->name, name) != 0)
            continue;
        n_wanted++;
        int refused = refuse_damaged(request, name);
        if (refused) {
            status = refused;
            continue;
        }
        if (saved_open(&request->store, name, &saved, &content, &error) ||
            (prune ? saved_prune(saved, &error) : saved_compact(saved, &error)))
            status = fail_compact(&error, prune);
        else {
            const char *states = found.entries[i].state_bytes ? " and states" : "";
            printf("%s: KV cache%s %s -> %s\n", name, states,
                   format_bytes(before, sizeof before, found.entries[i].kv_bytes),
                   format_bytes(after, sizeof after, store_kv_bytes(&request->store, name)));
            say_branches(request, &found.entries[i].manifest, name, prune);
        }
        saved_content_release(&content);
        saved_close(saved);
    }
    store_list_release(&found);
    if (request->name && !n_wanted) {
        if (store_find_saved(&request->store, request->name, &error) == STORE_OK) // it has come since
            store_not_found(request->name, &error);
        return fail(&error);
    }
    return status;
}

static int compact(const struct request *request)
{
    return compact_all(request, false);
}

static int prune(const struct request *request)
{
    return compact_all(request, true);
}

static int rm(const struct request *request)
{
    struct store_error error;
    return store_remove(&request->store, request->name, &error) ? fail(&error) : STATUS_DONE;
}

static int rename_to(const struct request *request)
{
    struct store_error error;
    return store_rename(&request->store, request->name, request->other, false, &error) ? fail(&error) : STATUS_DONE;
}

int cmd_sessions(const struct options *options)
{
    static const struct {
        const char *verb, *usage;
        int least, most; // names
        int (*run)(const struct request *request);
        bool json;
    } verbs[] = {
        {"list", "", 0, 0, list, true},
        {"show", " NAME", 1, 1, show, true},
        {"tree", " NAME", 1, 1, tree, false},
        {"rm", " NAME", 1, 1, rm, false},
        {"rename", " NAME NEW-NAME", 2, 2, rename_to, false},
        {"export", " NAME [md|json|txt]", 1, 2, export, false},
        {"verify", " NAME", 1, 1, verify, false},
        {"compact", " [NAME]", 0, 1, compact, false},
        {"prune", " NAME", 1, 1, prune, false},
    };
    struct request request = {.options = options, .name = options->asked.more[0], .other = options->asked.more[1]};
    const char *verb = options->asked.operand ? options->asked.operand : "list";
    struct store_error error;
    int given = (request.name != NULL) + (request.other != NULL);
    if (!store_init(&request.store, NULL)) {
        store_no_place(&error);
        return fail(&error);
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].verb, verb) != 0)
            continue;
        bool fits = given >= verbs[i].least && given <= verbs[i].most;
        if (fits && (verbs[i].json || !options->asked.json))
            return verbs[i].run(&request);
        if (fits)
            report("sessions %s has no --json; list and show have, and sessions export NAME json", verb);
        else
            report("usage: moechat sessions %s%s", verb, verbs[i].usage);
        return STATUS_USAGE;
    }
    if (words_are("delete|remove|ls", verb, strlen(verb))) {
        report("unknown verb \"%s\"; use %s", verb, *verb == 'l' ? "list" : "rm");
        return STATUS_USAGE;
    }
    report("unknown verb \"%.40s\": use list, show, tree, rm, rename, export, verify, compact or prune", verb);
    return STATUS_USAGE;
}
