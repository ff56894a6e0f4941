// SPDX-License-Identifier: GPL-3.0-or-later
// What acts on a terminal or hides text is made visible; text stays as it is.
#include "app/util/sanitize.h"

#include <stdlib.h>

#include "tests/harness.h"
#include "app/util/marks.h"

#define BOX   "\xE2\x96\xAF"
#define BAD   "\xEF\xBF\xBD"
#define ESC   "\xE2\x90\x9B"
#define ZWJ   "\xE2\x80\x8D"
#define VS15  "\xEF\xB8\x8E"
#define VS16  "\xEF\xB8\x8F"
#define WOMAN "\xF0\x9F\x91\xA9"
#define GIRL  "\xF0\x9F\x91\xA7"
#define TONE  "\xF0\x9F\x8F\xBD"
#define HEART "\xE2\x9D\xA4"
#define CAP   "\xE2\x83\xA3"
#define ACUTE "\xCC\x81"

// Sanitises `text` in pieces of `step` bytes, each output in its own allocation of just the promised room.
static size_t sanitize_in(const char *text, size_t length, size_t step, char *out)
{
    struct sanitize state = {0};
    size_t written = 0;
    for (size_t at = 0; at <= length; at += step) {
        size_t n = length - at < step ? length - at : step;
        char *piece = malloc(SANITIZE_ROOM(n));
        size_t got = sanitize_push(&state, text + at, n, piece);
        memcpy(out + written, piece, got);
        written += got;
        free(piece);
    }
    char last[SANITIZE_ROOM(0)];
    size_t got = sanitize_flush(&state, last);
    memcpy(out + written, last, got);
    return written + got;
}

static void shows(struct harness *t, const char *text, const char *want)
{
    char out[SANITIZE_ROOM(256)];
    size_t length = strlen(text);
    for (size_t step = 1; step <= length + 1; step++) {
        out[sanitize_in(text, length, step, out)] = '\0';
        if (!CHECK_STR(t, out, want))
            printf("    in pieces of %zu\n", step);
    }
}

static void text_stays(struct harness *t)
{
    static const char *const texts[] = {"",
                                        "plain text 1 2 3 #*~",
                                        "line\n\n\ttab\n",
                                        "\xC3\xA9 \xD0\xBF\xD1\x80 \xE6\x97\xA5\xE6\x9C\xAC \xEA\xB0\x80",
                                        "e" ACUTE "o\xCC\x88\xCC\x84",
                                        "\xE0\xB8\x81\xE0\xB8\xB3\xE0\xB8\xB9",
                                        "\xC2\xA0\xE3\x80\x80",
                                        BAD,
                                        "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8",
                                        "\xF0\x9F\x98\x80",
                                        "\xF0\xA0\x80\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        shows(t, texts[i], texts[i]);
}

static void controls(struct harness *t)
{
    struct sanitize state = {0};
    char out[SANITIZE_ROOM(1)];
    for (int c = 0; c < 0x20; c++) {
        char byte = (char)c;
        size_t n = sanitize_push(&state, &byte, 1, out);
        if (c == '\n' || c == '\t')
            CHECK(t, n == 1 && out[0] == byte);
        else
            CHECK(t, n == 3 && (unsigned char)out[1] == 0x90 && (unsigned char)out[2] == 0x80 + c);
    }
    shows(t, "\x1B[2J\x1B]0;title\x07", ESC "[2J" ESC "]0;title\xE2\x90\x87");
    shows(t, "a\rb\bc\x7F",
          "a\xE2\x90\x8D"
          "b\xE2\x90\x88"
          "c\xE2\x90\xA1");
    shows(t, "\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA1", BAD BAD BAD "\xC2\xA1");
    shows(t,
          "a\xE2\x80\xA8"
          "b\xE2\x80\xA9",
          "a\xE2\x90\xA4"
          "b\xE2\x90\xA4");
}

static void what_is_not_utf8(struct harness *t)
{
    shows(t, "\xFF", BAD);
    shows(t, "\x9B", BAD);
    shows(t, "a\xC3(", "a" BAD "(");
    shows(t, "\xE2\x82", BAD);
    shows(t, "\xE2\x82\xE2\x82\xAC", BAD "\xE2\x82\xAC");
    shows(t, "\xF0\x9F\x98\x1B", BAD ESC);
    shows(t, "\xED\xA0\x80", BAD BAD BAD);
    shows(t, "\xC0\x9B", BAD BAD);
    shows(t, "\xF4\x90\x80\x80", BAD BAD BAD BAD);
}

static void hidden_text(struct harness *t)
{
    static const char *const hidden[] = {"\xC2\xAD",
                                         "\xCD\x8F",
                                         "\xD8\x9C",
                                         "\xE1\xA0\x8E",
                                         "\xE2\x80\x8B",
                                         "\xE2\x80\x8C",
                                         "\xE2\x80\x8E",
                                         "\xE2\x80\x8F",
                                         "\xE2\x80\xAA",
                                         "\xE2\x80\xAE",
                                         "\xE2\x81\xA0",
                                         "\xE2\x81\xA6",
                                         "\xE2\x81\xA9",
                                         "\xE2\x81\xAF",
                                         "\xE3\x85\xA4",
                                         "\xEF\xB8\x80",
                                         "\xEF\xBB\xBF",
                                         "\xEF\xBF\xB9",
                                         "\xF3\xA0\x80\x80",
                                         "\xF3\xA0\x81\xA1",
                                         "\xF3\xA0\x81\xBF",
                                         "\xF3\xA0\x84\x80",
                                         "\xF3\xA0\xBF\xBF",
                                         VS15,
                                         VS16,
                                         ZWJ};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "a%sb", hidden[i]);
        shows(t, text, "a" BOX "b");
        shows(t, hidden[i], BOX);
    }
}

static void emoji(struct harness *t)
{
    static const char *const kept[] = {WOMAN ZWJ WOMAN ZWJ GIRL,
                                       HEART VS16,
                                       HEART VS15,
                                       HEART VS16 ZWJ WOMAN,
                                       WOMAN TONE ZWJ HEART VS16 ZWJ WOMAN,
                                       "1" VS16 CAP "2" VS16 CAP "#" VS16 CAP,
                                       "\xF0\x9F\x87\xAB\xF0\x9F\x87\xAE"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        shows(t, kept[i], kept[i]);
    shows(t, "1" CAP, "1" CAP);
    shows(t, WOMAN ZWJ, WOMAN BOX);
    shows(t, WOMAN ZWJ "a" ZWJ WOMAN, WOMAN BOX "a" BOX WOMAN);
    shows(t, WOMAN ZWJ ZWJ WOMAN, WOMAN BOX BOX WOMAN);
    shows(t, WOMAN ZWJ VS16 WOMAN, WOMAN BOX BOX WOMAN);
    shows(t, HEART VS16 VS16, HEART VS16 BOX);
    shows(t, WOMAN TONE TONE TONE, WOMAN TONE BOX BOX); // each adds something that is seen, or there is no end of them
    shows(t, WOMAN TONE WOMAN TONE, WOMAN TONE WOMAN TONE);
    shows(t, HEART VS16 TONE VS16 TONE, HEART VS16 TONE BOX BOX);
    shows(t, HEART TONE VS16 TONE, HEART TONE VS16 BOX);
    shows(t, WOMAN ZWJ TONE ZWJ TONE, WOMAN BOX BOX BOX BOX);
    shows(t, WOMAN ACUTE TONE ACUTE, WOMAN ACUTE BOX ACUTE);
    shows(t, TONE "a" TONE, BOX "a" BOX);
    shows(t, HEART ACUTE VS16 ZWJ WOMAN, HEART ACUTE BOX BOX WOMAN);
    shows(t, WOMAN ZWJ "\xFF", WOMAN BOX BAD);
    shows(t, WOMAN ZWJ "\xF0\x9F\x91", WOMAN BOX BAD);
    shows(t, "1" VS16, "1" BOX);
    shows(t, "1" VS16 "2", "1" BOX "2");
    shows(t, "1" VS15 CAP, "1" BOX CAP);
    shows(t, "a" VS16 CAP, "a" BOX CAP);
    shows(t, "\xE2\x80\x8B" VS16, BOX BOX); // our own box is no emoji
}

static void marks(struct harness *t)
{
#define FOUR ACUTE "\xCC\x82\xD6\xBF\xE2\x83\x9D"
    shows(t, "e" FOUR, "e" FOUR);
    shows(t, "e" FOUR ACUTE ACUTE "a" ACUTE, "e" FOUR "a" ACUTE);
    shows(t, FOUR ACUTE, FOUR);
    shows(t, "\x1B" FOUR ACUTE "\n" ACUTE, ESC FOUR "\n" ACUTE);
    shows(t, WOMAN ZWJ FOUR ACUTE, WOMAN BOX FOUR);
    CHECK(t, is_mark(0x300) && is_mark(0x36F) && is_mark(0x20E3) && is_mark(0x11FF) && is_mark(0x1E94A));
    CHECK(t, !is_mark(0x2FF) && !is_mark(0x370) && !is_mark(0) && !is_mark(0x1100) && !is_mark(0x10FFFF));
}

static void a_flush_starts_anew(struct harness *t)
{
    struct sanitize state = {0};
    char out[SANITIZE_ROOM(8)];
    CHECK_EQ(t, sanitize_push(&state, WOMAN ZWJ "\xF0\x9F", 9, out), 4);
    CHECK_EQ(t, sanitize_flush(&state, out), 6);
    CHECK(t, memcmp(out, BOX BAD, 6) == 0);
    CHECK_EQ(t, sanitize_push(&state, WOMAN, 4, out), 4);
    CHECK_EQ(t, sanitize_flush(&state, out), 0);
    CHECK_EQ(t, sanitize_push(&state, VS16, 3, out), 3);
    CHECK(t, memcmp(out, BOX, 3) == 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(text_stays), TEST(controls), TEST(what_is_not_utf8),    TEST(hidden_text),
        TEST(emoji),      TEST(marks),    TEST(a_flush_starts_anew),
    };
    return HARNESS_RUN(tests, argc, argv);
}
