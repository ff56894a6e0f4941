// SPDX-License-Identifier: GPL-3.0-or-later
// Decodes and checks UTF-8.
#include "tokenizer/tok.h"

// Well-formed sequences as The Unicode Standard, table 3-7, lists them: only the second byte's range depends on the
// first.
int tok_utf8(const char *bytes, size_t length, uint32_t *code)
{
    unsigned first = (unsigned char)bytes[0];
    if (first < 0x80) {
        *code = first;
        return 1;
    }
    if (first < 0xC2 || first > 0xF4)
        return -1;
    int whole = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    uint32_t value = first & (0x7Fu >> whole);
    for (int i = 1; i < whole; i++) {
        if ((size_t)i == length)
            return 0;
        unsigned next = (unsigned char)bytes[i];
        if (next < low || next > high)
            return -i;
        value = value << 6 | (next & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    *code = value;
    return whole;
}
