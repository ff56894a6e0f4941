// SPDX-License-Identifier: GPL-3.0-or-later
// Parses a GGUF header.
#include "engine/files/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"
#include "engine/files/ggml_types.h"

#ifndef GGUF_FIRST_READ // make fuzz gives a smaller one: files that need more are rare there, and memory is slow
#define GGUF_FIRST_READ (256 << 10)
#endif

#define ANY_LENGTH (UINT64_C(1) << 50) // of a file that is still to come: nothing reaches beyond it

enum {
    MAX_HEADER = 128 << 20,
    FIRST_READ = GGUF_FIRST_READ, // grows until the header is there
    MAX_COUNT = 65536,            // of keys, of tensors
    MAX_KEY = 256,
    MAX_NAME = 63,
    MAX_STRING = 16 << 20,
    MAX_ELEMENTS = 4 << 20,
    MAX_DIMS = 4,
    LEAST_VALUE = 8 + 1 + 4 + 1,          // bytes in the header: of a key and its value,
    LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, // of a tensor
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 1 << 20
};

// Bytes of an element; of strings, the least.
static const uint32_t widths[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2,    [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_STRING] = 8, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

struct reader {
    const unsigned char *bytes;
    size_t length, at;
    uint64_t file_bytes;
    bool more; // the bytes ended, but the file goes on: the caller brings more
    struct gguf *gguf;
    struct moe_err *err;
    int failed;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct reader *r, enum moe_code code, const char *format, ...)
{
    char text[400];
    if (r->failed)
        return r->failed;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->failed = moe_fail(r->err, code, "%.280s: %s", r->gguf->file.path, text);
    return r->failed;
}

static void refuse_end(struct reader *r)
{
    refuse(r, MOE_FORMAT, "ends in the middle of its header: it is cut short, download it again");
}

// The next n bytes, or NULL after failing.
static const unsigned char *take(struct reader *r, uint64_t n)
{
    if (r->failed)
        return NULL;
    if (n <= r->length - r->at) {
        r->at += (size_t)n;
        return r->bytes + r->at - n;
    }
    r->more = r->length < r->file_bytes;
    if (r->more && r->length >= MAX_HEADER) // with less there may be more to read, or only a beginning is here
        refuse(r, MOE_FORMAT, "its header is longer than %d MiB; download the file again", MAX_HEADER >> 20);
    else
        refuse_end(r);
    return NULL;
}

static uint64_t little_end(const unsigned char *bytes, uint32_t width)
{
    uint64_t value = 0;
    for (uint32_t i = width; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static uint64_t read_number(struct reader *r, uint32_t width)
{
    const unsigned char *bytes = take(r, width);
    return bytes ? little_end(bytes, width) : 0;
}

// A copy of a key or a name, which people will see; NULL after failing.
static char *read_name(struct reader *r, const char *what, uint64_t most)
{
    uint64_t length = read_number(r, 8);
    if (!r->failed && (length == 0 || length > most))
        refuse(r, MOE_FORMAT, "a %s of %" PRIu64 " bytes; it must have 1 to %" PRIu64 ": download the file again", what,
               length, most);
    const unsigned char *bytes = take(r, length);
    if (!bytes)
        return NULL;
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] <= 0x20 || bytes[i] > 0x7e) {
            refuse(r, MOE_FORMAT, "a %s is not printable ASCII; download the file again", what);
            return NULL;
        }
    char *name = malloc((size_t)length + 1);
    if (!name) {
        refuse(r, MOE_NO_MEMORY, "no memory for its header");
        return NULL;
    }
    memcpy(name, bytes, (size_t)length);
    name[length] = '\0';
    return name;
}

// ---- Keys and values

static void skip_elements(struct reader *r, const struct gguf_value *value)
{
    if (value->type != GGUF_STRING) {
        const unsigned char *at = take(r, value->count * widths[value->type]); // at most 4 Mi of 8
        for (uint64_t i = 0; at && value->type == GGUF_BOOL && i < value->count; i++)
            if (at[i] > 1)
                refuse(r, MOE_FORMAT, "%s: is %d, neither false nor true; download the file again", value->key, at[i]);
        return;
    }
    for (uint64_t i = 0; i < value->count && !r->failed; i++) {
        uint64_t length = read_number(r, 8);
        if (!r->failed && length > MAX_STRING)
            refuse(r, MOE_FORMAT, "%s: a string of %" PRIu64 " bytes, more than %d MiB; download the file again",
                   value->key, length, MAX_STRING >> 20);
        take(r, length);
    }
}

static void read_value(struct reader *r, struct gguf_value *value)
{
    uint64_t type = read_number(r, 4);
    value->count = 1;
    value->array = type == GGUF_ARRAY;
    if (value->array) {
        type = read_number(r, 4);
        value->count = read_number(r, 8);
    }
    if (r->failed)
        return;
    if (type >= GGUF_TYPES || type == GGUF_ARRAY) {
        refuse(r, MOE_FORMAT, "%s: its type, %" PRIu64 ", is %s; download the file again", value->key, type,
               type == GGUF_ARRAY ? "an array of arrays" : "none of GGUF's");
        return;
    }
    value->type = (enum gguf_type)type;
    if (value->count > MAX_ELEMENTS) {
        refuse(r, MOE_FORMAT, "%s: has %" PRIu64 " elements, more than 4 Mi; download the file again", value->key,
               value->count);
        return;
    }
    if (value->count > (r->file_bytes - r->at) / widths[type]) {
        refuse_end(r);
        return;
    }
    value->at = r->bytes + r->at;
    skip_elements(r, value);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static void read_values(struct reader *r, uint64_t count)
{
    struct gguf *gguf = r->gguf;
    gguf->values = calloc((size_t)count + 1, sizeof *gguf->values);
    if (!gguf->values)
        refuse(r, MOE_NO_MEMORY, "no memory for its header");
    while (gguf->n_values < count && !r->failed) {
        struct gguf_value *value = &gguf->values[gguf->n_values];
        value->key = read_name(r, "key", MAX_KEY);
        if (!value->key)
            return;
        gguf->n_values++;
        read_value(r, value);
    }
    if (r->failed)
        return;
    if (gguf->n_values)
        qsort(gguf->values, gguf->n_values, sizeof *gguf->values, by_key);
    for (size_t i = 1; i < gguf->n_values; i++)
        if (strcmp(gguf->values[i].key, gguf->values[i - 1].key) == 0)
            refuse(r, MOE_FORMAT, "%s: is there twice; download the file again", gguf->values[i].key);
}

static void read_alignment(struct reader *r)
{
    const char *key = "general.alignment";
    uint64_t alignment = DEFAULT_ALIGNMENT;
    const struct gguf_value *value = gguf_find(r->gguf, key);
    if (value && (value->type != GGUF_U32 || value->array))
        refuse(r, MOE_FORMAT, "%s: is no u32; download the file again", key);
    else if (value)
        alignment = little_end(value->at, 4);
    if (alignment < 8 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)))
        refuse(r, MOE_FORMAT, "%s: is %" PRIu64 "; it must be a power of two from 8 to 1 Mi: download the file again",
               key, alignment);
    r->gguf->alignment = alignment;
}

// ---- The table of tensors

// Above `limit`: limit + 1, which no file has.
static uint64_t times(uint64_t a, uint64_t b, uint64_t limit)
{
    return b && a > limit / b ? limit + 1 : a * b;
}

static void read_type(struct reader *r, struct tensor *tensor)
{
    static const enum tensor_dtype plain[] = {[0] = DTYPE_F32, [1] = DTYPE_F16, [30] = DTYPE_BF16};
    uint32_t id = (uint32_t)read_number(r, 4);
    if (r->failed)
        return;
    struct ggml_type type;
    if (!ggml_type_find(id, &type)) {
        refuse(r, MOE_UNSUPPORTED, "tensor %s: its type, %" PRIu32 ", %s", tensor->name, id, ggml_type_refusal(id));
        return;
    }
    uint64_t row = tensor->dims[tensor->n_dims - 1];
    tensor->dtype = id == 0 || id == 1 || id == 30 ? plain[id] : DTYPE_GGML;
    tensor->ggml_type = id;
    if (row % type.block_inputs) {
        refuse(r, MOE_FORMAT,
               "tensor %s: rows of %" PRIu64 " are no whole blocks of %s (%" PRIu32 "); download it again",
               tensor->name, row, type.name, type.block_inputs);
        return;
    }
    tensor->bytes = times(row / type.block_inputs, type.bytes, r->file_bytes);
    for (uint32_t i = 0; i + 1 < tensor->n_dims; i++)
        tensor->bytes = times(tensor->bytes, tensor->dims[i], r->file_bytes);
}

static void read_tensor(struct reader *r, struct tensor *tensor)
{
    uint64_t n_dims = read_number(r, 4);
    if (!r->failed && (n_dims < 1 || n_dims > MAX_DIMS))
        refuse(r, MOE_FORMAT, "tensor %s: has %" PRIu64 " dimensions; it must have 1 to %d: download the file again",
               tensor->name, n_dims, MAX_DIMS);
    for (uint64_t i = n_dims; i-- > 0 && !r->failed;) { // the file has the row's length first
        tensor->dims[i] = read_number(r, 8);
        if (!r->failed && (tensor->dims[i] < 1 || tensor->dims[i] > INT64_MAX))
            refuse(r, MOE_FORMAT, "tensor %s: a dimension is %" PRIu64 "; download the file again", tensor->name,
                   tensor->dims[i]);
    }
    tensor->n_dims = (uint32_t)n_dims;
    if (!r->failed)
        read_type(r, tensor);
    tensor->offset = read_number(r, 8);
}

// Tensors follow each other in the order of the table, each at a multiple of the alignment.
static void read_tensors(struct reader *r, uint64_t count)
{
    struct tensor_file *file = &r->gguf->file;
    file->tensors = calloc((size_t)count + 1, sizeof *file->tensors);
    if (!file->tensors)
        refuse(r, MOE_NO_MEMORY, "no memory for its list of tensors");
    while (file->count < count && !r->failed) {
        struct tensor *tensor = &file->tensors[file->count];
        tensor->name = read_name(r, "tensor's name", MAX_NAME);
        if (!tensor->name)
            return;
        file->count++;
        read_tensor(r, tensor);
    }
}

static uint64_t padded(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) & ~(alignment - 1);
}

// Offsets become the file's own.
static void place_tensors(struct reader *r)
{
    struct gguf *gguf = r->gguf;
    struct tensor_file *file = &gguf->file;
    gguf->data_start = padded(r->at, gguf->alignment);
    uint64_t end = gguf->data_start;
    for (size_t i = 0; i < file->count && !r->failed; i++) {
        struct tensor *tensor = &file->tensors[i];
        if (tensor->offset != end - gguf->data_start)
            refuse(r, MOE_FORMAT,
                   "tensor %s: begins at %" PRIu64 " of the data, not at %" PRIu64
                   ", where the one before it ends; download the file again",
                   tensor->name, tensor->offset, end - gguf->data_start);
        else if (end > r->file_bytes || tensor->bytes > r->file_bytes - end)
            refuse(r, MOE_FORMAT,
                   "tensor %s: reaches beyond the file's %" PRIu64 " bytes: it is cut short, download it again",
                   tensor->name, r->file_bytes);
        tensor->offset = end;
        end = padded(end + tensor->bytes, gguf->alignment);
    }
    tensor_file_sort(file);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->tensors[i].name, file->tensors[i - 1].name) == 0)
            refuse(r, MOE_FORMAT, "tensor %s: is there twice; download the file again", file->tensors[i].name);
}

// ---- The file

static void read_version(struct reader *r)
{
    static const char magic[] = "GGUF";
    size_t here = r->file_bytes < 4 ? (size_t)r->file_bytes : 4;
    if (here == 0)
        refuse(r, MOE_FORMAT, "is empty; download it again");
    else if (here <= r->length && memcmp(r->bytes, magic, here) != 0)
        refuse(r, MOE_FORMAT, "not a GGUF file (those begin with GGUF); download it again or give another");
    take(r, 4);
    uint32_t version = (uint32_t)read_number(r, 4);
    if (r->failed)
        return;
    if (version && (version & 0xffff) == 0)
        refuse(r, MOE_UNSUPPORTED, "its numbers have the big end first; get a file for little-endian machines");
    else if (version < 2)
        refuse(r, MOE_UNSUPPORTED, "is of GGUF version %" PRIu32 ", which nothing writes since 2023; get a newer file",
               version);
    else if (version > 3)
        refuse(r, MOE_UNSUPPORTED,
               "is of GGUF version %" PRIu32 "; this moechat reads 2 and 3, a newer one may do more", version);
}

static uint64_t read_count(struct reader *r, const char *what, uint64_t least_bytes)
{
    uint64_t count = read_number(r, 8);
    if (r->failed)
        return 0;
    if (count > MAX_COUNT)
        refuse(r, MOE_FORMAT, "has %" PRIu64 " %s, more than %d; download the file again", count, what, MAX_COUNT);
    else if (count > (r->file_bytes - r->at) / least_bytes)
        refuse_end(r);
    return r->failed ? 0 : count;
}

static void forget(struct gguf *gguf)
{
    for (size_t i = 0; i < gguf->n_values; i++)
        free(gguf->values[i].key);
    free(gguf->values);
    gguf->values = NULL;
    gguf->n_values = 0;
    tensor_file_forget(&gguf->file);
}

// As gguf_parse; *more: the header goes on behind `length`.
static int parse(struct reader *r)
{
    struct gguf *gguf = r->gguf;
    gguf->values = NULL;
    gguf->n_values = 0;
    gguf->file.tensors = NULL;
    gguf->file.count = 0;
    read_version(r);
    uint64_t n_tensors = read_count(r, "tensors", LEAST_TENSOR);
    uint64_t n_values = read_count(r, "keys", LEAST_VALUE);
    if (!r->failed)
        read_values(r, n_values);
    if (!r->failed)
        read_alignment(r);
    if (!r->failed)
        read_tensors(r, n_tensors);
    if (!r->failed)
        place_tensors(r);
    if (r->failed)
        forget(gguf);
    return r->failed;
}

int gguf_parse(const unsigned char *header, size_t length, uint64_t file_bytes, struct gguf *gguf, struct moe_err *err)
{
    struct reader r = {.bytes = header, .length = length, .file_bytes = file_bytes, .gguf = gguf, .err = err};
    gguf->header = NULL;
    return parse(&r);
}

// Reads the first `length` bytes and parses them.
static int read_header(struct gguf *gguf, size_t length, uint64_t file_bytes, bool *more, struct moe_err *err)
{
    const struct file_range range = {gguf->file.fd, gguf->file.path, 0, length};
    *more = false;
    gguf->header = malloc(length + 1);
    if (!gguf->header)
        return moe_fail_file(err, MOE_NO_MEMORY, gguf->file.path, 0, "no memory for its header");
    int code = file_read(&range, gguf->header, err);
    struct reader r = {.bytes = gguf->header, .length = length, .file_bytes = file_bytes, .gguf = gguf, .err = err};
    if (!code)
        code = parse(&r);
    *more = r.more;
    if (code) {
        free(gguf->header);
        gguf->header = NULL;
    }
    return code;
}

static int open_file(const char *path, bool whole, struct gguf *gguf, struct moe_err *err)
{
    memset(gguf, 0, sizeof *gguf);
    snprintf(gguf->file.path, sizeof gguf->file.path, "%s", path);
    uint64_t bytes;
    int code = file_open(path, &gguf->file.fd, &bytes, err);
    if (code)
        return code;
    if (whole)
        code = file_lock_shared(gguf->file.fd, path, err);
    bool more = !code;
    for (uint64_t read = FIRST_READ; more && read <= MAX_HEADER; read = read < MAX_HEADER / 8 ? read * 8 : read * 2) {
        code = read_header(gguf, (size_t)(read < bytes ? read : bytes), whole ? bytes : ANY_LENGTH, &more, err);
        more = more && read < bytes;
    }
    if (code)
        gguf_release(gguf);
    return code;
}

int gguf_open(const char *path, struct gguf *gguf, struct moe_err *err)
{
    return open_file(path, true, gguf, err);
}

int gguf_open_beginning(const char *path, struct gguf *gguf, struct moe_err *err)
{
    return open_file(path, false, gguf, err);
}

void gguf_release(struct gguf *gguf)
{
    forget(gguf);
    tensor_file_release(&gguf->file);
    free(gguf->header);
    gguf->header = NULL;
}

// ---- What a value says

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key)
{
    struct gguf_value wanted = {.key = (char *)key};
    return gguf->n_values ? bsearch(&wanted, gguf->values, gguf->n_values, sizeof *gguf->values, by_key) : NULL;
}

struct gguf_string gguf_next_string(const unsigned char **at)
{
    struct gguf_string string = {(const char *)*at + 8, (size_t)little_end(*at, 8)};
    *at += 8 + string.length;
    return string;
}

uint64_t gguf_value_bytes(const struct gguf_value *value)
{
    const unsigned char *end = value->at;
    for (uint64_t i = 0; value->type == GGUF_STRING && i < value->count; i++)
        gguf_next_string(&end);
    return value->type == GGUF_STRING ? (uint64_t)(end - value->at) : value->count * widths[value->type];
}

bool gguf_integer_at(const struct gguf_value *value, uint64_t i, uint64_t *number)
{
    uint32_t width = widths[value->type];
    if (value->type == GGUF_F32 || value->type == GGUF_F64 || value->type == GGUF_STRING)
        return false;
    *number = little_end(value->at + i * width, width);
    bool is_signed =
        value->type == GGUF_I8 || value->type == GGUF_I16 || value->type == GGUF_I32 || value->type == GGUF_I64;
    return !is_signed || *number >> (8 * width - 1) == 0;
}

bool gguf_number_at(const struct gguf_value *value, uint64_t i, double *number)
{
    uint32_t width = widths[value->type];
    uint64_t bits;
    if (value->type == GGUF_STRING || value->type == GGUF_BOOL)
        return false;
    if (gguf_integer_at(value, i, &bits)) {
        *number = (double)bits;
        return true;
    }
    bits = little_end(value->at + i * width, width);
    if (value->type == GGUF_F32) {
        uint32_t narrow = (uint32_t)bits;
        float single;
        memcpy(&single, &narrow, sizeof single);
        *number = (double)single;
    } else if (value->type == GGUF_F64) {
        memcpy(number, &bits, sizeof *number);
    } else {
        *number = -(double)(width < 8 ? (1ULL << (8 * width)) - bits : 0 - bits); // a negative integer
    }
    return true;
}
