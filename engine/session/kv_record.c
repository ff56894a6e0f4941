// SPDX-License-Identifier: GPL-3.0-or-later
// Lays records out, checks them, and reads and writes their blocks.
#include "engine/session/kv_record.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/err.h"
#include "engine/experts/reader.h"

static const char magic[8] = "moeKVrec";
static_assert(sizeof(struct record_header) == 120, "the header's fields leave no gaps");

// Limits that keep every product below 2^63; no model comes near them.
enum {
    MAX_LAYERS = 1 << 12,
    MAX_STREAMS = 1 << 14,
    MAX_WHICH = 8,
    MAX_WIDTH = 1 << 18,
    MAX_STATE = 1 << 28,
    MAX_ROWS = 1 << 28,
    MAX_VOCAB = 1 << 26,
    READERS = 4
};

uint64_t kv_record_checksum(const void *bytes, size_t count)
{
    return XXH3_64bits(bytes, count);
}

size_t kv_record_streams_bytes(const struct record_header *header)
{
    return header->version == RECORD_STREAMS ? header->n_streams * sizeof(struct record_stream) : 0;
}

uint64_t kv_record_sum(const struct record_header *header, const struct record_stream *streams)
{
    size_t own = offsetof(struct record_header, checksum), more = kv_record_streams_bytes(header);
    if (!more)
        return kv_record_checksum(header, own);
    uint64_t parts[2] = {kv_record_checksum(header, own), kv_record_checksum(streams, more)};
    return kv_record_checksum(parts, sizeof parts);
}

static bool header_in_range(const struct record_header *h)
{
    bool plain = h->version == RECORD_PLAIN;
    return h->kv_type <= MOE_KV_F16 && h->n_layers >= 1 && h->n_layers <= MAX_LAYERS &&
           (plain ? h->row_width >= 1 && h->row_width <= MAX_WIDTH
                  : h->n_streams >= 1 && h->n_streams <= MAX_STREAMS) &&
           (h->count || (!plain && h->first)) && h->count <= MAX_ROWS && h->first <= MAX_ROWS &&
           h->vocab_size <= MAX_VOCAB && h->block_bytes >= RECORD_SMALLEST_BLOCK &&
           h->block_bytes <= RECORD_LARGEST_BLOCK && (h->block_bytes & (h->block_bytes - 1)) == 0;
}

static bool stream_in_range(const struct record_header *h, const struct record_stream *streams, uint32_t i)
{
    const struct record_stream *s = &streams[i], *before = i ? &streams[i - 1] : NULL;
    if (s->layer >= h->n_layers || s->which >= MAX_WHICH || s->every > 1 || !s->width ||
        s->width > (s->every ? MAX_WIDTH : MAX_STATE))
        return false;
    if (!before || before->every > s->every)
        return true;
    return before->every == s->every &&
           (before->layer < s->layer || (before->layer == s->layer && before->which < s->which));
}

// Rows are there when they are counted, and something is.
static bool streams_in_range(const struct record_header *h, const struct record_stream *streams)
{
    for (uint32_t i = 0; i < h->n_streams; i++)
        if (!stream_in_range(h, streams, i))
            return false;
    return (streams[0].every > 0) == (h->count > 0);
}

static void add_stream(struct record_layout *layout, uint32_t i, struct record_stream stream)
{
    layout->streams[i] = stream;
    if (stream.every)
        layout->bytes[RECORD_ROWS] += (uint64_t)stream.width * layout->element_bytes * layout->header.count;
    else
        layout->bytes[RECORD_STATES] += (uint64_t)stream.width * sizeof(float);
}

enum moe_code kv_record_lay_out(const struct record_header *header, const struct record_stream *streams,
                                struct record_layout *layout)
{
    const struct record_header *h = header;
    bool plain = h->version == RECORD_PLAIN;
    *layout = (struct record_layout){.header = *h, .element_bytes = h->kv_type == MOE_KV_F16 ? 2 : 4};
    if (!header_in_range(h) || (!plain && !streams_in_range(h, streams)))
        return MOE_RECORD_DAMAGED;
    memcpy(layout->header.magic, magic, sizeof magic);
    layout->n_streams = plain ? h->n_layers : h->n_streams;
    layout->streams = calloc(layout->n_streams, sizeof *layout->streams);
    if (!layout->streams)
        return MOE_NO_MEMORY;
    for (uint32_t i = 0; i < layout->n_streams; i++)
        add_stream(layout, i,
                   plain ? (struct record_stream){.layer = i, .width = h->row_width, .every = 1} : streams[i]);
    layout->bytes[RECORD_LOGITS] = (uint64_t)h->vocab_size * sizeof(float);
    uint64_t data = 0;
    for (int i = 0; i < RECORD_SECTIONS; i++) {
        layout->blocks[i] = (layout->bytes[i] + h->block_bytes - 1) / h->block_bytes;
        layout->n_blocks += layout->blocks[i];
        data += layout->bytes[i];
    }
    layout->table_offset = sizeof *h + kv_record_streams_bytes(h);
    layout->data_offset = layout->table_offset + 8 * layout->n_blocks;
    layout->total_bytes = layout->data_offset + data;
    return MOE_OK;
}

void kv_record_release(struct record_layout *layout)
{
    free(layout->streams);
    layout->streams = NULL;
}

struct record_block kv_record_block_at(const struct record_layout *layout, uint64_t block)
{
    uint32_t size = layout->header.block_bytes;
    struct record_block b = {.at = layout->data_offset};
    while (block >= layout->blocks[b.section]) {
        block -= layout->blocks[b.section];
        b.at += layout->bytes[b.section++];
    }
    b.start = block * size;
    b.at += b.start;
    uint64_t left = layout->bytes[b.section] - b.start;
    b.bytes = left < size ? left : size;
    return b;
}

size_t kv_record_block_max(const struct record_layout *layout)
{
    uint64_t most = 0;
    for (int i = 0; i < RECORD_SECTIONS; i++)
        most = layout->bytes[i] > most ? layout->bytes[i] : most;
    return most < layout->header.block_bytes ? most : layout->header.block_bytes;
}

struct record_piece kv_record_piece_at(const struct record_layout *layout, enum record_section section, uint64_t at,
                                       size_t left)
{
    const struct record_stream *stream = layout->streams;
    uint64_t bytes;
    for (;; stream++, at -= bytes) {
        bytes = 0;
        if (section == RECORD_ROWS && stream->every)
            bytes = (uint64_t)stream->width * layout->element_bytes * layout->header.count;
        else if (section == RECORD_STATES && !stream->every)
            bytes = (uint64_t)stream->width * sizeof(float);
        if (at < bytes)
            return (struct record_piece){stream, at, bytes - at < left ? bytes - at : left};
    }
}

int kv_record_fail(struct moe_err *err, enum moe_code code, const struct record_place *place, const char *format, ...)
{
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    moe_fail(err, code, "%.180s: %s", place->io->path, what);
    if (err) {
        snprintf(err->file, sizeof err->file, "%s", place->io->path);
        err->offset = place->offset;
    }
    return (int)code;
}

static int fail_errno(struct moe_err *err, const struct record_place *place, int sys_errno, const char *what)
{
    kv_record_fail(err, MOE_IO, place, "%s at byte %llu: %s", what, (unsigned long long)place->offset,
                   strerror(sys_errno));
    if (err)
        err->sys_errno = sys_errno;
    return MOE_IO;
}

static int fail_truncated(struct moe_err *err, const struct record_place *place)
{
    return kv_record_fail(err, MOE_RECORD_TRUNCATED, place, "the file ends at or before byte %llu, inside a record",
                          (unsigned long long)place->offset);
}

int kv_record_write(const struct record_place *place, const void *source, size_t bytes, struct moe_err *err)
{
    const struct moe_record_io *io = place->io;
    struct record_place at = *place;
    for (size_t done = 0; done < bytes;) {
        const char *from = (const char *)source + done;
        at.offset = place->offset + done;
        ptrdiff_t put = io->write ? io->write(io->context, io->fd, from, bytes - done, at.offset)
                                  : pwrite(io->fd, from, bytes - done, (off_t)at.offset);
        if (put > 0)
            done += (size_t)put;
        else if (put == 0 || errno != EINTR)
            return fail_errno(err, &at, put ? errno : ENOSPC, "cannot be written");
    }
    return MOE_OK;
}

static int read_all(const struct record_place *place, void *target, size_t bytes, struct moe_err *err)
{
    const struct moe_record_io *io = place->io;
    struct record_place at = *place;
    for (size_t done = 0; done < bytes;) {
        char *to = (char *)target + done;
        at.offset = place->offset + done;
        ptrdiff_t got = io->read ? io->read(io->context, io->fd, to, bytes - done, at.offset)
                                 : pread(io->fd, to, bytes - done, (off_t)at.offset);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0)
            return fail_truncated(err, &at);
        else if (errno != EINTR)
            return fail_errno(err, &at, errno, "cannot be read");
    }
    return MOE_OK;
}

// It is shown to people, so it must be the hex that it is said to be.
static bool is_hex(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && text[i] && strchr("0123456789abcdef", text[i]))
        i++;
    return i == length;
}

static int fail_values(const struct record_place *place, struct moe_err *err)
{
    return kv_record_fail(err, MOE_RECORD_DAMAGED, place, "the header of the record at byte %llu has impossible values",
                          (unsigned long long)place->offset);
}

// What is behind the header, not checked yet.
static int read_streams(const struct record_place *place, const struct record_header *header,
                        struct record_stream **streams, struct moe_err *err)
{
    struct record_place at = {place->io, place->offset + sizeof *header};
    if (header->n_streams < 1 || header->n_streams > MAX_STREAMS)
        return fail_values(place, err);
    size_t bytes = kv_record_streams_bytes(header);
    *streams = malloc(bytes);
    return *streams ? read_all(&at, *streams, bytes, err)
                    : moe_fail(err, MOE_NO_MEMORY, "no memory for the header of a record");
}

static int lay_out(const struct record_place *place, const struct record_header *header,
                   const struct record_stream *streams, struct record_layout *layout, struct moe_err *err)
{
    enum moe_code code = is_hex(header->fingerprint, sizeof header->fingerprint)
                             ? kv_record_lay_out(header, streams, layout)
                             : MOE_RECORD_DAMAGED;
    if (code == MOE_NO_MEMORY)
        return moe_fail(err, code, "no memory for the header of a record");
    return code ? fail_values(place, err) : MOE_OK;
}

int kv_record_read_header(const struct moe_record_io *io, uint64_t offset, struct record_layout *layout,
                          struct moe_err *err)
{
    struct record_place place = {io, offset};
    struct record_header header;
    *layout = (struct record_layout){.streams = NULL};
    if (offset > INT64_MAX / 2)
        return kv_record_fail(err, MOE_BAD_ARGUMENT, &place, "byte %llu is beyond any file",
                              (unsigned long long)offset);
    int code = read_all(&place, &header, sizeof header, err);
    if (code)
        return code;
    if (memcmp(header.magic, magic, sizeof magic) != 0)
        return kv_record_fail(err, MOE_RECORD_DAMAGED, &place, "no record at byte %llu", (unsigned long long)offset);
    if (header.version < RECORD_PLAIN || header.version > RECORD_STREAMS)
        return kv_record_fail(err, header.version > RECORD_STREAMS ? MOE_RECORD_NEWER : MOE_RECORD_OLDER, &place,
                              "the record has format %u; this moechat reads formats %d to %d", header.version,
                              RECORD_PLAIN, RECORD_STREAMS);
    struct record_stream *streams = NULL;
    if (header.version == RECORD_STREAMS)
        code = read_streams(&place, &header, &streams, err);
    if (!code && header.checksum != kv_record_sum(&header, streams))
        code = kv_record_fail(err, MOE_RECORD_DAMAGED, &place,
                              "the header of the record at byte %llu is damaged: its checksum does not match",
                              (unsigned long long)offset);
    if (!code)
        code = lay_out(&place, &header, streams, layout, err);
    free(streams);
    return code;
}

void kv_record_describe(const struct record_layout *layout, uint64_t offset, struct moe_record *record)
{
    const struct record_header *header = &layout->header;
    *record = (struct moe_record){.offset = offset,
                                  .bytes = layout->total_bytes,
                                  .checksum = header->checksum,
                                  .first = header->first,
                                  .count = header->count,
                                  .has_logits = header->vocab_size > 0,
                                  .has_states = layout->bytes[RECORD_STATES] > 0};
}

int kv_record_compare(const struct moe_record_io *io, const struct moe_record *record,
                      const struct record_layout *layout, struct moe_err *err)
{
    struct record_place place = {io, record->offset};
    struct moe_record found;
    kv_record_describe(layout, record->offset, &found);
    if (found.bytes == record->bytes && found.checksum == record->checksum && found.first == record->first &&
        found.count == record->count && found.has_logits == record->has_logits &&
        found.has_states == record->has_states)
        return MOE_OK;
    if (!found.count || !record->count)
        return kv_record_fail(err, MOE_RECORD_OTHER, &place, "the record at byte %llu is not the one saved there",
                              (unsigned long long)record->offset);
    return kv_record_fail(err, MOE_RECORD_OTHER, &place,
                          "the record at byte %llu has tokens %u to %u, but the one saved there had tokens %u to "
                          "%u",
                          (unsigned long long)record->offset, found.first, found.first + found.count - 1, record->first,
                          record->first + record->count - 1);
}

// The checksums of all blocks, to free; NULL with *err filled.
static uint64_t *read_table(const struct record_reading *reading, struct moe_err *err)
{
    const struct record_layout *layout = reading->layout;
    struct record_place place = {reading->io, reading->offset + layout->table_offset};
    size_t bytes = 8 * layout->n_blocks;
    uint64_t *table = malloc(bytes);
    if (!table) {
        moe_fail(err, MOE_NO_MEMORY, "no memory for the checksums of %llu blocks",
                 (unsigned long long)layout->n_blocks);
        return NULL;
    }
    int code = read_all(&place, table, bytes, err);
    if (!code && kv_record_checksum(table, bytes) != layout->header.table_checksum)
        code =
            kv_record_fail(err, MOE_RECORD_DAMAGED, &place, "the checksum table of the record at byte %llu is damaged",
                           (unsigned long long)reading->offset);
    if (!code)
        return table;
    free(table);
    return NULL;
}

uint32_t kv_record_stages(const struct record_layout *layout, uint64_t from)
{
    uint64_t blocks = layout->n_blocks - from;
    return blocks < RECORD_STAGES ? (uint32_t)blocks : RECORD_STAGES;
}

// A block on its way.
struct stage {
    struct read_request request; // first, so that a request that comes back leads here
    uint64_t index;
    struct record_block block;
};

static void ask(const struct record_reading *reading, reader *pool, struct stage *stage, uint64_t index)
{
    stage->index = index;
    stage->block = kv_record_block_at(reading->layout, index);
    stage->request.offset = reading->offset + stage->block.at;
    stage->request.length = stage->block.bytes;
    reader_submit(pool, &stage->request, 1);
}

static int take_block(const struct record_reading *reading, const struct stage *stage, const uint64_t *table,
                      struct moe_err *err)
{
    const struct read_request *request = &stage->request;
    struct record_place place = {reading->io, request->offset + request->delivered};
    if (request->result == READ_ERROR)
        return fail_errno(err, &place, request->sys_errno, "cannot be read");
    if (request->result == READ_EOF)
        return fail_truncated(err, &place);
    place.offset = request->offset;
    if (kv_record_checksum(request->target, request->length) != table[stage->index])
        return kv_record_fail(err, MOE_RECORD_DAMAGED, &place,
                              "block %llu of %llu (%zu bytes at byte %llu) is damaged: its checksum does not match",
                              (unsigned long long)stage->index + 1, (unsigned long long)reading->layout->n_blocks,
                              request->length, (unsigned long long)request->offset);
    return reading->take ? reading->take(reading->context, &stage->block, request->target, err) : MOE_OK;
}

// What reads a record: the stages belong to the pool until it is closed.
struct pump {
    reader *pool;
    uint64_t *table;
    struct stage stages[RECORD_STAGES];
};

static int run(const struct record_reading *reading, struct pump *pump, struct moe_err *err)
{
    const struct moe_record_io *io = reading->io;
    const struct record_layout *layout = reading->layout;
    struct moe_progress progress = {.what = reading->what,
                                    .unit = "bytes",
                                    .total = layout->total_bytes - kv_record_block_at(layout, reading->from).at};
    uint64_t next = reading->from;
    for (uint32_t i = 0; i < reading->stages; i++) {
        pump->stages[i].request.fd = io->fd;
        pump->stages[i].request.target = reading->staging + i * kv_record_block_max(layout);
        ask(reading, pump->pool, &pump->stages[i], next++);
    }
    while (progress.done < progress.total) {
        struct stage *stage = (struct stage *)reader_reap(pump->pool, READER_FOREVER);
        int code = take_block(reading, stage, pump->table, err);
        if (code)
            return code;
        progress.done += stage->block.bytes;
        if (io->progress)
            io->progress(io->progress_context, &progress);
        if (next < layout->n_blocks)
            ask(reading, pump->pool, stage, next++);
    }
    return MOE_OK;
}

int kv_record_read_blocks(const struct record_reading *reading, struct moe_err *err)
{
    struct moe_err local;
    if (!err)
        err = &local;
    struct pump pump = {.table = read_table(reading, err)};
    if (!pump.table)
        return (int)err->code;
    struct reader_options options = {.threads = reading->stages < READERS ? reading->stages : READERS,
                                     .capacity = reading->stages,
                                     .read = reading->io->read,
                                     .context = reading->io->context};
    int code = reader_open(&options, &pump.pool, err);
    if (!code)
        code = run(reading, &pump, err);
    reader_close(pump.pool);
    free(pump.table);
    return code;
}

int moe_record_inspect(const struct moe_record_io *io, uint64_t offset, struct moe_record_info *info,
                       struct moe_err *err)
{
    struct record_layout layout;
    int code = kv_record_read_header(io, offset, &layout, err);
    if (code)
        return code;
    const struct record_header *header = &layout.header;
    *info = (struct moe_record_info){.kv_type = (enum moe_kv_type)header->kv_type,
                                     .n_layers = header->n_layers,
                                     .row_width = header->version == RECORD_PLAIN ? header->row_width : 0,
                                     .vocab_size = header->vocab_size,
                                     .rows_bytes = layout.bytes[RECORD_ROWS],
                                     .states_bytes = layout.bytes[RECORD_STATES]};
    kv_record_describe(&layout, offset, &info->record);
    memcpy(info->fingerprint, header->fingerprint, sizeof header->fingerprint);
    kv_record_release(&layout);
    return MOE_OK;
}

// All blocks of a record whose header is as it must be.
static int verify_blocks(const struct moe_record_io *io, const struct moe_record *record,
                         const struct record_layout *layout, struct moe_err *err)
{
    // No session says how large a record may be, so nothing is allocated for one before its last byte is seen.
    struct record_place last = {io, record->offset + record->bytes - 1};
    char byte;
    int code = read_all(&last, &byte, 1, err);
    if (code)
        return code;
    struct record_reading reading = {.io = io,
                                     .offset = record->offset,
                                     .layout = layout,
                                     .stages = kv_record_stages(layout, 0),
                                     .what = "checking conversation"};
    reading.staging = malloc(reading.stages * kv_record_block_max(layout));
    if (!reading.staging)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to check a record");
    code = kv_record_read_blocks(&reading, err);
    free(reading.staging);
    return code;
}

int moe_record_verify(const struct moe_record_io *io, const struct moe_record *record, struct moe_err *err)
{
    struct record_layout layout;
    int code = kv_record_read_header(io, record->offset, &layout, err);
    if (!code)
        code = kv_record_compare(io, record, &layout, err);
    if (!code)
        code = verify_blocks(io, record, &layout, err);
    kv_record_release(&layout);
    return code;
}
