// SPDX-License-Identifier: GPL-3.0-or-later
// Moves parts and rows between the conversation and its other branches.
#include "app/store/branches.h"

#include <stdlib.h>
#include <string.h>

// The part in which a position lies, counting its end to it. There is one.
static uint32_t part_at(const struct manifest *manifest, uint32_t position)
{
    uint64_t end = 0;
    size_t i = 0;
    while (i + 1 < manifest->n_parts && (end += manifest->parts[i].tokens) < position)
        i++;
    return manifest->parts[i].number;
}

// Rows from the end of so many tokens on become those of a branch.
static void move_records(struct manifest *manifest, uint32_t tokens)
{
    size_t n = manifest->n_records;
    manifest_forget_rows(manifest, tokens);
    for (size_t i = manifest->n_records; i < n; i++) {
        struct moe_record record = manifest->records[i];
        uint32_t part = part_at(manifest, record.first + record.count);
        manifest_add_other_record(manifest, &(struct branch_record){part, record});
    }
}

static uint32_t tokens_of(const struct manifest *manifest, size_t n_parts)
{
    uint32_t tokens = 0;
    for (size_t i = 0; i < n_parts; i++)
        tokens += manifest->parts[i].tokens;
    return tokens;
}

static void remove_other(struct manifest *manifest, size_t at)
{
    bytes_release(&manifest->others[at].line);
    memmove(manifest->others + at, manifest->others + at + 1, (--manifest->n_others - at) * sizeof *manifest->others);
}

static void remove_record(struct manifest *manifest, size_t at)
{
    struct branch_record *records = manifest->other_records;
    memmove(records + at, records + at + 1, (--manifest->n_other_records - at) * sizeof *records);
}

void branches_cut(struct manifest *manifest, size_t n_parts)
{
    size_t n = manifest->n_parts;
    n_parts = n_parts < n ? n_parts : n;
    move_records(manifest, tokens_of(manifest, n_parts));
    manifest->n_parts = n_parts;
    for (size_t i = n_parts; i < n; i++) {
        struct manifest_part part = manifest->parts[i];
        manifest_add_other(manifest, &part);
    }
}

static bool is_live(const struct manifest *manifest, uint32_t number)
{
    for (size_t i = manifest->n_parts; i > 0 && manifest->parts[i - 1].number >= number; i--)
        if (manifest->parts[i - 1].number == number)
            return true;
    return false;
}

// The rows that follow those of the conversation, of several records the longest; of all that end in its parts no other
// is of use.
static void take_records(struct manifest *manifest)
{
    for (;;) {
        size_t best = manifest->n_other_records;
        for (size_t i = 0; i < manifest->n_other_records; i++) {
            const struct branch_record *record = &manifest->other_records[i];
            if (record->record.first == manifest_rows(manifest) && is_live(manifest, record->part) &&
                (best == manifest->n_other_records ||
                 record->record.count > manifest->other_records[best].record.count))
                best = i;
        }
        if (best == manifest->n_other_records)
            break;
        struct moe_record record = manifest->other_records[best].record;
        remove_record(manifest, best);
        manifest_add_record(manifest, &record);
    }
    for (size_t i = manifest->n_other_records; i > 0; i--)
        if (is_live(manifest, manifest->other_records[i - 1].part))
            remove_record(manifest, i - 1);
}

// How many parts lead to one, with it; *same: with so many of them the conversation begins. False: one is not there.
static bool find_way(const struct manifest *manifest, int64_t last, size_t *n, size_t *same)
{
    const struct manifest_part *part;
    *n = 0;
    for (int64_t at = last; at != PART_NONE; at = part->after, ++*n)
        if (!(part = manifest_find(manifest, at)))
            return false;
    *same = *n;
    for (size_t i = *n; i > 0; i--) {
        if (i > manifest->n_parts || (int64_t)manifest->parts[i - 1].number != last)
            *same = i - 1;
        last = manifest_find(manifest, last)->after;
    }
    return true;
}

static bool is_followed(const struct manifest *manifest, int64_t number)
{
    for (size_t i = 0; i < manifest->n_parts + manifest->n_others; i++) {
        const struct manifest_part *part =
            i < manifest->n_parts ? &manifest->parts[i] : &manifest->others[i - manifest->n_parts];
        if (part->after == number)
            return true;
    }
    return false;
}

bool branches_drop(struct manifest *manifest, int64_t number)
{
    size_t at = 0;
    while (at < manifest->n_others && manifest->others[at].number != number)
        at++;
    if (at == manifest->n_others || is_followed(manifest, number))
        return false;
    for (size_t i = manifest->n_other_records; i > 0; i--)
        if (manifest->other_records[i - 1].part == number)
            remove_record(manifest, i - 1);
    remove_other(manifest, at);
    return true;
}

// System messages that no branch begins with.
static void drop_unused(struct manifest *manifest)
{
    for (size_t i = manifest->n_others; i > 0; i--)
        if (manifest->others[i - 1].role == TOK_SYSTEM)
            branches_drop(manifest, manifest->others[i - 1].number);
}

bool branches_go(struct manifest *manifest, int64_t last)
{
    size_t n, same;
    if (!find_way(manifest, last, &n, &same))
        return false;
    branches_cut(manifest, same);
    for (size_t i = n; i > same; i--) { // from its end, each to its place
        size_t at = manifest_find_index(manifest, last) - manifest->n_parts;
        struct manifest_part part = manifest->others[at];
        manifest->others[at].line = (struct bytes){0}; // it goes along
        remove_other(manifest, at);
        manifest->parts[i - 1] = part;
        last = part.after;
    }
    manifest->n_parts = n;
    take_records(manifest);
    drop_unused(manifest);
    return true;
}

void branches_prune(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->n_others; i++)
        bytes_release(&manifest->others[i].line);
    manifest->n_others = manifest->n_other_records = 0;
    manifest->undone = 0;
}

size_t branches_count(const struct manifest *manifest)
{
    size_t n = 1;
    bool *followed = calloc(manifest->n_others + 1, sizeof *followed);
    for (size_t i = 0; followed && i < manifest->n_others; i++) {
        size_t at = manifest_find_index(manifest, manifest->others[i].after);
        if (at != SIZE_MAX && at >= manifest->n_parts) // what follows one of them is one of them
            followed[at - manifest->n_parts] = true;
    }
    for (size_t i = 0; followed && i < manifest->n_others; i++)
        n += !followed[i] && manifest->others[i].role != TOK_SYSTEM;
    free(followed);
    return n;
}

// To a part behind the conversation.
struct way {
    size_t length; // in parts; 0: there is none
    bool undone;   // it is what was taken back last, or follows that
};

int64_t branches_ahead(const struct manifest *manifest, size_t *n_parts)
{
    bool said = false;
    int64_t last = manifest->n_parts ? (int64_t)manifest->parts[manifest->n_parts - 1].number : PART_NONE;
    for (size_t i = 0; i < manifest->n_parts; i++)
        said = said || manifest->parts[i].role == TOK_USER;
    struct way *ways = calloc(manifest->n_others + 1, sizeof *ways);
    int64_t found = PART_NONE;
    bool undone = false;
    *n_parts = 0;
    for (size_t i = 0; ways && i < manifest->n_others; i++) {
        const struct manifest_part *part = &manifest->others[i];
        size_t at = manifest_find_index(manifest, part->after);
        struct way before = at != SIZE_MAX && at >= manifest->n_parts ? ways[at - manifest->n_parts] : (struct way){0};
        if (part->role == TOK_SYSTEM || (said && part->after != last && !before.length))
            continue;
        ways[i] = (struct way){before.length + 1, before.undone || (int64_t)part->number + 1 == manifest->undone};
        if (ways[i].undone || !undone) {
            found = part->number;
            undone = ways[i].undone;
            *n_parts = ways[i].length;
        }
    }
    free(ways);
    return found;
}

uint64_t branches_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->n_others; i++)
        bytes += manifest->others[i].length;
    for (size_t i = 0; i < manifest->n_other_records; i++)
        bytes += manifest->other_records[i].record.bytes;
    return bytes;
}
