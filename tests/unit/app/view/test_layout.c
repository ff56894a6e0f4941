// SPDX-License-Identifier: GPL-3.0-or-later
// Who gets which rows and columns, at every size of a screen.
#include "app/view/layout.h"

#include "tests/harness.h"

static int area(struct rectangle r)
{
    return r.rows * r.columns;
}

// Marks a rectangle's cells; false: it reaches outside, or something was there.
static bool mark(char *screen, int rows, int columns, struct rectangle r)
{
    for (int row = r.row; row < r.row + r.rows; row++)
        for (int column = r.column; column < r.column + r.columns; column++) {
            if (row < 0 || row >= rows || column < 0 || column >= columns || screen[row * columns + column])
                return false;
            screen[row * columns + column] = 1;
        }
    return true;
}

// Whatever the size and the wishes: nothing overlaps but the popup, and only the rule is left free.
static void every_size(struct harness *t)
{
    static char screen[60 * 200];
    for (int rows = 1; rows <= 60; rows += rows < 20 ? 1 : 9)
        for (int columns = 1; columns <= 200; columns += columns < 25 ? 1 : 19)
            for (int wish = 0; wish < 4 * 2 * 3 * 2; wish++) {
                struct layout_wishes wishes = {.stats = (enum stats_view)(wish % 4),
                                               .zoom = wish / 4 % 2,
                                               .input_rows = wish / 8 % 3 * 20,
                                               .popup_rows = wish / 24 * 9};
                struct layout l = layout_of(rows, columns, &wishes);
                memset(screen, 0, sizeof screen);
                bool fine = mark(screen, rows, columns, l.chat) && mark(screen, rows, columns, l.stats) &&
                            mark(screen, rows, columns, l.status) && mark(screen, rows, columns, l.input);
                int used = area(l.chat) + area(l.stats) + area(l.status) + area(l.input);
                int rule = !l.rule ? 0 : l.stats.column ? l.chat.rows : columns;
                bool whole = used + rule == rows * columns;
                bool input = l.input.rows >= 1 && (l.input.rows <= rows / 2 || l.input.rows == 1);
                memset(screen, 0, sizeof screen);
                if (!CHECK(t, fine && whole && input && mark(screen, rows, columns, l.popup))) {
                    printf("    %d x %d, wish %d\n", rows, columns, wish);
                    return;
                }
            }
}

static void usual_sizes(struct harness *t)
{
    struct layout l = layout_of(24, 80, &(struct layout_wishes){.input_rows = 1});
    CHECK(t, l.chat.rows == 22 && l.status.row == 22 && l.input.row == 23 && !l.rule && !l.stats.rows);
    l = layout_of(24, 80, &(struct layout_wishes){.input_rows = 1, .stats = STATS_OFF});
    CHECK_EQ(t, l.status.rows, 0);
    l = layout_of(24, 80, &(struct layout_wishes){.input_rows = 1, .stats = STATS_OFF, .status = true});
    CHECK(t, l.status.rows == 1 && l.stats.rows == 0); // something goes on
    l = layout_of(24, 80, &(struct layout_wishes){.input_rows = 1, .stats = STATS_PANE});
    CHECK(t, l.stats.rows >= 5 && l.stats.row == l.chat.rows + 1 && l.stats.columns == 80 && l.rule);
    l = layout_of(40, 120, &(struct layout_wishes){.input_rows = 1, .stats = STATS_PANE});
    CHECK(t, l.stats.row == 0 && l.stats.column == l.chat.columns + 1 && l.chat.columns >= 60 && l.rule);
    l = layout_of(40, 120, &(struct layout_wishes){.input_rows = 1, .stats = STATS_HEAT, .zoom = true});
    CHECK(t, l.stats.columns == 120 && l.chat.rows == 0 && !l.rule);
    l = layout_of(24, 80, &(struct layout_wishes){.input_rows = 99, .popup_rows = 4, .stats = STATS_OFF});
    CHECK(t, l.input.rows == 12 && l.status.rows == 0 && l.popup.row == 8 && l.popup.rows == 4);
    l = layout_of(5, 80, &(struct layout_wishes){.input_rows = 1, .stats = STATS_PANE});
    CHECK(t, l.chat.rows == 4 && l.status.rows == 0 && l.stats.rows == 0);
    l = layout_of(5, 20, &(struct layout_wishes){.input_rows = 1, .popup_rows = 9}); // what Tab offers is seen
    CHECK(t, l.popup.row == 0 && l.popup.rows == 4 && l.popup.columns == 20);
    l = layout_of(1, 1, &(struct layout_wishes){.input_rows = 3});
    CHECK(t, l.input.rows == 1 && l.input.row == 0 && l.chat.rows == 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(every_size), TEST(usual_sizes)};
    return HARNESS_RUN(tests, argc, argv);
}
