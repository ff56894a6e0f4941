// SPDX-License-Identifier: GPL-3.0-or-later
// Decides what a conversion writes: which tensors are copied, which quantised and how, and where each lies.
#include "engine/convert/job.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/document.h"
#include "engine/convert/job_gguf.h"
#include "engine/files/folder.h"
#include "engine/walk/weights.h"
#include "kernels/kinds.h"

enum { PART_ALIGNMENT = 64, BLOB_ALIGNMENT = 4096, STEM_BYTES = 160 };

static const char *const dtype_names[] = {
    [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16", [DTYPE_F32] = "F32", [DTYPE_U8] = "U8",           [DTYPE_I8] = "I8",
    [DTYPE_U32] = "U32",   [DTYPE_I32] = "I32", [DTYPE_I64] = "I64", [DTYPE_F8_E4M3] = "F8_E4M3",
};

static bool ends(const char *name, const char *with)
{
    size_t length = strlen(name);
    size_t tail = strlen(with);
    return length > tail && strcmp(name + length - tail, with) == 0;
}

// name without suffix, when it ends so and fits.
static bool cut(const char *name, const char *suffix, char stem[STEM_BYTES])
{
    size_t length = strlen(name);
    if (!ends(name, suffix) || length >= STEM_BYTES)
        return false;
    snprintf(stem, STEM_BYTES, "%.*s", (int)(length - strlen(suffix)), name);
    return true;
}

static const struct checkpoint_tensor *find(const struct checkpoint *from, const char *stem, const char *suffix)
{
    char name[STEM_BYTES + 24];
    snprintf(name, sizeof name, "%s%s", stem, suffix);
    return checkpoint_find(from, name);
}

// How a matrix is written: as it is where that can be, else quantised anew.
static struct job_matrix decide(const struct job *job, const struct source_matrix *m, uint32_t bits,
                                uint32_t bits_of_floats)
{
    if (m->exact && (bits == 0 || bits == m->stored.bits))
        return (struct job_matrix){m->stored, true,
                                   m->kind == SOURCE_MXFP4 ? KIND_MLX_MXFP4 : kind_affine(m->stored.bits)};
    uint32_t group = job->group_size ? job->group_size : 64;
    while (m->cols % group) // a multiple of 32
        group /= 2;
    uint32_t own = m->stored.bits ? m->stored.bits : bits_of_floats;
    return (struct job_matrix){{bits ? bits : own, group}, false, kind_affine(bits ? bits : own)};
}

static void count_matrix(struct job *job, const struct source_matrix *m, bool exact)
{
    *(exact ? &job->n_copied : m->stored.bits ? &job->n_requantised : &job->n_quantised) += 1;
}

// ---- Experts

static bool has_joined(const struct job *job, uint32_t layer)
{
    char name[STEM_BYTES];
    snprintf(name, sizeof name, "model.layers.%" PRIu32 ".mlp.switch_mlp.gate_up_proj.weight", layer);
    return checkpoint_find(job->from, name) != NULL;
}

int job_expert(const struct job *job, uint32_t layer, uint32_t expert, uint32_t which, struct source_matrix *matrix,
               struct moe_err *err)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    const struct shape *s = job->shape;
    char stem[STEM_BYTES];
    char weight[STEM_BYTES + 8];
    uint32_t outer = shape_expert_size(s);
    struct source_request request = {stem, s->moe_intermediate_size, outer};
    if (which == 2)
        request = (struct source_request){stem, outer, s->moe_intermediate_size};
    snprintf(stem, sizeof stem, "model.layers.%" PRIu32 ".mlp.switch_mlp.%s", layer, names[which]);
    snprintf(weight, sizeof weight, "%s.weight", stem);
    if (checkpoint_find(job->from, weight))
        return source_find_stacked(job->from, &request, expert, s->n_routed_experts, matrix, err);
    if (has_joined(job, layer)) { // gate's rows, then up's
        snprintf(stem, sizeof stem, "model.layers.%" PRIu32 ".mlp.switch_mlp.gate_up_proj", layer);
        return source_find_stacked(job->from, &request, 2 * expert + which, 2 * s->n_routed_experts, matrix, err);
    }
    snprintf(stem, sizeof stem, "model.layers.%" PRIu32 ".mlp.experts.%" PRIu32 ".%s", layer, expert, names[which]);
    return source_find(job->from, &request, matrix, err);
}

static uint64_t aligned(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

// Its arrays from the blob's start, in order.
static void place(struct expert_layout *experts)
{
    struct expert_part parts[MAX_EXPERT_PARTS];
    struct args_matrix *const matrices[] = {&experts->gate, &experts->up, &experts->down};
    uint32_t n = package_parts(experts, parts);
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct args_matrix *m = matrices[parts[i].projection];
        *(parts[i].array == ARRAY_WEIGHT ? &m->weight : parts[i].array == ARRAY_SCALES ? &m->scales : &m->biases) = end;
        end = aligned(end + parts[i].bytes, PART_ALIGNMENT);
    }
    experts->blob_bytes = aligned(end, BLOB_ALIGNMENT);
}

static void lay_out(struct job_layer *layer, const struct shape *s)
{
    struct args_matrix *const matrices[] = {&layer->experts.gate, &layer->experts.up, &layer->experts.down};
    for (int i = 0; i < 3; i++) {
        struct args_matrix *m = matrices[i];
        struct quantisation how = layer->matrices[i].how;
        m->in_dim = i == 2 ? s->moe_intermediate_size : shape_expert_size(s);
        m->out_dim = i == 2 ? shape_expert_size(s) : s->moe_intermediate_size;
        m->kind = layer->matrices[i].kind;
        m->group_size = how.group_size;
    }
    place(&layer->experts);
}

// Is the layer's every matrix affine, of so many bits?
static bool has_bits(const struct expert_layout *experts, uint32_t bits)
{
    uint32_t kind = kind_affine(bits);
    return experts->gate.kind == kind && experts->up.kind == kind && experts->down.kind == kind;
}

// What version 1 of packages can say: 4 and 8 bits with bf16 scales, gate and up alike.
static bool is_plain_affine(const struct args_matrix *m)
{
    return (m->kind == KIND_MLX_4 || m->kind == KIND_MLX_8) && m->scale_type == SCALE_BF16;
}

static void note_version(struct job *job, const struct expert_layout *experts)
{
    const struct args_matrix *gate = &experts->gate, *up = &experts->up;
    if (!is_plain_affine(gate) || !is_plain_affine(up) || !is_plain_affine(&experts->down) || gate->kind != up->kind ||
        gate->group_size != up->group_size)
        job->version = 2;
}

// The layer as its source has it, its arrays one behind the other.
static void add_direct(struct job *job, uint32_t layer)
{
    struct job_layer *to = &job->layers[layer];
    to->direct = &job->source_layers[layer];
    to->experts = to->direct->experts;
    place(&to->experts);
    job->n_copied += 3;
    note_version(job, &to->experts);
    job->bytes += to->experts.blob_bytes * job->shape->n_routed_experts;
}

void job_say_layer(const struct job_layer *layer, char text[128])
{
    static const char *const names[] = {"gate", "up", "down"};
    const struct args_matrix *const matrices[] = {&layer->experts.gate, &layer->experts.up, &layer->experts.down};
    text[0] = '\0';
    for (int i = 0; i < 3; i++) {
        const struct args_matrix *m = matrices[i];
        char how[40];
        if (kind_info(m->kind)->scales == SCALES_AFFINE)
            snprintf(how, sizeof how, "%s in groups of %" PRIu32, kind_name(m->kind), m->group_size);
        else
            snprintf(how, sizeof how, "%s", kind_name(m->kind));
        size_t used = strlen(text);
        if (i == 0)
            snprintf(text, 128, "%s", how);
        else if (m->kind != matrices[0]->kind || m->group_size != matrices[0]->group_size)
            snprintf(text + used, 128 - used, ", %s %s", names[i], how);
    }
}

// How many tensors a matrix of an expert is made of.
static size_t tensors_of(const struct checkpoint *from, const struct source_matrix *m)
{
    char stem[STEM_BYTES];
    bool shape = cut(m->weight->name, ".weight_packed", stem) && find(from, stem, ".weight_shape");
    return 1u + (m->scales != NULL) + (m->biases != NULL) + shape;
}

// All experts of a layer must be there and stored alike.
static int add_layer(struct job *job, uint32_t layer, struct moe_err *err)
{
    struct job_layer *to = &job->layers[layer];
    if (job->source_layers && (!job->expert_bits || has_bits(&job->source_layers[layer].experts, job->expert_bits))) {
        add_direct(job, layer);
        return MOE_OK;
    }
    for (uint32_t which = 0; which < 3; which++) {
        struct source_matrix first;
        for (uint32_t e = 0; e < job->shape->n_routed_experts; e++) {
            struct source_matrix m;
            int code = job_expert(job, layer, e, which, &m, err);
            if (code)
                return code;
            first = e ? first : m;
            bool counted = which == 1 && has_joined(job, layer); // with gate
            if (!counted && (e == 0 || !m.first_row))            // stacked experts share their tensors
                job->n_routed += tensors_of(job->from, &m);
            if (m.kind != first.kind || m.stored.bits != first.stored.bits ||
                m.stored.group_size != first.stored.group_size || m.exact != first.exact)
                return moe_fail(err, MOE_UNSUPPORTED,
                                "%.280s: layer %" PRIu32 ": expert %" PRIu32 " is not stored like expert 0",
                                checkpoint_path(job->from, m.weight), layer, e);
        }
        if (first.cols % 32)
            return moe_fail(err, MOE_UNSUPPORTED,
                            "%.280s: experts have %" PRIu32 " inputs, which is not a multiple of 32",
                            checkpoint_place(job->from), first.cols);
        to->matrices[which] = decide(job, &first, job->expert_bits, 4);
        count_matrix(job, &first, to->matrices[which].exact);
    }
    struct quantisation gate = to->matrices[0].how, up = to->matrices[1].how;
    if (gate.bits != up.bits || gate.group_size != up.group_size) // both in one way, for they run together
        to->matrices[1] = (struct job_matrix){gate, false, kind_affine(gate.bits)};
    lay_out(to, job->shape);
    note_version(job, &to->experts);
    job->bytes += to->experts.blob_bytes * job->shape->n_routed_experts;
    return MOE_OK;
}

// ---- Resident tensors

static struct job_tensor *add(struct job *job, const char *stem, const char *suffix)
{
    struct job_tensor *tensor = &job->tensors[job->count++];
    snprintf(tensor->name, sizeof tensor->name, "%s%s", stem, suffix);
    return tensor;
}

void job_add_copy(struct job *job, const struct checkpoint_tensor *from)
{
    struct job_tensor *tensor = add(job, from->name, "");
    tensor->copy = from;
    tensor->dtype = from->at->dtype;
    tensor->n_dims = from->at->n_dims;
    memcpy(tensor->dims, from->at->dims, sizeof tensor->dims);
    tensor->bytes = from->at->bytes;
}

// A norm's weights, which packages hold in bf16.
static void add_rounded(struct job *job, const struct checkpoint_tensor *from)
{
    struct job_tensor *tensor = add(job, from->name, "");
    uint64_t count = from->at->dims[0];
    tensor->matrix = (struct source_matrix){
        .from = job->from, .kind = SOURCE_FLOAT, .weight = from, .rows = 1, .cols = (uint32_t)count};
    tensor->dtype = DTYPE_BF16;
    tensor->n_dims = 1;
    tensor->dims[0] = count;
    tensor->bytes = 2 * count;
    job->n_rounded++;
}

static void add_parts(struct job *job, const char *stem, const struct source_matrix *m, struct job_matrix planned)
{
    static const char *const suffixes[] = {".weight", ".scales", ".biases"};
    for (int i = 0; i < 3; i++) {
        struct job_tensor *tensor = add(job, stem, suffixes[i]);
        tensor->matrix = *m;
        tensor->part = (enum source_part)i;
        tensor->how = planned.how;
        tensor->exact = planned.exact;
        tensor->dtype = i ? DTYPE_BF16 : DTYPE_U32;
        uint64_t row = source_part_bytes(tensor->part, m->cols, planned.how);
        tensor->n_dims = m->weight->at->n_dims;
        memcpy(tensor->dims, m->weight->at->dims, sizeof tensor->dims);
        tensor->dims[tensor->n_dims - 1] = row / (i ? 2 : 4);
        tensor->bytes = row * m->rows;
    }
    count_matrix(job, m, planned.exact);
}

// The matrix that a tensor of scales or the like belongs to, and its stem; NULL: it stands for itself.
static const struct checkpoint_tensor *owner(const struct checkpoint *from, const char *name, char stem[STEM_BYTES])
{
    static const struct {
        const char *suffix, *of;
    } kinds[] = {
        {".weight_scale_inv", ".weight"},
        {".weight_scale", ".weight_packed"},
        {".weight_shape", ".weight_packed"},
        {".scales", ".weight"},
        {".biases", ".weight"},
        {".global_scale", ".weight"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (cut(name, kinds[i].suffix, stem))
            return find(from, stem, kinds[i].of);
    return NULL;
}

// Columns of a matrix as numbers. An MLX tensor alone does not tell its bits: config.json does.
static int columns(const struct job *job, const struct checkpoint_tensor *tensor, const char *stem, uint64_t *cols,
                   struct moe_err *err)
{
    struct declared declared = {0};
    *cols = tensor->at->dims[tensor->at->n_dims - 1];
    if (ends(tensor->name, ".weight_packed")) {
        *cols *= tensor->at->dtype == DTYPE_U8 ? 2 : 8;
    } else if (tensor->at->dtype == DTYPE_U32) {
        int code = folder_declared(job->from, stem, &declared, err);
        if (code)
            return code;
        if (!declared.known)
            return moe_fail(err, MOE_FORMAT, "%.280s: config.json's quantization does not give the bits of %.120s",
                            checkpoint_place(job->from), tensor->name);
        *cols = *cols * 32 / declared.bits;
    }
    return *cols <= UINT32_MAX && tensor->at->bytes / (*cols ? *cols : 1) <= UINT32_MAX
               ? MOE_OK
               : moe_fail(err, MOE_FORMAT, "%.280s: tensor %.120s is too large", checkpoint_path(job->from, tensor),
                          tensor->name);
}

// Routers stay as they are, so that routing does; and the small matrices that gates, decays and the mixing of streams
// are made by, which sigmoid and exp magnify.
static bool is_delicate(const char *stem)
{
    static const char *const names[] = {".mlp.gate",
                                        ".mlp.shared_expert_gate",
                                        ".linear_attn.in_proj_a",
                                        ".linear_attn.in_proj_b",
                                        ".linear_attn.in_proj_ba",
                                        ".self_attn.f_a_proj",
                                        ".self_attn.f_b_proj",
                                        ".self_attn.b_proj",
                                        "_res_proj",
                                        ".self_attn.indexer.weights_proj",
                                        ".self_attn.indexer.index_kpool_compress_gate",
                                        ".hc_attn_fn",
                                        ".hc_ffn_fn"};
    bool is = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is |= ends(stem, names[i]);
    return is;
}

static bool stays(const struct job *job, const struct checkpoint_tensor *tensor, const char *stem)
{
    const struct tensor *at = tensor->at;
    // So does what cannot be cut into groups, and what MLX left so.
    if (dtype_is_float(at->dtype))
        return is_delicate(stem) || at->n_dims != 2 || at->dims[1] % 32 ||
               (job->quantised_source && !job->resident_bits);
    if (at->dtype != DTYPE_U32)
        return false;
    return find(job->from, stem, ".scales") && (!job->resident_bits || is_delicate(stem));
}

// A matrix of another width than 4 and 8 bits, or whose scales are no bf16, is none of version 1's.
static int note_widths(struct job *job, const struct checkpoint_tensor *tensor, const char *stem, struct moe_err *err)
{
    struct declared declared;
    const struct checkpoint_tensor *scales = find(job->from, stem, ".scales");
    if (tensor->at->dtype != DTYPE_U32 || !scales)
        return MOE_OK;
    int code = folder_declared(job->from, stem, &declared, err);
    if (scales->at->dtype != DTYPE_BF16 || (declared.known && declared.bits != 4 && declared.bits != 8))
        job->version = 2;
    return code;
}

static int add_matrix(struct job *job, const struct checkpoint_tensor *tensor, const char *stem, struct moe_err *err)
{
    uint64_t cols;
    int code = columns(job, tensor, stem, &cols, err);
    if (code)
        return code;
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < tensor->at->n_dims; i++)
        rows *= tensor->at->dims[i];
    struct source_matrix m;
    code = source_find(job->from, &(struct source_request){stem, (uint32_t)rows, (uint32_t)cols}, &m, err);
    if (code)
        return code;
    if (m.cols % 32)
        return moe_fail(err, MOE_UNSUPPORTED,
                        "%.280s: tensor %.120s has %" PRIu32 " inputs, which is not a multiple of 32",
                        checkpoint_path(job->from, tensor), tensor->name, m.cols);
    bool outer = strcmp(stem, "model.embed_tokens") == 0 || strcmp(stem, "lm_head") == 0;
    bool router = is_delicate(stem);
    add_parts(job, stem, &m,
              decide(job, &m, router && job->resident_bits ? 8 : job->resident_bits, outer || router ? 8 : 4));
    return MOE_OK;
}

static int add_tensor(struct job *job, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    char stem[STEM_BYTES];
    const struct checkpoint_tensor *of = owner(job->from, tensor->name, stem);
    if (of) { // it goes where its matrix goes
        if (stays(job, of, stem))
            job_add_copy(job, tensor);
        return MOE_OK;
    }
    bool matrix =
        tensor->at->n_dims >= 2 && (cut(tensor->name, ".weight", stem) || cut(tensor->name, ".weight_packed", stem));
    if (matrix && !stays(job, tensor, stem))
        return add_matrix(job, tensor, stem, err);
    job->n_copied += matrix;
    int code = matrix ? note_widths(job, tensor, stem, err) : MOE_OK;
    if (code)
        return code;
    bool wide_vector = tensor->at->n_dims == 1 && tensor->at->dims[0] > 0 && tensor->at->dims[0] <= UINT32_MAX &&
                       (tensor->at->dtype == DTYPE_F32 || tensor->at->dtype == DTYPE_F16);
    wide_vector &= !ends(tensor->name, ".e_score_correction_bias");
    // Decays and the like stay as they are, and so does what a choice follows from.
    bool stay = job->shape->linear.n_value_heads > 0 || job->shape->indexer.n_heads > 0;
    if (wide_vector && !job->quantised_source && !stay) {
        add_rounded(job, tensor);
        return MOE_OK;
    }
    if (wide_vector) // as it is, so that the answers are the folder's
        job->version = 2;
    job_add_copy(job, tensor);
    return MOE_OK;
}

// A routed expert's tensor must be one that is read.
static int check_routed(struct job *job, const struct checkpoint_tensor *tensor, struct moe_err *err)
{
    static const char *const suffixes[] = {".weight",       ".scales",       ".biases",           ".weight_packed",
                                           ".weight_scale", ".weight_shape", ".weight_scale_inv", ".global_scale"};
    char stem[STEM_BYTES];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (cut(tensor->name, suffixes[i], stem) && (ends(stem, ".gate_proj") || ends(stem, ".up_proj") ||
                                                     ends(stem, ".down_proj") || ends(stem, ".gate_up_proj")))
            return MOE_OK;
    return moe_fail(err, MOE_FORMAT, "%.280s: unexpected tensor %.120s; download the folder again",
                    checkpoint_path(job->from, tensor), tensor->name);
}

// The header that names the planned tensors, with offsets set, and checked as it will be when the package is opened.
static int make_header(struct job *job, struct moe_err *err)
{
    struct document header = {0};
    struct json_object *root = document_object(&header);
    uint64_t end = 0;
    for (size_t i = 0; i < job->count; i++) {
        struct job_tensor *tensor = &job->tensors[i];
        struct json_object *entry = document_object(&header);
        struct json_object *dims = document_array(&header);
        struct json_object *range = document_array(&header);
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            document_append_number(&header, dims, tensor->dims[d]);
        document_append_number(&header, range, end);
        tensor->offset = end;
        end += tensor->bytes;
        document_append_number(&header, range, end);
        document_add_text(&header, entry, "dtype", dtype_names[tensor->dtype]);
        document_add(&header, entry, "shape", dims);
        document_add(&header, entry, "data_offsets", range);
        document_add(&header, root, tensor->name, entry);
    }
    const char *text = document_text(&header, root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    size_t written = text ? strlen(text) : 0;
    uint64_t length = aligned(written, PART_ALIGNMENT) + PART_ALIGNMENT - 8; // data begins at a multiple of 64
    job->header_bytes = 8 + length;
    job->header = text ? malloc((size_t)job->header_bytes) : NULL;
    if (job->header) {
        for (int i = 0; i < 8; i++)
            job->header[i] = (char)(length >> 8 * i);
        memset(job->header + 8, ' ', (size_t)length);
        memcpy(job->header + 8, text, written);
    }
    json_object_put(root);
    if (!job->header)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the header of resident.safetensors");
    for (size_t i = 0; i < job->count; i++)
        job->tensors[i].offset += job->header_bytes;
    job->resident_bytes = job->header_bytes + end;
    job->bytes += job->resident_bytes;
    return MOE_OK;
}

// Nothing missing, nothing unknown, every shape right: by the rules of the loader that will read the package.
static int check_planned(const struct job *job, struct moe_err *err)
{
    struct tensor_file file = {.fd = -1};
    struct checkpoint planned = {.shards = &file, .n_shards = 1};
    snprintf(file.path, sizeof file.path, "%s", checkpoint_place(job->from));
    int code = safetensors_parse(job->header + 8, (size_t)(job->header_bytes - 8), job->header_bytes,
                                 job->resident_bytes, &file, err);
    if (code)
        return code;
    planned.tensors = calloc(file.count, sizeof *planned.tensors);
    planned.count = planned.tensors ? file.count : 0;
    for (size_t i = 0; i < planned.count; i++) // sorted by name already
        planned.tensors[i] = (struct checkpoint_tensor){file.tensors[i].name, &file.tensors[i], 0};
    code = planned.tensors ? weights_check(job->shape, &planned, err)
                           : moe_fail(err, MOE_NO_MEMORY, "no memory for the list of tensors");
    free(planned.tensors);
    tensor_file_release(&file);
    return code;
}

// Of a folder: resident.safetensors.
static int plan_resident(struct job *job, struct moe_err *err)
{
    enum weight_layout layout;
    job->resident_file = "resident.safetensors";
    int code = folder_layout(job->from, &layout, err);
    job->quantised_source = !code && layout == LAYOUT_MLX;
    for (size_t i = 0; i < job->from->count && !code; i++) {
        const struct checkpoint_tensor *tensor = &job->from->tensors[i];
        code = (checkpoint_is_routed(tensor) ? check_routed : add_tensor)(job, tensor, err);
    }
    if (!code)
        code = make_header(job, err);
    return code ? code : check_planned(job, err);
}

static int make(struct job *job, struct moe_err *err)
{
    const struct shape *s = job->shape;
    size_t resident = 0;
    job->version = 1;
    for (size_t i = 0; i < job->from->count; i++)
        resident += !checkpoint_is_routed(&job->from->tensors[i]);
    job->tensors = calloc(3 * resident + 1, sizeof *job->tensors);
    job->layers = calloc(s->n_layers, sizeof *job->layers);
    if (!job->tensors || !job->layers)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to prepare the conversion");
    int code = job->from->gguf ? job_gguf_resident(job, err) : plan_resident(job, err);
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers && !code; i++)
        code = add_layer(job, i, err);
    // What runs as it is was counted when it was opened.
    if (!code && !job->source_layers && job->n_routed != job->from->count - resident)
        code = moe_fail(err, MOE_FORMAT, "%.300s: has %zu tensors of experts beyond the model's",
                        checkpoint_place(job->from), job->from->count - resident - job->n_routed);
    return code;
}

int job_make(struct job *job, struct moe_err *err)
{
    int code = make(job, err);
    if (code)
        job_release(job);
    return code;
}

void job_release(struct job *job)
{
    free(job->tensors);
    free(job->layers);
    free(job->header);
    job->tensors = NULL;
    job->layers = NULL;
    job->header = NULL;
    job->count = 0;
}
