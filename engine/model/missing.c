// SPDX-License-Identifier: GPL-3.0-or-later
// Counts what the files of a download lack.
#include "engine/model/missing.h"

#include <dirent.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/amounts.h"
#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/files/checkpoint.h"
#include "engine/files/gguf_set.h"

enum {
    MAX_INDEX = 64 << 20,
    FIRST_READ = 256 << 10,
    MOST_HEADER = 128 << 20,
    PATH_BYTES = 4300,
    MOST_PARTS = 2048,
    NAMED = 3
};
static const char suffix[] = ".safetensors";
// Of a file that is still to come: nothing reaches beyond it.
static const uint64_t any_length = UINT64_C(1) << 50;

static uint64_t end_of(const struct tensor_file *file)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->count; i++)
        if (file->tensors[i].offset + file->tensors[i].bytes > end)
            end = file->tensors[i].offset + file->tensors[i].bytes;
    return end;
}

// The bytes that a GGUF has when it is whole, by its header; 0: that is not all here.
static uint64_t gguf_needs(int fd, const char *path, uint64_t has)
{
    uint64_t needs = 0, most = has < MOST_HEADER ? has : MOST_HEADER;
    for (uint64_t n = FIRST_READ; !needs; n *= 8) {
        struct gguf gguf = {.file = {.fd = -1}};
        struct moe_err ignored;
        uint64_t length = n < most ? n : most;
        unsigned char *header = malloc((size_t)length + 1);
        const struct file_range range = {fd, path, 0, (size_t)length};
        if (header && file_read(&range, header, &ignored) == 0 &&
            gguf_parse(header, (size_t)length, any_length, &gguf, &ignored) == 0) {
            needs = end_of(&gguf.file);
            needs = needs ? needs : gguf.data_start;
            gguf_release(&gguf); // the header is ours
        }
        free(header);
        if (length == most)
            break;
    }
    return needs;
}

static void add(struct missing *m, const char *name, const char *lacks)
{
    size_t at = strlen(m->text);
    snprintf(m->text + at, sizeof m->text - at, "%s%.80s %s", at ? "; " : "", name, lacks);
}

// One of the files, whole when it is as long as its header says.
static void look_at(struct missing *m, const char *path, bool gguf)
{
    int fd;
    uint64_t has = 0;
    struct moe_err ignored;
    char lacks[120], a[AMOUNT_SIZE], b[AMOUNT_SIZE];
    int code = file_open(path, &fd, &has, &ignored);
    uint64_t needs = code ? 0 : gguf ? gguf_needs(fd, path, has) : safetensors_needs(fd, path, has);
    if (!code)
        close(fd);
    m->n_files++;
    m->n_here += !code;
    m->n_whole += needs && has >= needs;
    if ((needs && has >= needs) || m->n_files - m->n_whole > NAMED)
        return;
    if (code)
        snprintf(lacks, sizeof lacks, "is not there");
    else if (!has)
        snprintf(lacks, sizeof lacks, "is empty");
    else if (!needs)
        snprintf(lacks, sizeof lacks, "ends after %s, in its header", amount_of_bytes(a, has));
    else
        snprintf(lacks, sizeof lacks, "lacks %s of %s", amount_of_bytes(a, needs - has), amount_of_bytes(b, needs));
    add(m, file_base_name(path), lacks);
}

static void end_list(struct missing *m)
{
    char more[80];
    uint32_t unnamed = m->n_files - m->n_whole > NAMED ? m->n_files - m->n_whole - NAMED : 0;
    if (!unnamed)
        return;
    snprintf(more, sizeof more, "%" PRIu32 " more of its %" PRIu32 " files", unnamed, m->n_files);
    add(m, "and", more);
}

void missing_of_gguf(const char *file, struct missing *m)
{
    struct gguf_part part = {.count = 1};
    char path[PATH_BYTES];
    *m = (struct missing){.text = ""};
    bool split = gguf_part_parse(file_base_name(file), &part);
    for (part.number = 1; part.number <= part.count; part.number++) {
        if (split)
            gguf_part_path(file, &part, path, sizeof path);
        look_at(m, split ? path : file, true);
    }
    end_list(m);
}

static void look_in(struct missing *m, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/%.250s", folder, name);
    look_at(m, path, false);
}

// False: there is no index that could be read.
static bool look_at_index(struct missing *m, const char *folder)
{
    char path[PATH_BYTES];
    struct json_object *root;
    struct index_names names;
    struct moe_err ignored;
    snprintf(path, sizeof path, "%.4000s/model.safetensors.index.json", folder);
    if (fields_read(path, MAX_INDEX, &root, &ignored))
        return false;
    bool read = checkpoint_parse_index(root, path, &names, &ignored) == 0;
    json_object_put(root);
    for (uint32_t i = 0; read && i < names.count; i++)
        look_in(m, folder, names.names[i]);
    if (read)
        checkpoint_release_names(&names);
    return read;
}

// What "x-00001-of-00009.safetensors" says of itself: how many there are, and where "x" ends. 0: it is not numbered.
static unsigned parts_by_name(const char *name, size_t *prefix)
{
    static const char shape[] = "-00001-of-00009.safetensors";
    unsigned number, count;
    size_t length = strlen(name);
    *prefix = length > sizeof shape - 1 ? length - (sizeof shape - 1) : 0;
    bool numbered = *prefix && sscanf(name + *prefix, "-%5u-of-%5u.", &number, &count) == 2;
    return numbered && number && count <= MOST_PARTS ? count : 0;
}

static void look_at_names(struct missing *m, const char *folder)
{
    char numbered[256] = "", name[300];
    unsigned count = 0;
    DIR *open_folder = opendir(folder);
    for (const struct dirent *at; open_folder && (at = readdir(open_folder));) {
        size_t prefix, length = strlen(at->d_name), tail = strlen(suffix);
        if (length < tail || strcmp(at->d_name + length - tail, suffix) != 0)
            continue;
        unsigned parts = parts_by_name(at->d_name, &prefix);
        if (!parts)
            look_in(m, folder, at->d_name);
        else if (!count || strcmp(at->d_name, numbered) < 0) { // one set, whatever the order of names
            count = parts;
            snprintf(numbered, sizeof numbered, "%.*s", (int)prefix, at->d_name);
        }
    }
    if (open_folder)
        closedir(open_folder);
    for (unsigned i = 1; i <= count; i++) {
        snprintf(name, sizeof name, "%s-%05u-of-%05u%s", numbered, i, count, suffix);
        look_in(m, folder, name);
    }
}

void missing_of_folder(const char *folder, struct missing *m)
{
    *m = (struct missing){.text = ""};
    if (!look_at_index(m, folder))
        look_at_names(m, folder);
    end_list(m);
}
