// SPDX-License-Identifier: GPL-3.0-or-later
// Breaks a line into rows between words, by the terminal's widths.
#include "app/view/wrap.h"

#include <ctype.h>
#include <string.h>

#include "app/view/cells.h"

// Wide punctuation that belongs to what stands before it.
static bool closes(uint32_t code)
{
    switch (code) {
    case 0x3001: // ideographic comma, full stop
    case 0x3002:
    case 0x3009: // angle, corner and lenticular brackets
    case 0x300B:
    case 0x300D:
    case 0x300F:
    case 0x3011:
    case 0xFF01: // full-width ! ) , . : ; ?
    case 0xFF09:
    case 0xFF0C:
    case 0xFF0E:
    case 0xFF1A:
    case 0xFF1B:
    case 0xFF1F:
        return true;
    default:
        return false;
    }
}

// One row in the making: what has been taken, and where it could end.
struct row_state {
    size_t at, break_at; // break_at 0: nowhere yet
    uint32_t column, break_column;
    int used, room;
    bool after_space, after_wide;
};

// Takes the blank at `at`. False: the row ends here.
static bool take_blank(const struct wrap *wrap, struct row_state *row, uint32_t code)
{
    int width = code == '\t' ? TAB_COLUMNS - (int)(row->column % TAB_COLUMNS) : 1;
    bool over = row->used + width > row->room;
    if (wrap->anywhere && over && (code == ' ' || row->used >= row->room))
        return false;
    row->at++;
    row->column += (uint32_t)width;
    row->used = over && row->used < row->room ? row->room : row->used + width;
    row->after_space = true;
    row->after_wide = false;
    return true;
}

// Takes a character that is seen. False: the row ends, at `at` as it is then.
static bool take_glyph(const struct wrap *wrap, struct row_state *row, struct glyph glyph)
{
    bool wide = glyph.width == 2, may_break = row->after_space || ((wide || row->after_wide) && !closes(glyph.code));
    if (!wrap->anywhere && may_break && row->at > wrap->at) {
        row->break_at = row->at;
        row->break_column = row->column;
    }
    if (row->used + glyph.width > row->room && row->at > wrap->at) {
        if (row->break_at) {
            row->at = row->break_at;
            row->column = row->break_column;
        }
        return false;
    }
    row->at += glyph.bytes;
    row->column += glyph.width;
    row->used += glyph.width;
    row->after_space = false;
    row->after_wide = wide;
    return true;
}

bool wrap_next(struct wrap *wrap, struct wrap_row *row)
{
    if (wrap->begun && wrap->at >= wrap->length)
        return false;
    int taken = wrap->at == 0 ? wrap->first : wrap->hang;
    if (taken >= wrap->columns)
        taken = wrap->columns - 1;
    struct row_state state = {.at = wrap->at, .column = wrap->column, .room = wrap->columns - taken};
    while (state.at < wrap->length) {
        struct glyph glyph = cells_glyph(wrap->text + state.at, wrap->length - state.at);
        if (glyph.code == ' ' || glyph.code == '\t') {
            if (!take_blank(wrap, &state, glyph.code))
                break;
        } else if (glyph.width == 0) {
            state.at += glyph.bytes;
        } else if (!take_glyph(wrap, &state, glyph)) {
            break;
        }
    }
    *row = (struct wrap_row){.start = wrap->at,
                             .length = state.at - wrap->at,
                             .column = wrap->column,
                             .indent = (uint16_t)(wrap->at == 0 ? 0 : taken)};
    wrap->at = state.at;
    wrap->column = state.column;
    wrap->begun = true;
    return true;
}

int wrap_hang(const char *line, size_t length, int columns)
{
    size_t i = 0;
    int column = 0;
    for (; i < length && (line[i] == ' ' || line[i] == '\t'); i++)
        column += line[i] == '\t' ? TAB_COLUMNS - column % TAB_COLUMNS : 1;
    size_t mark = i;
    while (mark < length && mark < i + 3 && isdigit((unsigned char)line[mark]))
        mark++;
    bool numbered = mark > i && mark + 1 < length && (line[mark] == '.' || line[mark] == ')') && line[mark + 1] == ' ';
    if (numbered)
        column += (int)(mark - i) + 2;
    else if (i + 1 < length && strchr("-*+", line[i]) && line[i + 1] == ' ')
        column += 2;
    return column < columns / 2 ? column : columns / 2;
}
