// SPDX-License-Identifier: GPL-3.0-or-later
// The SHA-256 of a file as it can be read now.
#ifndef MOECHAT_ENGINE_FILES_FILE_HASH_H
#define MOECHAT_ENGINE_FILES_FILE_HASH_H

#include <openssl/evp.h>

#include "engine/moe.h"

struct file_hashing {
    const char *path;
    uint64_t bytes;      // of the file, that are hashed
    bool from_disk;      // past the page cache; what was written must be durable
    bool without_direct; // tests: as where the file system has no direct I/O
    bool *cached;        // becomes true: from_disk was not possible, bytes may be the page cache's. NULL: not asked
    bool (*cancelled)(void *context);                // looked at after each piece; may be NULL
    void (*advanced)(void *context, uint64_t bytes); // likewise
    void *context;
};
// In hex. MOE_IO and the like name the file; MOE_CANCELLED.
int file_hash(const struct file_hashing *how, char hex[65], struct moe_err *err);
int file_hash_open(const struct file_hashing *how, int fd, char hex[65], struct moe_err *err); // of a file that is open
// Ends a SHA-256 that the caller began, and still has to free: in hex. False: libcrypto could not.
bool file_hash_hex(EVP_MD_CTX *hash, char hex[65]);

#endif
