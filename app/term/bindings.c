// SPDX-License-Identifier: GPL-3.0-or-later
// Functions for keys, and how keys come to them.
#include "app/term/bindings.h"

#include <stdio.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "app/term/inputrc.h"
#include "app/term/keys.h"
#include "app/term/term.h"

enum { KEY_SEQUENCES = 6 };

static bool draws(const struct bindings *bindings)
{
    return bindings->face->screen != NULL;
}

// Before a search takes the line: what stands in it may have been typed just now.
static void keep_draft(const struct bindings *bindings)
{
    bindings->face->keep(bindings->face->context);
}

// ---- The keys of the table ----

static int press(bool (*take)(struct tui *tui), rl_command_func_t *otherwise, int count, int code)
{
    struct bindings *bindings = prompt_bindings();
    bool before = bindings->within;
    bindings->within = true;
    bool taken = draws(bindings) && take(bindings->face->screen);
    bindings->within = before;
    return taken ? 0 : otherwise(count, code);
}

static int nothing(int count, int code)
{
    (void)count;
    (void)code;
    return 0;
}

static int insert_newline(int count, int code)
{
    (void)count;
    (void)code;
    rl_insert_text("\n");
    return 0;
}

// Commands are completed; in a message a tab is a tab.
static int complete(int count, int code)
{
    if (rl_line_buffer[strspn(rl_line_buffer, " ")] != '/')
        return rl_insert(count, '\t');
    (void)code;
    prompt_draw();
    return rl_complete_internal(rl_completion_mode(complete));
}

#define EDIT_KEY(...)
#define SCREEN_KEY(id, function, sequences, otherwise, ...)                                                            \
    static int key_##id(int count, int code)                                                                           \
    {                                                                                                                  \
        return press(tui_key_##id, otherwise, count, code);                                                            \
    }
#define OTHER_KEY(...)
#include "app/term/keys.def"
#undef EDIT_KEY
#undef SCREEN_KEY

static const struct bound_key {
    const char *function;                 // its name for inputrc
    const char *sequences[KEY_SEQUENCES]; // ends with NULL when fewer
    rl_command_func_t *does;
    bool in_lines; // at readline's own prompt, too
} keys[] = {
#define AT(...)                                                                                                        \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define EDIT_KEY(id, function, sequences, does, ...)        {function, sequences, does, true},
#define SCREEN_KEY(id, function, sequences, otherwise, ...) {function, sequences, key_##id, false},
#include "app/term/keys.def"
#undef AT
#undef EDIT_KEY
#undef SCREEN_KEY
#undef OTHER_KEY
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

// ---- In the place of readline's own ----

// readline ends its line where it was drawn last.
static int accept_line(int count, int code)
{
    prompt_draw();
    return rl_newline(count, code);
}

static int unknown(int count, int code)
{
    (void)count;
    (void)code;
    return rl_ding();
}

static int skip(int count, int code)
{
    prompt_bindings()->typed->skipping = true;
    return unknown(count, code);
}

static int begin_paste(int count, int code)
{
    typed_begin_paste(prompt_bindings()->typed, term_clock_ms());
    return nothing(count, code);
}

static int play_macro(int count, int code)
{
    struct bindings *bindings = prompt_bindings();
    const char *text = keymaps_macro(&bindings->keymaps, rl_executing_keymap, rl_executing_key);
    return text && typed_put_macro(bindings->typed, text) ? 0 : unknown(count, code);
}

static int reread(int count, int code)
{
    if (!inputrc_read_again())
        unknown(count, code);
    bindings_read(prompt_bindings());
    prompt_label_again();
    return 0;
}

static void lend_searches(struct bindings *bindings);

static int search_back(int count, int code)
{
    keep_draft(prompt_bindings());
    lend_searches(prompt_bindings());
    return rl_reverse_search_history(count, code);
}

static int search_forth(int count, int code)
{
    keep_draft(prompt_bindings());
    lend_searches(prompt_bindings());
    return rl_forward_search_history(count, code);
}

// No state of readline's says that these wait for a character.
#define WAITING(function)                                                                                              \
    static int waiting_##function(int count, int code)                                                                 \
    {                                                                                                                  \
        prompt_bindings()->waits = true;                                                                               \
        return rl_##function(count, code);                                                                             \
    }
WAITING(quoted_insert)
WAITING(char_search)
WAITING(backward_char_search)
WAITING(vi_change_char)
WAITING(vi_set_mark)
WAITING(vi_goto_mark)
#undef WAITING

// What is done again has its character.
static int redo(int count, int code)
{
    int status = rl_vi_redo(count, code);
    prompt_bindings()->waits = false;
    return status;
}

// vi's / and n match patterns, which takes the square of a line's length: seconds where one of the history is a long
// paste. In any other keymap readline looks for the text itself.
#define SEARCH(function)                                                                                               \
    static int plain_##function(int count, int code)                                                                   \
    {                                                                                                                  \
        struct bindings *bindings = prompt_bindings();                                                                 \
        Keymap map = rl_get_keymap();                                                                                  \
        keep_draft(bindings);                                                                                          \
        recall_begin_search(bindings->recall);                                                                         \
        rl_set_keymap(vi_insertion_keymap);                                                                            \
        int status = rl_##function(count, code);                                                                       \
        rl_set_keymap(map);                                                                                            \
        if (!RL_ISSTATE(RL_STATE_NSEARCH))                                                                             \
            recall_end_search(bindings->recall);                                                                       \
        return status;                                                                                                 \
    }
SEARCH(vi_search)
SEARCH(vi_search_again)
SEARCH(noninc_forward_search)
SEARCH(noninc_reverse_search)
#undef SEARCH

// ---- Keymaps ----

// emacs' first, vi's command mode last.
static const Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};
enum { N_MAPS = sizeof maps / sizeof maps[0] };

static const struct keymaps_other others[] = {{rl_quoted_insert, waiting_quoted_insert},
                                              {rl_char_search, waiting_char_search},
                                              {rl_backward_char_search, waiting_backward_char_search},
                                              {rl_vi_change_char, waiting_vi_change_char},
                                              {rl_vi_set_mark, waiting_vi_set_mark},
                                              {rl_vi_goto_mark, waiting_vi_goto_mark},
                                              {rl_vi_redo, redo},
                                              {0}};
static const struct keymaps_functions functions = {unknown, skip,        begin_paste,  play_macro,
                                                   reread,  search_back, search_forth, others};

static void mend_keymaps(struct bindings *bindings)
{
    for (size_t i = 0; i < N_MAPS; i++)
        keymaps_mend(&bindings->keymaps, maps[i], &functions);
    bindings->lent = false;
}

static void lend_searches(struct bindings *bindings)
{
    for (size_t i = 0; i < N_MAPS; i++)
        keymaps_lend_searches(maps[i], &functions);
    bindings->lent = true;
}

// A key that an inputrc has given to one of our functions stays theirs.
static bool is_ours(const char *sequence, Keymap map)
{
    int type;
    rl_command_func_t *bound = rl_function_of_keyseq(sequence, map, &type);
    for (size_t i = 0; i < N_KEYS && type == ISFUNC; i++)
        if (bound == keys[i].does)
            return true;
    return false;
}

enum prompt_key bindings_find(const char *bytes, size_t length)
{
    int type = ISFUNC;
    rl_command_func_t *bound = rl_function_of_keyseq_len(bytes, length, rl_get_keymap(), &type);
    if (!bound || (type == ISFUNC && (bound == nothing || bound == unknown || bound == skip)))
        return PROMPT_KEY_NONE;
    if (type == ISKMAP)
        return PROMPT_KEY_BEGINS;
    if (type == ISFUNC && bound == key_editor)
        return PROMPT_KEY_EDITOR;
    for (size_t i = 0; i < N_KEYS && type == ISFUNC; i++)
        if (bound == keys[i].does)
            return keys[i].in_lines ? PROMPT_KEY_DRAFT : PROMPT_KEY_SCREEN;
    return PROMPT_KEY_DRAFT;
}

// Where an inputrc leaves the key as readline has it.
static void bind_instead(const char *sequence, Keymap map, rl_command_func_t *was, rl_command_func_t *does)
{
    if (rl_function_of_keyseq(sequence, map, NULL) == was)
        rl_bind_keyseq_in_map(sequence, does, map);
}

static void bind_keys(const struct bindings *bindings)
{
    for (size_t n = 0; n < N_KEYS; n++) {
        const struct bound_key *key = &keys[n];
        for (int i = 0; i < KEY_SEQUENCES && key->sequences[i]; i++)
            for (size_t map = 0; map < N_MAPS && (key->in_lines || draws(bindings)); map++)
                if (!is_ours(key->sequences[i], maps[map]))
                    rl_bind_keyseq_in_map(key->sequences[i], key->does, maps[map]);
    }
    static const struct {
        const char *sequence, *function;
    } usual[] = {
        {"\033[3~", "delete-char"},       {"\033[1~", "beginning-of-line"}, {"\033[4~", "end-of-line"},
        {"\033[7~", "beginning-of-line"}, {"\033[8~", "end-of-line"},       {"\033[1;5C", "forward-word"},
        {"\033[1;5D", "backward-word"},
    };
    if (draws(bindings)) { // by lines of the draft first, as the arrows go; v as bash has it
        rl_bind_keyseq_if_unbound_in_map("v", rl_named_function("moechat-editor"), vi_movement_keymap);
        bind_instead("k", vi_movement_keymap, rl_get_previous_history, key_up);
        bind_instead("j", vi_movement_keymap, rl_get_next_history, key_down);
    }
    for (size_t map = 0; map < N_MAPS && !draws(bindings); map++) {
        bind_instead("\r", maps[map], rl_newline, accept_line);
        bind_instead("\n", maps[map], rl_newline, accept_line);
        bind_instead("\f", maps[map], rl_insert, rl_clear_screen); // vi's insert mode would insert it
    }
    // A # before the draft sends it to the model, as no shell would.
    bind_instead("\033#", emacs_standard_keymap, rl_insert_comment, nothing);
    bind_instead("#", vi_movement_keymap, rl_insert_comment, nothing);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        for (size_t map = 0; map < 2; map++)
            rl_bind_keyseq_if_unbound_in_map(usual[i].sequence, rl_named_function(usual[i].function), maps[map]);
}

static void bind_searches(void)
{
    bind_instead("/", vi_movement_keymap, rl_vi_search, plain_vi_search);
    bind_instead("?", vi_movement_keymap, rl_vi_search, plain_vi_search);
    bind_instead("n", vi_movement_keymap, rl_vi_search_again, plain_vi_search_again);
    bind_instead("N", vi_movement_keymap, rl_vi_search_again, plain_vi_search_again);
    bind_instead("\033n", emacs_standard_keymap, rl_noninc_forward_search, plain_noninc_forward_search);
    bind_instead("\033p", emacs_standard_keymap, rl_noninc_reverse_search, plain_noninc_reverse_search);
}

void bindings_name(void)
{
    for (size_t i = 0; i < N_KEYS; i++)
        rl_add_defun(keys[i].function, keys[i].does, -1);
}

// Ours, then what moechat's own inputrc changes; last what must be so.
void bindings_read(struct bindings *bindings)
{
    bind_keys(bindings);
    bind_searches();
    inputrc_read_own();
    rl_variable_bind("isearch-terminators", "\033\012"); // Esc: readline does not survive other keys that end a search
    if (draws(bindings)) {
        rl_variable_bind("bell-style", "none"); // it would go to standard error
    } else {                                    // readline would wait for the answer, and nothing else be heard
        rl_variable_bind("completion-query-items", "0");
        rl_variable_bind("page-completions", "off");
    }
    mend_keymaps(bindings);
}

void bindings_settle(struct bindings *bindings)
{
    if (bindings->lent && !RL_ISSTATE(RL_STATE_ISEARCH))
        mend_keymaps(bindings);
    bindings->waits = false;
}

void bindings_end_wait(struct bindings *bindings)
{
    if (bindings->waits)
        rl_callback_sigcleanup();
    bindings->waits = false;
}

void bindings_release(struct bindings *bindings)
{
    keymaps_release(&bindings->keymaps);
}
