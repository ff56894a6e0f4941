// SPDX-License-Identifier: GPL-3.0-or-later
// Lists of texts in one line: taken apart, held to their limits, printed so that they are read again as they were.
#include "app/util/texts.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

// Its texts, each in brackets.
static const char *apart(const char *line)
{
    static char out[4 * TEXTS_SIZE];
    char text[TEXTS_EACH];
    size_t at = 0, length;
    out[0] = 0;
    while ((length = texts_next(&line, text)) > 0)
        at += (size_t)snprintf(out + at, sizeof out - at, "[%.*s]", (int)length, text);
    return out;
}

static const char *printed(const char *line)
{
    static char out[4 * TEXTS_SIZE];
    struct texts texts = {""};
    FILE *file = fmemopen(out, sizeof out, "w");
    snprintf(texts.line, sizeof texts.line, "%s", line);
    texts_print(file, &texts);
    fclose(file);
    return out;
}

static void taken_apart(struct harness *t)
{
    CHECK_STR(t, apart("a,b c"), "[a][b c]");
    CHECK_STR(t, apart(",,a,,b,"), "[a][b]");
    CHECK_STR(t, apart("\\n,a\\,b,\\\\,\\t"), "[\n][a,b][\\][\t]");
    CHECK_STR(t, apart("\\x,end\\"), "[\\x][end\\]"); // no escapes
    CHECK_STR(t, apart(""), "");
}

static void printed_and_read_again(struct harness *t)
{
    CHECK_STR(t, printed(""), "none");
    CHECK_STR(t, printed("a\\,b,c\\\\"), "a\\,b,c\\\\");
    CHECK_STR(t, printed("a\tb\nc"), "a\\tb\\nc");
    static const char *const lines[] = {"a\tb", "a\\\tb", "a\\\\\tb", "\\\n", "\\\\\\\t,x", "a\\t", "end\\"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char want[TEXTS_SIZE];
        snprintf(want, sizeof want, "%s", apart(lines[i]));
        CHECK_STR(t, apart(printed(lines[i])), want);
        CHECK(t, !strpbrk(printed(lines[i]), "\n\t"));
    }
}

// `count` times `piece`.
static const char *many(const char *piece, size_t count)
{
    static char out[2 * TEXTS_SIZE];
    out[0] = 0;
    for (size_t i = 0; i < count; i++)
        strcat(out, piece);
    return out;
}

static char *without_end(const char *line)
{
    static char out[2 * TEXTS_SIZE];
    snprintf(out, sizeof out, "%.*s", (int)strlen(line) - 1, line);
    return out;
}

static void limits(struct harness *t)
{
    CHECK(t, !texts_check("") && !texts_check("a"));
    CHECK(t, !texts_check(many("a", 127)));
    CHECK_STR(t, texts_check(many("a", 128)), "has a text of more than 127 bytes");
    CHECK(t, !texts_check(many("\\n", 127)));
    CHECK_STR(t, texts_check(many("\\n", 128)), "has a text of more than 127 bytes");
    CHECK(t, !texts_check(without_end(many("a,", 32))));
    CHECK_STR(t, texts_check(without_end(many("a,", 33))), "has more than 32 texts");
    CHECK_STR(t, texts_check(many(",", 512)), "is longer than 511 bytes");
    CHECK(t, !texts_check(without_end(many("\t,", 32))));
    static const char empty[] = "has an empty text beside a comma; \\, is a comma that is meant";
    static const char *const strays[] = {",", "a,", ",a", "a,,b", "a\\,,"};
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++)
        CHECK_STR(t, texts_check(strays[i]), empty);
    CHECK(t, !texts_check("\\,") && !texts_check("a,\\,") && !texts_check("\\,\\,,b"));
    CHECK_STR(t, texts_check(many("aaaaaaaaaa\t\t\t\t\t,", 26)), "is longer than 511 bytes"); // 416, printed 546
    char text[TEXTS_EACH];
    const char *line = many("a", 200);
    CHECK_EQ(t, texts_next(&line, text), 127);
    CHECK_EQ(t, strlen(text), 127);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(taken_apart), TEST(printed_and_read_again), TEST(limits)};
    return HARNESS_RUN(tests, argc, argv);
}
