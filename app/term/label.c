// SPDX-License-Identifier: GPL-3.0-or-later
// Asks readline how it scrolls.
#include "app/term/label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

static void drop_colours(char *text)
{
    char *to = text;
    bool apart = false;
    for (const char *from = text; *from; from++) {
        if (*from == RL_PROMPT_START_IGNORE || *from == RL_PROMPT_END_IGNORE)
            apart = *from == RL_PROMPT_START_IGNORE;
        else if (!apart)
            *to++ = *from;
    }
    *to = 0;
}

// readline reads a value as it does in a file, where a backslash stands for itself when doubled.
static void bind_plain(const char *variable, const char *value)
{
    char *plain = strdup(value), *quoted = malloc(2 * strlen(value) + 1);
    if (plain && quoted) {
        char *to = quoted;
        drop_colours(plain);
        for (const char *from = plain; *from; from++) {
            if (*from == '\\')
                *to++ = '\\';
            *to++ = *from;
        }
        *to = 0;
        rl_variable_bind(variable, quoted);
    } else { // no memory for its words: no words
        rl_variable_bind(variable, "");
    }
    free(plain);
    free(quoted);
}

static void keep_modes_plain(void)
{
    static const char *const variables[] = {"emacs-mode-string", "vi-ins-mode-string", "vi-cmd-mode-string"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = rl_variable_value(variables[i]);
        if (value && strpbrk(value, (const char[]){RL_PROMPT_START_IGNORE, RL_PROMPT_END_IGNORE, 0}))
            bind_plain(variables[i], value);
    }
}

static bool scrolls_sideways(void)
{
    const char *up = rl_get_termcap("up"), *sideways = rl_variable_value("horizontal-scroll-mode");
    return !up || !*up || (sideways && strcmp(sideways, "on") == 0);
}

bool label_take(struct label *label, const char *given)
{
    *label = (struct label){.given = strdup(given ? given : ""), .plain = strdup(given ? given : "")};
    if (!label->given || !label->plain) {
        label_release(label);
        return false;
    }
    drop_colours(label->plain);
    return true;
}

void label_release(struct label *label)
{
    free(label->given);
    free(label->plain);
    *label = (struct label){0};
}

const char *label_now(const struct label *label)
{
    if (!scrolls_sideways())
        return label->given;
    keep_modes_plain();
    return label->plain;
}
