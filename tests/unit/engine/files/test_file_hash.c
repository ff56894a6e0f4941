// SPDX-License-Identifier: GPL-3.0-or-later
// The SHA-256 of files of every kind of size, from the disk and from memory; what is shorter than it should be is
// refused.
#include "engine/files/file_hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness.h"

static char path[] = "/tmp/moechat-hash-XXXXXX";

static void write_file(const unsigned char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fflush(file) || fsync(fileno(file)) || fclose(file))
        exit(70);
}

struct watch {
    uint64_t done;
    int checks, stop_at; // 0: never
};

static bool is_cancelled(void *context)
{
    struct watch *watch = context;
    return ++watch->checks == watch->stop_at;
}

static void count(void *context, uint64_t bytes)
{
    ((struct watch *)context)->done += bytes;
}

static void sizes_and_ways(struct harness *t)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000, 9000001};
    unsigned char *data = malloc(9000001);
    if (!CHECK(t, data != NULL))
        return;
    for (size_t i = 0; i < 9000001; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char digest[EVP_MAX_MD_SIZE];
        char want[65] = "", got[65];
        struct moe_err err = {.text = ""};
        EVP_Digest(data, sizes[i], digest, NULL, EVP_sha256(), NULL);
        for (size_t k = 0; k < 32; k++)
            snprintf(want + 2 * k, 3, "%02x", digest[k]);
        write_file(data, sizes[i]);
        for (int way = 0; way < 3; way++) {
            struct watch watch = {0};
            bool cached = false;
            errno = EINTR; // of some call before
            const struct file_hashing how = {.path = path,
                                             .bytes = sizes[i],
                                             .from_disk = way > 0,
                                             .without_direct = way == 2,
                                             .cached = &cached,
                                             .cancelled = is_cancelled,
                                             .advanced = count,
                                             .context = &watch};
            CHECK_EQ(t, file_hash(&how, got, &err), 0);
            CHECK_STR(t, got, want);
            CHECK_EQ(t, watch.done, sizes[i]);
            CHECK(t, !cached || way > 0);
        }
        for (int way = 0; way < 2; way++) { // one byte more than there is
            const struct file_hashing how = {.path = path, .bytes = sizes[i] + 1, .from_disk = way > 0};
            CHECK_EQ(t, file_hash(&how, got, &err), MOE_IO);
            CHECK(t, strstr(err.text, path) && strstr(err.text, "too short"));
        }
    }
    struct watch watch = {.stop_at = 1};
    struct moe_err err = {.text = ""};
    char hex[65];
    const struct file_hashing how = {
        .path = path, .bytes = 9000001, .cancelled = is_cancelled, .advanced = count, .context = &watch};
    CHECK_EQ(t, file_hash(&how, hex, &err), MOE_CANCELLED);
    CHECK(t, watch.checks == 1 && watch.done == 0);
    free(data);
}

static void a_file_that_is_not_there(struct harness *t)
{
    struct moe_err err = {.text = ""};
    char hex[65];
    CHECK_EQ(t, file_hash(&(struct file_hashing){.path = "/tmp/moechat-none", .bytes = 1}, hex, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, "/tmp/moechat-none") != NULL);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(sizes_and_ways), TEST(a_file_that_is_not_there)};
    int fd = mkstemp(path);
    if (fd < 0)
        return 2;
    close(fd);
    int code = HARNESS_RUN(tests, argc, argv);
    unlink(path);
    return code;
}
