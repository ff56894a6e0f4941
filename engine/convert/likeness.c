// SPDX-License-Identifier: GPL-3.0-or-later
// Hashes samples of a source: the beginning and the middle of each tensor that stays.
#include "engine/convert/likeness.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

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
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct sampling s = {.job = job, .hash = EVP_MD_CTX_new(), .err = err};
    bool good = s.hash && EVP_DigestInit_ex(s.hash, EVP_sha256(), NULL) == 1;
    if (good)
        take_what_stays(&s);
    good = good && (s.code || EVP_DigestFinal_ex(s.hash, digest, NULL) == 1);
    EVP_MD_CTX_free(s.hash);
    for (size_t i = 0; good && !s.code && i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return s.code || good ? s.code : moe_fail(err, MOE_NO_MEMORY, "libcrypto could not hash the source");
}

int likeness_check(const struct job *job, struct journal *journal, struct moe_err *err)
{
    char now[65];
    int code = make(job, now, err);
    if (code || strcmp(now, journal->likeness) == 0)
        return code;
    if (!*journal->likeness || !journal_find(journal, job->resident_file))
        return journal_note_likeness(journal, now, err);
    return moe_fail_file(err, MOE_BAD_ARGUMENT, checkpoint_place(job->from), 0,
                         "is not the model that this conversion was begun with; put that one back");
}
