// SPDX-License-Identifier: GPL-3.0-or-later
// What an inputrc may bind, and what of it readline is left with.
#include "tests/harness.h"

#include "app/term/keymaps.h"

static int unknown(int count, int code)
{
    return count + code;
}
static int skip(int count, int code)
{
    return count + code + 1;
}
static int paste(int count, int code)
{
    return count + code + 2;
}
static int macro(int count, int code)
{
    return count + code + 3;
}
static int reread(int count, int code)
{
    return count + code + 4;
}

static int back(int count, int code)
{
    return count + code + 5;
}
static int forth(int count, int code)
{
    return count + code + 6;
}
static int quote(int count, int code)
{
    return count + code + 7;
}

static const struct keymaps_other others[] = {{rl_quoted_insert, quote}, {rl_vi_set_mark, quote}, {0}};
static const struct keymaps_functions functions = {unknown, skip, paste, macro, reread, back, forth, others};

static rl_command_func_t *bound(const char *sequence, Keymap map)
{
    int type = -1;
    rl_command_func_t *function = rl_function_of_keyseq(sequence, map, &type);
    return type == ISFUNC ? function : NULL;
}

static void bind(struct harness *t, const char *sequence, rl_command_func_t *function, Keymap map)
{
    CHECK_EQ(t, rl_bind_keyseq_in_map(sequence, function, map), 0);
}

static void keys_of_several_bytes_all_do_something(struct harness *t)
{
    struct keymaps keymaps = {0};
    Keymap map = rl_make_bare_keymap();
    bind(t, "\\C-xu", rl_undo_command, map);
    bind(t, "\\C-x\\C-g", rl_abort, map);
    bind(t, "\\C-g", rl_abort, map);
    bind(t, "j", rl_insert, map);
    bind(t, "jkl", rl_undo_command, map);
    bind(t, "\\e[1;5C", rl_forward_word, map);
    bind(t, "\\e[200~", rl_bracketed_paste_begin, map);
    keymaps_mend(&keymaps, map, &functions);
    static const struct {
        const char *sequence;
        rl_command_func_t *function;
    } wanted[] = {
        {"\x18"
         "u",
         rl_undo_command},
        {"\x18"
         ")",
         unknown},
        {"\x18"
         "1",
         unknown},
        {"\x18\x07", unknown},
        {"\x07", rl_abort}, // where readline is safe
        {"\x19", NULL},
        {"jkl", rl_undo_command},
        {"jkm", NULL}, // typed letters stay letters
        {"\033[1;5C", rl_forward_word},
        {"\033[1;5H", unknown},
        {"\033[1;6", skip},
        {"\033[A", unknown},
        {"\033[9", skip},
        {"\033"
         "x",
         unknown},
        {"\033[200~", paste},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (bound(wanted[i].sequence, map) != wanted[i].function)
            harness_string(t, "another function", wanted[i].sequence, __FILE__, __LINE__, "bound");
    keymaps_release(&keymaps);
}

static void macros_are_the_callers(struct harness *t)
{
    struct keymaps keymaps = {0};
    Keymap map = rl_make_bare_keymap();
    CHECK_EQ(t, rl_macro_bind("\\C-o", "one\\rtwo", map), 0);
    CHECK_EQ(t, rl_macro_bind("\\C-xr", "\\C-ax", map), 0);
    for (int times = 0; times < 2; times++) {
        keymaps_mend(&keymaps, map, &functions);
        CHECK_EQ(t, keymaps.n_macros, 2);
        CHECK(t, bound("\x0F", map) == macro && bound("\x18"
                                                      "r",
                                                      map) == macro);
        CHECK_STR(t, keymaps_macro(&keymaps, map, 'o' & 0x1F), "one\rtwo");
        CHECK(t, keymaps_macro(&keymaps, map, 'r') == NULL);
    }
    CHECK_EQ(t, rl_macro_bind("\\C-o", "three", map), 0);
    CHECK_EQ(t, rl_macro_bind("\\C-ok", "four", map), 0); // the other is what readline falls back to
    keymaps_mend(&keymaps, map, &functions);
    CHECK_EQ(t, keymaps.n_macros, 4);
    keymaps_release(&keymaps);
    CHECK_EQ(t, keymaps.n_macros, 0);
}

static void what_ends_or_stops_readline_is_not_bound(struct harness *t)
{
    struct keymaps keymaps = {0};
    Keymap map = rl_make_bare_keymap();
    bind(t, "a", rl_start_kbd_macro, map);
    bind(t, "b", rl_end_kbd_macro, map);
    bind(t, "\\C-xc", rl_call_last_kbd_macro, map);
    bind(t, "d", rl_print_last_kbd_macro, map);
    bind(t, "\\C-x\\C-r", rl_re_read_init_file, map);
    bind(t, "f", rl_reverse_search_history, map);
    bind(t, "g", rl_forward_search_history, map);
    bind(t, "h", rl_quoted_insert, map);
    bind(t, "\\C-xm", rl_vi_set_mark, map);
    bind(t, "e", rl_insert, map);
    char deep[4 * KEYMAPS_DEEPEST] = "";
    for (int i = 0; i < KEYMAPS_DEEPEST + 8; i++)
        strcat(deep, "z");
    bind(t, deep, rl_insert, map);
    keymaps_mend(&keymaps, map, &functions);
    CHECK(t, bound("a", map) == unknown && bound("b", map) == unknown &&
                 bound("\x18"
                       "c",
                       map) == unknown);
    CHECK(t, bound("d", map) == unknown && bound("\x18\x12", map) == reread && bound("e", map) == rl_insert);
    CHECK(t, bound("f", map) == back && bound("g", map) == forth && bound("h", map) == quote);
    CHECK(t, bound("\x18"
                   "m",
                   map) == quote);
    deep[KEYMAPS_DEEPEST + 1] = 0;
    CHECK(t, bound(deep, map) == unknown);
    keymaps_release(&keymaps);
}

static void a_search_that_goes_on_has_its_own_functions(struct harness *t)
{
    struct keymaps keymaps = {0};
    Keymap map = rl_make_bare_keymap();
    bind(t, "\\C-r", rl_reverse_search_history, map);
    bind(t, "\\C-x\\C-s", rl_forward_search_history, map);
    bind(t, "\\C-v", rl_quoted_insert, map);
    for (int times = 0; times < 2; times++) {
        keymaps_mend(&keymaps, map, &functions);
        CHECK(t, bound("\x12", map) == back && bound("\x18\x13", map) == forth);
        keymaps_lend_searches(map, &functions);
        CHECK(t, bound("\x12", map) == rl_reverse_search_history);
        CHECK(t, bound("\x18\x13", map) == rl_forward_search_history && bound("\x16", map) == quote);
    }
    keymaps_release(&keymaps);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(keys_of_several_bytes_all_do_something),
        TEST(macros_are_the_callers),
        TEST(what_ends_or_stops_readline_is_not_bound),
        TEST(a_search_that_goes_on_has_its_own_functions),
    };
    return HARNESS_RUN(tests, argc, argv);
}
