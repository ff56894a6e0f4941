// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a SentencePiece model file: refused, or a model that the library opens and encodes text with.
#include <string.h>

#include "tokenizer/sentencepiece.h"
#include "tokenizer/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "hello  the <s>~\n\xC3\xA9 aaaaaaaa";
    const char *file = (const char *)data;
    struct vocab vocab;
    struct pieces *pieces = NULL;
    struct tok_ids list = {0};
    struct tok_err err;
    if (vocab_init(&vocab, file, size, "fuzz", &err) != TOK_OK)
        return 0;
    if (sentencepiece_open(file, size, "fuzz", &pieces, &err) == TOK_OK)
        sentencepiece_encode(pieces, text, strlen(text), &list, &err);
    sentencepiece_close(pieces);
    tok_ids_release(&list);
    vocab_release(&vocab);
    return 0;
}
