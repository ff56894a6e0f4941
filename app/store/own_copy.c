// SPDX-License-Identifier: GPL-3.0-or-later
// Gives a session files of its own.
#include "app/store/own_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/store/manifest.h"

enum { PIECE = 1 << 20 };

// 0 or an errno.
static int copy_bytes(const struct store_io *io, int from, int to)
{
    char *piece = malloc(PIECE);
    int code = piece ? 0 : ENOMEM;
    for (uint64_t at = 0; code == 0;) {
        ptrdiff_t got = io->read(io->context, from, piece, PIECE, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            break;
        code = got < 0 ? errno : store_io_write(io, to, piece, (size_t)got, at);
        at += got > 0 ? (uint64_t)got : 0;
    }
    free(piece);
    return code;
}

static int copy_file(const struct store_io *io, const char *path, const char *copy)
{
    int from = io->open(io->context, path, O_RDONLY), code = from < 0 ? errno : 0;
    int to = code ? -1 : store_io_create(io, copy, O_WRONLY);
    if (code == 0)
        code = to < 0 ? errno : copy_bytes(io, from, to);
    if (code == 0 && io->sync(io->context, to))
        code = errno;
    if (to >= 0 && io->close(io->context, to) && code == 0)
        code = errno;
    if (from >= 0)
        io->close(io->context, from);
    if (code == 0 && io->rename(io->context, copy, path))
        code = errno;
    if (code && to >= 0)
        io->unlink(io->context, copy);
    return code;
}

// *copied: it had other names, and has none any more.
static enum store_code make_own(const struct store *store, const char *name, const char *file, bool *copied,
                                struct store_error *error)
{
    struct stat about;
    struct store_path path = store_path(store, name, file);
    if (lstat(path.text, &about) != 0 || !S_ISREG(about.st_mode) || about.st_nlink < 2)
        return STORE_OK; // what can't be looked at is told when it is opened
    int code = copy_file(store->io, path.text, store_path(store, name, OWN_COPY_NEW).text);
    *copied |= code == 0;
    return code ? store_fail(error, STORE_IO, "%.900s is a file with another name elsewhere, and can't be copied: %s",
                             path.text, strerror(code))
                : STORE_OK;
}

enum store_code own_copy_all(const struct store *store, const char *name, struct store_error *error)
{
    bool copied = false;
    enum store_code code = make_own(store, name, "transcript.jsonl", &copied, error);
    for (unsigned i = 0; i < 2 && !code; i++)
        code = make_own(store, name, manifest_kv_name(i), &copied, error);
    for (unsigned i = 0; i < STATE_FILES && !code; i++)
        code = make_own(store, name, manifest_state_name(i), &copied, error);
    int failed = copied ? store_io_sync_folder(store->io, store_path(store, name, NULL).text) : 0;
    return code || !failed ? code : store_fail_path(store_path(store, name, NULL).text, failed, error);
}
