// SPDX-License-Identifier: GPL-3.0-or-later
// generation_config.json in a folder made here.
#include "engine/files/suggestion.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"

static char folder[] = "/tmp/moechat-suggestion-XXXXXX";

static int read_text(const char *text, struct moe_suggestion *s, struct moe_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, strlen(text), file) != strlen(text) || fclose(file) != 0)
        exit(1);
    int code = suggestion_read(folder, s, err);
    remove(path);
    return code;
}

static void what_there_is_is_given(struct harness *t)
{
    struct moe_suggestion s = {.given = 99};
    CHECK_EQ(t, suggestion_read(folder, &s, NULL), MOE_OK); // no such file
    CHECK_EQ(t, s.given, 0);
    CHECK_EQ(t, read_text("{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.95}", &s, NULL), MOE_OK);
    CHECK_EQ(t, s.given, MOE_SUGGESTS_TEMPERATURE | MOE_SUGGESTS_TOP_P);
    CHECK(t, s.temperature == 0.6 && s.top_p == 0.95 && s.top_k == 0 && s.min_p == 0);
    CHECK_EQ(t, read_text("{\"temperature\": 1, \"top_k\": 20, \"min_p\": 0.01}", &s, NULL), MOE_OK);
    CHECK_EQ(t, s.given, MOE_SUGGESTS_TEMPERATURE | MOE_SUGGESTS_TOP_K | MOE_SUGGESTS_MIN_P);
    CHECK(t, s.temperature == 1 && s.top_k == 20 && s.min_p == 0.01);
    CHECK_EQ(t, read_text("{\"top_k\": -1, \"top_p\": null, \"eos_token_id\": [1, 2]}", &s, NULL), MOE_OK);
    CHECK(t, s.given == MOE_SUGGESTS_TOP_K && s.top_k == 0);
    CHECK_EQ(t, read_text("{\"do_sample\": false, \"temperature\": 0.6}", &s, NULL), MOE_OK);
    CHECK_EQ(t, s.given, 0);
}

static void what_is_none_is_refused(struct harness *t)
{
    static const char *const broken[][2] = {
        {"{\"temperature\": -0.1}", "temperature"},
        {"{\"temperature\": \"hot\"}", "temperature"},
        {"{\"temperature\": 101}", "temperature"},
        {"{\"top_p\": 0}", "top_p"},
        {"{\"top_p\": 1.5}", "top_p"},
        {"{\"top_k\": -2}", "top_k"},
        {"{\"top_k\": 4294967296}", "top_k"},
        {"{\"min_p\": 2}", "min_p"},
        {"{\"do_sample\": \"yes\"}", "do_sample"},
        {"[]", "generation_config.json"},
        {"{", "generation_config.json"},
        {"", "generation_config.json"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct moe_suggestion s;
        struct moe_err err = {.text = ""};
        int code = read_text(broken[i][0], &s, &err);
        if (!CHECK(t, code == MOE_FORMAT && strstr(err.text, "generation_config.json: ") &&
                          strstr(err.text, broken[i][1]) && !strchr(err.text, '\n')))
            printf("    %s: code %d: %s\n", broken[i][0], code, err.text);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(what_there_is_is_given), TEST(what_is_none_is_refused)};
    if (!mkdtemp(folder))
        return 1;
    int status = HARNESS_RUN(tests, argc, argv);
    rmdir(folder);
    return status;
}
