// SPDX-License-Identifier: GPL-3.0-or-later
// JSON of tokenizers' files: what is refused, and in how much memory; what real files have is not.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "tokenizer/json_text.h"

static int parse(const char *text, size_t length, struct json_object **root, struct tok_err *err)
{
    return json_text_parse(text, length, "dir/tokenizer.json", root, err);
}

static void only_one_object_is_json(struct harness *t)
{
    static const char *const bad[] = {"", "[1]", "null", "{\"a\":1", "{\"a\":1} x", "{\"a\":\"\xFF\"}"};
    struct json_object *root;
    struct tok_err err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(t, parse(bad[i], strlen(bad[i]), &root, &err), TOK_FORMAT);
        CHECK(t, !root);
        CHECK_STR(t, err.text, "dir/tokenizer.json: it is not a JSON object: fetch the file again");
    }
    static const char twice[] = "{\"a\":{\"b\":[1,{\"a\":\":{\"}]},\"a\":2}";
    CHECK_EQ(t, parse(twice, sizeof twice - 1, &root, NULL), TOK_OK); // the last value is its
    CHECK_EQ(t, json_object_get_int(json_object_object_get(root, "a")), 2);
    json_object_put(root);
}

// transformers writes such a number where a tokenizer has no limit; newer versions of json-c refuse it where they are
// strict.
static void numbers_and_letters_that_json_c_is_strict_about(struct harness *t)
{
    static const char text[] =
        "{\"model_max_length\": 1000000000000000019884624838656, \"pad\": \"<\xEF\xBD\x9C>\"}\n \t\r";
    struct json_object *root;
    struct tok_err err;
    CHECK_EQ(t, parse(text, sizeof text - 1, &root, &err), TOK_OK);
    CHECK_STR(t, json_object_get_string(json_object_object_get(root, "pad")), "<\xEF\xBD\x9C>");
    json_object_put(root);
}

// "{"model":[1" with `item` behind it n times: the last byte but one is its end. NULL: no memory.
static char *full_of(const char *item, size_t n, size_t *length)
{
    static const char head[] = "{\"model\":[1";
    size_t each = strlen(item), at = sizeof head - 1;
    char *text = malloc(at + n * each + 3);
    if (!text)
        return NULL;
    memcpy(text, head, at);
    for (size_t i = 0; i < n; i++, at += each)
        memcpy(text + at, item, each);
    memcpy(text + at, "]}", 3);
    *length = at + 2;
    return text;
}

// Three megabytes of them took json-c 800.
static void objects_with_nothing_in_them(struct harness *t)
{
    static const char *const empty[] = {",{}", ",[{}]", ",{\"\":0}", ",{\"a\":[]}"};
    struct json_object *root;
    struct tok_err err;
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        for (size_t n = 1000; n <= 1000000; n *= 1000) {
            size_t length;
            char *text = full_of(empty[i], n, &length);
            if (!CHECK(t, text != NULL))
                return;
            CHECK_EQ(t, parse(text, length, &root, &err), n == 1000 ? TOK_OK : TOK_FORMAT);
            CHECK_EQ(t, root != NULL, n == 1000);
            if (n > 1000)
                CHECK_STR(t, err.text, "dir/tokenizer.json: it is full of empty objects: fetch the file again");
            json_object_put(root);
            free(text);
        }
}

// Merges as pairs, and added tokens, more than any file has.
static void what_files_are_full_of(struct harness *t)
{
    static const char *const items[] = {",[\"t\",\"h\"]", ",{\"id\":7,\"content\":\"x\"}"};
    struct json_object *root;
    struct tok_err err;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        size_t length;
        char *text = full_of(items[i], 250000, &length);
        if (!CHECK(t, text != NULL))
            return;
        if (!CHECK_EQ(t, parse(text, length, &root, &err), TOK_OK))
            printf("    %s\n", err.text);
        json_object_put(root);
        free(text);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(only_one_object_is_json),
                                                TEST(numbers_and_letters_that_json_c_is_strict_about),
                                                TEST(objects_with_nothing_in_them), TEST(what_files_are_full_of)};
    return HARNESS_RUN(tests, argc, argv);
}
