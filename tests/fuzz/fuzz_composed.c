// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes, what of them is UTF-8, composed: what comes out is UTF-8 that is composed already.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/composed.h"
#include "tokenizer/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    char *text = malloc(size + 1), *once, *twice;
    size_t length = 0, once_length, twice_length;
    uint32_t code;
    if (!text)
        abort();
    for (size_t at = 0; at < size;) {
        int n = tok_utf8(bytes + at, size - at, &code);
        if (n > 0)
            memcpy(text + length, bytes + at, (size_t)n);
        length += n > 0 ? (size_t)n : 0;
        at += n > 0 ? (size_t)n : 1;
    }
    if (!composed_text(text, length, &once, &once_length))
        abort();
    for (size_t at = 0; once && at < once_length;) {
        int n = tok_utf8(once + at, once_length - at, &code);
        if (n <= 0)
            abort();
        at += (size_t)n;
    }
    if (once && (!composed_text(once, once_length, &twice, &twice_length) || twice))
        abort();
    free(once);
    free(text);
    return 0;
}
