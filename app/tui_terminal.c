// SPDX-License-Identifier: GPL-3.0-or-later
// Apart from tui_screen.c, for curses' term.h makes macros of words such as "columns".
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <ncursesw/curses.h>
#include <ncursesw/term.h>

bool screen_possible(void); // tui_screen.h

bool screen_possible(void)
{
    char *name = getenv("TERM");
    int error;
    if (!name || setupterm(name, STDOUT_FILENO, &error) != OK)
        return false;
    char wanted[] = "cup"; // newterm would not ask for it
    const char *move = tigetstr(wanted);
    bool possible = move && move != (const char *)-1;
    del_curterm(cur_term);
    return possible;
}
