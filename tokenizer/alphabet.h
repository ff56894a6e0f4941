// SPDX-License-Identifier: GPL-3.0-or-later
// GPT-2's alphabet, in which byte-level BPE writes its pieces: a character for each byte. Printable Latin-1 stands for
// itself, the other bytes for the characters from U+0100 on. Source: bytes_to_unicode in GPT-2's encoder.py.
#ifndef MOECHAT_ALPHABET_H
#define MOECHAT_ALPHABET_H

#include <stddef.h>
#include <stdint.h>

enum { ALPHABET_CODES = 512 };

struct alphabet {
    int16_t byte_of[ALPHABET_CODES]; // of a code point, -1: it is not of the alphabet
};

void alphabet_init(struct alphabet *alphabet);
// Writes the bytes that `text` stands for to `out`, which has room for `length`, and returns how many they are; -1: it
// has other characters.
ptrdiff_t alphabet_bytes(const struct alphabet *alphabet, const char *text, size_t length, char *out);

#endif
