// SPDX-License-Identifier: GPL-3.0-or-later
// Verifies a session's lines, rows and states, and begins again when they were replaced meanwhile.
#include "app/store/saved_verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/util/format.h"

enum { MOST_TRIES = 20 };

struct verifying {
    const struct store *store;
    const char *name;
    saved_check *check;
    struct bytes *wrong;
    bool memory; // there was enough
};

__attribute__((format(printf, 2, 3))) static void wrong(struct verifying *verifying, const char *format, ...)
{
    char line[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    verifying->memory = bytes_append(verifying->wrong, line, strlen(line) + 1) && verifying->memory;
}

// The number of a part in the list that tree prints.
static size_t tree_place(const struct manifest *manifest, uint32_t number)
{
    size_t place = 0;
    for (size_t i = 0; i < manifest->n_parts; i++)
        place += manifest->parts[i].number <= number;
    for (size_t i = 0; i < manifest->n_others; i++)
        place += manifest->others[i].number <= number;
    return place;
}

// Rows, as far as they are named.
static void verify_rows(struct verifying *verifying, const struct manifest *manifest)
{
    const struct store *store = verifying->store;
    struct moe_err err;
    struct store_path path = store_path(store, verifying->name, manifest_kv_name(manifest->kv_file));
    if (!(manifest->n_records + manifest->n_other_records))
        return;
    int fd = store_open_rows(store, verifying->name, manifest->kv_file);
    if (fd < 0) {
        wrong(verifying, "%.500s: %s; %" PRIu32 " token%s would be read again", path.text, strerror(errno),
              manifest_rows(manifest), format_s(manifest_rows(manifest)));
        return;
    }
    struct moe_record_io io = {.fd = fd, .path = path.text};
    bool fine = true;
    for (size_t i = 0; i < manifest->n_records && fine; i++) {
        fine = verifying->check(&io, &manifest->records[i], &err) == 0;
        uint32_t behind = manifest_rows(manifest) - manifest->records[i].first;
        if (!fine)
            wrong(verifying, "%s; %" PRIu32 " token%s would be read again", err.text, behind, format_s(behind));
    }
    for (size_t i = 0; i < manifest->n_other_records; i++) {
        const struct branch_record *record = &manifest->other_records[i];
        if (verifying->check(&io, &record->record, &err))
            wrong(verifying, "%s; the branch of message %zu would be read again", err.text,
                  tree_place(manifest, record->part));
    }
    store->io->close(store->io->context, fd);
}

static void verify_states(struct verifying *verifying, const struct manifest *manifest)
{
    const struct store *store = verifying->store;
    struct moe_err err;
    for (size_t i = 0; i < manifest->n_states; i++) {
        const struct manifest_state *state = &manifest->states[i];
        struct store_path path = store_path(store, verifying->name, manifest_state_name(state->file));
        int fd = store_open_states(store, verifying->name, state->file);
        struct moe_record_io io = {.fd = fd, .path = path.text};
        if (fd < 0)
            wrong(verifying, "%.500s: %s; the states after %" PRIu32 " token%s are gone", path.text, strerror(errno),
                  state->record.first, format_s(state->record.first));
        else if (verifying->check(&io, &state->record, &err))
            wrong(verifying, "%s; the states after %" PRIu32 " token%s can't be used", err.text, state->record.first,
                  format_s(state->record.first));
        if (fd >= 0)
            store->io->close(store->io->context, fd);
    }
}

static enum store_code verify_once(const struct store *store, const char *name, saved_check *check,
                                   struct saved_verdict *verdict, struct store_error *error)
{
    struct saved_content content;
    struct verifying verifying = {store, name, check, &verdict->wrong, true};
    *verdict = (struct saved_verdict){0};
    enum store_code code = saved_read(store, name, &content, error);
    if (code)
        return code;
    const struct manifest *manifest = &content.manifest;
    if (*content.damage)
        wrong(&verifying, "session \"%s\" is damaged: %s", name, content.damage);
    verdict->row_bytes = store_row_bytes(store, name);
    verdict->state_bytes = store_state_bytes(store, name);
    uint64_t lies = verdict->row_bytes + verdict->state_bytes;
    struct store_path own = store_path(store, name, "session.json");
    char bytes[FORMAT_SIZE];
    bool missing = access(own.text, F_OK) != 0 && errno == ENOENT;
    if (missing && store_is_locked(store, name))
        wrong(&verifying, "%.500s is still to be written: the first save of session \"%s\" is under way", own.text,
              name);
    else if (missing && lies)
        wrong(&verifying, "%.500s is missing, so that %s of KV cache are of no use; all would be read again", own.text,
              format_bytes(bytes, sizeof bytes, lies));
    verify_rows(&verifying, manifest);
    verify_states(&verifying, manifest);
    verdict->n_parts = content.n_parts + content.n_others;
    verdict->n_records = manifest->n_records + manifest->n_other_records;
    verdict->n_states = manifest->n_states;
    uint64_t named = manifest_row_bytes(manifest) + manifest_other_row_bytes(manifest) + manifest_state_bytes(manifest);
    verdict->dead_bytes = lies > named && !store_is_locked(store, name) ? lies - named : 0;
    saved_content_release(&content);
    if (verifying.memory)
        return STORE_OK;
    bytes_release(&verdict->wrong);
    return store_no_memory(error);
}

// Is the manifest on the disk another one than `before`, which becomes it?
static bool changed(const struct store *store, const char *name, struct bytes *before)
{
    struct bytes now = {0};
    bool there = !store_io_read(store->io, store_path(store, name, "session.json").text, MANIFEST_LIMIT, &now);
    bool same = there && now.length == before->length && (!now.length || !memcmp(now.data, before->data, now.length));
    bytes_release(before);
    *before = now;
    return !same && there;
}

enum store_code saved_verify(const struct store *store, const char *name, saved_check *check,
                             struct saved_verdict *verdict, struct store_error *error)
{
    struct bytes manifest = {0};
    changed(store, name, &manifest);
    enum store_code code = verify_once(store, name, check, verdict, error);
    for (int i = 1; i < MOST_TRIES && (code || verdict->wrong.length) && changed(store, name, &manifest); i++) {
        bytes_release(&verdict->wrong);
        code = verify_once(store, name, check, verdict, error);
    }
    bytes_release(&manifest);
    return code;
}
