// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as the table of tensors behind a sound header: the first byte is how many there are, the second how they
// are aligned, the next five the data's bytes. Refused with one line, or tensors of which no two share a byte.
#include <stdlib.h>
#include <string.h>

#include "engine/files/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

static size_t put(uint8_t *to, size_t at, uint64_t number, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        to[at + i] = (uint8_t)(number >> (8 * i));
    return at + width;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char key[] = "general.alignment";
    enum { GIVEN = 7, FIXED = 24 + 8 + sizeof key - 1 + 8 };
    struct gguf gguf = {.file = {.path = "F", .fd = -1}};
    struct moe_err err = {.text = ""};
    if (size < GIVEN)
        return 0;
    uint64_t more =
        data[2] | (uint64_t)data[3] << 8 | (uint64_t)data[4] << 16 | (uint64_t)data[5] << 24 | (uint64_t)data[6] << 32;
    size_t length = FIXED + size - GIVEN;
    uint8_t *header = malloc(length);
    must(header != NULL);
    memcpy(header, "GGUF\3\0\0\0", 8);
    size_t at = put(header, 8, data[0], 8);
    at = put(header, at, 1, 8);
    at = put(header, at, sizeof key - 1, 8);
    memcpy(header + at, key, sizeof key - 1);
    at = put(header, at + sizeof key - 1, GGUF_U32, 4);
    at = put(header, at, 8ULL << data[1] % 18, 4);
    must(at == FIXED);
    memcpy(header + FIXED, data + GIVEN, size - GIVEN);
    int code = gguf_parse(header, length, length + more, &gguf, &err);
    free(header);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "F: ", 3) == 0 && !strchr(err.text, '\n'));
        return 0;
    }
    for (size_t i = 0; i < gguf.file.count; i++) {
        const struct tensor *a = &gguf.file.tensors[i];
        must(a->bytes > 0 && a->offset >= gguf.data_start && a->bytes <= length + more - a->offset);
        for (size_t k = 0; k < i; k++) {
            const struct tensor *b = &gguf.file.tensors[k];
            must(a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes);
        }
    }
    gguf_release(&gguf);
    return 0;
}
