// SPDX-License-Identifier: GPL-3.0-or-later
// What can be done to a saved conversation, and the states that it may be found in afterwards, for tests that let it go
// wrong half-way.
#ifndef MOECHAT_STORE_ACTS_H
#define MOECHAT_STORE_ACTS_H

#include "tests/store_rig.h"

// What is done to the session "talk", which holds one|first|two|second.
struct act {
    const char *name, *new_texts;
    const char *new_name;
    bool (*run)(struct saved *saved, struct rig_engine *engine, struct store_error *error);
    const char *between; // a state that is committed on the way
};
static const char old_texts[] = "one|first|two|second";
enum { BORDER = 4 + 6 }; // tokens of the first exchange

static inline bool commit(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    struct saved_rows rows = rig_rows(engine);
    return saved_commit(saved, &rows, error) == STORE_OK;
}

static inline bool run_save(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    if (engine->length == BORDER + 4 + 7) {
        rig_append(saved, TOK_USER, "three", engine);
        rig_append(saved, TOK_ASSISTANT, "third", engine);
    }
    struct saved_rows rows = rig_rows(engine);
    rows.borders[0] = BORDER + 4 + 7;
    rows.borders[1] = BORDER + 4 + 7 + 3;
    return saved_commit(saved, &rows, error) == STORE_OK;
}

static inline bool run_undo(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    saved_cut(saved, BORDER);
    engine->length = BORDER;
    return saved_commit(saved, NULL, error) == STORE_OK;
}

// A cut and its replacement in one commit, as a retry does it.
static inline bool run_retry(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    if (engine->length != BORDER + 4 + 8) {
        saved_cut(saved, BORDER + 4);
        engine->length = BORDER + 4;
        rig_append(saved, TOK_ASSISTANT, "another", engine);
    }
    return commit(saved, engine, error);
}

// Undo that is on the disk, then a turn: dead bytes at the end are overwritten.
static inline bool run_undo_and_save(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    if (engine->length != BORDER + 2 + 2) {
        if (!run_undo(saved, engine, error))
            return false;
        rig_append(saved, TOK_USER, "2", engine);
        rig_append(saved, TOK_ASSISTANT, "3", engine);
    }
    return commit(saved, engine, error);
}

static inline bool run_compact(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    (void)engine;
    return saved_compact(saved, error) == STORE_OK;
}

// To the other answer of the first message, whose rows were saved before.
static inline bool run_go(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    return saved_go(saved, 1) && rig_restore(saved, engine) &&
           engine->length == manifest_tokens(saved_manifest(saved)) && commit(saved, engine, error);
}

static inline bool run_prune(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    (void)engine;
    return saved_prune(saved, error) == STORE_OK;
}

static inline bool run_rename(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    (void)engine;
    return strcmp(saved_name(saved), "other") == 0 || saved_rename(saved, "other", error) == STORE_OK;
}

static inline bool run_foreign(struct saved *saved, struct rig_engine *engine, struct store_error *error)
{
    struct origin other = rig_origin();
    other.kv_type = MOE_KV_F16;
    saved_set_origin(saved, &other);
    return run_save(saved, engine, error);
}

static const struct act acts[] = {
    {"save", "one|first|two|second|three|third", NULL, run_save, NULL},
    {"undo", "one|first", NULL, run_undo, NULL},
    {"retry", "one|first|two|another", NULL, run_retry, NULL},
    {"undo and save", "one|first|2|3", NULL, run_undo_and_save, "one|first"},
    {"compact", old_texts, NULL, run_compact, NULL},
    {"go", "one|first, to be retried", NULL, run_go, NULL},
    {"prune", old_texts, NULL, run_prune, NULL},
    {"rename", old_texts, "other", run_rename, NULL},
    {"other rows", "one|first|two|second|three|third", NULL, run_foreign, NULL},
};

static inline void prepare(const struct store *store)
{
    struct rig_engine *engine = rig_engine_new(true);
    struct saved *saved;
    struct store_error error;
    struct origin origin = rig_origin();
    if (saved_new(store, "talk", &saved, &error))
        abort();
    saved_set_origin(saved, &origin);
    // With another branch in the middle, for prune to remove.
    rig_append(saved, TOK_USER, "one", engine);
    rig_append(saved, TOK_ASSISTANT, "first, to be retried", engine);
    if (!commit(saved, engine, &error))
        abort();
    saved_cut(saved, 4);
    engine->length = 4;
    rig_append(saved, TOK_ASSISTANT, "first", engine);
    rig_append(saved, TOK_USER, "two", engine);
    rig_append(saved, TOK_ASSISTANT, "second", engine);
    if (engine->length != BORDER + 4 + 7 || !commit(saved, engine, &error))
        abort();
    saved_close(saved);
    free(engine);
}

// A file of states that nothing names is one that the next save writes to or removes: there are never more than a few.
static inline bool few_states(const struct saved *saved)
{
    unsigned there = 0;
    for (unsigned i = 0; i < STATE_FILES; i++)
        there += access(saved_state_path(saved, i).text, F_OK) == 0;
    return there <= saved_manifest(saved)->n_states + MOE_BORDERS + 1;
}

// Says which state "name" opens in: 0 none, 1 old, 2 new, -1 wrong.
static inline int state_of(const struct store *store, const char *name, const struct act *act)
{
    struct saved *saved;
    struct saved_content content;
    struct store_error error;
    char texts[256];
    struct rig_engine *engine = rig_engine_new(true);
    enum store_code code = saved_open(store, name, &saved, &content, &error);
    if (code == STORE_NOT_FOUND) {
        free(engine);
        return 0;
    }
    if (code) {
        printf("    opening: %s\n", error.text);
        free(engine);
        return -1;
    }
    rig_texts(&content, texts, sizeof texts);
    bool sound = !*content.damage && rig_restore(saved, engine) && few_states(saved);
    bool old = strcmp(texts, old_texts) == 0 || (act->between && strcmp(texts, act->between) == 0);
    int state = !sound ? -1 : strcmp(texts, act->new_texts) == 0 ? 2 : old ? 1 : -1;
    if (state < 0)
        printf("    \"%s\", damage \"%s\"\n", texts, content.damage);
    saved_content_release(&content);
    saved_close(saved);
    free(engine);
    return state;
}

static inline int any_state(const struct store *store, const struct act *act)
{
    int old = state_of(store, "talk", act), new = act->new_name ? state_of(store, act->new_name, act) : 0;
    return old < 0 || new < 0 || (old && new) ? -1 : old + new;
}

#endif
