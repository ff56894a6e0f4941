// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a record, for a small model on plain C: refused with one line and nothing changed, or the session holds
// exactly the bytes that are there, and stands on their states where it has some. The first byte says which checksums
// are made right first, so that what lies behind them is reached too, whether the model's layers have states, and
// whether the session has some tokens already.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session/kv_record.h"
#include "engine/session/session.h"

#define PLAIN_MODEL  "tests/golden/tiny-a/package" // whose records are of version 1
#define STATES_MODEL "tests/golden/ck-qwen35moe-mlx/checkpoint"

enum { SEAL_HEADER = 1, SEAL_BLOCKS = 2, OWN_WEIGHTS = 4, WITH_STATES = 8, BEHIND_TOKENS = 16 };
enum { TOKENS = 2, MAX_ROWS = 64 };

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

static moe_session *open_session(bool states)
{
    static moe_session *sessions[2];
    moe_session **session = &sessions[states];
    moe_model *model;
    struct moe_model_options options = {.device = "ref"};
    struct moe_session_options rows = {.max_context = MAX_ROWS};
    struct moe_err err;
    if (!*session)
        must(!moe_model_open(states ? STATES_MODEL : PLAIN_MODEL, &options, &model, &err) &&
             !moe_session_open(model, &rows, session, &err));
    return *session;
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

// The copy of the states that was kept is the record's, and so are those that the session then stands on.
static void check_states(moe_session *session, const uint8_t *states, uint32_t position)
{
    static char own[1 << 14];
    struct moe_err err;
    const struct snapshot *kept = snapshots_find(&session->snapshots, position);
    size_t bytes = session->snapshots.bytes;
    must(kept && kept->position == position && bytes && bytes <= sizeof own && !memcmp(kept->bytes, states, bytes));
    must(!session_stand(session, 0, &err) && !session_stand(session, position, &err));
    must(!session_copy_states(session, own, &err) && !memcmp(own, states, bytes));
}

// What the session of `length` tokens was given is what the record's bytes say.
static void check_taken(moe_session *session, uint32_t length, const struct bytes *bytes,
                        const struct moe_record *record)
{
    struct record_header header;
    struct record_layout layout;
    static float rows[MAX_ROWS * 128];
    must(lay_out(bytes, &header, &layout) && layout.total_bytes == record->bytes);
    must(moe_session_length(session) == length + record->count);
    const uint8_t *from = bytes->data + layout.data_offset;
    for (uint32_t i = 0; i < layout.n_streams; i++) {
        const struct record_stream *stream = &layout.streams[i];
        size_t row = (size_t)stream->width * 4, size = row * (stream->every ? header.count : 1);
        struct gpu_error device;
        if (stream->every) {
            gpu_buf *buf = session->memory.layers[stream->layer].rows[stream->which];
            must(size <= sizeof rows && !gpu_read(session->model->gpu, buf, row * length, rows, size, &device));
            must(memcmp(rows, from, size) == 0);
        }
        from += size;
    }
    const float *logits = moe_session_logits(session, &(struct moe_err){.text = ""});
    must((logits != NULL) == record->has_logits || !record->count);
    for (uint32_t i = 0; logits && i < header.vocab_size; i++)
        must(isfinite(logits[i]));
    if (record->has_states)
        check_states(session, from - layout.bytes[RECORD_STATES], record->first + record->count);
    kv_record_release(&layout);
}

static void feed_tokens(moe_session *session)
{
    static const int32_t ids[TOKENS] = {5, 17};
    struct moe_feed feed = {.ids = ids, .count = TOKENS};
    struct moe_err err;
    must(!moe_session_prefill(session, &feed, &err));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct moe_err err = {.text = ""};
    if (size < 1)
        return 0;
    moe_session *session = open_session(data[0] & WITH_STATES);
    if (data[0] & BEHIND_TOKENS)
        feed_tokens(session);
    uint32_t length = moe_session_length(session), n_kept = session->snapshots.n;
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
        must(moe_session_length(session) == length && session->snapshots.n == n_kept);
        must(session->has_logits == (length > 0));
    } else {
        check_taken(session, length, &bytes, &info.record);
    }
    must(!moe_session_truncate(session, 0, &err));
    free(bytes.data);
    return 0;
}
