// SPDX-License-Identifier: GPL-3.0-or-later
// Help texts: found by what they say, wrapped before column 80.
#include "tests/harness.h"

#include <stdlib.h>

#include "app/util/words.h"

static void found_by_what_they_say(struct harness *t)
{
    CHECK(t, words_about("Sampling temperature", "TEMP") && words_about("x", "") && words_about("", ""));
    CHECK(t, !words_about("temp", "temper") && !words_about("", "a") && words_about("a tea temp", "temp"));
}

static const char *printed(const char *text, int indent, int column)
{
    static char out[512];
    FILE *file = fmemopen(out, sizeof out, "w");
    words_print(file, text, indent, column);
    fclose(file);
    return out;
}

static void wrapped_before_column_80(struct harness *t)
{
    char long_text[201] = "";
    CHECK_STR(t, printed("one two", 4, 4), "one two\n");
    for (int i = 0; i < 50; i++)
        strcat(long_text, i % 5 == 4 ? "abc " : "efgh");
    const char *out = printed(long_text, 24, 24);
    size_t words = 0;
    for (const char *line = out; *line; line += strcspn(line, "\n") + 1) {
        CHECK(t, strcspn(line, "\n") < 80);
        CHECK(t, line == out || strspn(line, " ") == 24);
    }
    for (const char *at = out; (at = strstr(at, "abc")); at++)
        words++;
    CHECK_EQ(t, words, 10); // none is lost
    CHECK(t, strchr(out, '\n') != out + strlen(out) - 1);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(found_by_what_they_say), TEST(wrapped_before_column_80)};
    return HARNESS_RUN(tests, argc, argv);
}
