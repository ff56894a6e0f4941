// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes: the output is UTF-8 without a control character, sanitising it again changes nothing, and any split gives
// the same. The first byte chooses the split.
#include <stdlib.h>
#include <string.h>

#include "app/util/sanitize.h"
#include "tokenizer/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *sanitize_in(const char *text, size_t length, size_t step, size_t *written)
{
    struct sanitize state = {0};
    char *out = malloc(SANITIZE_ROOM(length));
    *written = 0;
    for (size_t at = 0; at < length; at += step) {
        size_t n = length - at < step ? length - at : step;
        char *piece = malloc(SANITIZE_ROOM(n));
        size_t got = sanitize_push(&state, text + at, n, piece);
        memcpy(out + *written, piece, got);
        *written += got;
        free(piece);
    }
    *written += sanitize_flush(&state, out + *written);
    return out;
}

static void must_be_equal(const char *a, size_t n_a, const char *b, size_t n_b)
{
    if (n_a != n_b || memcmp(a, b, n_a) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n_whole, n_split, n_again;
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    char *whole = sanitize_in(text, size - 1, size, &n_whole);
    char *split = sanitize_in(text, size - 1, 1 + data[0] % 16u, &n_split);
    char *again = sanitize_in(whole, n_whole, n_whole + 1, &n_again);
    must_be_equal(whole, n_whole, split, n_split);
    must_be_equal(whole, n_whole, again, n_again);
    for (size_t at = 0; at < n_whole;) {
        uint32_t code;
        int found = tok_utf8(whole + at, n_whole - at, &code);
        if (found <= 0 || (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0))
            abort();
        at += (size_t)found;
    }
    free(whole);
    free(split);
    free(again);
    return 0;
}
