// SPDX-License-Identifier: GPL-3.0-or-later
// Hashes samples of a source: the beginning and the middle of each tensor that stays. Looks for experts that came back.
#include "engine/convert/likeness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/convert/manifest.h"
#include "engine/files/file_hash.h"
#include "engine/files/verify.h"

enum { SAMPLE = 4096 };

struct sampling {
    const struct job *job;
    EVP_MD_CTX *hash;
    struct moe_err *err;
    int code;
};

static void take(struct sampling *s, const struct tensor_file *shard, uint64_t offset, uint64_t bytes)
{
    char sample[SAMPLE];
    const struct file_range range = {shard->fd, shard->path, offset, bytes < SAMPLE ? (size_t)bytes : SAMPLE};
    if (!s->code)
        s->code = file_read(&range, sample, s->err);
    if (!s->code && EVP_DigestUpdate(s->hash, sample, range.bytes) != 1)
        s->code = moe_fail(s->err, MOE_NO_MEMORY, "libcrypto could not hash the source");
}

static bool is_of_experts(const struct job *job, uint32_t shard, const struct tensor *tensor)
{
    for (uint32_t i = job->shape->first_k_dense_replace; i < job->shape->n_layers; i++)
        for (uint32_t k = 0; k < job->layers[i].direct->n_spans; k++) {
            const struct expert_span *span = &job->layers[i].direct->spans[k];
            if (span->file == shard && tensor->offset >= span->offset &&
                tensor->offset - span->offset < span->bytes * job->shape->n_routed_experts)
                return true;
        }
    return false;
}

static void take_what_stays(struct sampling *s)
{
    const struct checkpoint *from = s->job->from;
    for (uint32_t i = 0; i < from->n_shards; i++)
        for (size_t k = 0; k < from->shards[i].count && !s->code; k++) {
            const struct tensor *tensor = &from->shards[i].tensors[k];
            if (is_of_experts(s->job, i, tensor))
                continue;
            take(s, &from->shards[i], tensor->offset, tensor->bytes);
            take(s, &from->shards[i], tensor->offset + tensor->bytes / 2, tensor->bytes - tensor->bytes / 2);
        }
}

static int make(const struct job *job, char hex[65], struct moe_err *err)
{
    struct sampling s = {.job = job, .hash = EVP_MD_CTX_new(), .err = err};
    bool good = s.hash && EVP_DigestInit_ex(s.hash, EVP_sha256(), NULL) == 1;
    if (good)
        take_what_stays(&s);
    good = good && (s.code || file_hash_hex(s.hash, hex));
    EVP_MD_CTX_free(s.hash);
    return s.code || good ? s.code : moe_fail(err, MOE_NO_MEMORY, "libcrypto could not hash the source");
}

// A layer's file in the package, of which the source has no more.
struct consumed {
    const struct job *job;
    uint32_t layer;
    int fd;
    const char *path;
};

// Is there in the source what begins an array of an expert, and another one than the package's?
static int compare(const struct consumed *c, uint64_t expert, const struct expert_part parts[2], bool *other,
                   struct moe_err *err)
{
    const struct job_layer *layer = &c->job->layers[c->layer];
    const struct expert_part *from = &parts[0], *to = &parts[1];
    const struct expert_span *span = layer->direct->spans;
    while (from->offset < span->at || from->offset >= span->at + span->bytes)
        span++;
    const struct tensor_file *shard = &c->job->from->shards[span->file];
    char there[SAMPLE], here[SAMPLE];
    size_t bytes = from->bytes < SAMPLE ? (size_t)from->bytes : SAMPLE;
    const struct file_range source = {shard->fd, shard->path,
                                      span->offset + expert * span->bytes + (from->offset - span->at), bytes};
    const struct file_range package = {c->fd, c->path, expert * layer->experts.blob_bytes + to->offset, bytes};
    int code = file_read(&source, there, err);
    if (code || bytes_are_zero(there, bytes))
        return code;
    code = file_read(&package, here, err);
    *other = !code && memcmp(there, here, bytes) != 0;
    return code;
}

// The first expert of a layer and the last.
static int look_at_layer(const struct consumed *c, bool *other, struct moe_err *err)
{
    const struct job_layer *layer = &c->job->layers[c->layer];
    struct expert_part from[MAX_EXPERT_PARTS], to[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(&layer->direct->experts, from);
    int code = MOE_OK;
    package_parts(&layer->experts, to);
    for (uint32_t i = 0; i < 2 * n && !code && !*other; i++)
        code = compare(c, i < n ? 0 : c->job->shape->n_routed_experts - 1,
                       (const struct expert_part[]){from[i % n], to[i % n]}, other, err);
    return code;
}

// A download in the place of one that was consumed in part brings its experts back: they must be the same. Of a layer
// that was being consumed a page may be gone in part.
static int look_for_others(const struct job *job, const char *folder, const struct journal *journal, bool *other,
                           struct moe_err *err)
{
    int code = MOE_OK;
    for (uint32_t i = job->shape->first_k_dense_replace; i < job->shape->n_layers && !code && !*other; i++) {
        char file[64], path[4300];
        manifest_layer_file(i, file);
        const struct journal_file *entry = journal_find(journal, file);
        if (!entry || !entry->consumed)
            continue;
        snprintf(path, sizeof path, "%.4200s/%s", folder, file);
        const struct consumed layer = {job, i, open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), path};
        if (layer.fd < 0)
            return moe_fail_file(err, MOE_IO, path, errno, "cannot be opened");
        code = look_at_layer(&layer, other, err);
        close(layer.fd);
    }
    return code;
}

int likeness_check(const struct job *job, const char *folder, struct journal *journal, struct moe_err *err)
{
    char now[65];
    bool other = false;
    int code = make(job, now, err);
    if (!code)
        code = look_for_others(job, folder, journal, &other, err);
    if (code || (!other && strcmp(now, journal->likeness) == 0))
        return code;
    if (!other && (!*journal->likeness || !journal_find(journal, job->resident_file)))
        return journal_note_likeness(journal, now, err);
    return moe_fail_file(err, MOE_BAD_ARGUMENT, checkpoint_place(job->from), 0,
                         "is not the model that this conversion was begun with; put that one back, or convert this "
                         "one to another name");
}
