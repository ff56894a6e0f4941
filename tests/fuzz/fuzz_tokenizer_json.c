// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a tokenizer.json: refused, or a tokenizer whose ids give text back.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "hello  the <s>~\n\xC3\xA9 aaaaaaaa 12345 \xE4\xB8\xAD\xE6\x96\x87's \xC3\xBC\t\t x";
    struct bpe *bpe = NULL;
    struct tok_ids list = {0};
    struct tok_err err;
    if (bpe_huggingface((const char *)data, size, "fuzz", &bpe, &err) != TOK_OK)
        return 0;
    bool strips = false;
    for (uint32_t id = 0; id < bpe->vocab.size; id++)
        strips = strips || (bpe->vocab.flags[id] & (VOCAB_STRIP_LEFT | VOCAB_STRIP_RIGHT));
    if (bpe_encode(bpe, &(struct pattern_stop){0}, text, sizeof text - 1, &list, &err) == TOK_OK && !strips) {
        size_t at = 0;
        for (size_t i = 0; i < list.count; i++) {
            uint32_t id = (uint32_t)list.ids[i];
            if (id >= bpe->vocab.size || bpe->vocab.kind[id] != VOCAB_TEXT)
                abort();
            size_t n = bpe->vocab.start[id + 1] - bpe->vocab.start[id];
            if (n > sizeof text - 1 - at || memcmp(bpe->vocab.bytes + bpe->vocab.start[id], text + at, n) != 0)
                abort();
            at += n;
        }
        if (at != sizeof text - 1)
            abort();
    }
    tok_ids_release(&list);
    bpe_free(bpe);
    return 0;
}
