// SPDX-License-Identifier: GPL-3.0-or-later
// Wraps a stream of text between words.
#include "app/view/flow.h"

#include "app/view/cells.h"

static void put(struct bytes *what, FILE *out)
{
    fwrite(what->data ? what->data : "", 1, what->length, out);
    what->length = 0;
}

// The word, on a line of its own if it does not fit behind what stands there.
static void end_word(struct flow *flow, FILE *out, int columns)
{
    int width = flow->width, before = (int)flow->space.length;
    if (!width)
        return;
    flow->width = 0;
    if (flow->column > 0 && flow->column + before + width > columns) {
        fputc('\n', out);
        flow->column = before = 0;
        flow->space.length = 0;
    }
    put(&flow->space, out);
    put(&flow->word, out);
    flow->column += before + width;
}

static void take(struct flow *flow, FILE *out, int columns, const char *text, const struct glyph *glyph)
{
    bool wide = glyph->width == 2; // may stand at the end of any line
    if (wide)
        end_word(flow, out, columns);
    if (!bytes_append(&flow->word, text, glyph->bytes)) {
        put(&flow->word, out); // without memory it comes as it is
        fwrite(text, 1, glyph->bytes, out);
        flow->width = 0;
        return;
    }
    flow->width += glyph->width;
    if (wide || flow->width >= columns)
        end_word(flow, out, columns);
}

void flow_push(struct flow *flow, FILE *out, int columns, const char *text, size_t length)
{
    if (columns <= 0) {
        fwrite(text, 1, length, out);
        return;
    }
    for (size_t at = 0; at < length;) {
        struct glyph glyph = cells_glyph(text + at, length - at);
        if (text[at] == '\n') {
            flow_flush(flow, out, columns);
            fputc('\n', out);
            flow->column = 0;
        } else if (text[at] == ' ' || text[at] == '\t') {
            end_word(flow, out, columns);
            if (!bytes_append(&flow->space, text + at, 1))
                fputc(text[at], out);
        } else {
            take(flow, out, columns, text + at, &glyph);
        }
        at += glyph.bytes ? glyph.bytes : 1;
    }
}

void flow_flush(struct flow *flow, FILE *out, int columns)
{
    end_word(flow, out, columns);
    flow->column += (int)flow->space.length;
    put(&flow->space, out);
}

void flow_release(struct flow *flow)
{
    bytes_release(&flow->space);
    bytes_release(&flow->word);
}
