// SPDX-License-Identifier: GPL-3.0-or-later
// Everything that is drawn through curses.
#include "app/term/screen.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <curses.h>

#include "app/util/files.h"
#include "app/term/term.h"

enum { MARKS = CELL_MARKS + 1 };

struct screen {
    SCREEN *curses;
    FILE *terminal; // that it draws on: curses asks for the number, which ours have not (output.h)
    bool color, mouse;
    bool away; // the terminal is as it was before
    int rows, columns;
    struct cells shown; // what curses was told last
    cchar_t *row;       // scratch
};

// The terminal's own 16 colours on its own background; what is told apart by colour is so by words or glyphs, too.
static const struct look {
    attr_t plain, colored;
    short color; // -1: the terminal's own
} looks[STYLE_COUNT] = {
    [STYLE_TEXT] = {A_NORMAL, A_NORMAL, -1},
    [STYLE_BOLD] = {A_BOLD, A_BOLD, -1},
    [STYLE_CODE] = {A_NORMAL, A_NORMAL, COLOR_CYAN},
    [STYLE_CODE_BLOCK] = {A_NORMAL, A_NORMAL, COLOR_CYAN},
    [STYLE_HEADING] = {A_BOLD, A_BOLD, COLOR_MAGENTA},
    [STYLE_LIST] = {A_NORMAL, A_BOLD, COLOR_CYAN},
    [STYLE_MARKUP] = {A_DIM, A_DIM, -1},
    [STYLE_USER] = {A_BOLD, A_BOLD, COLOR_GREEN},
    [STYLE_ASSISTANT] = {A_BOLD, A_BOLD, COLOR_CYAN},
    [STYLE_THINKING] = {A_DIM, A_DIM, -1},
    [STYLE_NOTICE] = {A_DIM, A_DIM, -1},
    [STYLE_ERROR] = {A_BOLD, A_BOLD, COLOR_RED},
    [STYLE_MATCH] = {A_UNDERLINE, A_UNDERLINE | A_BOLD, COLOR_MAGENTA},
    [STYLE_MATCH_NOW] = {A_REVERSE, A_REVERSE, COLOR_MAGENTA},
    [STYLE_TITLE] = {A_BOLD, A_BOLD, -1},
    [STYLE_DIM] = {A_DIM, A_DIM, -1},
    [STYLE_STATUS] = {A_REVERSE, A_REVERSE, -1},
    [STYLE_STATUS_NOW] = {A_REVERSE | A_BOLD, A_REVERSE | A_BOLD, -1},
    // Red and magenta are dark enough for a white background and bright enough for a black one.
    [STYLE_ON_DISK] = {A_NORMAL, A_NORMAL, COLOR_RED},
    [STYLE_IN_HOST] = {A_NORMAL, A_NORMAL, COLOR_MAGENTA},
    [STYLE_ON_DEVICE] = {A_BOLD, A_BOLD, -1},
    [STYLE_LIKELY] = {A_NORMAL, A_NORMAL, COLOR_GREEN},
    [STYLE_UNLIKELY] = {A_NORMAL, A_NORMAL, COLOR_RED},
};

static const char mouse_on[] = "\033[?1000h\033[?1006h", mouse_off[] = "\033[?1006l\033[?1000l";

static void send(const char *text)
{
    files_write(STDOUT_FILENO, text, strlen(text)); // a terminal that is gone is noticed by reading
}

// Appends a sequence of the terminal's without its waiting times.
static void append_capability(char *out, size_t size, const char *name)
{
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%s", name);
    const char *text = tigetstr(wanted);
    if (!text || text == (const char *)-1)
        return;
    size_t length = strlen(out);
    while (*text && length + 1 < size) {
        const char *end = text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL;
        if (end)
            text = end + 1;
        else
            out[length++] = *text++;
    }
    out[length] = 0;
}

// What a fatal signal writes: no mouse, no attributes, a cursor that is seen, on the last line, of the other screen.
static void set_reset(const struct screen *screen)
{
    char reset[256] = "";
    if (screen->mouse)
        snprintf(reset, sizeof reset, "%s", mouse_off);
    append_capability(reset, sizeof reset, "sgr0");
    append_capability(reset, sizeof reset, "cnorm");
    size_t length = strlen(reset);
    snprintf(reset + length, sizeof reset - length, "\033[r\033[999;1H");
    append_capability(reset, sizeof reset, "rmcup");
    length = strlen(reset);
    snprintf(reset + length, sizeof reset - length, "\r\n");
    term_set_reset(reset);
}

static void enter(struct screen *screen)
{
    screen->away = false;
    term_raw_keys();
    def_prog_mode();
    set_reset(screen);
    if (screen->mouse)
        send(mouse_on);
}

static void measure(struct screen *screen)
{
    int rows, columns;
    if (term_size(&rows, &columns))
        resizeterm(rows < TERM_MOST_CELLS ? rows : TERM_MOST_CELLS,
                   columns < TERM_MOST_CELLS ? columns : TERM_MOST_CELLS);
    getmaxyx(stdscr, screen->rows, screen->columns);
    cells_release(&screen->shown);
    cchar_t *row = realloc(screen->row, ((size_t)screen->columns + 1) * sizeof *row);
    if (row)
        screen->row = row;
    else
        screen->columns = 0; // nothing is drawn
    clearok(curscr, TRUE);
}

static void start_colors(struct screen *screen)
{
    if (!screen->color || !has_colors() || start_color() == ERR) {
        screen->color = false;
        return;
    }
    short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (short i = 0; i < STYLE_COUNT; i++)
        if (looks[i].color >= 0)
            init_pair((short)(i + 1), looks[i].color, background);
}

struct screen *screen_open(const struct screen_wishes *wishes)
{
    struct screen *screen = calloc(1, sizeof *screen);
    // These would stand for the size when the window has another.
    unsetenv("LINES");
    unsetenv("COLUMNS");
    if (!screen)
        return NULL;
    int fd = term_remember() ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    screen->terminal = fd >= 0 ? fdopen(fd, "w") : NULL;
    screen->curses = screen->terminal ? newterm(NULL, screen->terminal, stdin) : NULL;
    if (!screen->curses) {
        if (screen->terminal)
            fclose(screen->terminal);
        else if (fd >= 0)
            close(fd);
        free(screen);
        return NULL;
    }
    screen->color = wishes->color;
    screen->mouse = wishes->mouse;
    cbreak();
    noecho();
    nonl();
    intrflush(stdscr, FALSE);
    leaveok(stdscr, FALSE);
    start_colors(screen);
    enter(screen);
    measure(screen);
    return screen;
}

void screen_leave(struct screen *screen)
{
    if (screen->away)
        return;
    screen->away = true;
    if (screen->mouse)
        send(mouse_off);
    term_set_reset("");
    endwin();
    term_restore();
}

void screen_return(struct screen *screen)
{
    if (!term_await()) {
        term_restore();
        return;
    }
    reset_prog_mode();
    enter(screen);
    measure(screen);
    refresh();
}

void screen_close(struct screen *screen)
{
    if (!screen)
        return;
    if (!screen->away && term_is_anothers()) { // whose settings curses would take for its own
        screen->away = true;
        term_restore();
    }
    screen_leave(screen);
    delscreen(screen->curses);
    fclose(screen->terminal);
    cells_release(&screen->shown);
    free(screen->row);
    free(screen);
}

void screen_resize(struct screen *screen)
{
    measure(screen);
}

int screen_rows(const struct screen *screen)
{
    return screen->rows;
}

int screen_columns(const struct screen *screen)
{
    return screen->columns;
}

static void set_cell(const struct screen *screen, cchar_t *out, const struct cell *cell)
{
    const struct look *look = &looks[cell->style];
    wchar_t text[MARKS + 1] = {(wchar_t)cell->base};
    for (int i = 0; i < CELL_MARKS; i++)
        text[i + 1] = (wchar_t)cell->marks[i];
    bool colored = screen->color && look->color >= 0;
    setcchar(out, text, screen->color ? look->colored : look->plain, colored ? (short)(cell->style + 1) : 0, NULL);
}

void screen_draw(struct screen *screen, const struct cells *cells, struct screen_cursor cursor)
{
    bool same_size = screen->shown.rows == cells->rows && screen->shown.columns == cells->columns;
    if (screen->away || cells->columns > screen->columns || cells->rows > screen->rows)
        return; // the size changed just now
    for (int row = 0; row < cells->rows; row++) {
        const struct cell *line = cells->cells + (size_t)row * (size_t)cells->columns;
        size_t bytes = (size_t)cells->columns * sizeof *line;
        if (same_size && memcmp(screen->shown.cells + (size_t)row * (size_t)cells->columns, line, bytes) == 0)
            continue;
        int count = 0;
        for (int column = 0; column < cells->columns; column++)
            if (line[column].width > 0)
                set_cell(screen, &screen->row[count++], &line[column]);
        mvadd_wchnstr(row, 0, screen->row, count);
    }
    move(cursor.row, cursor.column);
    wnoutrefresh(stdscr);
    doupdate();
    if (same_size || cells_resize(&screen->shown, cells->rows, cells->columns))
        memcpy(screen->shown.cells, cells->cells, (size_t)cells->rows * (size_t)cells->columns * sizeof *cells->cells);
}

void screen_send(struct screen *screen, const char *bytes, size_t length)
{
    if (!screen->away)
        files_write(STDOUT_FILENO, bytes, length);
}
