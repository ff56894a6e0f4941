// SPDX-License-Identifier: GPL-3.0-or-later
// Tables on screens of any width.
#include <locale.h>
#include <stdlib.h>

#include "app/view/cells.h"
#include "app/view/table.h"
#include "tests/harness.h"

static const char *folded(const char *text, int columns)
{
    static char out[2000];
    FILE *file = fmemopen(out, sizeof out, "w");
    table_fold(file, text, &(struct table){columns, .second = 12, .least = 16});
    fclose(file);
    return out;
}

static void goes_on_below_itself(struct harness *t)
{
    static const char text[] = "  name      one two three four five\n  short     x\n";
    CHECK_STR(t, folded(text, 0), text);
    CHECK_STR(t, folded(text, 80), text);
    CHECK_STR(t, folded(text, 28), "  name      one two three\n            four five\n  short     x\n");
    CHECK_STR(t, folded(text, 20), "  name      one two\n    three four five\n  short     x\n"); // no second column
    CHECK_STR(t, folded("  a-long-name   one two\n", 20), "  a-long-name   one\n    two\n");
    CHECK_STR(t, folded("  a-long-name       one two\n", 20),
              "  a-long-name\n    one two\n"); // cut between the columns
    CHECK_STR(t, folded("  a-name, or-another\n            one two three\n", 20),
              "  a-name, or-another\n    one two three\n");           // and what was put below is so still
    CHECK_STR(t, folded("  a name    averyverylongwordindeed x", 28), // nothing is cut before the second column
              "  a name    averyverylongwordindeed x\n");
    CHECK_STR(t, folded("\nplain words that are long enough\n\n", 28),
              "\nplain words that are long\n            enough\n\n");
    CHECK_STR(t,
              folded("  name      \xC3\xA4\xC3\xB6\xC3\xBC\xC3\xA4\xC3\xB6\xC3\xBC\xC3\xA4 abcdefgh", 28), // 16 columns
              "  name      \xC3\xA4\xC3\xB6\xC3\xBC\xC3\xA4\xC3\xB6\xC3\xBC\xC3\xA4 abcdefgh\n");
}

static void figures_stay_whole(struct harness *t)
{
    CHECK_STR(t, folded("  name      found 99 23.8 MB, 40 %", 30), "  name      found 99 23.8 MB,\n            40 %\n");
    CHECK_STR(t, folded("  name      found, 99 23.8 MB, 4", 29), "  name      found, 99\n            23.8 MB, 4\n");
    CHECK_STR(t, folded("  name      all of them abc 4 %, x", 29), "  name      all of them abc\n            4 %, x\n");
    CHECK_STR(t, folded("  name      all of them 14 dogs", 28), "  name      all of them 14\n            dogs\n");
}

// Every line keeps within the edge, unless a word alone is wider.
static void keeps_within_the_edge(struct harness *t)
{
    static const char text[] =
        "  hit curve answers' hits, were the experts that were unused longest given up first (LRU)\n"
        "  a-key-that-is-long, and-another-one  what they do, said in rather many words\nx\n";
    for (int columns = 22; columns < 100; columns++) {
        char *copy = strdup(folded(text, columns)), *rest = copy;
        size_t words = 0;
        for (char *line = strsep(&rest, "\n"); rest; line = strsep(&rest, "\n")) {
            CHECK(t, cells_width(line, strlen(line)) <= columns);
            for (char *c = line; *c; c++)
                words += *c != ' ' && (c == line || c[-1] == ' ');
        }
        CHECK_EQ(t, words, 26); // none is cut, none is lost
        free(copy);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(goes_on_below_itself), TEST(figures_stay_whole),
                                                TEST(keeps_within_the_edge)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
