// SPDX-License-Identifier: GPL-3.0-or-later
// Tokenizers from a GGUF's arrays: their ids are those of the tokenizer.json or tiktoken.model that the arrays come
// from, which test_bpe compares with the libraries. Run from the root of the tree: reads tests/unit/data.
#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"
#include "tests/pieces_rig.h"

#define DATA   "tests/unit/data/"
#define GAP    "\xE2\x96\x81"
#define BAR(x) "<\xEF\xBD\x9C" x "\xEF\xBD\x9C>"
// Added tokens of bpe-v2.json that take in the spaces around them.
#define STRIPS "\xC3\xB6\xC3\xB6 \xC3\xBC\xC3\xBC"

static tok *open_rig(struct harness *t, const struct pieces_rig *rig)
{
    tok *tokenizer = NULL;
    struct tok_err err = {0};
    if (!CHECK_EQ(t, tok_open_pieces(&rig->pieces, &tokenizer, &err), TOK_OK))
        printf("    %s\n", err.text);
    return tokenizer;
}

static bool same_ids(const tok *const both[2], const char *text, size_t length)
{
    struct tok_ids lists[2] = {{0}, {0}};
    bool same = true;
    for (int i = 0; i < 2; i++)
        same = same && tok_encode(both[i], text, length, &lists[i], NULL) == TOK_OK;
    same = same && lists[0].count == lists[1].count &&
           memcmp(lists[0].ids, lists[1].ids, lists[0].count * sizeof *lists[0].ids) == 0;
    for (int i = 0; i < 2; i++)
        tok_ids_release(&lists[i]);
    return same;
}

// The texts of make_small_bpe.py, then random bytes and marks.
static void compare(struct harness *t, const tok *const both[2])
{
    static const char *const parts[] = {"<think>",  " ",  "the",      "\n",       "[PAD12]", BAR("User"),
                                        "<|user|>", "12", "\xC3\xBC", "/nothink", "\xFF",    "<|im_end|>"};
    static char text[65536];
    FILE *texts = fopen(DATA "nasty.bin", "rb");
    unsigned char size[2];
    int count = 0, wrong = 0;
    uint32_t random = 1;
    if (!CHECK(t, texts && both[0] && both[1]))
        return;
    for (; fread(size, 1, 2, texts) == 2; count++) {
        size_t length = size[0] | (size_t)size[1] << 8;
        CHECK_EQ(t, fread(text, 1, length, texts), length);
        if (!same_ids(both, text, length) && wrong++ == 0)
            printf("    text %d: %.*s\n", count, (int)length, text);
    }
    CHECK_EQ(t, count, 5200);
    for (count = 0; count < 2000; count++) {
        size_t length = 0;
        for (int i = 0; i < count % 40; i++) {
            random = random * 1664525u + 1013904223u;
            size_t part = random >> 24;
            if (part < sizeof parts / sizeof parts[0] * 16)
                length += (size_t)sprintf(text + length, "%s", parts[part / 16]);
            else
                text[length++] = (char)(random >> 16);
        }
        wrong += !same_ids(both, text, length);
    }
    CHECK_EQ(t, wrong, 0);
    fclose(texts);
}

// What an id stands for. A mark of the files may be a control symbol of the arrays, which is not shown.
static void compare_pieces(struct harness *t, const tok *const both[2])
{
    if (!both[0] || !both[1])
        return;
    CHECK_EQ(t, tok_vocab_size(both[0]), tok_vocab_size(both[1]));
    for (int32_t id = 0; id < (int32_t)tok_vocab_size(both[1]); id++) {
        const char *bytes[2];
        size_t length[2];
        for (int i = 0; i < 2; i++)
            length[i] = tok_bytes(both[i], id, &bytes[i]);
        if (length[0] == 0 && length[1] > 0) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)length[1], bytes[1]);
            CHECK_EQ(t, tok_control(both[0], name), id);
        } else {
            CHECK(t, length[0] == length[1] && memcmp(bytes[0], bytes[1], length[0]) == 0);
        }
    }
}

static void ids_are_those_of_tokenizer_json(struct harness *t)
{
    static const char *const files[][2] = {
        {DATA "bpe-v3.json", "deepseek-v3"}, {DATA "bpe-glm.json", "glm4"}, {DATA "bpe-glm.json", "chatglm-bpe"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct pieces_rig *rig = rig_json(files[i][0], files[i][1], NULL);
        tok *wanted = NULL, *made = open_rig(t, rig);
        free(rig); // everything has been copied
        CHECK_EQ(t, tok_open("huggingface", files[i][0], &wanted, NULL), TOK_OK);
        compare(t, (const tok *const[]){made, wanted});
        compare_pieces(t, (const tok *const[]){made, wanted});
        tok_close(made);
        tok_close(wanted);
    }
}

// bpe-v2.json without the tokens whose flags a GGUF does not have.
static void ids_of_deepseek_v2(struct harness *t)
{
    struct pieces_rig *rig = rig_json(DATA "bpe-v2.json", "deepseek-llm", STRIPS);
    struct json_object *root = json_object_from_file(DATA "bpe-v2.json"), *kept = json_object_new_array();
    struct json_object *added = json_object_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        struct json_object *token = json_object_array_get_idx(added, i);
        if (!strstr(STRIPS, json_object_get_string(json_object_object_get(token, "content"))))
            json_object_array_add(kept, json_object_get(token));
    }
    CHECK_EQ(t, json_object_array_length(kept), 14); // the letters of STRIPS alone are left out, too
    json_object_object_add(root, "added_tokens", kept);
    char path[] = "/tmp/moechat-pieces-XXXXXX";
    int fd = mkstemp(path);
    tok *wanted = NULL, *made = open_rig(t, rig);
    CHECK(t, fd >= 0 && json_object_to_fd(fd, root, JSON_C_TO_STRING_PLAIN) == 0);
    CHECK_EQ(t, tok_open("huggingface", path, &wanted, NULL), TOK_OK);
    compare(t, (const tok *const[]){made, wanted});
    tok_close(made);
    tok_close(wanted);
    free(rig);
    json_object_put(root);
    close(fd);
    remove(path);
}

static void ids_of_kimi(struct harness *t)
{
    struct pieces_rig *rig = rig_tiktoken(DATA "kimi/tiktoken.model", DATA "kimi/tokenizer_config.json");
    tok *wanted = NULL;
    CHECK_EQ(t, tok_open("tiktoken", DATA "kimi/tiktoken.model", &wanted, NULL), TOK_OK);
    for (int merges = 0; merges < 2; merges++) { // whatever the file's merges are
        if (merges)
            rig_merge(rig, "x", "y");
        tok *made = open_rig(t, rig);
        compare(t, (const tok *const[]){made, wanted});
        compare_pieces(t, (const tok *const[]){made, wanted});
        tok_close(made);
    }
    tok_close(wanted);
    free(rig);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(ids_are_those_of_tokenizer_json),
        TEST(ids_of_deepseek_v2),
        TEST(ids_of_kimi),
    };
    return HARNESS_RUN(tests, argc, argv);
}
