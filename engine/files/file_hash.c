// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a file piece by piece and hashes it.
#define _GNU_SOURCE // O_DIRECT
#include "engine/files/file_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

enum { BUFFER_BYTES = 4 << 20, BLOCK = 4096 };

static int leave_direct(const struct file_hashing *how, int fd, int flags)
{
    fcntl(fd, F_SETFL, flags & ~O_DIRECT);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); // a wish
    if (how->cached)
        *how->cached = true;
    return flags & ~O_DIRECT;
}

static void go_direct(const struct file_hashing *how, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (how->without_direct || fcntl(fd, F_SETFL, flags | O_DIRECT))
        leave_direct(how, fd, flags);
}

// Direct reads are of whole blocks; the last of a file ends before its block does. Where one is refused, the rest goes
// through the page cache, out of which what was synced is dropped.
static int read_piece(const struct file_hashing *how, int fd, uint64_t offset, size_t bytes, void *buffer,
                      struct moe_err *err)
{
    size_t done = 0;
    int flags = fcntl(fd, F_GETFL);
    while (flags >= 0 && flags & O_DIRECT && done < bytes) {
        ssize_t got =
            pread(fd, (char *)buffer + done, (bytes - done + BLOCK - 1) / BLOCK * BLOCK, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        done += got > 0 ? (size_t)got : 0;
        if (got <= 0 || (done < bytes && done % BLOCK))
            flags = leave_direct(how, fd, flags);
    }
    if (done >= bytes)
        return MOE_OK;
    return file_read(&(struct file_range){fd, how->path, offset + done, bytes - done}, (char *)buffer + done, err);
}

static int hash_pieces(const struct file_hashing *how, int fd, EVP_MD_CTX *hash, void *buffer, struct moe_err *err)
{
    int code = MOE_OK;
    for (uint64_t done = 0; done < how->bytes && !code;) {
        size_t piece = how->bytes - done < BUFFER_BYTES ? (size_t)(how->bytes - done) : BUFFER_BYTES;
        code = read_piece(how, fd, done, piece, buffer, err);
        if (!code && EVP_DigestUpdate(hash, buffer, piece) != 1)
            code = moe_fail_file(err, MOE_NO_MEMORY, how->path, 0, "libcrypto could not hash it");
        if (!code && how->cancelled && how->cancelled(how->context))
            code = moe_fail(err, MOE_CANCELLED, "stopped; the same command goes on from here");
        done += piece;
        if (!code && how->advanced)
            how->advanced(how->context, piece);
    }
    return code;
}

bool file_hash_hex(EVP_MD_CTX *hash, char hex[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_DigestFinal_ex(hash, digest, NULL) != 1)
        return false;
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return true;
}

int file_hash_open(const struct file_hashing *how, int fd, char hex[65], struct moe_err *err)
{
    int code = MOE_OK;
    if (how->from_disk)
        go_direct(how, fd);
    void *buffer = aligned_alloc(BLOCK, BUFFER_BYTES);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!buffer || !hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
        code = moe_fail_file(err, MOE_NO_MEMORY, how->path, 0, "no memory to hash it");
    if (!code)
        code = hash_pieces(how, fd, hash, buffer, err);
    if (!code && !file_hash_hex(hash, hex))
        code = moe_fail_file(err, MOE_NO_MEMORY, how->path, 0, "libcrypto could not hash it");
    EVP_MD_CTX_free(hash);
    free(buffer);
    return code;
}

int file_hash(const struct file_hashing *how, char hex[65], struct moe_err *err)
{
    int fd;
    uint64_t size;
    int code = file_open(how->path, &fd, &size, err);
    if (code)
        return code;
    code = file_hash_open(how, fd, hex, err);
    close(fd);
    return code;
}
