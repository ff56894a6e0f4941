// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a list of a repository's files, in JSON or in lines.
#include "engine/files/file_list.h"

#include <ctype.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"

enum { PATH_MOST = 1000, SIZE_BITS = 45 };

struct reading {
    const char *name;
    struct file_list *list;
    size_t room;
    char folder[PATH_MOST + 1];  // that ls -R is in, with a / behind it
    size_t tabbed, bare, blocks; // lines as du's, "SIZE<tab>NAME"; without a unit; and whole blocks of 4
    struct moe_err *err;
};

#define REMEDY                                                                                                         \
    "give what the hub's API answers to /api/models/REPOSITORY/tree/main?recursive=true, or lines of a size and a "    \
    "name"

__attribute__((format(printf, 2, 3))) static int refuse(const struct reading *r, const char *format, ...)
{
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return moe_fail(r->err, MOE_FORMAT, "%.300s: %s; " REMEDY, r->name, what);
}

// A path that may stand in the list: no control characters, which would reach the terminal.
static bool is_path(const char *path, size_t length)
{
    bool fine = length > 0 && length <= PATH_MOST;
    for (size_t i = 0; fine && i < length; i++)
        fine = (unsigned char)path[i] >= 0x20 && path[i] != 0x7f;
    return fine;
}

static int add(struct reading *r, const char *path, size_t length, const uint64_t *bytes)
{
    struct file_list *list = r->list;
    if (length >= 2 && memcmp(path, "./", 2) == 0) {
        path += 2;
        length -= 2;
    }
    size_t before = strlen(r->folder);
    if (!is_path(path, length) || before + length > PATH_MOST)
        return refuse(r, "a name in it is empty, too long or has control characters");
    if (list->count == FILE_LIST_MOST)
        return refuse(r, "it has more than %d files", FILE_LIST_MOST);
    if (list->count == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        struct file_listed *files = realloc(list->files, room * sizeof *files);
        if (!files)
            return moe_fail_file(r->err, MOE_NO_MEMORY, r->name, 0, "no memory to read it");
        list->files = files;
        r->room = room;
    }
    struct file_listed *file = &list->files[list->count];
    *file = (struct file_listed){.path = malloc(before + length + 1)};
    if (!file->path)
        return moe_fail_file(r->err, MOE_NO_MEMORY, r->name, 0, "no memory to read it");
    memcpy(file->path, r->folder, before);
    memcpy(file->path + before, path, length);
    file->path[before + length] = '\0';
    file->sized = bytes && *bytes >> SIZE_BITS == 0;
    file->bytes = file->sized ? *bytes : 0;
    list->count++;
    return MOE_OK;
}

// ---- JSON

static const char *text_at(struct json_object *object, const char *key)
{
    struct json_object *value = NULL;
    return json_object_object_get_ex(object, key, &value) && json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : NULL;
}

static bool size_at(struct json_object *object, uint64_t *bytes)
{
    struct json_object *value = NULL;
    if (!json_object_object_get_ex(object, "size", &value) || !json_object_is_type(value, json_type_int) ||
        json_object_get_int64(value) < 0)
        return false;
    *bytes = (uint64_t)json_object_get_int64(value);
    return true;
}

static int take_entry(struct reading *r, struct json_object *entry)
{
    if (json_object_is_type(entry, json_type_string))
        return add(r, json_object_get_string(entry), strlen(json_object_get_string(entry)), NULL);
    if (!json_object_is_type(entry, json_type_object))
        return refuse(r, "an entry is neither a name nor an object");
    static const char *const keys[] = {"rfilename", "path", "name"};
    const char *path = NULL, *type = text_at(entry, "type");
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !path; i++)
        path = text_at(entry, keys[i]);
    if (type && strcmp(type, "directory") == 0)
        return MOE_OK;
    if (!path)
        return refuse(r, "an entry has no path");
    uint64_t bytes;
    struct json_object *lfs = NULL;
    bool is_lfs = json_object_object_get_ex(entry, "lfs", &lfs) && json_object_is_type(lfs, json_type_object);
    bool sized = (is_lfs && size_at(lfs, &bytes)) || size_at(entry, &bytes); // without LFS it is the file's own
    return add(r, path, strlen(path), sized ? &bytes : NULL);
}

static int take_object(struct reading *r, struct json_object *root)
{
    struct json_object *entries = NULL;
    const char *error = text_at(root, "error"), *id = text_at(root, "id");
    if (error && is_path(error, strlen(error)))
        return refuse(r, "it is an error, not a list: %.100s", error);
    if (id && is_path(id, strlen(id)))
        snprintf(r->list->repository, sizeof r->list->repository, "%.159s", id);
    if (!json_object_object_get_ex(root, "siblings", &entries) || !json_object_is_type(entries, json_type_array))
        return refuse(r, "it has no siblings, which are a repository's files");
    int code = MOE_OK;
    for (size_t i = 0; i < json_object_array_length(entries) && !code; i++)
        code = take_entry(r, json_object_array_get_idx(entries, i));
    return code;
}

static int take_json(struct reading *r, const char *text, size_t length)
{
    static const char before[] = "{\"siblings\":"; // an array alone becomes the object that has it
    struct json_object *root = NULL;
    char *whole = NULL;
    int code = MOE_OK;
    if (*text == '[') {
        whole = malloc(length + sizeof before + 1);
        if (!whole)
            return moe_fail_file(r->err, MOE_NO_MEMORY, r->name, 0, "no memory to read it");
        memcpy(whole, before, sizeof before - 1);
        memcpy(whole + sizeof before - 1, text, length);
        whole[sizeof before - 1 + length] = '}';
        length += sizeof before;
    }
    code = fields_parse_from(&(struct fields_source){r->name, REMEDY}, whole ? whole : text, length, &root, r->err);
    if (!code)
        code = take_object(r, root);
    json_object_put(root);
    free(whole);
    return code;
}

// ---- Lines

struct word {
    const char *at;
    size_t length;
};

// The first word from `at` on, before `end`.
static struct word word_from(const char *at, const char *end)
{
    while (at < end && isspace((unsigned char)*at))
        at++;
    const char *begin = at;
    while (at < end && !isspace((unsigned char)*at))
        at++;
    return (struct word){begin, (size_t)(at - begin)};
}

// The end without the white space before it.
static const char *trim(const char *begin, const char *end)
{
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    return end;
}

static struct word last_word(const char *begin, const char *end)
{
    const char *at = end;
    while (at > begin && !isspace((unsigned char)at[-1]))
        at--;
    return (struct word){at, (size_t)(end - at)};
}

// "K", "KB" and "kB" are `unit` bytes, "KiB" 1024. 0: it is no unit.
static double unit_of(const char *at, size_t length, double unit)
{
    static const char letters[] = "KMGT";
    const char *found = length ? strchr(letters, toupper((unsigned char)*at)) : NULL;
    if (length == 0 || (length == 1 && toupper((unsigned char)*at) == 'B'))
        return 1;
    if (!found || !*found)
        return 0;
    bool binary = length == 3 && at[1] == 'i' && at[2] == 'B';
    if (length != 1 && !binary && !(length == 2 && toupper((unsigned char)at[1]) == 'B'))
        return 0;
    double bytes = 1;
    for (const char *l = letters; l <= found; l++)
        bytes *= binary ? 1024 : unit;
    return bytes;
}

// "404123456789", "4.3G", "1.5KiB".
static bool read_size(struct word word, double unit, uint64_t *bytes)
{
    char text[32], *end;
    if (word.length == 0 || word.length >= sizeof text || !isdigit((unsigned char)*word.at))
        return false;
    memcpy(text, word.at, word.length);
    text[word.length] = '\0';
    if (text[strspn(text, "0123456789.KMGTkmgtiBb")])
        return false;
    double number = strtod(text, &end), factor = unit_of(end, strlen(end), unit);
    double all = number * factor;
    if (factor <= 0 || !(all >= 0) || all >= 9e15)
        return false;
    *bytes = (uint64_t)all;
    return true;
}

// "-rw-r--r-- 1 user group 12 Jan  1 00:00 NAME": the name begins with the ninth word.
static int take_ls(struct reading *r, const char *at, const char *end)
{
    uint64_t bytes = 0;
    bool sized = false;
    struct word word = word_from(at, end);
    if (*at == 'd')
        return MOE_OK;
    for (int i = 1; i < 9; i++) {
        word = word_from(word.at + word.length, end);
        if (i == 4)
            sized = read_size(word, 1024, &bytes);
    }
    for (const char *arrow = word.at; *at == 'l' && end - arrow > 4; arrow++)
        if (memcmp(arrow, " -> ", 4) == 0) // the size is the link's own
            return add(r, word.at, (size_t)(arrow - word.at), NULL);
    return add(r, word.at, (size_t)(end - word.at), sized ? &bytes : NULL);
}

static bool is_mode(struct word word)
{
    if (word.length < 10 || word.length > 11 || !strchr("-dlbcps", *word.at))
        return false;
    for (size_t i = 1; i < 10; i++)
        if (!strchr("rwxsStT-", word.at[i]))
            return false;
    return true;
}

// "0123456789 * PATH (4.3 GB)", of git lfs ls-files: * is here, - is a pointer.
static bool is_lfs(struct word hash, struct word mark)
{
    for (size_t i = 0; i < hash.length; i++)
        if (!isxdigit((unsigned char)hash.at[i]))
            return false;
    return hash.length >= 10 && mark.length == 1 && (*mark.at == '*' || *mark.at == '-');
}

static int take_lfs(struct reading *r, const char *at, const char *end)
{
    char text[32] = "";
    uint64_t bytes;
    at = word_from(at, end).at;
    const char *open = end - 1;
    while (open > at && *open != '(')
        open--;
    if (open <= at || end[-1] != ')')
        return add(r, at, (size_t)(end - at), NULL);
    size_t n = 0;
    for (const char *c = open + 1; c < end - 1 && n + 1 < sizeof text; c++)
        if (*c != ' ')
            text[n++] = *c;
    bool sized = read_size((struct word){text, n}, 1000, &bytes);
    return add(r, at, (size_t)(trim(at, open) - at), sized ? &bytes : NULL);
}

// Of du: its units are powers of 1024, and without one it is told by put_in_units what they are.
static int take_du(struct reading *r, struct word size, const char *at, const char *end)
{
    uint64_t bytes;
    read_size(size, 1024, &bytes);
    bool bare = isdigit((unsigned char)size.at[size.length - 1]);
    r->tabbed++;
    r->bare += bare;
    r->blocks += bare && bytes % 4 == 0;
    return add(r, at, (size_t)(end - at), &bytes);
}

// "SIZE NAME", "NAME SIZE", "NAME -" (hf's: it is here already) or "NAME".
static int take_plain(struct reading *r, const char *at, const char *end)
{
    uint64_t bytes;
    struct word first = word_from(at, end), last = last_word(at, end);
    const char *rest = word_from(first.at + first.length, end).at;
    if (rest < end && first.at[first.length] == '\t' && read_size(first, 1024, &bytes))
        return take_du(r, first, rest, end);
    if (rest < end && read_size(first, 1000, &bytes)) {
        struct word second = word_from(rest, end);
        char text[32];
        if (second.length <= 3 && second.length + first.length < sizeof text && second.at + second.length < end) {
            uint64_t more; // "4.3 GB NAME"
            memcpy(text, first.at, first.length);
            memcpy(text + first.length, second.at, second.length);
            if (read_size((struct word){text, first.length + second.length}, 1000, &more)) {
                bytes = more;
                rest = word_from(second.at + second.length, end).at;
            }
        }
        return add(r, rest, (size_t)(end - rest), &bytes);
    }
    bool nothing = last.length == 1 && *last.at == '-', sized = !nothing && read_size(last, 1000, &bytes);
    if (last.at == first.at || (!sized && !nothing))
        return add(r, at, (size_t)(end - at), NULL);
    return add(r, at, (size_t)(trim(at, last.at) - at), sized ? &bytes : NULL);
}

// Of ls -l, ls -R and hf: what stands between the files.
static bool is_heading(struct word first, const char *at, const char *end)
{
    struct word last = last_word(at, end);
    bool total = first.length == 5 && memcmp(first.at, "total", 5) == 0 && first.at + 5 < end;
    bool hf = first.length >= 9 && memcmp(first.at, "[dry-run]", 9) == 0;
    bool titles = first.length == 4 && memcmp(first.at, "File", 4) == 0 && last.length == 8 &&
                  memcmp(last.at, "download", 8) == 0;
    titles |=
        first.length == 4 && memcmp(first.at, "FILE", 4) == 0 && last.length == 4 && memcmp(last.at, "SIZE", 4) == 0;
    while (at < end && (*at == '-' || *at == ' '))
        at++;
    return total || hf || titles || at == end;
}

static int take_line(struct reading *r, const char *at, const char *end)
{
    end = trim(at, end);
    struct word first = word_from(at, end), second = word_from(first.at + first.length, end);
    at = first.at;
    if (at == end || is_heading(first, at, end))
        return MOE_OK;
    if (is_mode(first))
        return take_ls(r, at, end);
    if (is_lfs(first, second))
        return take_lfs(r, second.at + 1, end);
    if (end[-1] == ':' && end - at > 1 && end - at < PATH_MOST && is_path(at, (size_t)(end - at))) { // of ls -R
        while (end - at > 2 && memcmp(at, "./", 2) == 0)
            at += 2;
        bool here = end - at == 2 && *at == '.';
        snprintf(r->folder, sizeof r->folder, "%.*s", here ? 0 : (int)(end - at), at);
        if (*r->folder)
            r->folder[strlen(r->folder) - 1] = '/';
        return MOE_OK;
    }
    return take_plain(r, at, end);
}

static int take_lines(struct reading *r, const char *text, size_t length)
{
    int code = MOE_OK;
    if (*text == '<')
        return refuse(r, "it is a page, not a list");
    for (const char *at = text, *end = text + length; at < end && !code;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        line = line ? line : end;
        code = take_line(r, at, line);
        at = line + 1;
    }
    return code;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file_listed *)a)->path, ((const struct file_listed *)b)->path);
}

// The first file from there on, in order, whose path is not before this one.
static size_t find_place(const struct file_list *list, const char *path)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list->files[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A folder: there are files below it.
static bool is_folder(const struct file_list *list, const char *path)
{
    char below[PATH_MOST + 2];
    size_t length = strlen(path);
    if (strcmp(path, ".") == 0 || path[length - 1] == '/')
        return true;
    snprintf(below, sizeof below, "%s/", path);
    size_t at = find_place(list, below);
    return at < list->count && strncmp(list->files[at].path, below, length + 1) == 0;
}

// Without the folders. True: there were some.
static bool drop_folders(struct file_list *list)
{
    size_t kept = 0, count = list->count;
    bool *drops = calloc(count, sizeof *drops); // without memory they stay
    for (size_t i = 0; drops && i < count; i++)
        drops[i] = is_folder(list, list->files[i].path);
    for (size_t i = 0; drops && i < count; i++)
        if (drops[i])
            free(list->files[i].path);
        else
            list->files[kept++] = list->files[i];
    list->count = drops ? kept : count;
    free(drops);
    return kept < count;
}

// du -a tells KiB, du -ab bytes, in the same lines.
static void put_in_units(const struct reading *r, bool folders)
{
    struct file_list *list = r->list;
    list->kib = folders && r->tabbed && r->bare == r->tabbed && r->blocks == r->bare;
    for (size_t i = 0; list->kib && i < list->count; i++)
        list->files[i].bytes <<= 10;
}

// In order, each path once; one that has a size goes before one that has none.
static void put_in_order(struct file_list *list)
{
    size_t kept = 0;
    qsort(list->files, list->count, sizeof *list->files, by_path);
    for (size_t i = 0; i < list->count; i++) {
        struct file_listed *file = &list->files[i], *last = kept ? &list->files[kept - 1] : NULL;
        if (!last || strcmp(last->path, file->path) != 0) {
            list->files[kept++] = *file;
            continue;
        }
        if (!last->sized) {
            last->sized = file->sized;
            last->bytes = file->bytes;
        }
        free(file->path);
    }
    list->count = kept;
}

// hf's lines begin with [dry-run].
static bool is_json(const char *text, size_t length)
{
    return *text == '{' || (*text == '[' && (length == 1 || !isalpha((unsigned char)text[1])));
}

int file_list_read(const char *text, size_t length, const char *name, struct file_list *list, struct moe_err *err)
{
    struct reading reading = {.name = name, .list = list, .err = err};
    memset(list, 0, sizeof *list);
    while (length && isspace((unsigned char)*text)) {
        text++;
        length--;
    }
    int code = length == 0               ? refuse(&reading, "it is empty")
               : memchr(text, 0, length) ? refuse(&reading, "it is not text")
               : is_json(text, length)   ? take_json(&reading, text, length)
                                         : take_lines(&reading, text, length);
    if (!code && list->count == 0)
        code = refuse(&reading, "it names no file");
    if (!code) {
        put_in_order(list);
        put_in_units(&reading, drop_folders(list));
        code = list->count ? MOE_OK : refuse(&reading, "it names folders alone");
    }
    if (code)
        file_list_release(list);
    return code;
}

void file_list_release(struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].path);
    free(list->files);
    memset(list, 0, sizeof *list);
}
