// SPDX-License-Identifier: GPL-3.0-or-later
// What a session's files say, read without changing them.
#include "app/store/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"

void saved_content_release(struct saved_content *content)
{
    for (size_t i = 0; i < content->n_parts; i++)
        part_release(&content->parts[i]);
    for (size_t i = 0; i < content->n_others; i++)
        part_release(&content->others[i]);
    free(content->parts);
    free(content->others);
    manifest_release(&content->manifest);
    *content = (struct saved_content){0};
}

// Reads the line at that place if it is the part that the manifest means.
static bool read_named(const struct bytes *file, const struct manifest_part *named, struct part *part)
{
    uint64_t sum;
    if (named->length < 2 || named->offset > file->length || named->length > file->length - named->offset ||
        file->data[named->offset + named->length - 1] != '\n' ||
        !part_parse(file->data + named->offset, named->length - 1, part, &sum))
        return false;
    if (sum == named->sum && part->number == named->number && part->ids.count == named->tokens &&
        part->after == named->after && part->role == named->role)
        return true;
    part_release(part);
    return false;
}

// The lines of a transcript, found when they are first needed.
struct found_lines {
    const struct bytes *file;
    struct part_lines lines;
    bool scanned;
};

// Reads the part that the manifest names. Its place may be out of date: after a compaction that was cut short it lies
// elsewhere. False with *error filled: no memory; else it can't be read.
static bool find_named(struct found_lines *found, struct manifest_part *named, struct part *part,
                       struct store_error *error)
{
    errno = 0;
    if (read_named(found->file, named, part))
        return true;
    if (errno != ENOMEM && (found->scanned || part_lines_scan(found->file, &found->lines))) {
        found->scanned = true;
        const struct part_line *line = part_lines_find(&found->lines, found->lines.n_lines, named->number);
        if (!line)
            return false;
        named->offset = line->offset;
        named->length = line->length;
        errno = 0;
        if (read_named(found->file, named, part))
            return true;
        if (errno != ENOMEM)
            return false;
    }
    store_no_memory(error);
    return false;
}

// The part that the manifest names, or what stands in its place. False: *error is filled.
static bool take_named(struct found_lines *found, struct manifest_part *named, struct part *part, size_t *n_lost,
                       struct store_error *error)
{
    if (find_named(found, named, part, error)) {
        named->unfed = part_is_unfed(part->role, &part->text, part->ids.count);
        return true;
    }
    if (error->code)
        return false;
    ++*n_lost;
    *part = (struct part){.number = named->number, .after = named->after, .role = named->role};
    return part_make_lost(part) || (store_no_memory(error), false);
}

// How many of the parts can't be read.
static enum store_code read_by_manifest(const struct bytes *file, struct saved_content *content, size_t *n_lost,
                                        struct store_error *error)
{
    struct found_lines found = {.file = file};
    struct manifest *manifest = &content->manifest;
    *n_lost = 0;
    content->parts = calloc(manifest->n_parts + 1, sizeof *content->parts);
    content->others = calloc(manifest->n_others + 1, sizeof *content->others);
    if (!content->parts || !content->others)
        return store_no_memory(error);
    for (size_t i = 0; i < manifest->n_parts && !error->code; i++)
        content->n_parts += take_named(&found, &manifest->parts[i], &content->parts[i], n_lost, error);
    for (size_t i = 0; i < manifest->n_others && !error->code; i++)
        content->n_others += take_named(&found, &manifest->others[i], &content->others[i], n_lost, error);
    part_lines_release(&found.lines);
    if (*n_lost)
        snprintf(content->damage, sizeof content->damage,
                 "its transcript is damaged: %zu of %zu message%s can't be read", *n_lost,
                 manifest->n_parts + manifest->n_others, format_s(manifest->n_parts + manifest->n_others));
    return error->code;
}

// What sound lines tell of the parts, ascending by number.
struct told_parts {
    struct part *parts;
    size_t n;
};

static struct part *find_part(struct part *parts, size_t n, int64_t number)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (parts[middle].number == number)
            return &parts[middle];
        if (parts[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// A part that others follow and that no sound line is of; and the role of the first of those.
struct missing {
    int64_t number, follower;
    enum tok_role role;
};

static int by_number(const void *a, const void *b)
{
    const struct missing *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->follower > y->follower) - (x->follower < y->follower);
}

// The last parts before a place, of people and of others.
struct last_parts {
    int64_t user, other;
};

// What it was, and what it followed, as people and models take turns.
static struct part guess_lost(const struct missing *missing, const struct last_parts *last)
{
    bool says = missing->role == TOK_USER;
    struct part lost = {.number = (uint32_t)missing->number,
                        .after = says ? last->user : last->other,
                        .role = says ? TOK_ASSISTANT : TOK_USER};
    if (says && lost.after == PART_NONE)
        lost.role = TOK_SYSTEM; // no conversation begins with an answer
    return lost;
}

// Those with a place for each part that is missing. False: no memory, and nothing has changed.
static bool add_lost(struct told_parts *told, const struct missing *missing, size_t n_missing)
{
    struct part *parts = calloc(told->n + n_missing + 1, sizeof *parts);
    struct last_parts last = {PART_NONE, PART_NONE};
    bool fine = parts;
    size_t n = 0;
    for (size_t i = 0, k = 0; fine && (i < told->n || k < n_missing);) {
        bool lost = i == told->n || (k < n_missing && missing[k].number < told->parts[i].number);
        if (lost && k && missing[k].number == missing[k - 1].number) {
            k++;
            continue;
        }
        parts[n] = lost ? guess_lost(&missing[k++], &last) : told->parts[i++];
        *(parts[n].role == TOK_USER ? &last.user : &last.other) = parts[n].number;
        fine = !lost || part_make_lost(&parts[n]);
        n++;
    }
    for (size_t i = 0; i < n && !fine; i++)
        if (parts[i].lost)
            part_release(&parts[i]);
    free(fine ? told->parts : parts);
    if (fine)
        *told = (struct told_parts){parts, n};
    return fine;
}

// All that sound lines say; of several of one number the last counts. False: no memory.
static bool read_told(const struct bytes *file, const struct part_lines *lines, struct told_parts *told)
{
    uint64_t sum;
    told->parts = calloc(lines->n_lines + 1, sizeof *told->parts);
    for (size_t i = 0; told->parts && i < lines->n_lines; i++) {
        const struct part_line *line = part_lines_ascending(lines, i);
        if (i + 1 < lines->n_lines && part_lines_ascending(lines, i + 1)->number == line->number)
            continue;
        if (!part_parse(file->data + line->offset, line->length - 1, &told->parts[told->n], &sum)) // it was sound
            return false;
        told->n++;
    }
    return told->parts;
}

// The same with a place for each part that one of them follows and that has none.
static bool tell_parts(const struct bytes *file, const struct part_lines *lines, struct told_parts *told)
{
    size_t n_missing = 0;
    struct missing *missing = calloc(lines->n_lines + 1, sizeof *missing);
    bool fine = missing && read_told(file, lines, told);
    for (size_t i = 0; i < told->n && fine; i++) {
        const struct part *part = &told->parts[i];
        if (part->after != PART_NONE && !find_part(told->parts, told->n, part->after))
            missing[n_missing++] = (struct missing){part->after, part->number, part->role};
    }
    if (fine && n_missing) {
        qsort(missing, n_missing, sizeof *missing, by_number);
        fine = add_lost(told, missing, n_missing);
    }
    free(missing);
    return fine;
}

// Parts the conversation, which ends with part `last`, from other branches.
static bool choose_told(struct told_parts *told, uint32_t last, struct saved_content *content)
{
    bool *own = calloc(told->n + 1, sizeof *own);
    content->parts = calloc(told->n + 1, sizeof *content->parts);
    content->others = calloc(told->n + 1, sizeof *content->others);
    bool fine = own && content->parts && content->others;
    const struct part *part = fine ? find_part(told->parts, told->n, last) : NULL;
    for (; part; part = part->after == PART_NONE ? NULL : find_part(told->parts, told->n, part->after))
        own[part - told->parts] = true;
    for (size_t i = 0; i < told->n && fine; i++)
        *(own[i] ? &content->parts[content->n_parts++] : &content->others[content->n_others++]) = told->parts[i];
    told->n = fine ? 0 : told->n;
    free(own);
    return fine;
}

// What a conversation's ids mean is known from its lines, each of which names its language. The manifest names that of
// the model that it was opened with last, which may have changed nothing in it yet. Where lines differ there is none.
static void tell_language(struct saved_content *content)
{
    const struct part_language *first = NULL;
    struct part_language *language = &content->manifest.origin.language;
    for (size_t i = 0; i < content->n_parts; i++) {
        const struct part *part = &content->parts[i];
        if (part->lost || !part->ids.count || !*part->language.tokenizer)
            continue;
        if (!first)
            *language = part->language;
        else if (!part_language_same(&part->language, first))
            *language = (struct part_language){{0}, {0}};
        first = first ? first : &part->language;
    }
}

// Without a manifest: the last sound line and those it follows are the conversation, the others its other branches.
static enum store_code read_by_lines(const struct bytes *file, const char *why, struct saved_content *content,
                                     struct store_error *error)
{
    struct part_lines lines = {0};
    struct told_parts told = {0};
    bool fine = part_lines_scan(file, &lines) && tell_parts(file, &lines, &told);
    size_t n_lost = 0, n = told.n;
    for (size_t i = 0; i < n; i++)
        n_lost += told.parts[i].lost;
    if (n_lost < lines.n_damaged)
        n_lost = lines.n_damaged;
    fine = fine && choose_told(&told, lines.n_lines ? lines.lines[lines.n_lines - 1].number : 0, content);
    if (fine) {
        size_t sound = lines.n_lines;
        snprintf(content->damage, sizeof content->damage, "%s; %zu message%s of its transcript can be read%s", why,
                 sound, format_s(sound), n_lost ? "" : ", which is all");
        size_t at = strlen(content->damage);
        if (n_lost)
            snprintf(content->damage + at, sizeof content->damage - at, ", %zu can't", n_lost);
    }
    for (size_t i = 0; i < told.n; i++)
        part_release(&told.parts[i]);
    free(told.parts);
    part_lines_release(&lines);
    return fine ? STORE_OK : store_no_memory(error);
}

// A manifest whose own sum is wrong, where the lines have the sums that it names: what it says of the conversation is
// true. False: it isn't, or can't be told, or *error is filled.
static bool read_by_broken(const struct bytes files[2], struct saved_content *content, struct store_error *error)
{
    size_t n_lost;
    if (manifest_parse_broken(files[0].data, files[0].length, &content->manifest))
        return false;
    if (!read_by_manifest(&files[1], content, &n_lost, error) && !n_lost && content->n_parts) {
        content->found = true;
        snprintf(content->damage, sizeof content->damage,
                 "its session.json is damaged, but all that it names of the transcript is there");
        return true;
    }
    saved_content_release(content);
    return false;
}

// Ended before it said anything.
static bool is_silent(const struct part *part)
{
    return part->role == TOK_ASSISTANT && !part->ids.count && !part_is_unfed(part->role, &part->text, part->ids.count);
}

// Does another answer stand behind this silent one in the conversation?
static bool is_left(const struct saved_content *content, size_t i)
{
    return i + 1 < content->n_parts && content->parts[i + 1].role == TOK_ASSISTANT && is_silent(&content->parts[i]);
}

static const struct part *find_any(const struct saved_content *content, int64_t number)
{
    const struct part *part = find_part(content->parts, content->n_parts, number);
    return part ? part : find_part(content->others, content->n_others, number);
}

// Another answer to a message stands beside the first. Where that was silent, builds of before had the other one follow
// it. False: no memory.
static bool part_answers(struct saved_content *content)
{
    size_t n_parts = content->n_parts, n_others = content->n_others, kept = 0, n = 0;
    bool left = false;
    for (size_t i = 0; i < n_parts + n_others; i++) {
        struct part *part = i < n_parts ? &content->parts[i] : &content->others[i - n_parts];
        const struct part *before = find_any(content, part->after);
        for (; part->role == TOK_ASSISTANT && before && is_silent(before); before = find_any(content, part->after))
            part->after = before->after;
        left = left || is_left(content, i);
    }
    struct part *others = left ? calloc(n_parts + n_others, sizeof *others) : NULL;
    if (!others)
        return !left;
    for (size_t i = 0, k = 0; i < n_parts || k < n_others;) {
        if (k < n_others && (i == n_parts || content->others[k].number < content->parts[i].number))
            others[n++] = content->others[k++];
        else if (is_left(content, i))
            others[n++] = content->parts[i++];
        else
            content->parts[kept++] = content->parts[i++];
    }
    free(content->others);
    content->others = others;
    content->n_others = n;
    content->n_parts = kept;
    return true;
}

static enum store_code read_files(const struct store *store, const char *name, struct bytes files[2], bool *manifest,
                                  struct store_error *error)
{
    struct store_path path = store_path(store, name, "session.json");
    int code = store_read_file(store, path.text, MANIFEST_LIMIT, &files[0]);
    *manifest = code == 0;
    if (code == 0 || code == ENOENT) {
        path = store_path(store, name, "transcript.jsonl");
        code = store_read_file(store, path.text, TRANSCRIPT_LIMIT, &files[1]);
    }
    return code && code != ENOENT ? store_fail_path(path.text, code, error) : STORE_OK;
}

enum store_code saved_read(const struct store *store, const char *name, struct saved_content *content,
                           struct store_error *error)
{
    struct bytes files[2] = {{0}, {0}};
    bool there;
    char why[160];
    *content = (struct saved_content){0};
    *error = (struct store_error){0};
    enum store_code code = read_files(store, name, files, &there, error);
    const char *wrong = there                 ? manifest_parse(files[0].data, files[0].length, &content->manifest)
                        : files[1].length > 0 ? manifest_adopt(&files[1], &content->manifest)
                                              : NULL;
    if (!code && wrong == manifest_no_memory)
        code = store_no_memory(error);
    else if (!code && wrong == manifest_newer)
        code = store_newer(name, &content->manifest, error);
    content->found = (there || files[1].length > 0) && !wrong;
    content->no_manifest = !there;
    if (!code && content->found) {
        size_t n_lost;
        store_note_use(store, name, &content->manifest);
        code = read_by_manifest(&files[1], content, &n_lost, error);
    } else if (!code && wrong && !(there && read_by_broken(files, content, error)) && !(code = error->code)) {
        snprintf(why, sizeof why, "its session.json is unusable (%s)", wrong);
        code = read_by_lines(&files[1], why, content, error);
    }
    bytes_release(&files[0]);
    bytes_release(&files[1]);
    if (!code && !part_answers(content))
        code = store_no_memory(error);
    if (code)
        saved_content_release(content);
    else
        tell_language(content);
    return code;
}

bool saved_read_part(const struct store *store, const char *name, const struct manifest_part *named, struct part *part)
{
    enum { MOST = 1 << 20 };
    const struct store_io *io = store->io;
    struct store_path path = store_path(store, name, "transcript.jsonl");
    char *line = named->length >= 2 && named->length <= MOST ? malloc((size_t)named->length) : NULL;
    int fd = line ? io->open(io->context, path.text, O_RDONLY) : -1;
    uint64_t sum, done = 0;
    while (fd >= 0 && done < named->length) {
        ptrdiff_t got = io->read(io->context, fd, line + done, (size_t)(named->length - done), named->offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (uint64_t)got;
    }
    if (fd >= 0)
        io->close(io->context, fd);
    bool there =
        fd >= 0 && done == named->length && line[done - 1] == '\n' && part_parse(line, (size_t)done - 1, part, &sum);
    free(line);
    if (there && (sum != named->sum || part->number != named->number)) {
        part_release(part);
        there = false;
    }
    return there;
}
