// SPDX-License-Identifier: GPL-3.0-or-later
// Moves drafts in and out of readline's history and of the line that it keeps aside.
#include "app/term/recall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "app/util/report.h"

enum { KEEP_MS = 500 };

const char recall_lost_words[] = "what was typed and not sent is lost: no history or file takes it";

// For later chats, as this one has it anyway.
static void keep(struct recall *recall, const char *text)
{
    size_t length = strlen(text);
    const char *why = history_refusal(length);
    int code = history_add(&recall->history, recall->history_path, text, length);
    recall->lost = recall->lost || why || code;
    if (!why && code)
        why = history_reason(code);
    if (!why || recall->told)
        return;
    recall->told = true;
    recall->not_kept(recall->context, why);
}

static void add(struct recall *recall, const char *text)
{
    HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;
    if (*text && (!last || strcmp(last->line, text) != 0)) {
        add_history(text);
        keep(recall, text);
    }
}

static bool adopt(void *context, const char *text)
{
    struct recall *recall = context;
    recall->lost = false;
    add(recall, text);
    return !recall->lost;
}

// readline rings where no line is kept aside, which is not the user's doing.
static void unsave_line(void)
{
    const char *value = rl_variable_value("bell-style");
    char *bell = value ? strdup(value) : NULL;
    rl_variable_bind("bell-style", "none");
    rl_maybe_unsave_line();
    if (bell)
        rl_variable_bind("bell-style", bell);
    free(bell);
}

// Puts `draft`, or NULL, into the place of what readline keeps aside while a line of the history is edited. Returns
// what was there; malloc'd, NULL: nothing, or no memory. The line that is being edited stays.
static char *change_aside(const char *draft)
{
    char *line = strdup(rl_line_buffer ? rl_line_buffer : "");
    if (!line)
        return NULL;
    UNDO_LIST *undo = rl_undo_list;
    int point = rl_point;
    rl_undo_list = NULL;
    rl_replace_line("", 0);
    unsave_line();
    char *before = rl_end ? strdup(rl_line_buffer) : NULL;
    rl_free_undo_list();
    rl_undo_list = NULL;
    if (draft) {
        rl_replace_line(draft, 0);
        rl_maybe_save_line();
        rl_undo_list = NULL;
    }
    rl_replace_line(line, 0);
    rl_undo_list = undo;
    rl_point = point;
    free(line);
    return before;
}

static void remember_searched_from(struct recall *recall)
{
    if (recall->searched_from)
        add(recall, recall->searched_from);
    free(recall->searched_from);
    recall->searched_from = NULL;
}

// That draft, and one that a search took the place of.
void recall_remember_left(struct recall *recall)
{
    char *draft = change_aside(NULL);
    remember_searched_from(recall);
    if (draft)
        add(recall, draft);
    free(draft);
}

bool recall_remember(struct recall *recall, const char *text)
{
    char *copy = strdup(text); // it may be the line
    if (!copy)
        return false;
    recall->lost = false;
    recall_remember_left(recall);
    add(recall, copy);
    free(copy);
    using_history(); // Up begins at the end again
    return !recall->lost;
}

void recall_begin_search(struct recall *recall)
{
    bool at_end = where_history() == history_length;
    char *draft = !at_end ? change_aside(NULL) : rl_end ? strdup(rl_line_buffer) : NULL;
    if (at_end && draft) {
        recall_remember_left(recall);
        using_history();
    } else if (!at_end) { // what was changed in a line of the history is its own from here on
        rl_maybe_replace_line();
        rl_undo_list = NULL;
    }
    if (!draft)
        return;
    remember_searched_from(recall);
    recall->searched_from = draft;
}

void recall_end_search(struct recall *recall)
{
    if (where_history() == history_length)
        return;
    free(change_aside(recall->searched_from ? recall->searched_from : ""));
    free(recall->searched_from);
    recall->searched_from = NULL;
}

char *recall_adopted_words(char *out, size_t size, size_t count)
{
    if (count == 1)
        snprintf(out, size, "What was typed in a chat that was killed is in the history; Up brings it back.");
    else
        snprintf(out, size, "What was typed in %zu chats that were killed is in the history; Up brings it back.",
                 count);
    return out;
}

int recall_keep_draft(struct recall *recall, const char *text, uint64_t now_ms)
{
    if (draft_file_holds(&recall->draft_file, text)) {
        recall->keep_at_ms = 0;
        return -1;
    }
    if (!recall->keep_at_ms)
        recall->keep_at_ms = now_ms + KEEP_MS;
    if (now_ms < recall->keep_at_ms)
        return (int)(recall->keep_at_ms - now_ms);
    draft_file_keep(&recall->draft_file, text);
    recall->keep_at_ms = 0;
    return -1;
}

size_t recall_open(struct recall *recall)
{
    using_history();
    stifle_history(HISTORY_ENTRIES);
    recall->history_path = history_path();
    int code = recall->history_path ? history_load(&recall->history, recall->history_path) : 0;
    if (code && code != ENOENT)
        report("%s: the history can't be read: %s", recall->history_path, history_reason(code));
    for (size_t i = 0; i < recall->history.count; i++)
        add_history(recall->history.entries[i]);
    draft_file_begin(&recall->draft_file, recall->history_path);
    size_t adopted = draft_file_adopt(&recall->draft_file, adopt, recall);
    using_history();
    return adopted;
}

bool recall_close(struct recall *recall, const char *draft)
{
    recall->lost = false;
    if (!draft)
        remember_searched_from(recall);
    bool safe = draft ? recall_remember(recall, draft) : !recall->lost;
    if (!safe && draft)
        draft_file_keep(&recall->draft_file, draft);
    bool kept = draft_file_end(&recall->draft_file, safe);
    clear_history();
    history_release(&recall->history);
    free(recall->history_path);
    recall->history_path = NULL;
    return safe || kept;
}
