// SPDX-License-Identifier: GPL-3.0-or-later
// Which function each key has: ours, an inputrc's, readline's.
#include "tests/harness.h"

#include <stdlib.h>

#include "app/term/bindings.h"
#include "app/term/inputrc.h"

static const Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};

static rl_command_func_t *bound(const char *sequence, Keymap map)
{
    int type = -1;
    rl_command_func_t *function = rl_function_of_keyseq(sequence, map, &type);
    return type == ISFUNC ? function : NULL;
}

static rl_command_func_t *named(const char *function)
{
    return rl_named_function(function);
}

static struct bindings bindings_of(const struct prompt_face *face)
{
    struct bindings bindings = {.face = face};
    bindings_read(&bindings);
    return bindings;
}

static void lines_have_the_keys_of_a_draft(struct harness *t)
{
    struct prompt_face face = {.screen = NULL};
    struct bindings bindings = bindings_of(&face);
    for (size_t i = 0; i < 3; i++) {
        CHECK(t, named("moechat-newline") && bound("\033\r", maps[i]) == named("moechat-newline"));
        CHECK(t, named("moechat-complete") && bound("\t", maps[i]) == named("moechat-complete"));
        CHECK(t, bound("\f", maps[i]) == rl_clear_screen);
        CHECK(t, bound("\r", maps[i]) && bound("\r", maps[i]) != rl_newline); // draws what is undrawn before
        CHECK(t, bound("\033s", maps[i]) != named("moechat-stats"));
    }
    CHECK(t, bound("\033[3~", emacs_standard_keymap) == rl_delete);
    CHECK(t, bound("\033[5~", emacs_standard_keymap) != named("moechat-page-up"));
    CHECK(t, bound("#", vi_movement_keymap) != rl_insert_comment);
    CHECK_STR(t, rl_variable_value("page-completions"), "off");
    bindings_release(&bindings);
}

static void a_screen_has_those_of_its_own_too(struct harness *t)
{
    static char any;
    struct prompt_face face = {.screen = (struct tui *)&any};
    struct bindings bindings = bindings_of(&face);
    for (size_t i = 0; i < 3; i++) {
        CHECK(t, named("moechat-stats") && bound("\033s", maps[i]) == named("moechat-stats"));
        CHECK(t, bound("\033[A", maps[i]) == named("moechat-up") && bound("\033OA", maps[i]) == named("moechat-up"));
    }
    CHECK(t, bound("k", vi_movement_keymap) == named("moechat-up"));
    CHECK(t, bound("v", vi_movement_keymap) == named("moechat-editor"));
    CHECK(t, bound("k", vi_insertion_keymap) == rl_insert);
    CHECK_STR(t, rl_variable_value("bell-style"), "none");
    bindings_release(&bindings);
}

static void what_an_inputrc_says_stays(struct harness *t)
{
    static char any, page_up[] = "\"\\es\": moechat-page-up", line[] = "\"\\C-t\": moechat-help",
                     mark[] = "\"#\": set-mark", macro[] = "\"\\C-xm\": \"words\"";
    struct prompt_face face = {.screen = (struct tui *)&any};
    rl_parse_and_bind(page_up);
    rl_parse_and_bind(line);
    rl_parse_and_bind(macro);
    rl_set_keymap(vi_movement_keymap);
    rl_parse_and_bind(mark);
    rl_set_keymap(emacs_standard_keymap);
    struct bindings bindings = bindings_of(&face);
    CHECK(t, bound("\033s", emacs_standard_keymap) == named("moechat-page-up"));
    CHECK(t, bound("\033s", vi_insertion_keymap) == named("moechat-stats"));
    CHECK(t, bound("\024", emacs_standard_keymap) == named("moechat-help"));
    CHECK(t, bound("#", vi_movement_keymap) == rl_set_mark);
    CHECK_EQ(t, bindings.keymaps.n_macros, 1); // ours to type
    CHECK_STR(t, bindings.keymaps.macros[0].text, "words");
    bindings_release(&bindings);
}

static void a_search_has_readlines_own_keys_while_it_goes_on(struct harness *t)
{
    static char any;
    struct prompt_face face = {.screen = (struct tui *)&any};
    struct bindings bindings = bindings_of(&face);
    rl_command_func_t *ours = bound("\022", emacs_standard_keymap);
    CHECK(t, ours && ours != rl_reverse_search_history);
    rl_bind_keyseq_in_map("\022", rl_reverse_search_history, emacs_standard_keymap); // as it is lent
    bindings.lent = bindings.waits = true;
    RL_SETSTATE(RL_STATE_ISEARCH);
    bindings_settle(&bindings);
    CHECK(t, bindings.lent && !bindings.waits && bound("\022", emacs_standard_keymap) == rl_reverse_search_history);
    rl_readline_state &= ~(unsigned long)RL_STATE_ISEARCH;
    bindings_settle(&bindings);
    CHECK(t, !bindings.lent && bound("\022", emacs_standard_keymap) == ours);
    bindings_release(&bindings);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(lines_have_the_keys_of_a_draft),
        TEST(a_screen_has_those_of_its_own_too), // the keymaps are one process's: in this order
        TEST(what_an_inputrc_says_stays),
        TEST(a_search_has_readlines_own_keys_while_it_goes_on),
    };
    setenv("INPUTRC", "/dev/null", 1);
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    setenv("TERM", "dumb", 1);
    rl_readline_name = "moechat";
    bindings_name();
    inputrc_initialize();
    return HARNESS_RUN(tests, argc, argv);
}
