// SPDX-License-Identifier: GPL-3.0-or-later
// A store with a pretended engine and the last error, for tests of what a session becomes turn by turn.
#ifndef MOECHAT_STORE_PLACE_H
#define MOECHAT_STORE_PLACE_H

#include <time.h>

#include "tests/store_rig.h"

struct place {
    char root[64];
    struct store store;
    struct rig_engine engine;
    struct store_error error;
};

static inline struct place *open_place(void)
{
    struct place *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->store = rig_store(p->root);
    return p;
}

static inline void close_place(struct place *p)
{
    rig_clean(p->root);
    free(p);
}

static inline struct saved *new_session(struct harness *t, struct place *p, const char *name)
{
    struct saved *saved;
    struct origin origin = rig_origin();
    CHECK_EQ(t, saved_new(&p->store, name, &saved, &p->error), STORE_OK);
    saved_set_origin(saved, &origin);
    return saved;
}

static inline void commit(struct harness *t, struct place *p, struct saved *saved)
{
    struct saved_rows rows = rig_rows(&p->engine);
    CHECK_EQ(t, saved_commit(saved, &rows, &p->error), STORE_OK);
    CHECK_STR(t, p->error.text, "");
}

static inline void exchange(struct harness *t, struct place *p, struct saved *saved, const char *user,
                            const char *answer)
{
    CHECK(t, rig_append(saved, TOK_USER, user, &p->engine));
    commit(t, p, saved);
    CHECK(t, rig_append(saved, TOK_ASSISTANT, answer, &p->engine));
    commit(t, p, saved);
}

// Opens a session anew and compares its texts and rows with those of the engine.
static inline void check_session(struct harness *t, struct place *p, const char *name, const char *texts, bool rows)
{
    struct saved *saved;
    struct saved_content content;
    char got[1024];
    struct rig_engine *back = calloc(1, sizeof *back);
    if (!CHECK_EQ(t, saved_open(&p->store, name, &saved, &content, &p->error), STORE_OK)) {
        printf("    %s\n", p->error.text);
        return;
    }
    rig_texts(&content, got, sizeof got);
    CHECK_STR(t, got, texts);
    CHECK_STR(t, content.damage, "");
    CHECK(t, rig_restore(saved, back));
    CHECK_EQ(t, back->length, rows ? p->engine.length : 0);
    CHECK(t, memcmp(back->rows, p->engine.rows, back->length * sizeof back->rows[0]) == 0);
    free(back);
    saved_content_release(&content);
    saved_close(saved);
}

// Makes a session say that it was used so many seconds ago.
static inline void used_at(struct harness *t, const struct place *p, const char *name, int64_t ago)
{
    struct saved_content content;
    struct store_error error;
    struct bytes file = {0};
    CHECK_EQ(t, saved_read(&p->store, name, &content, &error), STORE_OK);
    content.manifest.updated = (uint64_t)(time(NULL) - ago);
    content.manifest.updated_ns = 0; // the file's
    CHECK(t, manifest_render(&content.manifest, &file));
    FILE *out = fopen(store_path(&p->store, name, "session.json").text, "wb");
    CHECK(t, out && fwrite(file.data, 1, file.length, out) == file.length && fclose(out) == 0);
    bytes_release(&file);
    saved_content_release(&content);
}

#endif
