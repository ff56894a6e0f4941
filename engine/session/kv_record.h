// SPDX-License-Identifier: GPL-3.0-or-later
// A record of cache rows as it lies in a file (moechat-session(5)), little end first:
//
//     struct record_header
//     uint64 checksum of each block
//     blocks of the rows:   layer after layer, each its `count` rows; cut every block_bytes
//     blocks of the logits: vocab_size float32, cut the same way, from a block of their own on; none without logits
//
// Checksums are XXH3 of 64 bits: of a block's bytes, of the table, and of the header before its own. No session and no
// device here. Nothing that a file says is used before it is checked.
#ifndef MOECHAT_ENGINE_SESSION_KV_RECORD_H
#define MOECHAT_ENGINE_SESSION_KV_RECORD_H

#include "engine/moe.h"

enum {
    RECORD_VERSION = 1,
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
    uint32_t row_width; // elements of one layer's row
    uint32_t first, count;
    uint32_t vocab_size; // 0: no logits
    uint32_t block_bytes;
    char fingerprint[64]; // of the weights, hex
    uint64_t table_checksum;
    uint64_t checksum; // of all fields before
};

// Where things are, from a header whose numbers are in range; offsets are relative to the record's start.
struct record_layout {
    struct record_header header;
    uint64_t row_bytes;   // one row of one layer
    uint64_t layer_bytes; // count rows
    uint64_t rows_bytes;  // of all layers
    uint64_t logits_bytes;
    uint64_t n_row_blocks;
    uint64_t n_blocks;
    uint64_t data_offset; // of block 0
    uint64_t bytes;       // of the whole record
};

// Sets magic, version and everything that follows from the header's numbers. False when one of them is out of range.
bool kv_record_lay_out(const struct record_header *header, struct record_layout *layout);
// Sets the header's own checksum.
void kv_record_seal(struct record_header *header);

struct record_block {
    uint64_t at;    // offset of its bytes in the record
    uint64_t start; // and among the rows' bytes, or among the logits'
    size_t bytes;
    bool is_logits;
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

// Reads and checks a header: magic, version, checksum, ranges.
int kv_record_read_header(const struct moe_record_io *io, uint64_t offset, struct record_layout *layout,
                          struct moe_err *err);
// MOE_RECORD_OTHER when the header is not the one that the manifest names.
int kv_record_compare(const struct moe_record_io *io, const struct moe_record *record,
                      const struct record_layout *layout, struct moe_err *err);
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
