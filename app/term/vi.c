// SPDX-License-Identifier: GPL-3.0-or-later
// By the keymap that readline is in.
#include "app/term/vi.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <readline/readline.h>

#include "app/term/input.h"

void vi_take_bell_out(void)
{
    if (rl_editing_mode != 0 || rl_point == 0 || rl_line_buffer[rl_point - 1] != '\007')
        return;
    rl_delete_text(rl_point - 1, rl_point);
    rl_point--;
}

// Not for as long as readline waits for a key's end: whoever leaves insert mode and sends would have pressed Alt-Enter.
void vi_await_key(struct typed *typed)
{
    const struct bytes *bytes = &typed->bytes;
    const char *value = rl_variable_value("keyseq-timeout");
    int wait_ms = value ? atoi(value) : 0, most_ms = (int)input_escape_ms();
    wait_ms = wait_ms < most_ms ? wait_ms : most_ms;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (rl_editing_mode == 0 && bytes->length && bytes->data[bytes->length - 1] == '\033' &&
        poll(&input, 1, wait_ms > 0 ? wait_ms : 0) > 0)
        typed_read(typed, STDIN_FILENO);
}

const char *vi_mode_words(void)
{
    const char *shown = rl_variable_value("show-mode-in-prompt");
    if (rl_editing_mode != 0 || !shown || strcmp(shown, "on") != 0)
        return "";
    const char *words =
        rl_variable_value(rl_get_keymap() == vi_movement_keymap ? "vi-cmd-mode-string" : "vi-ins-mode-string");
    return words ? words : "";
}
