// SPDX-License-Identifier: GPL-3.0-or-later
// What a conversion reads beside the weights, and its journal, on a disk that refuses: it is said with the file's name,
// there is no package, and the same command makes the one that an undisturbed disk gives.
#include <fcntl.h>
#include <stdarg.h>

#include "tests/convert_rig.h"

#define GLM "tests/golden/ck-glm/checkpoint"

static const char text[] = "{\"a tokenizer's\": \"that nobody reads here\"}\n";

// The calls that fail: those of one kind, to files whose names end so.
static struct {
    const char *call, *name;
} refused;

int __real_open64(const char *path, int flags, ...);
ssize_t __real_pread64(int fd, void *to, size_t length, off_t offset);
int __real_ftruncate64(int fd, off_t length);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t offset);
int __wrap_ftruncate64(int fd, off_t length);

static bool is_refused(const char *call, const char *path)
{
    if (!refused.call || strcmp(refused.call, call) != 0 || !strstr(path, refused.name))
        return false;
    errno = EIO;
    return true;
}

static bool is_refused_to(const char *call, int fd)
{
    if (!refused.call || !is_named(fd, refused.name))
        return false;
    return is_refused(call, refused.name);
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    return is_refused("open", path) ? -1 : __real_open64(path, flags, mode);
}

ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t offset)
{
    return is_refused_to("pread", fd) ? -1 : __real_pread64(fd, to, length, offset);
}

int __wrap_ftruncate64(int fd, off_t length)
{
    return is_refused_to("ftruncate", fd) ? -1 : __real_ftruncate64(fd, length);
}

// The checkpoint with files of a tokenizer beside its weights.
static void make_source(struct harness *t)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r " GLM " '%s'", source, source);
    CHECK_EQ(t, system(command), 0);
    made_text(source, "tokenizer_config.json", text);
    make_undisturbed(t, source);
    CHECK(t, same_file(source, undisturbed, "tokenizer_config.json"));
}

static void goes_on(struct harness *t)
{
    struct moe_err err;
    refused.call = NULL;
    if (!CHECK_EQ(t, convert(source, NULL, &err), 0))
        printf("    %s\n", err.text);
    CHECK(t, same_folder(undisturbed, target));
}

static void a_file_beside_the_weights_that_cannot_be_read(struct harness *t)
{
    static const char *const calls[][2] = {{"pread", "cannot be read"}, {"open", "cannot be opened"}};
    make_source(t);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct moe_err err;
        clear();
        refused.call = calls[i][0];
        refused.name = "source/tokenizer_config.json";
        fails(t, convert(source, NULL, &err), MOE_IO, &err, calls[i][1]);
        CHECK(t, strstr(err.text, refused.name) && err.sys_errno == EIO && access(target, F_OK) != 0);
        goes_on(t);
    }
    // One that was not fetched is none that is not there.
    struct moe_err err;
    clear();
    made_text(source, "tokenizer_config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    fails(t, convert(source, NULL, &err), MOE_NOT_FOUND, &err, "Git LFS pointer");
    CHECK(t, access(target, F_OK) != 0);
}

// The end of a journal that was cut off has to go before a line is added: joined, the two would be none.
static void a_journal_that_cannot_be_cut(struct harness *t)
{
    static const char *const torn[] = {"moechat-conv", NULL}; // NULL: its lines, and the beginning of one
    make_source(t);
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        struct disturbance d = {.check_at = 12};
        struct moe_convert_options options = disturbed(&d);
        struct moe_err err;
        char path[200];
        clear();
        CHECK_EQ(t, convert(source, &options, &err), MOE_CANCELLED);
        snprintf(path, sizeof path, "%s/convert.journal", partial);
        FILE *journal = fopen(path, torn[i] ? "wb" : "ab");
        CHECK(t, journal && fputs(torn[i] ? torn[i] : "layer-00", journal) >= 0 && fclose(journal) == 0);
        refused.call = "ftruncate";
        refused.name = "convert.journal";
        fails(t, convert(source, NULL, &err), MOE_IO, &err, "convert.journal: cannot be written");
        CHECK(t, err.sys_errno == EIO && access(target, F_OK) != 0);
        goes_on(t);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(a_file_beside_the_weights_that_cannot_be_read),
                                                TEST(a_journal_that_cannot_be_cut)};
    if (!begin_conversions())
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    end_conversions();
    return code;
}
