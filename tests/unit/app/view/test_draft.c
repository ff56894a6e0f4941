// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of a draft and its cursor.
#include "tests/harness.h"

#include <locale.h>
#include <stdint.h>

#include "app/view/draft.h"

static void look(struct draft *draft, const char *line, size_t point)
{
    draft_update(draft, line, strlen(line), point);
}

static void rows_and_cursor(struct harness *t)
{
    static const struct {
        const char *line;
        int columns;
        size_t point, rows, row;
        int column;
    } cases[] = {
        {"", 10, 0, 1, 0, 0},           {"abc", 10, 3, 1, 0, 3},
        {"abcdefgh", 10, 8, 2, 1, 0}, // "> " and 8 fill the row
        {"abcdefgh", 10, 7, 1, 0, 7},   {"abcdefghi", 10, 8, 2, 1, 0},
        {"ab\ncd", 10, 2, 2, 0, 2},     {"ab\ncd", 10, 3, 2, 1, 0},
        {"ab\n", 10, 3, 2, 1, 0},       {"\346\227\245\346\234\254", 10, 3, 1, 0, 2},
        {"e\314\201x", 10, 3, 1, 0, 1}, {"abcdefg\346\227\245", 10, 7, 2, 1, 0}, // a wide one does not fit
        {"\tx", 20, 1, 1, 0, 6},        {"ab", 1, 2, 3, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct draft draft = {.columns = cases[i].columns, .label = "> "};
        look(&draft, cases[i].line, cases[i].point);
        bool same =
            draft.n_rows == cases[i].rows && draft.cursor_row == cases[i].row && draft.cursor_column == cases[i].column;
        if (!CHECK(t, same))
            printf("    case %zu: %zu rows, cursor %zu,%d\n", i, draft.n_rows, draft.cursor_row, draft.cursor_column);
        draft_release(&draft);
    }
}

static void up_and_down(struct harness *t)
{
    struct draft draft = {.columns = 12, .label = "> "};
    const char *line = "first line\nab\n\346\227\245\346\234\254x";
    look(&draft, line, 14 + 6); // in the last row, before the x, at column 4
    CHECK_EQ(t, draft_vertical(&draft, 1), SIZE_MAX);
    CHECK_EQ(t, draft_vertical(&draft, -1), 13); // the end of "ab"
    look(&draft, line, 11);
    CHECK_EQ(t, draft_vertical(&draft, 1), 14);
    look(&draft, line, 3);
    CHECK_EQ(t, draft_vertical(&draft, -1), SIZE_MAX);
    draft_release(&draft);
}

static void long_pastes_fold(struct harness *t)
{
    struct draft draft = {.columns = 40, .label = "> "};
    const char *paste = "1\n2\n3\n4\n5\n6\n7\n8\n9\n", *line = "a1\n2\n3\n4\n5\n6\n7\n8\n9\nb";
    struct cells cells = {0};
    char text[CELLS_TEXT_ROOM(40)];
    draft_pasted(&draft, paste, strlen(paste));
    look(&draft, line, strlen(line));
    CHECK_EQ(t, draft.n_rows, 1);
    cells_resize(&cells, 1, 40);
    draft_draw(&draft, &(struct draft_place){.cells = &cells, .rows = 1});
    cells_text(&cells, 0, text, sizeof text);
    CHECK_STR(t, text, "> a[9 pasted lines]b");
    look(&draft, line, 1);
    CHECK_EQ(t, draft.n_rows, 1); // before it
    look(&draft, line, 4);
    CHECK_EQ(t, draft.n_rows, 10); // within it: to be edited
    draft_pasted(&draft, "short\n", 6);
    look(&draft, "short\n", 6);
    CHECK_EQ(t, draft.n_rows, 2);
    cells_release(&cells);
    draft_release(&draft);
}

static void what_could_act_is_visible(struct harness *t)
{
    struct draft draft = {.columns = 40, .label = "> "};
    look(&draft, "a\033[31m\342\200\256b\377", 11);
    CHECK(t, !memchr(draft.shown.data, '\033', draft.shown.length));
    CHECK(t, !strstr(draft.shown.data, "\342\200\256"));
    CHECK_EQ(t, draft.cursor_column, 9);
    draft_release(&draft);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(rows_and_cursor), TEST(up_and_down), TEST(long_pastes_fold),
                                                TEST(what_could_act_is_visible)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return HARNESS_RUN(tests, argc, argv);
}
