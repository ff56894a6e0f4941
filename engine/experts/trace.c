// SPDX-License-Identifier: GPL-3.0-or-later
// Writes and reads routing traces.
#include "engine/experts/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"

enum { VERSION = 1, BUFFER_BYTES = 64 << 10 };
static const char magic[8] = {'m', 'o', 'e', 't', 'r', 'a', 'c', 'e'};

struct trace_writer {
    int fd;
    char path[256];
    size_t used;
    uint32_t last_layer;
    unsigned char buffer[BUFFER_BYTES];
};

static void put(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

// ---- Writing
// ---------------------------------------------------------------------------------------------------------

// What a full disk doesn't take is kept: the next call goes on there.
static int write_out(trace_writer *writer, struct moe_err *err)
{
    size_t done = 0;
    int code = MOE_OK;
    while (done < writer->used && !code) {
        ssize_t put_bytes = write(writer->fd, writer->buffer + done, writer->used - done);
        if (put_bytes >= 0)
            done += (size_t)put_bytes;
        else if (errno != EINTR)
            code = moe_fail_file(err, MOE_IO, writer->path, errno,
                                 "the trace can't be written; make room, or leave out --trace");
    }
    writer->used -= done;
    memmove(writer->buffer, writer->buffer + done, writer->used);
    return code;
}

// A slip of the hand: the path of a model, or of any other file that is none of ours.
static bool holds_other(const char *path)
{
    struct stat about;
    char begin[sizeof magic] = "";
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool other = fd < 0 || read(fd, begin, sizeof begin) != sizeof begin || memcmp(begin, magic, sizeof begin) != 0;
    if (fd >= 0)
        close(fd);
    return other;
}

int trace_create(const char *path, const struct trace_header *header, trace_writer **out, struct moe_err *err)
{
    *out = NULL;
    if (header->n_routed_experts > TRACE_MOST_IDS || header->n_layers > TRACE_MOST_LAYERS)
        return moe_fail(err, MOE_UNSUPPORTED, "a trace holds up to %d layers of %d experts, the model has more",
                        TRACE_MOST_LAYERS, TRACE_MOST_IDS);
    if (holds_other(path))
        return moe_fail_file(err, MOE_IO, path, 0, "holds something that is no trace; remove it, or name another file");
    trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the trace");
    writer->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer->fd < 0) {
        free(writer);
        return moe_fail_file(err, MOE_IO, path, errno, "the trace can't be made");
    }
    strncpy(writer->path, path, sizeof writer->path - 1);
    unsigned char *at = writer->buffer;
    memcpy(at, magic, sizeof magic);
    put(at + 8, VERSION, 4);
    put(at + 12, header->n_layers, 4);
    put(at + 16, header->first_moe_layer, 4);
    put(at + 20, header->n_routed_experts, 4);
    put(at + 24, header->top_k, 4);
    put(at + 32, header->slot_bytes, 8);
    memcpy(at + 40, header->model, strnlen(header->model, TRACE_NAME_BYTES));
    writer->used = TRACE_HEADER_BYTES;
    int code = write_out(writer, err);
    if (code) {
        trace_finish(writer, NULL);
        return code;
    }
    *out = writer;
    return MOE_OK;
}

int trace_write(trace_writer *writer, const struct trace_request *request, struct moe_err *err)
{
    size_t bytes = TRACE_REQUEST_BYTES + 2 * (size_t)request->n;
    bool new_pass = request->layer < writer->last_layer;
    int code = MOE_OK;
    if (new_pass || writer->used + bytes > BUFFER_BYTES)
        code = write_out(writer, err);
    if (code)
        return code;
    unsigned char *at = writer->buffer + writer->used;
    put(at, request->use, 1);
    put(at + 1, 0, 1);
    put(at + 2, request->layer, 2);
    put(at + 4, request->rows, 4);
    put(at + 8, request->n, 2);
    for (uint32_t i = 0; i < request->n; i++)
        put(at + TRACE_REQUEST_BYTES + 2 * (size_t)i, request->ids[i], 2);
    writer->used += bytes;
    writer->last_layer = request->layer;
    return MOE_OK;
}

int trace_finish(trace_writer *writer, struct moe_err *err)
{
    if (!writer)
        return MOE_OK;
    int code = write_out(writer, err);
    if (close(writer->fd) && !code)
        code = moe_fail_file(err, MOE_IO, writer->path, errno, "the trace can't be written");
    free(writer);
    return code;
}

// ---- Reading
// ---------------------------------------------------------------------------------------------------------

int trace_read_header(struct trace_reader *reader, const char *path, struct moe_err *err)
{
    const unsigned char *at = reader->bytes;
    if (reader->length < TRACE_HEADER_BYTES || memcmp(at, magic, sizeof magic) != 0)
        return moe_fail_file(err, MOE_FORMAT, path, 0, "is no routing trace; moechat run --trace FILE writes one");
    uint64_t version = get(at + 8, 4);
    if (version != VERSION)
        return moe_fail_file(err, MOE_FORMAT, path, 0, "is a trace of another version; record it again");
    struct trace_header *h = &reader->header;
    h->n_layers = (uint32_t)get(at + 12, 4);
    h->first_moe_layer = (uint32_t)get(at + 16, 4);
    h->n_routed_experts = (uint32_t)get(at + 20, 4);
    h->top_k = (uint32_t)get(at + 24, 4);
    h->slot_bytes = get(at + 32, 8);
    memcpy(h->model, at + 40, TRACE_NAME_BYTES);
    h->model[TRACE_NAME_BYTES] = 0;
    if (h->n_layers > TRACE_MOST_LAYERS || h->first_moe_layer >= h->n_layers || !h->n_routed_experts ||
        h->n_routed_experts > TRACE_MOST_IDS || !h->top_k || h->top_k > h->n_routed_experts)
        return moe_fail_file(err, MOE_FORMAT, path, 0, "has a header that no model could have; record it again");
    reader->at = TRACE_HEADER_BYTES;
    return MOE_OK;
}

static int fail_request(const struct trace_reader *reader, const char *path, const char *what, struct moe_err *err)
{
    int code = moe_fail(err, MOE_FORMAT, "%.300s: request at byte %zu: %s; record it again", path, reader->at, what);
    return -code;
}

int trace_next(struct trace_reader *reader, const char *path, struct trace_request *request, struct moe_err *err)
{
    const struct trace_header *h = &reader->header;
    size_t left = reader->length - reader->at;
    const unsigned char *at = reader->bytes + reader->at;
    if (left < TRACE_REQUEST_BYTES) {
        reader->cut = left > 0;
        return 0;
    }
    uint64_t use = get(at, 1);
    request->use = (enum cache_use)use;
    request->layer = (uint32_t)get(at + 2, 2);
    request->rows = (uint32_t)get(at + 4, 4);
    request->n = (uint32_t)get(at + 8, 2);
    if (use > CACHE_PREFILL || at[1])
        return fail_request(reader, path, "neither decoding nor prefill", err);
    if (request->layer < h->first_moe_layer || request->layer >= h->n_layers)
        return fail_request(reader, path, "a layer without experts", err);
    if (!request->n || request->n > h->n_routed_experts)
        return fail_request(reader, path, "more experts than the layer has, or none", err);
    if (left < TRACE_REQUEST_BYTES + 2 * (size_t)request->n) {
        reader->cut = true;
        return 0;
    }
    bool seen[TRACE_MOST_IDS] = {false};
    for (uint32_t i = 0; i < request->n; i++) {
        uint64_t id = get(at + TRACE_REQUEST_BYTES + 2 * (size_t)i, 2);
        if (id >= h->n_routed_experts || seen[id])
            return fail_request(reader, path, "an expert that the layer hasn't, or one twice", err);
        seen[id] = true;
        request->ids[i] = (uint16_t)id;
    }
    reader->at += TRACE_REQUEST_BYTES + 2 * (size_t)request->n;
    return 1;
}
