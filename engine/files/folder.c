// SPDX-License-Identifier: GPL-3.0-or-later
// Tells a folder's layout, and where its experts lie.
#include "engine/files/folder.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/files/package_facts.h"
#include "engine/files/spans.h"
#include "kernels/kinds.h"

enum { PART_ALIGNMENT = 64, STEM_BYTES = 160 };

// ---- Which layout

static const struct checkpoint_tensor *first_expert(const struct checkpoint *c, const char *rest)
{
    char name[STEM_BYTES];
    snprintf(name, sizeof name, "model.layers.%" PRIu32 ".mlp.%s", c->shape.first_k_dense_replace, rest);
    return checkpoint_find(c, name);
}

// By itself, or all of a layer in one, gate's rows and then up's.
static const struct checkpoint_tensor *plain_expert(const struct checkpoint *c)
{
    const struct checkpoint_tensor *single = first_expert(c, "experts.0.gate_proj.weight");
    return single ? single : first_expert(c, "switch_mlp.gate_up_proj.weight");
}

int folder_layout(const struct checkpoint *c, enum weight_layout *layout, struct moe_err *err)
{
    const struct checkpoint_tensor *stacked = first_expert(c, "switch_mlp.gate_proj.weight");
    const struct checkpoint_tensor *single = plain_expert(c);
    const struct checkpoint_tensor *packed = first_expert(c, "experts.0.gate_proj.weight_packed");
    if (stacked && stacked->at->dtype == DTYPE_U32)
        *layout = LAYOUT_MLX;
    else if (packed)
        *layout = packed->at->dtype == DTYPE_U8 ? LAYOUT_MXFP4 : LAYOUT_INT4;
    else if (single && single->at->dtype == DTYPE_F8_E4M3)
        *layout = LAYOUT_FP8;
    else if (single &&
             (single->at->dtype == DTYPE_BF16 || single->at->dtype == DTYPE_F16 || single->at->dtype == DTYPE_F32))
        *layout = LAYOUT_PLAIN;
    else
        return moe_fail(err, MOE_UNSUPPORTED,
                        "%.300s: its experts (model.layers.%" PRIu32 ".mlp) are in none of the layouts that moechat "
                        "reads: bf16, f16, float32, fp8 with weight_scale_inv, int4 or mxfp4 weight_packed, MLX",
                        c->directory, c->shape.first_k_dense_replace);
    return MOE_OK;
}

const char *folder_layout_name(const struct checkpoint *c, enum weight_layout layout)
{
    if (layout == LAYOUT_MLX)
        return "MLX folder";
    if (layout == LAYOUT_FP8)
        return "fp8 checkpoint";
    if (layout == LAYOUT_INT4)
        return "int4 checkpoint";
    if (layout == LAYOUT_MXFP4)
        return "mxfp4 checkpoint";
    enum tensor_dtype dtype = plain_expert(c)->at->dtype;
    return dtype == DTYPE_BF16 ? "bf16 checkpoint" : dtype == DTYPE_F16 ? "f16 checkpoint" : "float32 checkpoint";
}

// ---- config.json's "quantization"

// The kind of an fp mode; KIND_NONE is affine, which MLX means where nothing is said.
static uint32_t read_mode(struct fields *f)
{
    char mode[32] = "affine";
    if (fields_has(f, "mode"))
        fields_text(f, "mode", mode, sizeof mode);
    uint32_t kind = kind_named(mode);
    const struct kind_info *info = kind_info(kind);
    if (!f->failed && strcmp(mode, "affine") != 0 && (!info || info->scales != SCALES_BYTES))
        fields_fail(f, MOE_UNSUPPORTED, "mode",
                    "is \"%s\"; moechat computes with \"affine\", \"mxfp4\", \"nvfp4\" and \"mxfp8\"", mode);
    return kind;
}

static struct json_object *own_entry(struct json_object *quantization, const char *stem)
{
    char name[STEM_BYTES + 16];
    struct json_object *entry = NULL;
    if (json_object_object_get_ex(quantization, stem, &entry))
        return entry;
    snprintf(name, sizeof name, "language_model.%s", stem);
    json_object_object_get_ex(quantization, name, &entry);
    return entry;
}

int folder_declared(const struct checkpoint *c, const char *stem, struct declared *declared, struct moe_err *err)
{
    static const struct integer_range any = {1, 4096};
    char path[4200];
    char prefix[STEM_BYTES + 16];
    memset(declared, 0, sizeof *declared);
    struct json_object *all = NULL;
    if (!json_object_object_get_ex(c->config, "quantization", &all) || !json_object_is_type(all, json_type_object))
        return MOE_OK;
    snprintf(path, sizeof path, "%s/config.json", c->directory);
    struct fields f = {.object = all, .file = path, .prefix = "quantization.", .err = err};
    struct json_object *own = own_entry(all, stem);
    if (json_object_is_type(own, json_type_object)) {
        snprintf(prefix, sizeof prefix, "quantization.%s.", stem);
        f.object = own;
        f.prefix = prefix;
    }
    declared->kind = read_mode(&f);
    declared->plain = json_object_is_type(own, json_type_boolean) && !json_object_get_boolean(own);
    declared->bits = (uint32_t)fields_integer(&f, "bits", any);
    declared->group_size = (uint32_t)fields_integer(&f, "group_size", any);
    declared->known = !f.failed;
    return f.failed;
}

static const char *fp_words(uint32_t kind)
{
    return kind == KIND_MLX_MXFP4   ? "mxfp4, "
           : kind == KIND_MLX_NVFP4 ? "nvfp4, "
           : kind == KIND_MLX_MXFP8 ? "mxfp8, "
                                    : "";
}

// What the shapes say of every quantised matrix against what config.json does: where they differ, one of them is of
// another model.
static int check_declared(const struct checkpoint *c, const struct checkpoint_tensor *words, struct moe_err *err)
{
    static const char weight[] = ".weight";
    char stem[STEM_BYTES];
    char name[STEM_BYTES + 16];
    struct declared declared;
    size_t length = strlen(words->name);
    if (length < sizeof weight || strcmp(words->name + length - (sizeof weight - 1), weight) != 0 ||
        length >= STEM_BYTES)
        return MOE_OK;
    snprintf(stem, sizeof stem, "%.*s", (int)(length - (sizeof weight - 1)), words->name);
    snprintf(name, sizeof name, "%s.scales", stem);
    const struct checkpoint_tensor *scales = checkpoint_find(c, name);
    int code = folder_declared(c, stem, &declared, err);
    if (code || !declared.known || words->at->n_dims < 2)
        return code;
    if (!scales || words->at->dtype != DTYPE_U32)
        return MOE_OK; // MLX itself takes matrices without scales as they are
    uint64_t cols = words->at->dims[words->at->n_dims - 1];
    uint64_t groups = scales->at->n_dims ? scales->at->dims[scales->at->n_dims - 1] : 0;
    bool fp = scales->at->dtype == DTYPE_U8;
    bool mode = fp == (declared.kind != KIND_NONE);
    // cols = in * bits / 32, groups = in / group_size
    if (!declared.plain && mode && cols * 32 == groups * declared.group_size * declared.bits)
        return MOE_OK;
    return moe_fail(err, MOE_FORMAT,
                    "%.240s: tensor %.120s is not what config.json's quantization says (%s%s%" PRIu32
                    " bits in groups of %" PRIu32 "); download the folder again",
                    checkpoint_path(c, words), words->name, declared.plain ? "not quantised, otherwise " : "",
                    fp_words(declared.kind), declared.bits, declared.group_size);
}

// ---- The experts of an MLX folder

struct stacked {
    const struct checkpoint *checkpoint;
    struct package_layer *to;
    uint32_t layer;
    struct moe_err *err;
};

static const struct checkpoint_tensor *find_stack(const struct stacked *s, const char *projection, const char *part,
                                                  char name[STEM_BYTES])
{
    snprintf(name, STEM_BYTES, "model.layers.%" PRIu32 ".mlp.switch_mlp.%s.%s", s->layer, projection, part);
    return checkpoint_find(s->checkpoint, name);
}

// A span of the tensor, a part of each expert; its number comes to `place` until spans have their places.
static void add_span(struct stacked *s, const struct checkpoint_tensor *tensor, arg_u64 *place)
{
    const struct tensor *at = tensor->at;
    *place = s->to->n_spans;
    s->to->spans[s->to->n_spans++] = (struct expert_span){
        .file = tensor->shard, .offset = at->offset, .bytes = at->bytes / s->checkpoint->shape.n_routed_experts};
}

// A tensor of [experts, rows, columns]. Returns it after adding its span, NULL after failing.
static const struct checkpoint_tensor *read_stack(struct stacked *s, const char *projection, const char *part,
                                                  uint32_t rows, arg_u64 *place)
{
    const struct checkpoint *c = s->checkpoint;
    char name[STEM_BYTES];
    const struct checkpoint_tensor *tensor = find_stack(s, projection, part, name);
    if (!tensor) {
        moe_fail(s->err, MOE_NO_TENSOR, "%.280s: tensor %s is missing; download the folder again", c->directory, name);
        return NULL;
    }
    const struct tensor *at = tensor->at;
    if (at->n_dims != 3 || at->dims[0] != c->shape.n_routed_experts || at->dims[1] != rows || at->dims[2] == 0) {
        moe_fail(s->err, MOE_FORMAT, "%.280s: tensor %s is not [%" PRIu32 " experts, %" PRIu32 ", columns]",
                 checkpoint_path(c, tensor), name, c->shape.n_routed_experts, rows);
        return NULL;
    }
    add_span(s, tensor, place);
    return tensor;
}

static bool refuse_dtype(struct stacked *s, const struct checkpoint_tensor *tensor, const char *want)
{
    moe_fail(s->err, MOE_UNSUPPORTED, "%.280s: tensor %s is not %s", checkpoint_path(s->checkpoint, tensor),
             tensor->name, want);
    return false;
}

// nvfp4's global_scale, one a matrix, if there is one.
static bool read_factor(struct stacked *s, const char *projection, struct args_matrix *at)
{
    char name[STEM_BYTES];
    uint32_t n = s->checkpoint->shape.n_routed_experts;
    const struct checkpoint_tensor *tensor = find_stack(s, projection, "global_scale", name);
    if (!tensor)
        return true;
    if (!kind_takes_factor(at->kind) || tensor->at->dtype != DTYPE_F32 || tensor->at->bytes != 4 * (uint64_t)n)
        return refuse_dtype(s, tensor, "a float32 for each expert's nvfp4");
    add_span(s, tensor, &at->biases);
    at->factor = FACTOR_OF_LARGEST;
    return true;
}

static bool read_projection(struct stacked *s, const char *projection, struct args_matrix *at)
{
    const struct checkpoint_tensor *words = read_stack(s, projection, "weight", at->out_dim, &at->weight);
    const struct checkpoint_tensor *scales =
        words ? read_stack(s, projection, "scales", at->out_dim, &at->scales) : NULL;
    if (!scales)
        return false;
    if (words->at->dtype != DTYPE_U32)
        return refuse_dtype(s, words, "U32");
    uint64_t cols = words->at->dims[2], groups = scales->at->dims[2];
    bool good;
    if (scales->at->dtype == DTYPE_U8) {
        good = package_fp_quantisation(at, cols, groups) && read_factor(s, projection, at);
    } else {
        uint32_t scale_type;
        const struct checkpoint_tensor *biases = read_stack(s, projection, "biases", at->out_dim, &at->biases);
        if (!biases)
            return false;
        if (!package_scale_type(scales->at->dtype, &at->scale_type))
            return refuse_dtype(s, scales, "BF16, F16, F32 or U8");
        if (!package_scale_type(biases->at->dtype, &scale_type) || scale_type != at->scale_type)
            return refuse_dtype(s, biases, "BF16, F16 or F32, as its scales are");
        good = package_quantisation(at, cols, groups) && biases->at->dims[2] == groups;
    }
    if (!good && !s->err->text[0])
        moe_fail(s->err, MOE_UNSUPPORTED,
                 "%.280s: layer %" PRIu32 ", switch_mlp.%s: %" PRIu32
                 " inputs are not in 2 to 8 bits and groups of 32, 64 or 128, nor mxfp4, nvfp4 or mxfp8",
                 s->checkpoint->directory, s->layer, projection, at->in_dim);
    return good;
}

static void place_experts(struct package_layer *to)
{
    struct args_matrix *const matrices[] = {&to->experts.gate, &to->experts.up, &to->experts.down};
    spans_place(to, PART_ALIGNMENT);
    for (uint32_t i = 0; i < 3; i++) {
        struct args_matrix *m = matrices[i];
        bool biases = m->factor || kind_info(m->kind)->scales == SCALES_AFFINE;
        m->weight = to->spans[m->weight].at;
        m->scales = to->spans[m->scales].at;
        m->biases = biases ? to->spans[m->biases].at : 0;
    }
}

static int read_experts(struct stacked *s)
{
    const struct shape *shape = &s->checkpoint->shape;
    struct expert_layout *experts = &s->to->experts;
    uint32_t inner = shape->moe_intermediate_size;
    experts->gate = experts->up = (struct args_matrix){.in_dim = shape_expert_size(shape), .out_dim = inner};
    experts->down = (struct args_matrix){.in_dim = inner, .out_dim = shape_expert_size(shape)};
    struct moe_err err = {.code = MOE_FORMAT, .text = ""};
    struct moe_err *to = s->err;
    s->err = &err;
    bool good = read_projection(s, "gate_proj", &experts->gate) && read_projection(s, "up_proj", &experts->up) &&
                read_projection(s, "down_proj", &experts->down);
    if (good) {
        place_experts(s->to);
        return MOE_OK;
    }
    if (to)
        *to = err;
    return (int)err.code;
}

static int read_layers(struct package *package, struct moe_err *err)
{
    const struct checkpoint *c = package->checkpoint;
    const struct shape *s = &c->shape;
    int code = package_list_files(package, err);
    if (code)
        return code;
    size_t routed = 0, used = 0;
    for (size_t i = 0; i < c->count; i++)
        routed += checkpoint_is_routed(&c->tensors[i]);
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++) {
        struct stacked stacked = {c, &package->layers[i], i, err};
        code = read_experts(&stacked);
        if (code)
            return code;
        used += package->layers[i].n_spans;
    }
    if (routed != used)
        return moe_fail(err, MOE_FORMAT, "%.300s: has other tensors of experts beside weight, scales and biases",
                        c->directory);
    for (size_t i = 0; i < c->count && !code; i++)
        code = check_declared(c, &c->tensors[i], err);
    return code;
}

// ---- Opening

static int read_folder(struct package *package, struct moe_err *err)
{
    enum weight_layout layout;
    int code = checkpoint_open_folder(package->directory, package->checkpoint, err);
    if (code) {
        free(package->checkpoint);
        package->checkpoint = NULL;
        return code;
    }
    package->shape = package->checkpoint->shape;
    package_name_after(package->name, package->directory);
    code = folder_layout(package->checkpoint, &layout, err);
    if (!code)
        code = package_find_tokenizer(package, package->directory, err);
    if (code)
        return code;
    package->kind = layout == LAYOUT_MLX ? FOLDER_MLX : FOLDER_SOURCE;
    snprintf(package->layout, sizeof package->layout, "%s", folder_layout_name(package->checkpoint, layout));
    if (package->kind == FOLDER_SOURCE)
        return MOE_OK;
    code = read_layers(package, err);
    return code ? code : package_take_fingerprint(package, err);
}

bool folder_is_one(const char *directory)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/config.json", directory);
    return access(path, F_OK) == 0;
}

int folder_open(struct package *package, struct moe_err *err)
{
    package->checkpoint = calloc(1, sizeof *package->checkpoint);
    if (!package->checkpoint)
        return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory to open the folder", package->directory);
    int code = read_folder(package, err);
    if (code)
        package_release(package);
    return code;
}
