// SPDX-License-Identifier: GPL-3.0-or-later
// A folder from the hub into a package: layer by layer, an expert or a few rows at a time, so that memory does not grow
// with the model.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/files/package.h"
#include "engine/convert/manifest.h"
#include "engine/base/amounts.h"
#include "engine/base/err.h"
#include "engine/walk/weights.h"
#include "engine/base/file.h"
#include "engine/convert/beside.h"
#include "engine/convert/consume.h"
#include "engine/convert/likeness.h"
#include "engine/convert/job_key.h"
#include "engine/files/file_hash.h"
#include "engine/files/package_facts.h"
#include "engine/files/spans.h"
#include "engine/files/ggml_types.h"
#include "engine/files/verify.h"
#include "engine/files/writer.h"
#include "kernels/kinds.h"
#include "kernels/numbers.h"

#define MEMORY_BYTES ((uint64_t)1 << 30) // of chunks under way; what reading and quantising need comes on top
enum { PIECE_NUMBERS = 1 << 20, PIECE_BYTES = 4 << 20, MAX_PATH = 4000 };

struct conversion {
    const struct moe_convert_options *options;
    struct package source;
    struct job job;
    struct journal journal;
    struct consume consume; // with options->consume
    uint64_t beside_bytes;
    char target[MAX_PATH + 8];
    char partial[MAX_PATH + 16];
    char name[PACKAGE_NAME]; // in model.json
    bool renamed;            // the target is there, whole, with the journal that an end of the process has left
    unsigned threads;
    struct moe_progress progress;
    struct moe_err *err;
};

__attribute__((format(printf, 2, 3))) static void notice(const struct conversion *c, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (c->options->notice)
        c->options->notice(c->options->context, text);
}

static void advanced(void *context, uint64_t bytes)
{
    struct conversion *c = context;
    c->progress.done += bytes;
    if (c->options->progress)
        c->options->progress(c->options->context, &c->progress);
}

static bool cancelled(void *context)
{
    const struct conversion *c = context;
    return c->options->cancelled && c->options->cancelled(c->options->context);
}

// ---- Rows

static int quantise(const struct source_matrix *m, struct source_rows rows, struct quantisation how,
                    const struct quantised_row *out, struct moe_err *err)
{
    float *values = malloc((size_t)rows.n * m->cols * sizeof *values);
    if (!values)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for rows of %.120s", m->weight->name);
    int code = source_read(m, rows, values, err);
    uint64_t words = source_part_bytes(PART_WORDS, m->cols, how) / 4;
    uint64_t groups = m->cols / how.group_size;
    for (uint32_t r = 0; r < rows.n && !code; r++) {
        const struct quantised_row to = {out->words ? out->words + r * words : NULL,
                                         out->scales ? out->scales + r * groups : NULL,
                                         out->biases ? out->biases + r * groups : NULL};
        if (!quantise_row(values + (size_t)r * m->cols, m->cols, how, &to))
            code = source_not_finite(m->from, m->weight, err);
    }
    free(values);
    return code;
}

// A vector of a float dtype.
static int round_vector(const struct source_matrix *m, uint16_t *out, struct moe_err *err)
{
    float *values = malloc((size_t)m->cols * sizeof *values);
    if (!values)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %.120s", m->weight->name);
    int code = source_read(m, (struct source_rows){0, 1}, values, err);
    for (uint32_t i = 0; i < m->cols && !code; i++)
        out[i] = number_to_bf16(values[i]);
    free(values);
    return code || source_is_finite(DTYPE_BF16, out, m->cols) ? code : source_not_finite(m->from, m->weight, err);
}

static uint32_t rows_at_once(uint32_t cols)
{
    return cols < PIECE_NUMBERS ? PIECE_NUMBERS / cols : 1;
}

// ---- An expert's file: a chunk an expert

struct expert_chunks {
    const struct job *job;
    uint32_t layer;
};

static uint64_t expert_offset(const void *context, uint64_t expert)
{
    const struct expert_chunks *e = context;
    return expert * e->job->layers[e->layer].experts.blob_bytes;
}

static int produce_matrix(const struct source_matrix *m, const struct job_matrix *planned, const struct args_matrix *at,
                          char *blob, struct moe_err *err)
{
    const struct source_rows all = {0, m->rows};
    if (planned->exact) {
        int code = source_copy(m, PART_WORDS, all, blob + at->weight, err);
        if (!code)
            code = source_copy(m, PART_SCALES, all, blob + at->scales, err);
        return code ? code : source_copy(m, PART_BIASES, all, blob + at->biases, err);
    }
    uint64_t words = source_part_bytes(PART_WORDS, m->cols, planned->how);
    uint64_t groups = source_part_bytes(PART_SCALES, m->cols, planned->how);
    uint32_t most = rows_at_once(m->cols);
    int code = MOE_OK;
    for (uint32_t row = 0; row < m->rows && !code; row += most) {
        const struct source_rows rows = {row, m->rows - row < most ? m->rows - row : most};
        const struct quantised_row out = {(uint32_t *)(void *)(blob + at->weight + row * words),
                                          (uint16_t *)(void *)(blob + at->scales + row * groups),
                                          (uint16_t *)(void *)(blob + at->biases + row * groups)};
        code = quantise(m, rows, planned->how, &out, err);
    }
    return code;
}

// Is that made of a matrix that is zero throughout? Its words are, too: with biases that are, where they were
// quantised.
static bool is_zero(const struct source_matrix *m, const struct job_matrix *made, const struct args_matrix *at,
                    const char *blob)
{
    uint64_t words = m->rows * source_part_bytes(PART_WORDS, m->cols, made->how);
    uint64_t scales = m->rows * source_part_bytes(PART_SCALES, m->cols, made->how);
    bool zero = bytes_are_zero(blob + at->weight, words);
    if (!made->exact)
        return zero && bytes_are_zero(blob + at->biases, scales);
    return zero || (m->kind != SOURCE_MXFP4 && bytes_are_zero(blob + at->scales, scales)); // E8M0's 0 is a scale
}

static int expert_is_zero(const struct checkpoint *from, const struct checkpoint_tensor *tensor, uint64_t expert,
                          struct moe_err *err)
{
    return moe_fail(err, MOE_BAD_NUMBERS,
                    "%.240s: tensor %.100s: expert %" PRIu64
                    " is all zero, as in a file that was not downloaded to its end; download it again",
                    checkpoint_path(from, tensor), from->gguf ? tensor->at->name : tensor->name, expert);
}

static void zero_gaps(const struct expert_layout *experts, char *blob)
{
    struct expert_part parts[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(experts, parts);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = parts[i].offset + parts[i].bytes;
        uint64_t next = i + 1 < n ? parts[i + 1].offset : experts->blob_bytes;
        memset(blob + end, 0, next - end);
    }
}

// The tensor of the source that a span is of.
static const struct checkpoint_tensor *tensor_of(const struct checkpoint *from, const struct expert_span *span)
{
    for (size_t i = 0; i < from->count; i++)
        if (from->tensors[i].shard == span->file && from->tensors[i].at->offset == span->offset)
            return &from->tensors[i];
    return &from->tensors[0]; // spans are tensors' own
}

// One array of an expert, as it is in the source: all of a span, or a half of what gate and up share.
static int copy_part(const struct expert_chunks *e, uint64_t expert, const struct expert_part *from, char *to,
                     struct moe_err *err)
{
    const struct job *job = e->job;
    const struct package_layer *layer = job->layers[e->layer].direct;
    const struct expert_span *span = layer->spans;
    while (from->offset < span->at || from->offset >= span->at + span->bytes)
        span++;
    const struct tensor_file *shard = &job->from->shards[span->file];
    const struct file_range range = {
        shard->fd, shard->path, span->offset + expert * span->bytes + (from->offset - span->at), (size_t)from->bytes};
    int code = file_read(&range, to, err);
    if (code)
        return code;
    const struct checkpoint_tensor *tensor = tensor_of(job->from, span);
    if (!part_is_finite(from, to))
        return source_not_finite(job->from, tensor, err);
    return part_is_zero(from, to) ? expert_is_zero(job->from, tensor, expert, err) : MOE_OK;
}

static int copy_expert(const struct expert_chunks *e, uint64_t expert, char *blob, struct moe_err *err)
{
    const struct job_layer *layer = &e->job->layers[e->layer];
    struct expert_part from[MAX_EXPERT_PARTS], to[MAX_EXPERT_PARTS];
    uint32_t n = package_parts(&layer->direct->experts, from);
    int code = MOE_OK;
    package_parts(&layer->experts, to);
    for (uint32_t i = 0; i < n && !code; i++)
        code = copy_part(e, expert, &from[i], blob + to[i].offset, err);
    return code;
}

static int produce_expert(const void *context, uint64_t expert, void *buffer, struct moe_err *err)
{
    const struct expert_chunks *e = context;
    const struct job_layer *layer = &e->job->layers[e->layer];
    const struct args_matrix *const at[] = {&layer->experts.gate, &layer->experts.up, &layer->experts.down};
    zero_gaps(&layer->experts, buffer);
    if (layer->direct)
        return copy_expert(e, expert, buffer, err);
    int code = MOE_OK;
    for (uint32_t which = 0; which < 3 && !code; which++) {
        struct source_matrix m;
        code = job_expert(e->job, e->layer, (uint32_t)expert, which, &m, err);
        if (!code)
            code = produce_matrix(&m, &layer->matrices[which], at[which], buffer, err);
        if (!code && is_zero(&m, &layer->matrices[which], at[which], buffer))
            code = expert_is_zero(e->job->from, m.weight, expert, err);
    }
    return code;
}

// ---- The resident file: a chunk a few rows

struct piece {
    uint64_t offset;                 // in the file
    const struct job_tensor *tensor; // NULL: the header
    uint64_t first, n;               // bytes of a tensor that is copied, rows of a matrix
};

struct resident_chunks {
    const struct job *job;
    struct piece *pieces; // [count + 1], the last at the file's end
    uint64_t count, most_bytes;
};

static uint64_t resident_offset(const void *context, uint64_t chunk)
{
    return ((const struct resident_chunks *)context)->pieces[chunk].offset;
}

static bool is_finite(const struct job_tensor *tensor, const void *raw, uint64_t bytes)
{
    return tensor->dtype == DTYPE_GGML ? gguf_blocks_are_finite(tensor->copy->at->ggml_type, raw, bytes)
                                       : source_is_finite(tensor->dtype, raw, bytes / source_width(tensor->dtype));
}

static int produce_resident(const void *context, uint64_t chunk, void *buffer, struct moe_err *err)
{
    const struct resident_chunks *r = context;
    const struct piece *piece = &r->pieces[chunk];
    const struct job_tensor *tensor = piece->tensor;
    if (!tensor) {
        memcpy(buffer, r->job->header, (size_t)r->job->header_bytes);
        return MOE_OK;
    }
    if (tensor->copy) {
        const struct checkpoint_range range = {tensor->copy, piece->first, (size_t)piece->n};
        int code = checkpoint_read(r->job->from, &range, buffer, err);
        memset((char *)buffer + piece->n, 0, piece[1].offset - piece->offset - piece->n); // up to the next one's place
        if (code || is_finite(tensor, buffer, piece->n))
            return code;
        return source_not_finite(r->job->from, tensor->copy, err);
    }
    if (tensor->n_dims == 1)
        return round_vector(&tensor->matrix, buffer, err);
    const struct source_rows rows = {(uint32_t)piece->first, (uint32_t)piece->n};
    if (tensor->exact)
        return source_copy(&tensor->matrix, tensor->part, rows, buffer, err);
    const struct quantised_row out = {tensor->part == PART_WORDS ? buffer : NULL,
                                      tensor->part == PART_SCALES ? buffer : NULL,
                                      tensor->part == PART_BIASES ? buffer : NULL};
    return quantise(&tensor->matrix, rows, tensor->how, &out, err);
}

// Cuts the file into pieces; with pieces NULL they are only counted.
static void cut_pieces(struct resident_chunks *r)
{
    const struct job *job = r->job;
    r->count = 0;
    struct piece header = {.n = job->header_bytes};
    if (r->pieces)
        r->pieces[0] = header;
    r->count++;
    for (size_t i = 0; i < job->count; i++) {
        const struct job_tensor *tensor = &job->tensors[i];
        uint64_t total = tensor->copy ? tensor->bytes : tensor->matrix.rows;
        uint64_t most = tensor->copy ? PIECE_BYTES : rows_at_once(tensor->matrix.cols);
        uint64_t bytes = tensor->copy || !total ? 1 : tensor->bytes / total;
        struct ggml_type type;
        if (tensor->dtype == DTYPE_GGML && ggml_type_find(tensor->copy->at->ggml_type, &type))
            most -= most % type.bytes; // whole blocks
        for (uint64_t first = 0; first < total; first += most) {
            uint64_t n = total - first < most ? total - first : most;
            if (r->pieces)
                r->pieces[r->count] = (struct piece){tensor->offset + first * bytes, tensor, first, n};
            r->count++;
        }
    }
    if (r->pieces)
        r->pieces[r->count] = (struct piece){.offset = job->resident_bytes};
}

static int make_pieces(struct resident_chunks *r, struct moe_err *err)
{
    cut_pieces(r);
    r->pieces = calloc(r->count + 1, sizeof *r->pieces);
    if (!r->pieces)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the list of pieces");
    cut_pieces(r);
    for (uint64_t i = 0; i < r->count; i++)
        if (r->pieces[i + 1].offset - r->pieces[i].offset > r->most_bytes)
            r->most_bytes = r->pieces[i + 1].offset - r->pieces[i].offset;
    return MOE_OK;
}

// ---- Files

static int write_anew(struct conversion *c, const char *file, const struct writer_chunks *chunks)
{
    struct journal_file entry = {.bytes = chunks->offset(chunks->context, chunks->count)};
    const struct writer_options options = {.threads = c->threads,
                                           .memory_bytes = MEMORY_BYTES,
                                           .write = c->options->write,
                                           .write_context = c->options->write_context,
                                           .cancelled = cancelled,
                                           .advanced = advanced,
                                           .context = c};
    char path[MAX_PATH + 100];
    const struct journal_file *whole = journal_find(&c->journal, file);
    snprintf(path, sizeof path, "%s/%s", c->partial, file);
    if (whole && whole->consuming) // to write it again would be to lose it
        return moe_fail_file(c->err, MOE_FORMAT, path, 0,
                             "has another size than this version of moechat would write, and its weights were removed "
                             "from the source, or a part of them; go on with the version that began");
    snprintf(entry.file, sizeof entry.file, "%s", file);
    int code = writer_run(path, chunks, &options, entry.sha256, c->err);
    return code ? code : journal_add(&c->journal, &entry, c->err);
}

// Writes a file unless the journal has it.
static int write_file(struct conversion *c, const char *file, const struct writer_chunks *chunks)
{
    const struct journal_file *whole = journal_find(&c->journal, file);
    bool there = whole && whole->bytes == chunks->offset(chunks->context, chunks->count);
    return there ? MOE_OK : write_anew(c, file, chunks);
}

static int write_resident(struct conversion *c)
{
    struct resident_chunks resident = {.job = &c->job};
    int code = make_pieces(&resident, c->err);
    if (code)
        return code;
    const struct writer_chunks chunks = {.count = resident.count,
                                         .most_bytes = resident.most_bytes,
                                         .offset = resident_offset,
                                         .produce = produce_resident,
                                         .context = &resident};
    code = write_file(c, c->job.resident_file, &chunks);
    free(resident.pieces);
    return code;
}

static int write_layer(struct conversion *c, uint32_t layer)
{
    const struct expert_chunks experts = {&c->job, layer};
    const struct writer_chunks chunks = {.count = c->job.shape->n_routed_experts,
                                         .most_bytes = c->job.layers[layer].experts.blob_bytes,
                                         .blocks = true,
                                         .offset = expert_offset,
                                         .produce = produce_expert,
                                         .context = &experts};
    char file[64];
    manifest_layer_file(layer, file);
    return write_file(c, file, &chunks);
}

// Has an earlier run copied it as it is now? No key has what lies beside the weights, and it may have been corrected.
static int is_copied(struct conversion *c, const char *name, const struct beside_file *file, bool *copied)
{
    const struct journal_file *whole = journal_find(&c->journal, name);
    const struct file_hashing how = {.path = file->path, .bytes = file->bytes};
    char hex[65];
    *copied = false;
    if (!whole || whole->bytes != file->bytes)
        return MOE_OK;
    int code = file_hash_open(&how, file->fd, hex, c->err);
    *copied = !code && strcmp(hex, whole->sha256) == 0;
    return code;
}

// What an earlier run has copied of one that is not there any more.
static int leave_out(struct conversion *c, const char *name)
{
    char path[MAX_PATH + 100];
    snprintf(path, sizeof path, "%s/%s", c->partial, name);
    return unlink(path) == 0 || errno == ENOENT ? MOE_OK
                                                : moe_fail_file(c->err, MOE_IO, path, errno, "cannot be removed");
}

static int copy_beside(struct conversion *c, const char *name)
{
    char path[BESIDE_FOLDER_SIZE + 300];
    struct beside_file file;
    beside_folder(&c->source, path);
    int code = beside_open(path, name, &file, c->err);
    if (code || file.fd < 0)
        return code ? code : leave_out(c, name);
    snprintf(path + strlen(path), 300, "/%s", name);
    file.path = path;
    const struct writer_chunks chunks = {.count = (file.bytes + BESIDE_PIECE - 1) / BESIDE_PIECE,
                                         .most_bytes = BESIDE_PIECE,
                                         .offset = beside_offset,
                                         .produce = beside_produce,
                                         .context = &file};
    bool copied = false;
    code = file.bytes ? is_copied(c, name, &file, &copied) : leave_out(c, name);
    if (!code && !copied && file.bytes)
        code = write_anew(c, name, &chunks);
    close(file.fd);
    return code;
}

static int copy_tokenizer(struct conversion *c)
{
    int code = MOE_OK;
    for (const char *const *name = beside_names; *name && !code; name++)
        code = beside_goes_along(*name, &c->source) ? copy_beside(c, *name) : leave_out(c, *name);
    return code;
}

// ---- The whole

static bool holds(const char *folder, const char *file)
{
    char path[MAX_PATH + 100];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static int set_paths(struct conversion *c, const char *target)
{
    size_t length = strlen(target);
    while (length > 1 && target[length - 1] == '/')
        length--;
    if (length == 0 || length > MAX_PATH)
        return moe_fail(c->err, MOE_BAD_ARGUMENT, "the new folder's path must have 1 to %d bytes", MAX_PATH);
    snprintf(c->target, sizeof c->target, "%.*s", (int)length, target);
    snprintf(c->partial, sizeof c->partial, "%s.partial", c->target);
    package_name_after(c->name, c->target);
    struct stat status;
    c->renamed = holds(c->target, "convert.journal") && holds(c->target, "model.json");
    if (!c->renamed && lstat(c->target, &status) == 0)
        return moe_fail_file(c->err, MOE_BAD_ARGUMENT, c->target, 0,
                             "already exists; remove it, or choose another name");
    return MOE_OK;
}

static uint64_t left_to_write(const struct conversion *c)
{
    uint64_t left = c->job.bytes + c->beside_bytes;
    for (size_t i = 0; i < c->journal.count; i++)
        left -= c->journal.entries[i].bytes < left ? c->journal.entries[i].bytes : left;
    return left;
}

// Is all of the source on the disk that the package is written to, the folder's?
static bool is_on_one_disk(const struct conversion *c, const char *folder)
{
    struct stat to, from;
    bool one = stat(folder, &to) == 0;
    for (uint32_t i = 0; one && i < c->job.from->n_shards; i++)
        one = fstat(c->job.from->shards[i].fd, &from) == 0 && from.st_dev == to.st_dev;
    return one;
}

// What is needed at once when each layer's place is given back before the next is written: the largest layer, what the
// packages' layers take more than the source's, and the resident file. Of a layer that is not copied bit for bit
// nothing is given back.
static uint64_t needed_at_once(const struct conversion *c)
{
    const struct shape *s = c->job.shape;
    uint64_t largest = 0, growth = 0;
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++) {
        char file[64];
        const struct job_layer *layer = &c->job.layers[i];
        uint64_t bytes = layer->experts.blob_bytes * s->n_routed_experts;
        uint64_t own = layer->direct ? spans_bytes(layer->direct) * s->n_routed_experts : 0;
        manifest_layer_file(i, file);
        if (journal_find(&c->journal, file))
            continue;
        largest = bytes > largest ? bytes : largest;
        growth += bytes > own ? bytes - own : 0;
    }
    return largest + growth + (journal_find(&c->journal, c->job.resident_file) ? 0 : c->job.resident_bytes);
}

// In a folder of the disk that is written to. A conversion that is refused here leaves nothing: before it has begun
// there is no folder of its own to ask.
static int check_space(const struct conversion *c, const char *folder)
{
    struct statvfs disk;
    if (statvfs(folder, &disk))
        return moe_fail_file(c->err, MOE_IO, folder, errno, "cannot read the disk's free space");
    uint64_t available = (uint64_t)disk.f_bavail * disk.f_frsize;
    bool given_back = c->options->consume && is_on_one_disk(c, folder);
    uint64_t needed = (given_back ? needed_at_once(c) : left_to_write(c)) + MOE_CONVERT_SPARE;
    if (needed <= available)
        return MOE_OK;
    char wanted[AMOUNT_SIZE], free_bytes[AMOUNT_SIZE];
    moe_fail(c->err, MOE_IO, "%.300s: not enough disk space: %s must be free, and %s are", folder,
             amount_of_bytes(wanted, needed), amount_of_bytes(free_bytes, available));
    if (c->err)
        c->err->sys_errno = ENOSPC;
    return MOE_IO;
}

static bool layers_differ(const struct job *job)
{
    const struct shape *s = job->shape;
    const struct expert_layout *first = &job->layers[s->first_k_dense_replace].experts;
    bool differ = false;
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers; i++)
        differ |= memcmp(first, &job->layers[i].experts, sizeof *first) != 0;
    return differ;
}

// What is written when all else is.
static struct manifest_facts facts_of(const struct conversion *c, const struct journal *journal)
{
    struct manifest_facts facts = manifest_facts_of(&c->source, &c->job, c->name);
    facts.template_name = c->options->template_name;
    facts.journal = journal;
    return facts;
}

static int say_size(const struct conversion *c, const struct moe_description *about)
{
    const struct manifest_facts facts = facts_of(c, NULL);
    uint64_t manifest;
    int code = manifest_bytes(&facts, &manifest, c->err);
    if (code)
        return code;
    uint64_t others = c->beside_bytes + manifest;
    char parameters[AMOUNT_SIZE], all[AMOUNT_SIZE], weights[AMOUNT_SIZE], rest[AMOUNT_SIZE], spare[AMOUNT_SIZE];
    notice(c,
           "%s with %s parameters; the package takes %s: %s of weights, %s of other files; %s more of the disk must be "
           "free",
           about->layout, amount_of_numbers(parameters, about->parameters), amount_of_bytes(all, c->job.bytes + others),
           amount_of_bytes(weights, c->job.bytes), amount_of_bytes(rest, others),
           amount_of_bytes(spare, MOE_CONVERT_SPARE));
    return MOE_OK;
}

// What becomes of the weights, in a few lines before hours of work.
static int say_job(const struct conversion *c, const struct moe_description *about)
{
    const struct job *p = &c->job;
    const struct job_layer *first = &p->layers[p->shape->first_k_dense_replace];
    const struct job_matrix *gate = &first->matrices[0];
    char how[128];
    int code = say_size(c, about);
    if (code)
        return code;
    if (about->left_out[0])
        notice(c, "left out: %s", about->left_out);
    job_say_layer(first, how);
    if (first->direct || gate->kind == KIND_MLX_MXFP4)
        notice(c, "experts: copied bit for bit, %s%s", how, layers_differ(p) ? " (layers differ)" : "");
    else
        notice(c, "experts: %s%" PRIu32 " bits in groups of %" PRIu32,
               gate->exact ? "copied bit for bit, " : "quantised to ", gate->how.bits, gate->how.group_size);
    notice(c, "matrices: %" PRIu64 " copied unchanged, %" PRIu64 " quantised", p->n_copied, p->n_quantised);
    if (p->n_rounded)
        notice(c, "norms rounded to bf16: %" PRIu64, p->n_rounded);
    if (p->n_requantised)
        notice(c,
               "%" PRIu64
               " matrices are quantised in another way than asked for, or than a package can hold; quantising "
               "them again loses some precision",
               p->n_requantised);
    if (!about->tokenizer_file[0] && !about->vocabulary)
        notice(c, "no tokenizer found: only `moechat eval --tokens` will work with this package");
    return MOE_OK;
}

static int write_package(struct conversion *c)
{
    const struct shape *s = c->job.shape;
    if (c->journal.count)
        notice(c, "resuming: %zu files already done", c->journal.count);
    c->progress = (struct moe_progress){.what = "converting", .unit = "bytes"};
    // First what is small or resident, so that whatever is wrong with it is known before an expert is removed.
    int code = copy_tokenizer(c);
    c->progress = (struct moe_progress){.what = "converting", .unit = "bytes", .total = left_to_write(c)};
    if (!code)
        code = write_resident(c);
    if (!code && c->options->consume)
        code = consume_read_back(&c->consume, c->partial, c->job.resident_file, &c->journal, c->err);
    for (uint32_t i = s->first_k_dense_replace; i < s->n_layers && !code; i++) {
        code = write_layer(c, i);
        if (!code && c->options->consume)
            code = consume_layer(&c->consume, c->partial, i, &c->journal, c->err);
    }
    c->progress.total = 0; // the rest is small
    const struct manifest_facts facts = facts_of(c, &c->journal);
    return code ? code : manifest_write(c->partial, &facts, c->err);
}

// The folder that the package is in has its name on disk.
static int make_name_durable(const struct conversion *c)
{
    char path[MAX_PATH + 8];
    file_folder(c->target, path, sizeof path);
    return file_make_durable(path, c->err);
}

static void remove_journal(const struct conversion *c)
{
    char path[MAX_PATH + 100];
    snprintf(path, sizeof path, "%s/convert.journal", c->target);
    if (unlink(path) && errno != ENOENT)
        notice(c, "%.300s cannot be removed (%s); the package is whole without it", path, strerror(errno));
}

// The package must open, and be what was written when that is asked for; then it gets its name.
static int finish(struct conversion *c)
{
    struct moe_description about;
    struct stat status;
    int code = moe_inspect(c->partial, &about, c->err);
    if (!code && c->options->verify)
        code = moe_verify(c->partial, c->options->progress, c->options->context, c->err);
    if (!code)
        code = file_make_durable(c->partial, c->err);
    if (!code && lstat(c->target, &status) == 0)
        code = moe_fail_file(c->err, MOE_IO, c->target, 0,
                             "appeared during conversion; the package is in the .partial folder");
    if (!code && rename(c->partial, c->target))
        code = moe_fail_file(c->err, MOE_IO, c->target, errno, "cannot be renamed");
    if (code)
        return code;
    remove_journal(c);
    return make_name_durable(c);
}

// As finish, of a package that has its name: the process was ended when only its journal was to be removed.
static int finish_again(struct conversion *c, const char key[65])
{
    struct moe_description about;
    int code = journal_open(c->target, key, &c->journal, c->err);
    if (!code)
        code = moe_inspect(c->target, &about, c->err);
    if (!code && c->options->verify)
        code = moe_verify(c->target, c->options->progress, c->options->context, c->err);
    if (!code) {
        remove_journal(c);
        notice(c, "%.300s was whole already, but for the end of its conversion", c->target);
        code = make_name_durable(c);
    }
    journal_close(&c->journal);
    return code;
}

static void consume_notice(void *context, const char *text)
{
    notice(context, "%s", text);
}

// Whoever asked for it hears what will be removed from where, and may yet refuse.
static int ask_to_consume(struct conversion *c)
{
    const struct moe_convert_options *o = c->options;
    c->consume = (struct consume){.job = &c->job,
                                  .punch = o->punch,
                                  .punch_context = o->punch_context,
                                  .cancelled = o->cancelled ? cancelled : NULL,
                                  .notice = consume_notice,
                                  .without_direct = o->without_direct,
                                  .context = c};
    int code = consume_open(&c->consume, c->err);
    if (code)
        return code;
    const struct moe_consumption what = {.source = checkpoint_place(c->job.from),
                                         .target = c->target,
                                         .n_files = c->job.from->n_shards,
                                         .bytes = consume_bytes(&c->consume)};
    return o->confirm && o->confirm(o->context, &what) ? MOE_OK
                                                       : moe_fail(c->err, MOE_CANCELLED, "nothing was converted");
}

// Into the folder beside the target, from wherever it was.
static int write_partial(struct conversion *c, const char key[65], bool begun)
{
    if (mkdir(c->partial, 0777) && errno != EEXIST)
        return moe_fail_file(c->err, MOE_IO, c->partial, errno, "cannot be created");
    int code = c->options->consume ? make_name_durable(c) : MOE_OK;
    if (!code)
        code = journal_open(c->partial, key, &c->journal, c->err);
    if (code)
        return code;
    if (c->options->consume)
        code = likeness_check(&c->job, c->partial, &c->journal, c->err);
    if (!code && begun) // else it was looked for before anything was made
        code = check_space(c, c->partial);
    if (!code)
        code = write_package(c);
    if (!code)
        code = finish(c);
    journal_close(&c->journal);
    return code;
}

static int run(struct conversion *c)
{
    struct moe_description about;
    char key[65];
    bool begun = access(c->partial, F_OK) == 0; // then the journal knows what was removed
    int code = package_describe(&c->source, &about, c->err);
    c->job = (struct job){.from = c->source.checkpoint,
                          .shape = &c->source.shape,
                          .source_layers = c->source.layers,
                          .expert_bits = c->options->expert_bits,
                          .resident_bits = c->options->resident_bits,
                          .group_size = c->options->group_size};
    if (!code && !begun && !c->renamed)
        code = verify_no_holes(&c->source, c->err);
    if (!code && !c->renamed)
        code = verify_no_zeroes(c->source.checkpoint, c->err);
    if (!code)
        code = job_make(&c->job, c->err);
    if (code)
        return code;
    char folder[BESIDE_FOLDER_SIZE], into[MAX_PATH + 8];
    beside_folder(&c->source, folder);
    c->beside_bytes = beside_bytes(folder, &c->source);
    if (!c->renamed)
        code = say_job(c, &about);
    if (!code)
        code = job_key(&c->job, c->options->consume, key, c->err);
    if (!code && !begun && !c->renamed) {
        file_folder(c->target, into, sizeof into);
        code = access(into, F_OK) == 0 ? check_space(c, into) : MOE_OK; // without one, mkdir says what is wrong
    }
    if (!code && c->options->consume && !c->renamed)
        code = ask_to_consume(c);
    if (!code)
        code = c->renamed ? finish_again(c, key) : write_partial(c, key, begun);
    consume_close(&c->consume);
    job_release(&c->job);
    return code;
}

int moe_convert(const char *source, const char *target, const struct moe_convert_options *options, struct moe_err *err)
{
    struct conversion c = {.options = options, .err = err};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c.threads = options->threads ? options->threads : cores > 0 ? (unsigned)cores : 1;
    if ((options->expert_bits && options->expert_bits != 4 && options->expert_bits != 8) ||
        (options->resident_bits && options->resident_bits != 4 && options->resident_bits != 8) ||
        (options->group_size && options->group_size != 32 && options->group_size != 64 && options->group_size != 128))
        return moe_fail(err, MOE_BAD_ARGUMENT, "bits must be 4 or 8, and groups of 32, 64 or 128");
    int code = set_paths(&c, target);
    if (!code)
        code = weights_open_package(source, &c.source, err);
    if (code)
        return code;
    if (c.source.kind == PACKAGE)
        code = moe_fail(err, MOE_BAD_ARGUMENT, "%.300s is already a package, which opens as it is", source);
    else if (c.source.kind == GGUF_FILES && (options->expert_bits || options->resident_bits))
        code =
            moe_fail(err, MOE_BAD_ARGUMENT,
                     "%.300s: a GGUF's weights are packed as they are; leave out --bits and --resident-bits", source);
    else
        code = run(&c);
    package_release(&c.source);
    return code;
}
