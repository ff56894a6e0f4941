// SPDX-License-Identifier: GPL-3.0-or-later
// Writes the header of resident.gguf, and gives its tensors their places.
#include "engine/convert/job_gguf.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/gguf.h"

enum { VERSION = 3 };

// A header that grows, or is only measured: bytes NULL.
struct header {
    unsigned char *bytes;
    uint64_t length;
};

static void put(struct header *to, const void *from, uint64_t bytes)
{
    if (to->bytes)
        memcpy(to->bytes + to->length, from, (size_t)bytes);
    to->length += bytes;
}

static void put_number(struct header *to, uint64_t number, uint32_t width)
{
    unsigned char bytes[8];
    for (uint32_t i = 0; i < width; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    put(to, bytes, width);
}

static void put_string(struct header *to, const char *text)
{
    put_number(to, strlen(text), 8);
    put(to, text, strlen(text));
}

static bool is_of_a_part(const struct gguf_value *value)
{
    static const char split[] = "split.";
    return strncmp(value->key, split, sizeof split - 1) == 0;
}

static void put_value(struct header *to, const struct gguf_value *value)
{
    put_string(to, value->key);
    if (value->array)
        put_number(to, GGUF_ARRAY, 4);
    put_number(to, value->type, 4);
    if (value->array)
        put_number(to, value->count, 8);
    put(to, value->at, gguf_value_bytes(value));
}

static void put_tensor(struct header *to, const struct job_tensor *planned, uint64_t offset)
{
    const struct tensor *at = planned->copy->at;
    put_string(to, at->name);
    put_number(to, at->n_dims, 4);
    for (uint32_t i = at->n_dims; i-- > 0;) // the file has the row's length first
        put_number(to, at->dims[i], 8);
    put_number(to, at->ggml_type, 4);
    put_number(to, offset, 8);
}

static uint64_t padded(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static void put_header(struct header *to, const struct job *job)
{
    const struct gguf *gguf = job->from->gguf;
    uint64_t n_values = 0;
    uint64_t offset = 0;
    to->length = 0;
    for (size_t i = 0; i < gguf->n_values; i++)
        n_values += !is_of_a_part(&gguf->values[i]);
    put(to, "GGUF", 4);
    put_number(to, VERSION, 4);
    put_number(to, job->count, 8);
    put_number(to, n_values, 8);
    for (size_t i = 0; i < gguf->n_values; i++)
        if (!is_of_a_part(&gguf->values[i]))
            put_value(to, &gguf->values[i]);
    for (size_t i = 0; i < job->count; i++) {
        put_tensor(to, &job->tensors[i], offset);
        offset = padded(offset + job->tensors[i].bytes, gguf->alignment);
    }
}

// As the files have them, which is how they are read best.
static int by_place(const void *a, const void *b)
{
    const struct checkpoint_tensor *x = ((const struct job_tensor *)a)->copy;
    const struct checkpoint_tensor *y = ((const struct job_tensor *)b)->copy;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->at->offset < y->at->offset ? -1 : x->at->offset > y->at->offset;
}

int job_gguf_resident(struct job *job, struct moe_err *err)
{
    uint64_t alignment = job->from->gguf->alignment;
    struct header header = {NULL, 0};
    job->resident_file = "resident.gguf";
    job->version = 2;
    for (size_t i = 0; i < job->from->count; i++) {
        const struct checkpoint_tensor *tensor = &job->from->tensors[i];
        if (checkpoint_is_routed(tensor))
            continue;
        job_add_copy(job, tensor);
        job->n_copied += tensor->at->n_dims > 1;
    }
    qsort(job->tensors, job->count, sizeof *job->tensors, by_place);
    put_header(&header, job);
    job->header_bytes = padded(header.length, alignment);
    header.bytes = calloc(1, (size_t)job->header_bytes);
    if (!header.bytes)
        return moe_fail(err, MOE_NO_MEMORY, "no memory for the header of resident.gguf");
    put_header(&header, job);
    job->header = (char *)header.bytes;
    uint64_t end = job->header_bytes;
    for (size_t i = 0; i < job->count; i++) {
        job->tensors[i].offset = end;
        end = padded(end + job->tensors[i].bytes, alignment);
    }
    job->resident_bytes = end;
    job->bytes += end;
    return MOE_OK;
}
