// SPDX-License-Identifier: GPL-3.0-or-later
// Finds the files of a split set, and checks that they are one.
#include "engine/files/gguf_set.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

enum { MAX_PARTS = 2048, MAX_PATH = 4000, NAME_BYTES = 256 };

static const char suffix[] = ".gguf";

// ---- Names

static bool ends(const char *name, const char *with)
{
    size_t length = strlen(name);
    size_t tail = strlen(with);
    return length > tail && strcasecmp(name + length - tail, with) == 0;
}

static bool is_gguf(const char *name)
{
    return ends(name, suffix);
}

// The first ".gguf" in a name, in whatever letters; NULL: none.
static const char *find_suffix(const char *name)
{
    while (*name && strncasecmp(name, suffix, sizeof suffix - 1) != 0)
        name++;
    return *name ? name : NULL;
}

// Of a file that somebody cut to upload it: X.gguf.part1of2, X.gguf-split-a.
static bool is_piece(const char *name)
{
    const char *at = find_suffix(name);
    if (!at)
        return false;
    at += sizeof suffix - 1;
    at += *at == '.' || *at == '-' || *at == '_';
    return strncasecmp(at, "part", 4) == 0 || strncasecmp(at, "split", 5) == 0;
}

static bool five_digits(const char *at, uint32_t *number)
{
    *number = 0;
    for (int i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)at[i]))
            return false;
        *number = *number * 10 + (uint32_t)(at[i] - '0');
    }
    return true;
}

bool gguf_part_parse(const char *name, struct gguf_part *part)
{
    static const char shape[] = "-00001-of-00009.gguf";
    size_t length = strlen(name);
    if (length <= sizeof shape - 1)
        return false;
    part->prefix = length - (sizeof shape - 1);
    const char *tail = name + part->prefix;
    return tail[0] == '-' && five_digits(tail + 1, &part->number) && strncmp(tail + 6, "-of-", 4) == 0 &&
           five_digits(tail + 10, &part->count) && strcasecmp(tail + 15, suffix) == 0 && part->number >= 1 &&
           part->number <= part->count && part->count <= MAX_PARTS;
}

void gguf_part_path(const char *file, const struct gguf_part *part, char *path, size_t size)
{
    snprintf(path, size, "%.*s-%05" PRIu32 "-of-%05" PRIu32 "%s",
             (int)(part->prefix + (size_t)(file_base_name(file) - file)), file, part->number, part->count,
             file + strlen(file) - (sizeof suffix - 1));
}

// ---- Which file a folder stands for

// The same model: the same file, or two parts of one set.
static bool same_model(const char *a, const char *b)
{
    struct gguf_part x, y;
    if (!gguf_part_parse(a, &x) || !gguf_part_parse(b, &y))
        return strcmp(a, b) == 0;
    return x.count == y.count && x.prefix == y.prefix && strncmp(a, b, x.prefix) == 0;
}

// What a folder holds: the name of a model's file, and of another model's, and of a piece; "" where there is none.
struct found {
    char name[NAME_BYTES], other[NAME_BYTES], piece[NAME_BYTES];
    bool safetensors;
};

static int look_into(const char *path, struct found *found)
{
    memset(found, 0, sizeof *found);
    DIR *folder = opendir(path);
    if (!folder)
        return errno;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder))) {
        const char *name = entry->d_name;
        found->safetensors |= ends(name, ".safetensors");
        if (is_piece(name))
            snprintf(found->piece, NAME_BYTES, "%s", name);
        else if (is_gguf(name) && !strstr(name, "mmproj") && name[0] != '.' && strlen(name) < NAME_BYTES)
            snprintf(!*found->name || same_model(found->name, name) ? found->name : found->other, NAME_BYTES, "%s",
                     name);
    }
    int failed = errno; // or readdir has come to the end
    closedir(folder);
    return failed;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool gguf_set_is_one(const char *path)
{
    struct stat status;
    struct found found;
    const char *name = file_base_name(path);
    if (is_folder(path))
        return look_into(path, &found) == 0 && (*found.name || *found.piece) && !found.safetensors;
    return (stat(path, &status) == 0 && S_ISREG(status.st_mode)) || is_gguf(name) || is_piece(name);
}

// A name that a shell takes as it is: people paste what stands in a sentence.
static bool is_plain(const char *name, size_t length)
{
    size_t i = 0;
    while (i < length && (isalnum((unsigned char)name[i]) || strchr("._+-", name[i])))
        i++;
    return i == length && name[0] != '-';
}

// ls -v: part10of12 comes behind part9of12.
static int refuse_piece(const char *path, struct moe_err *err)
{
    const char *name = file_base_name(path);
    int length = (int)(find_suffix(name) - name) + (int)sizeof suffix - 1;
    if (!is_plain(name, (size_t)length))
        return moe_fail(err, MOE_UNSUPPORTED,
                        "%.200s: is one piece of a file that was cut; put all together first, in their order, with cat",
                        path);
    return moe_fail(err, MOE_UNSUPPORTED,
                    "%.200s: is one piece of a file that was cut; put all together first: cat $(ls -v %.*s?*) >%.*s",
                    path, length, name, length, name);
}

int gguf_set_file(const char *path, char file[GGUF_SET_PATH], struct moe_err *err)
{
    struct found found;
    snprintf(file, GGUF_SET_PATH, "%s", path);
    if (!is_folder(path))
        return is_piece(file_base_name(path)) ? refuse_piece(path, err) : MOE_OK;
    int sys_errno = look_into(path, &found);
    if (sys_errno)
        return moe_fail_file(err, MOE_IO, path, sys_errno, "cannot be listed");
    if (*found.other)
        return moe_fail(err, MOE_UNSUPPORTED, "%.200s: holds more than one model, %.80s and %.80s; name a file of one",
                        path, found.name, found.other);
    snprintf(file, GGUF_SET_PATH, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
             *found.name ? found.name : found.piece);
    if (*found.name)
        return MOE_OK;
    return *found.piece ? refuse_piece(file, err)
                        : moe_fail_file(err, MOE_NOT_FOUND, path, 0, "there is no *.gguf file in it");
}

// ---- Opening the parts

// A whole number that the file says under this key; false: it doesn't.
static bool says(const struct gguf *gguf, const char *key, uint64_t *number)
{
    const struct gguf_value *value = gguf_find(gguf, key);
    return value && !value->array && gguf_integer_at(value, 0, number);
}

static int check_part(const struct gguf *gguf, const struct gguf_part *part, struct moe_err *err)
{
    uint64_t number = 0;
    uint64_t count = 1;
    const char *path = gguf->file.path;
    bool split = says(gguf, "split.count", &count) && count > 1;
    if (!split && (!part || part->count == 1))
        return MOE_OK;
    if (!split || !says(gguf, "split.no", &number) || number >= count)
        return moe_fail(err, MOE_FORMAT,
                        "%.280s: split.no and split.count don't say which part it is; download the file again", path);
    if (!part)
        return moe_fail(err, MOE_FORMAT,
                        "%.280s: is part %" PRIu64 " of %" PRIu64
                        ", but not named so; give all parts their names back: X-00001-of-%05" PRIu64 ".gguf ...",
                        path, number + 1, count, count);
    if (count != part->count || number + 1 != part->number)
        return moe_fail(err, MOE_FORMAT,
                        "%.280s: says that it is part %" PRIu64 " of %" PRIu64
                        "; give it its name back, or download it again",
                        path, number + 1, count);
    return MOE_OK;
}

// Part `number` of the set that part->prefix of `file` names; its tensors move into set->files.
static int open_part(struct gguf_set *set, const char *file, const struct gguf_part *part, struct moe_err *err)
{
    char path[GGUF_SET_PATH];
    struct gguf gguf;
    if (part)
        gguf_part_path(file, part, path, sizeof path);
    else
        snprintf(path, sizeof path, "%s", file);
    int code = gguf_open(path, &gguf, err);
    if (code == MOE_NOT_FOUND && part && err && err->sys_errno) { // else it is a pointer to it, which was said
        char what[96];
        snprintf(what, sizeof what, "is not there: it is part %" PRIu32 " of %" PRIu32 ", get it, too", part->number,
                 part->count);
        return moe_fail_file(err, MOE_NOT_FOUND, path, 0, what);
    }
    if (code)
        return code;
    code = check_part(&gguf, part, err);
    if (code) {
        gguf_release(&gguf);
        return code;
    }
    struct tensor_file *to = &set->files[set->n_files++];
    *to = gguf.file;
    gguf.file = (struct tensor_file){.fd = -1};
    if (set->n_files > 1)
        gguf_release(&gguf);
    else
        set->head = gguf;
    return MOE_OK;
}

static int check_sum(const struct gguf_set *set, struct moe_err *err)
{
    uint64_t said = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < set->n_files; i++)
        sum += set->files[i].count;
    if (!says(&set->head, "split.tensors.count", &said) || said == sum)
        return MOE_OK;
    return moe_fail(err, MOE_FORMAT,
                    "%.280s: split.tensors.count is %" PRIu64 ", but the parts have %" PRIu64
                    " tensors: they are of two models, get them again",
                    set->files[0].path, said, sum);
}

static int open_all(struct gguf_set *set, const char *file, struct moe_err *err)
{
    struct gguf_part part;
    bool split = gguf_part_parse(file_base_name(file), &part);
    uint32_t count = split ? part.count : 1;
    set->files = calloc(count, sizeof *set->files);
    if (!set->files)
        return moe_fail_file(err, MOE_NO_MEMORY, file, 0, "no memory for its parts");
    int code = MOE_OK;
    for (part.number = 1; part.number <= count && !code; part.number++)
        code = open_part(set, file, split ? &part : NULL, err);
    return code ? code : check_sum(set, err);
}

int gguf_set_open(const char *path, struct gguf_set *set, struct moe_err *err)
{
    char file[GGUF_SET_PATH];
    memset(set, 0, sizeof *set);
    set->head.file.fd = -1;
    if (strlen(path) == 0 || strlen(path) > MAX_PATH - NAME_BYTES)
        return moe_fail(err, MOE_BAD_ARGUMENT, "the model's path must have 1 to %d bytes", MAX_PATH - NAME_BYTES);
    int code = gguf_set_file(path, file, err);
    if (!code)
        code = open_all(set, file, err);
    if (code)
        gguf_set_release(set);
    return code;
}

void gguf_set_release(struct gguf_set *set)
{
    for (uint32_t i = 0; i < set->n_files; i++)
        tensor_file_release(&set->files[i]);
    free(set->files);
    gguf_release(&set->head);
    memset(set, 0, sizeof *set);
    set->head.file.fd = -1;
}
