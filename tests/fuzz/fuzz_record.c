// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a record, for a small model on plain C: refused with one line and nothing changed, or the session holds
// exactly the bytes that are there. The first byte says which checksums are made right first, so that what lies behind
// them is reached too.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session/kv_record.h"
#include "engine/session/session.h"

#define MODEL "tests/golden/tiny-a/package"

enum { SEAL_HEADER = 1, SEAL_BLOCKS = 2, OWN_WEIGHTS = 4, MAX_ROWS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

struct bytes {
    uint8_t *data;
    size_t size;
};

static ptrdiff_t read_bytes(void *context, int fd, void *target, size_t length, uint64_t offset)
{
    const struct bytes *bytes = context;
    (void)fd;
    size_t left = offset < bytes->size ? bytes->size - offset : 0;
    if (length > left)
        length = left;
    if (length)
        memcpy(target, bytes->data + offset, length);
    return (ptrdiff_t)length;
}

static moe_session *open_session(void)
{
    static moe_session *session;
    moe_model *model;
    struct moe_model_options options = {.device = "ref"};
    struct moe_session_options rows = {.max_context = MAX_ROWS};
    struct moe_err err;
    if (!session)
        must(!moe_model_open(MODEL, &options, &model, &err) && !moe_session_open(model, &rows, &session, &err));
    return session;
}

// A header, its streams and what follows from them. False: the bytes are too few, or no such numbers can be.
static bool lay_out(const struct bytes *record, struct record_header *header, struct record_layout *layout)
{
    static struct record_stream streams[1 << 14];
    if (record->size < sizeof *header)
        return false;
    memcpy(header, record->data, sizeof *header);
    size_t bytes = kv_record_streams_bytes(header);
    if (bytes > sizeof streams || record->size - sizeof *header < bytes)
        return false;
    memcpy(streams, record->data + sizeof *header, bytes);
    return header->version >= RECORD_PLAIN && header->version <= RECORD_STREAMS &&
           kv_record_lay_out(header, streams, layout) == MOE_OK;
}

static void seal(const struct bytes *record, uint8_t how, const char *fingerprint)
{
    struct record_header header;
    struct record_layout layout;
    if (!lay_out(record, &header, &layout))
        return;
    if (how & OWN_WEIGHTS)
        memcpy(header.fingerprint, fingerprint, sizeof header.fingerprint);
    if (how & SEAL_BLOCKS && layout.total_bytes <= record->size) {
        uint8_t *table = record->data + layout.table_offset;
        for (uint64_t i = 0; i < layout.n_blocks; i++) {
            struct record_block block = kv_record_block_at(&layout, i);
            uint64_t checksum = kv_record_checksum(record->data + block.at, block.bytes);
            memcpy(table + 8 * i, &checksum, sizeof checksum);
        }
        header.table_checksum = kv_record_checksum(table, 8 * layout.n_blocks);
    }
    if (how & SEAL_HEADER)
        header.checksum = kv_record_sum(&header, layout.streams);
    memcpy(record->data, &header, sizeof header);
    kv_record_release(&layout);
}

// What the session was given is what the record's bytes say.
static void check_taken(moe_session *session, const struct bytes *bytes, const struct moe_record *record)
{
    struct record_header header;
    struct record_layout layout;
    static float rows[MAX_ROWS * 128];
    must(lay_out(bytes, &header, &layout) && layout.total_bytes == record->bytes);
    must(moe_session_length(session) == record->count);
    const uint8_t *from = bytes->data + layout.data_offset;
    for (uint32_t i = 0; i < layout.n_streams; i++) {
        const struct record_stream *stream = &layout.streams[i];
        size_t size = (size_t)stream->width * 4 * (stream->every ? header.count : 1);
        struct gpu_error device;
        if (stream->every) {
            gpu_buf *buf = session->memory.layers[stream->layer].rows[stream->which];
            must(size <= sizeof rows && !gpu_read(session->model->gpu, buf, 0, rows, size, &device));
            must(memcmp(rows, from, size) == 0);
        }
        from += size;
    }
    if (record->has_states) {
        must(session->snapshots.n == 1 && session->snapshots.kept[0].position == record->first + record->count);
        must(memcmp(session->snapshots.kept[0].bytes, from - layout.bytes[RECORD_STATES],
                    layout.bytes[RECORD_STATES]) == 0);
    }
    const float *logits = moe_session_logits(session, &(struct moe_err){.text = ""});
    must((logits != NULL) == record->has_logits || !record->count);
    for (uint32_t i = 0; logits && i < header.vocab_size; i++)
        must(isfinite(logits[i]));
    kv_record_release(&layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    moe_session *session = open_session();
    struct moe_err err = {.text = ""};
    if (size < 1)
        return 0;
    struct bytes bytes = {malloc(size), size - 1};
    must(bytes.data != NULL);
    memcpy(bytes.data, data + 1, bytes.size);
    seal(&bytes, data[0], session->model->package.fingerprint);
    struct moe_record_io io = {.fd = -1, .path = "R", .read = read_bytes, .context = &bytes};
    struct moe_record_info info;
    int code = moe_record_inspect(&io, 0, &info, &err);
    int verified = code ? code : moe_record_verify(&io, &info.record, &err);
    if (!code)
        code = moe_session_read_record(session, &io, &info.record, &err);
    must(code || !verified);
    if (code) {
        must((int)err.code == code && err.text[0] && !strchr(err.text, '\n'));
        must(moe_session_length(session) == 0 && !moe_session_logits(session, NULL));
    } else {
        check_taken(session, &bytes, &info.record);
    }
    must(!moe_session_truncate(session, 0, &err));
    free(bytes.data);
    return 0;
}
