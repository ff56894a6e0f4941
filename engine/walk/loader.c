// SPDX-License-Identifier: GPL-3.0-or-later
// How tensors come to the device: by name, checked, into slabs, then read in the files' order.
#include "engine/walk/loader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/checkpoint.h"
#include "engine/files/ggml_types.h"
#include "engine/files/gguf_model.h"
#include "engine/files/gguf_names.h"
#include "engine/files/verify.h"
#include "engine/files/source.h"
#include "kernels/numbers.h"

enum { TENSOR_ALIGNMENT = 64, SLAB_BYTES = 256 << 20, PIECE_BYTES = 8 << 20, NAME_BYTES = 160 };

// Where `bytes` of a tensor go, from `first` on.
struct piece {
    const struct checkpoint_tensor *tensor;
    uint64_t first, bytes;
    gpu_buf *buf;
    uint64_t offset;
    enum conversion conversion;
};

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
}

// Of so many stored ones.
static uint64_t converted(const struct checkpoint_tensor *tensor, enum conversion conversion, uint64_t bytes)
{
    return conversion == AS_STORED ? bytes : bytes / (tensor->at->dtype == DTYPE_F32 ? 4 : 2) * 4;
}

static uint64_t device_bytes(const struct checkpoint_tensor *tensor, enum conversion conversion)
{
    return converted(tensor, conversion, tensor->at->bytes);
}

// Vectors are float32 on the device, and what is f16 elsewhere.
static enum conversion conversion_of(const struct checkpoint_tensor *tensor)
{
    enum tensor_dtype dtype = tensor->at->dtype;
    return dtype == DTYPE_F16 || (dtype == DTYPE_BF16 && tensor->at->n_dims == 1) ? TO_F32 : AS_STORED;
}

int loader_begin(struct loader *l)
{
    size_t count = l->from->count + 1;
    l->known = calloc(count, sizeof *l->known);
    l->weights->slabs = calloc(2 * count, sizeof(gpu_buf *)); // a tensor is at most two matrices
    if (!l->known || !l->weights->slabs)
        return l->failed = moe_fail(l->err, MOE_NO_MEMORY, "no memory for the list of tensors");
    for (size_t i = 0; i < l->from->count; i++) {
        const struct checkpoint_tensor *tensor = &l->from->tensors[i];
        if (!checkpoint_is_routed(tensor))
            l->unplaced += aligned(device_bytes(tensor, conversion_of(tensor))) + TENSOR_ALIGNMENT;
    }
    return MOE_OK;
}

void loader_end(struct loader *l)
{
    free(l->known);
    free(l->pieces);
}

void loader_enter(struct loader *l, uint32_t layer)
{
    snprintf(l->in, sizeof l->in, "model.layers.%" PRIu32 ".", layer);
}

void loader_leave(struct loader *l)
{
    l->in[0] = '\0';
}

static const struct checkpoint_tensor *look_up(const struct loader *l, const char *stem, const char *suffix)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s%s", l->in, stem, suffix);
    return checkpoint_find(l->from, name);
}

bool loader_has(const struct loader *l, const char *stem)
{
    return look_up(l, stem, ".weight");
}

bool loader_has_tensor(const struct loader *l, const char *name)
{
    return look_up(l, name, "");
}

// Finds tensor in + stem + suffix and marks it as known; NULL after failing.
static const struct checkpoint_tensor *find(struct loader *l, const char *stem, const char *suffix)
{
    if (l->failed)
        return NULL;
    const struct checkpoint_tensor *tensor = look_up(l, stem, suffix);
    if (tensor) {
        l->known[tensor - l->from->tensors] = true;
        return tensor;
    }
    char ours[NAME_BYTES], name[GGUF_NAME_BYTES];
    snprintf(ours, sizeof ours, "%s%s%s", l->in, stem, suffix);
    if (l->from->gguf)
        gguf_name_back(ours, l->shape, name);
    l->failed = moe_fail(l->err, MOE_NO_TENSOR, "%.280s: tensor %s is missing; %s", checkpoint_place(l->from),
                         l->from->gguf ? name : ours, l->remedy);
    return NULL;
}

// As people find it in their files.
static const char *name_said(const struct loader *l, const struct checkpoint_tensor *tensor)
{
    return l->from->gguf ? tensor->at->name : tensor->name;
}

static void refuse_dtype(struct loader *l, const struct checkpoint_tensor *tensor, const char *want)
{
    l->failed = moe_fail(l->err, MOE_FORMAT, "%.280s: tensor %.120s has another dtype than %s; %s",
                         checkpoint_path(l->from, tensor), name_said(l, tensor), want, l->remedy);
}

static void refuse_shape(struct loader *l, const struct checkpoint_tensor *tensor, const char *want)
{
    char dims[100] = "";
    for (uint32_t i = 0; i < tensor->at->n_dims; i++) {
        size_t used = strlen(dims);
        snprintf(dims + used, sizeof dims - used, "%s%" PRIu64, i ? ", " : "", tensor->at->dims[i]);
    }
    l->failed = moe_fail(l->err, MOE_FORMAT, "%.240s: tensor %.100s is [%s]; the model's config makes it %s",
                         checkpoint_path(l->from, tensor), name_said(l, tensor), dims, want);
}

// Reserves `bytes` in one buffer: the last slab, or a new one.
static gpu_buf *reserve(struct loader *l, uint64_t bytes, uint64_t *offset)
{
    struct weights *w = l->weights;
    *offset = 0;
    if (!l->g)
        return NULL;
    uint64_t most = gpu_describe(l->g)->max_alloc_bytes / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
    gpu_buf *last = w->n_slabs ? w->slabs[w->n_slabs - 1] : NULL;
    if (!last || gpu_buf_bytes(last) - l->slab_used < bytes) {
        uint64_t size = l->unplaced < SLAB_BYTES ? l->unplaced : SLAB_BYTES;
        size = size < most ? size : most;
        size = size > bytes ? size : bytes;
        if (size > most) {
            l->failed = moe_fail(l->err, MOE_NO_MEMORY,
                                 "%s: a matrix of %" PRIu64 " bytes is more than the device gives at once (%" PRIu64
                                 "); choose another device",
                                 gpu_describe(l->g)->name, bytes, most);
            return NULL;
        }
        struct gpu_error gpu_err;
        last = gpu_buf_new(l->g, size, &gpu_err);
        if (!last) {
            l->failed = moe_fail_gpu(l->err, &gpu_err);
            return NULL;
        }
        w->slabs[w->n_slabs++] = last; // room for two slabs a tensor
        w->bytes += size;
        l->slab_used = 0;
    }
    *offset = l->slab_used;
    l->slab_used += bytes;
    l->unplaced -= bytes < l->unplaced ? bytes : l->unplaced;
    return last;
}

// Notes a piece, whose place is *offset, and moves that behind it.
static void place(struct loader *l, const struct piece *piece, uint64_t *offset)
{
    if (l->n_pieces == l->room) {
        size_t room = l->room ? 2 * l->room : 1024;
        struct piece *grown = realloc(l->pieces, room * sizeof *grown);
        if (!grown) {
            l->failed = moe_fail(l->err, MOE_NO_MEMORY, "no memory for the list of tensors");
            return;
        }
        l->pieces = grown;
        l->room = room;
    }
    l->pieces[l->n_pieces] = *piece;
    l->pieces[l->n_pieces++].offset = *offset;
    *offset += converted(piece->tensor, piece->conversion, piece->bytes);
}

// A float tensor whose dimensions that are not 1 are rows and cols; 1-dimensional when it must be.
static bool check_numbers(struct loader *l, const struct checkpoint_tensor *tensor, const struct want_numbers *want)
{
    const struct tensor *at = tensor->at;
    uint64_t dims[2] = {1, 1};
    uint32_t n = 0, wanted = (want->rows > 1 ? 1U : 0U) + (want->cols > 1 ? 1U : 0U);
    uint64_t first = want->rows > 1 ? want->rows : want->cols;
    bool good = true;
    for (uint32_t i = 0; i < at->n_dims; i++)
        if (at->dims[i] != 1 && n < 2)
            dims[n++] = at->dims[i];
        else
            good &= at->dims[i] == 1;
    good &= n == wanted && (wanted < 2 || dims[1] == want->cols) &&
            (dims[0] == first || (want->padded && wanted == 1 && dims[0] > first));
    if (!dtype_is_float(at->dtype)) {
        refuse_dtype(l, tensor, "BF16, F16 or F32");
    } else if (!good) {
        char text[48];
        snprintf(text, sizeof text, want->cols > 1 ? "[%" PRIu32 ", %" PRIu32 "]" : "[%" PRIu32 "]", want->rows,
                 want->cols);
        refuse_shape(l, tensor, text);
    }
    return !l->failed;
}

// Reserves for n tensors, and places them side by side.
static void place_numbers(struct loader *l, struct vector *vector, const struct piece *pieces, size_t n)
{
    uint64_t bytes = 0, offset;
    for (size_t i = 0; i < n; i++)
        bytes += device_bytes(pieces[i].tensor, pieces[i].conversion);
    vector->buf = reserve(l, aligned(bytes), &offset);
    vector->offset = offset;
    for (size_t i = 0; i < n && !l->failed; i++) {
        struct piece piece = pieces[i];
        piece.buf = vector->buf;
        piece.bytes = piece.tensor->at->bytes;
        place(l, &piece, &offset);
    }
}

// As stored, or in the way of `as`.
static void want_vector(struct loader *l, struct vector *vector, const char *name, uint32_t dim, enum conversion as)
{
    const struct checkpoint_tensor *tensor = find(l, name, "");
    if (!tensor)
        return;
    if (!dtype_is_float(tensor->at->dtype)) {
        refuse_dtype(l, tensor, "BF16, F16 or F32");
        return;
    }
    if (tensor->at->n_dims != 1 || tensor->at->dims[0] != dim) {
        char want[32];
        snprintf(want, sizeof want, "[%" PRIu32 "]", dim);
        refuse_shape(l, tensor, want);
        return;
    }
    struct piece piece = {.tensor = tensor, .conversion = as == AS_STORED ? conversion_of(tensor) : as};
    place_numbers(l, vector, &piece, 1);
}

void loader_vector(struct loader *l, struct vector *vector, const char *name, uint32_t dim)
{
    want_vector(l, vector, name, dim, AS_STORED);
}

void loader_ones(struct loader *l, struct vector *vector, const char *name, uint32_t dim)
{
    want_vector(l, vector, name, dim, TO_ONES);
}

void loader_norm(struct loader *l, struct vector *vector, const char *name, uint32_t dim)
{
    want_vector(l, vector, name, dim, l->norms_plus_one ? TO_F32_PLUS_ONE : AS_STORED);
}

void loader_numbers(struct loader *l, struct vector *vector, const struct want_numbers *want)
{
    enum { MOST = 3 };
    struct piece pieces[MOST] = {0};
    for (size_t i = 0; i < want->n && i < MOST; i++) {
        pieces[i].tensor = find(l, want->names[i], "");
        if (!pieces[i].tensor || !check_numbers(l, pieces[i].tensor, want))
            return;
        pieces[i].conversion = pieces[i].tensor->at->dtype == DTYPE_F32 ? AS_STORED : TO_F32;
    }
    place_numbers(l, vector, pieces, want->n);
}

// The columns of a tensor with the rows that are wanted; 0 after failing.
static uint64_t columns(struct loader *l, const struct want *want, const struct checkpoint_tensor *tensor,
                        const char *what)
{
    const struct tensor *at = tensor->at;
    uint32_t stored = want->runs ? want->stored_rows : want->out_dim;
    bool rows = want->heads
                    ? at->n_dims == 3 && at->dims[0] == want->heads && at->dims[1] == want->out_dim / want->heads
                    : at->n_dims == 2 && at->dims[0] == stored;
    if (rows || (at->n_dims == 1 && stored == 1)) // one row may be a vector
        return at->dims[at->n_dims - 1];
    char text[96];
    if (want->heads)
        snprintf(text, sizeof text, "[%" PRIu32 ", %" PRIu32 ", %s]", want->heads, want->out_dim / want->heads, what);
    else
        snprintf(text, sizeof text, "[%" PRIu32 ", %s]", stored, what);
    refuse_shape(l, tensor, text);
    return 0;
}

static void find_plain(struct loader *l, struct want *want)
{
    const struct checkpoint_tensor *tensor = want->parts[0];
    struct args_matrix *at = &want->matrix->at;
    char text[32];
    snprintf(text, sizeof text, "%" PRIu32, want->in_dim);
    uint64_t cols = columns(l, want, tensor, text);
    if (!l->failed && (cols != want->in_dim || want->in_dim % 32))
        refuse_shape(l, tensor, "of other columns (of multiples of 32, when it is not quantised)");
    want->conversion = tensor->at->dtype == DTYPE_F16 ? TO_F32 : AS_STORED;
    at->kind = tensor->at->dtype == DTYPE_BF16 ? KIND_BF16 : KIND_F32;
}

// A float32 that all of the matrix is multiplied with, if there is one.
static void find_factor(struct loader *l, struct want *want, const char *suffix, enum matrix_factor how)
{
    if (!look_up(l, want->stem, suffix))
        return;
    const struct checkpoint_tensor *tensor = want->parts[2] = find(l, want->stem, suffix);
    want->matrix->at.factor = how;
    if (tensor->at->dtype != DTYPE_F32 || tensor->at->bytes != sizeof(float))
        refuse_shape(l, tensor, "one float32");
    else if (!kind_takes_factor(want->matrix->at.kind))
        l->failed =
            moe_fail(l->err, MOE_UNSUPPORTED,
                     "%.240s: tensor %.100s is a factor of a whole matrix, which moechat knows of NVFP4 alone; get "
                     "a file of another quantisation",
                     checkpoint_path(l->from, tensor), name_said(l, tensor));
}

// Blocks of a GGUF's, as they are.
static void find_blocks(struct loader *l, struct want *want)
{
    const struct checkpoint_tensor *tensor = want->parts[0];
    struct ggml_type type = {.kind = KIND_NONE};
    char text[32];
    snprintf(text, sizeof text, "%" PRIu32, want->in_dim);
    ggml_type_find(tensor->at->ggml_type, &type);
    want->matrix->at.kind = type.kind;
    uint64_t cols = columns(l, want, tensor, text);
    if (!l->failed && cols != want->in_dim)
        refuse_shape(l, tensor, "of other columns");
    if (!l->failed && gguf_check_kind(l->from, tensor, l->err))
        l->failed = MOE_UNSUPPORTED;
    if (!l->failed)
        find_factor(l, want, ".scale", FACTOR_ITSELF);
}

// Words, and scales of a byte.
static void find_fp(struct loader *l, struct want *want)
{
    struct args_matrix *at = &want->matrix->at;
    uint64_t cols = columns(l, want, want->parts[0], "inputs*bits/32");
    uint64_t groups = l->failed ? 0 : columns(l, want, want->parts[1], "inputs/group");
    if (l->failed)
        return;
    if (package_fp_quantisation(at, cols, groups))
        find_factor(l, want, ".global_scale", FACTOR_OF_LARGEST);
    else
        refuse_shape(l, want->parts[0], "of mxfp4, nvfp4 or mxfp8, by its scales");
}

static void find_matrix(struct loader *l, struct want *want)
{
    struct args_matrix *at = &want->matrix->at;
    at->in_dim = want->in_dim;
    at->out_dim = want->out_dim;
    want->parts[0] = find(l, want->stem, ".weight");
    if (!want->parts[0])
        return;
    if (dtype_is_float(want->parts[0]->at->dtype)) {
        find_plain(l, want);
        return;
    }
    if (want->parts[0]->at->dtype == DTYPE_GGML) {
        find_blocks(l, want);
        return;
    }
    if (want->parts[0]->at->dtype != DTYPE_U32) {
        refuse_dtype(l, want->parts[0], "U32, BF16, F16 or F32");
        return;
    }
    want->parts[1] = find(l, want->stem, ".scales");
    if (want->parts[1] && want->parts[1]->at->dtype == DTYPE_U8) {
        find_fp(l, want);
        return;
    }
    want->parts[2] = find(l, want->stem, ".biases");
    uint64_t cols[3] = {0};
    uint32_t scale_types[3] = {0};
    for (int i = 0; i < 3 && !l->failed; i++) {
        if (i && (!package_scale_type(want->parts[i]->at->dtype, &scale_types[i]) || scale_types[i] != scale_types[1]))
            refuse_dtype(l, want->parts[i], "BF16, F16 or F32, as its scales are");
        else
            cols[i] = columns(l, want, want->parts[i], i ? "inputs/group" : "inputs*bits/32");
    }
    at->scale_type = scale_types[1];
    if (!l->failed && (!package_quantisation(at, cols[0], cols[1]) || cols[2] != cols[1])) {
        char text[96];
        snprintf(text, sizeof text, "%" PRIu32 " inputs of 2 to 8 bits in groups of 32, 64 or 128", want->in_dim);
        refuse_shape(l, want->parts[0], text);
    }
}

// Is a part of a matrix only some of its tensor's rows? A factor is of all of them.
static bool is_cut(const struct want *want, int part)
{
    return want->runs && !(part == 2 && want->matrix->at.factor);
}

// On the device.
static uint64_t part_bytes(const struct want *want, int part)
{
    uint64_t bytes = device_bytes(want->parts[part], want->conversion);
    return is_cut(want, part) ? bytes / want->stored_rows * want->out_dim : bytes;
}

static void place_part(struct loader *l, const struct want *want, int part, uint64_t *offset)
{
    const struct row_run whole = {0, 1};
    const struct row_run *runs = is_cut(want, part) ? want->runs : &whole;
    uint32_t n = is_cut(want, part) ? want->n_runs : 1;
    const struct checkpoint_tensor *tensor = want->parts[part];
    uint64_t row = tensor->at->bytes / (is_cut(want, part) ? want->stored_rows : 1);
    for (uint32_t i = 0; i < n; i++)
        place(l,
              &(struct piece){.tensor = tensor,
                              .first = runs[i].first * row,
                              .bytes = runs[i].n * row,
                              .buf = want->matrix->buf,
                              .conversion = want->conversion},
              offset);
    *offset = aligned(*offset);
}

void loader_matrices(struct loader *l, struct want *wants, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        find_matrix(l, &wants[i]);
        for (int part = 0; !l->failed && part < 3; part++)
            bytes += wants[i].parts[part] ? aligned(part_bytes(&wants[i], part)) : 0;
    }
    if (l->failed)
        return;
    uint64_t offset;
    gpu_buf *buf = reserve(l, bytes, &offset);
    for (size_t i = 0; !l->failed && i < n; i++) {
        struct args_matrix *at = &wants[i].matrix->at;
        uint64_t *const places[3] = {&at->weight, &at->scales, &at->biases};
        wants[i].matrix->buf = buf;
        for (int part = 0; part < 3; part++) {
            if (!wants[i].parts[part])
                continue;
            *places[part] = offset;
            place_part(l, &wants[i], part, &offset);
        }
    }
}

void loader_matrix(struct loader *l, struct matrix *matrix, const char *stem, uint32_t out_dim, uint32_t in_dim)
{
    loader_matrices(l, &(struct want){.matrix = matrix, .stem = stem, .out_dim = out_dim, .in_dim = in_dim}, 1);
}

void loader_refuse_others(struct loader *l)
{
    for (size_t i = 0; i < l->from->count && !l->failed; i++) {
        const struct checkpoint_tensor *tensor = &l->from->tensors[i];
        if (!l->known[i] && !checkpoint_is_routed(tensor))
            l->failed = moe_fail(l->err, MOE_FORMAT, "%.280s: tensor %.120s is not one of this model's; %s",
                                 checkpoint_path(l->from, tensor), name_said(l, tensor), l->remedy);
    }
}

static int by_file_offset(const void *a, const void *b)
{
    const struct checkpoint_tensor *x = ((const struct piece *)a)->tensor;
    const struct checkpoint_tensor *y = ((const struct piece *)b)->tensor;
    uint64_t p = x->at->offset + ((const struct piece *)a)->first, q = y->at->offset + ((const struct piece *)b)->first;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return p < q ? -1 : p > q;
}

// `count` numbers of a tensor's dtype as float32, which holds all of them; and one more, or ones.
static void widen(const struct piece *piece, const void *raw, float *out, size_t count)
{
    enum tensor_dtype from = piece->tensor->at->dtype;
    const uint16_t *halves = raw;
    if (from == DTYPE_F32)
        memcpy(out, raw, count * sizeof *out);
    else
        for (size_t i = 0; i < count; i++)
            out[i] = from == DTYPE_BF16 ? number_from_bf16(halves[i]) : number_from_half(halves[i]);
    for (size_t i = 0; i < count && piece->conversion == TO_F32_PLUS_ONE; i++)
        out[i] += 1;
    for (size_t i = 0; i < count && piece->conversion == TO_ONES; i++)
        out[i] = 1;
}

// The memory that pieces pass through.
struct staging {
    char *device; // page-locked; NULL: the device shares our memory
    char *raw;    // of numbers that are converted
};

// One part of a piece, from `done` stored bytes on. Returns its bytes in *part.
static int read_part(struct loader *l, const struct piece *piece, const struct staging *staging, uint64_t done,
                     size_t *part)
{
    const struct checkpoint_tensor *tensor = piece->tensor;
    enum tensor_dtype dtype = tensor->at->dtype;
    size_t most = piece->conversion == AS_STORED ? PIECE_BYTES : PIECE_BYTES / 2; // float32 of bf16 takes twice
    struct ggml_type type;
    if (dtype == DTYPE_GGML && ggml_type_find(tensor->at->ggml_type, &type))
        most -= most % type.bytes; // whole blocks
    uint64_t left = piece->bytes - done;
    *part = left < most ? (size_t)left : most;
    uint64_t target = piece->offset + converted(tensor, piece->conversion, done);
    size_t bytes = (size_t)converted(tensor, piece->conversion, *part);
    char *to = staging->device ? staging->device : (char *)gpu_buf_host(piece->buf) + target;
    const struct checkpoint_range range = {tensor, piece->first + done, *part};
    int code = checkpoint_read(l->from, &range, piece->conversion == AS_STORED ? to : staging->raw, l->err);
    if (!code && dtype == DTYPE_GGML && !gguf_blocks_are_finite(tensor->at->ggml_type, to, *part))
        code = gguf_not_finite(l->from, tensor, l->err);
    // One number that is none makes every answer that passes it garbage, and a router's bias a choice that looks like
    // one.
    const void *raw = piece->conversion == AS_STORED ? to : staging->raw;
    if (!code && dtype_is_float(dtype) && !source_is_finite(dtype, raw, *part / source_width(dtype)))
        code = moe_fail(l->err, MOE_FORMAT, "%.280s: tensor %.100s has numbers that are not finite; %s",
                        checkpoint_path(l->from, tensor), name_said(l, tensor), l->remedy);
    if (!code && piece->conversion != AS_STORED)
        widen(piece, staging->raw, (float *)(void *)to, bytes / sizeof(float));
    if (!code && staging->device)
        gpu_write(l->g, piece->buf, target, staging->device, bytes);
    return code;
}

// Straight into memory that the device shares, else through page-locked memory.
int loader_read(struct loader *l, moe_progress_fn *report, void *context)
{
    struct moe_progress progress = {.what = "reading weights", .unit = "bytes"};
    struct gpu_error gpu_err;
    bool shared = gpu_describe(l->g)->shares_host_memory;
    struct staging staging = {shared ? NULL : gpu_host_alloc(l->g, PIECE_BYTES, &gpu_err), malloc(PIECE_BYTES / 2)};
    int code = MOE_OK;
    if (!shared && !staging.device)
        code = moe_fail_gpu(l->err, &gpu_err);
    else if (!staging.raw)
        code = moe_fail(l->err, MOE_NO_MEMORY, "no memory to read weights");
    for (size_t i = 0; i < l->n_pieces; i++)
        progress.total += l->pieces[i].bytes;
    qsort(l->pieces, l->n_pieces, sizeof *l->pieces, by_file_offset);
    for (size_t i = 0; i < l->n_pieces; i++) {
        size_t part;
        for (uint64_t done = 0; done < l->pieces[i].bytes && !code; done += part) {
            code = read_part(l, &l->pieces[i], &staging, done, &part);
            progress.done += part;
            if (!code && report)
                report(context, &progress);
        }
    }
    if (staging.device)
        gpu_host_free(l->g, staging.device);
    free(staging.raw);
    return code;
}
