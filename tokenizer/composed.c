// SPDX-License-Identifier: GPL-3.0-or-later
// Composes text (NFC) before it is cut into words.
#include "tokenizer/composed.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/composed_tables.h"
#include "tokenizer/tok.h"

enum { N_PARTS = sizeof parts / sizeof parts[0], N_PAIRS = sizeof pairs / sizeof pairs[0] };
enum { N_CLASSES = sizeof classes / sizeof classes[0], FIRST_THAT_CHANGES = 0x300, SHORT_RUN = 16 };
// Hangul syllables are made by arithmetic.
enum { S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28 };
enum { S_COUNT = L_COUNT * V_COUNT * T_COUNT };

struct mark {
    uint32_t code;
    uint32_t order; // its combining class, 0: none, it starts something
};

struct composing {
    struct mark *marks; // NULL: they are counted
    size_t count;
};

// The first of ascending rows whose `column` is not below the code, or `count`.
static size_t row_from(const uint32_t (*rows)[3], size_t count, int column, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows[middle][column] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const uint32_t *parts_of(uint32_t code)
{
    size_t at = row_from(parts, N_PARTS, 0, code);
    return at < N_PARTS && parts[at][0] == code ? parts[at] : NULL;
}

static uint32_t class_of(uint32_t code)
{
    size_t at = row_from(classes, N_CLASSES, 1, code);
    return at < N_CLASSES && classes[at][0] <= code ? classes[at][2] : 0;
}

// 0: the two stay two.
static uint32_t pair_of(uint32_t first, uint32_t second)
{
    size_t low = 0, high = N_PAIRS;
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 && second - T_BASE - 1 < T_COUNT - 1)
        return first + (second - T_BASE);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const uint32_t *row = parts[pairs[middle]];
        if (row[1] < first || (row[1] == first && row[2] < second))
            low = middle + 1;
        else
            high = middle;
    }
    const uint32_t *row = low < N_PAIRS ? parts[pairs[low]] : NULL;
    return row && row[1] == first && row[2] == second ? row[0] : 0;
}

static void take_apart(struct composing *c, uint32_t code)
{
    const uint32_t *row = code < 0xC0 ? NULL : parts_of(code);
    uint32_t syllable = code - S_BASE;
    if (syllable < S_COUNT) {
        take_apart(c, L_BASE + syllable / (V_COUNT * T_COUNT));
        take_apart(c, V_BASE + syllable / T_COUNT % V_COUNT);
        if (syllable % T_COUNT)
            take_apart(c, T_BASE + syllable % T_COUNT);
    } else if (row) {
        take_apart(c, row[1]);
        if (row[2])
            take_apart(c, row[2]);
    } else {
        if (c->marks)
            c->marks[c->count] = (struct mark){code, code < FIRST_THAT_CHANGES ? 0 : class_of(code)};
        c->count++;
    }
}

// False: all of it is as it is.
static bool take_all_apart(struct composing *c, const char *text, size_t length)
{
    bool plain = true;
    c->count = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code = 0;
        int n = tok_utf8(text + at, length - at, &code);
        plain = plain && code < FIRST_THAT_CHANGES;
        take_apart(c, code);
        at += n > 0 ? (size_t)n : 1;
    }
    return !plain;
}

// Marks of one run by their class, those of one class as they were.
static bool sort_run(struct mark *marks, size_t count)
{
    for (size_t i = 1; i < count && count <= SHORT_RUN; i++) {
        struct mark mark = marks[i];
        size_t at = i;
        for (; at > 0 && marks[at - 1].order > mark.order; at--)
            marks[at] = marks[at - 1];
        marks[at] = mark;
    }
    if (count <= SHORT_RUN)
        return true;
    size_t starts[257] = {0};
    struct mark *sorted = malloc(count * sizeof *sorted);
    if (!sorted)
        return false;
    for (size_t i = 0; i < count; i++)
        starts[marks[i].order + 1]++;
    for (size_t i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        sorted[starts[marks[i].order]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *sorted);
    free(sorted);
    return true;
}

static bool sort_marks(struct composing *c)
{
    for (size_t at = 0; at < c->count;) {
        size_t end = at;
        while (end < c->count && c->marks[end].order)
            end++;
        if (end > at && !sort_run(c->marks + at, end - at))
            return false;
        at = end > at ? end : at + 1;
    }
    return true;
}

// A mark goes into the last starter unless one of its class or higher stands between.
static void put_together(struct composing *c)
{
    size_t starter = SIZE_MAX, count = 0;
    uint32_t last = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct mark mark = c->marks[i];
        bool reaches = starter != SIZE_MAX && (last < mark.order || last == 0);
        uint32_t whole = reaches ? pair_of(c->marks[starter].code, mark.code) : 0;
        if (whole) {
            c->marks[starter].code = whole;
            continue;
        }
        if (mark.order == 0)
            starter = count;
        last = mark.order;
        c->marks[count++] = mark;
    }
    c->count = count;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out = (char)code;
        return 1;
    }
    int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(heads[n] | code);
    return (size_t)n;
}

bool composed_text(const char *text, size_t length, char **out, size_t *out_length)
{
    struct composing c = {0};
    bool fine = false;
    *out = NULL;
    if (!take_all_apart(&c, text, length))
        return true;
    c.marks = malloc(c.count * sizeof *c.marks);
    if (!c.marks)
        return false;
    take_all_apart(&c, text, length);
    if (!sort_marks(&c))
        goto release;
    put_together(&c);
    *out = malloc(c.count * 4 + 1);
    if (!*out)
        goto release;
    *out_length = 0;
    for (size_t i = 0; i < c.count; i++)
        *out_length += put_utf8(*out + *out_length, c.marks[i].code);
    fine = true;
    if (*out_length == length && memcmp(*out, text, length) == 0) {
        free(*out);
        *out = NULL;
    }
release:
    free(c.marks);
    return fine;
}
