// SPDX-License-Identifier: GPL-3.0-or-later
// Pieces to whole characters.
#include "tokenizer/tok.h"

#include <stdlib.h>

#include "tests/harness.h"

static const char text[] =
    "a\xC3\xA9 \xE2\x82\xAC\xF0\x9F\x98\x80 \xFF\xC3(\xE2\x82(\xF0\x9F\x98(\xED\xA0\x80\xC0\xAF\xF4\x90z"
    "\xF0\x9F\x98";

static void characters(struct harness *t)
{
    static const struct {
        const char *bytes;
        size_t length;
        int found;
        uint32_t code;
    } cases[] = {
        {"a", 1, 1, 'a'},
        {"\0", 1, 1, 0},
        {"\x7F", 1, 1, 0x7F},
        {"\x80", 1, -1, 0},
        {"\xBF", 1, -1, 0},
        {"\xC1\xBF", 2, -1, 0},
        {"\xC2\x80", 2, 2, 0x80},
        {"\xDF\xBF", 2, 2, 0x7FF},
        {"\xC2", 1, 0, 0},
        {"\xC2\x41", 2, -1, 0},
        {"\xE0\x9F\xBF", 3, -1, 0},
        {"\xE0\xA0\x80", 3, 3, 0x800},
        {"\xE0\xA0", 2, 0, 0},
        {"\xE0\xA0\x41", 3, -2, 0},
        {"\xED\x9F\xBF", 3, 3, 0xD7FF},
        {"\xED\xA0\x80", 3, -1, 0},
        {"\xEE\x80\x80", 3, 3, 0xE000},
        {"\xEF\xBF\xBF", 3, 3, 0xFFFF},
        {"\xF0\x8F\xBF\xBF", 4, -1, 0},
        {"\xF0\x90\x80\x80", 4, 4, 0x10000},
        {"\xF0\x90\x80", 3, 0, 0},
        {"\xF0\x90\x80\x41", 4, -3, 0},
        {"\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF},
        {"\xF4\x90\x80\x80", 4, -1, 0},
        {"\xF5\x80\x80\x80", 4, -1, 0},
        {"\xFF", 1, -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        int found = tok_utf8(cases[i].bytes, cases[i].length, &code);
        if (!CHECK_EQ(t, found, cases[i].found) || (found > 0 && !CHECK_EQ(t, code, cases[i].code)))
            printf("    case %zu\n", i);
    }
}

// Nothing is lost or changed, and what comes out before the flush never ends inside a character.
static void every_split(struct harness *t)
{
    size_t length = sizeof text - 1;
    for (size_t step = 1; step <= length; step++) {
        struct tok_stream stream = {0};
        char out[2 * sizeof text];
        size_t written = 0;
        for (size_t at = 0; at < length; at += step) {
            size_t n = length - at < step ? length - at : step;
            char *piece = malloc(n + 3); // its own allocation, so that a sanitizer sees a write too far
            size_t got = tok_stream_push(&stream, text + at, n, piece);
            memcpy(out + written, piece, got);
            written += got;
            free(piece);
            CHECK(t, at + n - written == stream.n_held && stream.n_held <= 3);
        }
        CHECK_EQ(t, stream.n_held, 3);
        written += tok_stream_flush(&stream, out + written);
        CHECK_EQ(t, written, length);
        CHECK(t, memcmp(out, text, length) == 0);
        CHECK_EQ(t, tok_stream_flush(&stream, out), 0);
    }
}

static void holds_only_what_may_become_a_character(struct harness *t)
{
    struct tok_stream stream = {0};
    char out[8];
    CHECK_EQ(t, tok_stream_push(&stream, "\xF0", 1, out), 0);
    CHECK_EQ(t, tok_stream_push(&stream, "\x9F", 1, out), 0);
    CHECK_EQ(t, tok_stream_push(&stream, "\x98", 1, out), 0);
    CHECK_EQ(t, tok_stream_push(&stream, "\x80", 1, out), 4);
    CHECK_EQ(t, tok_stream_push(&stream, "\xE2\x82", 2, out), 0);
    CHECK_EQ(t, tok_stream_push(&stream, "\xC3", 1, out), 2);
    CHECK_EQ(t, tok_stream_push(&stream, "\xA9", 1, out), 2);
    CHECK_EQ(t, tok_stream_push(&stream, "\xED\xA0", 2, out), 2);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(characters),
        TEST(every_split),
        TEST(holds_only_what_may_become_a_character),
    };
    return HARNESS_RUN(tests, argc, argv);
}
