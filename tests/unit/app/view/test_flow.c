// SPDX-License-Identifier: GPL-3.0-or-later
// Text in lines that end between words, whatever the pieces in which it comes.
#include <locale.h>
#include <stdlib.h>
#include <time.h>

#include "tests/harness.h"
#include "app/view/flow.h"

static char *flowed(int columns, int column, const char *text, size_t piece)
{
    struct flow flow = {.column = column};
    char *out = NULL;
    size_t size = 0, length = strlen(text);
    FILE *file = open_memstream(&out, &size);
    for (size_t at = 0; at < length;) {
        size_t part = length - at < piece ? length - at : piece;
        while (((unsigned char)text[at + part] & 0xC0) == 0x80) // whole characters, as the sanitiser gives them
            part++;
        flow_push(&flow, file, columns, text + at, part);
        at += part;
    }
    flow_flush(&flow, file, columns);
    fclose(file);
    flow_release(&flow);
    return out;
}

static void words_stay_whole(struct harness *t)
{
    static const struct {
        int columns, column;
        const char *text, *out;
    } cases[] = {
        {10, 0, "one two three", "one two\nthree"},
        {10, 5, "one two", "one\ntwo"},
        {10, 9, "one", "\none"},
        {10, 0, "  indented a", "  indented\na"},
        {10, 0, "a\n\n  b c", "a\n\n  b c"},
        {10, 0, "abcdefghijklmno p", "abcdefghij\nklmno p"}, // too long for any line
        {6, 0, "\xe6\xb5\xb7\xe6\xb5\xb7\xe6\xb5\xb7\xe6\xb5\xb7",
         "\xe6\xb5\xb7\xe6\xb5\xb7\xe6\xb5\xb7\n\xe6\xb5\xb7"},
        {0, 0, "one two three four five", "one two three four five"},
        {10, 0, "end  ", "end  "},
        {4, 0, "to be or", "to\nbe\nor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 8; piece += 3) {
            char *out = flowed(cases[i].columns, cases[i].column, cases[i].text, piece);
            CHECK_STR(t, out, cases[i].out);
            free(out);
        }
}

// A long word is not held until its end: pieces of a line's width go.
static void little_is_held(struct harness *t)
{
    struct flow flow = {0};
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    flow_push(&flow, file, 8, "abcdefghi", 9);
    fflush(file);
    CHECK_STR(t, out, "abcdefgh");
    flow_push(&flow, file, 8, " ", 1);
    fflush(file);
    CHECK_STR(t, out, "abcdefgh\ni");
    fclose(file);
    free(out);
    flow_release(&flow);
}

// What has no width is not measured again with each that follows, however many there are.
static void a_word_is_measured_once(struct harness *t)
{
    enum { MARKS = 200000 };
    struct flow flow = {0};
    FILE *nowhere = fopen("/dev/null", "w");
    if (!CHECK(t, nowhere != NULL))
        return;
    clock_t before = clock();
    for (int i = 0; i < MARKS; i++)
        flow_push(&flow, nowhere, 80, "\xCC\x81", 2);
    CHECK(t, clock() - before < 10 * CLOCKS_PER_SEC);
    CHECK_EQ(t, flow.word.length, 2 * MARKS);
    flow_push(&flow, nowhere, 80, "a ", 2);
    CHECK(t, flow.word.length == 0 && flow.column == 1);
    fclose(nowhere);
    flow_release(&flow);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(words_stay_whole), TEST(little_is_held),
                                                TEST(a_word_is_measured_once)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
