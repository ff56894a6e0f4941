// SPDX-License-Identifier: GPL-3.0-or-later
// The window onto the chat pane's entries: scrolling and drawing.
#include <string.h>

#include "app/view/transcript_parts.h"

// ---- places: every entry has at least one row ----

static size_t lead_rows(const struct transcript *transcript, size_t index)
{
    const struct entry *entry = &transcript->entries[index];
    return (size_t)(index > 0 && !entry_joins(transcript, index)) + (entry->kind == ENTRY_THINKING);
}

// The block's rows, wrapped.
static size_t rows_of(const struct transcript *transcript, struct entry *entry, long block)
{
    transcript_wrap(transcript, entry, &entry->blocks[block]);
    return entry->blocks[block].n_rows;
}

static bool last_text(const struct transcript *transcript, size_t index, struct place *place)
{
    struct entry *entry = &transcript->entries[index];
    if (entry->kind == ENTRY_THINKING && transcript->thinking == THINKING_HIDDEN)
        return false;
    for (long block = (long)entry->n_blocks - 1; block >= 0; block--) {
        size_t rows = rows_of(transcript, entry, block);
        if (rows) {
            *place = (struct place){index, block, rows - 1};
            return true;
        }
    }
    return false;
}

static bool text_back(const struct transcript *transcript, struct place *place)
{
    struct place back = *place;
    if (back.row > 0) {
        place->row--;
        return true;
    }
    while (back.block-- > 0) {
        size_t rows = rows_of(transcript, &transcript->entries[back.entry], back.block);
        if (!rows)
            continue;
        *place = (struct place){back.entry, back.block, rows - 1};
        return true;
    }
    return false;
}

// The first row of text that is shown; false: none is.
static bool first_text(const struct transcript *transcript, size_t index, struct place *place)
{
    struct entry *entry = &transcript->entries[index];
    if (!last_text(transcript, index, place))
        return false;
    if (entry->kind == ENTRY_THINKING && transcript->thinking == THINKING_FOLDED) {
        for (int i = 1; i < ENTRY_PREVIEW && text_back(transcript, place);)
            i++;
        return true;
    }
    for (long block = 0; block < place->block; block++) {
        if (rows_of(transcript, entry, block)) {
            *place = (struct place){index, block, 0};
            return true;
        }
    }
    place->row = 0;
    return true;
}

static int compare(struct place a, struct place b)
{
    if (a.entry != b.entry)
        return a.entry < b.entry ? -1 : 1;
    if (a.block != b.block)
        return a.block < b.block ? -1 : 1;
    return a.row < b.row ? -1 : a.row > b.row;
}

static struct place first_place(const struct transcript *transcript, size_t index)
{
    struct place place = {index, LEAD, 0};
    if (lead_rows(transcript, index) == 0)
        first_text(transcript, index, &place);
    return place;
}

static struct place last_place(const struct transcript *transcript, size_t index)
{
    size_t lead = lead_rows(transcript, index);
    struct place place = {index, LEAD, lead ? lead - 1 : 0};
    last_text(transcript, index, &place);
    return place;
}

static bool step_on(const struct transcript *transcript, struct place *place)
{
    struct entry *entry = &transcript->entries[place->entry];
    if (place->block == LEAD) {
        if (place->row + 1 < lead_rows(transcript, place->entry)) {
            place->row++;
            return true;
        }
        if (first_text(transcript, place->entry, place))
            return true;
    } else if (place->row + 1 < rows_of(transcript, entry, place->block)) {
        place->row++;
        return true;
    } else {
        for (long block = place->block + 1; block < (long)entry->n_blocks; block++) {
            if (rows_of(transcript, entry, block)) {
                *place = (struct place){place->entry, block, 0};
                return true;
            }
        }
    }
    if (place->entry + 1 >= transcript->n_entries)
        return false;
    *place = first_place(transcript, place->entry + 1);
    return true;
}

static bool step_back(const struct transcript *transcript, struct place *place)
{
    size_t lead = lead_rows(transcript, place->entry);
    struct place first;
    if (place->block != LEAD) {
        if (first_text(transcript, place->entry, &first) && compare(*place, first) > 0)
            return text_back(transcript, place);
        if (lead) {
            *place = (struct place){place->entry, LEAD, lead - 1};
            return true;
        }
    } else if (place->row > 0) {
        place->row--;
        return true;
    }
    if (place->entry == 0)
        return false;
    *place = last_place(transcript, place->entry - 1);
    return true;
}

static struct anchor anchor_of(const struct transcript *transcript, struct place place)
{
    if (place.block == LEAD)
        return (struct anchor){place.entry, true, place.row};
    const struct block *block = &transcript->entries[place.entry].blocks[place.block];
    return (struct anchor){place.entry, false, block->n_rows ? block->rows[place.row].start : block->start};
}

// There is at least one entry.
struct place transcript_locate(struct transcript *transcript, struct anchor anchor)
{
    if (anchor.entry >= transcript->n_entries)
        return last_place(transcript, transcript->n_entries - 1);
    struct place first, place = first_place(transcript, anchor.entry);
    size_t lead = lead_rows(transcript, anchor.entry);
    bool text = first_text(transcript, anchor.entry, &first);
    if (anchor.lead || !text) {
        if (lead)
            place.row = anchor.lead && anchor.at < lead ? anchor.at : lead - 1;
        return place;
    }
    struct entry *entry = &transcript->entries[anchor.entry];
    place.block = (long)entry_block_at(entry, anchor.at);
    place.row = 0;
    size_t low = 0, high = rows_of(transcript, entry, place.block);
    if (high == 0) // the end of a text that ends with a newline
        return last_place(transcript, anchor.entry);
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (entry->blocks[place.block].rows[middle].start <= anchor.at)
            low = middle;
        else
            high = middle;
    }
    place.row = low;
    return compare(place, first) < 0 ? first : place;
}

// ---- the window ----

static struct place end_top(const struct transcript *transcript)
{
    struct place place = last_place(transcript, transcript->n_entries - 1);
    for (int i = 1; i < transcript->rows && step_back(transcript, &place);)
        i++;
    return place;
}

// The window's first row; one that would reach beyond the end is moved back.
static struct place window_top(struct transcript *transcript)
{
    struct place end = end_top(transcript);
    if (transcript->following)
        return end;
    struct place top = transcript_locate(transcript, transcript->top);
    return compare(top, end) < 0 ? top : end;
}

static void leave_end(struct transcript *transcript)
{
    if (!transcript->following)
        return;
    size_t last = transcript->n_entries - 1, length = transcript->entries[last].text.length;
    transcript->following = false;
    transcript->mark = (struct anchor){last, false, length - (length > 0)};
}

void transcript_begins(struct transcript *transcript)
{
    transcript->begins = true;
}

static bool at_begin(struct transcript *transcript)
{
    return transcript->n_entries && compare(window_top(transcript), first_place(transcript, 0)) == 0;
}

void transcript_resize(struct transcript *transcript, int rows, int columns)
{
    bool changed = transcript->columns != (columns > 1 ? columns : 1),
         begins = transcript->begins && at_begin(transcript);
    transcript->rows = rows > 1 ? rows : 1;
    transcript->columns = columns > 1 ? columns : 1;
    for (size_t i = 0; changed && i < transcript->n_entries; i++) {
        struct entry *entry = &transcript->entries[i];
        entry_fold(transcript, entry);
        if (entry->table.data && transcript->mark.entry == i) // its end, which is elsewhere now: no row of it is new
            transcript->mark.at = entry->text.length - (entry->text.length > 0);
    }
    if (changed)
        transcript->needle.counted = 0; // matches are elsewhere in what was cut anew
    if (begins)
        transcript_to_begin(transcript);
}

void transcript_follow(struct transcript *transcript)
{
    transcript->following = true;
}

bool transcript_following(const struct transcript *transcript)
{
    return transcript->following;
}

bool transcript_shows_end(struct transcript *transcript)
{
    return transcript->following || !transcript->n_entries ||
           compare(transcript_locate(transcript, transcript->top), end_top(transcript)) >= 0;
}

void transcript_scroll(struct transcript *transcript, long rows)
{
    if (transcript->n_entries == 0 || (rows > 0 && transcript->following))
        return;
    struct place top = window_top(transcript), begin = top;
    for (; rows > 0 && step_on(transcript, &top); rows--)
        ;
    for (; rows < 0 && step_back(transcript, &top); rows++)
        ;
    if (compare(top, begin) < 0)
        leave_end(transcript);
    transcript->top = anchor_of(transcript, top);
    if (compare(top, begin) >= 0 && compare(top, end_top(transcript)) >= 0)
        transcript_follow(transcript);
}

void transcript_to_begin(struct transcript *transcript)
{
    if (transcript->n_entries == 0)
        return;
    struct place begin = first_place(transcript, 0);
    if (compare(begin, end_top(transcript)) >= 0)
        return;
    leave_end(transcript);
    transcript->top = anchor_of(transcript, begin);
}

void transcript_show(struct transcript *transcript, struct anchor anchor)
{
    struct place place = transcript_locate(transcript, anchor), row = window_top(transcript);
    bool within = false;
    for (int i = 0; i < transcript->rows && !within; i++) {
        within = compare(row, place) == 0;
        if (!step_on(transcript, &row))
            break;
    }
    if (within)
        return;
    for (int i = 0; i < transcript->rows / 3 && step_back(transcript, &place); i++)
        ;
    leave_end(transcript);
    transcript->top = anchor_of(transcript, place);
}

size_t transcript_window_begin(struct transcript *transcript, size_t *entry)
{
    struct place row = window_top(transcript);
    *entry = row.entry;
    return row.block == LEAD ? 0 : transcript->entries[row.entry].blocks[row.block].rows[row.row].start;
}

size_t transcript_window_end(struct transcript *transcript, size_t *entry)
{
    struct place row = window_top(transcript);
    for (int i = 1; i < transcript->rows && step_on(transcript, &row); i++)
        ;
    *entry = row.entry;
    if (row.block == LEAD)
        return 0;
    const struct wrap_row *last = &transcript->entries[row.entry].blocks[row.block].rows[row.row];
    return last->start + last->length;
}

static size_t entry_rows(const struct transcript *transcript, size_t index)
{
    struct entry *entry = &transcript->entries[index];
    struct place first, last;
    size_t rows = lead_rows(transcript, index);
    if (!first_text(transcript, index, &first) || !last_text(transcript, index, &last))
        return rows;
    for (; first.block < last.block; first = (struct place){index, first.block + 1, 0})
        rows += rows_of(transcript, entry, first.block) - first.row;
    return rows + last.row + 1 - first.row;
}

size_t transcript_new_rows(struct transcript *transcript)
{
    if (transcript->following || transcript->n_entries == 0)
        return 0;
    struct place mark = transcript_locate(transcript, transcript->mark);
    struct place last = last_place(transcript, mark.entry);
    size_t rows = 0;
    while (compare(mark, last) < 0 && mark.block < last.block) {
        if (mark.block != LEAD)
            rows += rows_of(transcript, &transcript->entries[mark.entry], mark.block) - 1 - mark.row;
        mark = (struct place){mark.entry, mark.block + 1, 0};
        rows++;
    }
    rows += compare(mark, last) < 0 ? last.row - mark.row : 0;
    for (size_t i = mark.entry + 1; i < transcript->n_entries; i++)
        rows += entry_rows(transcript, i);
    return rows;
}

int transcript_percent(const struct transcript *transcript)
{
    double before = 0, total = 0;
    if (transcript->following)
        return 100;
    for (size_t i = 0; i < transcript->n_entries; i++) {
        double length = (double)transcript->entries[i].text.length + 1;
        total += length;
        if (i < transcript->top.entry)
            before += length;
        else if (i == transcript->top.entry && !transcript->top.lead)
            before += (double)transcript->top.at;
    }
    return total > 0 ? (int)(100 * before / total) : 100;
}

// ---- thinking ----

void transcript_show_thinking(struct transcript *transcript, enum thinking_view view)
{
    transcript->thinking = view;
}

enum thinking_view transcript_thinking(const struct transcript *transcript)
{
    return transcript->thinking;
}

// ---- drawing ----

static enum style base_style(enum entry_kind kind)
{
    static const enum style styles[] = {[ENTRY_USER] = STYLE_USER,
                                        [ENTRY_ASSISTANT] = STYLE_TEXT,
                                        [ENTRY_THINKING] = STYLE_THINKING,
                                        [ENTRY_NOTICE] = STYLE_NOTICE,
                                        [ENTRY_ERROR] = STYLE_ERROR};
    return styles[kind];
}

// The next match that ends after `from`, begun before `until`; length 0: none.
struct match {
    size_t at, length;
};
static struct match next_match(const struct transcript *transcript, const struct entry *entry, size_t from,
                               size_t until)
{
    const struct needle *needle = &transcript->needle;
    size_t most = 4 * needle->count, at = from > most ? from - most : 0;
    for (; needle->count && at < until; at++) {
        size_t length = needle_match(needle, entry->text.data, entry->text.length, at);
        if (length && at + length > from)
            return (struct match){at, length};
    }
    return (struct match){SIZE_MAX, 0};
}

static void draw_text(const struct transcript *transcript, size_t index, const struct wrap_row *row,
                      struct cells_at *at)
{
    const struct entry *entry = &transcript->entries[index];
    // Of a character at most: itself, an emoji's style and tone, marks (sanitize.h).
    size_t end = row->start + row->length, room = ((size_t)transcript->columns + 1) * (3 + CELL_MARKS) * 4;
    if (row->length > room) // spaces that hang over the end
        end = row->start + room;
    struct match match = next_match(transcript, entry, row->start, end);
    for (size_t byte = row->start; byte < end;) {
        size_t stop = end;
        enum style style = base_style(entry->kind);
        if (entry->runs.count)
            style = style_runs_at(&entry->runs, byte, &stop);
        stop = stop < end ? stop : end;
        if (match.length && byte >= match.at + match.length)
            match = next_match(transcript, entry, byte, end);
        if (match.at <= byte) {
            bool now =
                transcript->needle.found && transcript->needle.entry == index && transcript->needle.at == match.at;
            style = now ? STYLE_MATCH_NOW : STYLE_MATCH;
            stop = match.at + match.length < stop ? match.at + match.length : stop;
        } else if (match.at < stop) {
            stop = match.at;
        }
        if (!cells_put(at, entry->text.data + byte, stop - byte, style))
            return;
        byte = stop;
    }
}

static void draw_lead(const struct transcript *transcript, struct place place, struct cells_at *at)
{
    const struct entry *entry = &transcript->entries[place.entry];
    if (entry->kind != ENTRY_THINKING || place.row + 1 < lead_rows(transcript, place.entry))
        return;
    char words[96];
    entry_thought_words(entry, words, sizeof words);
    cells_print(at, STYLE_THINKING, "%s%s", words,
                transcript->thinking == THINKING_OPEN ? " (Alt-o: fold)" : " (Alt-o: show all)");
}

static void draw_row(const struct transcript *transcript, struct place place, struct cells_at *at)
{
    const struct entry *entry = &transcript->entries[place.entry];
    if (place.block == LEAD) {
        draw_lead(transcript, place, at);
        return;
    }
    const struct block *block = &entry->blocks[place.block];
    if (place.row >= block->n_rows)
        return;
    const struct wrap_row *row = &block->rows[place.row];
    if (row->start == 0) {
        const char *label = entry_row_label(transcript, entry);
        enum style style = entry->kind == ENTRY_ASSISTANT ? STYLE_ASSISTANT : base_style(entry->kind);
        cells_put(at, label, strlen(label), style);
    }
    for (int i = 0; i < row->indent; i++)
        cells_put(at, " ", 1, STYLE_TEXT);
    at->shift = (long)row->column - at->column;
    draw_text(transcript, place.entry, row, at);
}

void transcript_draw(struct transcript *transcript, struct cells *cells)
{
    cells_clear(cells);
    if (transcript->n_entries == 0)
        return;
    struct place place = window_top(transcript);
    for (int row = 0; row < cells->rows && row < transcript->rows; row++) {
        struct cells_at at = cells_row(cells, row);
        draw_row(transcript, place, &at);
        if (!step_on(transcript, &place))
            break;
    }
}
