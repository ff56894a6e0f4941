// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a safetensors header, against a file whose size is the first two bytes: refused with one line, or
// tensors that tile the data and are all found by name.
#include <stdlib.h>
#include <string.h>

#include "engine/files/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tensor_file file = {.path = "F", .fd = -1};
    struct moe_err err = {.text = ""};
    if (size < 2)
        return 0;
    uint64_t start = 8 + size - 2;
    uint64_t end = start + data[0] + 256U * data[1];
    int code = safetensors_parse((const char *)data + 2, size - 2, start, end, &file, &err);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "F: ", 3) == 0 && !strchr(err.text, '\n'));
        return 0;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor *t = &file.tensors[i];
        must(t->n_dims <= 4 && t->offset >= start && t->bytes <= end - start && t->offset <= end - t->bytes);
        must(tensor_file_find(&file, t->name) == t);
        bytes += t->bytes;
    }
    must(bytes == end - start);
    tensor_file_release(&file);
    return 0;
}
