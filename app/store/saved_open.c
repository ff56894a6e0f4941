// SPDX-License-Identifier: GPL-3.0-or-later
// Makes, opens, copies and closes one saved conversation.
#include "app/store/saved_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/store/branches.h"
#include "app/store/own_copy.h"
#include "app/store/sealed.h"
#include "app/store/state_files.h"
#include "app/util/format.h"

static struct saved *saved_alloc(const struct store *store, const char *name)
{
    struct saved *saved = calloc(1, sizeof *saved);
    if (saved) {
        saved->store = store;
        saved->lock = -1;
        snprintf(saved->name, sizeof saved->name, "%s", name);
        saved->manifest.created = saved->manifest.updated = format_unix_time();
    }
    return saved;
}

enum store_code saved_new(const struct store *store, const char *name, struct saved **saved, struct store_error *error)
{
    *error = (struct store_error){0};
    *saved = NULL;
    if (*name && !store_name_valid(name))
        return store_bad_name(name, error);
    *saved = saved_alloc(store, name);
    if (!*saved)
        return store_fail(error, STORE_NO_MEMORY, "no memory for a session");
    enum store_code code = *name ? store_make(store, (*saved)->name, false, &(*saved)->lock, error) : STORE_OK;
    (*saved)->made = (*saved)->lock >= 0;
    if (code) {
        saved_close(*saved);
        *saved = NULL;
    }
    return code;
}

// Notes a part under the number that it has, as one of another branch. What follows nothing that is there is left out.
static bool adopt(struct saved *saved, struct part *part)
{
    struct manifest_part entry = {
        .number = part->number, .after = part->after, .tokens = (uint32_t)part->ids.count, .role = part->role};
    entry.unfed = part_is_unfed(part->role, &part->text, part->ids.count);
    if (part->after != PART_NONE && !manifest_find(&saved->manifest, part->after))
        return true;
    return saved_note_part(saved, part, &entry, manifest_add_other);
}

bool saved_adopt(struct saved *saved, struct saved_tree tree)
{
    int64_t last = PART_NONE;
    bool fine = true;
    for (size_t i = 0, n = 0; (i < tree.n_parts || n < tree.n_others) && fine;) {
        bool own = n == tree.n_others || (i < tree.n_parts && tree.parts[i].number < tree.others[n].number);
        struct part *part = own ? &tree.parts[i++] : &tree.others[n++];
        if (own) {
            part->after = last;
            saved_name_by(saved, part);
        }
        last = own ? (int64_t)part->number : last;
        fine = adopt(saved, part);
    }
    return fine && branches_go(&saved->manifest, last);
}

// How many parts of a list that ascends have a smaller number; *found: one has it.
static size_t count_below(const struct part *parts, size_t n, int64_t number, bool *found)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((int64_t)parts[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    *found = *found || (low < n && (int64_t)parts[low].number == number);
    return low;
}

// The place of the part of that number among all, -1: there is none.
static int64_t place_of(const struct saved_content *content, int64_t number)
{
    bool found = false;
    size_t below = count_below(content->parts, content->n_parts, number, &found) +
                   count_below(content->others, content->n_others, number, &found);
    return found ? (int64_t)below : -1;
}

// Numbers that leave none for what follows are told anew, from 0 on: a damaged line may have any.
static void number_anew(struct saved_content *content)
{
    size_t n_parts = content->n_parts, n_others = content->n_others;
    uint32_t last = n_parts ? content->parts[n_parts - 1].number : 0;
    if (n_others && content->others[n_others - 1].number > last)
        last = content->others[n_others - 1].number;
    if (last < PART_NEXT_MOST)
        return;
    for (size_t i = 0; i < n_parts + n_others; i++) {
        struct part *part = i < n_parts ? &content->parts[i] : &content->others[i - n_parts];
        int64_t after = part->after == PART_NONE ? PART_NONE : place_of(content, part->after);
        part->after = part->after != PART_NONE && after < 0 ? UINT32_MAX : after; // none has that
    }
    if (content->manifest.undone)
        content->manifest.undone = (uint32_t)(place_of(content, (int64_t)content->manifest.undone - 1) + 1);
    for (size_t i = 0, n = 0; i < n_parts || n < n_others;) {
        bool own = n == n_others || (i < n_parts && content->parts[i].number < content->others[n].number);
        uint32_t number = (uint32_t)(i + n);
        *(own ? &content->parts[i++].number : &content->others[n++].number) = number;
    }
}

// Makes a session of the saved one's name, or of that and a number, that begins with what was read of another.
static enum store_code begin_with(struct saved *saved, const struct saved_content *content, struct store_error *error)
{
    enum store_code code = store_make(saved->store, saved->name, true, &saved->lock, error);
    saved->made = !code;
    saved_set_origin(saved, &content->manifest.origin);
    if (!code &&
        !saved_adopt(saved, (struct saved_tree){content->parts, content->others, content->n_parts, content->n_others}))
        code = store_no_memory(error);
    saved->manifest.undone = content->manifest.undone; // numbers stay
    return code;
}

// Takes over, until they are saved anew, the rows of the tokens before what is lost.
static bool take_rows(struct saved *saved, const char *name, const struct saved_content *content)
{
    const struct manifest *from = &content->manifest;
    struct manifest *manifest = &saved->manifest;
    uint32_t tokens = 0;
    for (size_t i = 0; i < content->n_parts && !content->parts[i].lost; i++)
        tokens += (uint32_t)content->parts[i].ids.count;
    for (size_t i = 0; i < from->n_records && from->records[i].first + from->records[i].count <= tokens; i++)
        if (!manifest_add_record(manifest, &from->records[i]))
            return false;
    for (size_t i = 0; i < from->n_states && from->states[i].record.first <= manifest_rows(manifest); i++)
        manifest->states[manifest->n_states++] = from->states[i];
    manifest->capped = from->capped;
    manifest->kv_file = from->kv_file;
    snprintf(saved->rows_of, sizeof saved->rows_of, "%s", manifest->n_records ? name : "");
    return true;
}

// A new session that begins with what could be read of a damaged one.
static enum store_code recover(struct saved *saved, const char *name, struct saved_content *content,
                               struct store_error *error)
{
    number_anew(content);
    saved->store->io->close(saved->store->io->context, saved->lock);
    saved->lock = -1;
    own_file_release(&saved->transcript);
    own_file_release(&saved->manifest_file);
    snprintf(saved->name, sizeof saved->name, "%s", name);
    store_name_cut(saved->name, 48);
    strcat(saved->name, "-recovered");
    enum store_code code = begin_with(saved, content, error);
    if (!code && !content->found)
        saved->rows_unknown = "its session.json is damaged, and nothing else says what its KV cache is of";
    if (!code && content->found && !take_rows(saved, name, content))
        code = store_no_memory(error);
    return code;
}

enum store_code saved_fork(const struct saved *saved, struct saved **fork, struct store_error *error)
{
    struct saved_content content;
    *fork = saved_alloc(saved->store, saved->name);
    if (!*fork)
        return store_fail(error, STORE_NO_MEMORY, "no memory for a session");
    enum store_code code = saved_read(saved->store, saved->name, &content, error);
    if (!code) {
        code = begin_with(*fork, &content, error);
        saved_content_release(&content);
    }
    if (code) {
        saved_close(*fork);
        *fork = NULL;
    }
    return code;
}

enum store_code saved_open(const struct store *store, const char *name, struct saved **saved,
                           struct saved_content *content, struct store_error *error)
{
    *content = (struct saved_content){0};
    *saved = saved_alloc(store, name);
    if (!*saved)
        return store_fail(error, STORE_NO_MEMORY, "no memory for a session");
    enum store_code code = store_lock(store, name, &(*saved)->lock, error);
    if (!code)
        code = own_copy_all(store, name, error);
    if (!code) {
        saved_note_files(*saved);
        code = saved_read(store, name, content, error);
    }
    if (!code && *content->damage) {
        code = recover(*saved, name, content, error);
    } else if (!code && content->found) {
        struct saved *own = *saved;
        if (content->no_manifest && store_kv_bytes(store, name))
            own->rows_unknown = "its session.json is missing, and nothing else says what its KV cache is of";
        own->manifest = content->manifest;
        content->manifest = (struct manifest){0};
        own->transcript_end = manifest_transcript_end(&own->manifest);
        own->kv_ends[own->manifest.kv_file] = manifest_kv_end(&own->manifest);
        own->state_files = state_files_named(&own->manifest);
    }
    if (code) {
        saved_close(*saved);
        *saved = NULL;
        saved_content_release(content);
    }
    return code;
}

// A transcript that the disk had no room for the first line of.
static bool is_empty(const struct store_io *io, const char *path)
{
    char byte;
    int fd = io->open(io->context, path, O_RDONLY);
    bool empty = fd >= 0 && io->read(io->context, fd, &byte, 1, 0) == 0;
    if (fd >= 0)
        io->close(io->context, fd);
    return empty;
}

void saved_close(struct saved *saved)
{
    if (!saved)
        return;
    const struct store_io *io = saved->store->io;
    own_file_release(&saved->transcript);
    own_file_release(&saved->manifest_file);
    if (saved->made && !saved->transcript_end && !saved->settled) { // a name that was taken for nothing
        struct store_path transcript = store_path(saved->store, saved->name, "transcript.jsonl");
        if (is_empty(io, transcript.text))
            io->unlink(io->context, transcript.text);
        io->unlink(io->context, store_path(saved->store, saved->name, "lock").text);
        io->rmdir(io->context,
                  store_path(saved->store, saved->name, NULL).text); // refuses when a commit failed half-way
    }
    if (saved->lock >= 0)
        saved->store->io->close(saved->store->io->context, saved->lock);
    manifest_release(&saved->manifest);
    free(saved);
}
