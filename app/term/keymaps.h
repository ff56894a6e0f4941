// SPDX-License-Identifier: GPL-3.0-or-later
// readline's keymaps, made safe for its callbacks. readline 8.2 gives up a key of several bytes that nothing is bound
// to by a jump, which, where a macro or a search has put bytes back, goes to a function that has returned; and a line
// that a macro sends takes the rest of the macro with it. So every such key gets a function, and macros are the
// caller's to type.
#ifndef MOECHAT_APP_TERM_KEYMAPS_H
#define MOECHAT_APP_TERM_KEYMAPS_H

#include <stdbool.h>
#include <stddef.h>

#include <stdio.h>

#include <readline/readline.h>

struct keymaps_functions {
    rl_command_func_t *unknown; // a key that nothing is bound to, or that is not to be used
    rl_command_func_t *skip;    // the same, with more bytes of its sequence ESC [ to come
    rl_command_func_t *paste;   // the terminal's mark before pasted text
    rl_command_func_t *macro;   // see keymaps_macro
    rl_command_func_t *reread;  // in place of re-read-init-file
    rl_command_func_t *back;    // in place of reverse-search-history
    rl_command_func_t *forth;   // in place of forward-search-history
    const struct keymaps_other {
        rl_command_func_t *was, *does;
    } * others; // in place of those; ends with {0}
};
// The macros of the keymaps that were mended; begin with {0}.
struct keymaps {
    struct keymaps_macro {
        Keymap map;
        int key;
        char *text;
    } * macros;
    size_t n_macros;
};

// Keys longer than this are none any more.
enum { KEYMAPS_DEEPEST = 32 };

// Goes through a keymap and all that it leads to; once more after anything was bound. What finds no memory becomes
// `unknown`.
void keymaps_mend(struct keymaps *keymaps, Keymap map, const struct keymaps_functions *functions);
// Gives the keys of a keymap that was mended back to readline's own searches, by which a search that goes on knows that
// it is to look further; keymaps_mend takes them again.
void keymaps_lend_searches(Keymap map, const struct keymaps_functions *functions);
// What the macro that is called by rl_executing_keymap and rl_executing_key types; NULL: none.
const char *keymaps_macro(const struct keymaps *keymaps, Keymap map, int key);
void keymaps_release(struct keymaps *keymaps);

#endif
