// SPDX-License-Identifier: GPL-3.0-or-later
// Hashes a job and its source's files, so that a conversion resumes only its own work.
#include "engine/convert/job_key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/files/file_hash.h"

static bool add_text(EVP_MD_CTX *hash, const char *text)
{
    return EVP_DigestUpdate(hash, text, strlen(text)) == 1;
}

static bool add_layers(EVP_MD_CTX *hash, const struct job *job)
{
    bool good = true;
    for (uint32_t i = 0; good && i < job->shape->n_layers; i++)
        for (uint32_t which = 0; good && which < 3; which++) {
            const struct job_matrix *m = &job->layers[i].matrices[which];
            char line[96];
            snprintf(line, sizeof line, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %d\n", i, m->how.bits, m->how.group_size,
                     job->layers[i].direct ? 2 : m->exact);
            good = add_text(hash, line);
        }
    return good;
}

int job_key(const struct job *job, bool consumed, char key[65], struct moe_err *err)
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    int code = MOE_OK;
    bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(hash, job->header, (size_t)job->header_bytes) == 1 && add_layers(hash, job);
    for (uint32_t i = 0; good && !code && i < job->from->n_shards; i++) {
        const struct tensor_file *shard = &job->from->shards[i];
        struct stat status;
        char line[128];
        char *path = realpath(shard->path, NULL); // however it was typed, and from wherever
        if (!path || fstat(shard->fd, &status)) {
            code = moe_fail_file(err, MOE_IO, shard->path, errno, "cannot be examined");
            free(path);
            continue;
        }
        if (consumed)
            snprintf(line, sizeof line, " %" PRIu64 " consumed\n", (uint64_t)status.st_size);
        else
            snprintf(line, sizeof line, " %" PRIu64 " %" PRIu64 " %ld\n", (uint64_t)status.st_size,
                     (uint64_t)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
        good = add_text(hash, path) && add_text(hash, line);
        free(path);
    }
    good = good && file_hash_hex(hash, key);
    EVP_MD_CTX_free(hash);
    return code || good ? code : moe_fail(err, MOE_NO_MEMORY, "libcrypto could not hash the job");
}
