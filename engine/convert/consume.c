// SPDX-License-Identifier: GPL-3.0-or-later
// Takes ranges out of a source's files.
#define _GNU_SOURCE // fallocate
#include "engine/convert/consume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"
#include "engine/convert/manifest.h"
#include "engine/files/file_hash.h"
#include "engine/files/spans.h"

enum { PAGE = 4096, PATH_BYTES = 4300 };

static int punch(const struct consume *c, uint32_t shard, uint64_t offset, uint64_t bytes)
{
    if (c->punch)
        return c->punch(c->punch_context, c->fds[shard], offset, bytes);
    int code;
    do
        code = fallocate(c->fds[shard], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    while (code && errno == EINTR);
    return code;
}

// A range of a file that is in use elsewhere, or not ours, is not ours to remove.
static int check_owner(const char *path, const struct stat *status, struct moe_err *err)
{
    const char *what = NULL;
    if (status->st_nlink > 1)
        what = "has a second name (a hard link), which would lose its weights, too; --consume leaves it alone";
    else if (status->st_uid != geteuid())
        what = "is another user's; --consume leaves it alone";
    else if (!(status->st_mode & S_IWUSR))
        what = "is read-only; --consume would have to write to it";
    return what ? moe_fail_file(err, MOE_BAD_ARGUMENT, path, 0, what) : MOE_OK;
}

static int open_shard(struct consume *c, uint32_t i, struct moe_err *err)
{
    const struct tensor_file *shard = &c->job->from->shards[i];
    struct stat read, write;
    c->fds[i] = open(shard->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (c->fds[i] < 0 && errno == ELOOP)
        return moe_fail_file(err, MOE_BAD_ARGUMENT, shard->path, 0,
                             "is a symbolic link, as in a download cache, whose files others may use; --consume wants "
                             "the file itself");
    if (c->fds[i] < 0)
        return moe_fail_file(err, errno == EACCES || errno == EROFS ? MOE_BAD_ARGUMENT : MOE_IO, shard->path, errno,
                             "cannot be opened for writing");
    if (fstat(shard->fd, &read) || fstat(c->fds[i], &write))
        return moe_fail_file(err, MOE_IO, shard->path, errno, "cannot be examined");
    if (read.st_dev != write.st_dev || read.st_ino != write.st_ino)
        return moe_fail_file(err, MOE_IO, shard->path, 0, "was replaced just now; try again");
    int code = check_owner(shard->path, &write, err);
    if (code)
        return code;
    // Two packages that take turns at emptying a source would have a part of it each, and a chat would lose weights.
    flock(shard->fd, LOCK_UN); // our own reader's
    code = file_lock_alone(c->fds[i], shard->path, err);
    if (code)
        return code;
    // Behind the end there is nothing to lose, but a conversion that was begun knows its source by the time it was
    // changed, and nobody has said yes yet.
    uint64_t behind = ((uint64_t)write.st_size + PAGE - 1) / PAGE * PAGE;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, write.st_mtim};
    if (punch(c, i, behind, PAGE) == 0)
        return futimens(c->fds[i], times)
                   ? moe_fail_file(err, MOE_IO, shard->path, errno, "cannot keep the time of its last change")
                   : MOE_OK;
    return moe_fail_file(err, MOE_BAD_ARGUMENT, shard->path, errno,
                         "is on a file system that cannot take a piece out of a file; convert without --consume");
}

int consume_open(struct consume *c, struct moe_err *err)
{
    const struct job *job = c->job;
    const struct shape *s = job->shape;
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++)
        if (!job->layers[i].direct)
            return moe_fail(err, MOE_BAD_ARGUMENT,
                            "%.300s: its experts would be quantised, so what is removed could never be had again; "
                            "--consume is for GGUF and MLX, which are copied as they are",
                            checkpoint_place(job->from));
    c->fds = malloc(job->from->n_shards * sizeof *c->fds);
    if (!c->fds)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the list of files");
    for (uint32_t i = 0; i < job->from->n_shards; i++)
        c->fds[i] = -1;
    int code = MOE_OK;
    for (uint32_t i = 0; i < job->from->n_shards && !code; i++)
        code = open_shard(c, i, err);
    if (code)
        consume_close(c);
    return code;
}

uint64_t consume_bytes(const struct consume *c)
{
    const struct shape *s = c->job->shape;
    uint64_t bytes = 0;
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++)
        bytes += spans_bytes(c->job->layers[i].direct) * s->n_routed_experts;
    return bytes;
}

// Once, where it is so: what reading back proves less.
static void say_cached(struct consume *c)
{
    if (!c->said_cached && c->notice)
        c->notice(c->context,
                  "this file system has no direct I/O: what is read back to be compared may come from memory "
                  "instead of the disk");
    c->said_cached = true;
}

int consume_read_back(struct consume *c, const char *folder, const char *file, const struct journal *journal,
                      struct moe_err *err)
{
    const struct journal_file *entry = journal_find(journal, file);
    char path[PATH_BYTES];
    char hex[65];
    bool cached = false;
    snprintf(path, sizeof path, "%.4200s/%s", folder, entry->file);
    const struct file_hashing how = {.path = path,
                                     .bytes = entry->bytes,
                                     .from_disk = true,
                                     .without_direct = c->without_direct,
                                     .cached = &cached,
                                     .cancelled = c->cancelled,
                                     .context = c->context};
    int code = file_make_durable(folder, err);
    if (!code)
        code = file_hash(&how, hex, err);
    if (!code && cached)
        say_cached(c);
    if (code || strcmp(hex, entry->sha256) == 0)
        return code;
    return moe_fail_file(err, MOE_FORMAT, path, 0,
                         entry->consuming
                             ? "does not read back as it was written, and a part of it may be gone from the source "
                               "already; keep this file, look after the disk, and try again"
                             : "does not read back as it was written, so nothing of it was removed from the source; "
                               "remove this file, look after the disk, and try again");
}

int consume_layer(struct consume *c, const char *folder, uint32_t layer, struct journal *journal, struct moe_err *err)
{
    const struct package_layer *from = c->job->layers[layer].direct;
    char file[64];
    manifest_layer_file(layer, file);
    const struct journal_file *entry = journal_find(journal, file);
    if (entry->consumed)
        return MOE_OK;
    int code = consume_read_back(c, folder, file, journal, err);
    if (!code && !entry->consuming)
        code = journal_note_consuming(journal, file, err);
    for (uint32_t i = 0; i < from->n_spans && !code; i++) {
        const struct expert_span *span = &from->spans[i];
        const char *path = c->job->from->shards[span->file].path;
        if (punch(c, span->file, span->offset, span->bytes * c->job->shape->n_routed_experts))
            code = moe_fail_file(err, MOE_IO, path, errno, "its experts cannot be removed");
    }
    return code ? code : journal_note_consumed(journal, file, err);
}

void consume_close(struct consume *c)
{
    for (uint32_t i = 0; c->fds && i < c->job->from->n_shards; i++)
        if (c->fds[i] >= 0)
            close(c->fds[i]);
    free(c->fds);
    c->fds = NULL;
}
