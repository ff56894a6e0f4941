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

static void seal(const struct bytes *record, uint8_t how, const char *fingerprint)
{
    struct record_header header;
    struct record_layout layout;
    if (record->size < sizeof header)
        return;
    memcpy(&header, record->data, sizeof header);
    if (how & OWN_WEIGHTS)
        memcpy(header.fingerprint, fingerprint, sizeof header.fingerprint);
    if (how & SEAL_BLOCKS && kv_record_lay_out(&header, &layout) && layout.bytes <= record->size) {
        uint8_t *table = record->data + sizeof header;
        for (uint64_t i = 0; i < layout.n_blocks; i++) {
            struct record_block block = kv_record_block_at(&layout, i);
            uint64_t checksum = kv_record_checksum(record->data + block.at, block.bytes);
            memcpy(table + 8 * i, &checksum, sizeof checksum);
        }
        header.table_checksum = kv_record_checksum(table, 8 * layout.n_blocks);
    }
    if (how & SEAL_HEADER)
        kv_record_seal(&header);
    memcpy(record->data, &header, sizeof header);
}

// What the session was given is what the record's bytes say.
static void check_taken(moe_session *session, const struct bytes *bytes, const struct moe_record *record)
{
    struct record_header header;
    struct record_layout layout;
    float row[MAX_ROWS * 128];
    memcpy(&header, bytes->data, sizeof header);
    must(kv_record_lay_out(&header, &layout) && layout.bytes == record->bytes && layout.layer_bytes <= sizeof row);
    must(moe_session_length(session) == record->count);
    for (uint32_t layer = 0; layer < header.n_layers; layer++) {
        struct gpu_error device;
        const uint8_t *from = bytes->data + layout.data_offset + layer * layout.layer_bytes;
        must(
            !gpu_read(session->model->gpu, session->memory.layers[layer].rows[0], 0, row, layout.layer_bytes, &device));
        must(memcmp(row, from, layout.layer_bytes) == 0);
    }
    const float *logits = moe_session_logits(session, &(struct moe_err){.text = ""});
    must((logits != NULL) == record->has_logits);
    for (uint32_t i = 0; logits && i < header.vocab_size; i++)
        must(isfinite(logits[i]));
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
