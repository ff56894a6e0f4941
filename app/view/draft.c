// SPDX-License-Identifier: GPL-3.0-or-later
// Lays the draft out into rows, with pastes folded and the cursor's place.
#include "app/view/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/util/sanitize.h"

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines - (length && text[length - 1] == '\n');
}

void draft_pasted(struct draft *draft, const char *text, size_t length)
{
    if (length < DRAFT_FOLD_BYTES && count_lines(text, length) < DRAFT_FOLD_LINES)
        return;
    struct bytes *paste = &draft->pastes[draft->n_pastes++ % DRAFT_PASTES];
    paste->length = 0;
    if (!bytes_append(paste, text, length))
        bytes_release(paste); // it is shown whole
}

// The paste that begins here, unless the cursor is within it.
static const struct bytes *paste_at(const struct draft *draft, const char *line, size_t at)
{
    for (unsigned i = 0; i < DRAFT_PASTES; i++) {
        const struct bytes *paste = &draft->pastes[i];
        bool fits = paste->length && paste->length <= draft->length - at;
        bool within = draft->point > at && draft->point < at + paste->length;
        if (fits && !within && line[at] == *paste->data && memcmp(line + at, paste->data, paste->length) == 0)
            return paste;
    }
    return NULL;
}

// Makes room for a line of `length` bytes.
static bool make_room(struct draft *draft, size_t length)
{
    if (length + 1 <= draft->capacity)
        return true;
    size_t *grown = realloc(draft->map, (length + 1) * sizeof *grown);
    if (!grown)
        return false;
    draft->map = grown;
    draft->capacity = length + 1;
    return true;
}

static bool make_shown(struct draft *draft, const char *line)
{
    struct sanitize state = {0};
    char out[SANITIZE_ROOM(1)], mark[64];
    bool fine = true;
    draft->shown.length = 0;
    for (size_t i = 0; i < draft->length && fine;) {
        const struct bytes *paste = paste_at(draft, line, i);
        draft->map[i] = draft->shown.length;
        if (!paste) {
            fine = bytes_append(&draft->shown, out, sanitize_push(&state, line + i, 1, out));
            i++;
            continue;
        }
        size_t lines = count_lines(paste->data, paste->length);
        int length = snprintf(mark, sizeof mark, "[%zu pasted %s]", lines > 1 ? lines : paste->length,
                              lines > 1 ? "lines" : "bytes");
        fine = bytes_append(&draft->shown, out, sanitize_flush(&state, out));
        for (size_t inside = i; inside < i + paste->length; inside++)
            draft->map[inside] = draft->shown.length;
        fine = fine && bytes_append(&draft->shown, mark, (size_t)length);
        i += paste->length;
    }
    fine = fine && bytes_append(&draft->shown, out, sanitize_flush(&state, out));
    draft->map[draft->length] = draft->shown.length;
    return fine;
}

static bool add_row(struct draft *draft, size_t start, size_t end)
{
    if (draft->n_rows == draft->row_capacity) {
        size_t capacity = draft->row_capacity ? 2 * draft->row_capacity : 16;
        struct draft_row *grown = realloc(draft->rows, capacity * sizeof *grown);
        if (!grown)
            return false;
        draft->rows = grown;
        draft->row_capacity = capacity;
    }
    draft->rows[draft->n_rows++] = (struct draft_row){.start = start, .end = end};
    return true;
}

// column counts from the indent; tabs from the screen's edge.
static int glyph_columns(const struct draft *draft, const struct glyph *glyph, int column)
{
    return glyph->code == '\t' ? 8 - (draft->indent + column) % 8 : glyph->width;
}

// Cuts what is shown into rows, and finds the cursor.
static bool make_rows(struct draft *draft)
{
    size_t cursor = draft->map[draft->point], start = 0;
    int room = draft->columns - draft->indent, column = 0;
    const struct bytes *shown = &draft->shown;
    draft->n_rows = draft->cursor_row = 0;
    for (size_t at = 0; at < shown->length;) {
        struct glyph glyph = cells_glyph(shown->data + at, shown->length - at);
        int width = glyph_columns(draft, &glyph, column);
        bool full = column > 0 && column + width > room, newline = glyph.code == '\n';
        if (full && !newline) {
            if (!add_row(draft, start, at))
                return false;
            start = at;
            column = 0;
            width = glyph_columns(draft, &glyph, 0);
        }
        if (at <= cursor) {
            draft->cursor_row = draft->n_rows;
            draft->cursor_column = column;
        }
        at += glyph.bytes;
        column += width;
        if (newline) {
            if (!add_row(draft, start, at - 1))
                return false;
            start = at;
            column = 0;
        }
    }
    if (!add_row(draft, start, shown->length))
        return false;
    if (cursor < shown->length) {
        if (draft->cursor_column >= room) // on the newline of a full row
            draft->cursor_column = room - 1;
        return true;
    }
    draft->cursor_row = draft->n_rows - 1;
    draft->cursor_column = column;
    if (column < room)
        return true;
    draft->cursor_column = 0; // the next character begins a row
    draft->cursor_row++;
    return add_row(draft, shown->length, shown->length);
}

bool draft_update(struct draft *draft, const char *line, size_t length, size_t point)
{
    int label = draft->label ? cells_width(draft->label, strlen(draft->label)) : 0;
    draft->indent = label < draft->columns / 2 ? label : 0;
    draft->n_rows = draft->cursor_row = 0;
    draft->cursor_column = 0;
    draft->length = draft->point = 0;
    if (!make_room(draft, length))
        return false;
    draft->length = length;
    draft->point = point < length ? point : length;
    return make_shown(draft, line) && make_rows(draft);
}

void draft_draw(const struct draft *draft, const struct draft_place *place)
{
    for (int i = 0; i < place->rows; i++) {
        struct cells_at at = cells_row(place->cells, place->row + i);
        size_t row = place->first + (size_t)i;
        if (row == 0 && draft->indent)
            cells_put(&at, draft->label, strlen(draft->label), place->label_style);
        if (row >= draft->n_rows) {
            cells_fill(&at, STYLE_TEXT);
            continue;
        }
        at.column = draft->indent;
        const struct draft_row *this = &draft->rows[row];
        cells_put(&at, draft->shown.data + this->start, this->end - this->start, place->style);
        cells_fill(&at, STYLE_TEXT);
    }
}

size_t draft_vertical(const struct draft *draft, int direction)
{
    if (direction < 0 ? draft->cursor_row == 0 : draft->cursor_row + 1 >= draft->n_rows)
        return SIZE_MAX;
    const struct draft_row *row = &draft->rows[direction < 0 ? draft->cursor_row - 1 : draft->cursor_row + 1];
    int column = 0;
    size_t target = row->start;
    while (target < row->end) {
        struct glyph glyph = cells_glyph(draft->shown.data + target, row->end - target);
        int width = glyph_columns(draft, &glyph, column);
        if (column + width > draft->cursor_column && width > 0)
            break;
        column += width;
        target += glyph.bytes;
    }
    // The end of a row that goes on is the start of the next.
    size_t point = 0, end = draft->length;
    while (point < end && draft->map[point] < target)
        point++;
    return point;
}

void draft_release(struct draft *draft)
{
    for (int i = 0; i < DRAFT_PASTES; i++)
        bytes_release(&draft->pastes[i]);
    bytes_release(&draft->shown);
    free(draft->map);
    free(draft->rows);
    *draft = (struct draft){0};
}
