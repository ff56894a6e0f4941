// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of the option table, for the files of this room alone.
#ifndef MOECHAT_APP_OPTIONS_OPTIONS_TABLE_H
#define MOECHAT_APP_OPTIONS_OPTIONS_TABLE_H

#include "app/options/options.h"

enum kind { KIND_FLAG, KIND_STRING, KIND_UINT32, KIND_SEED, KIND_REAL, KIND_CACHE, KIND_SIZE, KIND_CHOICE, KIND_TEXTS };

// A word that may stand for a value: of an enum, a number, or MOE_CACHE_*.
struct option_choice {
    const char *name; // NULL: the end
    uint64_t value;
};

struct option_row {
    const char *name;
    const char *argument; // NULL for flags
    const char *variable; // of the environment, NULL: none
    const char *help;
    const struct option_choice *choices;
    const char *(*check)(const char *value); // of texts: NULL, or what is wrong with it, behind the option's name
    size_t offset;                           // in struct options
    double least, most;                      // of numbers
    bool above;                              // least itself is not in it
    unsigned commands;                       // bits 1 << enum command
    enum kind kind;
    char letter;   // 0: none
    bool settable; // by /set, so a field of struct talk_settings
    bool hidden;
};

#define FOR(name) (1u << COMMAND_##name)
#define FOR_ALL   ((1u << COMMAND_COUNT) - 1)

struct option_command {
    const char *name, *operand, *summary;
    const char *words; // that the operand may be, "a|b"; NULL: any
};
extern const struct option_row options_table[];
extern const struct option_command options_commands[COMMAND_COUNT];
size_t options_count(void); // rows

const struct option_row *option_find(const char *name, size_t length); // by its long name, NULL: none
// One that /set takes, also with _ for -. NULL: there is none, *error says so.
const struct option_row *option_find_setting(const char *name, struct options_error *error);
const char *option_choice_name(const struct option_row *row, uint64_t value); // NULL: no word stands for it
// "from the environment" and the like.
const char *option_source(const struct setting_sources *sources, const struct option_row *row);
// Prints the value of the row's field: as what option_store reads.
void option_print_value(FILE *out, const struct option_row *row, const void *field);
// Reads a value into the row's field and marks it as given; a flag takes yes or no, and NULL for yes. Messages name the
// option `as` the user wrote it.
bool option_store(struct options *options, const struct option_row *row, const char *as, const char *value,
                  struct options_error *error);
__attribute__((format(printf, 2, 3))) bool option_refuse(struct options_error *error, const char *format, ...);

#endif
