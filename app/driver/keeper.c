// SPDX-License-Identifier: GPL-3.0-or-later
// Commits turns to the saved conversation, and brings its rows back.
#include "app/driver/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/driver/worker.h"

// Takes a sentence out of a text of sentences, with what parted it from the others.
static void take_out(char *text, const char *sentence)
{
    char *at = *sentence ? strstr(text, sentence) : NULL;
    if (!at)
        return;
    char *rest = at + strlen(sentence);
    if (strncmp(rest, "; ", 2) == 0)
        rest += 2;
    else if (at - text >= 2)
        at -= 2;
    memmove(at, rest, strlen(rest) + 1);
}

// Before the next news a save has written rows, or tried to: what another has said of them since the last is over.
static void renew_rows(struct keeper *keeper, const struct store_error *error)
{
    take_out(keeper->news.text, keeper->of_rows);
    snprintf(keeper->of_rows, sizeof keeper->of_rows, "%.*s", (int)error->of_rows, error->text);
}

// What became of a commit, for the next news, behind what was said of the commits since the last: a turn has several.
static void note(struct keeper *keeper, enum store_code code, const struct store_error *error)
{
    keeper->unsaved = code != STORE_OK;
    keeper->news.failed = keeper->unsaved;
    char *text = keeper->news.text;
    size_t at = strlen(text);
    if (*error->text && !strstr(text, error->text))
        snprintf(text + at, sizeof keeper->news.text - at, "%s%s", at ? "; " : "", error->text);
}

static void commit(struct keeper *keeper, const uint32_t *borders)
{
    const struct backend *backend = keeper->backend;
    struct backend_info info;
    backend->ops->describe(backend->self, &info);
    struct saved_rows rows = {.length = backend->ops->length(backend->self),
                              .answer_follows = borders,
                              .states = info.cache.state_bytes > 0,
                              .write = backend->ops->write_record,
                              .context = backend->self};
    struct store_error error;
    if (borders)
        memcpy(rows.borders, borders, sizeof rows.borders);
    enum store_code code = saved_commit(keeper->saved, &rows, &error);
    renew_rows(keeper, &error);
    note(keeper, code, &error);
}

// Saves what is missing there. What there is to say goes to the next news.
void keeper_commit(struct keeper *keeper)
{
    commit(keeper, NULL);
}

void keeper_save_text(struct keeper *keeper)
{
    struct store_error error;
    enum store_code code = saved_commit(keeper->saved, NULL, &error);
    note(keeper, code, &error);
}

// A part could not even be noted.
static void fail_part(struct keeper *keeper)
{
    keeper->hole = true;
    keeper->news.failed = true;
    snprintf(keeper->news.text, sizeof keeper->news.text, "conversation not saved: %s", saved_refused(keeper->saved));
}

void keeper_lose(struct keeper *keeper)
{
    saved_cut(keeper->saved, 0);
    keeper->hole = keeper->news.failed = true;
    snprintf(keeper->news.text, sizeof keeper->news.text,
             "conversation not saved: this branch of it could not be; /fork NAME saves it anew");
}

// Does the session hold all that comes before token `position`? What could not be appended leaves a hole, and what
// follows it would be another conversation.
static bool reaches(struct keeper *keeper, size_t position)
{
    keeper->hole = manifest_tokens(saved_manifest(keeper->saved)) != position;
    if (!keeper->hole)
        return true;
    keeper->news.failed = true;
    if (!*keeper->news.text && !*keeper->told)
        snprintf(keeper->news.text, sizeof keeper->news.text,
                 "conversation not saved: what came before could not be; /fork NAME saves all of it");
    return false;
}

static bool fill_part(struct keeper *keeper, struct part *part, const int32_t *ids, size_t count)
{
    struct backend_info info;
    struct tok_err err;
    keeper->backend->ops->describe(keeper->backend->self, &info);
    part->language = info.origin.language;
    return tok_ids_append_all(&part->ids, ids, count, &err) == 0;
}

// Message i of the prompt, whose ids begin at `begin`.
static bool make_message(struct keeper *keeper, const struct turn *turn, const struct turn_result *result, size_t i,
                         size_t begin, struct part *part)
{
    *part = (struct part){.role = turn->turns[i].role, .number = turn->number + (uint32_t)i, .made = turn->made[i]};
    if (!part->made.time)
        part->made.time = result->asked;
    return bytes_append(&part->text, turn->turns[i].text, turn->turns[i].length) &&
           fill_part(keeper, part, result->prompt.ids + begin, result->prompt_ends[i] - begin);
}

void keeper_save_text_first(struct keeper *keeper)
{
    struct store_error error;
    bool failed = keeper->news.failed;
    keeper->unsaved = saved_commit(keeper->saved, NULL, &error) != STORE_OK;
    if (!keeper->unsaved)
        note(keeper, STORE_OK, &error); // such as whose rows the cap took
    keeper->news.failed = failed;
}

const char *keeper_tell(struct keeper *keeper)
{
    if (!keeper->news.failed || !*keeper->news.text)
        return NULL;
    memcpy(keeper->told, keeper->news.text, sizeof keeper->told);
    *keeper->news.text = 0;
    return keeper->told;
}

void keeper_end_turn(struct keeper *keeper)
{
    struct session_news *news = &keeper->news;
    take_out(news->text, keeper->told);
    if (*keeper->told && !*news->text && !keeper->unsaved && !keeper->hole)
        snprintf(news->text, sizeof news->text, "the conversation is saved now");
    *keeper->told = 0;
}

// Of system messages those that no branch begins with.
static void drop_systems(struct keeper *keeper)
{
    const struct manifest *manifest = saved_manifest(keeper->saved);
    for (size_t i = manifest->n_others; i > 0; i--)
        if (manifest->others[i - 1].role == TOK_SYSTEM)
            saved_drop(keeper->saved, manifest->others[i - 1].number);
}

void keeper_save_message(struct keeper *keeper, const struct turn *turn, const struct turn_result *result)
{
    size_t begin = result->n_same ? result->prompt_ends[result->n_same - 1] : 0;
    uint32_t position = turn->position + (uint32_t)begin;
    if (!keeper->saved)
        return;
    saved_cut(keeper->saved, position);
    if (!reaches(keeper, position))
        return;
    for (uint32_t n = turn->instead.count; n > 0; n--) // one after the other, as they were appended
        saved_drop(keeper->saved, turn->instead.first + n - 1);
    bool fine = true;
    for (size_t i = result->n_same; i < turn->n_turns && fine; i++) {
        struct part part;
        fine = make_message(keeper, turn, result, i, begin, &part) && saved_append(keeper->saved, &part);
        begin = result->prompt_ends[i];
        part_release(&part);
    }
    if (!fine) {
        saved_cut(keeper->saved, position);
        fail_part(keeper);
        return;
    }
    drop_systems(keeper); // that was saved by itself, before there was this message
    uint32_t before = turn->n_turns > 1 ? (uint32_t)result->prompt_ends[turn->n_turns - 2] : 0;
    keeper->unanswered = (struct keeper_unanswered){true, turn->position + before};
    keeper_save_text(keeper);
}

void keeper_leave_message(struct keeper *keeper)
{
    if (keeper->saved && keeper->unanswered.there)
        saved_cut(keeper->saved, keeper->unanswered.position);
    keeper->unanswered.there = false;
}

void keeper_save_prompt(struct keeper *keeper, const struct turn *turn, const uint32_t *borders)
{
    if (!keeper->saved || !keeper->unanswered.there)
        return; // it was said why
    for (size_t i = turn->n_left; i > 0; i--)
        saved_drop(keeper->saved, turn->left[i - 1]);
    commit(keeper, borders);
}

void keeper_leave_answer(struct keeper *keeper, uint32_t position)
{
    const struct manifest *manifest = saved_manifest(keeper->saved);
    keeper->waits = manifest_tokens(manifest) == position && manifest_unanswered(manifest);
    saved_cut_for_answer(keeper->saved, position);
}

void keeper_save_read(struct keeper *keeper)
{
    static const uint32_t none[MOE_BORDERS];
    if (keeper->saved && keeper->waits)
        commit(keeper, none);
}

void keeper_save_system(struct keeper *keeper, const struct bytes *text, uint32_t number, uint64_t time)
{
    struct part part = {.role = TOK_SYSTEM, .number = number, .made.time = time};
    if (!keeper->saved)
        return;
    keeper_leave_message(keeper);
    saved_cut(keeper->saved, 0);
    drop_systems(keeper); // the one before it
    bool fine = !text->length || (bytes_append(&part.text, text->data, text->length) &&
                                  fill_part(keeper, &part, NULL, 0) && saved_append(keeper->saved, &part));
    part_release(&part);
    if (!fine)
        fail_part(keeper);
    else if (saved_manifest(keeper->saved)->next_part) // else nothing was ever saved
        keeper_save_text(keeper);
}

static bool make_answer(struct keeper *keeper, const struct turn *turn, const struct turn_result *result,
                        struct part *part)
{
    *part =
        (struct part){.number = turn->number + (uint32_t)turn->n_turns, .role = TOK_ASSISTANT, .made = result->made};
    return bytes_append(&part->text, result->text.data ? result->text.data : "", result->text.length) &&
           fill_part(keeper, part, result->answer.ids, result->answer.count);
}

bool keeper_save_answer(struct keeper *keeper, const struct turn *turn, const struct turn_result *result)
{
    struct part part;
    if (!keeper->saved || !reaches(keeper, turn->position + result->prompt.count))
        return false;
    bool fine = make_answer(keeper, turn, result, &part) && saved_append(keeper->saved, &part);
    part_release(&part);
    if (!fine) {
        fail_part(keeper);
        return false;
    }
    keeper->unanswered.there = false;
    keeper_save_text_first(keeper);
    return true;
}

bool keeper_logits(struct keeper *keeper)
{
    const struct backend *backend = keeper->backend;
    const struct manifest *manifest = keeper->saved ? saved_manifest(keeper->saved) : NULL;
    const struct moe_record *last =
        manifest && manifest->n_records ? &manifest->records[manifest->n_records - 1] : NULL;
    if (!last || !last->has_logits || manifest_rows(manifest) != backend->ops->length(backend->self))
        return false;
    struct store_path path = saved_kv_path(keeper->saved);
    int fd = saved_open_rows(keeper->saved);
    struct moe_record_io io = {.fd = fd, .path = path.text};
    struct moe_err err;
    bool fine = fd >= 0 && backend->ops->read_record(backend->self, &io, last, true, &err) == 0;
    if (fd >= 0)
        close(fd);
    return fine;
}

// Tokens that a conversation of so many comes to with the shortest answer.
static size_t with_answer(const struct keeper *keeper, size_t tokens)
{
    return tokens + turn_answer_room(keeper->backend, false, keeper->think);
}

bool keeper_has_room(struct keeper *keeper, size_t tokens)
{
    enum { STEP = 1024 };
    struct backend_info info;
    size_t needed = with_answer(keeper, tokens);
    keeper->backend->ops->describe(keeper->backend->self, &info);
    if (needed <= info.max_context)
        return true;
    size_t enough = (tokens / STEP + 2) * STEP, limit = info.context_limit ? info.context_limit : SIZE_MAX;
    char more[64] = "";
    const char *how = tokens < info.max_context    ? "leave no room for an answer in"
                      : tokens == info.max_context ? "fill"
                                                   : "do not fit into";
    if (needed <= limit)
        snprintf(more, sizeof more, "with --context %zu it goes on, and ", enough < limit ? enough : limit);
    snprintf(keeper->news.text, sizeof keeper->news.text,
             "the conversation's %zu tokens %s a context of %" PRIu32
             ", so nothing can follow them here; %s/undo goes back to where there is room",
             tokens, how, info.max_context, more);
    return false;
}

bool keeper_has_more(const struct keeper *keeper)
{
    const struct backend *backend = keeper->backend;
    return keeper->saved && manifest_rows(saved_manifest(keeper->saved)) > backend->ops->length(backend->self);
}

const char *keeper_restore(struct keeper *keeper, uint32_t most, struct moe_err *err)
{
    const struct backend *backend = keeper->backend;
    const struct manifest *manifest = keeper->saved ? saved_manifest(keeper->saved) : NULL;
    if (!manifest || !manifest->n_records)
        return manifest ? saved_why_no_rows(keeper->saved) : "this conversation is not saved";
    struct store_path path = saved_kv_path(keeper->saved);
    int fd = saved_open_rows(keeper->saved);
    const char *why = fd >= 0 ? NULL : errno == ENOENT ? "its KV cache is missing" : "its KV cache cannot be opened";
    struct moe_record_io io = {
        .fd = fd, .path = path.text, .progress = keeper->progress, .progress_context = keeper->progress_context};
    struct backend_info info;
    backend->ops->describe(backend->self, &info);
    most = most < info.max_context ? most : info.max_context;
    for (size_t i = 0; i < manifest->n_records && !why; i++) {
        const struct moe_record *record = &manifest->records[i];
        uint32_t length = backend->ops->length(backend->self);
        if (record->first + record->count <= length || record->first + record->count > most)
            continue;
        bool fine = record->first >= length || backend->ops->truncate(backend->self, record->first, err) == 0;
        if (record->first > length)
            why = manifest->capped ? saved_why_no_rows(keeper->saved) : "a part of its KV cache is not saved";
        else if (!fine || backend->ops->read_record(backend->self, &io, record, false, err))
            why = err->text;
    }
    if (why)
        saved_forget_rows(keeper->saved, backend->ops->length(backend->self));
    if (fd >= 0)
        close(fd);
    return why;
}

static const char states_not_saved[] = "the states of its end were not saved";

// Reads the states that were saved, as far as the rows reach and they are good, and cuts the timeline to the last place
// where it can stand. Returns why that is not its end.
static const char *restore_states(struct keeper *keeper, struct moe_err *err)
{
    const struct backend *backend = keeper->backend;
    const struct manifest *manifest = saved_manifest(keeper->saved);
    uint32_t length = backend->ops->length(backend->self);
    const char *why = states_not_saved;
    for (size_t i = 0; i < manifest->n_states && manifest->states[i].record.first <= length; i++) {
        const struct manifest_state *state = &manifest->states[i];
        struct store_path path = saved_state_path(keeper->saved, state->file);
        int fd = saved_open_state(keeper->saved, state->file);
        struct moe_record_io io = {
            .fd = fd, .path = path.text, .progress = keeper->progress, .progress_context = keeper->progress_context};
        if (fd < 0)
            why = errno == ENOENT ? "its states are missing" : "its states cannot be opened";
        else if (backend->ops->read_record(backend->self, &io, &state->record, false, err))
            why = err->text;
        if (fd >= 0)
            close(fd);
    }
    uint32_t floor = backend->ops->floor(backend->self, length);
    bool stands = backend->ops->truncate(backend->self, floor, err) == 0;
    return !stands ? err->text : floor < length ? why : NULL;
}

// What keeps a session's rows from being of use here, NULL: nothing.
static const char *foreign(const struct saved *saved, const struct origin *is)
{
    const struct origin *was = &saved_manifest(saved)->origin;
    if (!*was->weights) // its manifest was lost
        return saved_why_no_rows(saved);
    if (!origin_is_of(was, is))
        return "it was saved with different weights or settings";
    bool same_shape = was->n_layers == is->n_layers && was->row_width == is->row_width;
    if (!saved_manifest(saved)->n_records && (!same_shape || was->kv_type != is->kv_type))
        return saved_why_no_rows(saved); // there are none to be of another format
    if (was->kv_type != is->kv_type)
        return "its KV cache has another number format (--kv)";
    if (!same_shape)
        return "its KV cache has another shape";
    return NULL;
}

void keeper_save_as(struct keeper *keeper, const char *name)
{
    struct session_news *news = &keeper->news;
    struct store_error error = {0};
    if (!keeper->saved)
        return;
    news->failed = *name && saved_rename(keeper->saved, name, &error);
    if (news->failed)
        snprintf(news->text, sizeof news->text, "%s", error.text);
    else if (keeper->unsaved || (!saved_is_kept(keeper->saved) && saved_manifest(keeper->saved)->next_part))
        keeper_commit(keeper);
    if (!news->failed && keeper->hole) {
        news->failed = true;
        snprintf(news->text, sizeof news->text,
                 "the last messages could not be saved; /fork NAME saves all of the conversation");
    }
}

void keeper_close(struct keeper *keeper)
{
    if (keeper->saved && (keeper->unsaved || saved_owes_cap(keeper->saved)))
        keeper_commit(keeper);
    if (keeper->saved && !keeper->unsaved && manifest_unanswered(saved_manifest(keeper->saved))) {
        keeper->news.unanswered = true; // of this turn, or gone back to
        snprintf(keeper->news.name, sizeof keeper->news.name, "%s", saved_name(keeper->saved));
    }
    keeper->unanswered.there = false;
    keeper->news.failed = keeper->unsaved || keeper->hole;
    keeper->unsaved = keeper->hole = false;
    saved_close(keeper->saved);
    keeper->saved = NULL;
}

void keeper_leave(struct keeper *keeper)
{
    char name[STORE_NAME_SIZE] = "";
    const struct store *store = keeper->saved ? saved_store(keeper->saved) : NULL;
    struct store_error error;
    if (keeper->saved && saved_is_blank(keeper->saved))
        snprintf(name, sizeof name, "%s", saved_name(keeper->saved));
    keeper_close(keeper);
    if (*name && store_remove(store, name, &error))
        snprintf(keeper->news.text, sizeof keeper->news.text, "%s", error.text);
}

// Rows of other weights, or of another format, are somebody's still: the conversation goes on under a new name. Writes
// to `said` what became of it, behind whose they are.
static void leave_to_its_model(struct keeper *keeper, const struct origin *is, char *said, size_t size)
{
    struct store_error error = {0};
    struct saved *fork;
    const struct origin *origin = &saved_manifest(keeper->saved)->origin;
    char was[STORE_NAME_SIZE], model[210] = "";
    if (!origin_is_of(origin, is))
        snprintf(model, sizeof model, " (%.200s)", origin->model_path);
    snprintf(was, sizeof was, "%s", saved_name(keeper->saved));
    enum store_code code = saved_fork(keeper->saved, &fork, &error);
    saved_close(keeper->saved);
    keeper->saved = fork; // or NULL: what can't go on elsewhere is not saved, rather than written over
    if (code)
        snprintf(said, size, "%s, so \"%s\" stays as it is; what follows is not saved: %.200s", model, was, error.text);
    keeper->news.failed = code != STORE_OK;
    if (!code)
        snprintf(said, size, "%s, so \"%s\" stays as it is, and this goes on as \"%s\"", model, was, saved_name(fork));
}

// How many tokens the texts of the conversation are now; 0: not known.
static size_t count_anew(struct keeper *keeper)
{
    struct saved_content content;
    struct store_error error;
    struct moe_err err;
    struct tok_ids ids = {0};
    if (!keeper->saved || saved_read(saved_store(keeper->saved), saved_name(keeper->saved), &content, &error))
        return 0;
    size_t n = content.n_parts, *ends = calloc(n + 1, sizeof *ends);
    struct tok_turn *turns = calloc(n + 1, sizeof *turns);
    for (size_t i = 0; turns && i < n; i++)
        turns[i] = (struct tok_turn){
            .role = content.parts[i].role, .text = content.parts[i].text.data, .length = content.parts[i].text.length};
    struct backend_prompt prompt = {.turns = turns, .n_turns = n, .begin = true};
    bool fine =
        n && turns && ends && keeper->backend->ops->encode(keeper->backend->self, &prompt, &ids, ends, &err) == 0;
    size_t count = fine ? ends[n - 1] : 0;
    free(ends);
    free(turns);
    tok_ids_release(&ids);
    saved_content_release(&content);
    return count;
}

// left: see leave_to_its_model.
static void say_stale(struct keeper *keeper, const char *left)
{
    static const char why[] = "it was saved with a different tokenizer or template";
    struct session_news *news = &keeper->news;
    size_t tokens = count_anew(keeper);
    if (tokens)
        snprintf(news->text, sizeof news->text, "%s%s; your next message reads all of it again, now %zu tokens", why,
                 left, tokens);
    else
        snprintf(news->text, sizeof news->text, "%s%s; your next message reads all of it again", why, left);
}

void keeper_say_unread(char *out, size_t size, const struct keeper_unread *unread)
{
    char retry[40] = "";
    if (unread->unanswered) // it is left as a branch by another message
        snprintf(retry, sizeof retry, ", /retry %zu", unread->missing);
    snprintf(out, size, "your next message reads %s%zu of its %zu tokens again%s", unread->forgets ? "up to " : "",
             unread->missing - unread->unanswered, unread->tokens, retry);
}

// What was found of a session's rows.
struct found {
    const char *why;  // not all of them are there; NULL: nothing was in the way
    const char *left; // see leave_to_its_model
    uint32_t tokens;  // of the conversation, before what is lost
    uint32_t behind;  // of what follows that
    uint32_t waiting; // a last message's that has no answer
    bool forgets;     // see struct keeper_unread
};

// What the next message reads again, or that there is no room for it, and why.
static void say_missing(struct keeper *keeper, const struct found *found)
{
    struct session_news *news = &keeper->news;
    uint32_t all = found->tokens + found->behind;
    const char *why = found->why ? found->why : found->behind ? "" : "the end of its KV cache is not saved";
    char then[400];
    bool room = keeper_has_room(keeper, all), waits = news->missing <= found->waiting && !found->behind;
    uint32_t unanswered = waits ? news->missing : found->waiting;
    if (!room) {
        snprintf(then, sizeof then, "%.399s", news->text);
    } else if (found->behind) {
        snprintf(then, sizeof then,
                 "your next message reads %s%" PRIu32 " of its %" PRIu32
                 " tokens again, and the words in the place of what is lost",
                 found->forgets ? "up to " : "", news->missing + found->behind, all);
    } else {
        keeper_say_unread(then, sizeof then, &(struct keeper_unread){all, news->missing, unanswered, found->forgets});
    }
    if (!room && !*found->left)
        return;
    if (room && waits && !*found->left)
        snprintf(news->text, sizeof news->text,
                 "its last message was not answered: %" PRIu32 " of its %" PRIu32 " tokens are unread", news->missing,
                 found->waiting);
    else
        snprintf(news->text, sizeof news->text, "%.280s%s%s%s", why, found->left, *why || *found->left ? "; " : "",
                 then);
}

uint32_t keeper_load(struct keeper *keeper, uint32_t fed)
{
    const struct backend_ops *ops = keeper->backend->ops;
    struct session_news *news = &keeper->news;
    struct backend_info info;
    struct moe_err err = {.text = ""};
    ops->describe(keeper->backend->self, &info);
    const struct manifest *manifest = saved_manifest(keeper->saved);
    const struct manifest_part *unanswered = manifest_unanswered(manifest);
    uint32_t tokens = manifest_tokens(manifest), waiting = unanswered && fed >= tokens ? unanswered->tokens : 0;
    uint32_t behind = fed < tokens ? tokens - fed : 0; // what is lost
    tokens -= behind;
    const char *other = foreign(keeper->saved, &info.origin), *why = tokens ? other : NULL;
    uint32_t all = tokens + behind;
    news->stale = (all || manifest->n_others) && !part_language_same(&manifest->origin.language, &info.origin.language);
    if (news->stale)
        why = ""; // said later
    char left[640] = "";
    // A conversation is its model's, with rows and without.
    bool is_anothers = all && !origin_is_of(&manifest->origin, &info.origin);
    if (*manifest->origin.weights && (is_anothers || (manifest->n_records && other)) &&
        !saved_has_others_rows(keeper->saved))
        leave_to_its_model(keeper, &info.origin, left, sizeof left);
    if (*left && !news->stale)
        why = other; // also where what is lost is all of it
    ops->resume(keeper->backend->self);
    ops->make_room(keeper->backend->self, all);
    ops->describe(keeper->backend->self, &info);
    news->max_context = info.max_context;
    news->full = !news->stale && with_answer(keeper, all) > info.max_context;
    struct moe_err state_err = {.text = ""};
    if (tokens && !why) {
        why = keeper_restore(keeper, tokens, &err);
        const char *not_there = info.cache.state_bytes ? restore_states(keeper, &state_err) : NULL;
        why = why ? why : not_there;
    }
    news->cached = ops->length(keeper->backend->self);
    keeper->short_of_states = why == states_not_saved && news->cached;
    if (keeper->saved) {
        saved_set_origin(keeper->saved, &info.origin);
        if (tokens <= info.max_context) // else they are of use to whoever has more room
            saved_forget_rows(keeper->saved, news->cached);
        saved_own_rows(keeper->saved);
    }
    news->missing = tokens - news->cached;
    if (news->stale && all)
        say_stale(keeper, left);
    else if (news->missing || behind)
        say_missing(keeper, &(struct found){why, left, tokens, behind, waiting, info.turns.forgets});
    return news->cached;
}
