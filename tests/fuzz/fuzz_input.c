// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes from a terminal, in two pieces or one: the same items come out, pastes hold no control characters, and the
// draft that they make has its cursor on the screen. The first byte chooses the cut and the width, the second the time.
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "app/view/draft.h"
#include "app/term/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
    struct bytes all, typed;
    struct draft *draft;
    bool burst; // what comes at once is another thing than what comes bit by bit
};

static void hear(void *context, const struct input_item *item)
{
    struct heard *heard = context;
    char kind = (char)('0' + item->kind);
    bool pasted = item->kind == INPUT_PASTE || item->kind == INPUT_BURST;
    heard->burst = heard->burst || item->kind == INPUT_BURST;
    for (size_t i = 0; pasted && i < item->length; i++) {
        unsigned char byte = (unsigned char)item->bytes[i];
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F)
            abort();
    }
    bytes_append(&heard->all, &kind, item->kind != INPUT_KEYS);
    bytes_append(&heard->all, item->bytes, item->length);
    bytes_append(&heard->all, &item->left_out, sizeof item->left_out);
    bytes_append(&heard->typed, item->bytes, item->length);
    if (heard->draft && pasted)
        draft_pasted(heard->draft, item->bytes, item->length);
}

static void push(struct heard *heard, const char *bytes, size_t length, size_t cut)
{
    struct input input = {.take = hear, .context = heard, .escape_ms = 30};
    input_push(&input, bytes, cut, 0);
    input_push(&input, bytes + cut, length - cut, 10);
    input_tick(&input, 100000);
    if (input_wait_ms(&input, 0) >= 0 && input.n_held)
        abort();
    input_release(&input);
}

static void check_draft(struct draft *draft, const struct bytes *line, size_t point, int columns)
{
    draft->columns = columns;
    draft->label = "> ";
    if (!draft_update(draft, line->data, line->length, point))
        abort();
    if (draft->cursor_row >= draft->n_rows || draft->indent + draft->cursor_column >= columns + (columns < 2))
        abort();
    for (int direction = -1; direction <= 1; direction += 2) {
        size_t to = draft_vertical(draft, direction);
        if (to != SIZE_MAX && to > line->length)
            abort();
    }
    for (size_t row = 0; row < draft->n_rows; row++)
        if (draft->rows[row].start > draft->rows[row].end || draft->rows[row].end > draft->shown.length)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    setlocale(LC_CTYPE, "C.UTF-8");
    struct draft draft = {0};
    struct heard whole = {.draft = &draft}, split = {.draft = NULL};
    const char *bytes = (const char *)data + 2;
    size_t length = size - 2, cut = data[0] < length ? data[0] : length;
    push(&whole, bytes, length, 0);
    push(&split, bytes, length, cut);
    bool same = whole.all.length == split.all.length &&
                (!whole.all.length || memcmp(whole.all.data, split.all.data, whole.all.length) == 0);
    if (!same && !whole.burst && !split.burst)
        abort();
    bytes_append(&whole.typed, "", 0);
    check_draft(&draft, &whole.typed, data[1] < whole.typed.length ? data[1] : whole.typed.length, 1 + data[0] % 90);
    draft_release(&draft);
    bytes_release(&whole.all);
    bytes_release(&whole.typed);
    bytes_release(&split.all);
    bytes_release(&split.typed);
    return 0;
}
