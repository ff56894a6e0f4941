// SPDX-License-Identifier: GPL-3.0-or-later
// Folders from the hub: shards and their index, what is left out, layouts told apart, MLX's experts found where they
// are.
#include "tests/folder_rig.h"
#include "engine/files/folder.h"
#include "engine/files/package_facts.h"
#include "tests/harness.h"
#include "engine/walk/weights.h"

#define MODEL_A "tests/golden/tiny-a/package" // q_lora, groups, tied embeddings, one dense layer
#define MODEL_C "tests/golden/tiny-c/package" // 4 bits, experts and head in 8

static char scratch[] = "/tmp/moechat-folder-XXXXXX";
static char directory[64];

static struct made_folder made;
static struct json_object *config;

static void begin(const char *package)
{
    made_release(&made);
    if (config)
        json_object_put(config);
    made_remove(directory);
    made_from_package(&made, package, &config);
}

static void finish(uint32_t n_shards)
{
    made_write(&made, directory, n_shards);
    made_write_config(directory, config);
}

static void declare(const char *stem, int bits, int group_size)
{
    struct json_object *all = json_object_object_get(config, "quantization");
    if (!all) {
        all = json_object_new_object();
        json_object_object_add(config, "quantization", all);
    }
    struct json_object *entry = stem ? json_object_new_object() : all;
    json_object_object_add(entry, "bits", json_object_new_int(bits));
    json_object_object_add(entry, "group_size", json_object_new_int(group_size));
    if (stem)
        json_object_object_add(all, stem, entry);
}

// Opens the folder; on a failure that is expected, its text must have `says`.
static bool opens(struct harness *t, struct package *p, const char *says)
{
    struct moe_err err = {.text = ""};
    int code = weights_open_package(directory, p, &err);
    if (!says && code)
        printf("    %s\n", err.text);
    if (says && !(code && strstr(err.text, says) && (int)err.code == code && !strchr(err.text, '\n')))
        printf("    wanted \"%s\", got %d \"%s\"\n", says, code, err.text);
    CHECK(t, says ? code && strstr(err.text, says) : !code);
    CHECK(t, code != MOE_FORMAT || err.sys_errno == 0); // what a file says is no call's failure
    if (says && !code)
        package_release(p);
    return !code;
}

// Every byte of every expert, as the package has it and as the folder's spans bring it together.
static void compare_experts(struct harness *t, const struct package *folder, const char *package)
{
    struct package p;
    CHECK_EQ(t, weights_open_package(package, &p, NULL), 0);
    for (uint32_t layer = p.shape.first_k_dense_replace; layer < p.shape.n_layers; layer++) {
        const struct expert_layout *a = package_experts(&p, layer);
        const struct expert_layout *b = package_experts(folder, layer);
        CHECK(t, b->blob_bytes % 4096 == 0 && b->blob_bytes <= package_slot_bytes(folder));
        for (uint32_t e = 0; e < p.shape.n_routed_experts; e++) {
            struct expert_span spans[MAX_EXPERT_SPANS];
            unsigned char *want = made_memory(a->blob_bytes);
            unsigned char *got = made_memory(b->blob_bytes);
            package_spans(&p, layer, e, spans);
            made_read(p.files[spans[0].file].path, spans[0].offset, want, a->blob_bytes);
            uint32_t n = package_spans(folder, layer, e, spans);
            CHECK_EQ(t, n, 9);
            for (uint32_t i = 0; i < n; i++) {
                CHECK(t, spans[i].at % 64 == 0 && spans[i].at + spans[i].bytes <= b->blob_bytes);
                CHECK(t, spans[i].offset + spans[i].bytes <= folder->files[spans[i].file].bytes);
                made_read(folder->files[spans[i].file].path, spans[i].offset, got + spans[i].at, spans[i].bytes);
            }
            for (uint32_t m = 0; m < 3; m++) {
                const struct args_matrix *x = &(&a->gate)[m];
                const struct args_matrix *y = &(&b->gate)[m];
                uint64_t words = x->out_dim * matrix_row_bytes(x);
                uint64_t scales = (uint64_t)x->out_dim * (x->in_dim / x->group_size) * 2;
                CHECK(t, x->kind == y->kind && x->group_size == y->group_size && x->in_dim == y->in_dim);
                CHECK(t, memcmp(want + x->weight, got + y->weight, words) == 0);
                CHECK(t, memcmp(want + x->scales, got + y->scales, scales) == 0);
                CHECK(t, memcmp(want + x->biases, got + y->biases, scales) == 0);
            }
            free(want);
            free(got);
        }
    }
    package_release(&p);
}

static void mlx_folders_open_as_they_are(struct harness *t)
{
    static const struct {
        const char *package;
        uint32_t n_shards;
    } cases[] = {{MODEL_A, 1}, {MODEL_A, 3}, {MODEL_C, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct package p;
        begin(cases[i].package);
        finish(cases[i].n_shards);
        if (!opens(t, &p, NULL))
            continue;
        CHECK(t, p.kind == FOLDER_MLX && p.n_files == cases[i].n_shards && strlen(p.fingerprint) == 64);
        compare_experts(t, &p, cases[i].package);
        struct moe_description folder, package;
        CHECK_EQ(t, package_describe(&p, &folder, NULL), 0);
        CHECK_EQ(t, moe_inspect(cases[i].package, &package, NULL), 0);
        CHECK(t, folder.runs && !folder.package && package.package && strcmp(folder.layout, "MLX folder") == 0);
        CHECK_EQ(t, folder.resident_bytes, package.resident_bytes);
        CHECK_EQ(t, folder.parameters, package.parameters);
        package_release(&p);
    }
}

static void the_index_and_the_shards_say_the_same(struct harness *t)
{
    struct package p;
    char path[200];
    begin(MODEL_A);
    finish(2);
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", directory);
    CHECK_EQ(t, truncate(path, 30000), 0);
    opens(t, &p, "it is cut short, download it again");
    CHECK_EQ(t, unlink(path), 0);
    opens(t, &p, "model-00002-of-00002.safetensors: is not there: the download is not complete");

    made_text(directory, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"../x.safetensors\"}}");
    opens(t, &p, "names something else than a *.safetensors file of the folder");
    made_text(directory, "model.safetensors.index.json", "{\"weight_map\":{}}");
    opens(t, &p, "its weight_map is empty");
    made_text(directory, "model.safetensors.index.json", "{\"weight_map\":{\"a\":[]}}");
    opens(t, &p, "names something else");
    made_text(directory, "model.safetensors.index.json", "{}");
    opens(t, &p, "weight_map: is missing");
    made_text(directory, "model.safetensors.index.json",
              "{\"weight_map\":{\"model.norm.weight\":\"model-00001-of-00002.safetensors\"}}");
    opens(t, &p, "is not in model.safetensors.index.json");

    // One tensor in the other shard, one in no shard, one in both.
    begin(MODEL_A);
    finish(2);
    uint64_t dims[] = {8};
    made_add(&made, "extra", "U8", 1, dims);
    made_write_shard(&made, directory, (uint32_t)((made.count - 1) % 2), 2);
    opens(t, &p, "tensor extra is not in model.safetensors.index.json");
    finish(2);
    made.count--;
    made_write_shard(&made, directory, (uint32_t)(made.count % 2), 2);
    opens(t, &p, "tensor extra is missing, though model.safetensors.index.json names it");
    free(made.tensors[made.count].data);
    begin(MODEL_A);
    finish(2);
    struct made_tensor first = made.tensors[0];
    made.tensors[0] = made.tensors[1];
    made_write_shard(&made, directory, 0, 2);
    made.tensors[0] = first;
    opens(t, &p, "is here, but model.safetensors.index.json says model-00002-of-00002.safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", directory);
    CHECK_EQ(t, unlink(path), 0);
    opens(t, &p, "is in /tmp/moechat-folder-");
}

static struct made_tensor *rename_tensor(const char *from, const char *to)
{
    struct made_tensor *tensor = made_find(&made, from);
    snprintf(tensor->name, sizeof tensor->name, "%s", to);
    return tensor;
}

static void what_is_left_out_is_said(struct harness *t)
{
    static const uint64_t dims[] = {4};
    static const char *const extra[] = {"vision_tower.blocks.0.weight", "language_model.model.layers.3.eh_proj.weight",
                                        "language_model.model.layers.10.x", "mm_projector.y",
                                        "language_model.model.layers.0.self_attn.rotary_emb.inv_freq"};
    struct package p;
    struct moe_description d;
    begin(MODEL_A); // 3 layers
    for (size_t i = 0; i < made.count; i++) {
        char name[160];
        snprintf(name, sizeof name, "language_model.%.140s", made.tensors[i].name);
        snprintf(made.tensors[i].name, sizeof made.tensors[i].name, "%s", name);
    }
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
        made_add(&made, extra[i], "F32", 1, dims);
    finish(2);
    if (opens(t, &p, NULL)) {
        CHECK_EQ(t, package_describe(&p, &d, NULL), 0);
        CHECK_STR(
            t, d.left_out,
            "2 tensors of vision (32 B), 2 tensors of multi-token prediction (32 B), 1 tensor of rope buffers (16 B)");
        package_release(&p);
    }
    made_add(&made, "language_model.model.layers.2.surprise.weight", "F32", 1, dims);
    finish(2);
    opens(t, &p, "tensor model.layers.2.surprise.weight is not one of this model's");
}

static void quantisation_is_checked_against_the_config(struct harness *t)
{
    struct package p;
    begin(MODEL_C); // groups of 32; 8 bits for experts, head and router
    declare(NULL, 4, 32);
    finish(1);
    opens(t, &p, "is not what config.json's quantization says (4 bits in groups of 32)");
    for (size_t i = 0; i < made.count; i++) {
        char stem[160];
        snprintf(stem, sizeof stem, "%s", made.tensors[i].name);
        char *end = strstr(stem, ".weight");
        bool eight = strstr(stem, "lm_head") || strstr(stem, "switch_mlp") || strstr(stem, ".mlp.gate.");
        if (!end || !eight)
            continue;
        *end = '\0';
        declare(stem, 8, 32);
    }
    finish(1);
    if (opens(t, &p, NULL))
        package_release(&p);
    declare("model.layers.1.self_attn.o_proj", 4, 64);
    finish(1);
    opens(t, &p, "o_proj.weight is not what config.json's quantization says (4 bits in groups of 64)");
    struct json_object *all = json_object_object_get(config, "quantization");
    json_object_object_add(all, "model.layers.1.self_attn.o_proj", json_object_new_boolean(0));
    finish(1);
    opens(t, &p, "(not quantised, otherwise 4 bits");
    json_object_object_del(all, "model.layers.1.self_attn.o_proj");
    json_object_object_add(all, "mode", json_object_new_string("mxfp4"));
    finish(1);
    opens(t, &p, "quantization says (mxfp4, 4 bits in groups of 32)"); // its scales are no bytes
    json_object_object_add(all, "mode", json_object_new_string("mxfp5"));
    finish(1);
    opens(t, &p, "/x/config.json: quantization.mode: is \"mxfp5\"; moechat computes with \"affine\", \"mxfp4\"");
}

static void stacked_experts_are_checked(struct harness *t)
{
    static const uint64_t dims[] = {4};
    struct package p;
    begin(MODEL_A);
    struct made_tensor *up = made_find(&made, "model.layers.2.mlp.switch_mlp.up_proj.scales");
    snprintf(up->dtype, sizeof up->dtype, "F16");
    finish(1);
    opens(t, &p, "switch_mlp.up_proj.biases is not BF16, F16 or F32, as its scales are");
    snprintf(up->dtype, sizeof up->dtype, "BF16");
    up->dims[0]--, up->dims[1]++;
    up->bytes = up->dims[0] * up->dims[1] * up->dims[2] * 2;
    up->data = realloc(up->data, up->bytes);
    memset(up->data, 0, up->bytes);
    finish(1);
    opens(t, &p, "switch_mlp.up_proj.scales is not [8 experts, 64, columns]");
    begin(MODEL_A);
    up = made_find(&made, "model.layers.2.mlp.switch_mlp.up_proj.weight");
    snprintf(up->dtype, sizeof up->dtype, "F32");
    finish(1);
    opens(t, &p, "switch_mlp.up_proj.weight is not U32");
    begin(MODEL_A);
    rename_tensor("model.layers.1.mlp.switch_mlp.down_proj.biases", "model.layers.1.mlp.switch_mlp.down_proj.bias");
    finish(1);
    opens(t, &p, "tensor model.layers.1.mlp.switch_mlp.down_proj.biases is missing");
    begin(MODEL_A);
    made_add(&made, "model.layers.1.mlp.switch_mlp.down_proj.bias", "F32", 1, dims);
    finish(1);
    opens(t, &p, "has other tensors of experts");
}

// nvfp4's alone, and a float32 for each expert.
static void factors_are_checked(struct harness *t)
{
    static const char from[] = "tests/golden/mlx-fp/checkpoint/", of[] = "switch_mlp.up_proj.global_scale\"";
    static const uint64_t dims[] = {8};
    struct package p;
    begin(MODEL_A);
    made_add(&made, "model.layers.1.mlp.switch_mlp.up_proj.global_scale", "F32", 1, dims);
    finish(1);
    opens(t, &p, "has other tensors of experts beside weight, scales and biases");
    made_remove(directory);
    mkdir(directory, 0700);
    for (int whole = 0; whole < 2; whole++) {
        char path[128];
        size_t size = 4 << 20, length;
        char *text = made_memory(size);
        for (int i = 0; i < 2; i++) {
            static const char *const names[] = {"config.json", "model.safetensors"};
            snprintf(path, sizeof path, "%s%s", from, names[i]);
            FILE *file = fopen(path, "rb");
            length = file ? fread(text, 1, size, file) : 0;
            if (file)
                fclose(file);
            for (char *at = text; i && !whole && at + sizeof of < text + length; at++)
                if (memcmp(at, of, sizeof of - 1) == 0)
                    *strstr(at, "F32") = 'I';
            snprintf(path, sizeof path, "%s/%s", directory, names[i]);
            file = fopen(path, "wb");
            CHECK(t, file && fwrite(text, 1, length, file) == length && length > 0);
            if (file)
                fclose(file);
        }
        free(text);
        if (opens(t, &p, whole ? NULL : "switch_mlp.up_proj.global_scale is not a float32 for each expert's nvfp4"))
            package_release(&p);
    }
}

// Gives a tensor another dtype and n numbers of `pattern`, `width` bytes each.
static void refill(const char *name, const char *dtype, size_t width, uint32_t (*pattern)(size_t))
{
    struct made_tensor *tensor = made_find(&made, name);
    size_t count = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        count *= tensor->dims[i];
    free(tensor->data);
    snprintf(tensor->dtype, sizeof tensor->dtype, "%s", dtype);
    tensor->bytes = count * width;
    tensor->data = made_memory(tensor->bytes);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = pattern(i);
        memcpy(tensor->data + i * width, &bits, width);
    }
}

static uint32_t halves(size_t i)
{
    return 0x3c00 + (uint32_t)i % 1024; // 1 to 2, more digits than bf16 has
}

static uint32_t brains(size_t i)
{
    return 0x3f80 + (uint32_t)i % 128;
}

static uint32_t exact_floats(size_t i)
{
    return brains(i) << 16;
}

static uint32_t inexact_floats(size_t i)
{
    return exact_floats(i) + 1;
}

static uint64_t stored(gpu *g, gpu_buf *buf, uint64_t offset, size_t width)
{
    uint64_t bits = 0;
    struct gpu_error err;
    return gpu_read(g, buf, offset, &bits, width, &err) ? UINT64_MAX : bits;
}

static void plain_tensors_of_any_float_are_taken(struct harness *t)
{
    struct package p;
    struct weights w;
    struct moe_err err = {.text = ""};
    struct gpu_error gpu_err;
    gpu *g = gpu_open(&(struct gpu_options){.selector = "ref"}, &gpu_err);
    uint64_t dims[] = {8, 160};
    begin(MODEL_A);
    struct made_tensor *router = made_find(&made, "model.layers.1.mlp.gate.weight");
    memcpy(router->dims, dims, sizeof dims);
    refill("model.layers.1.mlp.gate.weight", "F16", 2, halves);
    snprintf(made_find(&made, "model.layers.1.mlp.gate.scales")->name, 160, "model.layers.3.x"); // left out with MTP's
    snprintf(made_find(&made, "model.layers.1.mlp.gate.biases")->name, 160, "model.layers.3.y");
    refill("model.layers.1.mlp.gate.e_score_correction_bias", "BF16", 2, brains);
    refill("model.norm.weight", "F32", 4, inexact_floats); // that bf16 doesn't hold
    refill("model.layers.1.input_layernorm.weight", "BF16", 2, brains);
    finish(2);
    const struct weights_source source = {&p, NULL, NULL};
    if (opens(t, &p, NULL) && CHECK_EQ(t, weights_load(g, &source, &w, &err), 0)) {
        const struct layer_weights *layer = &w.layers[1];
        CHECK(t, layer->router.at.kind == KIND_F32 && w.layers[2].router.at.kind == KIND_MLX_8);
        for (uint64_t i = 0; i < 1280; i += 77) // a half's 10 digits of mantissa in a float's 23
            CHECK_EQ(t, stored(g, layer->router.buf, layer->router.at.weight + 4 * i, 4),
                     0x3f800000 + (i % 1024) * 8192);
        for (uint64_t i = 0; i < 8; i++)
            CHECK_EQ(t, stored(g, layer->router_bias.buf, layer->router_bias.offset + 4 * i, 4), brains(i) << 16);
        for (uint64_t i = 0; i < 160; i++)
            CHECK_EQ(t, stored(g, w.norm.buf, w.norm.offset + 4 * i, 4), inexact_floats(i));
        for (uint64_t i = 0; i < 160; i++) // a brain float's 16 bits are a float's upper ones
            CHECK_EQ(t, stored(g, layer->input_layernorm.buf, layer->input_layernorm.offset + 4 * i, 4),
                     brains(i) << 16);
        weights_release(&w);
        package_release(&p);
    }
    refill("model.layers.1.mlp.gate.e_score_correction_bias", "I32", 4, brains);
    finish(2);
    opens(t, &p, "e_score_correction_bias has another dtype than BF16, F16 or F32");
    gpu_close(g);
}

static void other_layouts_are_told_apart(struct harness *t)
{
    static const struct {
        const char *name, *dtype, *layout;
    } cases[] = {
        {"gate_proj.weight", "BF16", "bf16 checkpoint"},       {"gate_proj.weight", "F16", "f16 checkpoint"},
        {"gate_proj.weight", "F32", "float32 checkpoint"},     {"gate_proj.weight", "F8_E4M3", "fp8 checkpoint"},
        {"gate_proj.weight_packed", "I32", "int4 checkpoint"},
    };
    static const uint64_t dims[] = {64, 160};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct package p;
        struct moe_description d;
        char name[100];
        begin(MODEL_A);
        made_release(&made);
        snprintf(name, sizeof name, "model.layers.1.mlp.experts.0.%s", cases[i].name);
        made_add(&made, name, cases[i].dtype, 2, dims);
        finish(1);
        if (!opens(t, &p, NULL))
            continue;
        struct moe_err err = {.text = ""};
        CHECK_STR(t, p.layout, cases[i].layout);
        CHECK_EQ(t, package_describe(&p, &d, &err), MOE_NO_TENSOR); // convert would refuse it, so info does
        CHECK(t, strstr(err.text, " is missing; download the ") != NULL);
        package_release(&p);
    }
    struct package p;
    begin(MODEL_A);
    made_release(&made);
    made_add(&made, "model.layers.1.mlp.experts.0.gate_proj.weight", "I8", 2, dims);
    finish(1);
    opens(t, &p, "in none of the layouts that moechat reads");
    char path[200];
    snprintf(path, sizeof path, "%s/config.json", directory);
    CHECK_EQ(t, unlink(path), 0);
    opens(t, &p, "no model here");
}

// What is said of a folder that must be converted is what convert then makes.
static void sources_are_described_as_convert_makes_them(struct harness *t)
{
    static const struct {
        const char *folder, *layout, *said;
    } cases[] = {{"tests/golden/ck-glm/checkpoint", "bf16 checkpoint", "is a bf16 checkpoint, which "},
                 {"tests/golden/ck-v3-groups/checkpoint", "fp8 checkpoint", "is an fp8 checkpoint, which "},
                 {"tests/golden/ck-k25/checkpoint", "int4 checkpoint", "is an int4 checkpoint, which "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const struct moe_convert_options defaults = {.threads = 1};
        struct moe_description d;
        struct moe_err err = {.text = ""};
        moe_model *model;
        struct moe_model_options options = {.device = "ref"};
        struct package converted;
        made_remove(directory);
        CHECK_EQ(t, moe_inspect(cases[i].folder, &d, &err), 0);
        CHECK_STR(t, d.layout, cases[i].layout);
        CHECK(t, !d.runs && !d.package);
        CHECK_EQ(t, moe_model_open(cases[i].folder, &options, &model, &err), MOE_UNSUPPORTED);
        CHECK(t, strstr(err.text, "must be converted first: moechat convert ") != NULL);
        CHECK(t, strstr(err.text, cases[i].said) != NULL);
        CHECK_EQ(t, moe_convert(cases[i].folder, directory, &defaults, &err), 0);
        CHECK_EQ(t, weights_open_package(directory, &converted, &err), 0);
        uint64_t bytes = converted.resident.bytes;
        for (uint32_t k = 0; k < converted.n_files; k++)
            bytes += converted.files[k].bytes;
        char manifest[200];
        struct stat status = {0};
        snprintf(manifest, sizeof manifest, "%s/model.json", directory);
        CHECK_EQ(t, stat(manifest, &status), 0);
        // None of them has a tokenizer; a package has the name of its folder, of which nothing is known before.
        CHECK_EQ(t, d.package_bytes - strlen(d.name), bytes + (uint64_t)status.st_size - strlen("x"));
        package_release(&converted);
    }
}

// What is computed with the same tensors is told apart: kinds of layers, and what chooses positions.
static void settings_make_fingerprints(struct harness *t)
{
    static const char *const folders[] = {"tests/golden/ck-qwen3next-mlx/checkpoint",
                                          "tests/golden/ck-v32-mlx/checkpoint"};
    for (int i = 0; i < 2; i++) {
        struct package p;
        struct moe_err err;
        if (!CHECK_EQ(t, package_open(folders[i], &p, &err), MOE_OK))
            return;
        char before[65];
        const struct shape was = p.shape;
        snprintf(before, sizeof before, "%s", p.fingerprint);
        CHECK_EQ(t, package_take_fingerprint(&p, &err), MOE_OK);
        CHECK_STR(t, p.fingerprint, before);
        for (int change = 0; change < 4; change++) {
            p.shape = was;
            if (change == 0)
                p.shape.layer_kinds[0]++;
            else if (change == 1)
                p.shape.layer_kinds[was.n_layers - 1]++;
            else if (i == 0)
                (*(change == 2 ? &p.shape.linear.key_head_dim : &p.shape.rotary_dim))++;
            else
                (*(change == 2 ? &p.shape.indexer.top_k : &p.shape.indexer.head_dim))++;
            CHECK_EQ(t, package_take_fingerprint(&p, &err), MOE_OK);
            if (!CHECK(t, strcmp(p.fingerprint, before) != 0))
                printf("    %s, change %d\n", folders[i], change);
        }
        p.shape = was;
        package_release(&p);
    }
}

#define FLOAT(member)                                                                                                  \
    {                                                                                                                  \
        offsetof(struct shape, member), true                                                                           \
    }
#define WHOLE(member)                                                                                                  \
    {                                                                                                                  \
        offsetof(struct shape, member), false                                                                          \
    }

// Whatever a layer is computed by, in each kind of source: a folder, and a package, whose manifest has the sums of its
// files alone; to those older programs bound conversations, and of a package they still are.
static void what_is_computed_makes_fingerprints(struct harness *t)
{
    static const char *const models[] = {"tests/golden/ck-v32-mlx/checkpoint", "tests/golden/tiny-a/package"};
    static const struct {
        size_t offset;
        bool real;
    } settings[] = {FLOAT(linear.bound),         FLOAT(situ_beta),    FLOAT(swiglu_limit), FLOAT(latent_norm_eps),
                    FLOAT(softmax_scale),        FLOAT(rope_scale),   FLOAT(rms_norm_eps), WHOLE(hyper.n_streams),
                    WHOLE(bank_every),           WHOLE(indexer.pool), WHOLE(top_k),        WHOLE(n_group),
                    FLOAT(routed_scaling_factor)};
    for (size_t m = 0; m < 2; m++) {
        struct package p;
        struct moe_err err;
        if (!CHECK_EQ(t, package_open(models[m], &p, &err), MOE_OK))
            return;
        char before[65], once[65];
        const struct shape was = p.shape;
        snprintf(before, sizeof before, "%s", p.fingerprint);
        snprintf(once, sizeof once, "%s", p.fingerprint_once);
        CHECK(t, strcmp(before, once) != 0 && strlen(once) == (m ? 64 : 0)); // the folder has nothing rare
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
            char *at = (char *)&p.shape + settings[i].offset;
            float real = -5;
            uint32_t whole = 9;
            memcpy(at, settings[i].real ? (void *)&real : &whole, sizeof whole);
            snprintf(p.fingerprint, sizeof p.fingerprint, "%s", once);
            CHECK_EQ(t, m ? package_bind_settings(&p, &err) : package_take_fingerprint(&p, &err), MOE_OK);
            if (!CHECK(t, strcmp(p.fingerprint, before) != 0))
                printf("    %s, setting %zu\n", models[m], i);
            p.shape = was;
        }
        package_release(&p);
    }
}

int main(int argc, char **argv)
{
    static const struct harness_test tests[] = {
        TEST(what_is_computed_makes_fingerprints),
        TEST(mlx_folders_open_as_they_are),
        TEST(the_index_and_the_shards_say_the_same),
        TEST(what_is_left_out_is_said),
        TEST(quantisation_is_checked_against_the_config),
        TEST(stacked_experts_are_checked),
        TEST(factors_are_checked),
        TEST(plain_tensors_of_any_float_are_taken),
        TEST(other_layouts_are_told_apart),
        TEST(sources_are_described_as_convert_makes_them),
        TEST(settings_make_fingerprints),
    };
    if (!mkdtemp(scratch))
        return 2;
    snprintf(directory, sizeof directory, "%s/x", scratch);
    int code = HARNESS_RUN(tests, argc, argv);
    made_release(&made);
    json_object_put(config);
    made_remove(directory);
    rmdir(scratch);
    return code;
}
