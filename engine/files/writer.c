// SPDX-License-Identifier: GPL-3.0-or-later
// Writes a file's chunks from several threads, and hashes them in order.
#define _GNU_SOURCE // O_DIRECT
#include "engine/files/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/file_hash.h"

enum { MOST_THREADS = 64, BLOCK = 4096 };

// Chunk i is made in buffer i % n_buffers, and not before the chunk that was there is hashed.
struct work {
    const struct writer_chunks *chunks;
    const struct writer_options *options;
    const char *path;
    int fd;
    void **buffers;
    bool *ready; // [n_buffers]
    uint64_t n_buffers;
    EVP_MD_CTX *hash;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Under the lock.
    uint64_t next, hashed;
    int failed;
    struct moe_err err; // of the first failure
};

// A write past the page cache was refused: from now on through it.
static void leave_direct(const struct work *w)
{
    int flags = fcntl(w->fd, F_GETFL);
    if (flags >= 0)
        fcntl(w->fd, F_SETFL, flags & ~O_DIRECT);
}

static int write_all(const struct work *w, const char *from, uint64_t bytes, uint64_t offset, struct moe_err *err)
{
    uint64_t done = 0;
    bool direct = w->chunks->blocks;
    while (done < bytes) {
        const struct writer_options *o = w->options;
        ptrdiff_t wrote = o->write
                              ? o->write(o->write_context, w->fd, from + done, (size_t)(bytes - done), offset + done)
                              : pwrite(w->fd, from + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (wrote > 0) {
            done += (uint64_t)wrote;
            continue;
        }
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EINVAL && direct) {
            leave_direct(w);
            direct = false;
            continue;
        }
        moe_fail_file(err, MOE_IO, w->path, wrote < 0 ? errno : ENOSPC, "cannot be written");
        if (err)
            err->offset = offset + done;
        return MOE_IO;
    }
    return MOE_OK;
}

static void fail(struct work *w, const struct moe_err *err)
{
    pthread_mutex_lock(&w->lock);
    if (!w->failed) {
        w->failed = (int)err->code;
        w->err = *err;
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static bool take_chunk(struct work *w, uint64_t *chunk)
{
    pthread_mutex_lock(&w->lock);
    while (!w->failed && w->next < w->chunks->count && w->next >= w->hashed + w->n_buffers)
        pthread_cond_wait(&w->changed, &w->lock);
    bool some = !w->failed && w->next < w->chunks->count;
    *chunk = w->next;
    w->next += some;
    pthread_mutex_unlock(&w->lock);
    return some;
}

static void *produce_chunks(void *context)
{
    struct work *w = context;
    const struct writer_chunks *c = w->chunks;
    uint64_t chunk;
    while (take_chunk(w, &chunk)) {
        struct moe_err err = {.code = MOE_OK};
        uint64_t offset = c->offset(c->context, chunk);
        uint64_t bytes = c->offset(c->context, chunk + 1) - offset;
        void *buffer = w->buffers[chunk % w->n_buffers];
        int code = c->produce(c->context, chunk, buffer, &err);
        if (!code)
            code = write_all(w, buffer, bytes, offset, &err);
        if (code) {
            fail(w, &err);
            return NULL;
        }
        pthread_mutex_lock(&w->lock);
        w->ready[chunk % w->n_buffers] = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

// On the caller's thread: the chunks in order.
static void hash_chunks(struct work *w)
{
    const struct writer_options *o = w->options;
    const struct writer_chunks *c = w->chunks;
    for (uint64_t chunk = 0; chunk < c->count; chunk++) {
        uint64_t slot = chunk % w->n_buffers;
        pthread_mutex_lock(&w->lock);
        while (!w->failed && !w->ready[slot])
            pthread_cond_wait(&w->changed, &w->lock);
        bool failed = w->failed;
        pthread_mutex_unlock(&w->lock);
        if (failed)
            return;
        struct moe_err err;
        uint64_t bytes = c->offset(c->context, chunk + 1) - c->offset(c->context, chunk);
        bool hashed = EVP_DigestUpdate(w->hash, w->buffers[slot], (size_t)bytes) == 1;
        if (!hashed)
            moe_fail_file(&err, MOE_NO_MEMORY, w->path, 0, "libcrypto could not hash it");
        if (hashed && o->cancelled && o->cancelled(o->context))
            hashed = !moe_fail(&err, MOE_CANCELLED, "stopped; the same command goes on from here");
        if (!hashed) {
            fail(w, &err);
            return;
        }
        pthread_mutex_lock(&w->lock);
        w->ready[slot] = false;
        w->hashed++;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        if (o->advanced)
            o->advanced(o->context, bytes);
    }
}

static int run_threads(struct work *w)
{
    pthread_t threads[MOST_THREADS];
    unsigned started = 0;
    unsigned wanted = w->options->threads < MOST_THREADS ? w->options->threads : MOST_THREADS;
    int failed = 0;
    while (started < wanted && (failed = pthread_create(&threads[started], NULL, produce_chunks, w)) == 0)
        started++;
    if (started == 0) {
        struct moe_err err;
        moe_fail_file(&err, MOE_NO_MEMORY, w->path, failed, "no thread could be started to write it");
        fail(w, &err);
    }
    hash_chunks(w);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return w->failed;
}

static int make_buffers(struct work *w)
{
    uint64_t most = w->options->memory_bytes / w->chunks->most_bytes;
    uint64_t wanted = w->options->threads + 2;
    w->n_buffers = most < 2 ? 2 : most < wanted ? most : wanted;
    w->buffers = calloc(w->n_buffers, sizeof *w->buffers);
    w->ready = calloc(w->n_buffers, sizeof *w->ready);
    bool good = w->buffers && w->ready;
    for (uint64_t i = 0; good && i < w->n_buffers; i++)
        good = (w->buffers[i] = aligned_alloc(BLOCK, (w->chunks->most_bytes + BLOCK - 1) / BLOCK * BLOCK));
    return good ? MOE_OK : moe_fail_file(&w->err, MOE_NO_MEMORY, w->path, 0, "no memory for the pieces of it");
}

static int finish(struct work *w, char sha256[65])
{
    if (!file_hash_hex(w->hash, sha256))
        return moe_fail_file(&w->err, MOE_NO_MEMORY, w->path, 0, "libcrypto could not hash it");
    if (file_sync(w->fd))
        return moe_fail_file(&w->err, MOE_IO, w->path, errno, "cannot be written");
    return MOE_OK;
}

int writer_run(const char *path, const struct writer_chunks *chunks, const struct writer_options *options,
               char sha256[65], struct moe_err *err)
{
    struct work w = {.chunks = chunks, .options = options, .path = path};
    w.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (w.fd < 0)
        return moe_fail_file(err, MOE_IO, path, errno, "cannot be made");
    if (chunks->blocks) // a file system that has no such thing says so here or at the first write
        fcntl(w.fd, F_SETFL, fcntl(w.fd, F_GETFL) | O_DIRECT);
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    w.hash = EVP_MD_CTX_new();
    int code = w.hash && EVP_DigestInit_ex(w.hash, EVP_sha256(), NULL) == 1
                   ? make_buffers(&w)
                   : moe_fail_file(&w.err, MOE_NO_MEMORY, path, 0, "libcrypto has no SHA-256");
    if (!code)
        code = run_threads(&w);
    if (!code)
        code = finish(&w, sha256);
    if (close(w.fd) && !code)
        code = moe_fail_file(&w.err, MOE_IO, path, errno, "cannot be written");
    for (uint64_t i = 0; w.buffers && i < w.n_buffers; i++)
        free(w.buffers[i]);
    free(w.buffers);
    free(w.ready);
    EVP_MD_CTX_free(w.hash);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    if (code && err)
        *err = w.err;
    return code;
}
