// SPDX-License-Identifier: GPL-3.0-or-later
// What is said of a model before its weights are here: each field of config.json that tells its bits at its edges, GGUF
// files cut behind their headers, and the names of first parts.
#include <fcntl.h>
#include <sys/stat.h>

#include "engine/files/gguf.h"
#include "tests/package_sweep_rig.h"

static char folder[128]; // place()/model: its name is told
static const char *told_as = "config.json";

static void write_file(const char *name, const char *text, size_t length)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%.150s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, length, file) != length)
        exit(70);
    fclose(file);
}

static void remove_file(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%.150s", folder, name);
    unlink(path);
}

static void ask_foreseen(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct moe_description d;
    struct moe_err err = {.text = ""};
    char path[300], *said = NULL;
    size_t n = 0;
    bool whole = context != NULL; // the folder is named, not the file
    write_file(told_as, text, length);
    snprintf(path, sizeof path, whole ? "%s" : "%s/%.150s", folder, told_as);
    int code = moe_foresee(path, &d, &err);
    if (code) {
        sweep_refused(answer, code, err.text + (strncmp(err.text, place(), strlen(place())) == 0) * strlen(place()));
        return;
    }
    FILE *out = open_memstream(&said, &n);
    if (!out)
        exit(70);
    fprintf(out, "%s|", d.name);
    print_facts(out, &d);
    fclose(out);
    uint64_t digest = sweep_digest(0, said, n);
    snprintf(answer, SWEEP_ANSWER, "#%08x %s, %.4g bits %s%s", (unsigned)(digest ^ digest >> 32), d.name,
             d.foreseen_bits, d.foreseen_from, d.foreseen_guess ? "?" : "");
    free(said);
}

static void begin(void)
{
    snprintf(folder, sizeof folder, "%s/model", place());
    if (mkdir(folder, 0700) != 0)
        exit(70);
}

static void end(void)
{
    rmdir(folder);
}

static void configs(struct harness *t)
{
    static const char *const families[] = {"ck-v3-groups", "ck-kimi-k3", "ck-kimi-k3-mlx", "ck-k25",
                                           "mlx-widths",   "mlx-fp",     "ck-glm5-next",   "ck-qwen35moe"};
    static const char *const told[] = {"config.json", "Name.json", ".json", "x.jsonl"};
    struct sweep *s = sweep_begin(ask_foreseen, NULL);
    begin();
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[128];
        size_t length;
        snprintf(path, sizeof path, "tests/golden/%s/checkpoint/config.json", families[i]);
        char *text = sweep_file(path, &length);
        if (!CHECK(t, text != NULL))
            break;
        struct json_tokener *parser = json_tokener_new();
        struct json_object *root = json_tokener_parse_ex(parser, text, (int)length);
        json_tokener_free(parser);
        sweep_good(s, families[i], text, length);
        static const char *const parts[] = {"quantization", "quantization_config", "torch_dtype", "dtype"};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            struct sweep_at at = {root, root, parts[k], 0, ""};
            struct json_object *value;
            snprintf(at.path, sizeof at.path, "%s", parts[k]);
            if (!json_object_object_get_ex(root, parts[k], &value))
                continue;
            sweep_value(s, &at);
            if (json_object_is_type(value, json_type_object))
                sweep_below(s, root, value, parts[k]);
        }
        for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
            told_as = told[k];
            sweep_try(s, told_as, text, length);
            remove_file(told_as);
        }
        told_as = "config.json";
        s->context = s;
        sweep_try(s, "the folder", text, length);
        static const char index[] = "{\"metadata\":{\"total_size\":12345},\"weight_map\":{}}";
        sweep_place(s, "names");
        for (size_t k = 0; k < 3; k++) {
            write_file("model.safetensors.index.json", index + (k == 1), k == 2 ? 20 : strlen(index) - (k == 1));
            sweep_try(s, k ? "no index" : "an index", text, length);
        }
        s->context = NULL;
        remove_file("model.safetensors.index.json");
        sweep_place(s, "beside it");
        json_object_put(root);
        free(text);
    }
    remove_file("config.json");
    end();
    sweep_end(t, s, "tests/unit/engine/model/data/foreseen.txt");
}

static void names_of_parts(struct harness *t)
{
    static const char *const kinds[] = {
        "Q2_K",   "Q2_K_L", "UD-Q2_K_XL", "Q3_K_S",    "Q3_K_M", "Q4_0",  "Q4_K_S", "Q4_K_M",   "q4_k_m",  "Q4_1",
        "Q5_K_M", "Q6_K",   "Q8_0",       "BF16",      "F16",    "F32",   "IQ1_S",  "UD-IQ1_M", "IQ2_XXS", "IQ3_XXS",
        "IQ4_XS", "IQ4_NL", "MXFP4",      "MXFP4_MOE", "NVFP4",  "TQ1_0", "Q9_9",   "nothing",  "Q4_K_Mx", "xQ4_K_M"};
    size_t length;
    char *text = sweep_file("tests/golden/gguf-v2-lite-q4km/checkpoint/v2-lite-q4km-00001-of-00003.gguf", &length);
    struct sweep *s = sweep_begin(ask_foreseen, NULL);
    if (!CHECK(t, text != NULL))
        return;
    begin();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        static const char *const ends[] = {"-00001-of-00003.gguf", "-00001-of-00003.GGUF", "-00002-of-00003.gguf",
                                           ".gguf"};
        for (size_t k = 0; k < (i ? 1 : sizeof ends / sizeof *ends); k++) {
            char name[64];
            snprintf(name, sizeof name, "M-%s%s", kinds[i], ends[k]);
            told_as = name;
            sweep_try(s, ends[k], text, length);
            remove_file(name);
        }
        sweep_place(s, kinds[i]);
    }
    told_as = "config.json";
    end();
    free(text);
    sweep_end(t, s, "tests/unit/engine/model/data/foreseen_parts.txt");
}

// The beginnings of whole files: all bytes up to where the tensors' data begin, and one less.
static void beginnings(struct harness *t)
{
    static const char *const files[] = {"gguf-v3-q2k/checkpoint/v3-q2k.gguf", "gguf-kimi-k3/checkpoint/kimi-k3.gguf",
                                        "gguf-qwen35moe/checkpoint/qwen35moe.gguf",
                                        "gguf-glm-dsa/checkpoint/glm-dsa.gguf",
                                        "gguf-nvfp4-factors/checkpoint/nvfp4-factors.gguf"};
    struct sweep *s = sweep_begin(ask_foreseen, NULL);
    begin();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        size_t length;
        struct gguf gguf = {.file = {.path = "F", .fd = -1}};
        struct moe_err err;
        snprintf(path, sizeof path, "tests/golden/%s", files[i]);
        char *text = sweep_file(path, &length);
        told_as = "M.gguf";
        if (!CHECK(t, text && gguf_parse((const unsigned char *)text, length, length, &gguf, &err) == 0))
            break;
        sweep_good(s, files[i], text, gguf.data_start);
        sweep_try(s, "whole", text, length);
        sweep_try(s, "half", text, gguf.data_start / 2);
        sweep_try(s, "24 bytes", text, 24);
        sweep_try(s, "23 bytes", text, 23);
        sweep_try(s, "nothing", text, 0);
        sweep_place(s, "cut");
        gguf_release(&gguf);
        free(text);
    }
    remove_file(told_as);
    told_as = "config.json";
    end();
    sweep_end(t, s, "tests/unit/engine/model/data/foreseen_heads.txt");
}

static void paths(struct harness *t)
{
    struct moe_description d;
    struct moe_err err = {.text = ""};
    static char path[4100];
    CHECK_EQ(t, moe_foresee("", &d, &err), MOE_BAD_ARGUMENT);
    CHECK_STR(t, err.text, "the model's path must have 1 to 4000 bytes");
    memset(path, 'x', 4001);
    CHECK_EQ(t, moe_foresee(path, &d, &err), MOE_BAD_ARGUMENT);
    path[4000] = 0;
    CHECK(t, moe_foresee(path, &d, &err) != MOE_BAD_ARGUMENT);
    CHECK_EQ(t, moe_foresee("/nowhere/config.json", &d, &err), MOE_NOT_FOUND);
    CHECK_EQ(t, moe_foresee("json", &d, &err), MOE_NOT_FOUND);
}

// The plan that there will be: what was asked for is refused as of a model that is here.
static void plans(struct harness *t)
{
    static const char config[] = "tests/bench/configs/deepseek-v3.json";
    struct moe_cache_plan plan;
    struct moe_err err = {.text = ""};
    struct moe_model_options options = {.context = 163841};
    CHECK_EQ(t, moe_plan_foreseen(config, &options, &plan, &err), MOE_BAD_ARGUMENT);
    CHECK_STR(t, err.text, "a context of 163841 tokens is over the model's limit of 163840 (max_position_embeddings)");
    options = (struct moe_model_options){.expert_cache_bytes = UINT64_C(1) << 50};
    CHECK_EQ(t, moe_plan_foreseen(config, &options, &plan, &err), MOE_NO_MEMORY);
    options.expert_cache_bytes = 1000;
    CHECK_EQ(t, moe_plan_foreseen(config, &options, &plan, &err), MOE_BUDGET);
    options = (struct moe_model_options){.ring = 3};
    CHECK_EQ(t, moe_plan_foreseen(config, &options, &plan, &err), MOE_BAD_ARGUMENT);
    options.ring = 0;
    CHECK_EQ(t, moe_plan_foreseen("/nowhere/config.json", &options, &plan, &err), MOE_NOT_FOUND);
    // Small ones, by their config.json alone and by the folder that has to be converted.
    static const char *const paths[] = {"tests/golden/ck-moonlight/checkpoint/config.json",
                                        "tests/golden/ck-moonlight/checkpoint"};
    for (size_t i = 0; i < 2; i++) {
        options = (struct moe_model_options){.context = 100, .kv_type = MOE_KV_F32};
        int code = i ? moe_plan(paths[i], &options, &plan, &err) : moe_plan_foreseen(paths[i], &options, &plan, &err);
        if (!CHECK_EQ(t, code, MOE_OK))
            continue;
        CHECK(t, plan.foreseen && plan.all && plan.slots == plan.experts && plan.slot_bytes % 4096 == 0);
        CHECK(t, plan.context == 100 && !plan.context_chosen && plan.row_bytes == 576 && plan.cold_bytes > 0);
        CHECK(t, plan.disk_bytes_per_s == 0);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(configs), TEST(names_of_parts), TEST(beginnings), TEST(paths),
                                                TEST(plans)};
    return HARNESS_RUN(tests, argc, argv);
}
