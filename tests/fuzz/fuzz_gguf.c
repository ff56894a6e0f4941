// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a GGUF file's beginning, whose data are as many as the first two bytes say: refused with one line, or
// values and tensors that are all found by name and lie within the file.
#include <stdlib.h>
#include <string.h>

#include "engine/files/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool so)
{
    if (!so)
        abort();
}

// Every element can be looked at.
static void read_value(const struct gguf_value *value)
{
    const unsigned char *at = value->at;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < value->count; i++) {
        uint64_t whole = 0;
        double number = 0;
        if (value->type == GGUF_STRING) {
            struct gguf_string string = gguf_next_string(&at);
            for (size_t k = 0; k < string.length; k++)
                sum += (unsigned char)string.text[k];
        } else if (!gguf_integer_at(value, i, &whole)) {
            gguf_number_at(value, i, &number);
        }
        sum += whole;
    }
    must(sum != 1 || value->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf gguf = {.file = {.path = "F", .fd = -1}};
    struct moe_err err = {.text = ""};
    if (size < 2)
        return 0;
    uint64_t end = size - 2 + data[0] + 256U * data[1];
    int code = gguf_parse(data + 2, size - 2, end, &gguf, &err);
    if (code) {
        must((int)err.code == code && strncmp(err.text, "F: ", 3) == 0 && !strchr(err.text, '\n'));
        return 0;
    }
    for (size_t i = 0; i < gguf.n_values; i++) {
        must(gguf_find(&gguf, gguf.values[i].key) == &gguf.values[i]);
        read_value(&gguf.values[i]);
    }
    for (size_t i = 0; i < gguf.file.count; i++) {
        const struct tensor *t = &gguf.file.tensors[i];
        must(t->n_dims >= 1 && t->n_dims <= 4 && t->bytes > 0 && t->bytes <= end && t->offset <= end - t->bytes);
        must(t->offset >= gguf.data_start && t->offset % gguf.alignment == 0);
        must(tensor_file_find(&gguf.file, t->name) == t);
    }
    gguf_release(&gguf);
    return 0;
}
