// SPDX-License-Identifier: GPL-3.0-or-later
// Through what readline lets its callers set.
#include "app/term/bounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <readline/readline.h>

#include "app/term/term.h"

static int within(int size, int least)
{
    return size < least ? least : size > TERM_MOST_CELLS ? TERM_MOST_CELLS : size;
}

// readline 8.2 reads behind its line where columns are 32767 or 65535, and where a line of some 1000 bytes stands on a
// screen of one row. Where it scrolls along one row, it divides by a third of its columns; where the terminal does not
// wrap lines it takes one off before. What it has learned is looked at, not the window: that may have another size by
// now, says 0 for what it does not know (then COLUMNS and LINES count, or the terminal's description), and need not be
// the one that is written to.
static void keep_screen(void)
{
    enum { LEAST_ROWS = 2, LEAST_COLUMNS = 4 };
    int rows, columns, window_rows, window_columns;
    rl_get_screen_size(&rows, &columns);
    if (term_size(&window_rows, &window_columns) && window_columns == 1)
        columns = 1; // which readline takes for none, and then for 80
    int kept_rows = within(rows, LEAST_ROWS), kept_columns = within(columns, LEAST_COLUMNS);
    if (kept_rows != rows)
        rl_set_screen_size(kept_rows, 0); // 0: as they are
    if (kept_columns != columns)
        rl_set_screen_size(0, kept_columns);
}

bool bounds_ask_size(void)
{
    int rows, columns, new_rows, new_columns;
    rl_get_screen_size(&rows, &columns);
    rl_reset_screen_size();
    keep_screen();
    rl_get_screen_size(&new_rows, &new_columns);
    return new_rows != rows || new_columns != columns;
}

static void forget_line(char *line)
{
    free(line);
}

// readline 8.2 reads behind the lines that it keeps of what it drew when these have to grow: where a terminal's cursor
// goes along one row only, and where a draft of wide characters is resized. So they grow now, with nothing behind them:
// 6 ms.
void bounds_grow_lines(void)
{
    enum { LONG = 256 << 10 };
    FILE *out = rl_outstream, *nowhere = fopen("/dev/null", "w");
    char *line = malloc(LONG + 1);
    if (nowhere && line) {
        memset(line, ' ', LONG);
        line[LONG] = 0;
        rl_outstream = nowhere;
        rl_tty_set_echoing(1);
        rl_callback_handler_install("", forget_line);
        rl_insert_text(line);
        rl_redisplay();
        rl_replace_line("", 1);
        rl_redisplay();
        rl_callback_handler_remove();
        rl_outstream = out;
    }
    free(line);
    if (nowhere)
        fclose(nowhere);
}

// Where a line ends within a character, readline 8.2 takes its bytes for one when it goes back and for several when it
// goes on: vi's E goes to and fro for ever. They become a replacement.
void bounds_end_with_character(void)
{
    mbstate_t state = {0};
    int begin = rl_end - 1;
    while (begin > 0 && ((unsigned char)rl_line_buffer[begin] & 0xC0) == 0x80)
        begin--;
    bool leads = begin >= 0 && begin + 1 < rl_end && (unsigned char)rl_line_buffer[begin] >= 0xC0;
    size_t length = leads ? (size_t)(rl_end - begin) : 0;
    if (!leads || MB_CUR_MAX == 1 || mbrlen(rl_line_buffer + begin, length, &state) == length)
        return;
    int point = rl_point < begin ? rl_point : begin;
    rl_delete_text(begin, rl_end);
    rl_point = begin;
    rl_insert_text("\xEF\xBF\xBD");
    rl_point = point;
}
