// SPDX-License-Identifier: GPL-3.0-or-later
// Opens a set of GGUF files as a checkpoint.
#include "engine/files/gguf_model.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/document.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/files/checkpoint.h"
#include "engine/files/ggml_types.h"
#include "engine/files/gguf_config.h"
#include "engine/files/gguf_fields.h"
#include "engine/files/gguf_names.h"
#include "engine/files/package_facts.h"
#include "engine/files/spans.h"
#include "engine/files/suggestion.h"
#include "kernels/kinds.h"

enum { BLOCKS_ALIGNMENT = 32 }; // of a matrix in its slot: what alignments of files promise

// ---- The list of tensors

// Some programs write the halves of kv_b with two dimensions; the bytes are those of three.
static void split_heads(const struct shape *s, const char *ours, struct tensor *tensor)
{
    const char *rest = strstr(ours, ".self_attn.");
    bool keys = rest && strcmp(rest, ".self_attn.embed_q.weight") == 0;
    bool values = rest && strcmp(rest, ".self_attn.unembed_out.weight") == 0;
    if ((!keys && !values) || tensor->n_dims != 2 || tensor->dims[0] % s->n_heads)
        return;
    tensor->n_dims = 3;
    tensor->dims[2] = tensor->dims[1];
    tensor->dims[1] = tensor->dims[0] / s->n_heads;
    tensor->dims[0] = s->n_heads;
}

static void leave_out(struct left_out *out, const struct tensor *tensor)
{
    if (!out->count++)
        snprintf(out->example, sizeof out->example, "%.127s", tensor->name);
    out->bytes += tensor->bytes;
}

// kv_b is left out where its halves are there, too.
static bool is_doubled(const struct gguf_set *set, const char *name)
{
    static const char kv_b[] = ".attn_kv_b.weight";
    const char *at = strstr(name, kv_b);
    char half[96];
    if (!at || at[sizeof kv_b - 1])
        return false;
    snprintf(half, sizeof half, "%.*s.attn_k_b.weight", (int)(at - name), name);
    return gguf_set_tensor(set, half) != NULL;
}

static int list_tensors(struct checkpoint *c, const struct gguf_set *set, struct moe_err *err)
{
    size_t most = 1;
    for (uint32_t i = 0; i < set->n_files; i++)
        most += set->files[i].count;
    c->tensors = calloc(most, sizeof *c->tensors);
    c->names = calloc(most, GGUF_NAME_BYTES);
    if (!c->tensors || !c->names)
        return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory for its list of tensors", c->directory);
    char *name = c->names;
    for (uint32_t i = 0; i < set->n_files; i++)
        for (size_t k = 0; k < set->files[i].count; k++) {
            struct tensor *tensor = &set->files[i].tensors[k];
            enum gguf_use use = gguf_name(tensor->name, &c->shape, name);
            if (use == GGUF_USED && is_doubled(set, tensor->name))
                use = GGUF_SPARE;
            if (use != GGUF_USED) {
                leave_out(use == GGUF_MTP ? &c->mtp : &c->spare, tensor);
                continue;
            }
            split_heads(&c->shape, name, tensor);
            c->tensors[c->count++] = (struct checkpoint_tensor){name, tensor, i};
            name += GGUF_NAME_BYTES;
        }
    return MOE_OK;
}

// The set's files and keys become the checkpoint's, whose shape is read.
static int take_set(struct checkpoint *c, struct gguf_set *set, struct moe_err *err)
{
    int code = list_tensors(c, set, err);
    if (code)
        return code;
    c->gguf = malloc(sizeof *c->gguf);
    if (!c->gguf)
        return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory for its keys", c->directory);
    *c->gguf = set->head;
    c->shards = set->files;
    c->n_shards = set->n_files;
    memset(set, 0, sizeof *set);
    set->head.file.fd = -1;
    return checkpoint_sort(c, err);
}

static int read_checkpoint(struct checkpoint *c, struct gguf_set *set, struct moe_err *err)
{
    int code = gguf_config_read(set, &c->config, &c->shape, err);
    return code ? code : take_set(c, set, err);
}

// ---- Experts

struct stacks {
    const struct checkpoint *from;
    struct package_layer *to;
    uint32_t layer;
    struct moe_err *err;
    int failed;
};

static void name_stack(const struct stacks *s, const char *projection, const char *last, char name[GGUF_NAME_BYTES])
{
    snprintf(name, GGUF_NAME_BYTES, "model.layers.%" PRIu32 ".mlp.switch_mlp.%s.%s", s->layer, projection, last);
}

static const struct checkpoint_tensor *find_stack(const struct stacks *s, const char *projection, const char *last)
{
    char name[GGUF_NAME_BYTES];
    name_stack(s, projection, last, name);
    return checkpoint_find(s->from, name);
}

int gguf_check_kind(const struct checkpoint *c, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    struct ggml_type type = {.name = "of no type", .kind = KIND_NONE};
    ggml_type_find(tensor->at->ggml_type, &type);
    if (kind_info(type.kind))
        return MOE_OK;
    return moe_fail(err, MOE_UNSUPPORTED,
                    "%.240s: tensor %.80s is %s, which moechat does not compute with; get a file of another "
                    "quantisation",
                    checkpoint_path(c, tensor), tensor->at->name, type.name);
}

// A stack of [experts, rows, cols]; its kind, after adding its span. KIND_NONE after failing.
static uint32_t add_stack(struct stacks *s, const char *projection, uint32_t rows, uint32_t cols)
{
    const struct checkpoint *c = s->from;
    const struct checkpoint_tensor *tensor = find_stack(s, projection, "weight");
    uint32_t n_experts = c->shape.n_routed_experts;
    if (s->failed)
        return KIND_NONE;
    if (!tensor) {
        char ours[GGUF_NAME_BYTES], name[GGUF_NAME_BYTES];
        name_stack(s, projection, "weight", ours);
        gguf_name_back(ours, &c->shape, name);
        s->failed = moe_fail(s->err, MOE_NO_TENSOR, "%.280s: tensor %s is missing; download the file again",
                             c->directory, name);
        return KIND_NONE;
    }
    const struct tensor *at = tensor->at;
    if (at->n_dims != 3 || at->dims[0] != n_experts || at->dims[1] != rows || at->dims[2] != cols) {
        s->failed = moe_fail(s->err, MOE_FORMAT,
                             "%.240s: tensor %s is not [%" PRIu32 " experts, %" PRIu32 ", %" PRIu32
                             "], as its keys say; download the file again",
                             checkpoint_path(c, tensor), at->name, n_experts, rows, cols);
        return KIND_NONE;
    }
    s->failed = gguf_check_kind(c, tensor, s->err);
    if (s->failed)
        return KIND_NONE;
    struct ggml_type type;
    s->to->spans[s->to->n_spans++] =
        (struct expert_span){.file = tensor->shard, .offset = at->offset, .bytes = at->bytes / n_experts};
    return ggml_type_find(at->ggml_type, &type) ? type.kind : KIND_NONE;
}

// STEM.scale, one for each expert's matrix, if there is one: its span's number plus one, 0: none.
static uint32_t add_factors(struct stacks *s, const char *projection, uint32_t kind)
{
    const struct checkpoint_tensor *tensor = find_stack(s, projection, "scale");
    uint64_t n_experts = s->from->shape.n_routed_experts;
    if (!tensor || s->failed)
        return 0;
    if (!kind_takes_factor(kind) || tensor->at->dtype != DTYPE_F32 || tensor->at->bytes != 4 * n_experts) {
        s->failed =
            moe_fail(s->err, MOE_UNSUPPORTED,
                     "%.240s: tensor %s is a factor of whole matrices, which moechat knows as a float32 for each "
                     "expert's NVFP4 alone; get a file of another quantisation",
                     checkpoint_path(s->from, tensor), tensor->at->name);
        return 0;
    }
    s->to->spans[s->to->n_spans++] =
        (struct expert_span){.file = tensor->shard, .offset = tensor->at->offset, .bytes = sizeof(float)};
    return s->to->n_spans;
}

static void place_factor(const struct package_layer *layer, struct args_matrix *m, uint32_t span)
{
    if (!span)
        return;
    m->factor = FACTOR_ITSELF;
    m->biases = layer->spans[span - 1].at;
}

// gate, up and down, or gate's rows and then up's in one; all of a layer and maybe in different files.
static int read_experts(struct stacks *s)
{
    const struct shape *shape = &s->from->shape;
    struct expert_layout *to = &s->to->experts;
    uint32_t inner = shape->moe_intermediate_size;
    bool fused = find_stack(s, "gate_up_proj", "weight") != NULL;
    uint32_t factors[3];
    to->gate = to->up = (struct args_matrix){.in_dim = shape_expert_size(shape), .out_dim = inner};
    to->down = (struct args_matrix){.in_dim = inner, .out_dim = shape_expert_size(shape)};
    if (fused) {
        to->gate.kind = to->up.kind = add_stack(s, "gate_up_proj", 2 * inner, shape_expert_size(shape));
    } else {
        to->gate.kind = add_stack(s, "gate_proj", inner, shape_expert_size(shape));
        to->up.kind = add_stack(s, "up_proj", inner, shape_expert_size(shape));
    }
    to->down.kind = add_stack(s, "down_proj", shape_expert_size(shape), inner);
    factors[0] = add_factors(s, fused ? "gate_up_proj" : "gate_proj", to->gate.kind);
    factors[1] = fused ? factors[0] : add_factors(s, "up_proj", to->up.kind);
    factors[2] = add_factors(s, "down_proj", to->down.kind);
    if (s->failed)
        return s->failed;
    spans_place(s->to, BLOCKS_ALIGNMENT);
    to->gate.weight = s->to->spans[0].at;
    to->up.weight = fused ? to->gate.weight + s->to->spans[0].bytes / 2 : s->to->spans[1].at;
    to->down.weight = s->to->spans[fused ? 1 : 2].at;
    place_factor(s->to, &to->gate, factors[0]);
    place_factor(s->to, &to->up, factors[1]);
    place_factor(s->to, &to->down, factors[2]);
    return MOE_OK;
}

static int read_layers(struct package *package, struct moe_err *err)
{
    const struct checkpoint *c = package->checkpoint;
    size_t routed = 0;
    size_t used = 0;
    int code = package_list_files(package, err);
    for (uint32_t i = c->shape.first_k_dense_replace; i < c->shape.n_layers && !code; i++) {
        struct stacks stacks = {.from = c, .to = &package->layers[i], .layer = i, .err = err};
        code = read_experts(&stacks);
        used += package->layers[i].n_spans;
    }
    for (size_t i = 0; i < c->count; i++)
        routed += checkpoint_is_routed(&c->tensors[i]);
    if (!code && routed != used)
        return moe_fail(err, MOE_FORMAT, "%.300s: has more tensors of experts than its layers have a use for",
                        c->directory);
    return code;
}

// ---- Opening

// The first file's name without what every GGUF's ends in.
static void name_model(struct package *package, const char *path)
{
    struct gguf_part part;
    package_name_after(package->name, path);
    size_t length = strlen(package->name);
    size_t tail = gguf_part_parse(package->name, &part) ? length - part.prefix : strlen(".gguf");
    if (length > tail && strcasecmp(package->name + length - strlen(".gguf"), ".gguf") == 0)
        package->name[length - tail] = '\0';
}

// What the maker suggests, general.sampling.*: checked as generation_config.json is. `path` is for messages.
static int read_suggestion(const struct gguf *gguf, const char *path, struct moe_suggestion *suggestion,
                           struct moe_err *err)
{
    static const struct {
        const char *key, *field;
    } keys[] = {{"general.sampling.temp", "temperature"},
                {"general.sampling.top_k", "top_k"},
                {"general.sampling.top_p", "top_p"},
                {"general.sampling.min_p", "min_p"}};
    struct gguf_fields f = {.from = gguf, .path = path, .architecture = "", .err = err};
    struct document document = {0};
    struct json_object *root = document_object(&document);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!gguf_fields_find(&f, keys[i].key))
            continue;
        double number = gguf_fields_number(&f, keys[i].key, (struct number_range){-1, 1e9});
        document_add(&document, root, keys[i].field,
                     i == 1 ? json_object_new_int64((int64_t)number) : json_object_new_double(number));
    }
    int code = f.failed;
    if (!code && document.lost)
        code = moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory to read its keys", path);
    if (!code)
        code = suggestion_take(root, path, suggestion, err);
    suggestion->from_gguf = suggestion->given;
    json_object_put(root);
    return code;
}

static int read_model(struct package *package, struct gguf_set *set, struct moe_err *err)
{
    struct checkpoint *c = package->checkpoint;
    snprintf(c->directory, sizeof c->directory, "%.4000s", set->files[0].path);
    int code = read_checkpoint(c, set, err);
    if (code)
        return code;
    char folder[4096];
    file_folder(c->directory, folder, sizeof folder);
    package->kind = GGUF_FILES;
    package->shape = c->shape;
    name_model(package, c->directory);
    snprintf(package->layout, sizeof package->layout, c->n_shards > 1 ? "GGUF in %" PRIu32 " files" : "GGUF",
             c->n_shards);
    code = package_find_tokenizer(package, folder, err);
    if (!code)
        code = read_suggestion(c->gguf, c->directory, &package->suggestion, err);
    if (!code)
        code = read_layers(package, err);
    return code ? code : package_take_fingerprint(package, err);
}

int gguf_model_open(struct package *package, struct moe_err *err)
{
    struct gguf_set set;
    int code = gguf_set_open(package->directory, &set, err);
    if (code)
        return code;
    package->checkpoint = calloc(1, sizeof *package->checkpoint);
    code = package->checkpoint ? read_model(package, &set, err)
                               : moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory to open it", package->directory);
    gguf_set_release(&set);
    if (code)
        package_release(package);
    return code;
}

// ---- Of a package

int gguf_model_open_resident(const struct package *package, struct checkpoint *c, struct moe_err *err)
{
    struct gguf_set set = {.n_files = 1, .files = calloc(1, sizeof *set.files)};
    memset(c, 0, sizeof *c);
    snprintf(c->directory, sizeof c->directory, "%.4000s", package->resident.path);
    c->shape = package->shape;
    if (!set.files)
        return moe_fail(err, MOE_NO_MEMORY, "%.300s: no memory to open it", package->resident.path);
    set.files[0].fd = -1;
    int code = gguf_open(package->resident.path, &set.head, err);
    if (code) {
        set.head.file.fd = -1;
    } else {
        set.files[0] = set.head.file;
        set.head.file = (struct tensor_file){.fd = -1};
        code = take_set(c, &set, err);
    }
    gguf_set_release(&set);
    if (code)
        checkpoint_release(c);
    return code;
}

int gguf_model_read_suggestion(struct package *package, struct moe_err *err)
{
    struct gguf gguf;
    int code = gguf_open(package->resident.path, &gguf, err);
    if (code)
        return code;
    code = read_suggestion(&gguf, package->resident.path, &package->suggestion, err);
    gguf_release(&gguf);
    return code;
}
