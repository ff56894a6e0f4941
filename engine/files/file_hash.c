// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a file piece by piece and hashes it.
#include "engine/files/file_hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

enum { BUFFER_BYTES = 4 << 20 };

static int hash_pieces(const struct file_hashing *how, int fd, EVP_MD_CTX *hash, void *buffer, struct moe_err *err)
{
    int code = MOE_OK;
    for (uint64_t done = 0; done < how->bytes && !code;) {
        size_t piece = how->bytes - done < BUFFER_BYTES ? (size_t)(how->bytes - done) : BUFFER_BYTES;
        code = file_read(&(struct file_range){fd, how->path, done, piece}, buffer, err);
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

int file_hash(const struct file_hashing *how, char hex[65], struct moe_err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    int fd;
    uint64_t size;
    int code = file_open(how->path, &fd, &size, err);
    if (code)
        return code;
    if (how->from_disk) // what was written and synced is dropped from the cache, and read again
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    void *buffer = malloc(BUFFER_BYTES);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!buffer || !hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
        code = moe_fail_file(err, MOE_NO_MEMORY, how->path, 0, "no memory to hash it");
    if (!code)
        code = hash_pieces(how, fd, hash, buffer, err);
    if (!code && EVP_DigestFinal_ex(hash, digest, NULL) != 1)
        code = moe_fail_file(err, MOE_NO_MEMORY, how->path, 0, "libcrypto could not hash it");
    for (size_t i = 0; !code && i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(hash);
    free(buffer);
    close(fd);
    return code;
}
