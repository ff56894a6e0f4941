// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as text: ids give them back, none is silent, and a stream fed with the ids' bytes gives them too.
// Run from the root of the tree.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const tok *small_model(void)
{
    static tok *tokenizer;
    if (!tokenizer && tok_open("sentencepiece", "tests/unit/data/small.model", &tokenizer, NULL) != TOK_OK)
        abort();
    return tokenizer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tok *tokenizer = small_model();
    struct tok_ids list = {0};
    struct tok_stream stream = {{0}, 0};
    size_t written = 0;
    char *out = malloc(size + 4);
    if (tok_encode(tokenizer, (const char *)data, size, &list, NULL) != TOK_OK)
        abort();
    for (size_t i = 0; i < list.count; i++) {
        const char *bytes;
        size_t n = tok_bytes(tokenizer, list.ids[i], &bytes);
        if (n == 0 || n > size - written - stream.n_held)
            abort();
        written += tok_stream_push(&stream, bytes, n, out + written);
    }
    written += tok_stream_flush(&stream, out + written);
    if (written != size || (size && memcmp(out, data, size) != 0))
        abort();
    free(out);
    tok_ids_release(&list);
    return 0;
}
