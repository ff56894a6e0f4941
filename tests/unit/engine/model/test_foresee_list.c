// SPDX-License-Identifier: GPL-3.0-or-later
// Which models a list of files holds, whether all their parts are named, and what they will need.
#include <fnmatch.h>
#include <stdlib.h>

#include "engine/moe.h"
#include "tests/harness.h"

static bool read_text(struct harness *t, const char *text, struct moe_listing *listing)
{
    struct moe_err err = {.text = ""};
    int code = moe_listing_read(text, strlen(text), "LIST", listing, &err);
    CHECK_STR(t, err.text, "");
    return CHECK_EQ(t, code, MOE_OK);
}

static void parts_make_models(struct harness *t)
{
    struct moe_listing l;
    if (!read_text(t,
                   "10 Q4/x-Q4_K_M-00001-of-00003.gguf\n20 Q4/x-Q4_K_M-00002-of-00003.gguf\n"
                   "30 Q4/x-Q4_K_M-00003-of-00003.gguf\n5 x-UD-IQ1_S.gguf\n6 x-Q8_0-00002-of-00003.gguf\n"
                   "7 mmproj-F16.gguf\n8 x.imatrix.gguf\n1 config.json\n2 tokenizer.json\n"
                   "9 model-00001-of-000002.safetensors\n4 model-00002-of-000002.safetensors\n",
                   &l))
        return;
    CHECK_EQ(t, l.n_models, 4);
    CHECK(t, l.has_config && l.has_tokenizer && l.sized && l.n_files == 11 && l.n_others == 4 && l.bytes == 102);
    CHECK_STR(t, l.left_out, "mmproj-F16.gguf");
    const struct moe_listed *m = l.models;
    CHECK_STR(t, m[0].name, "Q4/x-Q4_K_M");
    CHECK_STR(t, m[0].pattern, "Q4/x-Q4_K_M-*-of-00003.gguf");
    CHECK(t, m[0].parts == 3 && m[0].listed == 3 && !m[0].missing && m[0].bytes == 60 && m[0].gguf);
    CHECK_STR(t, m[0].mix, "Q4_K_M");
    CHECK_STR(t, m[1].name, "model");
    CHECK(t, !m[1].gguf && m[1].parts == 2 && !m[1].missing && m[1].bytes == 13);
    CHECK(t, m[2].parts == 3 && m[2].listed == 1 && m[2].missing == 1);
    CHECK_STR(t, m[3].pattern, "x-UD-IQ1_S.gguf");
    CHECK(t, m[3].parts == 1 && !m[3].missing);
    CHECK_STR(t, m[3].mix, "IQ1_S");
    moe_listing_release(&l);
    if (read_text(t, "a[x]*?-Q6_K-00001-of-00001.gguf\nb[1]?.gguf\n",
                  &l)) { // as fnmatch is told that they are no pattern's
        CHECK_STR(t, l.models[0].pattern, "a[[]x][*][?]-Q6_K-*-of-00001.gguf");
        CHECK_STR(t, l.models[1].pattern, "b[[]1][?].gguf");
        CHECK_EQ(t, fnmatch(l.models[0].pattern, "a[x]*?-Q6_K-00001-of-00001.gguf", 0), 0);
        CHECK_EQ(t, fnmatch(l.models[1].pattern, "b[1]?.gguf", 0), 0);
        CHECK(t, fnmatch(l.models[1].pattern, "b1x.gguf", 0) != 0);
        moe_listing_release(&l);
    }
    if (read_text(t, "-b-Q8_0.gguf\n", &l)) { // no option of the command that takes it
        CHECK_STR(t, l.models[0].pattern, "[-]b-Q8_0.gguf");
        CHECK_EQ(t, fnmatch(l.models[0].pattern, "-b-Q8_0.gguf", 0), 0);
        moe_listing_release(&l);
    }
    if (read_text(t, "a-Q6_K-00001-of-00002.gguf\na-Q6_K-00001-of-00003.gguf\n", &l)) { // two models, neither whole
        CHECK(t, l.n_models == 2 && l.models[0].missing == 2 && l.models[1].missing == 2 && !l.models[0].sized);
        moe_listing_release(&l);
    }
}

static void known_names_have_needs(struct harness *t)
{
    struct moe_listing l;
    struct moe_listed_needs n;
    if (!read_text(t,
                   "{\"id\":\"unsloth/"
                   "DeepSeek-V3.1-GGUF\",\"siblings\":[{\"rfilename\":\"V3-Q4_K_M.gguf\",\"size\":404400000000},"
                   "{\"rfilename\":\"V3-Q8_0.gguf\"},{\"rfilename\":\"V3-Q2_K.gguf\",\"size\":8000000000}]}",
                   &l))
        return;
    CHECK_STR(t, l.models[0].shape.name, "DeepSeek-V3");
    CHECK(t, l.models[1].pattern[3] == 'Q' && moe_listed_needs(&l.models[1], &n)); // of V3: 12.1 GB a token
    CHECK(t,
          n.cold_bytes > 12000000000 && n.cold_bytes < 12500000000 && n.resident_bytes > 10000000000 && !n.converted);
    CHECK(t, n.experts_bytes + n.resident_bytes <= n.bytes && n.experts_bytes + n.resident_bytes + 2 >= n.bytes);
    struct moe_listed named = l.models[1]; // without its size, too
    named.sized = false;
    CHECK(t, moe_listed_needs(&named, &n) && n.experts_bytes + n.resident_bytes <= n.bytes);
    CHECK(t, !moe_listed_needs(&l.models[0], &n)); // far too small for V3, whatever it is called
    CHECK(t, moe_listed_needs(&l.models[2], &n) && n.bytes > 700000000000 && n.bytes < 720000000000);
    struct moe_listed part = l.models[1], dense = l.models[1], unknown = l.models[1];
    part.missing = true, dense.shape.n_routed_experts = 0, unknown.shape.parameters = 0;
    CHECK(t, !moe_listed_needs(&part, &n) && !moe_listed_needs(&dense, &n) && !moe_listed_needs(&unknown, &n));
    moe_listing_release(&l);
    if (read_text(t, "8 DeepSeek-R1-Distill-Llama-8B-Q8_0.gguf\n", &l)) {
        CHECK_STR(t, l.models[0].shape.name, "");
        CHECK(t, !moe_listed_needs(&l.models[0], &n));
        moe_listing_release(&l);
    }
    if (read_text(t,
                  "{\"id\":\"moonshotai/"
                  "Moonlight-16B-A3B\",\"siblings\":[{\"rfilename\":\"model.safetensors\",\"size\":32000000000}]}",
                  &l)) { // bf16, which convert makes 4 bits of
        CHECK(t, moe_listed_needs(&l.models[0], &n) && n.converted);
        CHECK(t, n.experts_bytes > 8000000000 && n.experts_bytes < 8200000000 && n.cold_bytes / 10000000 == 75);
        moe_listing_release(&l);
    }
}

// A folder of downloads is no repository: what one name says is not true of the next.
static void each_name_is_of_its_own_shape(struct harness *t)
{
    struct moe_listing l;
    struct moe_listed_needs n;
    if (!read_text(t,
                   "DeepSeek-V3.1-UD-IQ1_S-00001-of-00002.gguf\nDeepSeek-V3.1-UD-IQ1_S-00002-of-00002.gguf\n"
                   "Mystery-Q4_K_M.gguf\nQwen3.6-35B-A3B-UD-Q4_K_XL.gguf\nmmproj-F16.gguf\n",
                   &l))
        return;
    CHECK_EQ(t, l.n_models, 3);
    CHECK_STR(t, l.models[0].shape.name, "DeepSeek-V3");
    CHECK_STR(t, l.models[1].shape.name, "");
    CHECK_STR(t, l.models[2].shape.name, "Qwen3.6-35B-A3B");
    CHECK(t, moe_listed_needs(&l.models[0], &n) && n.bytes > 130000000000 && n.cold_bytes > 4000000000);
    CHECK(t, !moe_listed_needs(&l.models[1], &n));
    CHECK(t, moe_listed_needs(&l.models[2], &n) && n.bytes < 25000000000 && n.cold_bytes < 1000000000);
    moe_listing_release(&l);
    if (read_text(t, "{\"id\":\"me/Mystery-GGUF\",\"siblings\":[{\"rfilename\":\"like-DeepSeek-V3-Q8_0.gguf\"}]}",
                  &l)) {
        CHECK_STR(t, l.models[0].shape.name, ""); // a repository's name goes before its files'
        moe_listing_release(&l);
    }
}

static void what_holds_no_model_is_refused(struct harness *t)
{
    struct moe_listing l;
    struct moe_err err;
    CHECK_EQ(t, moe_listing_read("README.md\n", 10, "LIST", &l, &err), MOE_NOT_FOUND);
    CHECK(t, strstr(err.text, "LIST: ") && !l.models);
    CHECK_EQ(t, moe_listing_read("<html>", 6, "LIST", &l, &err), MOE_FORMAT);
    CHECK(t, !l.models);
}

// Some, and no more than there is.
static void memory_is_asked_for(struct harness *t)
{
    unsigned long long kb = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemTotal: %llu kB", &kb) != 1)
        ;
    CHECK(t, file && fclose(file) == 0 && kb);
    uint64_t left = moe_memory_left();
    CHECK(t, left > 1 << 20 && left <= kb * 1024);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(parts_make_models), TEST(known_names_have_needs),
                                                TEST(each_name_is_of_its_own_shape),
                                                TEST(what_holds_no_model_is_refused), TEST(memory_is_asked_for)};
    return HARNESS_RUN(tests, argc, argv);
}
