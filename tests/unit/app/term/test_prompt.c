// SPDX-License-Identifier: GPL-3.0-or-later
// readline's own prompt in windows of any size, and on lines that scroll sideways. Standard input is a terminal of this
// test's, standard output is not: what counts is the size that readline learns, and the label.
#include "tests/harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <readline/readline.h>

#include "app/term/prompt.h"

enum { MOST = 4096 };
static char folder[] = "/tmp/moechat-prompt-XXXXXX";
static const unsigned short sizes[][2] = {
    {0, 0}, {0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 1},  {1, 2},  {1, 3},         {2, 1},
    {2, 2}, {2, 3}, {3, 1}, {3, 2}, {3, 3}, {24, 2}, {1, 80}, {65535, 65535}, {24, 65535},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// readline takes what somebody else draws on for dumb.
static void set_terminal(const char *name)
{
    rl_voidfunc_t *draw = rl_redisplay_function;
    rl_redisplay_function = rl_redisplay;
    rl_reset_terminal(name);
    rl_redisplay_function = draw;
}

static void set_size(unsigned short rows, unsigned short columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    if (ioctl(STDIN_FILENO, TIOCSWINSZ, &size) != 0)
        perror("    TIOCSWINSZ");
}

static bool survives(struct harness *t)
{
    int rows, columns;
    rl_get_screen_size(&rows, &columns);
    bool fine = rows >= 2 && columns >= 3 && rows <= MOST && columns <= MOST; // a third of the columns is one at least
    if (!CHECK(t, fine))
        printf("    readline has %d rows, %d columns\n", rows, columns);
    return fine;
}

static void show(const char *draft)
{
    if (prompt_is_shown())
        rl_callback_handler_remove();
    prompt_show(draft);
}

// Where it scrolls along one row, readline divides by a third of the columns, of which it may have two or one.
static void a_prompt_has_a_size_that_readline_survives(struct harness *t)
{
    static const char *const terminals[] = {"dumb", "xterm"};
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        set_terminal(terminals[i / N_SIZES]);
        set_size(sizes[i % N_SIZES][0], sizes[i % N_SIZES][1]);
        show("");
        if (!survives(t))
            printf("    of %d rows, %d columns\n", sizes[i % N_SIZES][0], sizes[i % N_SIZES][1]);
    }
}

static void so_has_one_where_the_environment_says_the_size(struct harness *t)
{
    set_size(0, 0);
    for (char digit[] = "0"; digit[0] < '5'; digit[0]++) {
        setenv("COLUMNS", digit, 1);
        setenv("LINES", digit, 1);
        show("");
        survives(t);
    }
    unsetenv("COLUMNS");
    unsetenv("LINES");
}

// From the end of a long line to its beginning, and to another size, with nothing drawn between.
static void a_resize_is_drawn_at_such_a_size(struct harness *t)
{
    static char draft[2001];
    memset(draft, 'x', sizeof draft - 1);
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        set_terminal(i < N_SIZES ? "dumb" : "xterm");
        set_size(24, 80);
        show(draft);
        for (size_t point = 0; point <= sizeof draft; point += 1000) {
            prompt_point(point);
            set_size(sizes[i % N_SIZES][0], sizes[i % N_SIZES][1]);
            prompt_resize();
            survives(t);
            prompt_point(sizeof draft - 1 - (point < sizeof draft ? point : 0));
            set_size(24, 80);
            prompt_resize();
        }
        CHECK_STR(t, rl_line_buffer, draft);
    }
}

#define COLOUR "\001\033[36m\002"
#define PLAIN  "\001\033[0m\002"
static const char label[] = COLOUR "You: " PLAIN;
static const char *const modes[] = {"emacs-mode-string", "vi-ins-mode-string", "vi-cmd-mode-string"};
enum { N_MODES = sizeof modes / sizeof *modes };

static void begin_with(const char *inputrc)
{
    FILE *out = fopen(getenv("INPUTRC"), "w");
    if (!out || fputs(inputrc, out) < 0)
        perror("    the inputrc");
    if (out)
        fclose(out);
    typed_put(prompt_typed(), "\030\022", 2);
    prompt_type_held();
}

// With them, readline goes round for ever on a screen about as wide as they are.
static void what_scrolls_sideways_has_no_colours(struct harness *t)
{
    set_size(24, 80);
    set_terminal("dumb");
    show("");
    CHECK_STR(t, rl_prompt, "You: ");
    set_terminal("xterm");
    show("");
    CHECK_STR(t, rl_prompt, label);
}

static void so_has_what_an_inputrc_has_scroll_that_is_read_again(struct harness *t)
{
    static const char coloured[] = "set show-mode-in-prompt on\n"
                                   "set emacs-mode-string \\1\\e[33m\\2e\\\\x\\1\\e[0m\\2\n"
                                   "set vi-ins-mode-string \\1\\e[33m\\2i\\\\x\\1\\e[0m\\2\n"
                                   "set vi-cmd-mode-string \\1\\e[33m\\2c\\\\x\\1\\e[0m\\2\n";
    static const char *const plain[N_MODES] = {"e\\x", "i\\x", "c\\x"};
    char sideways[sizeof coloured + 40];
    set_terminal("xterm");
    show("a draft");
    begin_with(coloured);
    CHECK_STR(t, rl_prompt, label);
    for (int i = 0; i < N_MODES; i++)
        CHECK(t, strchr(rl_variable_value(modes[i]), RL_PROMPT_START_IGNORE) != NULL);
    snprintf(sideways, sizeof sideways, "%sset horizontal-scroll-mode on\n", coloured);
    begin_with(sideways);
    CHECK_STR(t, rl_prompt, "You: ");
    for (int i = 0; i < N_MODES; i++)
        CHECK_STR(t, rl_variable_value(modes[i]), plain[i]);
    CHECK_STR(t, rl_line_buffer, "a draft");
    begin_with("set horizontal-scroll-mode off\n");
    CHECK_STR(t, rl_prompt, label);
}

static void on_line(void *context, char *line)
{
    (void)context;
    free(line);
}

static void not_kept(void *context, const char *why)
{
    (void)context;
    printf("    not kept: %s\n", why);
}

static bool set_up(void)
{
    static const struct prompt_face face = {.label = label, .line = on_line, .not_kept = not_kept};
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (!mkdtemp(folder) || master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return false;
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (terminal < 0 || dup2(terminal, STDIN_FILENO) < 0)
        return false;
    setenv("XDG_STATE_HOME", folder, 1);
    static char inputrc[sizeof folder + 10];
    snprintf(inputrc, sizeof inputrc, "%s/inputrc", folder);
    setenv("INPUTRC", inputrc, 1);
    setenv("TERM", "dumb", 1);
    set_size(24, 80);
    rl_outstream = fopen("/dev/null", "w");
    return rl_outstream && prompt_open(&face);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(a_prompt_has_a_size_that_readline_survives),
        TEST(so_has_one_where_the_environment_says_the_size),
        TEST(a_resize_is_drawn_at_such_a_size),
        TEST(what_scrolls_sideways_has_no_colours),
        TEST(so_has_what_an_inputrc_has_scroll_that_is_read_again),
    };
    struct bytes lost = {0};
    char command[200];
    if (!set_up()) {
        perror("set_up");
        return 1;
    }
    int status = HARNESS_RUN(tests, argc, argv);
    prompt_close("", "", &lost);
    bytes_release(&lost);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : status;
}
