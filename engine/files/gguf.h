// SPDX-License-Identifier: GPL-3.0-or-later
// A GGUF file: its header parsed as hostile input into values by key and tensors by name. Versions 2 and 3, little end
// first (https://github.com/ggml-org/ggml, docs/gguf.md).
// Refused: other versions and the other byte order; headers of more than 128 MiB, more than 65536 keys or tensors, keys
// of more than 256 bytes, strings of more than 16 MiB, arrays of more than 4 Mi elements or of arrays; keys and names
// that are not printable ASCII or come twice; unknown types; tensors of no or more than four dimensions, of a dimension
// 0, whose rows are no whole blocks, that do not follow each other at general.alignment, or reach beyond the file.
#ifndef MOECHAT_ENGINE_FILES_GGUF_H
#define MOECHAT_ENGINE_FILES_GGUF_H

#include "engine/files/tensor_file.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

struct gguf_value {
    char *key;
    enum gguf_type type; // of an array: of its elements
    bool array;
    uint64_t count;          // elements; 1 unless it's an array
    const unsigned char *at; // the first element, in the header; a string's length comes before it
};

struct gguf {
    struct tensor_file file;
    unsigned char *header;     // owned; NULL when the caller's bytes were parsed
    struct gguf_value *values; // sorted by key
    size_t n_values;
    uint64_t alignment, data_start;
};

// On failure nothing is left open or allocated.
int gguf_open(const char *path, struct gguf *gguf, struct moe_err *err);
// The same of a file of which only the beginning may be here: offsets may lie behind its end. Not locked.
int gguf_open_beginning(const char *path, struct gguf *gguf, struct moe_err *err);
void gguf_release(struct gguf *gguf); // what was moved out of it is zero, its fd -1
// The first `length` bytes of a file of file_bytes, which must hold the whole header and outlive *gguf: the fuzz
// target's way in. file.path, for messages, and file.fd are the caller's.
int gguf_parse(const unsigned char *header, size_t length, uint64_t file_bytes, struct gguf *gguf, struct moe_err *err);

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key); // NULL: not there

struct gguf_string {
    const char *text; // not terminated; may hold any bytes
    size_t length;
};
// Strings in order: the value's (type GGUF_STRING) first, then each time the next; `at` is kept between the calls and
// begins as value->at.
struct gguf_string gguf_next_string(const unsigned char **at);
uint64_t gguf_value_bytes(const struct gguf_value *value); // of its elements, in the header
// Element i of a value of integers or bools; false when the value is of another type or the number negative.
bool gguf_integer_at(const struct gguf_value *value, uint64_t i, uint64_t *number);
// Element i of a value of numbers, whole or not; false when it is of another type.
bool gguf_number_at(const struct gguf_value *value, uint64_t i, double *number);

#endif
