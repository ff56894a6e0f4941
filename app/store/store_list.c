// SPDX-License-Identifier: GPL-3.0-or-later
// All saved conversations: the list of them, and the cap over their rows, --kv-cap.
#include "app/store/store_parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/store/state_files.h"

// Are all lines that the manifest names in the transcript, if not where it has them? So it is where a compaction was
// cut short.
static bool lines_are_there(const struct store *store, const char *name, const struct manifest *manifest)
{
    struct bytes file = {0};
    struct part_lines lines = {0};
    bool fine =
        store_read_file(store, store_path(store, name, "transcript.jsonl").text, TRANSCRIPT_LIMIT, &file) == 0 &&
        part_lines_scan(&file, &lines);
    for (size_t i = 0; i < manifest->n_parts + manifest->n_others && fine; i++) {
        const struct manifest_part *part =
            i < manifest->n_parts ? &manifest->parts[i] : &manifest->others[i - manifest->n_parts];
        const struct part_line *line = part_lines_find(&lines, lines.n_lines, part->number);
        fine = line && line->sum == part->sum;
    }
    part_lines_release(&lines);
    bytes_release(&file);
    return fine;
}

// What a file that should have so many bytes lacks. False: nothing.
static bool is_short(struct store_entry *entry, const struct store *store, const char *file, uint64_t bytes)
{
    struct stat about;
    bool there = lstat(store_path(store, entry->name, file).text, &about) == 0;
    if (there && (uint64_t)about.st_size >= bytes)
        return false;
    snprintf(entry->lacks, sizeof entry->lacks, "%s is %s", file, there ? "cut off" : "missing");
    return bytes > 0;
}

// Which file has less than the manifest names.
static void find_lacks(const struct store *store, struct store_entry *entry)
{
    const struct manifest *manifest = &entry->manifest;
    if (entry->transcript_bytes > TRANSCRIPT_LIMIT) {
        entry->closed = true;
        snprintf(entry->lacks, sizeof entry->lacks, "transcript.jsonl is longer than the 1 GiB that can be read");
        return;
    }
    bool lacks = is_short(entry, store, "transcript.jsonl", manifest_transcript_end(manifest)) &&
                 !lines_are_there(store, entry->name, manifest);
    lacks = lacks || is_short(entry, store, manifest_kv_name(manifest->kv_file), manifest_kv_end(manifest));
    for (size_t i = 0; i < manifest->n_states && !lacks; i++)
        lacks = is_short(entry, store, manifest_state_name(manifest->states[i].file),
                         manifest->states[i].record.offset + manifest->states[i].record.bytes);
    if (!lacks)
        *entry->lacks = 0;
}

// Reads what a list says of a session; `saving` is that it has no manifest. False: it is nothing but a folder. *memory:
// there was enough.
static bool read_entry(const struct store *store, const char *name, struct store_entry *entry, bool *memory)
{
    struct bytes file = {0};
    *entry = (struct store_entry){.state_bytes = store_state_bytes(store, name)};
    entry->kv_bytes = store_row_bytes(store, name) + entry->state_bytes;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    struct timespec written = {0};
    entry->transcript_bytes = store_file_bytes(store, name, "transcript.jsonl", &written);
    entry->updated = (uint64_t)written.tv_sec;
    struct store_path manifest = store_path(store, name, "session.json");
    int code = store_read_file(store, manifest.text, MANIFEST_LIMIT, &file);
    bool there = code != ENOENT || entry->transcript_bytes > 0, adopted = code == ENOENT && there;
    if (adopted)
        code = store_read_file(store, store_path(store, name, "transcript.jsonl").text, TRANSCRIPT_LIMIT, &file);
    const char *wrong = code      ? strerror(code)
                        : adopted ? manifest_adopt(&file, &entry->manifest)
                                  : manifest_parse(file.data, file.length, &entry->manifest);
    entry->saving = adopted;
    entry->damaged = wrong != NULL;
    entry->closed = code != 0;
    if (entry->closed)
        snprintf(entry->lacks, sizeof entry->lacks, "%s: %s", adopted ? "transcript.jsonl" : "session.json", wrong);
    if (wrong == manifest_newer) {
        entry->closed = true;
        snprintf(entry->lacks, sizeof entry->lacks, "of a newer moechat: format %" PRIu32 ", this one reads up to %d",
                 entry->manifest.format, MANIFEST_FORMAT);
    }
    *memory = code != ENOMEM && wrong != manifest_no_memory;
    struct manifest unread = {.updated = entry->updated};
    struct manifest *used = entry->damaged ? &unread : &entry->manifest;
    store_note_use(store, name, used);
    entry->updated_ns = used->updated_ns;
    if (!entry->damaged)
        entry->updated = used->updated;
    if (adopted && entry->kv_bytes && !entry->closed) // all saves end with it
        snprintf(entry->lacks, sizeof entry->lacks, "session.json is missing");
    else if (!entry->damaged)
        find_lacks(store, entry);
    bytes_release(&file);
    return there;
}

// The same, once more where another manifest was there before its files were looked at: a chat may save meanwhile.
static bool read_settled(const struct store *store, const char *name, struct store_entry *entry, bool *memory)
{
    enum { MOST_TRIES = 20 };
    bool there = read_entry(store, name, entry, memory), same = false;
    for (int i = 1; i < MOST_TRIES && *entry->lacks && !same && *memory; i++) {
        struct store_entry now;
        there = read_entry(store, name, &now, memory);
        same = now.manifest.next_part == entry->manifest.next_part &&
               manifest_transcript_end(&now.manifest) == manifest_transcript_end(&entry->manifest) &&
               now.manifest.kv_file == entry->manifest.kv_file &&
               manifest_kv_end(&now.manifest) == manifest_kv_end(&entry->manifest) &&
               state_files_named(&now.manifest) == state_files_named(&entry->manifest);
        manifest_release(&entry->manifest);
        *entry = now;
    }
    entry->saving = entry->saving && store_is_locked(store, name);
    if (entry->saving) {
        entry->damaged = entry->closed = false;
        *entry->lacks = 0;
    }
    return there;
}

static int later_first(const void *a, const void *b)
{
    const struct store_entry *x = a, *y = b;
    return x->updated != y->updated         ? (x->updated < y->updated ? 1 : -1)
           : x->updated_ns != y->updated_ns ? (x->updated_ns < y->updated_ns ? 1 : -1)
                                            : strcmp(y->name, x->name);
}

enum store_code store_list(const struct store *store, struct store_list *list, struct store_error *error)
{
    *list = (struct store_list){0};
    DIR *folder = opendir(store->root);
    if (!folder)
        return errno == ENOENT   ? store_succeed(error)
               : errno == EACCES ? store_fail_denied(store->root, (int)strlen(store->root), errno, error)
                                 : store_fail_path(store->root, errno, error);
    struct dirent *found;
    while (errno = 0, (found = readdir(folder))) {
        if (store_is_gone(found->d_name))
            store_sweep_away(store, found->d_name);
        if (!store_name_valid(found->d_name))
            continue;
        if (!store_is_folder(store, found->d_name) && (errno == ENOENT || errno == ENOTDIR))
            continue;
        size_t n = list->n_entries;
        struct store_entry *grown =
            n & (n - 1) ? list->entries : realloc(list->entries, (n ? 2 * n : 1) * sizeof *grown);
        bool memory = grown;
        if (grown) {
            list->entries = grown;
            list->n_entries += read_settled(store, found->d_name, &grown[n], &memory);
        }
        if (!memory) {
            closedir(folder);
            store_list_release(list);
            return store_fail(error, STORE_NO_MEMORY, "no memory for the list of sessions");
        }
    }
    int failed = errno; // or readdir has come to the end
    closedir(folder);
    if (failed) {
        store_list_release(list);
        return store_fail_path(store->root, failed, error);
    }
    if (list->n_entries)
        qsort(list->entries, list->n_entries, sizeof *list->entries, later_first);
    return store_succeed(error);
}

void store_list_release(struct store_list *list)
{
    for (size_t i = 0; i < list->n_entries; i++)
        manifest_release(&list->entries[i].manifest);
    free(list->entries);
    *list = (struct store_list){0};
}

// Takes a session's rows away; its manifest says so first. 0: it is in use, or something failed.
static uint64_t drop_rows(const struct store *store, struct store_entry *entry)
{
    const struct store_io *io = store->io;
    struct store_error ignored;
    struct bytes file = {0};
    int lock;
    bool switched;
    uint64_t bytes = 0;
    if (store_lock(store, entry->name, &lock, &ignored))
        return 0;
    struct store_entry now;
    bool memory;
    if (read_entry(store, entry->name, &now, &memory) && !now.damaged) {
        manifest_cap(&now.manifest);
        struct store_path folder = store_path(store, entry->name, NULL);
        bool fine = manifest_render(&now.manifest, &file) &&
                    store_io_replace(io, &(struct store_io_file){folder.text, "session.json", file.data, file.length},
                                     &switched) == 0;
        for (unsigned i = 0; fine && i < 2; i++)
            io->unlink(io->context, store_path(store, entry->name, manifest_kv_name(i)).text);
        for (unsigned i = 0; fine && i < STATE_FILES; i++)
            io->unlink(io->context, store_path(store, entry->name, manifest_state_name(i)).text);
        bytes = fine ? now.kv_bytes - store_kv_bytes(store, entry->name) : 0;
    }
    manifest_release(&now.manifest);
    bytes_release(&file);
    io->close(io->context, lock);
    return bytes;
}

// Of all sessions, by their files alone: with thousands of them manifests take seconds to read.
static uint64_t all_kv_bytes(const struct store *store)
{
    DIR *folder = opendir(store->root);
    uint64_t bytes = 0;
    struct dirent *found;
    while (folder && (found = readdir(folder)))
        bytes += store_name_valid(found->d_name) ? store_kv_bytes(store, found->d_name) : 0;
    if (folder)
        closedir(folder);
    return bytes;
}

void store_trim(const struct store *store, const char *keep, struct store_error *error)
{
    struct store_list list;
    struct store_error ignored;
    char dropped[STORE_TEXT_SIZE - 200] = "", more[40] = "";
    uint64_t total = 0;
    unsigned n_dropped = 0, n_more = 0;
    store_succeed(error);
    if (store->kv_cap == UINT64_MAX || all_kv_bytes(store) <= store->kv_cap || store_list(store, &list, &ignored))
        return;
    for (size_t i = 0; i < list.n_entries; i++)
        total += list.entries[i].kv_bytes;
    for (size_t i = list.n_entries; i > 0 && total > store->kv_cap; i--) {
        struct store_entry *entry = &list.entries[i - 1];
        uint64_t bytes = entry->kv_bytes && strcmp(entry->name, keep) != 0 ? drop_rows(store, entry) : 0;
        size_t at = strlen(dropped);
        total -= bytes;
        n_dropped += bytes > 0;
        if (bytes && at + STORE_NAME_SIZE + 4 > sizeof dropped)
            n_more++;
        else if (bytes)
            snprintf(dropped + at, sizeof dropped - at, "%s\"%s\"", at ? ", " : "", entry->name);
    }
    store_list_release(&list);
    if (n_more)
        snprintf(more, sizeof more, " and %u more", n_more);
    if (n_dropped)
        store_fail(error, STORE_OK,
                   "saved KV caches reached --kv-cap: dropped those of %s%s; their text stays, and is read again "
                   "when they continue",
                   dropped, more);
}
