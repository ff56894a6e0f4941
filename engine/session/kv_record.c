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
enum { MAX_LAYERS = 1 << 12, MAX_WIDTH = 1 << 18, MAX_ROWS = 1 << 28, MAX_VOCAB = 1 << 26, READERS = 4 };

uint64_t kv_record_checksum(const void *bytes, size_t count)
{
    return XXH3_64bits(bytes, count);
}

void kv_record_seal(struct record_header *header)
{
    header->checksum = kv_record_checksum(header, offsetof(struct record_header, checksum));
}

static uint64_t blocks_of(uint64_t bytes, uint32_t block_bytes)
{
    return (bytes + block_bytes - 1) / block_bytes;
}

bool kv_record_lay_out(const struct record_header *header, struct record_layout *layout)
{
    const struct record_header *h = header;
    bool good = h->kv_type <= MOE_KV_F16 && h->n_layers >= 1 && h->n_layers <= MAX_LAYERS && h->row_width >= 1 &&
                h->row_width <= MAX_WIDTH && h->count >= 1 && h->count <= MAX_ROWS && h->first <= MAX_ROWS &&
                h->vocab_size <= MAX_VOCAB && h->block_bytes >= RECORD_SMALLEST_BLOCK &&
                h->block_bytes <= RECORD_LARGEST_BLOCK && (h->block_bytes & (h->block_bytes - 1)) == 0;
    if (!good)
        return false;
    struct record_layout l = {.header = *header};
    memcpy(l.header.magic, magic, sizeof magic);
    l.header.version = RECORD_VERSION;
    l.row_bytes = (uint64_t)h->row_width * (h->kv_type == MOE_KV_F16 ? 2 : 4);
    l.layer_bytes = l.row_bytes * h->count;
    l.rows_bytes = l.layer_bytes * h->n_layers;
    l.logits_bytes = (uint64_t)h->vocab_size * 4;
    l.n_row_blocks = blocks_of(l.rows_bytes, h->block_bytes);
    l.n_blocks = l.n_row_blocks + blocks_of(l.logits_bytes, h->block_bytes);
    l.data_offset = sizeof *header + 8 * l.n_blocks;
    l.bytes = l.data_offset + l.rows_bytes + l.logits_bytes;
    *layout = l;
    return true;
}

struct record_block kv_record_block_at(const struct record_layout *layout, uint64_t block)
{
    uint32_t size = layout->header.block_bytes;
    struct record_block b = {.is_logits = block >= layout->n_row_blocks};
    b.start = (block - (b.is_logits ? layout->n_row_blocks : 0)) * size;
    b.at = layout->data_offset + (b.is_logits ? layout->rows_bytes : 0) + b.start;
    uint64_t left = (b.is_logits ? layout->logits_bytes : layout->rows_bytes) - b.start;
    b.bytes = left < size ? left : size;
    return b;
}

size_t kv_record_block_max(const struct record_layout *layout)
{
    uint64_t most = layout->rows_bytes > layout->logits_bytes ? layout->rows_bytes : layout->logits_bytes;
    return most < layout->header.block_bytes ? most : layout->header.block_bytes;
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

int kv_record_read_header(const struct moe_record_io *io, uint64_t offset, struct record_layout *layout,
                          struct moe_err *err)
{
    struct record_place place = {io, offset};
    struct record_header header;
    if (offset > INT64_MAX / 2)
        return kv_record_fail(err, MOE_BAD_ARGUMENT, &place, "byte %llu is beyond any file",
                              (unsigned long long)offset);
    int code = read_all(&place, &header, sizeof header, err);
    if (code)
        return code;
    if (memcmp(header.magic, magic, sizeof magic) != 0)
        return kv_record_fail(err, MOE_RECORD_DAMAGED, &place, "no record at byte %llu", (unsigned long long)offset);
    if (header.version != RECORD_VERSION)
        return kv_record_fail(err, header.version > RECORD_VERSION ? MOE_RECORD_NEWER : MOE_RECORD_OLDER, &place,
                              "the record has format %u; this moechat reads format %d", header.version, RECORD_VERSION);
    if (header.checksum != kv_record_checksum(&header, offsetof(struct record_header, checksum)))
        return kv_record_fail(err, MOE_RECORD_DAMAGED, &place,
                              "the header of the record at byte %llu is damaged: its checksum does not match",
                              (unsigned long long)offset);
    if (!is_hex(header.fingerprint, sizeof header.fingerprint) || !kv_record_lay_out(&header, layout))
        return kv_record_fail(err, MOE_RECORD_DAMAGED, &place,
                              "the header of the record at byte %llu has impossible values",
                              (unsigned long long)offset);
    return MOE_OK;
}

void kv_record_describe(const struct record_layout *layout, uint64_t offset, struct moe_record *record)
{
    const struct record_header *header = &layout->header;
    *record = (struct moe_record){.offset = offset,
                                  .bytes = layout->bytes,
                                  .checksum = header->checksum,
                                  .first = header->first,
                                  .count = header->count,
                                  .has_logits = header->vocab_size > 0};
}

int kv_record_compare(const struct moe_record_io *io, const struct moe_record *record,
                      const struct record_layout *layout, struct moe_err *err)
{
    struct record_place place = {io, record->offset};
    struct moe_record found;
    kv_record_describe(layout, record->offset, &found);
    if (found.bytes == record->bytes && found.checksum == record->checksum && found.first == record->first &&
        found.count == record->count && found.has_logits == record->has_logits)
        return MOE_OK;
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
    struct record_place place = {reading->io, reading->offset + sizeof(struct record_header)};
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
    struct moe_progress progress = {
        .what = reading->what, .unit = "bytes", .total = layout->bytes - kv_record_block_at(layout, reading->from).at};
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
                                     .row_width = header->row_width,
                                     .vocab_size = header->vocab_size};
    kv_record_describe(&layout, offset, &info->record);
    memcpy(info->fingerprint, header->fingerprint, sizeof header->fingerprint);
    return MOE_OK;
}

int moe_record_verify(const struct moe_record_io *io, const struct moe_record *record, struct moe_err *err)
{
    struct record_layout layout;
    int code = kv_record_read_header(io, record->offset, &layout, err);
    if (!code)
        code = kv_record_compare(io, record, &layout, err);
    // No session says how large a record may be, so nothing is allocated for one before its last byte is seen.
    struct record_place last = {io, record->offset + record->bytes - 1};
    char byte;
    if (!code)
        code = read_all(&last, &byte, 1, err);
    if (code)
        return code;
    struct record_reading reading = {.io = io,
                                     .offset = record->offset,
                                     .layout = &layout,
                                     .stages = kv_record_stages(&layout, 0),
                                     .what = "checking conversation"};
    reading.staging = malloc(reading.stages * kv_record_block_max(&layout));
    if (!reading.staging)
        return moe_fail(err, MOE_NO_MEMORY, "no memory to check a record");
    code = kv_record_read_blocks(&reading, err);
    free(reading.staging);
    return code;
}
