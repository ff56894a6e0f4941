// SPDX-License-Identifier: GPL-3.0-or-later
// Routing traces: which experts were asked for, request by request, as --trace writes them and `moechat bench cache`
// replays them. The format is moechat-trace(5).
//
// Reading trusts nothing: every number is checked against the header's, and a file that was cut off is read up to its
// last whole request.
#ifndef MOECHAT_ENGINE_EXPERTS_TRACE_H
#define MOECHAT_ENGINE_EXPERTS_TRACE_H

#include "engine/experts/cache_policy.h"
#include "engine/moe.h"

enum {
    TRACE_HEADER_BYTES = 64,
    TRACE_REQUEST_BYTES = 10,
    TRACE_NAME_BYTES = 24,
    TRACE_MOST_IDS = 4096,
    TRACE_MOST_LAYERS = 1024
};

struct trace_header {
    char model[TRACE_NAME_BYTES + 1];
    uint32_t n_layers, first_moe_layer, n_routed_experts, top_k;
    uint64_t slot_bytes;
};

struct trace_request {
    enum cache_use use; // CACHE_DECODE or CACHE_PREFILL
    uint32_t layer;
    uint32_t rows; // tokens that asked
    uint32_t n;
    uint16_t ids[TRACE_MOST_IDS]; // distinct
};

// ---- Writing: buffered; `trace_write` writes out about once a token.
typedef struct trace_writer trace_writer;
int trace_create(const char *path, const struct trace_header *header, trace_writer **writer, struct moe_err *err);
int trace_write(trace_writer *writer, const struct trace_request *request, struct moe_err *err);
// Writes what is left, and frees the writer whatever comes of it; NULL is fine.
int trace_finish(trace_writer *writer, struct moe_err *err);

// ---- Reading from memory
struct trace_reader {
    const unsigned char *bytes;
    size_t length, at;
    struct trace_header header;
    bool cut; // the last request isn't whole
};
// `path` is for messages.
int trace_read_header(struct trace_reader *reader, const char *path, struct moe_err *err);
// 1: *request is the next; 0: the end; a negative moe_code: damaged, with *err.
int trace_next(struct trace_reader *reader, const char *path, struct trace_request *request, struct moe_err *err);

#endif
