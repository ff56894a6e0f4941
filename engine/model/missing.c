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
#include "engine/model/numbered.h"

enum { MAX_INDEX = 64 << 20, PATH_BYTES = 4300, MOST_PARTS = 2048, NAMED = 3 };
static const char suffix[] = ".safetensors";

static uint64_t end_of(const struct tensor_file *file)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->count; i++)
        if (file->tensors[i].offset + file->tensors[i].bytes > end)
            end = file->tensors[i].offset + file->tensors[i].bytes;
    return end;
}

// Of what a cut file has, none is another's: a page of an error, say, under its name.
static bool is_other(int fd, const char *path, uint64_t has)
{
    static const char magic[] = "GGUF";
    char begin[4];
    struct moe_err ignored;
    size_t here = has < sizeof begin ? (size_t)has : sizeof begin;
    return file_read(&(struct file_range){fd, path, 0, here}, begin, &ignored) == 0 && memcmp(begin, magic, here) != 0;
}

// The bytes that a GGUF has when it is whole, by its header; 0: that is not all here.
static uint64_t gguf_needs(const char *path)
{
    struct gguf gguf;
    struct moe_err ignored;
    if (gguf_open_beginning(path, &gguf, &ignored))
        return 0;
    uint64_t end = end_of(&gguf.file), needs = end ? end : gguf.data_start;
    gguf_release(&gguf);
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
    uint64_t needs = code ? 0 : gguf ? gguf_needs(path) : safetensors_needs(fd, path, has);
    bool other = !code && gguf && is_other(fd, path, has);
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
    else if (other)
        snprintf(lacks, sizeof lacks, "is no GGUF file");
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

static void look_at_names(struct missing *m, const char *folder)
{
    char of_set[256] = "", name[300];
    uint32_t count = 0;
    DIR *open_folder = opendir(folder);
    for (const struct dirent *at; open_folder && (at = readdir(open_folder));) {
        size_t length = strlen(at->d_name), tail = strlen(suffix);
        struct numbered part;
        if (length < tail || strcmp(at->d_name + length - tail, suffix) != 0)
            continue;
        bool is_part = numbered_parse(at->d_name, suffix, &part) && part.count <= MOST_PARTS && part.prefix > 0 &&
                       length - part.prefix == strlen("-00001-of-00009") + tail;
        if (!is_part)
            look_in(m, folder, at->d_name);
        else if (!count || strcmp(at->d_name, of_set) < 0) { // one set, whatever the order of names
            count = part.count;
            snprintf(of_set, sizeof of_set, "%.*s", (int)part.prefix, at->d_name);
        }
    }
    if (open_folder)
        closedir(open_folder);
    for (uint32_t i = 1; i <= count; i++) {
        snprintf(name, sizeof name, "%s-%05" PRIu32 "-of-%05" PRIu32 "%s", of_set, i, count, suffix);
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
