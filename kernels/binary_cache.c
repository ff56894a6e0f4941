// SPDX-License-Identifier: GPL-3.0-or-later
// Binaries of programs, kept between runs: one file each, a header and the binary.
#include "kernels/binary_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/device.h"

enum { MAX_BINARY_BYTES = 256 << 20, CACHE_NAME = 64 };

struct cache_header {
    char magic[16];
    struct digest key, checksum;
    uint64_t bytes;
};

static const char cache_magic[16] = "moechat kernel2";

bool digest(const struct digested *parts, size_t n, struct digest *out)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (size_t i = 0; i < n && good; i++)
        good = EVP_DigestUpdate(context, &parts[i].bytes, sizeof parts[i].bytes) &&
               EVP_DigestUpdate(context, parts[i].data, parts[i].bytes);
    good = good && EVP_DigestFinal_ex(context, out->bytes, NULL);
    EVP_MD_CTX_free(context);
    return good;
}

void key_digits(const struct digest *key, char digits[KEY_DIGITS])
{
    for (int i = 0; i < DIGEST / 2; i++)
        snprintf(digits + 2 * i, 3, "%02x", key->bytes[i]);
}

static void cache_name(const struct digest *key, char name[CACHE_NAME])
{
    char digits[KEY_DIGITS];
    key_digits(key, digits);
    snprintf(name, CACHE_NAME, "kernels-%s.bin", digits);
}

static bool is_trusted(int fd, mode_t type)
{
    struct stat about;
    return fstat(fd, &about) == 0 && (about.st_mode & S_IFMT) == type && cache_is_private(&about);
}

// The folder, -1: there is none that may be trusted.
static int open_folder(const char *folder)
{
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 || is_trusted(fd, S_IFDIR))
        return fd;
    close(fd);
    return -1;
}

static bool read_whole(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t n = read(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

unsigned char *cache_load(const char *folder, const struct digest *key, size_t *bytes)
{
    char name[CACHE_NAME];
    cache_name(key, name);
    int within = open_folder(folder);
    // A pipe in its place must not make us wait, nor a link lead elsewhere.
    int fd = within >= 0 ? openat(within, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    struct cache_header header;
    struct digest found;
    unsigned char *binary = NULL;
    if (fd >= 0 && is_trusted(fd, S_IFREG) && read_whole(fd, &header, sizeof header) &&
        memcmp(header.magic, cache_magic, sizeof cache_magic) == 0 &&
        memcmp(&header.key, key, sizeof header.key) == 0 && header.bytes > 0 && header.bytes <= MAX_BINARY_BYTES)
        binary = malloc(header.bytes);
    if (binary &&
        (!read_whole(fd, binary, header.bytes) || !digest(&(struct digested){binary, header.bytes}, 1, &found) ||
         memcmp(&found, &header.checksum, sizeof found) != 0)) {
        free(binary);
        binary = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (within >= 0)
        close(within);
    if (binary)
        *bytes = header.bytes;
    return binary;
}

bool cache_has(const char *folder, const struct digest *key)
{
    char name[CACHE_NAME];
    struct stat about;
    int within = open_folder(folder);
    cache_name(key, name);
    bool has = within >= 0 && fstatat(within, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
               about.st_size > (off_t)sizeof(struct cache_header) && cache_is_private(&about);
    if (within >= 0)
        close(within);
    return has;
}

static bool make_folders(const char *folder)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%s", folder);
    if (n <= 0 || (size_t)n >= sizeof path)
        return false;
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            if (mkdir(path, 0700) != 0 && errno != EEXIST)
                return false;
            *at = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool write_whole(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

// Files that a process was ended in the middle of: whoever writes one has it locked.
void cache_tidy(const char *folder)
{
    int within = open_folder(folder), list = within >= 0 ? fcntl(within, F_DUPFD_CLOEXEC, 0) : -1;
    DIR *dir = list >= 0 ? fdopendir(list) : NULL;
    for (const struct dirent *at; dir && (at = readdir(dir));) {
        size_t n = strlen(at->d_name);
        if (strncmp(at->d_name, "kernels-", 8) != 0 || n < 5 || strcmp(at->d_name + n - 4, ".tmp") != 0)
            continue;
        int fd = openat(within, at->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(within, at->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (dir)
        closedir(dir);
    else if (list >= 0)
        close(list);
    if (within >= 0)
        close(within);
}

// A file of ours alone; what an earlier process of our number left is in its way.
static int open_beside(int folder, const char *name)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(folder, name, flags, 0600);
    if (fd < 0 && errno == EEXIST && unlinkat(folder, name, 0) == 0)
        fd = openat(folder, name, flags, 0600);
    // Against cache_tidy. Before this, or where there are no locks, it may take the file, which is then built again.
    if (fd >= 0)
        flock(fd, LOCK_EX | LOCK_NB);
    return fd;
}

void cache_save(const char *folder, const struct digest *key, const unsigned char *binary, size_t bytes)
{
    char name[CACHE_NAME], beside[CACHE_NAME + 32];
    struct cache_header header = {.key = *key, .bytes = bytes};
    int within = make_folders(folder) ? open_folder(folder) : -1;
    if (within < 0)
        return;
    cache_name(key, name);
    snprintf(beside, sizeof beside, "%s.%ld.tmp", name, (long)getpid());
    memcpy(header.magic, cache_magic, sizeof cache_magic);
    int fd = digest(&(struct digested){binary, bytes}, 1, &header.checksum) ? open_beside(within, beside) : -1;
    if (fd >= 0) {
        bool good = write_whole(fd, &header, sizeof header) && write_whole(fd, binary, bytes) && fsync(fd) == 0;
        if (close(fd) != 0 || !good || renameat(within, beside, within, name) != 0)
            unlinkat(within, beside, 0);
    }
    close(within);
}

bool cache_takes(const char *folder)
{
    int within = make_folders(folder) ? open_folder(folder) : -1;
    bool takes = within >= 0 && faccessat(within, ".", W_OK, 0) == 0;
    if (within >= 0)
        close(within);
    return takes;
}

// One file, in which each key has a byte of its own to lock: a file for each could never be removed.
void cache_lock(const char *folder, const struct digest *key)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    uint32_t at;
    int within = make_folders(folder) ? open_folder(folder) : -1;
    if (within < 0)
        return;
    memcpy(&at, key->bytes, sizeof at);
    lock.l_start = (off_t)at;
    int fd = openat(within, "kernels.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    while (fd >= 0 && fcntl(fd, F_SETLKW, &lock) != 0 && errno == EINTR) {
    }
    close(within); // fd stays open: it is the lock
}
