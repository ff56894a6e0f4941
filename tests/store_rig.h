// SPDX-License-Identifier: GPL-3.0-or-later
// A session store in a folder of its own, for tests: a pretended engine whose rows are numbers that depend on all
// tokens before them, so that rows that come back can be told from wrong ones.
#ifndef MOECHAT_STORE_RIG_H
#define MOECHAT_STORE_RIG_H

#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/store/saved.h"

enum { RIG_ROWS = 4096 };

struct rig_engine {
    uint64_t rows[RIG_ROWS]; // row i depends on tokens 0 to i
    uint32_t length;
    uint32_t fed; // tokens that had to be computed
    bool states;  // it has some, each the last row before it
};

static inline struct rig_engine *rig_engine_new(bool states)
{
    struct rig_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        abort();
    engine->states = states;
    return engine;
}

static inline void rig_feed(struct rig_engine *engine, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t before = engine->length ? engine->rows[engine->length - 1] : 7;
        engine->rows[engine->length++] = before * 6364136223846793005u + (uint64_t)ids[i] + 1;
        engine->fed++;
    }
}

static inline int rig_write(void *context, const struct saved_slot *slot, struct moe_record *record,
                            struct moe_err *err)
{
    const struct rig_engine *engine = context;
    size_t bytes = (slot->states ? 1 : slot->count) * sizeof(uint64_t), done = 0;
    const char *from = (const char *)(engine->rows + slot->first - slot->states);
    while (done < bytes) {
        ptrdiff_t wrote =
            slot->io->write(slot->io->context, slot->io->fd, from + done, bytes - done, slot->offset + done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            snprintf(err->text, sizeof err->text, "%s: %s", slot->io->path, strerror(errno));
            return MOE_IO;
        }
        done += (size_t)wrote;
    }
    *record = (struct moe_record){.offset = slot->offset,
                                  .bytes = bytes,
                                  .first = slot->first,
                                  .count = slot->count,
                                  .has_logits = slot->first + slot->count == engine->length,
                                  .has_states = slot->states};
    if (slot->states)
        record->checksum = engine->rows[slot->first - 1];
    for (uint32_t i = 0; i < slot->count; i++)
        record->checksum = record->checksum * 31 + engine->rows[slot->first + i];
    return 0;
}

static inline struct saved_rows rig_rows(struct rig_engine *engine)
{
    return (struct saved_rows){
        .length = engine->length, .states = engine->states, .write = rig_write, .context = engine};
}

static inline bool rig_state_is_sound(const struct saved *saved, const struct rig_engine *engine,
                                      const struct manifest_state *state)
{
    FILE *file = fopen(saved_state_path(saved, state->file).text, "rb");
    uint64_t sum = 0;
    bool fine = file && fread(&sum, sizeof sum, 1, file) == 1 && fgetc(file) == EOF && state->record.first > 0 &&
                state->record.first <= engine->length;
    if (file)
        fclose(file);
    return fine && sum == state->record.checksum && sum == engine->rows[state->record.first - 1];
}

// Reads a session's records back. False: one is not as it was written.
static inline bool rig_restore(const struct saved *saved, struct rig_engine *engine)
{
    const struct manifest *manifest = saved_manifest(saved);
    FILE *file = fopen(saved_kv_path(saved).text, "rb");
    bool fine = true;
    engine->length = 0;
    for (size_t i = 0; i < manifest->n_records && fine; i++) {
        const struct moe_record *record = &manifest->records[i];
        uint64_t sum = 0;
        fine = file && fseek(file, (long)record->offset, SEEK_SET) == 0 &&
               fread(engine->rows + engine->length, sizeof(uint64_t), record->count, file) == record->count;
        for (uint32_t n = 0; n < record->count && fine; n++)
            sum = sum * 31 + engine->rows[engine->length + n];
        fine = fine && sum == record->checksum;
        if (fine)
            engine->length += record->count;
    }
    if (file)
        fclose(file);
    for (size_t i = 0; i < manifest->n_states && fine; i++)
        fine = rig_state_is_sound(saved, engine, &manifest->states[i]);
    return fine;
}

// Appends a part whose ids are the bytes of its text and an end.
static inline bool rig_append(struct saved *saved, enum tok_role role, const char *text, struct rig_engine *engine)
{
    struct part part = {.role = role, .made.time = 1000};
    struct tok_err err;
    bool fine = bytes_append(&part.text, text, strlen(text));
    for (const char *c = text; *c; c++)
        tok_ids_append(&part.ids, (unsigned char)*c, &err);
    tok_ids_append(&part.ids, 300 + (int32_t)role, &err);
    if (role == TOK_ASSISTANT)
        snprintf(part.made.stop, sizeof part.made.stop, "end");
    fine = fine && saved_append(saved, &part);
    if (fine && engine)
        rig_feed(engine, part.ids.ids, part.ids.count);
    part_release(&part);
    return fine;
}

static inline struct origin rig_origin(void)
{
    return (struct origin){.model_name = "small",
                           .model_path = "/models/small",
                           .weights = "aabb",
                           .language = {.tokenizer = "cc", .template_name = "turns"},
                           .n_layers = 2,
                           .row_width = 4};
}

// A fresh folder in $TMPDIR or /tmp, which rig_clean removes.
static inline struct store rig_store(char root[64])
{
    struct store store;
    const char *tmp = getenv("TMPDIR");
    snprintf(root, 64, "%.40s/moechat-XXXXXX", tmp ? tmp : "/tmp");
    char path[128];
    if (!mkdtemp(root))
        abort();
    snprintf(path, sizeof path, "%s/data/sessions", root);
    if (!store_init(&store, path))
        abort();
    return store;
}

static inline void rig_clean(const char *root)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0)
        abort();
}

// The texts of what a session holds, one after the other with | between.
static inline void rig_texts(const struct saved_content *content, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < content->n_parts && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? "|" : "", content->parts[i].text.data);
}

#endif
