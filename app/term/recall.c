// SPDX-License-Identifier: GPL-3.0-or-later
// Moves drafts in and out of readline's history and of the line that it keeps aside.
#include "app/term/recall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "app/store/swap_file.h"
#include "app/util/quote.h"
#include "app/util/report.h"

enum { KEEP_MS = 500 };

static bool is_blank(const char *text)
{
    while (*text && (unsigned char)*text <= ' ')
        text++;
    return !*text;
}

// Those of the texts that `goes` says go.
static void sift(struct bytes *texts, bool (*goes)(void *context, const char *text), void *context)
{
    struct bytes left = {.data = texts->data};
    for (size_t at = 0, length; at < texts->length; at += length + 1) {
        length = strlen(texts->data + at);
        if (goes(context, texts->data + at))
            continue;
        left.length += left.length > 0; // a zero byte stands there
        memmove(left.data + left.length, texts->data + at, length + 1);
        left.length += length;
    }
    texts->length = left.length;
}

static bool is_had(void *others, const char *text)
{
    return bytes_have_text(others, text);
}

// After one that the disk does not take no other is tried.
struct owed {
    struct recall *recall;
    bool fails;
};

static bool is_taken(void *context, const char *text)
{
    struct owed *owed = context;
    struct recall *recall = owed->recall;
    size_t length = strlen(text);
    if (owed->fails || history_refusal(length))
        return false;
    owed->fails = !recall->history_path || history_add(&recall->history, recall->history_path, text, length);
    return !owed->fails;
}

static void keep_owed(struct recall *recall)
{
    struct owed owed = {.recall = recall};
    sift(&recall->owed, is_taken, &owed);
    sift(&recall->sent, is_taken, &owed);
}

// For later chats, as this one has it anyway.
static void keep(struct recall *recall, const char *text)
{
    size_t length = strlen(text);
    keep_owed(recall);
    const char *why = history_refusal(length);
    int code = history_add(&recall->history, recall->history_path, text, length);
    if (!recall->history_path && !is_blank(text))
        code = recall->no_place;
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
    if (!*text)
        return;
    if (!last || strcmp(last->line, text) != 0)
        add_history(text);
    keep(recall, text); // also the same again, which the disk may not have taken
}

// A draft, which is owed then where the disk does not take it.
static void add_draft(struct recall *recall, const char *draft)
{
    bool before = recall->lost;
    recall->lost = false;
    add(recall, draft);
    if (recall->lost && !bytes_have_text(&recall->owed, draft))
        recall_lose(&recall->owed, draft); // without memory it is told no more
    recall->lost = recall->lost || before;
}

static bool adopt(void *context, const char *text)
{
    struct recall *recall = context;
    recall->lost = false;
    add(recall, text);
    return !recall->lost;
}

static void stays(void *context, const char *path)
{
    const struct recall *recall = context;
    recall->stays(recall->context, path);
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

// The line that is being edited, while readline's buffer is needed for another.
struct line {
    char *text;
    UNDO_LIST *undo;
    int point, mark;
};

// The buffer is empty then. False: no memory, and the line is as it was.
static bool take_line_out(struct line *line)
{
    *line = (struct line){
        .text = strdup(rl_line_buffer ? rl_line_buffer : ""), .undo = rl_undo_list, .point = rl_point, .mark = rl_mark};
    if (!line->text)
        return false;
    rl_undo_list = NULL;
    rl_replace_line("", 0);
    return true;
}

static void put_line_back(struct line *line)
{
    rl_replace_line(line->text, 0);
    rl_undo_list = line->undo;
    rl_point = line->point;
    rl_mark = line->mark;
    free(line->text);
}

// Puts `draft`, or NULL, into the place of what readline keeps aside while a line of the history is edited. Returns
// what was there; malloc'd, NULL: nothing, or no memory. The line that is being edited stays.
static char *change_aside(const char *draft)
{
    struct line line;
    if (!take_line_out(&line))
        return NULL;
    unsave_line();
    char *before = rl_end ? strdup(rl_line_buffer) : NULL;
    rl_free_undo_list();
    rl_undo_list = NULL;
    if (draft) {
        rl_replace_line(draft, 0);
        rl_maybe_save_line();
        rl_undo_list = NULL;
    }
    put_line_back(&line);
    return before;
}

// What is kept aside, which stays; malloc'd, NULL: nothing, or no memory.
static char *look_aside(void)
{
    struct line line;
    if (where_history() == history_length || !take_line_out(&line))
        return NULL;
    unsave_line();
    char *aside = rl_end ? strdup(rl_line_buffer) : NULL;
    rl_maybe_save_line(); // with what can be undone in it
    rl_undo_list = NULL;
    put_line_back(&line);
    return aside;
}

// ---- lines of the history that were changed and left, which readline keeps, but no file ----

static bool is_kept(const struct history *history, const char *text)
{
    for (size_t i = 0; i < history->count; i++)
        if (strcmp(history->entries[i], text) == 0)
            return true;
    return false;
}

// The next of them before the history's line *at, the newest first; NULL: there are no more. A line has something that
// can be undone once it was changed.
static const char *next_changed(const struct recall *recall, int *at)
{
    while (*at > 0) {
        const HIST_ENTRY *entry = history_get(history_base + --*at);
        if (entry && entry->data && *entry->line && !is_kept(&recall->history, entry->line))
            return entry->line;
    }
    return NULL;
}

static void keep_changed(struct recall *recall)
{
    int at = history_length;
    for (const char *line; (line = next_changed(recall, &at));)
        keep(recall, line);
}

// ---- what was typed and is in no history yet ----

// Texts that are longer than the file takes are left out, and not all is there then.
struct gathered {
    struct bytes texts;
    bool partly;
};

static bool append_text(struct gathered *to, const char *text)
{
    struct bytes *texts = &to->texts;
    size_t length = text ? strlen(text) : 0, between = length && texts->length;
    bool room = texts->length + between + length <= DRAFT_FILE_LIMIT;
    to->partly = to->partly || !room;
    return !length || !room || (bytes_append(texts, "", between) && bytes_append(texts, text, length));
}

// As many as there is room for, the newest first, as the draft's file has them. False: no memory.
static bool gather_older(const struct bytes *older, struct gathered *to)
{
    bool fine = true;
    for (size_t end = older->length, at = end; fine && end > 0; end = at > 0 ? at - 1 : 0) {
        for (at = end; at > 0 && older->data[at - 1];)
            at--;
        fine = append_text(to, older->data + at);
    }
    return fine;
}

// As the draft's file has it, if this is the line now, or while a search has the line. False: no memory.
static bool gather(const struct recall *recall, const char *text, struct gathered *to)
{
    int at = history_length;
    const HIST_ENTRY *entry = current_history();
    char *aside = look_aside();
    bool fine = (entry && strcmp(entry->line, text) == 0) || append_text(to, text);
    fine = fine && append_text(to, aside) && append_text(to, recall->searched_from);
    fine = fine && gather_older(&recall->owed, to);
    for (const char *line; fine && (line = next_changed(recall, &at));)
        fine = append_text(to, line);
    free(aside);
    return fine;
}

// Those of the texts that no history has. False: no memory.
static bool find_lost(const struct recall *recall, const struct bytes *texts, struct bytes *lost)
{
    bool fine = true;
    for (size_t at = 0; at < texts->length; at += strlen(texts->data + at) + 1) {
        const char *text = texts->data + at;
        bool kept = is_blank(text) || (recall->history_path && is_kept(&recall->history, text));
        fine = fine && (kept || recall_lose(lost, text));
    }
    return fine;
}

static void remember_searched_from(struct recall *recall)
{
    if (recall->searched_from)
        add_draft(recall, recall->searched_from);
    free(recall->searched_from);
    recall->searched_from = NULL;
}

// That draft, and one that a search took the place of.
void recall_remember_left(struct recall *recall)
{
    char *draft = change_aside(NULL);
    remember_searched_from(recall);
    if (draft)
        add_draft(recall, draft);
    free(draft);
}

// A line of the history that was changed and kept so has what can be undone up to there; the buffer, where it is
// changed further, has more on top of that, and frees all of it. So these are parted where the line is left.
static void part_from_history(void)
{
    const HIST_ENTRY *entry = current_history();
    UNDO_LIST *kept = entry ? entry->data : NULL, **at = &rl_undo_list;
    while (kept && *at && *at != kept)
        at = &(*at)->next;
    if (kept && *at)
        *at = NULL;
}

bool recall_remember(struct recall *recall, const char *text)
{
    char *copy = strdup(text); // it may be the line
    if (!copy)
        return false;
    recall->lost = false;
    part_from_history();
    recall_remember_left(recall);
    sift(&recall->owed, is_had, &(struct bytes){.data = copy, .length = strlen(copy)});
    add(recall, copy);
    free(copy);
    using_history(); // Up begins at the end again
    return !recall->lost;
}

bool recall_put_away(struct recall *recall, const char *draft)
{
    char *copy = strdup(draft); // it may be the line
    bool kept = copy && recall_remember(recall, copy);
    if (copy && *copy && !kept)
        recall_lose(&recall->owed, copy);
    free(copy);
    return kept;
}

void recall_sent(struct recall *recall, const char *text)
{
    if (!history_refusal(strlen(text)) && !bytes_have_text(&recall->sent, text))
        recall_lose(&recall->sent, text); // without memory only a chat that is killed loses it
}

void recall_sent_came_back(struct recall *recall, const char *text)
{
    struct bytes back = {.data = (char *)text, .length = strlen(text)};
    if (bytes_have_text(&recall->sent, text) &&
        (bytes_have_text(&recall->owed, text) || recall_lose(&recall->owed, text)))
        sift(&recall->sent, is_had, &back);
}

void recall_sent_is_safe(struct recall *recall)
{
    recall->sent.length = 0;
}

bool recall_keeps(struct recall *recall, const char *text)
{
    recall->lost = false;
    if (!recall->history_path || !is_kept(&recall->history, text))
        keep(recall, text);
    return !recall->lost;
}

// Where readline left a line of the history and has nothing kept aside to show, it goes on with that line's text and
// with what can be undone there, which would be freed with the next line.
static void part_from_others(struct recall *recall)
{
    HIST_ENTRY **entries = history_list();
    if (where_history() == recall->where)
        return;
    recall->where = where_history();
    for (size_t i = 0; rl_undo_list && entries && entries[i]; i++)
        if (entries[i]->data == rl_undo_list && entries[i] != current_history())
            rl_undo_list = NULL;
}

// What can be undone is kept with the line, so that readline sees by its newest step whether there is more: that one
// gets an end, and a beginning below it, and is undone as ever.
void recall_part_changes(struct recall *recall)
{
    part_from_others(recall);
    const HIST_ENTRY *entry = current_history();
    UNDO_LIST *last = rl_undo_list, *begin = NULL;
    if (entry && entry->data == last && last && last->what == UNDO_INSERT)
        begin = malloc(sizeof *begin); // without memory as readline has it
    if (!begin)
        return;
    *begin = (UNDO_LIST){.next = last->next, .what = UNDO_BEGIN};
    last->next = begin;
    rl_add_undo(UNDO_END, 0, 0, NULL);
}

void recall_insert(struct recall *recall, const char *text)
{
    recall_part_changes(recall);
    rl_insert_text(text);
}

// readline keeps the line as it was changed only where that can be undone.
void recall_change_line(const char *text)
{
    rl_begin_undo_group();
    rl_delete_text(0, rl_end);
    rl_point = 0;
    rl_insert_text(text);
    rl_end_undo_group();
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

char *recall_stays_words(char *out, size_t size, const char *path)
{
    struct bytes quoted = {0};
    if (swap_file_is(path))
        snprintf(out, size, "vim -r %s has what vim did not write; it stays until you remove that file.",
                 quote_shell(&quoted, path) ? quoted.data : path);
    else
        snprintf(out, size, "%s has what was typed and is in no history%s.", path,
                 draft_file_is_elsewhere(path) ? "" : ": it stays there");
    bytes_release(&quoted);
    return out;
}

char *recall_apart_words(char *out, size_t size, const char *path, const char *why)
{
    if (path)
        snprintf(out, size, "What you type can't be kept beside the history (%s); it is kept in %s.", why, path);
    else
        snprintf(out, size, "What you type can't be kept in a file (%s); if the chat is killed it is lost.", why);
    return out;
}

// Once where it is, and once that it is nowhere.
static void tell_apart(struct recall *recall)
{
    const struct draft_file *file = &recall->draft_file;
    int code = recall->history_path ? file->why : recall->no_place;
    enum recall_apart apart = file->stale ? RECALL_NOWHERE : file->elsewhere ? RECALL_ELSEWHERE : RECALL_BESIDE;
    if (apart <= recall->apart_told)
        return;
    recall->apart_told = apart;
    if (recall->apart)
        recall->apart(recall->context, file->stale ? NULL : file->path, history_reason(code ? code : ENOMEM));
}

static void keep_gathered(struct recall *recall, const struct gathered *now)
{
    draft_file_keep(&recall->draft_file, &now->texts);
    tell_apart(recall);
}

int recall_draft_wait(const struct recall *recall, uint64_t now_ms)
{
    return now_ms < recall->keep_at_ms ? (int)(recall->keep_at_ms - now_ms) : 0;
}

int recall_keep_draft(struct recall *recall, const char *text, uint64_t now_ms)
{
    struct gathered now = {0};
    bool fine = gather(recall, text, &now) && gather_older(&recall->sent, &now);
    bool held = fine && draft_file_holds(&recall->draft_file, &now.texts);
    if (held)
        recall->keep_at_ms = 0;
    else if (!recall->keep_at_ms)
        recall->keep_at_ms = now_ms + KEEP_MS;
    int wait = held ? -1 : recall_draft_wait(recall, now_ms);
    if (wait == 0) {
        if (fine)
            keep_gathered(recall, &now);
        recall->keep_at_ms = 0;
        wait = -1;
    }
    bytes_release(&now.texts);
    return wait;
}

void recall_keep_draft_now(struct recall *recall, const char *text)
{
    struct gathered now = {0};
    if (gather(recall, text, &now) && gather_older(&recall->sent, &now))
        keep_gathered(recall, &now);
    recall->keep_at_ms = 0;
    bytes_release(&now.texts);
}

int recall_edit(struct recall *recall, char *path, size_t size)
{
    return draft_file_edit(&recall->draft_file, path, size);
}

size_t recall_open(struct recall *recall)
{
    using_history();
    stifle_history(HISTORY_ENTRIES);
    recall->history_path = history_path();
    recall->no_place = errno;
    int code = recall->history_path ? history_load(&recall->history, recall->history_path) : 0;
    if (code && code != ENOENT)
        report("%s: the history can't be read: %s", recall->history_path, history_reason(code));
    for (size_t i = 0; i < recall->history.count; i++)
        add_history(recall->history.entries[i]);
    draft_file_begin(&recall->draft_file, recall->history_path);
    const struct draft_taker taker = {adopt, recall->stays ? stays : NULL, recall};
    size_t adopted = draft_file_adopt(&recall->draft_file, &taker);
    if (recall->stays)
        draft_file_find_elsewhere(&taker);
    using_history();
    return adopted;
}

bool recall_lose(struct bytes *lost, const char *text)
{
    return bytes_append(lost, "", lost->length > 0) && bytes_append(lost, text, strlen(text));
}

void recall_tell_lost(const struct bytes *lost, bool whole)
{
    size_t end = 0;
    for (size_t at = 0; at < lost->length; at = end + 1) {
        end = at + strlen(lost->data + at);
        bool more = at == 0 && end < lost->length;
        if (at == 0)
            printf("Not sent, and no history or file takes %s:\n", more ? "them; here they are" : "it; here it is");
        fputc('\n', stdout);
        report_text(stdout, lost->data + at, end - at);
        fputc('\n', stdout);
    }
    if (!whole)
        report("what was typed and not sent is lost: no history or file takes it");
}

// False: the history lacks something of it.
static bool keep_typed(struct recall *recall, const char *draft, const char *behind, bool *has_behind)
{
    recall->lost = false;
    keep_changed(recall);
    keep_owed(recall);
    if (!draft)
        remember_searched_from(recall);
    bool safe = !recall->lost && !recall->owed.length && !recall->sent.length;
    safe = (!draft || recall_remember(recall, draft)) && safe;
    *has_behind = recall_keeps(recall, behind);
    return safe && *has_behind;
}

struct recall_end recall_close(struct recall *recall, const char *draft, const char *behind, struct bytes *lost)
{
    struct gathered typed = {0};
    struct recall_end end = {0};
    bool gathered = append_text(&typed, behind) && gather(recall, draft ? draft : "", &typed);
    bool safe = keep_typed(recall, draft, behind, &end.behind) && !lost->length, partly = typed.partly;
    size_t length = typed.texts.length;
    gathered = gathered && gather_older(lost, &typed) && gather_older(&recall->sent, &typed);
    if (!safe && gathered)
        draft_file_keep(&recall->draft_file, &typed.texts);
    char *path = !safe && recall->draft_file.path ? strdup(recall->draft_file.path) : NULL;
    bool elsewhere = recall->draft_file.elsewhere, kept = draft_file_end(&recall->draft_file, safe) && gathered;
    if (kept)
        sift(lost, is_had, &typed.texts);
    if (kept && (elsewhere || draft_file_stays(&typed.texts)))
        end.stays = path;
    else
        free(path);
    end.behind = end.behind || (kept && !end.stays && bytes_have_text(&typed.texts, behind));
    typed.texts.length = length; // the others are in `lost`
    end.told = safe || (gathered && (kept || find_lost(recall, &typed.texts, lost)) && !partly);
    bytes_release(&typed.texts);
    bytes_release(&recall->owed);
    bytes_release(&recall->sent);
    clear_history();
    history_release(&recall->history);
    free(recall->history_path);
    recall->history_path = NULL;
    return end;
}
