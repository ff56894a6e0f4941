// SPDX-License-Identifier: GPL-3.0-or-later
// Binaries of programs, kept between runs: one file each, named by a hash of all that the binary depends on. It is
// written beside and renamed, so a reader sees all or nothing; whatever is wrong with a file only costs a build. It is
// machine code: a folder or file that is another user's, or that others may write to, is not used.
#ifndef MOECHAT_BINARY_CACHE_H
#define MOECHAT_BINARY_CACHE_H

#include <stdbool.h>
#include <stddef.h>

// SHA-256: what is loaded here runs in this process.
enum { DIGEST = 32, KEY_DIGITS = DIGEST + 1 };
struct digest {
    unsigned char bytes[DIGEST];
};
struct digested {
    const void *data;
    size_t bytes;
};

// False: there is no such digest, and nothing is cached.
bool digest(const struct digested *parts, size_t n, struct digest *out);
// Hex digits of half of it, which name it.
void key_digits(const struct digest *key, char digits[KEY_DIGITS]);

// The binary in the cache, to be freed, or NULL.
unsigned char *cache_load(const char *folder, const struct digest *key, size_t *bytes);
// Is there a file that looks like it?
bool cache_has(const char *folder, const struct digest *key);
void cache_save(const char *folder, const struct digest *key, const unsigned char *binary, size_t bytes);
// Removes what processes that were killed have left half written.
void cache_tidy(const char *folder);
// Does the folder, which is made when missing, take files?
bool cache_takes(const char *folder);
// Waits until no other process has the lock of this key, and takes it until this one ends. Where that cannot be, both
// build.
void cache_lock(const char *folder, const struct digest *key);

#endif
