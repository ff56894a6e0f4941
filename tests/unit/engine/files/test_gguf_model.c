// SPDX-License-Identifier: GPL-3.0-or-later
// GGUF files opened as models: the golden ones as they are, and with bytes of their headers or data changed.
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/gguf_set.h"
#include "engine/files/verify.h"
#include "engine/walk/weights.h"
#include "tests/gguf_rig.h"
#include "tests/harness.h"

#define PLAIN "tests/golden/gguf-plain/checkpoint/plain.gguf" // few keys, two dimensions for k_b and v_b, tied
#define CHAT  "tests/golden/gguf-chat/checkpoint/chat.gguf"   // a vocabulary, a template, a block for prediction

static char folder[] = "/tmp/moechat-gguf-model-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct made_bytes file_bytes(const char *path)
{
    struct made_bytes bytes = {0};
    char buffer[65536];
    FILE *file = fopen(path, "rb");
    if (!file)
        exit(70);
    for (size_t n = fread(buffer, 1, sizeof buffer, file); n; n = fread(buffer, 1, sizeof buffer, file))
        made_put(&bytes, buffer, n);
    fclose(file);
    return bytes;
}

static unsigned char *find_bytes(const struct made_bytes *in, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= in->length; i++)
        if (memcmp(in->at + i, text, length) == 0)
            return in->at + i;
    printf("no %s in the file\n", text);
    exit(70);
}

static void write_bytes(const char *name, const struct made_bytes *bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    if (!file || fwrite(bytes->at, 1, bytes->length, file) != bytes->length)
        exit(70);
    fclose(file);
}

static bool opens(struct harness *t, const char *path, struct package *p)
{
    struct moe_err err = {.text = ""};
    if (CHECK_EQ(t, weights_open_package(path, p, &err), MOE_OK))
        return true;
    printf("    %s\n", err.text);
    return false;
}

static void refused(struct harness *t, const char *path, const char *says)
{
    struct package p;
    struct moe_err err = {.text = ""};
    int code = weights_open_package(path, &p, &err);
    if (!CHECK(t, code != MOE_OK && (int)err.code == code && strstr(err.text, says) && !strchr(err.text, '\n')))
        printf("    code %d \"%s\", not \"%s\"\n", code, err.text, says);
    if (code == MOE_OK)
        package_release(&p);
}

// The file with the first `from` in it become `to`, of the same length.
static const char *changed(const char *path, const char *from, const char *to)
{
    struct made_bytes bytes = file_bytes(path);
    memcpy(find_bytes(&bytes, from), to, strlen(to));
    write_bytes("changed.gguf", &bytes);
    free(bytes.at);
    return path_of("changed.gguf");
}

// The type of a tensor, in the table behind its name and two dimensions, or three.
static const char *retyped(const char *path, const char *tensor, int n_dims, uint32_t type)
{
    struct made_bytes bytes = file_bytes(path);
    unsigned char *at = find_bytes(&bytes, tensor) + strlen(tensor) + 4 + 8 * n_dims;
    at[0] = (unsigned char)type;
    write_bytes("changed.gguf", &bytes);
    free(bytes.at);
    return path_of("changed.gguf");
}

static void models_open_as_packages_do(struct harness *t)
{
    struct package p;
    if (!opens(t, PLAIN, &p))
        return;
    CHECK(t, p.kind == GGUF_FILES && p.n_files == 1 && strlen(p.fingerprint) == 64);
    CHECK_STR(t, p.name, "plain");
    CHECK_STR(t, p.layout, "GGUF");
    const struct checkpoint_tensor *keys = checkpoint_find(p.checkpoint, "model.layers.1.self_attn.embed_q.weight");
    CHECK(t, keys && keys->at->n_dims == 3 && keys->at->dims[0] == 2 && keys->at->dims[1] == 64 &&
                 keys->at->dims[2] == 32);
    CHECK(t, !checkpoint_find(p.checkpoint, "lm_head.weight") && p.shape.tie_word_embeddings);
    struct expert_span spans[MAX_EXPERT_SPANS];
    const struct checkpoint_tensor *down =
        checkpoint_find(p.checkpoint, "model.layers.1.mlp.switch_mlp.down_proj.weight");
    const struct expert_layout *experts = package_experts(&p, 1);
    CHECK_EQ(t, package_spans(&p, 1, 5, spans), 3);
    if (CHECK(t, down != NULL)) {
        CHECK_EQ(t, spans[2].offset, down->at->offset + 5 * down->at->bytes / 8);
        CHECK_EQ(t, spans[2].bytes, down->at->bytes / 8);
        CHECK_EQ(t, spans[2].at, experts->down.weight);
    }
    CHECK(t, experts->gate.kind == KIND_BF16 && experts->gate.weight == spans[0].at);
    package_release(&p);
}

// Rows of a conversation are of one rope: a file that comes out again with its keys mended is another model.
static void what_keys_change_is_another_fingerprint(struct harness *t)
{
    static const struct {
        const char *key; // a float32, or a u32
        unsigned char value[4];
        bool other;
    } cases[] = {
        {"deepseek2.rope.freq_base", {0, 0x24, 0xf4, 0x48}, true}, // 500000
        {"deepseek2.expert_weights_scale", {0, 0, 0x40, 0x40}, true},
        {"deepseek2.context_length", {0, 8, 0, 0}, false},
    };
    struct package p;
    char before[65];
    if (!opens(t, CHAT, &p))
        return;
    snprintf(before, sizeof before, "%s", p.fingerprint);
    package_release(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_bytes bytes = file_bytes(CHAT);
        memcpy(find_bytes(&bytes, cases[i].key) + strlen(cases[i].key) + 4, cases[i].value, 4);
        write_bytes("changed.gguf", &bytes);
        free(bytes.at);
        if (!opens(t, path_of("changed.gguf"), &p))
            continue;
        if (!CHECK_EQ(t, strcmp(p.fingerprint, before) != 0, cases[i].other))
            printf("    %s\n", cases[i].key);
        package_release(&p);
    }
}

static void what_is_left_out_is_counted(struct harness *t)
{
    struct moe_description *d = calloc(1, sizeof *d);
    struct moe_err err = {.text = ""};
    if (CHECK_EQ(t, moe_inspect(CHAT, d, &err), MOE_OK)) {
        CHECK_STR(t, d->left_out, "4 tensors of multi-token prediction (2.82 KB)");
        CHECK(t, d->n_layers == 2 && d->runs && !d->package && d->vocabulary && d->expert_reads == 3);
        CHECK_EQ(t, d->eos_token_ids[0], 1501);
        const struct moe_group *gate = &d->groups[0];
        CHECK_STR(t, gate->name, "experts' gate");
        CHECK_STR(t, gate->types, "BF16");
        CHECK(t, gate->weights == 8 * 32 * 64 && gate->bytes == 2 * gate->weights);
        uint64_t bytes = 0;
        for (size_t i = 0; i < MOE_GROUPS; i++)
            bytes += d->groups[i].bytes;
        CHECK(t, bytes <= d->resident_bytes + d->all_experts_bytes && bytes > d->resident_bytes);
    } else {
        printf("    %s\n", err.text);
    }
    free(d);
}

static void a_folder_means_its_model(struct harness *t)
{
    char path[300];
    struct package p;
    struct made_bytes bytes = file_bytes(PLAIN);
    snprintf(path, sizeof path, "%s", path_of("only"));
    mkdir(path, 0700);
    write_bytes("only/Plain-BF16.gguf", &bytes);
    free(bytes.at);
    bytes = (struct made_bytes){0};
    made_put(&bytes, "{}", 2); // as makers of GGUF files leave the original's beside them
    write_bytes("only/config.json", &bytes);
    free(bytes.at);
    if (opens(t, path, &p)) {
        CHECK_STR(t, p.name, "Plain-BF16");
        package_release(&p);
    }
    unlink(path_of("only/config.json"));
    unlink(path_of("only/Plain-BF16.gguf"));
    rmdir(path);
}

static void tensors_are_checked(struct harness *t)
{
    refused(t, changed(PLAIN, "blk.1.attn_norm", "blk.1.attn_mist"),
            "changed.gguf: tensor blk.1.attn_norm.weight is missing; download the model again");
    refused(t, changed(PLAIN, "blk.1.ffn_up_exps", "blk.1.ffn_up_expz"), "tensor blk.1.ffn_up_exps.weight is missing");
    refused(t, changed(CHAT, "blk.1.exp_probs_b", "blk.1.exp_probs_x"), "tensor blk.1.exp_probs_b.bias is missing");
    refused(t, changed(PLAIN, "deepseek2.expert_feed", "deepseek2.exprt_fead"),
            "deepseek2.expert_feed_forward_length: is missing");
    refused(t, changed(PLAIN, "blk.1.ffn_gate_inp.weight", "blk.1.ffn_gate_exps.scale"),
            "tensor blk.1.ffn_gate_exps.scale is a factor of whole matrices");
    refused(t, retyped(PLAIN, "blk.1.ffn_down_exps.weight", 3, 25),
            "tensor blk.1.ffn_down_exps.weight is I16, which moechat does not compute with");
    refused(t, retyped(PLAIN, "blk.1.attn_q_b.weight", 2, 25),
            "tensor blk.1.attn_q_b.weight is I16, which moechat does not compute with");
}

static void dimensions_are_checked(struct harness *t)
{
    struct made_bytes bytes = file_bytes(PLAIN);
    const char *tensor = "blk.1.ffn_up_exps.weight";
    unsigned char *at = find_bytes(&bytes, tensor) + strlen(tensor) + 4;
    at[0] = 32; // [64, 32, 8] become [32, 64, 8]: as many bytes
    at[8] = 64;
    write_bytes("changed.gguf", &bytes);
    free(bytes.at);
    refused(t, path_of("changed.gguf"), "tensor blk.1.ffn_up_exps.weight is not [8 experts, 32, 64], as its keys say");
}

static void the_vocabulary_is_shown(struct harness *t)
{
    struct moe_vocabulary *v;
    struct moe_err err = {.text = ""};
    if (!CHECK_EQ(t, moe_vocabulary_open(CHAT, &v, &err), MOE_OK)) {
        printf("    %s\n", err.text);
        return;
    }
    CHECK(t, v->n_tokens == 1510 && v->n_types == 1510 && v->n_merges > 1000);
    CHECK(t, v->model.length == 4 && memcmp(v->model.bytes, "gpt2", 4) == 0);
    CHECK(t, v->pre.length == 11 && memcmp(v->pre.bytes, "deepseek-v3", 11) == 0);
    CHECK(t, v->bos == 1500 && v->eos == 1501 && v->eot == -1 && v->eom == -1);
    CHECK(t, v->chat_template.length > 1000 && v->types[1500] == 3 && v->types[0] == 1);
    CHECK(t, v->tokens[1503].length == strlen("<｜User｜>") && memcmp(v->tokens[1503].bytes, "<｜User｜>", 9) == 0);
    moe_vocabulary_close(v);
    CHECK_EQ(t, moe_vocabulary_open("models/demo", &v, &err), MOE_NOT_FOUND);
    CHECK(t, v == NULL);
    CHECK(t, strstr(err.text, "models/demo: is no GGUF file, so it carries no vocabulary") != NULL);
    const char *path = changed(CHAT, "tokenizer.ggml.tokens", "tokenizer.ggml.tokenz");
    CHECK_EQ(t, moe_vocabulary_open(path, &v, &err), MOE_NOT_FOUND);
}

static void vocabularies_are_checked(struct harness *t)
{
    struct moe_vocabulary *v;
    struct moe_err err = {.text = ""};
    struct made_gguf g = {0};
    made_array(&g, "tokenizer.ggml.tokens", GGUF_U32, 1);
    made_put_number(&g.values, 1, 4);
    made_gguf_write(&g, path_of("changed.gguf"));
    made_gguf_release(&g);
    CHECK_EQ(t, moe_vocabulary_open(path_of("changed.gguf"), &v, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "tokenizer.ggml.tokens: is not an array of texts") != NULL);
    made_array(&g, "tokenizer.ggml.tokens", GGUF_STRING, 0);
    made_array(&g, "tokenizer.ggml.token_type", GGUF_F32, 0);
    made_gguf_write(&g, path_of("changed.gguf"));
    made_gguf_release(&g);
    CHECK_EQ(t, moe_vocabulary_open(path_of("changed.gguf"), &v, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "token_type: is not an array of 32-bit numbers") != NULL && !v);
}

static void blocks_are_looked_at(struct harness *t)
{
    static const struct {
        uint32_t type, at; // where the half, or what stands for it, is
        unsigned char bad;
    } cases[] = {{2, 1, 0x7c},    {3, 3, 0xfc},   {6, 1, 0x7e},  {7, 3, 0x7c},    {8, 1, 0xff},  {10, 83, 0x7c},
                 {11, 109, 0x7c}, {12, 3, 0x7c},  {13, 1, 0x7c}, {14, 209, 0x7c}, {16, 1, 0x7c}, {17, 1, 0x7c},
                 {18, 1, 0x7c},   {19, 1, 0x7c},  {20, 1, 0x7c}, {21, 1, 0x7c},   {22, 1, 0x7c}, {23, 1, 0x7c},
                 {34, 53, 0x7c},  {35, 65, 0x7c}, {39, 0, 0xff}, {1, 1, 0x7c}};
    unsigned char blocks[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ggml_type type = {.bytes = 1};
        ggml_type_find(cases[i].type, &type);
        memset(blocks, 0x55, sizeof blocks);
        bool fine = gguf_blocks_are_finite(cases[i].type, blocks, 2 * type.bytes);
        blocks[type.bytes + cases[i].at] = cases[i].bad; // of the second block
        bool found = !gguf_blocks_are_finite(cases[i].type, blocks, 2 * type.bytes);
        if (!CHECK(t, fine && found))
            printf("    type %s\n", type.name);
    }
    // A kind whose row names no halves has none: MXFP4's and NVFP4's scales are bytes, IQ1_M's is in nibbles.
    for (uint32_t id = 0; id < GGML_TYPES; id++) {
        struct ggml_type type;
        const struct kind_info *info = ggml_type_find(id, &type) ? kind_info(type.kind) : NULL;
        bool without = info && info->scales == SCALES_IN_BLOCK && info->halves.count == 0;
        CHECK(t, !without || id == 39 || id == 40 || id == 29);
    }
    memset(blocks, 0x55, sizeof blocks);
    CHECK(t, gguf_blocks_are_finite(29, blocks, 56)); // IQ1_M
    blocks[55] = 0x75;
    blocks[53] = 0xc5;
    CHECK(t, !gguf_blocks_are_finite(29, blocks, 56));
    const float numbers[] = {1.0F, (float)INFINITY};
    CHECK(t, gguf_blocks_are_finite(0, numbers, 4) && !gguf_blocks_are_finite(0, numbers, 8));
    const uint16_t brains[] = {0x3f80, 0x7f80};
    CHECK(t, gguf_blocks_are_finite(30, brains, 2) && !gguf_blocks_are_finite(30, brains, 4));
}

static void everything_is_verified(struct harness *t)
{
    struct moe_err err = {.text = ""};
    CHECK_EQ(t, moe_verify(CHAT, NULL, NULL, &err), MOE_OK);
    struct package p;
    struct made_bytes bytes = file_bytes(CHAT);
    if (!opens(t, CHAT, &p))
        return;
    const struct checkpoint_tensor *up = checkpoint_find(p.checkpoint, "model.layers.1.mlp.switch_mlp.up_proj.weight");
    uint64_t last = up->at->offset + up->at->bytes - 2;
    package_release(&p);
    bytes.at[last] = 0x80;
    bytes.at[last + 1] = 0x7f;
    write_bytes("changed.gguf", &bytes);
    free(bytes.at);
    CHECK_EQ(t, moe_verify(path_of("changed.gguf"), NULL, NULL, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "layer 1, expert 7: its up has scales or numbers that are not finite") != NULL);
}

// CHAT with `bytes` of a tensor, from `at` on, replaced by `value`.
static const char *filled(const char *ours, uint64_t at, uint64_t bytes, int value)
{
    struct package p;
    struct made_bytes whole = file_bytes(CHAT);
    if (weights_open_package(CHAT, &p, NULL))
        exit(70);
    const struct checkpoint_tensor *tensor = checkpoint_find(p.checkpoint, ours);
    memset(whole.at + tensor->at->offset + at, value, bytes ? bytes : tensor->at->bytes);
    package_release(&p);
    write_bytes("changed.gguf", &whole);
    free(whole.at);
    return path_of("changed.gguf");
}

static int open_model(const char *path, struct moe_err *err)
{
    moe_model *model = NULL;
    int code = moe_model_open(path, &(struct moe_model_options){.device = "ref"}, &model, err);
    moe_model_close(model);
    return code;
}

// Holes in a file look like weights: verify says of which expert, and a layer without any is refused at once.
static void zeroes_are_no_weights(struct harness *t)
{
    static const char up[] = "model.layers.1.mlp.switch_mlp.up_proj.weight";
    struct moe_err err = {.text = ""};
    uint64_t expert = 32 * 64 * 2; // bf16
    const char *path = filled(up, 3 * expert, expert, 0);
    CHECK_EQ(t, moe_verify(path, NULL, NULL, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "layer 1, expert 3: its up is all zero") != NULL);
    CHECK_EQ(t, open_model(path, &err), MOE_OK); // one may be so on purpose
    path = filled(up, 0, 0, 0);
    CHECK_EQ(t, open_model(path, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "changed.gguf: the experts of layer 1 are zeroes") != NULL);
    path = filled("model.layers.0.self_attn.o_proj.weight", 0, 0, 0);
    CHECK_EQ(t, moe_verify(path, NULL, NULL, &err), MOE_FORMAT);
    CHECK(t, strstr(err.text, "tensor blk.0.attn_output.weight is all zero") != NULL);
}

// A router's bias of no number would choose the same experts for every token, and say nothing.
static void vectors_are_numbers(struct harness *t)
{
    static const char *const names[] = {"model.layers.1.mlp.gate.e_score_correction_bias", "model.norm.weight",
                                        "model.layers.1.mlp.gate.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct moe_err err = {.text = ""};
        CHECK_EQ(t, open_model(filled(names[i], 4, 4, 0xff), &err), MOE_FORMAT);
        if (!CHECK(t, strstr(err.text, "has numbers that are not finite; download the model again") != NULL))
            printf("    %s\n", err.text);
    }
}

static void what_the_maker_suggests_is_taken(struct harness *t)
{
    struct moe_description *d = calloc(1, sizeof *d);
    struct moe_err err = {.text = ""};
    struct made_bytes bytes = file_bytes(PLAIN), more = {0};
    // A key of a new file before all others: counts first.
    made_put(&more, bytes.at, 16);
    made_put_number(&more, bytes.at[16] + 1U, 8);
    made_put_string(&more, "general.sampling.temp");
    made_put_number(&more, GGUF_F32, 4);
    made_put(&more, &(float){0.6F}, 4);
    size_t added = more.length - 24;
    made_put(&more, bytes.at + 24, bytes.length - 24);
    while (added++ % 32)
        made_put(&more, "", 1);
    // The header grew by what is no multiple of 32: its padding has to grow, too, or shrink; both are zeroes.
    write_bytes("changed.gguf", &more);
    int code = moe_inspect(path_of("changed.gguf"), d, &err);
    if (CHECK_EQ(t, code, MOE_OK)) {
        CHECK_EQ(t, d->suggestion.given, MOE_SUGGESTS_TEMPERATURE);
        CHECK(t, d->suggestion.temperature > 0.599 && d->suggestion.temperature < 0.601);
    } else {
        printf("    %s\n", err.text);
    }
    free(more.at);
    free(bytes.at);
    free(d);
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(models_open_as_packages_do),
        TEST(what_keys_change_is_another_fingerprint),
        TEST(what_is_left_out_is_counted),
        TEST(a_folder_means_its_model),
        TEST(tensors_are_checked),
        TEST(dimensions_are_checked),
        TEST(the_vocabulary_is_shown),
        TEST(vocabularies_are_checked),
        TEST(blocks_are_looked_at),
        TEST(everything_is_verified),
        TEST(zeroes_are_no_weights),
        TEST(vectors_are_numbers),
        TEST(what_the_maker_suggests_is_taken),
    };
    if (!mkdtemp(folder))
        return 1;
    int status = HARNESS_RUN(tests, argc, argv);
    unlink(path_of("changed.gguf"));
    rmdir(folder);
    return status;
}
