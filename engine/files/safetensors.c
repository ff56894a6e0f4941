// SPDX-License-Identifier: GPL-3.0-or-later
// Parses a safetensors header.
#include "engine/files/safetensors.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/fields.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"

// The tree of a header takes up to 36 times its bytes. Real ones need 150 bytes a tensor.
enum { MAX_DIMS = TENSOR_DIMS, MAX_HEADER = 32 << 20, LENGTH_BYTES = 8 };

static const struct dtype_info {
    const char *name;
    uint32_t bytes;
} dtypes[] = {
    [DTYPE_BF16] = {"BF16", 2}, [DTYPE_F16] = {"F16", 2}, [DTYPE_F32] = {"F32", 4},
    [DTYPE_U8] = {"U8", 1},     [DTYPE_I8] = {"I8", 1},   [DTYPE_U32] = {"U32", 4},
    [DTYPE_I32] = {"I32", 4},   [DTYPE_I64] = {"I64", 8}, [DTYPE_F8_E4M3] = {"F8_E4M3", 1},
};

// Dims of a tensor and the bytes they make; refuses products beyond the file.
static uint64_t read_shape(struct fields *f, struct tensor *tensor, uint64_t data_bytes)
{
    struct json_object *dims = fields_array(f, "shape", (struct integer_range){0, MAX_DIMS});
    uint64_t bytes = dtypes[tensor->dtype].bytes;
    bool empty = false;
    tensor->n_dims = dims ? (uint32_t)json_object_array_length(dims) : 0;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        uint64_t dim = fields_element(f, "shape", i, (struct integer_range){0, INT64_MAX});
        tensor->dims[i] = dim;
        empty |= dim == 0;
        if (dim && bytes > data_bytes / dim) {
            bytes = data_bytes + 1; // stays beyond, whatever follows but a 0
            continue;
        }
        bytes *= dim ? dim : 1;
    }
    return empty ? 0 : bytes;
}

static int read_tensor(struct fields *f, struct tensor *tensor, uint64_t data_start, uint64_t data_bytes)
{
    char dtype[16];
    fields_text(f, "dtype", dtype, sizeof dtype);
    size_t type = 0;
    while (type < sizeof dtypes / sizeof dtypes[0] && strcmp(dtypes[type].name, dtype) != 0)
        type++;
    if (type == sizeof dtypes / sizeof dtypes[0])
        return fields_fail(f, MOE_UNSUPPORTED, "dtype", "is \"%s\", which moechat does not read", dtype);
    tensor->dtype = (enum tensor_dtype)type;
    uint64_t bytes = read_shape(f, tensor, data_bytes);
    fields_array(f, "data_offsets", (struct integer_range){2, 2});
    uint64_t begin = fields_element(f, "data_offsets", 0, (struct integer_range){0, INT64_MAX});
    uint64_t end = fields_element(f, "data_offsets", 1, (struct integer_range){begin, INT64_MAX});
    if (!f->failed && end > data_bytes)
        return fields_fail(f, MOE_FORMAT, "data_offsets",
                           "reach to %" PRIu64 " and the file has %" PRIu64 ": it is cut short, download it again", end,
                           data_bytes);
    if (!f->failed && end - begin != bytes)
        return fields_fail(f, MOE_FORMAT, "data_offsets", "hold %" PRIu64 " bytes, dtype and shape do not",
                           end - begin);
    tensor->offset = data_start + begin;
    tensor->bytes = end - begin;
    return f->failed;
}

static int by_offset(const void *a, const void *b)
{
    const struct tensor *x = a;
    const struct tensor *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

// The data must be tiled by the tensors, without overlaps or holes.
static int check_tiling(struct tensor_file *file, uint64_t data_start, uint64_t file_bytes, struct moe_err *err)
{
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
    uint64_t end = data_start;
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].offset != end)
            return moe_fail(err, MOE_FORMAT, "%.280s: %.80s: its data %s; download the file again", file->path,
                            file->tensors[i].name,
                            file->tensors[i].offset < end ? "overlaps another tensor's" : "comes after a hole");
        end += file->tensors[i].bytes;
    }
    if (end != file_bytes)
        return moe_fail(err, MOE_FORMAT,
                        "%.280s: is %" PRIu64 " bytes, its tensors need %" PRIu64 "; download it again", file->path,
                        file_bytes, end);
    tensor_file_sort(file);
    return MOE_OK;
}

// Names are shown to people and compared with ours: printable ASCII, as all checkpoints' are.
static bool good_name(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (name[i] <= 0x20 || name[i] > 0x7e)
            return false;
    return length > 0 && length < 256;
}

static int add_tensors(struct json_object *root, uint64_t data_start, uint64_t file_bytes, struct tensor_file *file,
                       struct moe_err *err)
{
    file->tensors = calloc((size_t)json_object_object_length(root) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return moe_fail_file(err, MOE_NO_MEMORY, file->path, 0, "no memory for its list of tensors");
    struct json_object_iter member;
    json_object_object_foreachC(root, member)
    {
        if (strcmp(member.key, "__metadata__") == 0)
            continue;
        if (!good_name(member.key))
            return moe_fail_file(err, MOE_FORMAT, file->path, 0,
                                 "a tensor's name is not 1 to 255 printable ASCII characters; download the file again");
        char prefix[96];
        snprintf(prefix, sizeof prefix, "%.90s.", member.key);
        struct fields all = {.object = root, .file = file->path, .prefix = "", .err = err};
        struct fields f = {.file = file->path, .prefix = prefix, .err = err};
        f.object = fields_object(&all, member.key);
        if (all.failed)
            return all.failed;
        struct tensor *tensor = &file->tensors[file->count];
        tensor->name = strdup(member.key);
        if (!tensor->name)
            return moe_fail_file(err, MOE_NO_MEMORY, file->path, 0, "no memory for its list of tensors");
        file->count++;
        if (read_tensor(&f, tensor, data_start, file_bytes - data_start))
            return f.failed;
    }
    return check_tiling(file, data_start, file_bytes, err);
}

int safetensors_parse(const char *json, size_t length, uint64_t data_start, uint64_t file_bytes,
                      struct tensor_file *file, struct moe_err *err)
{
    file->tensors = NULL;
    file->count = 0;
    if (data_start > file_bytes)
        return moe_fail_file(err, MOE_FORMAT, file->path, 0, "its header is longer than the file; download it again");
    struct json_object *root;
    int code = fields_parse(json, length, file->path, &root, err);
    if (code)
        return code;
    code = add_tensors(root, data_start, file_bytes, file, err);
    json_object_put(root);
    if (code)
        tensor_file_forget(file);
    return code;
}

// The header's length, of a file of so many bytes. MOE_FORMAT: it is not all there, or there is none.
static int read_length(int fd, const char *path, uint64_t bytes, uint64_t *length, struct moe_err *err)
{
    unsigned char prefix[LENGTH_BYTES] = {0};
    int code = MOE_OK;
    *length = 0;
    if (bytes == 0)
        return moe_fail_file(err, MOE_FORMAT, path, 0, "is empty; download it again");
    if (bytes >= sizeof prefix)
        code = file_read(&(struct file_range){fd, path, 0, sizeof prefix}, prefix, err);
    for (int i = 7; i >= 0; i--)
        *length = *length << 8 | prefix[i];
    if (!code && bytes >= sizeof prefix && (*length == 0 || *length > MAX_HEADER))
        return moe_fail_file(err, MOE_FORMAT, path, 0,
                             "not a safetensors file (its header would not fit); download it again");
    if (!code && (bytes < sizeof prefix || *length > bytes - sizeof prefix))
        return moe_fail_file(err, MOE_FORMAT, path, 0,
                             "ends in the middle of its header: it is cut short, download it again");
    return code;
}

uint64_t safetensors_needs(int fd, const char *path, uint64_t has)
{
    uint64_t length, most = 0;
    struct moe_err ignored;
    struct json_object *root;
    if (read_length(fd, path, has, &length, &ignored))
        return 0;
    char *header = malloc((size_t)length);
    const struct file_range range = {fd, path, LENGTH_BYTES, (size_t)length};
    bool read = header && file_read(&range, header, &ignored) == 0 &&
                fields_parse(header, (size_t)length, path, &root, &ignored) == 0;
    free(header);
    if (!read)
        return 0;
    struct json_object_iter member;
    json_object_object_foreachC(root, member)
    {
        struct json_object *offsets = json_object_is_type(member.val, json_type_object)
                                          ? json_object_object_get(member.val, "data_offsets")
                                          : NULL;
        struct json_object *end =
            json_object_is_type(offsets, json_type_array) && json_object_array_length(offsets) == 2
                ? json_object_array_get_idx(offsets, 1)
                : NULL;
        int64_t bytes = json_object_is_type(end, json_type_int) ? json_object_get_int64(end) : 0;
        most = bytes > 0 && (uint64_t)bytes > most ? (uint64_t)bytes : most;
    }
    json_object_put(root);
    return LENGTH_BYTES + length + most;
}

int safetensors_open(const char *path, struct tensor_file *file, struct moe_err *err)
{
    memset(file, 0, sizeof *file);
    snprintf(file->path, sizeof file->path, "%s", path);
    uint64_t bytes;
    int code = file_open(path, &file->fd, &bytes, err);
    if (code)
        return code;
    char *header = NULL;
    uint64_t length = 0;
    code = file_lock_shared(file->fd, path, err);
    if (!code)
        code = read_length(file->fd, path, bytes, &length, err);
    if (code)
        goto close_file;
    header = malloc((size_t)length);
    code = header ? file_read(&(struct file_range){file->fd, path, LENGTH_BYTES, (size_t)length}, header, err)
                  : moe_fail_file(err, MOE_NO_MEMORY, path, 0, "no memory for its header");
    if (!code)
        code = safetensors_parse(header, (size_t)length, LENGTH_BYTES + length, bytes, file, err);
    free(header);
    if (!code)
        return MOE_OK;
close_file:
    close(file->fd);
    file->fd = -1;
    return code;
}
