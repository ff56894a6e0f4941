// SPDX-License-Identifier: GPL-3.0-or-later
// The option table for people: help, settings, the manual.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/options_table.h"
#include "app/util/words.h"

const char *options_setting(size_t index)
{
    for (size_t i = 0; i < options_count(); i++)
        if (options_table[i].settable && index-- == 0)
            return options_table[i].name;
    return NULL;
}

const char *option_source(const struct setting_sources *sources, const struct option_row *row)
{
    size_t at = (size_t)(row - options_table);
    if (option_set_has(&sources->changed, at))
        return "from /set";
    if (option_set_has(&sources->model, at))
        return "from the model";
    if (!option_set_has(&sources->given, at))
        return row->kind == KIND_SEED ? "random" : "default";
    if (option_set_has(&sources->environment, at))
        return "from the environment";
    return option_set_has(&sources->config, at) ? "from the configuration file" : "from the command line";
}

static const void *field_of(const struct talk_settings *settings, const struct option_row *row)
{
    return (const char *)settings + (row->offset - offsetof(struct options, talk));
}

bool options_print_settings(FILE *out, const struct talk_settings *settings, const char *name)
{
    struct options_error error;
    const struct option_row *only = name ? option_find_setting(name, &error) : NULL;
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_row *row = &options_table[i];
        if (!row->settable || (name && row != only))
            continue;
        fprintf(out, "  %-*s ", SETTINGS_SECOND - 3, row->name);
        option_print_value(out, row, field_of(settings, row));
        fprintf(out, " (%s)\n", option_source(&settings->sources, row));
    }
    return !name || only;
}

const char *options_get(char *out, size_t size, const struct talk_settings *settings, const char *name, bool source,
                        struct options_error *error)
{
    const struct option_row *row = option_find_setting(name, error);
    FILE *text = row ? fmemopen(out, size, "w") : NULL;
    if (row)
        *out = 0;
    if (text) {
        option_print_value(text, row, field_of(settings, row));
        if (source)
            fprintf(text, " (%s)", option_source(&settings->sources, row));
        fclose(text);
    }
    return row ? row->name : NULL;
}

// A size as people write it and options read it, to the byte: "4GiB", "12MB", "1000001".
static void print_size(FILE *out, uint64_t bytes)
{
    static const char letters[] = "TGMK";
    for (unsigned i = 0; i < 4; i++) {
        uint64_t decimal = 1000, binary = 1024;
        for (unsigned n = i; n < 3; n++)
            decimal *= 1000, binary *= 1024;
        if (bytes && bytes % binary == 0) {
            fprintf(out, "%" PRIu64 "%ciB", bytes / binary, letters[i]);
            return;
        }
        if (bytes && bytes % decimal == 0) {
            fprintf(out, "%" PRIu64 "%cB", bytes / decimal, letters[i]);
            return;
        }
    }
    fprintf(out, "%" PRIu64, bytes);
}

void option_print_value(FILE *out, const struct option_row *row, const void *field)
{
    const char *text = NULL;
    uint64_t whole = 0;
    uint32_t small = 0;
    double real = 0;
    bool flag = false;
    switch (row->kind) {
    case KIND_FLAG:
        memcpy(&flag, field, sizeof flag);
        fputs(flag ? "yes" : "no", out);
        break;
    case KIND_STRING:
        memcpy(&text, field, sizeof text);
        fputs(text ? text : "", out);
        break;
    case KIND_TEXTS:
        texts_print(out, field);
        break;
    case KIND_UINT32:
        memcpy(&small, field, sizeof small);
        fprintf(out, "%" PRIu32, small);
        break;
    case KIND_REAL:
        memcpy(&real, field, sizeof real);
        fprintf(out, "%.15g", real);
        break;
    case KIND_SEED:
        fprintf(out, "%" PRIu64, ((const struct seed_setting *)field)->number);
        break;
    case KIND_CACHE:
        memcpy(&whole, field, sizeof whole);
        text = option_choice_name(row, whole);
        if (text)
            fputs(text, out);
        else if (whole > MOE_CACHE_SHARE(0) && whole <= MOE_CACHE_SHARE(1000))
            fprintf(out, "%g%%", (double)(whole - MOE_CACHE_SHARE(0)) / 10);
        else
            print_size(out, whole);
        break;
    case KIND_SIZE:
        memcpy(&whole, field, sizeof whole);
        print_size(out, whole);
        break;
    case KIND_CHOICE:
        memcpy(&small, field, sizeof small);
        text = option_choice_name(row, small);
        fputs(text ? text : "", out);
        break;
    }
}

// A flag that the environment or the file may have set, which =no takes back.
static bool has_other_source(const struct option_row *row)
{
    return row->kind == KIND_FLAG && row->variable;
}

// What it means begins at the column `second`, and with `whole` it is a line, however long.
static void print_row(FILE *out, const struct option_row *row, int second, bool whole)
{
    char letter[8] = "    ";
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    const char *argument = row->argument ? row->argument : has_other_source(row) ? "[=no]" : "";
    int column = fprintf(out, "  %s--%s%s%s", letter, row->name, row->argument ? " " : "", argument);
    if (column + 2 > second)
        column = fprintf(out, "\n") - 1;
    fprintf(out, "%*s", second - column, "");
    if (whole)
        fprintf(out, "%s\n", row->help);
    else
        words_print(out, row->help, second, second);
}

size_t options_search(FILE *out, const char *wanted, int second)
{
    size_t shown = 0;
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_row *row = &options_table[i];
        bool about = words_about(row->name, wanted) || words_about(row->help, wanted);
        if (row->hidden || !(row->commands & FOR(CHAT)) || !about)
            continue;
        print_row(out, row, second, true);
        shown++;
    }
    return shown;
}

void options_help(FILE *out, enum command command)
{
    enum { INDENT = 28 };
    if (command == COMMAND_HELP || command == COMMAND_CHAT) {
        fputs("Usage: moechat [COMMAND | MODEL] [OPTION...]\n\nCommands:\n", out);
        for (int i = 0; i < COMMAND_COUNT; i++) {
            char usage[40];
            snprintf(usage, sizeof usage, "%s%s", options_commands[i].name, options_commands[i].operand);
            fprintf(out, "  %-20s  %s\n", usage, options_commands[i].summary);
        }
        if (command == COMMAND_HELP) {
            fputs("\nmoechat help COMMAND lists its options; the manual is moechat(1).\n", out);
            return;
        }
    } else {
        fprintf(out, "Usage: moechat %s%s [OPTION...]\n\n%s\n", options_commands[command].name,
                options_commands[command].operand, options_commands[command].summary);
    }
    if (command == COMMAND_SESSIONS)
        fputs("\nVerbs:\n  list (the default), show NAME, tree NAME, rm NAME, rename NAME NEW-NAME,\n"
              "  export NAME [md|json|txt], verify NAME, compact [NAME], prune NAME\n",
              out);
    fputs("\nOptions:\n", out);
    for (size_t i = 0; i < options_count(); i++)
        if (!options_table[i].hidden && (options_table[i].commands & (1u << command)))
            print_row(out, &options_table[i], INDENT, false);
}

// Sentences begin lines, as mdoc wants it, and no line is longer than its style allows; its backslashes are \e.
static void print_sentences(FILE *out, const char *text)
{
    char sentence[512];
    while (*text) {
        const char *end = strstr(text, ". ");
        size_t length = end ? (size_t)(end - text) + 1 : strlen(text), used = 0;
        for (size_t i = 0; i < length && used + 2 < sizeof sentence; i++) {
            sentence[used++] = text[i];
            if (text[i] == '\\')
                sentence[used++] = 'e';
        }
        sentence[used] = 0;
        words_print(out, sentence, 0, 0);
        text += length + strspn(text + length, " ");
    }
}

bool options_dump(FILE *out, const char *format)
{
    if (strcmp(format, "mdoc") != 0)
        return false;
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_row *row = &options_table[i];
        if (row->hidden)
            continue;
        fputs(".It ", out);
        if (row->letter)
            fprintf(out, "Fl %c , ", row->letter);
        fprintf(out, "Fl -%s", row->name);
        if (row->argument)
            fprintf(out, " Ar %s", row->argument);
        if (has_other_source(row))
            fputs(" Ns Op = Ns Cm no", out);
        fputc('\n', out);
        print_sentences(out, row->help);
        if (row->variable)
            fprintf(out, "Environment:\n.Ev %s .\n", row->variable);
        if (row->commands == FOR_ALL)
            continue;
        fputs("For", out);
        for (int c = 0, n = 0; c < COMMAND_COUNT; c++)
            if (row->commands >> c & 1)
                fprintf(out, "%s%s", n++ ? ", " : " ", options_commands[c].name);
        fputs(".\n", out);
    }
    return true;
}
