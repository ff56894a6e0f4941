// SPDX-License-Identifier: GPL-3.0-or-later
// What one run of the program is asked to do, beside the model and the conversation. Strings point into argv, the
// environment and the configuration's text; NULL: not given.
#ifndef MOECHAT_APP_OPTIONS_COMMAND_SETTINGS_H
#define MOECHAT_APP_OPTIONS_COMMAND_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum shell { SHELL_NONE, SHELL_BASH, SHELL_ZSH, SHELL_FISH };

struct command_settings {
    const char *operand; // info's folder, convert's source, help's topic, run's prompt, the verb of sessions or bench
    const char *more[2]; // that the verb is about; convert's target
    const char *config;
    bool help, version, print_config;
    enum shell completion;
    const char *dump_options;
    bool json, jsonl;
    // run
    const char *prompt, *prompt_file;
    // eval
    const char *tokens, *text, *logits, *dump_layers;
    const char *list; // of info: a repository's files
    // info and convert
    bool verify;
    bool consume, yes;                        // of convert
    uint32_t bits, resident_bits, group_size; // 0: auto
    const char *job;                          // of kernels, which a helper is asked for
    // bench
    uint32_t runs, prefill_tokens, decode_tokens;
    const char *only;
};

#endif
