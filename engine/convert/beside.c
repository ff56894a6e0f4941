// SPDX-License-Identifier: GPL-3.0-or-later
// Which of the files beside a model's weights are its own.
#include "engine/convert/beside.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/checkpoint.h"

enum { PATH_ROOM = 4400 };

static bool is_below(const char *path, const char *folder, size_t length)
{
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || strcmp(folder, "/") == 0);
}

// Both without links. The hub's cache is MODEL/snapshots/REVISION, whose files lead to MODEL/blobs.
static bool is_own(const char *path, const char *folder)
{
    static const char snapshots[] = "/snapshots", blobs[] = "/blobs/";
    if (is_below(path, folder, strlen(folder)))
        return true;
    const char *revision = strrchr(folder, '/');
    size_t model = revision ? (size_t)(revision - folder) : 0;
    if (model < sizeof snapshots - 1)
        return false;
    model -= sizeof snapshots - 1;
    return strncmp(folder + model, snapshots, sizeof snapshots - 1) == 0 && is_below(path, folder, model) &&
           strncmp(path + model, blobs, sizeof blobs - 1) == 0;
}

static int check(const char *path, const char *folder, uint64_t bytes, struct moe_err *err)
{
    char what[PATH_ROOM + 100];
    char *real = realpath(path, NULL), *real_folder = realpath(folder, NULL);
    int code = MOE_OK;
    if (!real || !real_folder)
        code = moe_fail_file(err, MOE_IO, path, 0, "its place cannot be told");
    else if (!is_own(real, real_folder)) {
        snprintf(what, sizeof what, "leads out of the model's folder, to %s: put a copy in its place, or remove it",
                 real);
        code = moe_fail_file(err, MOE_FORMAT, path, 0, what);
    } else if (bytes > BESIDE_BYTES) {
        snprintf(what, sizeof what, "is larger than %d MiB: fetch it again", BESIDE_BYTES >> 20);
        code = moe_fail_file(err, MOE_FORMAT, path, 0, what);
    }
    free(real);
    free(real_folder);
    return code;
}

int beside_open(const char *folder, const char *name, struct beside_file *file, struct moe_err *err)
{
    char path[PATH_ROOM];
    struct moe_err why;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int code = file_open(path, &file->fd, &file->bytes, &why); // fd is -1 when it fails
    if (code == MOE_FORMAT || (code == MOE_NOT_FOUND && why.cause != MOE_CAUSE_POINTER))
        return MOE_OK;
    if (code && err)
        *err = why;
    if (code)
        return code;
    code = check(path, folder, file->bytes, err);
    if (code) {
        close(file->fd);
        file->fd = -1;
    }
    return code;
}

const char *const beside_names[] = {"tokenizer.json",
                                    "tiktoken.model",
                                    "tokenizer.model",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "generation_config.json",
                                    "LICENSE",
                                    NULL};

bool beside_goes_along(const char *name, const struct package *source)
{
    return !source || source->kind != GGUF_FILES || strcmp(name, "generation_config.json") != 0;
}

uint64_t beside_bytes(const char *folder, const struct package *source)
{
    uint64_t bytes = 0;
    for (const char *const *name = beside_names; *name; name++) {
        struct beside_file file;
        if (!beside_goes_along(*name, source) || beside_open(folder, *name, &file, NULL) || file.fd < 0)
            continue;
        bytes += file.bytes;
        close(file.fd);
    }
    return bytes;
}

void beside_folder(const struct package *package, char path[BESIDE_FOLDER_SIZE])
{
    if (package->kind == GGUF_FILES)
        file_folder(package->checkpoint->directory, path, BESIDE_FOLDER_SIZE);
    else
        snprintf(path, BESIDE_FOLDER_SIZE, "%.3999s", package->directory);
}

uint64_t beside_offset(const void *context, uint64_t piece)
{
    const struct beside_file *file = context;
    uint64_t offset = piece * BESIDE_PIECE;
    return offset < file->bytes ? offset : file->bytes;
}

int beside_produce(const void *context, uint64_t piece, void *buffer, struct moe_err *err)
{
    const struct beside_file *file = context;
    uint64_t offset = beside_offset(file, piece);
    const struct file_range range = {file->fd, file->path, offset, (size_t)(beside_offset(file, piece + 1) - offset)};
    return file_read(&range, buffer, err);
}
