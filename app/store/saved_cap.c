// SPDX-License-Identifier: GPL-3.0-or-later
// What rows may take on the disk: a session's own beside the cap over all of them.
#include <stdio.h>
#include <string.h>

#include "app/store/saved_parts.h"
#include "app/store/store_io.h"
#include "app/util/format.h"

// Says one thing more.
static void say(struct store_error *error, const struct store_error *more)
{
    size_t at = strlen(error->text);
    if (*more->text)
        snprintf(error->text + at, sizeof error->text - at, "%s%s", at ? "; " : "", more->text);
}

// On the disk, of the conversation without its other branches.
static uint64_t kept_bytes(const struct saved *saved)
{
    return manifest_row_bytes(&saved->manifest) + manifest_state_bytes(&saved->manifest);
}

// A size to type behind --kv-cap, with which rows of so many bytes can become twice as many.
static char *larger_cap(char *out, size_t size, uint64_t bytes)
{
    return format_bytes_typed(out, size, 2 * bytes);
}

// Over the cap by itself: gives up dead bytes first, then the other branches' rows. False: that is not enough, or
// failed, and *error says why.
static bool shrink(struct saved *saved, struct store_error *error)
{
    struct manifest *manifest = &saved->manifest;
    char own[FORMAT_SIZE], cap[FORMAT_SIZE], larger[FORMAT_SIZE];
    uint64_t bytes = kept_bytes(saved);
    bool branches = bytes + manifest_other_row_bytes(manifest) > saved->store->kv_cap;
    format_bytes(cap, sizeof cap, saved->store->kv_cap);
    if (bytes > saved->store->kv_cap) {
        store_fail(error, STORE_OK,
                   "the KV cache of this conversation reached %s, over --kv-cap (%s; %s would have kept it)",
                   format_bytes(own, sizeof own, bytes), cap, larger_cap(larger, sizeof larger, bytes));
        return false;
    }
    struct store_error failed;
    if (branches)
        manifest->n_other_records = 0;
    if (saved_compact(saved, &failed)) {
        store_fail(error, STORE_OK, "this conversation's KV cache reached --kv-cap (%s): %.400s", cap, failed.text);
        return false;
    }
    if (branches)
        store_fail(error, STORE_OK,
                   "this conversation's KV cache reached --kv-cap (%s): dropped that of its other branches, whose "
                   "text stays",
                   cap);
    return true;
}

static void drop_rows(struct saved *saved, struct store_error *error)
{
    struct store_error why = *error, failed;
    saved->over_cap = true;
    manifest_cap(&saved->manifest);
    if (saved_replace_manifest(saved, &failed)) {
        store_fail(error, STORE_OK, "%.600s, and could not be dropped: %.400s", why.text, failed.text);
        return;
    }
    saved_settle(saved);
    saved->store->io->unlink(saved->store->io->context, saved_kv_path(saved).text);
    store_fail(error, STORE_OK, "%.600s; only the text is saved", why.text);
}

// Once, while all of it is on the disk still: whoever leaves now and comes back with a larger cap reads nothing again.
static void tell_of_cap(struct saved *saved, struct store_error *error)
{
    char own[FORMAT_SIZE], cap[FORMAT_SIZE], larger[FORMAT_SIZE];
    uint64_t bytes = kept_bytes(saved), most = saved->store->kv_cap;
    if (saved->cap_told || bytes < most / 4 * 3)
        return;
    saved->cap_told = true;
    store_fail(error, STORE_OK,
               "the KV cache of this conversation (%s) nears --kv-cap (%s), beyond which only the text is saved; "
               "continue it with --kv-cap %s to keep all of it",
               format_bytes(own, sizeof own, bytes), format_bytes(cap, sizeof cap, most),
               larger_cap(larger, sizeof larger, bytes));
}

void saved_keep_cap(struct saved *saved, bool answer_follows, struct store_error *error)
{
    struct store_error said = {0};
    bool fits = store_kv_bytes(saved->store, saved->name) <= saved->store->kv_cap || shrink(saved, &said);
    if (!fits)
        drop_rows(saved, &said);
    say(error, &said);
    saved->cap_owed = fits && answer_follows;
    if (!fits || answer_follows)
        return;
    store_trim(saved->store, saved->name, &said);
    say(error, &said);
    said = (struct store_error){0};
    tell_of_cap(saved, &said);
    say(error, &said);
}

bool saved_owes_cap(const struct saved *saved)
{
    return saved->cap_owed;
}
