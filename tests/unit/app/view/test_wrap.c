// SPDX-License-Identifier: GPL-3.0-or-later
// Text to rows: words, wide characters, tabs, code.
#include "app/view/wrap.h"

#include <locale.h>

#include "app/view/cells.h"
#include "tests/harness.h"

#define ACUTE "\xCC\x81"
#define KANJI "\xE6\x97\xA5"

// The rows as "a|b|c", each drawn with its indent and without spaces at its end.
static void draw(const struct wrap *like, char *out, size_t size)
{
    struct wrap wrap = *like;
    struct wrap_row row;
    struct cells cells = {0};
    size_t length = 0;
    out[0] = 0;
    if (!cells_resize(&cells, 1, wrap.columns))
        return;
    for (int n = 0; wrap_next(&wrap, &row); n++) {
        char text[1024];
        struct cells_at at = cells_row(&cells, 0);
        cells_clear(&cells);
        for (int i = 0; i < (n ? row.indent : like->first) && i < wrap.columns - 1; i++)
            cells_put(&at, " ", 1, STYLE_TEXT);
        at.shift = (long)row.column - at.column;
        cells_put(&at, like->text + row.start, row.length, STYLE_TEXT);
        cells_text(&cells, 0, text, sizeof text);
        length += (size_t)snprintf(out + length, size - length, "%s%s", n ? "|" : "", text);
    }
    cells_release(&cells);
}

static void words_are_printed_at_a_place(struct harness *t)
{
    char text[64];
    struct cells cells = {0};
    if (!CHECK(t, cells_resize(&cells, 1, 12)))
        return;
    cells_clear(&cells);
    struct cells_at at = cells_row(&cells, 0);
    CHECK(t, cells_print(&at, STYLE_TEXT, "%d of %s", 3, KANJI));
    CHECK(t, cells_print(&at, STYLE_DIM, "%s", ";"));
    cells_text(&cells, 0, text, sizeof text);
    CHECK_STR(t, text, "3 of " KANJI ";");
    CHECK(t, cells.cells[0].style == STYLE_TEXT && cells.cells[7].style == STYLE_DIM);
    cells_release(&cells);
}

static void wraps(struct harness *t, const char *text, int columns, const char *want)
{
    char got[4096];
    struct wrap wrap = {.text = text, .length = strlen(text), .columns = columns};
    draw(&wrap, got, sizeof got);
    CHECK_STR(t, got, want);
}

static void words(struct harness *t)
{
    wraps(t, "", 10, "");
    wraps(t, "one two three", 20, "one two three");
    wraps(t, "one two three", 7, "one two|three");
    wraps(t, "one two three", 8, "one two|three");
    wraps(t, "one two three", 6, "one|two|three");
    wraps(t, "one    two", 4, "one|two");
    wraps(t, "one     ", 3, "one");
    wraps(t, "incomprehensible word", 6, "incomp|rehens|ible|word");
    wraps(t, "a incomprehensible", 6, "a|incomp|rehens|ible");
    wraps(t, "  indented text", 10, "  indented|text");
    wraps(t, "abc", 1, "a|b|c");
}

static void wide_and_marks(struct harness *t)
{
    wraps(t, KANJI KANJI KANJI, 4, KANJI KANJI "|" KANJI);
    wraps(t, KANJI KANJI KANJI, 5, KANJI KANJI "|" KANJI);
    wraps(t, "ab" KANJI "cd", 4, "ab" KANJI "|cd");
    wraps(t, KANJI KANJI "\xE3\x80\x82", 4, KANJI "|" KANJI "\xE3\x80\x82"); // a full stop begins no row
    wraps(t, KANJI, 1, "");
    wraps(t, "e" ACUTE "e" ACUTE "e" ACUTE, 2, "e" ACUTE "e" ACUTE "|e" ACUTE);
    wraps(t, KANJI ACUTE KANJI ACUTE, 2, KANJI ACUTE "|" KANJI ACUTE);
    wraps(t, ACUTE "a", 1, "a");
}

static void tabs(struct harness *t)
{
    wraps(t, "a\tb", 20, "a       b");
    wraps(t, "12345678\tb", 20, "12345678        b");
    wraps(t, "word word\tx", 10, "word word|x");
    wraps(t, "abc defgh\tx y", 6, "abc|defgh|x y");
    struct wrap code = {.text = "123456789012\tx", .length = 14, .columns = 10, .anywhere = true};
    char got[256];
    draw(&code, got, sizeof got);
    CHECK_STR(t, got, "1234567890|12    x"); // the tab stops at 16 of the line
}

static void code_is_cut_where_it_is_full(struct harness *t)
{
    struct wrap code = {.text = "for (;;)   x = y + z;", .length = 21, .columns = 8, .anywhere = true};
    char got[256];
    draw(&code, got, sizeof got);
    CHECK_STR(t, got, "for (;;)|   x = y| + z;");
}

static void indents(struct harness *t)
{
    struct wrap wrap = {.text = "- one two three", .length = 15, .columns = 9, .hang = 2};
    char got[256];
    draw(&wrap, got, sizeof got);
    CHECK_STR(t, got, "- one two|  three");
    wrap = (struct wrap){.text = "one two three", .length = 13, .columns = 9, .first = 6};
    draw(&wrap, got, sizeof got);
    CHECK_STR(t, got, "      one|two three");
    wrap = (struct wrap){.text = "ab", .length = 2, .columns = 2, .first = 40, .hang = 40};
    draw(&wrap, got, sizeof got);
    CHECK_STR(t, got, " a| b");
    CHECK_EQ(t, wrap_hang("- one", 5, 40), 2);
    CHECK_EQ(t, wrap_hang("  12. one", 9, 40), 6);
    CHECK_EQ(t, wrap_hang("  text", 6, 40), 2);
    CHECK_EQ(t, wrap_hang("\ttext", 5, 40), 8);
    CHECK_EQ(t, wrap_hang("-one", 4, 40), 0);
    CHECK_EQ(t, wrap_hang("1.5 is", 6, 40), 0);
    CHECK_EQ(t, wrap_hang("                    x", 21, 10), 5);
}

// Appending never changes a row but the last one.
static void rows_stay(struct harness *t)
{
    static const char text[] = "some  words, " KANJI KANJI KANJI " e" ACUTE " and\ta longerwordthanarow, then  -  x ";
    for (int columns = 1; columns < 20; columns++) {
        for (size_t length = 1; length < sizeof text - 1; length++) {
            if (((unsigned char)text[length] & 0xC0) == 0x80)
                continue;
            struct wrap part = {.text = text, .length = length, .columns = columns, .hang = 3};
            struct wrap whole = {.text = text, .length = sizeof text - 1, .columns = columns, .hang = 3};
            struct wrap_row a, b, next;
            bool more = wrap_next(&part, &a);
            while (more && wrap_next(&whole, &b)) {
                more = wrap_next(&part, &next);
                if (more && !CHECK(t, a.start == b.start && a.length == b.length && a.column == b.column))
                    printf("    %zu bytes, %d columns, row at %zu\n", length, columns, a.start);
                a = next;
            }
        }
    }
}

static void cells(struct harness *t)
{
    struct cells screen = {0};
    char text[CELLS_TEXT_ROOM(6)];
    CHECK(t, cells_resize(&screen, 2, 6));
    struct cells_at at = cells_row(&screen, 0);
    CHECK(t, cells_put(&at, "ab" KANJI, 5, STYLE_BOLD));
    CHECK(t, screen.cells[2].width == 2 && screen.cells[3].width == 0 && screen.cells[3].base == 0);
    CHECK(t, cells_put(&at, ACUTE, 2, STYLE_BOLD) && screen.cells[2].marks[0] == 0x301);
    CHECK(t, cells_put(&at, "c", 1, STYLE_TEXT));
    CHECK(t, !cells_put(&at, KANJI, 3, STYLE_TEXT)); // one column is left
    cells_text(&screen, 0, text, sizeof text);
    CHECK_STR(t, text, "ab" KANJI ACUTE "c");
    for (int i = 0; i < 6; i++) {
        at = cells_row(&screen, 1);
        at.column = 1;
        cells_put(&at, ACUTE, 2, STYLE_TEXT);
    }
    CHECK_EQ(t, screen.cells[6].marks[CELL_MARKS - 1], 0x301); // the rest is left out
    at = cells_row(&screen, 2);
    CHECK(t, !cells_put(&at, "x", 1, STYLE_TEXT));
    cells_fill(&at, STYLE_TEXT);
    CHECK(t, cells_resize(&screen, 0, 5) && screen.rows == 0 && screen.columns == 0);
    CHECK_EQ(t, cells_width("a" KANJI ACUTE "\xFF", 7), 4);
    cells_release(&screen);
}

// A name that nobody made safe: nothing in it acts on the terminal.
static void emoji_are_their_parts(struct harness *t)
{
    static const char text[] = "\U0001F44D\U0001F3FD\U0001F468\u200D\U0001F469\u2764\uFE0F!";
    struct cells screen = {0};
    char row[CELLS_TEXT_ROOM(12)];
    cells_resize(&screen, 1, 12);
    struct cells_at at = cells_row(&screen, 0);
    CHECK(t, cells_put(&at, text, sizeof text - 1, STYLE_TEXT));
    CHECK_EQ(t, at.column, 2 + 2 + 2 + 1 + 1);
    CHECK_EQ(t, cells_width(text, sizeof text - 1), at.column);
    cells_text(&screen, 0, row, sizeof row);
    CHECK_STR(t, row, "\U0001F44D\U0001F468\U0001F469\u2764!");
    cells_release(&screen);
}

static void what_acts_is_not_drawn(struct harness *t)
{
#define BAD "\xEF\xBF\xBD"
    wraps(t, "a\x1B[2J\r\xC2\x9B", 20, "a" BAD "[2J" BAD BAD);
    wraps(t,
          "a\xE2\x80\xAE\xE2\x81\xA6"
          "b\xF3\xA0\x81\xA1\xE2\x80\x8B",
          20, "a" BAD BAD "b" BAD BAD);
    wraps(t, "\xE2\x9D\xA4\xEF\xB8\x8F", 20, "\xE2\x9D\xA4");
}

static void without_utf8(struct harness *t)
{
    setlocale(LC_CTYPE, "C");
    wraps(t, "caf\xC3\xA9 " KANJI KANJI, 5, "caf?|??");
    setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(words_are_printed_at_a_place),
        TEST(words),
        TEST(wide_and_marks),
        TEST(tabs),
        TEST(code_is_cut_where_it_is_full),
        TEST(indents),
        TEST(rows_stay),
        TEST(cells),
        TEST(emoji_are_their_parts),
        TEST(what_acts_is_not_drawn),
        TEST(without_utf8),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
