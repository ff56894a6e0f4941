// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a tiktoken.model and, behind a byte 0, its tokenizer_config.json.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "hello  the <s>~\n\xC3\xA9 AaaaAAaa 12345 \xE4\xB8\xAD\xE6\x96\x87's \xC3\xBC\t\t x";
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    struct bpe_tiktoken_files files = {.ranks_path = "fuzz.model", .config_path = "fuzz.json"};
    struct bpe *bpe = NULL;
    struct tok_ids list = {0};
    struct tok_err err;
    if (!zero)
        return 0;
    files.ranks = (const char *)data;
    files.ranks_length = (size_t)(zero - data);
    files.config = (const char *)zero + 1;
    files.config_length = size - files.ranks_length - 1;
    if (bpe_tiktoken(&files, &bpe, &err) != TOK_OK)
        return 0;
    size_t at = 0;
    if (bpe_encode(bpe, &(struct pattern_stop){0}, text, sizeof text - 1, &list, &err) != TOK_OK)
        abort();
    for (size_t i = 0; i < list.count; i++) {
        uint32_t id = (uint32_t)list.ids[i];
        if (id >= bpe->vocab.size || bpe->vocab.kind[id] != VOCAB_TEXT)
            abort();
        at += bpe->vocab.start[id + 1] - bpe->vocab.start[id];
    }
    if (at != sizeof text - 1)
        abort();
    tok_ids_release(&list);
    bpe_free(bpe);
    return 0;
}
