// SPDX-License-Identifier: GPL-3.0-or-later
// JSON from outside, files and errors: what is refused, by which code and sentence, and that a reader of many fields
// gets values in range and the first failure.
#include "tests/harness.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"

static int parse(const char *text, struct json_object **root, struct moe_err *err)
{
    return fields_parse(text, strlen(text), "f.json", root, err);
}

static void only_one_object_is_json(struct harness *t)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "f.json: is not JSON (empty"},
        {"{\"a\":1", "unexpected end"},
        {"{\"a\":1} x", "f.json: is not JSON"},
        {"[1]", "is not a JSON object"},
        {"{\"a\":1,\"a\":2}", "names a field twice"},
        {"{\"b\":[{\"a\":1,\"a\":2}]}", "names a field twice"},
        {"{\"a\":\"x\ny\"}", "has a control character"},
        {"{\"a\":\"\\u0000\"}", "has a NUL"},
        {"{\"a\":\"\xFF\"}", "f.json: is not JSON"},
    };
    struct json_object *root;
    struct moe_err err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(t, parse(bad[i].text, &root, &err), MOE_FORMAT);
        if (!CHECK(t, !root && strstr(err.text, bad[i].says) && strstr(err.text, "again") && !strchr(err.text, '\n')))
            printf("    wanted \"%s\", got \"%s\"\n", bad[i].says, err.text);
        CHECK_STR(t, err.file, "f.json");
    }
    CHECK_EQ(t, fields_parse("{}\0", 3, "f.json", &root, &err), MOE_FORMAT);
    CHECK_EQ(t, parse("{\"a\":{\"b\":[1,{\"a\":\":\"}]}}", &root, &err), 0); // a colon in a string is no member
    json_object_put(root);
    CHECK_EQ(t, parse("[1]", &root, NULL), MOE_FORMAT); // nobody asks why
}

static void fields_are_checked(struct harness *t)
{
    static const char text[] = "{\"n\":7,\"low\":-1,\"big\":18446744073709551615,\"half\":0.5,\"yes\":true,\"no\":null,"
                               "\"name\":\"x\",\"bell\":\"a\\u007f\",\"list\":[1,2,\"3\"],\"inner\":{}}";
    static const struct integer_range small = {2, 9};
    struct json_object *root;
    struct moe_err err;
    char out[4], sum[65];
    CHECK_EQ(t, parse(text, &root, &err), 0);
    const struct fields fresh = {.object = root, .file = "f.json", .prefix = "in.", .err = &err};
    struct fields f = fresh;
    CHECK_EQ(t, fields_integer(&f, "n", small), 7);
    CHECK_EQ(t, fields_integer(&f, "big", (struct integer_range){0, UINT64_MAX}), UINT64_MAX);
    CHECK(t, fields_number(&f, "half", (struct number_range){0, 1}) == 0.5);
    CHECK(t, fields_number(&f, "n", (struct number_range){0, 9}) == 7.0); // a whole number is a number
    CHECK(t, fields_flag(&f, "yes") && fields_has(&f, "n") && !fields_has(&f, "no") && !fields_has(&f, "none"));
    fields_text(&f, "name", out, sizeof out);
    CHECK_STR(t, out, "x");
    CHECK(t, fields_object(&f, "inner") && fields_array(&f, "list", (struct integer_range){1, 3}));
    CHECK_EQ(t, fields_element(&f, "list", 1, small), 2);
    CHECK_EQ(t, f.failed, 0);

    CHECK_EQ(t, fields_integer(&f, "low", small), 2); // in range all the same
    CHECK_EQ(t, f.failed, MOE_FORMAT);
    CHECK_STR(t, err.text, "f.json: in.low: is -1; it must be an integer from 2 to 9");
    CHECK_EQ(t, fields_integer(&f, "n", small), 2); // the first failure stays
    CHECK(t, !fields_flag(&f, "yes") && !fields_array(&f, "list", (struct integer_range){1, 3}));
    fields_text(&f, "name", out, sizeof out);
    CHECK_STR(t, out, "");
    CHECK_STR(t, err.text, "f.json: in.low: is -1; it must be an integer from 2 to 9");

    f = fresh, fields_integer(&f, "none", small);
    CHECK_STR(t, err.text, "f.json: in.none: is missing; it must be an integer");
    f = fresh, fields_integer(&f, "half", small);
    CHECK_STR(t, err.text, "f.json: in.half: is 0.5; it must be an integer");
    f = fresh, fields_number(&f, "n", (struct number_range){0, 1});
    CHECK_STR(t, err.text, "f.json: in.n: is 7; it must be a number from 0 to 1");
    f = fresh, fields_element(&f, "list", 2, small);
    CHECK_STR(t, err.text, "f.json: in.list: is \"3\"; it must be an integer from 2 to 9");
    f = fresh, fields_array(&f, "list", (struct integer_range){4, 5});
    CHECK_STR(t, err.text, "f.json: in.list: has 3 entries; it must have 4 to 5");
    f = fresh, fields_text(&f, "bell", out, sizeof out);
    CHECK_STR(t, err.text, "f.json: in.bell: must be a string of 1 to 3 bytes without control characters");
    f = fresh, fields_sha256(&f, "name", sum);
    CHECK_STR(t, err.text, "f.json: in.name: must be a SHA-256 in 64 lower-case hex digits");
    f = fresh, fields_integer(&f, "inner", small);
    CHECK_STR(t, err.text, "f.json: in.inner: is an object; it must be an integer");
    f = fresh, fields_integer(&f, "list", small);
    CHECK_STR(t, err.text, "f.json: in.list: is a list; it must be an integer");
    json_object_put(root);
}

static void files_are_regular_and_read_whole(struct harness *t)
{
    char path[] = "/tmp/moechat-fields-XXXXXX", bytes[8] = "";
    int fd = mkstemp(path), opened;
    uint64_t size;
    struct moe_err err;
    struct json_object *root;
    CHECK_EQ(t, write(fd, "{\"a\":1}", 7), 7);
    close(fd);
    CHECK_EQ(t, file_open(path, &opened, &size, &err), 0);
    CHECK_EQ(t, size, 7);
    CHECK_EQ(t, file_read(&(struct file_range){opened, path, 1, 5}, bytes, &err), 0);
    CHECK_STR(t, bytes, "\"a\":1");
    errno = EINTR; // of something before
    CHECK_EQ(t, file_read(&(struct file_range){opened, path, 4, 8}, bytes, &err), MOE_IO);
    CHECK(t, err.offset == 7 && err.sys_errno == 0 && strstr(err.text, "is too short") && strcmp(err.file, path) == 0);
    close(opened);
    CHECK_EQ(t, fields_read(path, 7, &root, &err), 0);
    json_object_put(root);
    CHECK_EQ(t, fields_read(path, 6, &root, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "is too large") != NULL);
    unlink(path);
    CHECK_EQ(t, file_open(path, &opened, &size, &err), MOE_NOT_FOUND);
    CHECK(t, err.sys_errno == ENOENT && err.layer == -1 && err.expert == -1);
    CHECK_EQ(t, mkfifo(path, 0600), 0);
    CHECK_EQ(t, file_open(path, &opened, &size, &err), MOE_FORMAT); // and does not wait for a writer
    CHECK(t, opened == -1 && strstr(err.text, "not a regular file"));
    unlink(path);
    CHECK_EQ(t, file_open("/", &opened, &size, &err), MOE_FORMAT);
}

static void paths_have_a_folder_and_a_name(struct harness *t)
{
    static const char *const paths[][3] = {
        {"a/b/c.gguf", "a/b", "c.gguf"},
        {"c.gguf", ".", "c.gguf"},
        {"/c.gguf", "/", "c.gguf"},
        {"a/", "a", ""},
        {"/a/b", "/a", "b"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char folder[16];
        file_folder(paths[i][0], folder, sizeof folder);
        CHECK_STR(t, folder, paths[i][1]);
        CHECK_STR(t, file_base_name(paths[i][0]), paths[i][2]);
    }
    char folder[3];
    file_folder("abcd/e", folder, sizeof folder);
    CHECK_STR(t, folder, "ab");
}

static void errors_carry_their_place(struct harness *t)
{
    struct moe_err err;
    memset(&err, 0x5A, sizeof err);
    CHECK_EQ(t, moe_fail_file(&err, MOE_IO, "a file", EACCES, "cannot be opened"), MOE_IO);
    CHECK_STR(t, err.text, "a file: cannot be opened: Permission denied");
    CHECK_STR(t, err.file, "a file");
    CHECK_EQ(t, err.sys_errno, EACCES);
    CHECK_EQ(t, moe_fail(&err, MOE_FORMAT, "%d of %s", 3, "them"), MOE_FORMAT);
    CHECK_STR(t, err.text, "3 of them");
    CHECK(t, err.file[0] == 0 && err.sys_errno == 0 && err.layer == -1 && err.expert == -1); // nothing of the last one
    CHECK_EQ(t, moe_fail(NULL, MOE_FORMAT, "said to nobody"), MOE_FORMAT);
}

// "{"list":[1" with n items behind it, made of `format` with their number twice. NULL: no memory.
static char *full_of(const char *format, int n, size_t *length)
{
    enum { ITEM = 200 };
    char *text = malloc(32 + (size_t)n * ITEM);
    size_t at = text ? (size_t)sprintf(text, "{\"list\":[1") : 0;
    for (int i = 0; i < n && text; i++)
        at += (size_t)snprintf(text + at, ITEM, format, i, i);
    if (text)
        *length = at + (size_t)sprintf(text + at, "]}");
    return text;
}

// Three megabytes of them took json-c 800.
static void objects_with_nothing_in_them(struct harness *t)
{
    static const char *const empty[] = {",{}", ",[{}]", ",{\"\":0}", ",{\"a\":[]}"};
    struct json_object *root;
    struct moe_err err;
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        for (int n = 1000; n <= 1000000; n *= 1000) {
            size_t length;
            char *text = full_of(empty[i], n, &length);
            if (!CHECK(t, text != NULL))
                return;
            CHECK_EQ(t, fields_parse(text, length, "dir/f.json", &root, &err), n == 1000 ? MOE_OK : MOE_FORMAT);
            CHECK_EQ(t, root != NULL, n == 1000);
            if (n > 1000)
                CHECK_STR(t, err.text, "dir/f.json: is full of empty objects; download or convert it again");
            json_object_put(root);
            free(text);
        }
}

// More of each than there is in any: tensors of a safetensors header, entries of an index, files of a list.
static void what_files_are_full_of(struct harness *t)
{
    static const struct {
        const char *format;
        int n;
    } files[] = {{",{\"%d.%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,0]}}", 100000},
                 {",\"model.layers.%d.mlp.experts.%d.gate_proj.weight\",\"model-00001-of-00100.safetensors\"", 200000},
                 {",{\"rfilename\":\"%d\"}", 100000}};
    struct json_object *root;
    struct moe_err err;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t length;
        char *text = full_of(files[i].format, files[i].n, &length);
        if (!CHECK(t, text != NULL))
            return;
        if (!CHECK_EQ(t, fields_parse(text, length, "f.json", &root, &err), MOE_OK))
            printf("    %s\n", err.text);
        json_object_put(root);
        free(text);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(only_one_object_is_json),        TEST(fields_are_checked),       TEST(files_are_regular_and_read_whole),
        TEST(paths_have_a_folder_and_a_name), TEST(errors_carry_their_place), TEST(objects_with_nothing_in_them),
        TEST(what_files_are_full_of),
    };
    return HARNESS_RUN(tests, argc, argv);
}
