// SPDX-License-Identifier: GPL-3.0-or-later
// Each field of model.json, of a safetensors header, of an index of shards, of generation_config.json and of a hub's
// list of files, gone, of another type, at and beside its edges: what is read, and what is refused in which words.
#include "engine/base/fields.h"
#include "engine/files/checkpoint.h"
#include "engine/files/safetensors.h"
#include "engine/files/suggestion.h"
#include "tests/package_sweep_rig.h"

static void said(char answer[SWEEP_ANSWER], FILE *out, char **text, size_t *length)
{
    fclose(out);
    uint64_t digest = sweep_digest(0, *text, *length);
    snprintf(answer, SWEEP_ANSWER, "#%08x", (unsigned)(digest ^ digest >> 32));
    free(*text);
}

static void ask_manifest(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    static struct package package; // large
    struct moe_err err = {.text = ""};
    char *read = NULL;
    size_t n = 0;
    (void)context;
    strcpy(package.directory, "P");
    int code = package_parse(text, length, &package, &err);
    if (code) {
        sweep_refused(answer, code, err.text + strlen("P/model.json: "));
        return;
    }
    FILE *out = open_memstream(&read, &n);
    if (!out)
        exit(70);
    fprintf(out, "%s %s %s %s %s %s %llu %s|", package.name, package.template_name, package.tokenizer_type,
            package.fingerprint, package.tokenizer.path ? package.tokenizer.path : "", package.resident.path,
            (unsigned long long)package.resident.bytes, package.resident.sha256);
    fprintf(out, "%d %u %.6g %.6g %u %.6g|", package.resident_is_gguf, package.suggestion.given,
            package.suggestion.temperature, package.suggestion.top_p, package.suggestion.top_k,
            package.suggestion.min_p);
    for (uint32_t i = 0; i < package.n_files; i++)
        fprintf(out, "%s %llu %s|", package.files[i].path, (unsigned long long)package.files[i].bytes,
                package.files[i].sha256);
    for (uint32_t layer = package.shape.first_k_dense_replace; layer < package.shape.n_layers; layer++)
        print_experts(out, &package, layer);
    package_release(&package);
    said(answer, out, &read, &n);
}

static void ask_header(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    const uint64_t *bytes = context; // of the data
    static struct tensor_file file = {.path = "F", .fd = -1};
    struct moe_err err = {.text = ""};
    char *read = NULL;
    size_t n = 0;
    int code = safetensors_parse(text, length, 8 + length, 8 + length + *bytes, &file, &err);
    if (code) {
        sweep_refused(answer, code, err.text + strlen("F: "));
        return;
    }
    FILE *out = open_memstream(&read, &n);
    if (!out)
        exit(70);
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor *t = &file.tensors[i];
        fprintf(out, "%s %d %u %llu %llu", t->name, t->dtype, t->n_dims, (unsigned long long)(t->offset - 8 - length),
                (unsigned long long)t->bytes);
        for (uint32_t d = 0; d < t->n_dims; d++)
            fprintf(out, " %llu", (unsigned long long)t->dims[d]);
    }
    tensor_file_forget(&file);
    said(answer, out, &read, &n);
}

static void ask_index(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct json_object *index = NULL;
    struct index_names names;
    struct moe_err err = {.text = ""};
    char *read = NULL;
    size_t n = 0;
    (void)context;
    int code = fields_parse(text, length, "I", &index, &err);
    if (!code)
        code = checkpoint_parse_index(index, "I", &names, &err);
    json_object_put(index);
    if (code) {
        sweep_refused(answer, code, err.text + strlen("I: "));
        return;
    }
    FILE *out = open_memstream(&read, &n);
    if (!out)
        exit(70);
    for (uint32_t i = 0; i < names.count; i++)
        fprintf(out, "%s|", names.names[i]);
    checkpoint_release_names(&names);
    said(answer, out, &read, &n);
}

static void ask_suggestion(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct json_object *root = NULL;
    struct moe_suggestion s;
    struct moe_err err = {.text = ""};
    (void)context;
    int code = fields_parse(text, length, "g", &root, &err);
    if (!code)
        code = suggestion_take(root, "g", &s, &err);
    json_object_put(root);
    if (code)
        sweep_refused(answer, code, err.text + strlen("g: "));
    else
        snprintf(answer, SWEEP_ANSWER, "#%u %.6g %u %.6g %.6g", s.given, s.temperature, s.top_k, s.top_p, s.min_p);
}

static void ask_listing(void *context, const char *text, size_t length, char answer[SWEEP_ANSWER])
{
    struct moe_listing listing;
    struct moe_err err = {.text = ""};
    char *read = NULL;
    size_t n = 0;
    (void)context;
    int code = moe_listing_read(text, length, "l", &listing, &err);
    if (code) {
        sweep_refused(answer, code, err.text + strlen("l: "));
        return;
    }
    FILE *out = open_memstream(&read, &n);
    if (!out)
        exit(70);
    fprintf(out, "%s %s %llu %u|", listing.repository, listing.left_out, (unsigned long long)listing.bytes,
            listing.n_models);
    for (uint32_t i = 0; i < listing.n_models; i++) {
        const struct moe_listed *m = &listing.models[i];
        struct moe_listed_needs needs = {0};
        bool known = moe_listed_needs(m, &needs);
        fprintf(out, "%s %s %u %u %u %d %llu %d %llu %llu %llu|", m->name, m->pattern, m->listed, m->parts, m->missing,
                m->sized, (unsigned long long)m->bytes, known, (unsigned long long)needs.cold_bytes,
                (unsigned long long)needs.experts_bytes, (unsigned long long)needs.bytes);
    }
    moe_listing_release(&listing);
    said(answer, out, &read, &n);
}

static void sweep_stored(struct harness *t, struct sweep *s, const char *path)
{
    size_t length;
    char *text = sweep_file(path, &length);
    if (CHECK(t, text != NULL))
        sweep_json(s, path, text, length);
    free(text);
}

static void manifests(struct harness *t)
{
    struct sweep *s = sweep_begin(ask_manifest, NULL);
    sweep_stored(t, s, "tests/golden/tiny-a/package/model.json");
    sweep_stored(t, s, "models/demo/model.json");
    sweep_end(t, s, "tests/unit/engine/files/data/manifests.txt");
}

static void headers(struct harness *t)
{
    static const char text[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]},"
                               "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,1,8],\"data_offsets\":[48,80]},"
                               "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[80,88]},"
                               "\"d\":{\"dtype\":\"F8_E4M3\",\"shape\":[5],\"data_offsets\":[88,93]}}";
    uint64_t bytes = 93;
    struct sweep *s = sweep_begin(ask_header, &bytes);
    sweep_json(s, "a header", text, strlen(text));
    sweep_end(t, s, "tests/unit/engine/files/data/headers.txt");
}

static void indexes(struct harness *t)
{
    static const char text[] =
        "{\"metadata\":{\"total_size\":10},\"weight_map\":{\"a\":\"model-00002-of-00003.safetensors\","
        "\"b\":\"model-00001-of-00003.safetensors\",\"c\":\"model-00003-of-00003.safetensors\","
        "\"d\":\"model-00002-of-00003.safetensors\"}}";
    struct sweep *s = sweep_begin(ask_index, NULL);
    sweep_json(s, "an index", text, strlen(text));
    sweep_end(t, s, "tests/unit/engine/files/data/indexes.txt");
}

static void suggestions(struct harness *t)
{
    static const char text[] = "{\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.01,\"do_sample\":true,"
                               "\"eos_token_id\":[1,2]}";
    struct sweep *s = sweep_begin(ask_suggestion, NULL);
    sweep_json(s, "generation_config.json", text, strlen(text));
    sweep_end(t, s, "tests/unit/engine/files/data/suggestions.txt");
}

static void listings(struct harness *t)
{
    static const char text[] =
        "{\"id\":\"you/Model-GGUF\",\"siblings\":[{\"rfilename\":\"M-Q4_K_M-00001-of-00002.gguf\",\"size\":5000000000},"
        "{\"rfilename\":\"M-Q4_K_M-00002-of-00002.gguf\",\"size\":4000000000},{\"rfilename\":\"sub/M-Q8_0.gguf\","
        "\"size\":9000000000},{\"rfilename\":\"README.md\",\"size\":100}],"
        "\"gguf\":{\"total\":16000000000,\"architecture\":\"deepseek2\",\"context_length\":4096}}";
    struct sweep *s = sweep_begin(ask_listing, NULL);
    sweep_json(s, "a repository", text, strlen(text));
    sweep_end(t, s, "tests/unit/engine/files/data/listings.txt");
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {TEST(manifests), TEST(headers), TEST(indexes), TEST(suggestions),
                                                TEST(listings)};
    return HARNESS_RUN(tests, argc, argv);
}
