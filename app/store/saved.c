// SPDX-License-Identifier: GPL-3.0-or-later
// Grows, cuts, commits and compacts one saved conversation.
#include "app/store/saved_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/util/format.h"
#include "app/store/branches.h"
#include "app/store/rows_copy.h"
#include "app/store/sealed.h"
#include "app/store/state_files.h"

// A session that has no name yet gets one from the first message.
void saved_name_by(struct saved *saved, const struct part *part)
{
    if (!*saved->name && saved->lock < 0 && part->role == TOK_USER)
        store_name_make(saved->name, part->made.time, part->text.data ? part->text.data : "", part->text.length);
    else if (saved->nameless && part->role == TOK_USER)
        store_name_make(saved->wanted, part->made.time, part->text.data ? part->text.data : "", part->text.length);
}

const char *saved_name(const struct saved *saved)
{
    return saved->name;
}

const struct manifest *saved_manifest(const struct saved *saved)
{
    return &saved->manifest;
}

const struct store *saved_store(const struct saved *saved)
{
    return saved->store;
}

// Whose rows and states those of the manifest are.
static const char *rows_of(const struct saved *saved)
{
    return *saved->rows_of ? saved->rows_of : saved->name;
}

struct store_path saved_kv_path(const struct saved *saved)
{
    return store_path(saved->store, rows_of(saved), manifest_kv_name(saved->manifest.kv_file));
}

struct store_path saved_state_path(const struct saved *saved, unsigned file)
{
    return store_path(saved->store, rows_of(saved), manifest_state_name(file));
}

int saved_open_state(const struct saved *saved, unsigned file)
{
    return store_open_states(saved->store, rows_of(saved), file);
}

int saved_open_rows(const struct saved *saved)
{
    return store_open_rows(saved->store, rows_of(saved), saved->manifest.kv_file);
}

bool saved_has_others_rows(const struct saved *saved)
{
    return *saved->rows_of;
}

void saved_own_rows(struct saved *saved)
{
    if (!*saved->rows_of)
        return;
    manifest_forget_all_rows(&saved->manifest);
    saved->manifest.kv_file = 0;
    *saved->rows_of = 0;
}

const char *saved_why_no_rows(const struct saved *saved)
{
    return saved->manifest.capped ? "its KV cache was dropped to keep --kv-cap"
           : saved->rows_unknown  ? saved->rows_unknown
                                  : "its KV cache is not saved";
}

void saved_set_origin(struct saved *saved, const struct origin *origin)
{
    const struct origin *own = &saved->manifest.origin;
    if (!origin_is_of(own, origin) || own->kv_type != origin->kv_type || own->n_layers != origin->n_layers ||
        own->row_width != origin->row_width)
        manifest_forget_all_rows(&saved->manifest);
    saved->manifest.origin = *origin;
}

void saved_forget_rows(struct saved *saved, uint32_t rows)
{
    manifest_forget_rows(&saved->manifest, rows);
}

// Does a part that ends at the token where the conversation is to end go, too?
static bool goes_too(const struct manifest_part *part, bool for_answer)
{
    return part->unfed || (for_answer && part->role == TOK_ASSISTANT && !part->tokens);
}

static void cut(struct saved *saved, uint32_t tokens, bool for_answer)
{
    struct manifest *manifest = &saved->manifest;
    size_t n_parts = manifest->n_parts;
    for (uint32_t now = manifest_tokens(manifest);
         n_parts && (now > tokens || tokens == 0 || goes_too(&manifest->parts[n_parts - 1], for_answer));)
        now -= manifest->parts[--n_parts].tokens;
    branches_cut(manifest, n_parts);
}

void saved_cut(struct saved *saved, uint32_t tokens)
{
    cut(saved, tokens, false);
}

void saved_cut_for_answer(struct saved *saved, uint32_t tokens)
{
    cut(saved, tokens, true);
}

bool saved_go(struct saved *saved, int64_t last)
{
    return branches_go(&saved->manifest, last);
}

void saved_set_undone(struct saved *saved, int64_t last)
{
    saved->manifest.undone = (uint32_t)(last + 1);
}

void saved_drop(struct saved *saved, uint32_t part)
{
    branches_drop(&saved->manifest, part);
}

bool saved_note_part(struct saved *saved, const struct part *part, struct manifest_part *entry,
                     bool (*add)(struct manifest *, const struct manifest_part *))
{
    bool fine = part->number >= saved->manifest.next_part && part_render(part, &entry->line);
    entry->length = entry->line.length;
    entry->sum = fine ? sealed_sum(entry->line.data, entry->line.length) : 0;
    if (!fine || !add(&saved->manifest, entry)) {
        bytes_release(&entry->line);
        saved->refused = part_unfit(part);
        return false;
    }
    saved->manifest.next_part = part->number + 1;
    return true;
}

bool saved_append(struct saved *saved, struct part *part)
{
    struct manifest *manifest = &saved->manifest;
    if (part->number < manifest->next_part)
        part->number = manifest->next_part;
    part->after = manifest->n_parts ? (int64_t)manifest->parts[manifest->n_parts - 1].number : PART_NONE;
    struct manifest_part entry = {
        .number = part->number, .after = part->after, .tokens = (uint32_t)part->ids.count, .role = part->role};
    entry.unfed = part_is_unfed(part->role, &part->text, part->ids.count);
    if (!part->made.time)
        part->made.time = format_unix_time();
    saved_name_by(saved, part);
    if (!saved_note_part(saved, part, &entry, manifest_add_part))
        return false;
    if (part->role != TOK_SYSTEM) // who comes back comes to what was said now
        manifest->undone = 0;
    return true;
}

const char *saved_refused(const struct saved *saved)
{
    return saved->refused ? saved->refused : "out of memory";
}

// The parts of all branches, one after the other by their numbers; *i and *n count those of the two lists. NULL: there
// are no more.
static struct manifest_part *next_part(const struct manifest *manifest, size_t *i, size_t *n)
{
    bool own = *i < manifest->n_parts &&
               (*n == manifest->n_others || manifest->parts[*i].number < manifest->others[*n].number);
    return own ? &manifest->parts[(*i)++] : *n < manifest->n_others ? &manifest->others[(*n)++] : NULL;
}

// Of the conversation alone.
static uint64_t own_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->n_parts; i++)
        bytes += manifest->parts[i].length;
    return bytes;
}

static enum store_code fail_file(struct store_error *error, const struct store_path *path, int code)
{
    struct store_error why;
    if (code != EROFS)
        return store_fail(error, STORE_IO, "conversation not saved: %s: %s", path->text, strerror(code));
    store_fail_path(path->text, code, &why); // as a disk becomes after errors, too
    return store_fail(error, STORE_IO, "conversation not saved: %.700s", why.text);
}

void saved_note_files(struct saved *saved)
{
    own_file_note(&saved->transcript, store_path(saved->store, saved->name, "transcript.jsonl").text);
    own_file_note(&saved->manifest_file, store_path(saved->store, saved->name, "session.json").text);
}

// Are the files of an open session what we made of them? Another program that changed them may have put another
// conversation there, and what we wrote would be lost in it.
static enum store_code check_files(const struct saved *saved, struct store_error *error)
{
    static const char fork[] = "/fork NAME saves this conversation under a new name";
    struct store_path folder = store_path(saved->store, saved->name, NULL);
    struct store_path lock = store_path(saved->store, saved->name, "lock");
    struct store_path transcript = store_path(saved->store, saved->name, "transcript.jsonl");
    struct store_path manifest = store_path(saved->store, saved->name, "session.json");
    if (access(folder.text, F_OK) != 0 && errno == ENOENT)
        return store_fail(error, STORE_IO,
                          "conversation not saved: the folder of session \"%s\" was removed or moved; %s", saved->name,
                          fork);
    if (!store_lock_is_there(saved->lock, lock.text))
        return store_fail(error, STORE_IO,
                          "conversation not saved: the lock of session \"%s\" was removed or replaced, so that another "
                          "moechat may have it open; %s",
                          saved->name, fork);
    const char *file = "transcript.jsonl", *changed = own_file_changed(&saved->transcript, transcript.text);
    if (!changed) {
        file = "session.json";
        changed = own_file_changed(&saved->manifest_file, manifest.text);
    }
    if (!changed)
        return STORE_OK;
    return store_fail(error, STORE_IO,
                      "conversation not saved: session \"%s\" was changed by another program (its %s %s); %s",
                      saved->name, file, changed, fork);
}

// More than readers take. helps: without the other branches it would be less.
static enum store_code fail_limit(const struct saved *saved, const char *what, bool helps, struct store_error *error)
{
    char remedy[200] = "begin another conversation (/new)";
    if (helps)
        snprintf(
            remedy, sizeof remedy,
            "/fork NAME goes on with this conversation alone, moechat sessions prune %s removes the other branches",
            saved->name);
    return store_fail(error, STORE_IO,
                      "conversation not saved: %s of session \"%s\" would be longer than can be read; %s", what,
                      saved->name, remedy);
}

// Writes the lines that are not on the disk yet behind everything that a manifest may name.
static enum store_code write_lines(struct saved *saved, struct store_error *error)
{
    const struct store_io *io = saved->store->io;
    struct manifest *manifest = &saved->manifest;
    struct bytes lines = {0};
    bool fine = true;
    struct manifest_part *part;
    for (size_t i = 0, n = 0; fine && (part = next_part(manifest, &i, &n));) {
        if (!part->line.length)
            continue;
        part->offset = saved->transcript_end + lines.length;
        fine = bytes_append(&lines, part->line.data, part->line.length);
    }
    struct store_path path = store_path(saved->store, saved->name, "transcript.jsonl");
    if (fine && lines.length && saved->transcript_end + lines.length > saved->store->limits.transcript) {
        bytes_release(&lines);
        return fail_limit(saved, "transcript.jsonl", own_bytes(manifest) <= saved->store->limits.transcript, error);
    }
    int fd = -1, code = fine ? 0 : ENOMEM;
    if (code == 0 && lines.length) {
        fd = io->open(io->context, path.text, O_RDWR | O_CREAT);
        if (fd < 0 || io->truncate(io->context, fd, saved->transcript_end))
            code = errno;
    }
    if (code == 0 && lines.length)
        code = store_io_write(io, fd, lines.data, lines.length, saved->transcript_end);
    if (code == 0 && lines.length && io->sync(io->context, fd))
        code = errno;
    if (fd >= 0)
        io->close(io->context, fd);
    if (lines.length)
        own_file_note(&saved->transcript, path.text);
    bytes_release(&lines);
    return code ? fail_file(error, &path, code) : STORE_OK;
}

// The end of the part in which row `first` is, or `most`: with a record a part, branches share all that they can.
static uint32_t record_end(const struct manifest *manifest, uint32_t first, uint32_t most)
{
    uint32_t end = 0;
    for (size_t i = 0; i < manifest->n_parts && end <= first; i++)
        end += manifest->parts[i].tokens;
    return end < most ? end : most;
}

// Rows from `first` to `end`, a record a part, in an open file from `offset` on.
static bool write_records(struct manifest *manifest, const struct saved_rows *rows, struct saved_slot slot,
                          uint32_t end, struct moe_err *err)
{
    bool fine = true;
    for (uint32_t first = slot.first; first < end && fine; first = slot.first + slot.count) {
        struct moe_record record;
        slot.first = first;
        slot.count = record_end(manifest, first, end) - first;
        fine = rows->write(rows->context, &slot, &record, err) == 0;
        slot.offset += fine ? record.bytes : 0;
        if (fine && !manifest_add_record(manifest, &record)) {
            snprintf(err->text, sizeof err->text, "out of memory");
            fine = false;
        }
    }
    return fine;
}

// What of the manifest says what is cached.
struct cached {
    size_t n_records;
    struct manifest_state states[STATES_KEPT];
    size_t n_states;
    bool capped;
};

static struct cached cached_of(const struct manifest *manifest)
{
    struct cached cached = {
        .n_records = manifest->n_records, .n_states = manifest->n_states, .capped = manifest->capped};
    memcpy(cached.states, manifest->states, sizeof cached.states);
    return cached;
}

static void put_back(struct manifest *manifest, const struct cached *cached)
{
    manifest->n_records = cached->n_records;
    manifest->n_states = cached->n_states;
    memcpy(manifest->states, cached->states, sizeof cached->states);
    manifest->capped = cached->capped;
}

// What of rows or states a save has left out, though the text is there: the sentence of *error, up to the next save.
static void note_rows(struct store_error *error)
{
    error->of_rows = strlen(error->text);
}

// Adds records of the missing rows; says so when they could not be written.
static void write_rows(struct saved *saved, const struct saved_rows *rows, struct store_error *error)
{
    const struct store_io *io = saved->store->io;
    struct manifest *manifest = &saved->manifest;
    uint32_t first = manifest_rows(manifest), tokens = manifest_tokens(manifest);
    uint32_t end = rows->length < tokens ? rows->length : tokens;
    struct cached cached = cached_of(manifest);
    if (end <= first || saved->over_cap || saved->store->kv_cap == 0)
        return;
    // All old rows are dead: begin anew in the other file.
    if (!manifest->n_records && !manifest->n_other_records && saved->kv_ends[manifest->kv_file] &&
        !saved->kv_ends[!manifest->kv_file])
        manifest->kv_file = !manifest->kv_file;
    struct store_path path = saved_kv_path(saved);
    uint64_t offset = saved->kv_ends[manifest->kv_file];
    struct moe_err err = {.text = ""};
    int fd = io->open(io->context, path.text, O_RDWR | O_CREAT);
    bool fine = fd >= 0 && io->truncate(io->context, fd, offset) == 0;
    if (!fine)
        snprintf(err.text, sizeof err.text, "%.300s: %s", path.text, strerror(errno));
    struct moe_record_io record_io = {
        .fd = fd, .path = path.text, .read = io->read, .write = io->write, .context = io->context};
    fine = fine && write_records(manifest, rows,
                                 (struct saved_slot){.io = &record_io, .offset = offset, .first = first}, end, &err);
    if (fine && io->sync(io->context, fd)) {
        snprintf(err.text, sizeof err.text, "%.300s: %s", path.text, strerror(errno));
        fine = false;
    }
    if (!fine)
        put_back(manifest, &cached);
    if (!fine && fd >= 0 && io->truncate(io->context, fd, offset) != 0) {
        // Only so that the space is free for the manifest; whoever appends next cuts here first.
    }
    if (fd >= 0)
        io->close(io->context, fd);
    if (fine)
        return;
    store_fail(error, STORE_OK,
               "saved the text, but not the KV cache of %" PRIu32 " token%s, which would be read again: %.400s",
               end - first, format_s(end - first), err.text);
    note_rows(error);
}

static struct state_files state_files_of(const struct saved *saved)
{
    return (struct state_files){saved->store, saved->name, saved->state_files};
}

// The states after the last row, when that is saved.
static void write_states(struct saved *saved, const struct saved_rows *rows, struct store_error *error)
{
    struct state_files files = state_files_of(saved);
    char why[400];
    if (!rows->states || !rows->length || manifest_rows(&saved->manifest) != rows->length || saved->over_cap)
        return;
    if (state_files_save(&files, &saved->manifest, rows, why, sizeof why))
        return;
    store_fail(error, STORE_OK,
               "saved the conversation, but not the states of the model's layers, so that its end would be read "
               "again: %.400s",
               why);
    note_rows(error);
}

// Has a list more entries than readers take?
static bool has_too_many(const struct saved *saved)
{
    const struct manifest *manifest = &saved->manifest;
    size_t most = saved->store->limits.entries;
    return manifest->n_parts > most || manifest->n_others > most || manifest->n_records > most ||
           manifest->n_other_records > most;
}

enum store_code saved_replace_manifest(struct saved *saved, struct store_error *error)
{
    struct manifest *manifest = &saved->manifest;
    struct store_path folder = store_path(saved->store, saved->name, NULL);
    struct bytes file = {0};
    uint64_t kv_end = manifest_kv_end(manifest), transcript_end = 0;
    bool switched = false;
    struct manifest_part *part;
    for (size_t i = 0, n = 0; (part = next_part(manifest, &i, &n));)
        if (part->offset + part->length > transcript_end)
            transcript_end = part->offset + part->length;
    bool too_long = has_too_many(saved);
    bool rendered = !too_long && manifest_render(manifest, &file);
    if (too_long || file.length > saved->store->limits.manifest) {
        bytes_release(&file);
        return fail_limit(saved, "session.json", manifest->n_others, error);
    }
    int code = rendered ? store_io_replace(saved->store->io,
                                           &(struct store_io_file){folder.text, "session.json", file.data, file.length},
                                           &switched)
                        : ENOMEM;
    bytes_release(&file);
    if (rendered)
        own_file_note(&saved->manifest_file, store_path(saved->store, saved->name, "session.json").text);
    // When the switch is in doubt both manifests are: keep clear of what either names.
    if (code == 0 || (switched && transcript_end > saved->transcript_end))
        saved->transcript_end = transcript_end;
    if (code == 0 || (switched && kv_end > saved->kv_ends[manifest->kv_file]))
        saved->kv_ends[manifest->kv_file] = kv_end;
    if (code == 0 || switched)
        saved->state_files |= state_files_named(manifest);
    return code ? fail_file(error, &folder, code) : STORE_OK;
}

void saved_settle(struct saved *saved)
{
    const struct store_io *io = saved->store->io;
    struct manifest *manifest = &saved->manifest;
    unsigned other = !manifest->kv_file;
    struct manifest_part *part;
    for (size_t i = 0, n = 0; (part = next_part(manifest, &i, &n));)
        bytes_release(&part->line);
    if (!saved->settled || saved->kv_ends[other])
        io->unlink(io->context, store_path(saved->store, saved->name, manifest_kv_name(other)).text);
    saved->kv_ends[other] = 0;
    struct state_files files = state_files_of(saved);
    if (!saved->settled && manifest->n_states) // what a crash left
        files.taken = (1U << STATE_FILES) - 1;
    state_files_settle(&files, manifest);
    saved->state_files = files.taken;
    saved->settled = true;
}

static bool has_more(const struct manifest *manifest, const struct cached *cached)
{
    const struct manifest_state *last = &manifest->states[manifest->n_states ? manifest->n_states - 1 : 0];
    const struct manifest_state *was = &cached->states[cached->n_states ? cached->n_states - 1 : 0];
    return manifest->n_records > cached->n_records ||
           (manifest->n_states && (!cached->n_states || last->record.first != was->record.first));
}

// The manifest could not be saved with new rows and states, which may have taken its space: gives that back and tries
// without them.
static enum store_code replace_without_rows(struct saved *saved, const struct cached *cached, struct store_error *error)
{
    const struct store_io *io = saved->store->io;
    struct manifest *manifest = &saved->manifest;
    uint32_t rows = manifest_rows(manifest);
    struct store_error why = *error;
    struct state_files files = state_files_of(saved);
    state_files_take_back(&files, manifest);
    put_back(manifest, cached);
    int fd = io->open(io->context, saved_kv_path(saved).text, O_RDWR);
    bool freed = fd >= 0 && io->truncate(io->context, fd, saved->kv_ends[manifest->kv_file]) == 0;
    if (fd >= 0)
        io->close(io->context, fd);
    enum store_code code = freed ? saved_replace_manifest(saved, error) : why.code;
    if (code)
        return code;
    store_fail(error, STORE_OK,
               "saved the text, but not the KV cache of %" PRIu32 " token%s, which would be read again: no "
               "room for both (%.300s)",
               rows - manifest_rows(manifest), format_s(rows - manifest_rows(manifest)), why.text);
    note_rows(error);
    return STORE_OK;
}

// The names of files that this save may have made are on the disk before a manifest names them.
static enum store_code sync_new_files(const struct saved *saved, const struct saved_rows *rows,
                                      struct store_error *error)
{
    bool made =
        !saved->settled || !saved->transcript_end || !saved->kv_ends[saved->manifest.kv_file] || (rows && rows->states);
    struct store_path folder = store_path(saved->store, saved->name, NULL);
    int failed = made ? store_io_sync_folder(saved->store->io, folder.text) : 0;
    return failed ? fail_file(error, &folder, failed) : STORE_OK;
}

bool saved_is_blank(const struct saved *saved)
{
    const struct manifest *manifest = &saved->manifest;
    bool said = false;
    for (size_t i = 0; i < manifest->n_parts; i++)
        said = said || manifest->parts[i].role != TOK_SYSTEM;
    for (size_t i = 0; i < manifest->n_others; i++)
        said = said || manifest->others[i].role != TOK_SYSTEM;
    return saved->nameless && !said;
}

bool saved_is_kept(const struct saved *saved)
{
    return saved->lock >= 0 && (!saved->made || saved->settled);
}

// Names a session that is named after the time alone as its first message has it, with a number where that is taken.
static void take_wanted_name(struct saved *saved)
{
    struct store_error ignored; // it keeps the name that it has
    char base[STORE_NAME_SIZE], name[STORE_NAME_SIZE];
    memcpy(base, saved->wanted, sizeof base);
    enum store_code code = saved_rename(saved, base, &ignored);
    for (unsigned n = 2; code == STORE_TAKEN && n < 10000; n++) {
        store_name_count(name, base, n);
        code = saved_rename(saved, name, &ignored);
    }
    *saved->wanted = 0;
}

// As saved_commit, at whatever time the session was used last.
static enum store_code commit(struct saved *saved, const struct saved_rows *rows, struct store_error *error)
{
    struct manifest *manifest = &saved->manifest;
    *error = (struct store_error){0};
    saved_own_rows(saved);
    if (saved->lock < 0) {
        saved->nameless = !*saved->name;
        if (saved->nameless)
            store_name_make(saved->name, format_unix_time(), "", 0);
        struct store_error why;
        enum store_code code = store_make(saved->store, saved->name, true, &saved->lock, &why);
        if (code)
            return store_fail(error, code, "conversation not saved: %.700s", why.text);
        saved->made = true;
    }
    struct store_error failed;
    enum store_code code = check_files(saved, error);
    if (code)
        return code;
    if (*saved->wanted)
        take_wanted_name(saved);
    struct cached cached = cached_of(manifest);
    code = write_lines(saved, error);
    if (!code && rows) {
        write_rows(saved, rows, error);
        write_states(saved, rows, error);
    }
    if (!code)
        code = sync_new_files(saved, rows, error);
    if (!code && (code = saved_replace_manifest(saved, &failed))) {
        *error = failed;
        if (has_more(manifest, &cached))
            code = replace_without_rows(saved, &cached, error);
    }
    if (code) {
        put_back(manifest, &cached);
        return code;
    }
    saved_settle(saved);
    if (rows && (has_more(manifest, &cached) || saved->cap_owed))
        saved_keep_cap(saved, rows->answer_follows, error);
    return STORE_OK;
}

// It was used now. The clock of seconds may be a tick behind the other, and 0 is not known.
static void note_use(struct manifest *manifest)
{
    struct timespec now = {0};
    manifest->updated = format_unix_time();
    clock_gettime(CLOCK_REALTIME, &now);
    manifest->updated_ns = now.tv_sec != (time_t)manifest->updated ? 999999999
                           : now.tv_nsec                           ? (uint32_t)now.tv_nsec
                                                                   : 1;
}

enum store_code saved_commit(struct saved *saved, const struct saved_rows *rows, struct store_error *error)
{
    note_use(&saved->manifest);
    return commit(saved, rows, error);
}

// Puts a transcript of the lines that are named in the old one's place; of none where none is.
static int copy_lines(struct saved *saved)
{
    struct manifest *manifest = &saved->manifest;
    struct store_path path = store_path(saved->store, saved->name, "transcript.jsonl");
    struct store_path folder = store_path(saved->store, saved->name, NULL);
    struct bytes old = {0}, live = {0};
    bool switched = false;
    int code = store_read_file(saved->store, path.text, TRANSCRIPT_LIMIT, &old);
    if (code == ENOENT && !manifest->n_parts && !manifest->n_others) // nothing was ever said
        return 0;
    struct manifest_part *part;
    for (size_t i = 0, n = 0; code == 0 && (part = next_part(manifest, &i, &n));) {
        if (part->offset > old.length || part->length > old.length - part->offset)
            code = EIO;
        else if (!bytes_append(&live, old.data + part->offset, part->length))
            code = ENOMEM;
    }
    if (code == 0)
        code = store_io_replace(saved->store->io,
                                &(struct store_io_file){folder.text, "transcript.jsonl", live.data, live.length},
                                &switched);
    uint64_t at = 0;
    for (size_t i = 0, n = 0; switched && (part = next_part(manifest, &i, &n));) {
        part->offset = at;
        at += part->length;
    }
    if (switched)
        saved->transcript_end = at;
    own_file_note(&saved->transcript, path.text);
    bytes_release(&old);
    bytes_release(&live);
    return code;
}

enum store_code saved_compact(struct saved *saved, struct store_error *error)
{
    struct manifest *manifest = &saved->manifest, moved;
    enum store_code code = commit(saved, NULL, error);
    if (code)
        return code;
    struct store_path folder = store_path(saved->store, saved->name, NULL);
    bool any = manifest->n_records + manifest->n_other_records > 0;
    int failed = !rows_copy_lists(manifest, &moved) ? ENOMEM : any ? rows_copy(saved->store, saved->name, &moved) : 0;
    if (failed == 0)
        failed = copy_lines(saved);
    if (failed) {
        manifest_release(&moved);
        return store_fail(error, STORE_IO, "cannot compact: %s: %s", folder.text, strerror(failed));
    }
    rows_swap(manifest, &moved);
    code = saved_replace_manifest(saved, error);
    if (code) // either manifest may be there: go on with the old one's rows, whose file stays
        rows_swap(manifest, &moved);
    manifest_release(&moved);
    if (code)
        return code;
    saved_settle(saved);
    if (!any)
        saved->store->io->unlink(saved->store->io->context, saved_kv_path(saved).text);
    return STORE_OK;
}

enum store_code saved_prune(struct saved *saved, struct store_error *error)
{
    branches_prune(&saved->manifest);
    return saved_compact(saved, error);
}

enum store_code saved_rename(struct saved *saved, const char *name, struct store_error *error)
{
    if (!store_name_valid(name) || saved->lock >= 0) {
        bool same = saved->lock >= 0 && strcmp(saved->name, name) == 0;
        enum store_code code = saved->lock >= 0 ? check_files(saved, error) : STORE_OK;
        if (!code && !same)
            code = store_rename(saved->store, saved->name, name, true, error);
        if (!code) {
            snprintf(saved->name, sizeof saved->name, "%s", name);
            saved->nameless = false;
            *saved->wanted = 0;
        }
        return code;
    }
    char wanted[STORE_NAME_SIZE];
    snprintf(wanted, sizeof wanted, "%s", name);
    enum store_code code = store_make(saved->store, wanted, false, &saved->lock, error);
    if (!code)
        memcpy(saved->name, wanted, sizeof wanted);
    saved->made = !code;
    return code;
}
