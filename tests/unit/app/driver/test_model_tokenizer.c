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
    CHECK(t, strstr(err.text, "tokenizer_config.json: it is not JSON: fetch the file again") != NULL);
    CHECK_EQ(t, unlink(path), 0);
    snprintf(path, sizeof path, "%s/%s", folder, names[0]);
    CHECK(t, unlink(path) == 0 && rmdir(folder) == 0);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(only_v32_has_one_by_its_type), TEST(a_damaged_config_is_said)};
    return HARNESS_RUN(tests, argc, argv);
}
