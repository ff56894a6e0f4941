// SPDX-License-Identifier: GPL-3.0-or-later
// Which template a model gets that brings none: DeepSeek-V3.2's own, nobody else's; and that a damaged one is no
// missing one. What its tokenizer is known by.
#include "app/driver/model_tokenizer.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"

static void only_v32_has_one_by_its_type(struct harness *t)
{
    static const char *const types[][2] = {{"deepseek_v32", "deepseek-v3.2"}, {"deepseek_v3", ""}, {"glm_moe_dsa", ""}};
    char folder[] = "/tmp/moechat-template-XXXXXX";
    if (!CHECK(t, mkdtemp(folder) != NULL))
        return;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct moe_description about = {.name = "x"};
        struct model_tokenizer own = {.kind = ""};
        struct moe_err err;
        snprintf(about.model_type, sizeof about.model_type, "%s", types[i][0]);
        CHECK_EQ(t, model_tokenizer_find_template(folder, &about, &own, &err), 0);
        CHECK_STR(t, own.template_name, types[i][1]);
        // What it brings counts, also when nobody knows it.
        own = (struct model_tokenizer){.has_template = true};
        CHECK_EQ(t, model_tokenizer_find_template(folder, &about, &own, &err), 0);
        CHECK_STR(t, own.template_name, "");
    }
    CHECK_EQ(t, rmdir(folder), 0);
}

// A model that says nothing of a template and a file that is damaged are two things.
static void a_damaged_config_is_said(struct harness *t)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    char folder[] = "/tmp/moechat-template-XXXXXX", path[64];
    struct moe_description about = {.name = "x"};
    struct model_tokenizer own = {.kind = ""};
    struct moe_err err = {.text = ""};
    if (!CHECK(t, mkdtemp(folder) != NULL))
        return;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *out = fopen(path, "wb");
        CHECK(t, out && fputs("{\"chat_template\"", out) >= 0 && fclose(out) == 0);
    }
    CHECK(t, model_tokenizer_find_template(folder, &about, &own, &err) != 0);
    CHECK(t, strstr(err.text, "tokenizer_config.json: it is not a JSON object: fetch the file again") != NULL);
    CHECK_EQ(t, unlink(path), 0);
    snprintf(path, sizeof path, "%s/%s", folder, names[0]);
    CHECK(t, unlink(path) == 0 && rmdir(folder) == 0);
}

// A GGUF's own vocabulary: as many pieces as the model has ids for, and one too many.
static void a_file_has_its_own(struct harness *t)
{
    static const char path[] = "tests/golden/gguf-chat/checkpoint/chat.gguf";
    struct moe_description about = {.vocabulary = true, .vocab_size = UINT32_MAX};
    struct model_tokenizer own;
    struct moe_err err = {.text = ""};
    if (!CHECK_EQ(t, model_tokenizer_open(path, &about, &own, &err), 0)) {
        printf("    %s\n", err.text);
        return;
    }
    uint32_t pieces = tok_vocab_size(own.tokenizer);
    CHECK(t, pieces > 256 && strlen(own.digest) == 16);
    CHECK_STR(t, own.kind, "gguf");
    tok_close(own.tokenizer);
    about.vocab_size = pieces;
    CHECK_EQ(t, model_tokenizer_open(path, &about, &own, &err), 0);
    tok_close(own.tokenizer);
    about.vocab_size = pieces - 1;
    CHECK_EQ(t, model_tokenizer_open(path, &about, &own, &err), MOE_FORMAT);
    CHECK(t, !own.tokenizer && strstr(err.text, "more than the model's vocab_size of ") != NULL);
    about.vocabulary = false;
    CHECK_EQ(t, model_tokenizer_open(path, &about, &own, &err), MOE_UNSUPPORTED);
    CHECK(t, !own.tokenizer && strstr(err.text, "no tokenizer, so it cannot chat") != NULL);
}

// What is bound to one stays valid with the next program.
static void digests_are_as_older_programs_had_them(struct harness *t)
{
    static const char *const files[][3] = {{"sentencepiece", "tests/unit/data/small.model", "a63a17d2f94b1cb8"},
                                           {"huggingface", "tests/unit/data/bpe-v3.json", "c62bcd16c8884e33"},
                                           {"tiktoken", "tests/unit/data/kimi/tiktoken.model", "696ce702c4fd607a"},
                                           {"", "tests/golden/gguf-chat/checkpoint/chat.gguf", "854a667466eac5c8"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct moe_description about = {.vocabulary = !*files[i][0], .vocab_size = UINT32_MAX};
        struct model_tokenizer own;
        struct moe_err err = {.text = ""};
        snprintf(about.tokenizer_type, sizeof about.tokenizer_type, "%s", files[i][0]);
        snprintf(about.tokenizer_file, sizeof about.tokenizer_file, "%s", about.vocabulary ? "" : files[i][1]);
        if (CHECK_EQ(t, model_tokenizer_open(files[i][1], &about, &own, &err), 0))
            CHECK_STR(t, own.digest, files[i][2]);
        tok_close(own.tokenizer);
    }
}

// The ids of a conversation with that template, and the digest that they are bound to.
static struct tok_ids fed(struct harness *t, const char *file, const char *template_name, char digest[17])
{
    static const struct tok_turn turns[] = {{TOK_USER, "My name", 7}, {TOK_ASSISTANT, "is a", 4}, {TOK_USER, "b", 1}};
    const struct tok_prompt prompt = {.turns = turns, .n_turns = 3, .begin = true, .thinking = true};
    struct moe_description about = {.tokenizer_type = "tiktoken", .vocab_size = UINT32_MAX};
    struct model_tokenizer own;
    struct tok_ids ids = {0};
    struct tok_err tok_err;
    struct moe_err err = {.text = ""};
    tok_template *template = NULL;
    snprintf(about.tokenizer_file, sizeof about.tokenizer_file, "%s", file);
    *digest = 0;
    if (CHECK_EQ(t, model_tokenizer_open(file, &about, &own, &err), 0) &&
        CHECK_EQ(t, tok_template_open(template_name, own.tokenizer, &template, &tok_err), TOK_OK)) {
        CHECK_EQ(t, tok_template_encode(template, &prompt, &ids, NULL, &tok_err), TOK_OK);
        model_tokenizer_bind(&own, template);
        memcpy(digest, own.digest, sizeof own.digest);
    }
    tok_template_close(template);
    tok_close(own.tokenizer);
    return ids;
}

// Beside the copy of one's ranks in `folder`: its tokenizer_config.json as sed changes it.
static void change_symbols(struct harness *t, const char *from, const char *change, const char *folder)
{
    char command[400];
    snprintf(command, sizeof command, "cp %s/tiktoken.model %s && sed '%s' %s/tokenizer_config.json >%s/%s", from,
             folder, change, from, folder, "tokenizer_config.json");
    CHECK_EQ(t, system(command), 0);
}

// Kimi's control symbols come from a file beside the one that is digested. Where they make other ids it is another
// tokenizer, and nowhere else: with those of Kimi's own files it is the one that older programs knew by its ranks.
static void other_symbols_are_another_tokenizer(struct harness *t)
{
    static const char swap[] = "s/im_user/x/;s/im_assistant/im_user/;s/<|x|>/<|im_assistant|>/";
    static const char k2[] = "tests/unit/data/kimi", k3[] = "tests/golden/ck-kimi-k3-chat/checkpoint";
    static const struct {
        const char *from, *template_name, *change;
        bool other;
    } cases[] = {{k2, "kimi-linear", "", false},
                 {k2, "kimi-linear", swap, true},
                 {k2, "kimi-linear", "s/.think>/&s/;s/BOS/ANY/", false}, // nothing that it writes
                 {k2, "kimi-k2.5", "s/think>/&s/", true},                // there it is text
                 {k2, "kimi-k2.5", "s/<think>/<x>/;s/<.think>/<think>/;s/<x>/<\\/think>/", true},
                 {k2, "kimi-k2", swap, true},
                 {k2, "kimi-k2-thinking", "", false},
                 {k2, "moonlight", "s/\\[PAD\\]/<|im_middle|>/", false}, // the first of two
                 {k2, "moonlight", "s/\\[EOT\\]/<|im_middle|>/", true},
                 {k3, "kimi-k3", "", false},
                 {k3, "kimi-k3", "s/<|sep|>/x/;s/\\[EOS\\]/<|sep|>/", true}};
    char folder[] = "/tmp/moechat-symbols-XXXXXX", files[2][96], digests[2][17];
    if (!CHECK(t, mkdtemp(folder) != NULL))
        return;
    snprintf(files[1], sizeof files[1], "%s/tiktoken.model", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        change_symbols(t, cases[i].from, cases[i].change, folder);
        snprintf(files[0], sizeof files[0], "%s/tiktoken.model", cases[i].from);
        struct tok_ids before = fed(t, files[0], cases[i].template_name, digests[0]);
        struct tok_ids ids = fed(t, files[1], cases[i].template_name, digests[1]);
        bool same = ids.count == before.count && memcmp(ids.ids, before.ids, ids.count * sizeof *ids.ids) == 0;
        CHECK_STR(t, digests[0], "696ce702c4fd607a");
        if (!CHECK_EQ(t, same, !cases[i].other) || !CHECK_EQ(t, strcmp(digests[0], digests[1]) == 0, same) ||
            !CHECK_EQ(t, strlen(digests[1]), 16))
            printf("    case %zu\n", i);
        tok_ids_release(&before);
        tok_ids_release(&ids);
    }
    // Symbols that none of Kimi's files has.
    for (int i = 0; i < 2; i++) {
        change_symbols(t, k2, i ? "s/.EOT./<|im_start|>/" : "s/.BOS./<|im_start|>/", folder);
        struct tok_ids ids = fed(t, files[1], "chatml", digests[i]);
        CHECK(t, ids.count && strcmp(digests[i], "696ce702c4fd607a") != 0);
        tok_ids_release(&ids);
    }
    CHECK(t, strcmp(digests[0], digests[1]) != 0);
    snprintf(files[0], sizeof files[0], "%s/tokenizer_config.json", folder);
    CHECK(t, unlink(files[0]) == 0 && unlink(files[1]) == 0 && rmdir(folder) == 0);
}

// A copy of the GGUF whose key is another number now; what that makes of a text, and what it is bound to.
static size_t ids_with(struct harness *t, const char *key, int32_t id, int32_t ids[8], char digest[17])
{
    static char bytes[4 << 20];
    static const struct moe_description about = {.vocabulary = true, .vocab_size = UINT32_MAX};
    char path[] = "/tmp/moechat-roles-XXXXXX";
    struct model_tokenizer own;
    struct tok_ids list = {0};
    struct tok_err tok_err;
    struct moe_err err;
    FILE *in = fopen("tests/golden/gguf-chat/checkpoint/chat.gguf", "rb");
    size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0, length = strlen(key), at = 0;
    while (at + length + 8 < n && memcmp(bytes + at, key, length) != 0)
        at++;
    memcpy(bytes + at + length + 4, &id, sizeof id); // behind the type of the value
    int fd = mkstemp(path);
    CHECK(t, in && fclose(in) == 0 && n && n < sizeof bytes && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
    if (CHECK_EQ(t, model_tokenizer_open(path, &about, &own, &err), 0))
        CHECK_EQ(t, tok_encode(own.tokenizer, "a!!", 3, &list, &tok_err), TOK_OK);
    tok_close(own.tokenizer);
    memcpy(digest, own.digest, sizeof own.digest);
    size_t count = list.count < 8 ? list.count : 8;
    if (count)
        memcpy(ids, list.ids, count * sizeof *ids);
    tok_ids_release(&list);
    CHECK_EQ(t, unlink(path), 0);
    return count;
}

// A GGUF's key makes a control symbol of what is text else, and nothing of one that is.
static void a_role_that_text_gets_is_another_tokenizer(struct harness *t)
{
    enum { END = 1501, PAD, TWO_MARKS = 472, TWO_DOTS = 341 };
    static const struct {
        const char *key;
        int32_t id;
        bool same, other;
    } cases[] = {{"tokenizer.ggml.eos_token_id", END, true, false},
                 {"tokenizer.ggml.eos_token_id", PAD, true, false},
                 {"tokenizer.ggml.eos_token_id", TWO_MARKS, false, true},
                 {"tokenizer.ggml.bos_token_id", TWO_MARKS, false, true},
                 {"tokenizer.ggml.bos_token_id", TWO_DOTS, true, true}}; // of another text
    int32_t usual[8], ids[8];
    char digest[17];
    size_t n = ids_with(t, cases[0].key, END, usual, digest);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t count = ids_with(t, cases[i].key, cases[i].id, ids, digest);
        CHECK_EQ(t, count == n && memcmp(ids, usual, n * sizeof *ids) == 0, cases[i].same);
        if (!CHECK_EQ(t, strcmp(digest, "854a667466eac5c8") != 0, cases[i].other))
            printf("    case %zu\n", i);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(only_v32_has_one_by_its_type),
                                                TEST(a_damaged_config_is_said),
                                                TEST(a_file_has_its_own),
                                                TEST(digests_are_as_older_programs_had_them),
                                                TEST(other_symbols_are_another_tokenizer),
                                                TEST(a_role_that_text_gets_is_another_tokenizer)};
    return HARNESS_RUN(tests, argc, argv);
}
