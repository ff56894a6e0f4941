// SPDX-License-Identifier: GPL-3.0-or-later
// Reads a vocabulary from a SentencePiece model, before the library sees it.
#include "tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok_err.h"

enum { PIECE_BYTES_MAX = 1024 };

struct span {
    const unsigned char *at;
    const unsigned char *end;
};

// One field of a protocol buffer message: `value` of a varint, or the `bytes` of a string or message.
struct field {
    uint64_t number;
    enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 } wire;
    uint64_t value;
    struct span bytes;
};

// The settings that decide whether text survives; the initial values are the proto's defaults.
struct specs {
    uint64_t model_type;
    uint64_t byte_fallback;
    uint64_t add_dummy_prefix;
    uint64_t remove_extra_whitespaces;
    uint64_t escape_whitespaces;
    bool charsmap;
};

enum { MODEL_TYPE_BPE = 2 };

static bool read_varint(struct span *rest, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && rest->at < rest->end; shift += 7) {
        unsigned byte = *rest->at++;
        if (shift == 63 && byte > 1)
            return false;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

// 1: a field was read; 0: the end; -1: the message is damaged.
static int next_field(struct span *rest, struct field *field)
{
    uint64_t tag;
    uint64_t size = 0;
    if (rest->at == rest->end)
        return 0;
    if (!read_varint(rest, &tag) || tag > UINT32_MAX) // the library would cut a longer tag and see another field
        return -1;
    field->number = tag >> 3;
    switch (tag & 7) {
    case WIRE_VARINT:
        field->wire = WIRE_VARINT;
        return read_varint(rest, &field->value) ? 1 : -1;
    case WIRE_64:
        field->wire = WIRE_64;
        size = 8;
        break;
    case WIRE_32:
        field->wire = WIRE_32;
        size = 4;
        break;
    case WIRE_BYTES:
        field->wire = WIRE_BYTES;
        if (!read_varint(rest, &size))
            return -1;
        break;
    default:
        return -1;
    }
    if (size > (uint64_t)(rest->end - rest->at))
        return -1;
    field->bytes = (struct span){rest->at, rest->at + size};
    rest->at += size;
    return 1;
}

static int read_trainer_spec(struct span message, struct specs *specs)
{
    struct field field;
    int more;
    while ((more = next_field(&message, &field)) > 0) {
        if (field.wire == WIRE_VARINT && field.number == 3)
            specs->model_type = field.value;
        else if (field.wire == WIRE_VARINT && field.number == 35)
            specs->byte_fallback = field.value;
    }
    return more;
}

static int read_normalizer_spec(struct span message, struct specs *specs)
{
    struct field field;
    int more;
    while ((more = next_field(&message, &field)) > 0) {
        if (field.wire == WIRE_BYTES && field.number == 2)
            specs->charsmap |= field.bytes.at < field.bytes.end;
        else if (field.wire == WIRE_VARINT && field.number == 3)
            specs->add_dummy_prefix = field.value;
        else if (field.wire == WIRE_VARINT && field.number == 4)
            specs->remove_extra_whitespaces = field.value;
        else if (field.wire == WIRE_VARINT && field.number == 5)
            specs->escape_whitespaces = field.value;
    }
    return more;
}

static int refuse(const char *path, const char *what, struct tok_err *err)
{
    return tok_fail(err, TOK_UNSUPPORTED, "%.300s: %s", path, what);
}

// A repeated spec adds to the one before, as in the library; the denormaliser is never used but must be harmless too.
static int check_specs(struct span file, const char *path, uint32_t *n_pieces, struct tok_err *err)
{
    struct specs specs = {
        .model_type = 1, .add_dummy_prefix = 1, .remove_extra_whitespaces = 1, .escape_whitespaces = 1};
    struct specs unused = {0};
    struct field field;
    int more;
    *n_pieces = 0;
    while ((more = next_field(&file, &field)) > 0) {
        if (field.wire != WIRE_BYTES)
            continue;
        if (field.number == 1)
            ++*n_pieces;
        if ((field.number == 2 && read_trainer_spec(field.bytes, &specs) < 0) ||
            (field.number == 3 && read_normalizer_spec(field.bytes, &specs) < 0) ||
            (field.number == 5 && read_normalizer_spec(field.bytes, &unused) < 0)) {
            more = -1;
            break;
        }
    }
    if (more < 0 || *n_pieces == 0)
        return tok_fail(err, TOK_FORMAT, "%.300s: not a SentencePiece model, or damaged: fetch the file again", path);
    if (specs.model_type != MODEL_TYPE_BPE)
        return refuse(path, "trainer_spec.model_type is not BPE: train with model_type=bpe", err);
    if (!specs.byte_fallback)
        return refuse(path, "no byte pieces: train with byte_fallback=true", err);
    if (specs.charsmap || unused.charsmap)
        return refuse(path, "the normaliser changes text: train with normalization_rule_name=identity", err);
    if (specs.add_dummy_prefix)
        return refuse(path, "a space is put before text: train with add_dummy_prefix=false", err);
    if (specs.remove_extra_whitespaces)
        return refuse(path, "spaces are removed: train with remove_extra_whitespaces=false", err);
    if (!specs.escape_whitespaces)
        return refuse(path, "normalizer_spec.escape_whitespaces is false: train with the default, true", err);
    return TOK_OK;
}

// "<0xNN>" -> NN, -1 for anything else.
static int byte_of_piece(struct span text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (text.end - text.at != 6 || memcmp(text.at, "<0x", 3) != 0 || text.at[5] != '>')
        return -1;
    const char *high = memchr(digits, text.at[3], 16);
    const char *low = memchr(digits, text.at[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

// Copies a piece's text, the library's mark for a space turned back; returns the end of the copy.
static char *copy_text(char *out, struct span text)
{
    while (text.at < text.end) {
        if (text.end - text.at >= 3 && memcmp(text.at, "\xE2\x96\x81", 3) == 0) {
            *out++ = ' ';
            text.at += 3;
        } else {
            *out++ = (char)*text.at++;
        }
    }
    return out;
}

static int add_piece(struct vocab *vocab, struct span message, const char *path, struct tok_err *err)
{
    struct span text = {0};
    uint64_t kind = VOCAB_TEXT;
    struct field field;
    int more;
    uint32_t id = vocab->size;
    while ((more = next_field(&message, &field)) > 0) {
        if (field.wire == WIRE_BYTES && field.number == 1)
            text = field.bytes;
        else if (field.wire == WIRE_VARINT && field.number == 3)
            kind = field.value;
    }
    int byte = kind == VOCAB_BYTE ? byte_of_piece(text) : 0;
    if (more < 0 || text.end - text.at > PIECE_BYTES_MAX || byte < 0)
        return tok_fail(err, TOK_FORMAT, "%.300s: piece %u is damaged: fetch the file again", path, (unsigned)id);
    if (kind != VOCAB_TEXT && kind != VOCAB_UNKNOWN && kind != VOCAB_CONTROL && kind != VOCAB_BYTE)
        return tok_fail(err, TOK_UNSUPPORTED, "%.300s: piece %u is user-defined or unused: make it a control symbol",
                        path, (unsigned)id);
    char *end = vocab->bytes + vocab->start[id];
    if (kind == VOCAB_BYTE) {
        vocab->byte_ids[byte] = (int32_t)id;
        *end++ = (char)byte;
    } else {
        end = copy_text(end, text);
    }
    vocab->kind[id] = (unsigned char)kind;
    vocab->start[id + 1] = (uint32_t)(end - vocab->bytes);
    vocab->size++;
    return TOK_OK;
}

static int fill(struct vocab *vocab, struct span file, const char *path, struct tok_err *err)
{
    struct field field;
    for (int i = 0; i < 256; i++)
        vocab->byte_ids[i] = -1;
    while (next_field(&file, &field) > 0) {
        if (field.wire != WIRE_BYTES || field.number != 1)
            continue;
        int failed = add_piece(vocab, field.bytes, path, err);
        if (failed)
            return failed;
    }
    for (int i = 0; i < 256; i++)
        if (vocab->byte_ids[i] < 0)
            return tok_fail(err, TOK_UNSUPPORTED, "%.300s: no byte piece <0x%02X>: train with byte_fallback=true", path,
                            (unsigned)i);
    return TOK_OK;
}

int vocab_init(struct vocab *vocab, const char *file, size_t length, const char *path, struct tok_err *err)
{
    const unsigned char *bytes = (const unsigned char *)file;
    struct span all = {bytes, bytes + length};
    uint32_t n_pieces;
    memset(vocab, 0, sizeof *vocab);
    int failed = check_specs(all, path, &n_pieces, err);
    if (failed)
        return failed;
    vocab->bytes = malloc(length); // a piece's bytes are never more than the file's
    vocab->start = calloc((size_t)n_pieces + 1, sizeof *vocab->start);
    vocab->kind = malloc(n_pieces);
    if (vocab->bytes && vocab->start && vocab->kind)
        failed = fill(vocab, all, path, err);
    else
        failed = tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory for %u pieces", path, (unsigned)n_pieces);
    if (failed)
        vocab_release(vocab);
    return failed;
}

void vocab_release(struct vocab *vocab)
{
    free(vocab->bytes);
    free(vocab->start);
    free(vocab->kind);
    free(vocab->flags);
    memset(vocab, 0, sizeof *vocab);
}

int vocab_fill(struct vocab *vocab, const struct vocab_piece *pieces, uint32_t size, const char *path,
               struct tok_err *err)
{
    size_t bytes = 1;
    for (uint32_t id = 0; id < size; id++)
        bytes += pieces[id].kind ? pieces[id].length : 0;
    memset(vocab, 0, sizeof *vocab);
    vocab->bytes = bytes <= UINT32_MAX ? malloc(bytes) : NULL;
    vocab->start = calloc((size_t)size + 1, sizeof *vocab->start);
    vocab->kind = malloc((size_t)size + 1);
    vocab->flags = malloc((size_t)size + 1);
    if (!vocab->bytes || !vocab->start || !vocab->kind || !vocab->flags) {
        vocab_release(vocab);
        return tok_fail(err, TOK_NO_MEMORY, "%.300s: out of memory for %u pieces", path, (unsigned)size);
    }
    for (int i = 0; i < 256; i++)
        vocab->byte_ids[i] = -1;
    for (uint32_t id = 0; id < size; id++) {
        const struct vocab_piece *piece = &pieces[id];
        uint32_t length = piece->kind ? piece->length : 0;
        if (length)
            memcpy(vocab->bytes + vocab->start[id], piece->bytes, length);
        vocab->start[id + 1] = vocab->start[id] + length;
        vocab->kind[id] = piece->kind ? piece->kind : VOCAB_UNKNOWN;
        vocab->flags[id] = piece->kind ? piece->flags : 0;
        if (length == 1 && piece->kind == VOCAB_TEXT && vocab->byte_ids[(unsigned char)*piece->bytes] < 0)
            vocab->byte_ids[(unsigned char)*piece->bytes] = (int32_t)id;
    }
    vocab->size = size;
    return TOK_OK;
}
