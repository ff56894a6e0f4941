// SPDX-License-Identifier: GPL-3.0-or-later
// Reads and prints the configuration file.
#include "app/options/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/options_table.h"
#include "tokenizer/tok.h"

static bool is_setting(const struct option_row *row)
{
    return row->variable && row->offset != offsetof(struct options, asked.config);
}

static bool is_printable(const char *text)
{
    for (size_t length = strlen(text); length > 0;) {
        uint32_t code;
        int found = tok_utf8(text, length, &code);
        if (found <= 0 || (code < 0x20 && code != '\t') || (code >= 0x7F && code < 0xA0))
            return false;
        text += found;
        length -= (size_t)found;
    }
    return true;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

static bool take_setting(struct options *options, char *name, const char *value, struct option_set *seen,
                         struct options_error *error)
{
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const struct option_row *row = option_find(name, strlen(name));
    if (!row || !is_setting(row))
        return option_refuse(error, "unknown setting \"%.40s\"", name);
    size_t at = (size_t)(row - options_table);
    if (option_set_has(seen, at))
        return option_refuse(error, "%s is set twice", name);
    option_set_add(seen, at);
    struct options elsewhere = *options; // checks also what this command has no use for
    bool wanted = !option_set_has(&options->given, at) && (row->commands & (1u << options->command));
    if (!option_store(wanted ? options : &elsewhere, row, name, value, error))
        return false;
    if (wanted)
        option_set_add(&options->from_config, at);
    return true;
}

static bool take_line(struct options *options, char *line, struct option_set *seen, struct options_error *error)
{
    line = trim(line);
    if (!is_printable(line))
        return option_refuse(error, "not valid text");
    char *equals = strchr(line, '=');
    if (!*line || *line == '#')
        return true;
    if (!equals || equals == line)
        return option_refuse(error, "expected \"key = value\", not \"%.40s\"", line);
    *equals = 0;
    const char *value = trim(equals + 1);
    line = trim(line);
    return *value ? take_setting(options, line, value, seen, error)
                  : option_refuse(error, "%.40s has no value; remove the line for the default", line);
}

bool config_parse(struct options *options, const char *path, struct bytes *text, struct options_error *error)
{
    struct options_error wrong;
    struct option_set seen = {0};
    static const char mark[] = "\xEF\xBB\xBF"; // of UTF-8, as some editors leave it
    size_t number = 1, begin = text->length >= 3 && memcmp(text->data, mark, 3) == 0 ? 3 : 0;
    for (size_t at = begin; at < text->length; number++) {
        char *line = text->data + at, *end = memchr(line, '\n', text->length - at);
        size_t length = end ? (size_t)(end - line) : text->length - at;
        line[length] = 0;
        bool fine =
            strlen(line) == length ? take_line(options, line, &seen, &wrong) : option_refuse(&wrong, "not valid text");
        if (!fine)
            return option_refuse(error, "%.100s line %zu: %.120s", path, number, wrong.text);
        at += length + 1;
    }
    return true;
}

bool config_load(struct options *options, struct bytes *text, struct options_error *error)
{
    bool named = options->asked.config && *options->asked.config;
    if (named && strcmp(options->asked.config, "none") == 0)
        return true;
    char *path = named ? NULL
                       : files_place(&(struct files_place){
                             .variable = "XDG_CONFIG_HOME", .otherwise = ".config", .name = "config"});
    const char *shown = named ? options->asked.config : path;
    // What is named may be <(a command); a pipe in the usual place would hold up every command.
    int code = !shown ? ENOENT : (named ? files_read : files_read_regular)(shown, CONFIG_LIMIT, text);
    bool fine = code == 0 || ((code == ENOENT || code == ENOTDIR) && !named);
    if (!fine)
        option_refuse(error, "cannot read the configuration %.100s: %s", shown,
                      code == EFBIG    ? "larger than 64 KB"
                      : code == ESPIPE ? "it is no regular file"
                                       : strerror(code));
    else if (code == 0)
        fine = config_parse(options, shown, text, error);
    free(path);
    return fine;
}

// Would trim take nothing off it?
static bool is_trimmed(const char *text)
{
    return *text && !isspace((unsigned char)*text) && !isspace((unsigned char)text[strlen(text) - 1]);
}

// As they are printed: a newline is \n then, a tab \t.
static bool texts_fit(const struct texts *texts)
{
    char line[TEXTS_SIZE];
    size_t length = 0;
    for (const char *c = texts->line; *c; c++)
        line[length++] = *c == '\n' || *c == '\t' ? '\\' : *c;
    line[length] = 0;
    return is_printable(line) && (!length || is_trimmed(line));
}

// Can a line hold the value as it is?
static bool fits_a_line(const struct options *options, const struct option_row *row)
{
    const char *text = NULL;
    if (row->kind == KIND_TEXTS)
        return texts_fit((const struct texts *)(const void *)((const char *)options + row->offset));
    if (row->kind == KIND_STRING)
        memcpy(&text, (const char *)options + row->offset, sizeof text);
    return !text || (is_printable(text) && is_trimmed(text));
}

void config_print(FILE *out, const struct options *options)
{
    const struct setting_sources sources = options_talk(options).sources;
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_row *row = &options_table[i];
        if (!is_setting(row) || !(row->commands & (1u << options->command)))
            continue;
        bool given = option_set_has(&options->given, i), fits = fits_a_line(options, row);
        // What the value can't say, such as that a seed is random: in brackets at the end of the help.
        const char *standard = given ? NULL : strrchr(row->help, '[');
        fprintf(out, "# %s%s%.*s%s\n", given ? option_source(&sources, row) : "by default", standard ? ": " : "",
                standard ? (int)strcspn(standard + 1, "]") : 0, standard ? standard + 1 : "",
                fits ? "" : "; a line can't hold its value");
        fprintf(out, "%s%s = ", given && fits ? "" : "#", row->name);
        if (fits)
            option_print_value(out, row, (const char *)options + row->offset);
        fputc('\n', out);
    }
}
