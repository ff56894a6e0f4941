// SPDX-License-Identifier: GPL-3.0-or-later
// Which template a model gets that brings none: DeepSeek-V3.2's own, nobody else's; and that a damaged one is no
// missing one.
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

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(only_v32_has_one_by_its_type), TEST(a_damaged_config_is_said),
                                                TEST(a_file_has_its_own)};
    return HARNESS_RUN(tests, argc, argv);
}
