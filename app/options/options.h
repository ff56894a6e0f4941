// SPDX-License-Identifier: GPL-3.0-or-later
// The one table of options. It serves parsing, --help, `moechat help`, /set and the OPTIONS section of moechat(1).
// A value comes from the command line, else from the option's environment variable, else from the configuration file
// (config.h), else from options_defaults.
#ifndef MOECHAT_APP_OPTIONS_OPTIONS_H
#define MOECHAT_APP_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/moe.h"

enum command {
    COMMAND_CHAT,
    COMMAND_RUN,
    COMMAND_EVAL,
    COMMAND_INFO,
    COMMAND_CONVERT,
    COMMAND_DEVICES,
    COMMAND_BENCH,
    COMMAND_SESSIONS,
    COMMAND_HELP,
    COMMAND_COUNT,
};

enum think { THINK_UNASKED, THINK_ON, THINK_OFF }; // shall an answer begin with thinking?

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

// Strings point into argv, the environment and the configuration's text. NULL: not given.
struct options {
    enum command command;
    const char *operand; // info's folder, convert's source, help's topic, the verb of sessions or bench
    const char *more[2]; // that the verb is about; convert's target
    const char *model, *device, *kernel_cache, *engine;
    const char *prompt, *prompt_file, *system, *session, *template_name;
    const char *tokens, *text, *logits, *dump_layers;
    const char *dump_options, *predict_log, *config, *only;
    int completion; // 0: none; 1 + enum shell
    double temp, top_p, min_p, repeat_penalty;
    const char *trace;
    uint64_t expert_cache, host_cache, seed, kv_cap;
    uint32_t top_k, max_tokens, context, chunk, group, ring, readers, runs, prefill_tokens, decode_tokens;
    int io;                  // enum moe_io
    int kv;                  // enum moe_kv_type, -1: not given; ask options_kv_type
    int color;               // enum color
    int prefetch;            // enum moe_prefetch
    int bits, resident_bits; // 0: auto, 1: 4, 2: 8
    int group_size;          // 0: auto, 1: 32, 2: 64, 3: 128
    int think;               // enum think
    bool profile, print_config, json, jsonl, go_on, no_session, plain, ascii, mouse, clipboard, verify, no_template,
        help, version;
    // A bit for each row of the table that was set; of those, by the environment or the configuration file.
    uint64_t given, from_environment, from_config;
};

struct options_error {
    char text[256]; // one line for people
};

void options_defaults(struct options *options);
// Reads argv and then, for what argv left open, the environment. False: *error says what is wrong (exit with 2).
bool options_parse(struct options *options, int argc, char **argv, struct options_error *error);
// Sets one option that may change during a chat, as /set does. The name may be written with _ for -.
bool options_set(struct options *options, const char *name, const char *value, struct options_error *error);
// Was the option (by its long name) given?
bool options_given(const struct options *options, const char *name);

// The KV rows' type: as given, else half for talking (the demo's NLL moves by less than 0.01 % with it), float32 for
// eval, whose numbers are compared with others'.
static inline enum moe_kv_type options_kv_type(const struct options *options)
{
    if (options->kv >= 0)
        return (enum moe_kv_type)options->kv;
    return options->command == COMMAND_EVAL ? MOE_KV_F32 : MOE_KV_F16;
}
const char *options_command_name(enum command command); // "run"; "chat" for no subcommand
void options_help(FILE *out, enum command command);     // COMMAND_HELP: the overview
const char *options_setting(size_t index);              // the names that /set takes; NULL: there are no more
// Writes the rows that /set takes with their values, "  temp            0.6" each.
void options_print_settings(FILE *out, const struct options *options);
// Writes the options of a chat whose name or explanation contains `wanted`. Returns how many.
size_t options_search(FILE *out, const char *wanted);
// For moechat(1): false when the format is unknown.
bool options_dump(FILE *out, const char *format);

// "12", "4K", "1.5GiB" (K, M, G and T are powers of 1024, with or without iB; KB and so on powers of 1000).
bool options_parse_size(const char *text, uint64_t *bytes);

#endif
