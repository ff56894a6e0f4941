// SPDX-License-Identifier: GPL-3.0-or-later
// A hash table from bytes to ids.
#include "tokenizer/lexicon.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tokenizer/tok_err.h"

static uint32_t *slot_of(const struct lexicon *lexicon, const char *bytes, size_t length)
{
    const struct vocab *vocab = lexicon->vocab;
    size_t at = (size_t)XXH3_64bits(bytes, length) & lexicon->mask;
    for (; lexicon->slots[at]; at = (at + 1) & lexicon->mask) {
        uint32_t id = lexicon->slots[at] - 1;
        if (vocab->start[id + 1] - vocab->start[id] == length &&
            memcmp(vocab->bytes + vocab->start[id], bytes, length) == 0)
            break;
    }
    return &lexicon->slots[at];
}

int lexicon_init(struct lexicon *lexicon, const struct vocab *vocab, struct lexicon_filter filter, struct tok_err *err)
{
    size_t slots = 16, count = 0;
    for (uint32_t id = 0; id < vocab->size; id++)
        count += (vocab->flags[id] & filter.mask) == filter.wanted;
    while (slots < 2 * count)
        slots *= 2;
    *lexicon = (struct lexicon){.vocab = vocab, .slots = calloc(slots, sizeof *lexicon->slots), .mask = slots - 1};
    if (!lexicon->slots)
        return tok_fail(err, TOK_NO_MEMORY, "out of memory for %u pieces", (unsigned)vocab->size);
    for (uint32_t id = 0; id < vocab->size; id++) {
        uint32_t length = vocab->start[id + 1] - vocab->start[id];
        if (length == 0 || (vocab->flags[id] & filter.mask) != filter.wanted)
            continue;
        uint32_t *slot = slot_of(lexicon, vocab->bytes + vocab->start[id], length);
        if (!*slot)
            *slot = id + 1;
    }
    return TOK_OK;
}

void lexicon_release(struct lexicon *lexicon)
{
    free(lexicon->slots);
    *lexicon = (struct lexicon){0};
}

int32_t lexicon_find(const struct lexicon *lexicon, const char *bytes, size_t length)
{
    return length ? (int32_t)*slot_of(lexicon, bytes, length) - 1 : -1;
}
