// SPDX-License-Identifier: GPL-3.0-or-later
#include "prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "term.h"

enum { N_HISTORY = 1000 };

static struct {
    char *label;
    prompt_line_fn *on_line;
    void *context;
    bool shown;
} prompt;

static int insert_newline(int count, int key)
{
    (void)count;
    (void)key;
    rl_insert_text("\n");
    return 0;
}

static void remember(const char *text)
{
    HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;
    if (*text && (!last || strcmp(last->line, text) != 0))
        add_history(text);
    using_history(); // Up begins at the end again
}

static void on_line(char *line)
{
    prompt.shown = false;
    rl_callback_handler_remove();
    if (line)
        remember(line);
    else
        fputc('\n', rl_outstream);
    prompt.on_line(prompt.context, line);
}

bool prompt_open(const char *label, prompt_line_fn *line_fn, void *context)
{
    prompt.label = strdup(label);
    prompt.on_line = line_fn;
    prompt.context = context;
    rl_readline_name = "moechat";
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    // Raw mode is ours and lasts, so that what is typed during an answer waits unechoed for the next prompt.
    rl_prep_term_function = NULL;
    rl_deprep_term_function = NULL;
    rl_add_defun("moechat-newline", insert_newline, -1);
    rl_initialize();
    rl_bind_key('\t', rl_insert);
    Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap};
    for (int i = 0; i < 2; i++) {
        rl_bind_key_in_map('\n', insert_newline, maps[i]);
        rl_bind_keyseq_in_map("\033\r", insert_newline, maps[i]);
        rl_bind_keyseq_in_map("\033\n", insert_newline, maps[i]);
    }
    using_history();
    stifle_history(N_HISTORY);
    const char *pastes = rl_variable_value("enable-bracketed-paste");
    return prompt.label && term_raw(pastes && strcmp(pastes, "on") == 0);
}

void prompt_close(void)
{
    if (prompt.shown)
        rl_callback_handler_remove();
    prompt.shown = false;
    clear_history();
    free(prompt.label);
    prompt.label = NULL;
    term_restore();
}

void prompt_show(void)
{
    prompt.shown = true;
    rl_tty_set_echoing(1); // else readline takes it from the settings that its own preparation would have read
    rl_callback_handler_install(prompt.label, on_line);
}

bool prompt_is_shown(void)
{
    return prompt.shown;
}

void prompt_feed(void)
{
    rl_callback_read_char();
}

bool prompt_interrupt(void)
{
    bool draft = rl_end > 0;
    if (draft)
        remember(rl_line_buffer);
    rl_point = rl_end;
    rl_redisplay();
    rl_free_line_state();
    rl_callback_sigcleanup();
    rl_replace_line("", 1);
    fputs("^C\n", rl_outstream);
    rl_on_new_line();
    return draft;
}

void prompt_refresh(void)
{
    rl_on_new_line();
    rl_forced_update_display();
}

void prompt_resize(void)
{
    rl_resize_terminal();
}
