// SPDX-License-Identifier: GPL-3.0-or-later
// The entries of the chat pane: text added, cut into blocks and wrapped.
#include <stdlib.h>
#include <string.h>

#include "app/util/format.h"
#include "app/view/table.h"
#include "app/view/transcript_parts.h"

struct transcript *transcript_new(bool ascii)
{
    struct transcript *transcript = calloc(1, sizeof *transcript);
    if (transcript)
        *transcript = (struct transcript){.ascii = ascii, .following = true, .rows = 1, .columns = 1};
    return transcript;
}

static void release_entry(struct entry *entry)
{
    for (size_t i = 0; i < entry->n_blocks; i++)
        free(entry->blocks[i].rows);
    free(entry->blocks);
    style_runs_release(&entry->runs);
    bytes_release(&entry->text);
    bytes_release(&entry->table);
}

void transcript_cut(struct transcript *transcript, size_t entries)
{
    if (entries >= transcript->n_entries)
        return;
    transcript_finish(transcript);
    while (transcript->n_entries > entries)
        release_entry(&transcript->entries[--transcript->n_entries]);
    if (transcript->top.entry >= entries || transcript->mark.entry >= entries)
        transcript_follow(transcript);
    transcript->needle.found = transcript->needle.found && transcript->needle.entry < entries;
}

void transcript_pass(struct transcript *transcript)
{
    if (transcript->n_entries)
        transcript->entries[transcript->n_entries - 1].passing = true;
}

static void remove_entry(struct transcript *transcript, size_t at)
{
    struct anchor *anchors[] = {&transcript->top, &transcript->mark};
    release_entry(&transcript->entries[at]);
    memmove(transcript->entries + at, transcript->entries + at + 1,
            (--transcript->n_entries - at) * sizeof *transcript->entries);
    for (size_t i = 0; i < sizeof anchors / sizeof anchors[0]; i++) {
        if (anchors[i]->entry == at)
            *anchors[i] = (struct anchor){.entry = at};
        anchors[i]->entry -= anchors[i]->entry > at;
    }
    if (transcript->top.entry >= transcript->n_entries || transcript->mark.entry >= transcript->n_entries)
        transcript_follow(transcript);
    transcript->needle.found = transcript->needle.found && transcript->needle.entry != at;
    transcript->needle.entry -= transcript->needle.entry > at;
    transcript->needle.counted = 0;
}

void transcript_drop_passing(struct transcript *transcript)
{
    for (size_t i = transcript->n_entries; i > 0; i--)
        if (transcript->entries[i - 1].passing)
            remove_entry(transcript, i - 1);
}

void transcript_clear(struct transcript *transcript)
{
    transcript_cut(transcript, 0);
    transcript_search_end(transcript);
}

void transcript_free(struct transcript *transcript)
{
    if (!transcript)
        return;
    transcript_clear(transcript);
    free(transcript->entries);
    free(transcript);
}

size_t transcript_entries(const struct transcript *transcript)
{
    return transcript->n_entries;
}

// ---- text ----

static bool add_block(struct entry *entry, size_t start)
{
    if (entry->n_blocks == entry->blocks_capacity) {
        size_t capacity = entry->blocks_capacity ? 2 * entry->blocks_capacity : 1;
        struct block *grown = realloc(entry->blocks, capacity * sizeof *grown);
        if (!grown)
            return false;
        entry->blocks = grown;
        entry->blocks_capacity = capacity;
    }
    entry->blocks[entry->n_blocks++] = (struct block){.start = start};
    return true;
}

static bool push_entry(struct transcript *transcript, enum entry_kind kind)
{
    if (transcript->n_entries == transcript->capacity) {
        size_t capacity = transcript->capacity ? 2 * transcript->capacity : 16;
        struct entry *grown = realloc(transcript->entries, capacity * sizeof *grown);
        if (!grown)
            return false;
        transcript->entries = grown;
        transcript->capacity = capacity;
    }
    struct entry *entry = &transcript->entries[transcript->n_entries];
    *entry = (struct entry){.kind = kind, .thought_seconds = -1};
    if (!bytes_append(&entry->text, "", 0) || !add_block(entry, 0)) {
        release_entry(entry);
        return false;
    }
    transcript->n_entries++;
    return true;
}

bool transcript_begin(struct transcript *transcript, enum entry_kind kind)
{
    bool fine = transcript_finish(transcript);
    return push_entry(transcript, kind) && fine;
}

// Shares the bytes from `from` on out among blocks.
static bool extend_blocks(struct entry *entry, size_t from)
{
    for (;;) {
        struct block *block = &entry->blocks[entry->n_blocks - 1];
        size_t enough = block->start + BLOCK_BYTES - 1, end = entry->text.length;
        size_t search = from > enough ? from : enough;
        const char *newline = search < end ? memchr(entry->text.data + search, '\n', end - search) : NULL;
        if (!newline) {
            block->length = end - block->start;
            return true;
        }
        size_t next = (size_t)(newline - entry->text.data) + 1;
        block->length = next - block->start;
        if (!add_block(entry, next))
            return false;
    }
}

static bool add_safe(struct transcript *transcript, struct entry *entry, const char *text, size_t length)
{
    size_t from = entry->text.length;
    if (entry->full)
        return true;
    if (length > ENTRY_LIMIT - from) {
        static const char more[] = "\n(too long to show in full)";
        entry->full = true;
        text = more;
        length = sizeof more - 1;
    }
    if (!bytes_append(&entry->text, text, length) || !extend_blocks(entry, from))
        return false;
    return entry->kind != ENTRY_ASSISTANT || markdown_push(&transcript->markdown, text, length, &entry->runs);
}

static bool is_beside(enum entry_kind kind)
{
    return kind == ENTRY_NOTICE || kind == ENTRY_ERROR;
}

// The one that takes text: the last, but for what was said beside it. n_entries: none does.
static size_t find_open(const struct transcript *transcript)
{
    size_t n = transcript->n_entries;
    while (n > 0 && transcript->entries[n - 1].finished && is_beside(transcript->entries[n - 1].kind))
        n--;
    return n > 0 && !transcript->entries[n - 1].finished ? n - 1 : transcript->n_entries;
}

static struct entry *open_entry(struct transcript *transcript)
{
    size_t at = find_open(transcript);
    return at < transcript->n_entries ? &transcript->entries[at] : NULL;
}

static bool append_to(struct transcript *transcript, struct entry *entry, struct sanitize *state, const char *bytes,
                      size_t length)
{
    char safe[SANITIZE_ROOM(1024)];
    for (size_t at = 0; at < length;) {
        size_t part = length - at < 1024 ? length - at : 1024;
        size_t size = sanitize_push(state, bytes + at, part, safe);
        if (!add_safe(transcript, entry, safe, size))
            return false;
        at += part;
    }
    return true;
}

bool transcript_append(struct transcript *transcript, const char *bytes, size_t length)
{
    struct entry *entry = open_entry(transcript);
    return !entry || append_to(transcript, entry, &transcript->sanitize, bytes, length);
}

bool transcript_goes_on_beside(const struct transcript *transcript)
{
    size_t n = transcript->n_entries;
    return n > 0 && transcript->entries[n - 1].finished && find_open(transcript) < n;
}

bool transcript_finish(struct transcript *transcript)
{
    char safe[SANITIZE_ROOM(0)];
    struct entry *entry = open_entry(transcript);
    if (!entry)
        return true;
    bool fine = add_safe(transcript, entry, safe, sanitize_flush(&transcript->sanitize, safe));
    fine = markdown_finish(&transcript->markdown, entry->kind == ENTRY_ASSISTANT ? &entry->runs : NULL) && fine;
    entry->finished = true;
    return fine;
}

// Behind an entry that goes on.
static bool add_beside(struct transcript *transcript, enum entry_kind kind, const char *bytes, size_t length)
{
    char safe[SANITIZE_ROOM(0)];
    struct sanitize state = {0};
    if (!push_entry(transcript, kind))
        return false;
    struct entry *entry = &transcript->entries[transcript->n_entries - 1];
    entry->finished = true;
    return append_to(transcript, entry, &state, bytes, length) &&
           add_safe(transcript, entry, safe, sanitize_flush(&state, safe));
}

bool transcript_add(struct transcript *transcript, enum entry_kind kind, const char *bytes, size_t length)
{
    const struct entry *open = open_entry(transcript);
    if (open && !is_beside(open->kind) && is_beside(kind))
        return add_beside(transcript, kind, bytes, length);
    return transcript_begin(transcript, kind) && transcript_append(transcript, bytes, length) &&
           transcript_finish(transcript);
}

void entry_fold(const struct transcript *transcript, struct entry *entry)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = entry->table.data ? open_memstream(&text, &length) : NULL;
    if (!out)
        return;
    table_fold(out, entry->table.data, &(struct table){transcript->columns, entry->second, entry->least});
    if (fclose(out) == 0 && text) {
        for (size_t i = 0; i < entry->n_blocks; i++)
            free(entry->blocks[i].rows);
        entry->n_blocks = entry->text.length = 0;
        // There was a block, so there is room for one; more of them may fail, and then the last one has the rest.
        add_block(entry, 0);
        if (bytes_append(&entry->text, text, length))
            extend_blocks(entry, 0);
    }
    free(text);
}

bool transcript_make_table(struct transcript *transcript, int second, int least)
{
    struct entry *entry = transcript->n_entries ? &transcript->entries[transcript->n_entries - 1] : NULL;
    if (!second || !entry)
        return true;
    if (!bytes_append(&entry->table, entry->text.data, entry->text.length))
        return false;
    entry->second = second;
    entry->least = least;
    entry_fold(transcript, entry);
    return true;
}

// Where the number begins that ends before text[at]; `at`: there is none.
static size_t number_before(const char *text, size_t at)
{
    size_t begin = at;
    while (begin > 0 && text[begin - 1] && strchr("0123456789.e+-", text[begin - 1]))
        begin--;
    return begin;
}

bool transcript_style_likely(struct transcript *transcript)
{
    if (!transcript->n_entries)
        return true;
    struct entry *entry = &transcript->entries[transcript->n_entries - 1];
    const char *text = entry->text.data;
    size_t done = 0;
    bool fine = true;
    for (size_t at = 0; at + 1 < entry->text.length && fine; at++) {
        size_t begin = text[at] == ' ' && text[at + 1] == '%' ? number_before(text, at) : at;
        if (begin >= at || begin < done)
            continue;
        double percent = strtod(text + begin, NULL);
        enum style style = percent >= 50 ? STYLE_LIKELY : percent < 10 ? STYLE_UNLIKELY : STYLE_TEXT;
        fine = style_runs_add(&entry->runs, begin - done, STYLE_NOTICE) &&
               style_runs_add(&entry->runs, at + 2 - begin, style);
        done = at + 2;
    }
    return fine && style_runs_add(&entry->runs, entry->text.length - done, STYLE_NOTICE);
}

void transcript_thought(struct transcript *transcript, uint32_t tokens, double seconds)
{
    for (size_t i = transcript->n_entries; i-- > 0;) {
        struct entry *entry = &transcript->entries[i];
        if (entry->kind != ENTRY_THINKING)
            continue;
        entry->thought_tokens = tokens;
        entry->thought_seconds = seconds;
        return;
    }
}

void entry_thought_words(const struct entry *entry, char *out, size_t size)
{
    char time[FORMAT_SIZE];
    if (entry->thought_seconds >= 0)
        snprintf(out, size, "thought for %s, %u token%s", format_duration(time, sizeof time, entry->thought_seconds),
                 entry->thought_tokens, format_s(entry->thought_tokens));
    else
        snprintf(out, size, "%s", entry->finished ? "thought" : "thinking");
}

bool entry_joins(const struct transcript *transcript, size_t index)
{
    const struct entry *entry = &transcript->entries[index];
    bool apart = entry->text.length && entry->text.data[0] == '\n';
    return index > 0 && entry->kind == ENTRY_NOTICE && (entry[-1].kind == ENTRY_NOTICE || apart);
}

const char *entry_label(const struct transcript *transcript, const struct entry *entry)
{
    switch (entry->kind) {
    case ENTRY_USER:
        return transcript->ascii ? "you > " : "you \xE2\x80\xBA ";
    case ENTRY_ASSISTANT:
        return transcript->ascii ? "* " : "\xE2\x97\x86 ";
    case ENTRY_ERROR:
        return "error: ";
    case ENTRY_THINKING:
    case ENTRY_NOTICE:
        break;
    }
    return "";
}

const char *entry_row_label(const struct transcript *transcript, const struct entry *entry)
{
    const char *label = entry_label(transcript, entry);
    return 2 * cells_width(label, strlen(label)) <= transcript->columns ? label : "";
}

void transcript_print(const struct transcript *transcript, FILE *out)
{
    for (size_t i = 0; i < transcript->n_entries; i++) {
        const struct entry *entry = &transcript->entries[i];
        char words[96];
        entry_thought_words(entry, words, sizeof words);
        if (i && !entry_joins(transcript, i))
            fputc('\n', out);
        fputs(entry_label(transcript, entry), out);
        if (entry->kind == ENTRY_THINKING) {
            fprintf(out, "(%s)\n", words);
            if (transcript->thinking != THINKING_OPEN)
                continue;
        }
        fwrite(entry->text.data, 1, entry->text.length, out);
        if (!entry->text.length || entry->text.data[entry->text.length - 1] != '\n')
            fputc('\n', out);
    }
}

// ---- rows ----

size_t entry_block_at(const struct entry *entry, size_t byte)
{
    size_t low = 0, high = entry->n_blocks - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (entry->blocks[middle].start <= byte)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bool add_row(struct block *block, const struct wrap_row *row, size_t line)
{
    if (block->n_rows == block->capacity) {
        size_t capacity = block->capacity ? 2 * block->capacity : 4;
        struct wrap_row *grown = realloc(block->rows, capacity * sizeof *grown);
        if (!grown)
            return false;
        block->rows = grown;
        block->capacity = capacity;
    }
    block->rows[block->n_rows] = *row;
    block->rows[block->n_rows++].start += line;
    return true;
}

// Wraps the line of `length` bytes at block->line; `again`: the rows before the last are there.
static bool wrap_line(const struct transcript *transcript, struct entry *entry, struct block *block, size_t length,
                      bool again)
{
    size_t run_end;
    const char *label = block->line == 0 ? entry_row_label(transcript, entry) : "";
    struct wrap wrap = {.text = entry->text.data + block->line,
                        .length = length,
                        .columns = transcript->columns,
                        .first = cells_width(label, strlen(label)),
                        .anywhere = style_runs_at(&entry->runs, block->line, &run_end) == STYLE_CODE_BLOCK};
    wrap.hang = wrap.anywhere ? 0 : wrap_hang(wrap.text, length, wrap.columns);
    if (again) {
        const struct wrap_row *last = &block->rows[--block->n_rows];
        wrap.at = last->start - block->line;
        wrap.column = last->column;
    }
    struct wrap_row row;
    while (wrap_next(&wrap, &row))
        if (!add_row(block, &row, block->line))
            return false;
    return true;
}

// What is this short is wrapped anew when it grows: its mark may just have come.
enum { SHORT_LINE = 256 };

void transcript_wrap(const struct transcript *transcript, struct entry *entry, struct block *block)
{
    size_t end = block->start + block->length;
    bool first = block->columns != transcript->columns, again = false;
    if (first) {
        block->n_rows = block->wrapped = 0;
        block->columns = transcript->columns;
        block->line = block->start;
    }
    if (!first && block->wrapped == block->length)
        return;
    // Goes on in the last line unless it has been ended.
    if (block->wrapped && entry->text.data[block->start + block->wrapped - 1] == '\n') {
        block->line = block->start + block->wrapped;
    } else if (block->n_rows) {
        again = block->start + block->wrapped - block->line > SHORT_LINE;
        while (!again && block->n_rows && block->rows[block->n_rows - 1].start >= block->line)
            block->n_rows--;
    }
    while (block->line < end || (block->n_rows == 0 && entry->text.length == 0)) {
        const char *begin = entry->text.data + block->line, *newline = memchr(begin, '\n', end - block->line);
        if (!wrap_line(transcript, entry, block, newline ? (size_t)(newline - begin) : end - block->line, again))
            goto no_memory;
        again = false;
        if (!newline || newline + 1 == entry->text.data + end)
            break;
        block->line += (size_t)(newline - begin) + 1;
    }
    block->wrapped = block->length;
    return;
no_memory: // all of it again with the next screen
    block->columns = 0;
}
