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
#include "engine/walk/forward.h"

static_assert((int)KV_F32 == (int)MOE_KV_F32 && (int)KV_F16 == (int)MOE_KV_F16, "one numbering of row types");

static uint32_t vocab_size(const moe_session *session)
{
    return session->model->package.shape.vocab_size;
}

// Layers that are all alike, of one stream of rows and no states, have records of version 1.
static bool is_plain(const struct memory *memory)
{
    for (uint32_t i = 0; i < memory->n_layers; i++) {
        const struct mixer_needs *needs = &memory->layers[i].needs;
        bool plain = needs->rows[0] == memory->layers[0].needs.rows[0] && needs->rows[0];
        for (int k = 1; k < MIXER_DERIVED; k++)
            plain = plain && !needs->rows[k];
        for (int k = 0; k < MIXER_STATES; k++)
            plain = plain && !needs->states[k];
        if (!plain)
            return false;
    }
    return true;
}

// The streams that a record of this session has, or NULL: room for them.
static uint32_t own_streams(const struct memory *memory, bool rows, bool states, struct record_stream *streams)
{
    uint32_t n = 0;
    for (uint32_t i = 0; rows && i < memory->n_layers; i++)
        for (uint32_t k = 0; k < MIXER_DERIVED; k++)
            if (memory->layers[i].needs.rows[k] && n++ < UINT32_MAX && streams)
                streams[n - 1] = (struct record_stream){i, k, memory->layers[i].needs.rows[k], 1};
    for (uint32_t i = 0; states && i < memory->n_layers; i++)
        for (uint32_t k = 0; k < MIXER_STATES; k++)
            if (memory->layers[i].needs.states[k] && n++ < UINT32_MAX && streams)
                streams[n - 1] = (struct record_stream){i, k, (uint32_t)memory->layers[i].needs.states[k], 0};
    return n;
}

// A record of this session with these numbers; the caller releases the layout.
static enum moe_code lay_out(const moe_session *session, struct record_header *header, bool states,
                             struct record_layout *layout)
{
    const struct memory *memory = &session->memory;
    header->kv_type = memory->type;
    header->n_layers = memory->n_layers;
    header->version = is_plain(memory) ? RECORD_PLAIN : RECORD_STREAMS;
    memcpy(header->fingerprint, session->model->package.fingerprint, sizeof header->fingerprint);
    *layout = (struct record_layout){.streams = NULL};
    if (header->version == RECORD_PLAIN) {
        header->row_width = memory->layers[0].needs.rows[0];
        return kv_record_lay_out(header, NULL, layout);
    }
    header->n_streams = own_streams(memory, header->count > 0, states, NULL);
    struct record_stream *streams = calloc(header->n_streams + 1, sizeof *streams);
    if (!streams)
        return MOE_NO_MEMORY;
    own_streams(memory, header->count > 0, states, streams);
    enum moe_code code = kv_record_lay_out(header, streams, layout);
    free(streams);
    return code;
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

// Where a piece of a block of rows is on the device.
struct place {
    gpu_buf *buf;
    uint64_t offset;
    size_t bytes;
};

static struct place place_at(const moe_session *session, const struct record_layout *layout, uint64_t at, size_t left)
{
    struct record_piece piece = kv_record_piece_at(layout, RECORD_ROWS, at, left);
    uint64_t row_bytes = (uint64_t)piece.stream->width * layout->element_bytes;
    return (struct place){.buf = session->memory.layers[piece.stream->layer].rows[piece.stream->which],
                          .offset = layout->header.first * row_bytes + piece.within,
                          .bytes = piece.bytes};
}

static int gather(moe_session *session, const struct record_layout *layout, const struct record_block *block,
                  struct moe_err *err)
{
    for (size_t done = 0; done < block->bytes;) {
        struct place place = place_at(session, layout, block->start + done, block->bytes - done);
        struct gpu_error device;
        if (gpu_read(session->model->gpu, place.buf, place.offset, session->staging + done, place.bytes, &device))
            return moe_fail_gpu(err, &device);
        done += place.bytes;
    }
    return MOE_OK;
}

static int check_part(const moe_session *session, const struct moe_record_part *part, struct record_layout *layout,
                      struct moe_err *err)
{
    if ((!part->count && !part->states) || part->first > session->length || part->count > session->length - part->first)
        return moe_fail(err, MOE_POSITION, "cannot save %u rows from %u on: the session has %u tokens", part->count,
                        part->first, session->length);
    if (part->states && !session->snapshots.bytes)
        return moe_fail(err, MOE_BAD_ARGUMENT, "no layer of this model has states to save");
    struct record_header header = {
        .first = part->first,
        .count = part->count,
        .vocab_size = part->logits ? vocab_size(session) : 0,
        .block_bytes = part->block_bytes ? part->block_bytes : RECORD_BLOCK,
    };
    enum moe_code code = lay_out(session, &header, part->states, layout);
    if (code == MOE_NO_MEMORY)
        return moe_fail(err, code, "no memory to save %u rows", part->count);
    if (code || part->offset > INT64_MAX - layout->total_bytes)
        return moe_fail(err, MOE_BAD_ARGUMENT, "a record of %u rows in blocks of %u bytes can't be written at %llu",
                        part->count, header.block_bytes, (unsigned long long)part->offset);
    return MOE_OK;
}

// The states that the part asks for, as a snapshot of them: of those of now one is made.
static int find_states(moe_session *session, const struct moe_record_part *part, const char **states,
                       struct moe_err *err)
{
    uint32_t position = part->first + part->count;
    *states = NULL;
    if (!part->states)
        return MOE_OK;
    int code = session->stands == position ? session_remember(session, true, err) : MOE_OK;
    if (code)
        return code;
    const struct snapshot *found = snapshots_find(&session->snapshots, position);
    if (!found || found->position != position)
        return moe_fail(err, MOE_NOT_READY, "the states after %u tokens were not kept", position);
    *states = found->bytes;
    return MOE_OK;
}

static int write_blocks(moe_session *session, const struct moe_record_io *io, const struct moe_record_part *part,
                        const struct record_layout *layout, uint64_t *table, struct moe_err *err)
{
    struct moe_progress progress = {
        .what = "saving conversation", .unit = "bytes", .total = layout->total_bytes - layout->data_offset};
    const char *sections[RECORD_SECTIONS] = {[RECORD_LOGITS] = (const char *)part->logits};
    int found = find_states(session, part, &sections[RECORD_STATES], err);
    if (found)
        return found;
    for (uint64_t i = 0; i < layout->n_blocks; i++) {
        struct record_block block = kv_record_block_at(layout, i);
        bool rows = block.section == RECORD_ROWS;
        const void *bytes = rows ? session->staging : sections[block.section] + block.start;
        int code = rows ? gather(session, layout, &block, err) : MOE_OK;
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

// Blocks first, then what is before them in the file.
static int write_laid_out(moe_session *session, const struct moe_record_io *io, const struct moe_record_part *part,
                          struct record_layout *layout, struct moe_err *err)
{
    size_t streams = kv_record_streams_bytes(&layout->header);
    char *head = malloc(layout->data_offset);
    if (!head)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the checksums of %u rows", part->count);
    uint64_t *table = (uint64_t *)(void *)(head + layout->table_offset);
    int code = write_blocks(session, io, part, layout, table, err);
    if (!code) {
        layout->header.table_checksum = kv_record_checksum(table, 8 * layout->n_blocks);
        layout->header.checksum = kv_record_sum(&layout->header, layout->streams);
        memcpy(head, &layout->header, sizeof layout->header);
        memcpy(head + sizeof layout->header, layout->streams, streams);
        code = kv_record_write(&(struct record_place){io, part->offset}, head, layout->data_offset, err);
    }
    free(head);
    return code;
}

int moe_session_write_record(moe_session *session, const struct moe_record_io *io, const struct moe_record_part *part,
                             struct moe_record *record, struct moe_err *err)
{
    struct record_layout layout = {.streams = NULL};
    int code = check_part(session, part, &layout, err);
    if (!code)
        code = get_staging(session, kv_record_block_max(&layout), err);
    if (!code)
        code = write_laid_out(session, io, part, &layout, err);
    if (!code)
        kv_record_describe(&layout, part->offset, record);
    kv_record_release(&layout);
    return code;
}

static bool same_streams(const struct record_layout *a, const struct record_layout *b)
{
    return a->n_streams == b->n_streams && memcmp(a->streams, b->streams, a->n_streams * sizeof *a->streams) == 0;
}

static int fail_shape(const moe_session *session, const struct record_place *place, const struct record_layout *found,
                      const struct record_layout *own, struct moe_err *err)
{
    const struct record_header *was = &found->header, *is = &own->header;
    if (was->version == RECORD_PLAIN && is->version == RECORD_PLAIN)
        return kv_record_fail(err, MOE_RECORD_SHAPE, place,
                              "saved from %u layers of rows of %u and a vocabulary of %u; this model has %u, %u and %u",
                              was->n_layers, was->row_width, was->vocab_size, is->n_layers, is->row_width,
                              vocab_size(session));
    return kv_record_fail(err, MOE_RECORD_SHAPE, place,
                          "saved from %u layers with other rows or states than the %u layers of this model",
                          was->n_layers, is->n_layers);
}

// A record's bytes are bound to the weights, the row type and the shape that made them.
static int check_kin(const moe_session *session, const struct record_place *place, const struct record_layout *layout,
                     struct moe_err *err)
{
    static const char *const types[] = {"f32", "f16"};
    const struct record_header *found = &layout->header;
    const struct package *package = &session->model->package;
    const char *fingerprint = package->fingerprint, *once = package->fingerprint_once;
    if (memcmp(found->fingerprint, fingerprint, sizeof found->fingerprint) != 0 &&
        (!*once || memcmp(found->fingerprint, once, sizeof found->fingerprint) != 0))
        return kv_record_fail(err, MOE_RECORD_WEIGHTS, place,
                              "saved with different weights or settings (%.12s; this model has %.12s)",
                              found->fingerprint, fingerprint);
    if (found->kv_type != session->memory.type)
        return kv_record_fail(err, MOE_RECORD_KV_TYPE, place, "saved as %s rows, but this session uses %s",
                              types[found->kv_type], types[session->memory.type]);
    struct record_header header = {.first = found->first, .count = found->count, .block_bytes = found->block_bytes};
    struct record_layout own;
    enum moe_code code = lay_out(session, &header, layout->bytes[RECORD_STATES] > 0, &own);
    bool same = !code && found->version == own.header.version && found->n_layers == own.header.n_layers &&
                same_streams(layout, &own) && (!found->vocab_size || found->vocab_size == vocab_size(session));
    if (code == MOE_NO_MEMORY)
        moe_fail(err, code, "no memory to check a record");
    else if (!same)
        code = (enum moe_code)fail_shape(session, place, layout, &own, err);
    kv_record_release(&own);
    return (int)code;
}

// A record on its way into a session.
struct restore {
    moe_session *session;
    const struct record_layout *layout;
    bool rows;     // wanted
    char *states;  // a snapshot's room, not kept yet; NULL: not wanted
    float *logits; // [vocab_size], not yet the session's
};

static int take(void *context, const struct record_block *block, const void *bytes, struct moe_err *err)
{
    const struct restore *restore = context;
    moe_session *session = restore->session;
    if (atomic_load(&session->cancel))
        return moe_fail(err, MOE_CANCELLED, "stopped while the conversation was read back");
    if (block->section != RECORD_ROWS) {
        char *to = block->section == RECORD_LOGITS ? (char *)restore->logits : restore->states;
        memcpy(to + block->start, bytes, block->bytes);
        return MOE_OK;
    }
    for (size_t done = 0; done < block->bytes;) {
        struct place place = place_at(session, restore->layout, block->start + done, block->bytes - done);
        gpu_write(session->model->gpu, place.buf, place.offset, (const char *)bytes + done, place.bytes);
        done += place.bytes;
    }
    struct gpu_error device;
    return gpu_check(session->model->gpu, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
}

static bool all_finite(const float *numbers, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && isfinite(numbers[i]))
        i++;
    return i == n;
}

// Reads the blocks from `from` on into the session's arrays, restore->states and restore->logits, whose numbers it
// checks.
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
    if (!code && restore->logits && !all_finite(restore->logits, layout->header.vocab_size))
        code = kv_record_fail(err, MOE_RECORD_DAMAGED, place, "the logits saved after token %u are not all finite",
                              layout->header.first + layout->header.count - 1);
    if (!code && restore->states &&
        !all_finite((const float *)(const void *)restore->states, layout->bytes[RECORD_STATES] / 4))
        code = kv_record_fail(err, MOE_RECORD_DAMAGED, place, "the states saved after %u tokens are not all finite",
                              layout->header.first + layout->header.count);
    return code;
}

// What was read becomes the session's; cannot fail. Takes the room for the states over.
static void take_over(moe_session *session, const struct moe_record *record, const struct restore *restore)
{
    if (restore->rows && record->count) {
        session->length += record->count;
        session->has_logits = false;
    }
    if (restore->states)
        snapshots_keep(&session->snapshots, restore->states, record->first + record->count, true);
    if (restore->logits)
        moe_session_set_logits(session, restore->logits);
}

// What the session keeps beside the rows that were read.
static int derive(moe_session *session, const struct moe_record *record, struct moe_err *err)
{
    moe_model *model = session->model;
    struct pass pass = {.gpu = model->gpu,
                        .shape = &model->package.shape,
                        .weights = &model->weights,
                        .memory = &session->memory,
                        .position = record->first,
                        .rows = record->count};
    struct gpu_error device;
    forward_derive(&pass);
    return gpu_finish(model->gpu, &device) ? moe_fail_gpu(err, &device) : MOE_OK;
}

// Room for what comes before it is the session's; first block to be read.
static int prepare(struct restore *restore, const struct moe_record *record, uint64_t *from, struct moe_err *err)
{
    const struct record_layout *layout = restore->layout;
    *from = restore->rows ? 0 : layout->blocks[RECORD_ROWS] + layout->blocks[RECORD_STATES];
    if (record->has_logits && !(restore->logits = malloc(layout->bytes[RECORD_LOGITS])))
        return moe_fail(err, MOE_NO_MEMORY, "no memory for %u logits", layout->header.vocab_size);
    if (restore->rows && record->has_states && !(restore->states = snapshots_room(&restore->session->snapshots, true)))
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the states of %u tokens", record->first + record->count);
    return MOE_OK;
}

// Reads all, or the logits alone, when the header is as it must be.
static int restore_record(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                          bool rows, struct moe_err *err)
{
    struct record_layout layout;
    struct record_place place = {io, record->offset};
    struct restore restore = {.session = session, .layout = &layout, .rows = rows};
    uint64_t from;
    int code = kv_record_read_header(io, record->offset, &layout, err);
    if (!code)
        code = check_kin(session, &place, &layout, err);
    if (!code)
        code = kv_record_compare(io, record, &layout, err);
    if (!code)
        code = prepare(&restore, record, &from, err);
    if (!code)
        code = read_blocks(&restore, &place, from, err);
    if (!code && rows)
        code = derive(session, record, err);
    if (!code)
        take_over(session, record, &restore);
    else if (restore.states)
        snapshots_give_back(&session->snapshots, restore.states);
    free(restore.logits);
    kv_record_release(&layout);
    return code;
}

int moe_session_read_record(moe_session *session, const struct moe_record_io *io, const struct moe_record *record,
                            struct moe_err *err)
{
    if (!record->count && record->first > session->length)
        return moe_fail(err, MOE_POSITION, "states after %u tokens do not belong to a session of %u", record->first,
                        session->length);
    if (record->count && record->first != session->length)
        return moe_fail(err, MOE_POSITION, "rows for position %u do not continue a session of %u tokens", record->first,
                        session->length);
    if (record->count > session->memory.max_rows - session->length)
        return moe_fail(err, MOE_CONTEXT_FULL, "the context is too small: %u saved tokens do not fit into %u",
                        record->first + record->count, session->memory.max_rows);
    held_group_forget(&session->held, &session->snapshots); // its rows are where these go
    int code = memory_reserve(session->model->gpu, &session->memory, session->length + record->count, err);
    return code ? code : restore_record(session, io, record, true, err);
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
