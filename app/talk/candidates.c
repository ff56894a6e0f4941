// SPDX-License-Identifier: GPL-3.0-or-later
// Finds what Tab offers.
#include "app/util/sanitize.h"
#include "app/util/words.h"
#include "app/talk/candidates.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/talk/commands.h"
#include "app/options/options.h"
#include "tokenizer/tok.h"

enum { CANDIDATES_LIMIT = 4096 };

void candidates_release(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        free(candidates->words[i]);
    free(candidates->words);
    *candidates = (struct candidates){0};
}

// What is there of the word.
struct typed {
    const char *text;
    size_t length;
};

// Takes the word over. False: no memory, or enough.
static bool add(struct candidates *candidates, char *word)
{
    char **grown = NULL;
    if (word && candidates->count < CANDIDATES_LIMIT)
        grown = realloc(candidates->words, (candidates->count + 1) * sizeof *grown);
    if (!grown) {
        free(word);
        return false;
    }
    candidates->words = grown;
    candidates->words[candidates->count++] = word;
    return true;
}

// Adds before + name + after when that begins with what is typed. False: no memory, or enough.
static bool offer(struct candidates *candidates, struct typed typed, const char *before, const char *name,
                  const char *after)
{
    size_t size = strlen(before) + strlen(name) + strlen(after) + 1;
    char *word = malloc(size);
    if (!word)
        return false;
    snprintf(word, size, "%s%s%s", before, name, after);
    if (strncmp(word, typed.text, typed.length) == 0)
        return add(candidates, word);
    free(word);
    return true;
}

// Names begin with a date where nobody gave one, so what is remembered of them may stand anywhere; but names that begin
// with what is typed are what is meant.
static void offer_sessions(struct candidates *candidates, struct typed typed, const struct candidate_names *sessions)
{
    char part[256];
    for (size_t i = 0; i < sessions->count; i++)
        offer(candidates, typed, "", sessions->names[i], "");
    if (candidates->count || typed.length >= sizeof part)
        return;
    snprintf(part, sizeof part, "%.*s", (int)typed.length, typed.text);
    for (size_t i = 0; i < sessions->count; i++)
        if (strstr(sessions->names[i], part))
            add(candidates, strdup(sessions->names[i]));
}

static void offer_commands(struct candidates *candidates, struct typed typed, const char *before)
{
    const struct command_row *row;
    for (size_t i = 0; (row = commands_row(i)); i++) {
        offer(candidates, typed, before, row->name, "");
        char alias[32];
        for (const char *rest = row->aliases; words_next(&rest, alias, sizeof alias);)
            if (isalpha((unsigned char)*alias)) // "?" is quicker typed than found
                offer(candidates, typed, before, alias, "");
    }
}

static void offer_words(struct candidates *candidates, struct typed typed, const char *words)
{
    char word[32];
    while (words_next(&words, word, sizeof word))
        offer(candidates, typed, "", word, "");
}

// Names that can be typed: UTF-8 without control characters, and shown as they are: none that turn the text around.
static bool can_be_typed(const char *name)
{
    enum { MOST = 255 };
    struct sanitize state = {0};
    char shown[SANITIZE_ROOM(MOST) + SANITIZE_ROOM(0)];
    size_t bytes = strlen(name), size = bytes <= MOST ? sanitize_push(&state, name, bytes, shown) : 0;
    size += sanitize_flush(&state, shown + size);
    if (size != bytes || memcmp(shown, name, bytes) != 0)
        return false;
    for (size_t length = strlen(name); length > 0;) {
        uint32_t code;
        int found = tok_utf8(name, length, &code);
        if (found <= 0 || code < 0x20 || (code >= 0x7F && code < 0xA0))
            return false;
        name += found;
        length -= (size_t)found;
    }
    return true;
}

// Adds a path as /file takes it: in quotes where it has spaces, or they were begun; those of a folder stay open. False:
// no memory, or enough.
static bool offer_quoted(struct candidates *candidates, struct typed path, const char *before, const char *name,
                         bool is_folder)
{
    bool begun = path.text[-1] == '"', quoted = begun || strchr(before, ' ') || strchr(name, ' ');
    struct candidates whole = {0};
    if (quoted && (strchr(before, '"') || strchr(name, '"')))
        return true; // which can't be typed
    if (!quoted)
        return offer(candidates, path, before, name, is_folder ? "/" : "");
    if (!offer(&whole, path, before, name, is_folder ? "/" : "\""))
        return false;
    bool fine = !whole.count || offer(candidates, (struct typed){"", 0}, "\"", whole.words[0], "");
    candidates_release(&whole);
    return fine;
}

// Those that begin with what is typed behind quotes, if any.
static void offer_paths(struct candidates *candidates, struct typed typed, bool quotes)
{
    char before[4096], folder[4096], full[8192];
    size_t split = typed.length;
    const char *home = getenv("HOME");
    while (split > 0 && typed.text[split - 1] != '/')
        split--;
    bool hidden = split < typed.length && typed.text[split] == '.';
    if (split >= sizeof before - 1)
        return;
    snprintf(before, sizeof before, "%.*s", (int)split, typed.text);
    if (before[0] == '~' && before[1] == '/' && home)
        snprintf(full, sizeof full, "%s%s", home, before + 1);
    else
        snprintf(full, sizeof full, "%s", split ? before : ".");
    if (strlen(full) >= sizeof folder)
        return;
    strcpy(folder, full);
    DIR *open = opendir(folder);
    if (!open)
        return;
    for (struct dirent *entry; (entry = readdir(open));) {
        const char *name = entry->d_name;
        struct stat status;
        if ((name[0] == '.' && !hidden) || !strcmp(name, ".") || !strcmp(name, "..") || !can_be_typed(name))
            continue;
        snprintf(full, sizeof full, "%s/%s", folder, name);
        bool is_folder = stat(full, &status) == 0 && S_ISDIR(status.st_mode);
        if (quotes ? !offer_quoted(candidates, typed, before, name, is_folder)
                   : !offer(candidates, typed, before, name, is_folder ? "/" : ""))
            break;
    }
    closedir(open);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool begins_quoted(struct typed typed)
{
    return typed.length && *typed.text == '"';
}

static void offer_arguments(struct candidates *candidates, const struct command_row *row, struct typed typed,
                            const struct candidate_names *sessions)
{
    const char *name;
    switch (row->takes) {
    case TAKES_SESSION:
        offer_sessions(candidates, typed, sessions);
        break;
    case TAKES_SETTING:
        for (size_t i = 0; (name = options_setting(i)); i++)
            offer(candidates, typed, "", name, "");
        break;
    case TAKES_COMMAND:
        offer_commands(candidates, typed, "");
        break;
    case TAKES_PATH: // a format's path is all that follows it
        if (*row->words || !begins_quoted(typed))
            offer_paths(candidates, typed, !*row->words);
        else if (!memchr(typed.text + 1, '"', typed.length - 1))
            offer_paths(candidates, (struct typed){typed.text + 1, typed.length - 1}, true);
        break;
    case TAKES_NOTHING:
    case TAKES_TEXT:
        break;
    }
}

// What completes is a word up to blanks: those before it, which all of them have, are there.
static void begin_behind_blanks(struct candidates *candidates, struct typed typed)
{
    size_t there = typed.length;
    while (there > 0 && typed.text[there - 1] != ' ')
        there--;
    candidates->start += there;
    for (size_t i = 0; there && i < candidates->count; i++)
        memmove(candidates->words[i], candidates->words[i] + there, strlen(candidates->words[i] + there) + 1);
}

bool candidates_find(struct candidates *candidates, const char *line, size_t point,
                     const struct candidate_names *sessions)
{
    *candidates = (struct candidates){0};
    if (point == 0 || line[0] != '/')
        return false;
    size_t name = 1;
    while (name < point && line[name] != ' ')
        name++;
    if (name == point) {
        offer_commands(candidates, (struct typed){line, point}, "/");
    } else {
        const struct command_row *row = commands_find(line + 1, name - 1);
        size_t start = name;
        while (start < point && line[start] == ' ')
            start++;
        size_t word = start;
        while (word < point && line[word] != ' ')
            word++;
        bool first = word == point;
        if (!first && row && *row->words) // the argument after the word
            for (start = word; start < point && line[start] == ' ';)
                start++;
        candidates->start = start;
        struct typed typed = {line + start, point - start};
        if (row && *row->words && first)
            offer_words(candidates, typed, row->words);
        else if (row && (first || *row->words || (row->takes == TAKES_PATH && begins_quoted(typed))))
            offer_arguments(candidates, row, typed, sessions);
        begin_behind_blanks(candidates, typed);
    }
    if (candidates->count)
        qsort(candidates->words, candidates->count, sizeof *candidates->words, compare);
    return candidates->count > 0;
}
