// SPDX-License-Identifier: GPL-3.0-or-later
// A session's rows on their way to a record and back. Rows are read into place beyond the session's end, where they
// mean nothing until the length advances, which it does last.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/session/kv_record.h"
#include "engine/session/session.h"

static_assert((int)KV_F32 == (int)MOE_KV_F32 && (int)KV_F16 == (int)MOE_KV_F16, "one numbering of row types");

// What all records of this session have in common.
static struct record_header own_header(const moe_session *session)
{
    struct record_header header = {.kv_type = session->memory.type,
                                   .n_layers = session->memory.n_layers,
                                   .row_width = session->memory.layers[0].needs.rows[0]};
    memcpy(header.fingerprint, session->model->package.fingerprint, sizeof header.fingerprint);
    return header;
}

static uint32_t vocab_size(const moe_session *session)
{
    return session->model->package.shape.vocab_size;
}

// Page-locked memory of at least `bytes`, kept with the session: locking pages takes longer than reading a short turn.
static int get_staging(moe_session *session, size_t bytes, struct moe_err *err)
{
    if (session->staging_bytes >= bytes)
        return MOE_OK;
    struct gpu_error device;
    void *memory = gpu_host_alloc(session->model->gpu, bytes, &device);
    if (!memory)
        return moe_fail_gpu(err, &device);
    session_record_release(session);
    session->staging = memory;
    session->staging_bytes = bytes;
    return MOE_OK;
}

void session_record_release(moe_session *session)
{
    if (session->staging)
        gpu_host_free(session->model->gpu, session->staging);
    session->staging = NULL;
    session->staging_bytes = 0;
}

// The longest piece of a block, from byte `at` of the rows on, that lies in one layer's array.
struct piece {
    gpu_buf *layer;
    uint64_t offset;
    size_t bytes;
};

static struct piece piece_at(const moe_session *session, const struct record_layout *layout, uint64_t at, size_t left)
{
    uint64_t within = at % layout->layer_bytes;
    uint64_t bytes = layout->layer_bytes - within;
    return (struct piece){.layer = session->memory.layers[at / layout->layer_bytes].rows[0],
                          .offset = layout->header.first * layout->row_bytes + within,
                          .bytes = bytes < left ? bytes : left};
}

static int gather(moe_session *session, const struct record_layout *layout, const struct record_block *block,
                  struct moe_err *err)
{
    for (size_t done = 0; done < block->bytes;) {
        struct piece piece = piece_at(session, layout, block->start + done, block->bytes - done);
        struct gpu_error device;
        if (gpu_read(session->model->gpu, piece.layer, piece.offset, session->staging + done, piece.bytes, &device))
            return moe_fail_gpu(err, &device);
        done += piece.bytes;
    }
    return MOE_OK;
}

static int check_part(const moe_session *session, const struct moe_record_part *part, struct record_layout *layout,
                      struct moe_err *err)
{
    if (!part->count || part->first > session->length || part->count > session->length - part->first)
        return moe_fail(err, MOE_POSITION, "cannot save %u rows from %u on: the session has %u tokens", part->count,
                        part->first, session->length);
    struct record_header header = own_header(session);
    header.first = part->first;
    header.count = part->count;
    header.vocab_size = part->logits ? vocab_size(session) : 0;
    header.block_bytes = part->block_bytes ? part->block_bytes : RECORD_BLOCK;
    if (!kv_record_lay_out(&header, layout) || part->offset > INT64_MAX - layout->bytes)
        return moe_fail(err, MOE_BAD_ARGUMENT, "a record of %u rows in blocks of %u bytes can't be written at %llu",
                        part->count, header.block_bytes, (unsigned long long)part->offset);
    return MOE_OK;
}

static int write_blocks(moe_session *session, const struct moe_record_io *io, const struct moe_record_part *part,
                        const struct record_layout *layout, uint64_t *table, struct moe_err *err)
{
    struct moe_progress progress = {
        .what = "saving conversation", .unit = "bytes", .total = layout->rows_bytes + layout->logits_bytes};
    for (uint64_t i = 0; i < layout->n_blocks; i++) {
        struct record_block block = kv_record_block_at(layout, i);
        const void *bytes = block.is_logits ? (const char *)part->logits + block.start : session->staging;
        int code = block.is_logits ? MOE_OK : gather(session, layout, &block, err);
        if (!code)
            code = kv_record_write(&(struct record_place){io, part->offset + block.at}, bytes, block.bytes, err);
        if (code)
            return code;
        table[i] = kv_record_checksum(bytes, block.bytes);
        progress.done += block.bytes;
        if (io->progress)
            io->progress(io->progress_context, &progress);
    }
    return MOE_OK;
}

int moe_session_write_record(moe_session *session, const struct moe_record_io *io, const struct moe_record_part *part,
                             struct moe_record *record, struct moe_err *err)
{
    struct record_layout layout;
    int code = check_part(session, part, &layout, err);
    if (!code)
        code = get_staging(session, kv_record_block_max(&layout), err);
    if (code)
        return code;
    char *head = malloc(layout.data_offset);
    if (!head)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the checksums of %u rows", part->count);
    uint64_t *table = (uint64_t *)(void *)(head + sizeof layout.header);
    code = write_blocks(session, io, part, &layout, table, err);
    if (!code) {
        layout.header.table_checksum = kv_record_checksum(table, 8 * layout.n_blocks);
        kv_record_seal(&layout.header);
        memcpy(head, &layout.header, sizeof layout.header);
        code = kv_record_write(&(struct record_place){io, part->offset}, head, layout.data_offset, err);
    }
    if (!code)
        kv_record_describe(&layout, part->offset, record);
    free(head);
    return code;
}

// A record's bytes are bound to the weights, the row type and the shape that made them.
static int check_kin(const moe_session *session, const struct record_place *place, const struct record_header *found,
                     struct moe_err *err)
{
    static const char *const types[] = {"f32", "f16"};
    struct record_header own = own_header(session);
    if (memcmp(found->fingerprint, own.fingerprint, sizeof own.fingerprint) != 0)
        return kv_record_fail(err, MOE_RECORD_WEIGHTS, place,
                              "saved with different weights (%.12s; this model has %.12s)", found->fingerprint,
                              own.fingerprint);
    if (found->kv_type != own.kv_type)
        return kv_record_fail(err, MOE_RECORD_KV_TYPE, place, "saved as %s rows, but this session uses %s",
                              types[found->kv_type], types[own.kv_type]);
    if (found->n_layers != own.n_layers || found->row_width != own.row_width ||
        (found->vocab_size && found->vocab_size != vocab_size(session)))
        return kv_record_fail(err, MOE_RECORD_SHAPE, place,
                              "saved from %u layers of rows of %u and a vocabulary of %u; this model has %u, %u and %u",
                              found->n_layers, found->row_width, found->vocab_size, own.n_layers, own.row_width,
                              vocab_size(session));
    return MOE_OK;
}

// A record on its way into a session.
struct restore {
    moe_session *session;
    const struct record_layout *layout;
    float *logits; // [vocab_size], not yet the session's
};

static int take(void *context, const struct record_block *block, const void *bytes, struct moe_err *err)
{
    const struct restore *restore = context;
    moe_session *session = restore->session;
    if (atomic_load(&session->cancel))
        return moe_fail(err, MOE_CANCELLED, "stopped while the conversation was read back");
    if (block->is_logits) {
        memcpy((char *)restore->logits + block->start, bytes, block->bytes);
        return MOE_OK;
    }
    for (size_t done = 0; done < block->bytes;) {
        struct piece piece = piece_at(session, restore->layout, block->start + done, block->bytes - done);
        gpu_write(session->model->gpu, piece.layer, piece.offset, (const char *)bytes + done, piece.bytes);
        done += piece.bytes;
    }
    struct gpu_error device;
    return gpu_check(session->model->gpu, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
}

// Reads the blocks from `from` on into the session's arrays and restore->logits, whose numbers it checks.
static int read_blocks(struct restore *restore, const struct record_place *place, uint64_t from, struct moe_err *err)
{
    const struct record_layout *layout = restore->layout;
    struct record_reading reading = {.io = place->io,
                                     .offset = place->offset,
                                     .layout = layout,
                                     .from = from,
                                     .stages = kv_record_stages(layout, from),
                                     .take = take,
                                     .context = restore,
                                     .what = "reading conversation"};
    int code = get_staging(restore->session, reading.stages * kv_record_block_max(layout), err);
    reading.staging = restore->session->staging;
    if (!code)
        code = kv_record_read_blocks(&reading, err);
    struct gpu_error device;
    if (gpu_finish(restore->session->model->gpu, &device) && !code)
        code = moe_fail_gpu(err, &device);
    for (uint32_t i = 0; !code && i < layout->header.vocab_size; i++)
        if (!isfinite(restore->logits[i]))
            code = kv_record_fail(err, MOE_RECORD_DAMAGED, place, "the logits saved after token %u are not all finite",
                                  layout->header.first + layout->header.count - 1);
    return code;
}

// Reads rows and logits, or the logits alone, when the header is as it must be.
static int restore_record(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                          bool rows, struct moe_err *err)
{
    struct record_layout layout;
    struct record_place place = {io, record->offset};
    int code = kv_record_read_header(io, record->offset, &layout, err);
    if (!code)
        code = check_kin(session, &place, &layout.header, err);
    if (!code)
        code = kv_record_compare(io, record, &layout, err);
    if (code)
        return code;
    struct restore restore = {session, &layout, NULL};
    if (record->has_logits && !(restore.logits = malloc(layout.logits_bytes)))
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %u logits", layout.header.vocab_size);
    code = read_blocks(&restore, &place, rows ? 0 : layout.n_row_blocks, err);
    if (!code && rows) {
        session->length += record->count;
        session->has_logits = false;
    }
    if (!code && restore.logits)
        moe_session_set_logits(session, restore.logits);
    free(restore.logits);
    return code;
}

int moe_session_read_record(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                            struct moe_err *err)
{
    if (record->first != session->length)
        return moe_fail(err, MOE_POSITION, "rows for position %u do not continue a session of %u tokens", record->first,
                        session->length);
    if (record->count > session->memory.max_rows - session->length)
        return moe_fail(err, MOE_CONTEXT_FULL, "the context is too small: %u saved tokens do not fit into %u",
                        record->first + record->count, session->memory.max_rows);
    return restore_record(session, io, record, true, err);
}

int moe_session_read_logits(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                            struct moe_err *err)
{
    if (record->first > session->length || record->count != session->length - record->first)
        return moe_fail(err, MOE_POSITION, "the record ends after token %llu, the session after %u",
                        (unsigned long long)record->first + record->count, session->length);
    if (!record->has_logits)
        return moe_fail(err, MOE_NOT_READY, "no logits were saved after token %u", session->length);
    return restore_record(session, io, record, false, err);
}
