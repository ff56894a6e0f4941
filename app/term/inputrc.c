// SPDX-License-Identifier: GPL-3.0-or-later
// Follows the $include lines of files of key bindings, and has readline read those that are fine.
#include "app/term/inputrc.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <readline/readline.h>

#include "app/util/files.h"
#include "app/util/report.h"

struct walk {
    const char *first;
    int deep, files;
    char *reason;
};

static bool visit(struct walk *walk, const char *path);

static bool refuse(const struct walk *walk, const char *path, const char *why)
{
    snprintf(walk->reason, INPUTRC_REASON_SIZE, "%s: %s", path, why);
    return false;
}

// The file that a line includes, as readline sees it: malloc'd; NULL: none, or no memory.
static char *included(const char *line, size_t length)
{
    static const char word[] = "include";
    size_t at = 0, end = length;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    if (at == length || line[at++] != '$')
        return NULL;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    if (length - at <= sizeof word - 1 || strncasecmp(line + at, word, sizeof word - 1) != 0)
        return NULL;
    at += sizeof word - 1;
    if (line[at] != ' ' && line[at] != '\t')
        return NULL;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (end > at && line[end - 1] == '\r')
        end--;
    char *name = strndup(line + at, end - at), *path = name ? tilde_expand(name) : NULL;
    free(name);
    return path;
}

static bool visit_lines(struct walk *walk, const struct bytes *text)
{
    bool fine = true;
    const char *line = text->data, *end = line + text->length;
    while (fine && line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline ? newline : end) - line);
        char *path = included(line, length);
        fine = !path || visit(walk, path);
        free(path);
        line += length + 1;
    }
    return fine;
}

static bool visit(struct walk *walk, const char *path)
{
    enum { LIMIT = 1 << 20 };
    struct bytes text = {0};
    if (files_is_pipe(path))
        return refuse(walk, path, "is a pipe");
    if (walk->deep == INPUTRC_DEEP || walk->files == INPUTRC_FILES)
        return refuse(walk, walk->first, "includes itself, or too many others");
    int code = files_read_regular(path, LIMIT, &text);
    if (code == EFBIG) {
        bytes_release(&text);
        return refuse(walk, path, "is longer than 1 MiB");
    }
    walk->deep++;
    walk->files++;
    bool fine = code || !text.length || visit_lines(walk, &text);
    walk->deep--;
    bytes_release(&text);
    return fine;
}

bool inputrc_is_sane(const char *path, char reason[INPUTRC_REASON_SIZE])
{
    struct walk walk = {.first = path, .reason = reason};
    return visit(&walk, path);
}

static bool may_read(const char *path)
{
    char reason[INPUTRC_REASON_SIZE];
    bool sane = inputrc_is_sane(path, reason);
    if (!sane)
        report("%s; not read", reason);
    return sane;
}

// The file that is readline's by default; returns path.
static const char *usual(char path[PATH_MAX])
{
    const char *inputrc = getenv("INPUTRC"), *home = getenv("HOME");
    if (inputrc && *inputrc)
        snprintf(path, PATH_MAX, "%s", inputrc);
    else
        snprintf(path, PATH_MAX, "%s/.inputrc", home ? home : "");
    return path;
}

bool inputrc_read_again(void)
{
    char path[PATH_MAX];
    return may_read(usual(path)) && rl_read_init_file(path) == 0;
}

// readline reads $INPUTRC or ~/.inputrc by itself, and Ctrl-C does not end its waiting for a pipe. What is started from
// here finds the variable as it was.
void inputrc_initialize(void)
{
    const char *inputrc = getenv("INPUTRC");
    char path[PATH_MAX], *before = inputrc ? strdup(inputrc) : NULL;
    bool sane = may_read(usual(path));
    if (!sane)
        setenv("INPUTRC", "/dev/null", 1);
    rl_initialize();
    if (!sane && before)
        setenv("INPUTRC", before, 1);
    else if (!sane)
        unsetenv("INPUTRC");
    free(before);
}

// Our own inputrc is read last: it may change every key.
void inputrc_read_own(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];
    int length = config && *config == '/' ? snprintf(path, sizeof path, "%s/moechat/inputrc", config)
                                          : snprintf(path, sizeof path, "%s/.config/moechat/inputrc", home ? home : "");
    if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0 && may_read(path))
        rl_read_init_file(path);
}
