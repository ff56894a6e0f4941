// SPDX-License-Identifier: GPL-3.0-or-later
// A record of cache rows and states as it lies in a file (moechat-session(5)), little end first:
//
//     struct record_header
//     struct record_stream of each stream; only in version 2
//     uint64 checksum of each block
//     blocks of the rows:   stream after stream, each its `count` rows; cut every block_bytes
//     blocks of the states: stream after stream, float32, cut the same way, from a block of their own on
//     blocks of the logits: vocab_size float32, the same; none without logits
//
// Version 1 is of models whose layers all have one stream of rows, as wide as the others', and no states; all others
// have version 2. Checksums are XXH3 of 64 bits: of a block's bytes, of their table, and of the header before its own
// with the streams behind it. No session and no device here. Nothing that a file says is used before it is checked.
#ifndef MOECHAT_ENGINE_SESSION_KV_RECORD_H
#define MOECHAT_ENGINE_SESSION_KV_RECORD_H

#include "engine/moe.h"

enum {
    RECORD_PLAIN = 1, // versions
    RECORD_STREAMS = 2,
    RECORD_BLOCK = 2 << 20,
    RECORD_SMALLEST_BLOCK = 4096,
    RECORD_LARGEST_BLOCK = 4 << 20,
    RECORD_STAGES = 8, // blocks in memory while a record is read
};

struct record_header {
    char magic[8];
    uint32_t version;
    uint32_t kv_type; // enum moe_kv_type
    uint32_t n_layers;
    union {
        uint32_t row_width; // version 1: elements of one layer's row
        uint32_t n_streams; // version 2
    };
    uint32_t first, count; // count 0: no rows, but the states after `first` tokens, at least one
    uint32_t vocab_size;   // 0: no logits
    uint32_t block_bytes;
    char fingerprint[64]; // of the weights, hex
    uint64_t table_checksum;
    uint64_t checksum; // of all fields before, and of the streams
};

// What one layer has of one kind. All rows come before all states; each ascend by layer, then by `which`.
struct record_stream {
    uint32_t layer;
    uint32_t which; // of the layer's
    uint32_t width; // elements of a row, or floats of a state
    uint32_t every; // tokens that a row is of, so far always 1; 0: a state
};

enum record_section { RECORD_ROWS, RECORD_STATES, RECORD_LOGITS, RECORD_SECTIONS };

// Where things are, from a header whose numbers are in range; offsets are relative to the record's start.
struct record_layout {
    struct record_header header;
    struct record_stream *streams; // [n_streams], owned; of version 1 as if they were in the file
    uint32_t n_streams;
    uint32_t element_bytes;          // of the rows
    uint64_t bytes[RECORD_SECTIONS]; // of all streams
    uint64_t blocks[RECORD_SECTIONS];
    uint64_t n_blocks;
    uint64_t table_offset; // of the checksums
    uint64_t data_offset;  // of block 0
    uint64_t total_bytes;  // of the whole record
};

// Takes version, numbers and streams (of version 1: none) over; sets magic and everything that follows. The caller
// releases the layout. MOE_RECORD_DAMAGED when a number is out of range; MOE_NO_MEMORY.
enum moe_code kv_record_lay_out(const struct record_header *header, const struct record_stream *streams,
                                struct record_layout *layout);
void kv_record_release(struct record_layout *layout);
// Bytes of the streams as they are in the file.
size_t kv_record_streams_bytes(const struct record_header *header);
// The header's own checksum.
uint64_t kv_record_sum(const struct record_header *header, const struct record_stream *streams);

struct record_block {
    uint64_t at;    // offset of its bytes in the record
    uint64_t start; // and among its section's
    size_t bytes;
    enum record_section section;
};
struct record_block kv_record_block_at(const struct record_layout *layout, uint64_t block);
// The size of the largest block.
size_t kv_record_block_max(const struct record_layout *layout);

// An error with file, offset and a sentence.
struct record_place {
    const struct moe_record_io *io;
    uint64_t offset;
};
__attribute__((format(printf, 4, 5))) int kv_record_fail(struct moe_err *err, enum moe_code code,
                                                         const struct record_place *place, const char *format, ...);

// Reads and checks a header and its streams: magic, version, checksum, ranges. The caller releases the layout.
int kv_record_read_header(const struct moe_record_io *io, uint64_t offset, struct record_layout *layout,
                          struct moe_err *err);
// MOE_RECORD_OTHER when the header is not the one that the manifest names.
int kv_record_compare(const struct moe_record_io *io, const struct moe_record *record,
                      const struct record_layout *layout, struct moe_err *err);
// The longest piece of a section's bytes, from `at` on, that belongs to one stream; `left` are wanted.
struct record_piece {
    const struct record_stream *stream;
    uint64_t within; // the stream's own bytes
    size_t bytes;
};
struct record_piece kv_record_piece_at(const struct record_layout *layout, enum record_section section, uint64_t at,
                                       size_t left);
void kv_record_describe(const struct record_layout *layout, uint64_t offset, struct moe_record *record);

// Takes a block whose checksum was right. Non-zero stops the reading with that code, *err filled.
typedef int record_take_fn(void *context, const struct record_block *block, const void *bytes, struct moe_err *err);

// Blocks [from, layout->n_blocks) of a record on their way to `take`, in no fixed order. The reading runs ahead of the
// taking by as many blocks as fit into `staging`.
struct record_reading {
    const struct moe_record_io *io;
    uint64_t offset; // of the record
    const struct record_layout *layout;
    uint64_t from;
    char *staging; // stages * kv_record_block_max
    uint32_t stages;
    record_take_fn *take; // NULL: only the checksums are of interest
    void *context;
    const char *what; // for the progress
};
uint32_t kv_record_stages(const struct record_layout *layout, uint64_t from);
int kv_record_read_blocks(const struct record_reading *reading, struct moe_err *err);

// Writes all bytes at `place`.
int kv_record_write(const struct record_place *place, const void *source, size_t bytes, struct moe_err *err);
uint64_t kv_record_checksum(const void *bytes, size_t count);

#endif
