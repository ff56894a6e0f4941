// SPDX-License-Identifier: GPL-3.0-or-later
// The command line, the environment and the configuration file -> settings, by one table of options (options_table.h).
// It serves parsing, --help, `moechat help`, /set, shells' completion and the OPTIONS section of moechat(1).
// A value comes from the command line, else from the option's environment variable, else from the configuration file
// (config.h), else from options_defaults.
#ifndef MOECHAT_APP_OPTIONS_OPTIONS_H
#define MOECHAT_APP_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/driver/model_settings.h"
#include "app/options/command_settings.h"
#include "app/options/talk_settings.h"

enum command {
    COMMAND_CHAT,
    COMMAND_RUN,
    COMMAND_EVAL,
    COMMAND_INFO,
    COMMAND_CONVERT,
    COMMAND_DEVICES,
    COMMAND_KERNELS,
    COMMAND_BENCH,
    COMMAND_SESSIONS,
    COMMAND_HELP,
    COMMAND_COUNT,
};

struct options {
    enum command command;
    const char *program; // as it was typed, argv[0]
    struct model_settings model;
    struct talk_settings talk;
    struct command_settings asked; // of the command
    // The rows of the table that were set; of those, by the environment or the configuration file.
    struct option_set given, from_environment, from_config;
};

struct options_error {
    char text[256]; // one line for people
};

void options_defaults(struct options *options);
// Reads argv and then, for what argv left open, the environment. False: *error says what is wrong (exit with 2).
bool options_parse(struct options *options, int argc, char **argv, struct options_error *error);
// Once all sources are read: a session that the command line asks for goes before what the others say of saving none.
// False: the command line asks for two of --session, --continue and --no-session, and *error says so.
bool options_settle(struct options *options, struct options_error *error);
// Was the option (by its long name) given?
bool options_given(const struct options *options, const char *name);
bool options_typed(const struct options *options, const char *name); // on the command line

const char *options_command_name(enum command command); // "run"; "chat" for no subcommand
void options_help(FILE *out, enum command command);     // COMMAND_HELP: the overview
// Writes the options of a chat whose name or explanation contains `wanted`, a line each, what it means from column
// `second` on. Returns how many.
size_t options_search(FILE *out, const char *wanted, int second);
// For moechat(1): false when the format is unknown.
bool options_dump(FILE *out, const char *format);

// The settings of a talk, which from then on are its own.
struct talk_settings options_talk(const struct options *options);
// Takes what the model's maker suggests for settings that nobody gave, and writes them to `said`: "temp 0.3, top-p
// 0.9"; "" when there are none.
enum { SUGGESTION_SIZE = 128 };
void options_suggest(struct talk_settings *settings, const struct moe_suggestion *suggestion, char *said, size_t room);

// What may change during a chat: the rows that /set takes. Names may be written with _ for -.
const char *options_setting(size_t index); // NULL: there are no more
bool options_set(struct talk_settings *settings, const char *name, const char *value, struct options_error *error);
// The setting as `began` has it, with where that came from; a seed that nobody gave is drawn anew. False: as above.
bool options_take_back(struct talk_settings *settings, const struct talk_settings *began, const char *name,
                       struct options_error *error);
// Writes "  temp            0.6 (default)", or all such rows for NULL. False: there is no such setting.
enum { SETTINGS_SECOND = 25 }; // column of the values
bool options_print_settings(FILE *out, const struct talk_settings *settings, const char *name);
// The setting's value, with `source` also "(from /set)" and the like. Returns its name as the table has it. NULL: there
// is no such setting, *error says so.
const char *options_get(char *out, size_t size, const struct talk_settings *settings, const char *name, bool source,
                        struct options_error *error);

// "12", "4K", "1.5GiB" (K, M, G and T are powers of 1024, with or without iB; KB and so on powers of 1000).
bool options_parse_size(const char *text, uint64_t *bytes);

#endif
