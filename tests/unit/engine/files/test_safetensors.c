// SPDX-License-Identifier: GPL-3.0-or-later
// Headers of safetensors files, good ones and hostile ones.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness.h"
#include "engine/files/safetensors.h"

static char folder[] = "/tmp/moechat-safetensors-XXXXXX";

// Writes the 8 length bytes, the header (with ' for ") and data_bytes bytes that count up from 0.
static const char *written(const char *header, uint64_t header_bytes, size_t data_bytes)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)(header_bytes >> (8 * i) & 255), file);
    for (const char *c = header; *c; c++)
        fputc(*c == '\'' ? '"' : *c, file);
    for (size_t i = 0; i < data_bytes; i++)
        fputc((int)(i & 255), file);
    fclose(file);
    return path;
}

static void tensors_are_found_and_read(struct harness *t)
{
    const char *header = "{'__metadata__':{'format':'pt'},"
                         "'b':{'dtype':'U32','shape':[2,3],'data_offsets':[4,28]},"
                         "'a':{'dtype':'BF16','shape':[2],'data_offsets':[0,4]},"
                         "'none':{'dtype':'F32','shape':[3,0],'data_offsets':[4,4]},"
                         "'scalar':{'dtype':'I64','shape':[],'data_offsets':[28,36]}}   ";
    struct tensor_file file;
    struct moe_err err = {0};
    if (!CHECK_EQ(t, safetensors_open(written(header, strlen(header), 36), &file, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    CHECK_EQ(t, file.count, 4);
    CHECK(t, tensor_file_find(&file, "c") == NULL && tensor_file_find(&file, "") == NULL);
    CHECK(t, tensor_file_find(&file, "__metadata__") == NULL);
    const struct tensor *b = tensor_file_find(&file, "b");
    const struct tensor *scalar = tensor_file_find(&file, "scalar");
    if (CHECK(t, b && scalar && tensor_file_find(&file, "a") && tensor_file_find(&file, "none"))) {
        CHECK_EQ(t, b->dtype, DTYPE_U32);
        CHECK_EQ(t, b->n_dims, 2);
        CHECK_EQ(t, b->dims[0] * 10 + b->dims[1], 23);
        CHECK_EQ(t, b->bytes, 24);
        CHECK_EQ(t, scalar->n_dims, 0);
        CHECK_EQ(t, scalar->bytes, 8);
        unsigned char bytes[24];
        CHECK_EQ(t, tensor_file_read(&file, b, bytes, &err), MOE_OK);
        CHECK_EQ(t, bytes[0], 4);
        CHECK_EQ(t, bytes[23], 27);
        CHECK_EQ(t, truncate(file.path, 8 + (off_t)strlen(header) + 20), 0);
        CHECK_EQ(t, tensor_file_read(&file, b, bytes, &err), MOE_IO);
        CHECK(t, strstr(err.text, "is too short") && strcmp(err.file, file.path) == 0);
        CHECK_EQ(t, err.offset, 8 + strlen(header) + 20);
    }
    tensor_file_release(&file);
}

static void bad_headers_are_refused(struct harness *t)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *says;
    } cases[] = {
        {"", 0, "header would not fit"},
        {"[]", 0, "not a JSON object"},
        {"{", 0, "not JSON"},
        {"{}x", 0, "not JSON"},
        {"{}", 1, "is 11 bytes, its tensors need 10"},
        {"{'a':7}", 0, "a: is 7; it must be an object"},
        {"{'a':{'dtype':'U32','shape':[1],'data_offsets':[0,4]}}", 3,
         "a.data_offsets: reach to 4 and the file has 3: it is cut short"},
        {"{'a':{'dtype':'U32','shape':[2],'data_offsets':[0,4]}}", 4, "a.data_offsets: hold 4 bytes"},
        {"{'a':{'dtype':'U32','shape':[1],'data_offsets':[4,0]}}", 4, "data_offsets"},
        {"{'a':{'dtype':'U32','shape':[1],'data_offsets':[0,4,8]}}", 4, "data_offsets: has 3 entries"},
        {"{'a':{'dtype':'U32','shape':[1],'data_offsets':[-1,3]}}", 4, "data_offsets: is -1"},
        {"{'a':{'dtype':'U32','shape':[1.0],'data_offsets':[0,4]}}", 4, "shape: is 1.0"},
        {"{'a':{'dtype':'U32','shape':[1,1,1,1,1,1,1],'data_offsets':[0,4]}}", 4, "shape: has 7 entries"},
        {"{'a':{'dtype':'U32','shape':[4294967296,4294967296],'data_offsets':[0,0]}}", 0, "hold 0 bytes"},
        {"{'a':{'dtype':'U32','shape':[4611686018427387905],'data_offsets':[0,4]}}", 4, "hold 4 bytes"},
        {"{'a':{'dtype':'U32','shape':[18446744073709551617],'data_offsets':[0,4]}}", 4, "a.shape: is"},
        {"{'a':{'dtype':'Q4','shape':[1],'data_offsets':[0,4]}}", 4, "dtype: is \"Q4\""},
        {"{'a':{'shape':[1],'data_offsets':[0,4]}}", 4, "a.dtype: is missing"},
        {"{'a':{'dtype':'U32','data_offsets':[0,4]}}", 4, "a.shape: is missing"},
        {"{'a':{'dtype':'U32','shape':[1]}}", 0, "a.data_offsets: is missing"},
        {"{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'b':{'dtype':'U8','shape':[2],'data_offsets':[1,3]}}", 3,
         "b: its data overlaps"},
        {"{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'b':{'dtype':'U8','shape':[2],'data_offsets':[3,5]}}", 5,
         "b: its data comes after a hole"},
        {"{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 3, "its tensors need"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},'a':{'dtype':'U8','shape':[1],'data_offsets':[1,2]}}", 2,
         "names a field twice"},
        {"{'a\\u0000':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}", 1, "NUL"},
        {"{'a\\n':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}", 1, "printable ASCII"},
        {"{'':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}", 1, "printable ASCII"},
        {"{'\xff':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}", 1, "not JSON"},
        {"{'a':[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}", 0, "nesting"},
        {"{/**/}", 0, "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor_file file;
        struct moe_err err = {0};
        const char *path = written(cases[i].header, strlen(cases[i].header), cases[i].data_bytes);
        int code = safetensors_open(path, &file, &err);
        if (!CHECK(t, code != MOE_OK && (int)err.code == code && strstr(err.text, cases[i].says) && file.fd == -1))
            printf("    %s: code %d, \"%s\"\n", cases[i].header, code, err.text);
        if (code == MOE_OK)
            tensor_file_release(&file);
    }
}

static void lengths_beyond_the_file_are_refused(struct harness *t)
{
    static const uint64_t lengths[] = {3, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct tensor_file file;
        struct moe_err err = {0};
        CHECK_EQ(t, safetensors_open(written("{}", lengths[i], 0), &file, &err), MOE_FORMAT);
        CHECK(t, strstr(err.text, i ? "header would not fit" : "ends in the middle of its header: it is cut short") !=
                     NULL);
    }
}

static void long_headers_are_refused_unread(struct harness *t)
{
    struct tensor_file file;
    struct moe_err err = {0};
    const char *path = written("{}", (32 << 20) + 1, 0);
    CHECK_EQ(t, truncate(path, 64 << 20), 0);
    CHECK_EQ(t, safetensors_open(path, &file, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "header would not fit") != NULL);
}

// What git clone leaves without git-lfs: a few lines of text under the file's name.
static void a_pointer_says_how_to_fetch(struct harness *t)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
                                  "size 4995584424\n";
    char path[sizeof folder + 32];
    struct tensor_file file;
    struct moe_err err = {.text = ""};
    snprintf(path, sizeof path, "%s/pointer.safetensors", folder);
    FILE *out = fopen(path, "w");
    fputs(pointer, out);
    fclose(out);
    CHECK_EQ(t, safetensors_open(path, &file, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, "pointer.safetensors") && strstr(err.text, "run git lfs pull"));
    CHECK_EQ(t, err.cause, MOE_CAUSE_POINTER);
    unlink(path);
    CHECK_EQ(t, safetensors_open(path, &file, &err), MOE_NOT_FOUND);
    CHECK_EQ(t, err.cause, MOE_CAUSE_OTHER);
}

static void what_is_no_file_is_refused(struct harness *t)
{
    struct tensor_file file;
    struct moe_err err = {0};
    char path[64];
    CHECK_EQ(t, safetensors_open(folder, &file, &err), MOE_FORMAT);
    snprintf(path, sizeof path, "%s/pipe", folder);
    CHECK_EQ(t, mkfifo(path, 0600), 0);
    CHECK_EQ(t, safetensors_open(path, &file, &err), MOE_FORMAT);
    unlink(path);
    snprintf(path, sizeof path, "%s/missing", folder);
    CHECK_EQ(t, safetensors_open(path, &file, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, path) && err.sys_errno != 0);
    snprintf(path, sizeof path, "%s/link", folder);
    CHECK_EQ(t, symlink(written("{}", 2, 0), path), 0);
    if (CHECK_EQ(t, safetensors_open(path, &file, &err), MOE_OK))
        tensor_file_release(&file);
    unlink(path);
}

static int lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void refused_files_are_closed(struct harness *t)
{
    struct tensor_file file;
    struct moe_err err;
    int before = lowest_free();
    const uint64_t lengths[] = {0, 1, 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        CHECK(t, safetensors_open(written("[]", lengths[i], 0), &file, &err) != MOE_OK && file.fd == -1);
    CHECK_EQ(t, lowest_free(), before);
    if (CHECK_EQ(t, safetensors_open(written("{}", 2, 0), &file, &err), MOE_OK))
        tensor_file_release(&file);
    CHECK_EQ(t, lowest_free(), before);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(refused_files_are_closed),        TEST(tensors_are_found_and_read),
        TEST(bad_headers_are_refused),         TEST(lengths_beyond_the_file_are_refused),
        TEST(long_headers_are_refused_unread), TEST(a_pointer_says_how_to_fetch),
        TEST(what_is_no_file_is_refused),
    };
    if (!mkdtemp(folder))
        return 2;
    int code = HARNESS_RUN(tests, argc, argv);
    char path[64];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return code;
}
