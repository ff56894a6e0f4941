// SPDX-License-Identifier: GPL-3.0-or-later
// GPT-2's characters for bytes, both ways.
#include "tokenizer/alphabet.h"

#include <stdbool.h>

#include "tokenizer/tok.h"

void alphabet_init(struct alphabet *alphabet)
{
    int next = 256;
    for (int i = 0; i < ALPHABET_CODES; i++)
        alphabet->byte_of[i] = -1;
    for (int byte = 0; byte < 256; byte++) {
        bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        alphabet->byte_of[itself ? byte : next++] = (int16_t)byte;
    }
}

ptrdiff_t alphabet_bytes(const struct alphabet *alphabet, const char *text, size_t length, char *out)
{
    ptrdiff_t written = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        int n = tok_utf8(text + at, length - at, &code);
        if (n <= 0 || code >= ALPHABET_CODES || alphabet->byte_of[code] < 0)
            return -1;
        out[written++] = (char)alphabet->byte_of[code];
        at += (size_t)n;
    }
    return written;
}
