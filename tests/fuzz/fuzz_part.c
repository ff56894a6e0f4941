// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a transcript: lines are found and read, or not; what was read renders to the same line again. The first
// byte says whether checksums are made right first, so that what lies behind them is reached.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "app/store/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY = 26 }; // {"sum":"0123456789abcdef",

static void seal(char *line, size_t length)
{
    if (length <= BODY)
        return;
    unsigned long long sum = XXH3_64bits(line + BODY, length - BODY);
    for (int i = 0; i < 16; i++)
        line[8 + i] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes file = {0};
    struct part_lines transcript = {0};
    if (size < 1 || !bytes_append(&file, data + 1, size - 1))
        return 0;
    for (size_t at = 0; data[0] & 1 && at < file.length;) {
        const char *newline = memchr(file.data + at, '\n', file.length - at);
        size_t length = newline ? (size_t)(newline - file.data) - at : file.length - at;
        seal(file.data + at, length);
        at += length + 1;
    }
    if (!part_lines_scan(&file, &transcript))
        abort();
    for (size_t i = 0; i < transcript.n_lines; i++) {
        const struct part_line *line = &transcript.lines[i];
        struct part part, again;
        struct bytes rendered = {0};
        uint64_t sum;
        if (!part_parse(file.data + line->offset, line->length - 1, &part, &sum) || sum != line->sum)
            abort();
        if (!part_render(&part, &rendered) || !part_parse(rendered.data, rendered.length - 1, &again, &sum))
            abort();
        if (again.number != part.number || again.after != part.after || again.text.length != part.text.length ||
            memcmp(again.text.data, part.text.data, part.text.length) != 0 || again.ids.count != part.ids.count)
            abort();
        part_release(&part);
        part_release(&again);
        bytes_release(&rendered);
    }
    part_lines_release(&transcript);
    bytes_release(&file);
    return 0;
}
